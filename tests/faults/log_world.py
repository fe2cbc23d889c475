"""A log on a disk that fails, and the books of what it has promised.

`crash` takes the power away, starts again without faults and compares: all that was reported
durable and not settled is there, once, with its bytes; what was settled durably is not.
"""

from random import Random

from tests.faults.fault_disk import FaultDisk
from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.wal import Wal

FILE_BYTES = 32_768
DIRECTORY = "/data"
OWNERS = (10, 11)


class LogWorld:
    """A log with two queues. `faults` are armed in `disk`."""

    def __init__(self, beneath: SimDisk | None = None) -> None:
        self.beneath = SimDisk() if beneath is None else beneath
        self.disk = FaultDisk(self.beneath)
        self.runner = StepRunner()
        self.failures: list[BaseException] = []
        self.alarms: list[tuple[str, Exception]] = []
        self.queues = Queues(set(OWNERS))
        self.bodies: dict[tuple[int, int], tuple[bytes, int]] = {}  # body, lsn
        self.settled: dict[tuple[int, int], int] = {}  # lsn
        self.number = 0
        epochs = Random(len(self.beneath.names))
        self.wal = Wal(
            self.disk,
            DIRECTORY,
            post=self.runner.post,
            on_failure=self.failures.append,
            file_bytes=FILE_BYTES,
            slack_bytes=0,
            runner=self.runner,
            draw_epoch=lambda: epochs.getrandbits(32),
        )
        self.wal.on_alarm = lambda place, error: self.alarms.append((place, error))
        self.queues.wal = self.wal

    def open(self) -> None:
        report = self.wal.open(self.queues)
        assert not report.corrupt
        self.wal.attach(self.queues)

    def publish(self, count: int) -> None:
        """So many messages of 1,000 bytes to the first queue, and every tenth to both."""
        for _ in range(count):
            self.number += 1
            body = (b"%08d" % self.number).ljust(1000, b".")
            owners = list(OWNERS) if self.number % 10 == 0 else [OWNERS[0]]
            firsts = self.queues.publish_bodies(owners, [body], 0)
            for owner, first in zip(owners, firsts, strict=True):
                self.bodies[owner, first] = (body, self.wal.appended_lsn)

    def settle(self, keep_every: int) -> None:
        """Finish with the messages of the first queue but for every so-and-so-many-th; 0: all."""
        live = list(self.queues.live[OWNERS[0]])
        seqs = [seq for seq in live if not keep_every or seq % keep_every]
        if seqs:
            self.queues.settle(OWNERS[0], seqs)
            for seq in seqs:
                self.settled[OWNERS[0], seq] = self.wal.appended_lsn

    def rest(self) -> None:
        """Everything that was asked for is done."""
        self.wal.flush()
        self.runner.settle()

    def assert_readable(self) -> None:
        for owner in OWNERS:
            for seq, held in list(self.queues.live[owner].items()):
                found: list[bytes | Exception] = []
                self.wal.read(held.file_id, held.offset, held.length, found.append)
                self.rest()
                assert found == [self.bodies[owner, seq][0]]

    def crash(self, seed: int) -> "LogWorld":
        """Power off, a start on the same disk without faults, and the comparison."""
        after = LogWorld(self.beneath.crash(Random(seed)))
        after.open()
        durable_lsn = self.wal.durable_lsn
        for (owner, seq), (body, lsn) in self.bodies.items():
            held = after.queues.live[owner].get(seq)
            settled = self.settled.get((owner, seq))
            if settled is not None and settled <= durable_lsn:
                assert held is None, f"message {seq} of queue {owner} is back"
            elif settled is None and lsn <= durable_lsn:
                assert held is not None, f"message {seq} of queue {owner} is lost"
            if held is not None:
                after.bodies[owner, seq] = (body, 0)
        after.number = self.number
        after.assert_readable()
        return after
