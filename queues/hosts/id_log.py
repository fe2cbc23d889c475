"""The ids of duplicate detection that a classic queue remembers, in the log of the node. Compiled.

Owned by the host of the queue. What the queue remembers in a turn is one ENTRY of an owner of its
own (IDS_OWNER and the queue's uid) behind the messages that brought the ids. Ids are forgotten in
the order in which they came, so an entry is released once all of its ids are forgotten.

An id that was forgotten may be in the log for a while, and be remembered again after a restart.
Ids of messages that are in no log are not in it either: after a restart they may come again.
"""

from collections import deque
from struct import Struct, iter_unpack
from typing import Final, final

from mypy_extensions import i64

from queues.hosts.journal import Journal
from queues.machine.known_ids import DIGEST_BYTES, Fresh, KnownIds

IDS_OWNER: Final = 1 << 48  # above all uids; an owner of ids is this and a uid
IDS_OWNER_END: Final = 1 << 49
ROW: Final = Struct("<Q16s")  # message, digest of its id


def queue_of_ids(owner: int) -> int:
    """The uid of the queue whose ids this owner has; 0: it is none."""
    return owner - IDS_OWNER if IDS_OWNER < owner < IDS_OWNER_END else 0


@final
class IdLog:
    """Invariant: `_entries` has the index and the last id, by the number that `KnownIds` gives it,
    of each entry that is not released, ascending."""

    def __init__(self, uid: i64, journal: Journal) -> None:
        self._owner: int = IDS_OWNER + uid
        self._journal = journal
        self._entries: deque[tuple[int, int]] = deque()
        self._index = 0  # of the last entry
        self._found: list[tuple[int, bytes]] = []  # by a recovery: entries and their rows
        self.last_message: i64 = 0  # the highest one whose id is in the log

    def write(self, fresh: list[Fresh]) -> None:
        """The queue remembers these ids from now on; they are durable with this turn."""
        self._index += 1
        rows = [ROW.pack(seq, digest) for _, seq, digest in fresh]
        number, seq, _ = fresh[len(fresh) - 1]
        self.last_message = max(self.last_message, i64(seq))
        self._entries.append((self._index, number))
        self._journal.entry_of(self._owner, self._index, b"".join(rows))

    def forget(self, known: KnownIds) -> None:
        """Release entries of which nothing is known any more."""
        released = 0
        while len(self._entries) > 0 and self._entries[0][1] <= known.forgotten:
            released, _ = self._entries.popleft()
        if released > 0:
            self._journal.release_entries(self._owner, released)

    def drop(self) -> None:
        """The queue remembers no ids."""
        if len(self._entries) > 0:
            self._journal.release_entries(self._owner, self._index)
            self._entries.clear()

    def found(self, index: int, content: bytes) -> None:
        """An entry that an earlier process has left; called in ascending order."""
        self._index = index
        self._found.append((index, content))

    def restore(self, known: KnownIds | None) -> None:
        """It is known how many ids the queue remembers: have it remember those that were found."""
        for index, content in self._found:
            if len(content) % ROW.size == 0 and known is not None:
                for seq, digest in iter_unpack(ROW.format, content):
                    self.last_message = max(self.last_message, i64(seq))
                    if not known.knows(digest, 0):
                        known.remember(digest, 0, 0)
            self._entries.append((index, 0 if known is None else known.last))
        self._found = []


def logged(fresh: list[Fresh], runs: list[tuple[int, int]]) -> list[Fresh]:
    """The ids whose messages are in these runs. Both ascend by message, so one pass is enough."""
    found: list[Fresh] = []
    place = 0
    for each in fresh:
        while place < len(runs) and runs[place][0] + runs[place][1] <= each[1]:
            place += 1
        if place < len(runs) and runs[place][0] <= each[1]:
            found.append(each)
    return found


assert ROW.size == 8 + DIGEST_BYTES
