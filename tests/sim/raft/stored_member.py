"""A member whose entries and hard states are in the real log of its machine (`log_drive`).

Machine, snapshots and bodies are those of `HostMember`. What the simulation knows to be durable
must be among what a recovery finds, and nothing of another group, or of another incarnation of its
own, may be taken for it.
"""

from collections.abc import Callable, Sequence
from functools import partial

from raft.entries import Entry, HardState
from raft.log_group import Found
from raft.recovery import FoundLog
from tests.sim.raft.host_member import HostMember
from tests.sim.raft.log_drive import LogDrive
from tests.sim.raft.restoring import Begin, begin_with
from tests.sim.storage.queues_model import Queues


class StoredMember(HostMember):
    """What it has ever appended is in `ever`, by (index, appended_term). Who makes it sets both."""

    drive: LogDrive
    ever: dict[tuple[int, int], Entry]

    def found_in(self, queues: Queues) -> Begin:
        """What the log has of it; nothing is missing."""
        log = FoundLog(self.incarnation)
        mine: list[Entry] = []
        for incarnation, item in queues.found_entries.get(self.uid, []):
            index, term, appended_term, kind, content = item
            log.add(incarnation, index, term, appended_term, kind, content)
            if incarnation == self.incarnation:
                entry = self.ever[index, appended_term]
                assert (entry.term, entry.kind) == (term, kind), f"another entry at {index}"
                mine.append(entry)
        state = HardState(0, 0)
        if self.uid in queues.found_states:
            incarnation, term, vote = queues.found_states[self.uid]
            log.add_hard_state(incarnation, term, vote)
            if incarnation == self.incarnation:
                state = HardState(term, vote)
        self.disk.found(mine, state)
        begin = begin_with(log.restored(self.disk.point), self.disk.point, mine)
        self.drive.wal.release_log(self.uid, self.disk.point.index)
        self.drive.wal.truncate_log(self.uid, begin.restored.last_index + 1)
        return begin

    # The log

    def append_raft_entries(
        self,
        owner: int,
        incarnation: int,
        first: int,
        term: int,
        appended_term: int,
        kind: int,
        contents: Sequence[Sequence[bytes]],
    ) -> None:
        super().append_raft_entries(owner, incarnation, first, term, appended_term, kind, contents)
        for index in range(first, first + len(contents)):
            self.ever[index, appended_term] = self.disk.record(index).entry
        self.drive.wal.append_raft_entries(
            owner, incarnation, first, term, appended_term, kind, contents
        )
        self.appended_lsn = self.drive.wal.appended_lsn

    def append_hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> object:
        super().append_hard_state(owner, incarnation, term, vote)
        place = self.drive.wal.append_hard_state(owner, incarnation, term, vote)
        self.appended_lsn = self.drive.wal.appended_lsn
        return place

    def truncate_log(self, owner: int, index: int) -> None:
        super().truncate_log(owner, index)
        self.drive.wal.truncate_log(owner, index)

    def release_log(self, owner: int, index: int) -> None:
        super().release_log(owner, index)
        self.drive.wal.release_log(owner, index)

    def put_body(self, number: int) -> None:
        """Bodies are not in the log here: they are durable with the next entry."""
        self.disk.put_body(number)

    def read_entries(
        self,
        owner: int,
        first: int,
        last: int,
        bytes_max: int,
        done: Callable[[Found | Exception], None],
    ) -> None:
        self.drive.wal.read_entries(
            owner, first, last, bytes_max, partial(self._entries_read, first, done)
        )
        self.drive.work_later()

    def _entries_read(
        self, first: int, done: Callable[[Found | Exception], None], found: Found | Exception
    ) -> None:
        assert not isinstance(found, Exception), f"entries cannot be read: {found}"
        for place, (index, _term, appended_term, _kind, content) in enumerate(found):
            assert index == first + place, "entries out of order"
            assert content == b"".join(self.ever[index, appended_term].parts), "another content"
        done(found)
