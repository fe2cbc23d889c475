"""One member whose host writes to the real log: a machine with one group (see `stored_member`)."""

from collections.abc import Callable

from raft.entries import SnapshotPoint
from raft.settings import Settings
from tests.sim.raft.log_drive import LogDrive
from tests.sim.raft.member import MemberWorld
from tests.sim.raft.restoring import Begin
from tests.sim.raft.stored_member import StoredMember


class WalMember(StoredMember):
    """Keeps `LogUser`, too."""

    def __init__(
        self, number: int, world: MemberWorld, birth: SnapshotPoint, settings: Settings
    ) -> None:
        super().__init__(number, world, birth, settings)
        self.ever = {}
        self.drive = LogDrive(world.random, self)

    def find(self) -> Begin:
        """Recover the log, and see that nothing is missing."""
        queues = self.drive.open()
        self.appended_lsn = self.drive.wal.appended_lsn
        return self.found_in(queues)

    def crash(self, kept: int | None = None) -> None:
        super().crash(0)
        self.drive.crash()

    def flush(self) -> None:
        if self.disk.flush():
            self._batch_lsns.append(self.appended_lsn)
            self.drive.wal.flush()
            self.world.on_sync_wanted(self.number, None)
        self.drive.work_later()

    # The user of the log

    def log_later(self, action: Callable[[], None]) -> None:
        self._later(self.world.sync_delay(self.number), action)

    def is_log_held(self) -> bool:
        return self.number in self.world.held

    def log_durable(self, lsn: int) -> None:
        assert self.host is not None
        while self._batch_lsns and self._batch_lsns[0] <= lsn:
            self._batch_lsns.pop(0)
            self.disk.sync()
        self.host.on_durable(lsn)

    def log_failed(self, error: BaseException) -> None:
        raise AssertionError(f"the log fails: {error}")

    def lose_power(self) -> None:
        self.world.later(0, lambda: self.world.crash(self.number, 50))
