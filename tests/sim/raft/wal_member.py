"""One member whose host writes to the real log, `warren.storage.wal.Wal`, on a simulated disk.

Machine, snapshots and bodies are those of `HostMember`; entries and hard states go to the log as
well, files are rolled, compacted and given back, and what a start finds is what its recovery finds.
What the simulation knows to be durable must be among it.
"""

from collections.abc import Callable, Sequence
from functools import partial

from raft.entries import Entry, HardState, SnapshotPoint
from raft.log_group import Found
from raft.recovery import FoundLog
from raft.settings import Settings
from tests.sim.raft.host_member import GROUP, HostMember
from tests.sim.raft.member import Surroundings
from tests.sim.raft.restoring import INCARNATION, Begin, begin_with
from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.wal import Wal

DIRECTORY = "/data"
WORK_AT_ONCE = 6  # pieces of the log's work in one go


class WalMember(HostMember):
    """`image` is the disk; a crash leaves another one."""

    def __init__(
        self, number: int, world: Surroundings, birth: SnapshotPoint, settings: Settings
    ) -> None:
        super().__init__(number, world, birth, settings)
        self.image = SimDisk()
        self._ever: dict[tuple[int, int], Entry] = {}  # by (index, appended_term)
        self._file_bytes = world.random.choice((8192, 16_384, 65_536))
        self._log_failed: list[BaseException] = []
        self._is_working = False

    # Life

    def find(self) -> Begin:
        """Recover the log, and see that nothing is missing."""
        random = self.world.random
        self._runner = StepRunner()
        self._wal = Wal(
            self.image,
            DIRECTORY,
            post=self._runner.post,
            on_failure=self._log_failed.append,
            file_bytes=self._file_bytes,
            group_bytes=random.choice((512, 4096, 1 << 20)),
            reserve_files=random.choice((2, 6)),
            slack_bytes=random.choice((0, self._file_bytes)),
            runner=self._runner,
            draw_epoch=lambda: random.getrandbits(32),
        )
        queues = Queues(set())
        report = self._wal.open(queues)
        assert not report.corrupt, f"corrupt: {report.corrupt}"
        queues.wal = self._wal
        self._wal.on_durable.append(self._log_durable)
        self._wal.attach(queues)
        self.appended_lsn = self._wal.appended_lsn
        return self._begin(queues)

    def _begin(self, queues: Queues) -> Begin:
        log = FoundLog(INCARNATION)
        found: list[Entry] = []
        for incarnation, (index, term, appended_term, kind, content) in queues.found_entries.get(
            GROUP, []
        ):
            log.add(incarnation, index, term, appended_term, kind, content)
            entry = self._ever[index, appended_term]
            assert (entry.term, entry.kind) == (term, kind), f"another entry at {index}"
            found.append(entry)
        state = HardState(0, 0)
        if GROUP in queues.found_states:
            incarnation, term, vote = queues.found_states[GROUP]
            log.add_hard_state(incarnation, term, vote)
            state = HardState(term, vote)
        self.disk.found(found, state)
        begin = begin_with(log.restored(self.disk.point), self.disk.point, found)
        self._wal.release_log(GROUP, self.disk.point.index)
        self._wal.truncate_log(GROUP, begin.restored.last_index + 1)
        return begin

    def crash(self, kept: int | None = None) -> None:
        super().crash(0)
        self.image = self.image.crash(self.world.random)
        self._is_working = False

    # The log

    def append_raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        parts: Sequence[bytes],
    ) -> object:
        super().append_raft_entry(owner, incarnation, index, term, appended_term, kind, parts)
        self._ever[index, appended_term] = self.disk.record(index).entry
        place = self._wal.append_raft_entry(
            owner, incarnation, index, term, appended_term, kind, parts
        )
        self.appended_lsn = self._wal.appended_lsn
        return place

    def append_hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> object:
        super().append_hard_state(owner, incarnation, term, vote)
        place = self._wal.append_hard_state(owner, incarnation, term, vote)
        self.appended_lsn = self._wal.appended_lsn
        return place

    def truncate_log(self, owner: int, index: int) -> None:
        super().truncate_log(owner, index)
        self._wal.truncate_log(owner, index)

    def release_log(self, owner: int, index: int) -> None:
        super().release_log(owner, index)
        self._wal.release_log(owner, index)

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
        self._wal.read_entries(
            owner, first, last, bytes_max, partial(self._entries_read, first, done)
        )
        self._work_later()

    def _entries_read(
        self, first: int, done: Callable[[Found | Exception], None], found: Found | Exception
    ) -> None:
        assert not isinstance(found, Exception), f"entries cannot be read: {found}"
        for place, (index, _term, appended_term, _kind, content) in enumerate(found):
            assert index == first + place, "entries out of order"
            assert content == b"".join(self._ever[index, appended_term].parts), "another content"
        done(found)

    def flush(self) -> None:
        if self.disk.flush():
            self._batch_lsns.append(self.appended_lsn)
            self._wal.flush()
            self.world.on_sync_wanted(self.number, None)
        self._work_later()

    def _log_durable(self, lsn: int) -> None:
        assert self.host is not None
        while self._batch_lsns and self._batch_lsns[0] <= lsn:
            self._batch_lsns.pop(0)
            self.disk.sync()
        self.host.on_durable(lsn)

    # The log's own work

    def _work_later(self) -> None:
        if not self._is_working:
            self._is_working = True
            self._later(self.world.sync_delay(self.number), self._work)

    def _work(self) -> None:
        """Some pieces of what its threads have to do, and more of it later."""
        self._is_working = False
        if self.number in self.world.held:
            self._work_later()
            return
        try:
            for _ in range(self.world.random.randint(1, WORK_AT_ONCE)):
                if not self._runner.step(self.world.random):
                    break
            else:
                self._work_later()
        except Crashed:
            self.world.later(0, lambda: self.world.crash(self.number, 50))
        assert not self._log_failed, f"the log fails: {self._log_failed}"
