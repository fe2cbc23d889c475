"""The real log of one machine, `warren.storage.wal.Wal`, on a simulated disk, one step at a time.

Files are rolled, compacted and given back; what a start finds is what its recovery finds. The user
of the log (`LogUser`) learns how far it is durable, and of what goes wrong: the machine loses
power, or the log fails, which is the end of the process.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from tests.sim.storage.block_disk import past_cache
from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.wal import Wal

DIRECTORY = "/data"
WORK_AT_ONCE = 6  # pieces of the log's work in one go


class LogUser(Protocol):
    """The machine that has it."""

    def log_later(self, action: Callable[[], None]) -> None:
        """When the disk gets to it, if this process still lives then."""

    def is_log_held(self) -> bool:
        """Nothing is synced for now."""

    def log_durable(self, lsn: int) -> None: ...

    def log_failed(self, error: BaseException) -> None: ...

    def lose_power(self) -> None: ...


class LogDrive:
    """`image` is the disk; a crash leaves another one. `wal` is there once it was opened."""

    wal: Wal

    def __init__(self, random: Random, user: LogUser) -> None:
        self._random = random
        self._user = user
        self.image = SimDisk()
        self.file_bytes = random.choice((8192, 16_384, 65_536))
        self._runner = StepRunner()
        self._is_working = False

    def open(self) -> Queues:
        """Recover the log; what it has."""
        random = self._random
        self._runner = StepRunner()
        self.wal = Wal(
            random.choice((self.image, past_cache(self.image, self._runner, random))),
            DIRECTORY,
            post=self._runner.post,
            on_failure=self._user.log_failed,
            file_bytes=self.file_bytes,
            group_bytes=random.choice((512, 4096, 1 << 20)),
            reserve_files=random.choice((2, 6)),
            slack_bytes=random.choice((0, self.file_bytes)),
            runner=self._runner,
            draw_epoch=lambda: random.getrandbits(32),
        )
        queues = Queues(set())
        report = self.wal.open(queues)
        assert not report.corrupt, f"corrupt: {report.corrupt}"
        queues.wal = self.wal
        self.wal.on_durable.append(self._user.log_durable)
        self.wal.attach(queues)
        return queues

    def flush(self) -> None:
        self.wal.flush()
        self.work_later()

    def crash(self) -> None:
        """The machine loses power. A full disk stays full."""
        space_bytes = self.image.space_bytes
        self.image = self.image.crash(self._random)
        self.image.space_bytes = space_bytes
        self._is_working = False

    def stop(self) -> None:
        """The process ends, and what it has written stays: not all of it is durable."""
        self.image = self.image.left_behind()
        self._is_working = False

    def work_later(self) -> None:
        if not self._is_working:
            self._is_working = True
            self._user.log_later(self._work)

    def _work(self) -> None:
        """Some pieces of what its threads have to do, and more of it later."""
        self._is_working = False
        if self._user.is_log_held():
            self.work_later()
            return
        try:
            for _ in range(self._random.randint(1, WORK_AT_ONCE)):
                if not self._runner.step(self._random):
                    break
            else:
                self.work_later()
        except Crashed:
            self._user.lose_power()
