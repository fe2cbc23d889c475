"""Redelivery delays and delivery counts of a classic queue, in the log of the node. Compiled.

Owned by the host of the queue. The messages that begin to wait in a turn are one ENTRY of an owner
of their own (DELAYS_OWNER and the queue's uid). A row counts until its message is returned again or
leaves the queue. Entries are released in their order: while one message stays for long, the rows
behind it that still count are written again, so that no more than about two rows for each message
with a count are in the log. A queue that delays no message writes nothing.
"""

from collections import deque
from struct import Struct, iter_unpack
from typing import Final, final

from mypy_extensions import i64

from queues.hosts.found_state import found_delay
from queues.hosts.id_log import IDS_OWNER_END
from queues.hosts.journal import Journal
from queues.machine.delays import Delayed
from queues.machine.fifo import Fifo

DELAYS_OWNER: Final = IDS_OWNER_END  # above all owners of ids; an owner of delays is this and a uid
ROW: Final = Struct("<QqQ")  # message, when its wait ends (ms since 1970), its attempts
SLACK: Final = 1024  # rows that need not count any more
LOOK: Final = 4096  # rows that are looked at in one turn


def queue_of_delays(owner: int) -> int:
    """The uid of the queue whose delays this owner has; 0: it is none."""
    return owner - DELAYS_OWNER if owner > DELAYS_OWNER else 0


@final
class DelayLog:
    """Invariant: `_entries` has the index and the rows of each entry that is not released,
    ascending; rows of the first one before `_at` do not count any more. `_row_count` is the number
    of the other rows."""

    def __init__(self, uid: i64, journal: Journal) -> None:
        self._owner: int = DELAYS_OWNER + uid
        self._journal = journal
        self._entries: deque[tuple[int, bytes]] = deque()
        self._at = 0
        self._row_count = 0
        self._index = 0  # of the last entry

    def write(self, delayed: list[Delayed]) -> None:
        """These messages wait from now on; they are durable with this turn."""
        self._append(b"".join([ROW.pack(seq, due, tries) for seq, due, tries in delayed]))

    def _append(self, content: bytes) -> None:
        self._index += 1
        self._entries.append((self._index, content))
        self._row_count += len(content) // ROW.size
        self._journal.entry_of(self._owner, self._index, content)

    def tidy(self, machine: Fifo) -> None:
        """Release entries none of whose rows counts, and move rows that keep others from that."""
        looked = 0
        kept: list[bytes] = []
        released = 0
        while len(self._entries) > 0 and looked < LOOK:
            index, content = self._entries[0]
            moves = self._row_count > 2 * machine.attempts.count + SLACK
            while self._at < len(content) and looked < LOOK:
                row = content[self._at : self._at + ROW.size]
                seq, _, tries = ROW.unpack(row)
                if machine.attempts.get(seq) == tries:
                    if not moves:
                        break
                    kept.append(row)
                self._at += ROW.size
                self._row_count -= 1
                looked += 1
            if self._at < len(content):
                break
            self._entries.popleft()
            self._at = 0
            released = index
        if len(kept) > 0:
            self._append(b"".join(kept))
        if released > 0:
            self._journal.release_entries(self._owner, released)

    def drop(self) -> None:
        """The queue is gone, or another host has its messages."""
        if len(self._entries) > 0:
            self._journal.release_entries(self._owner, self._index)
            self._entries.clear()
            self._at = 0
            self._row_count = 0

    def found(self, index: int, content: bytes) -> None:
        """An entry that an earlier process has left; called in ascending order."""
        self._index = index
        whole = content[: len(content) - len(content) % ROW.size]
        self._entries.append((index, whole))
        self._row_count += len(whole) // ROW.size

    def restore(self, machine: Fifo) -> None:
        """The messages are ready: have those wait again that had not waited for long enough. Of the
        rows of a message the last one counts."""
        newest: dict[int, tuple[int, int]] = {}
        for _, content in self._entries:
            for seq, due_ms, tries in iter_unpack(ROW.format, content):
                newest[seq] = due_ms, tries
        for seq, (due_ms, tries) in newest.items():
            found_delay(machine, seq, due_ms, tries)
