"""Segment files of streams on a simulated disk, whose threads run when told."""

from collections.abc import Callable, Sequence

from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.streams.log import StreamLog
from warren.storage.streams.segments import Segment, SegmentFiles

DIRECTORY = "/streams"
Work = Callable[[], Callable[[], None]]


class SimStreams:
    """Keeps `queues.streams.storage.Disks` and `warren.storage.streams.log.Workers`."""

    def __init__(self, disk: SimDisk, runner: StepRunner, begin_turn: Callable[[], None]) -> None:
        self._disk = disk
        self._runner = runner
        self._begin_turn = begin_turn

    def files(self, uid: int, generation: int) -> SegmentFiles:
        return SegmentFiles(self._disk, DIRECTORY, uid, generation)

    def log(
        self,
        files: SegmentFiles,
        segments: Sequence[Segment],
        end_offset: int,
        segment_bytes: int,
    ) -> StreamLog:
        return StreamLog(files, self, segments, end_offset, segment_bytes)

    def write(self, work: Work) -> None:
        self._runner.page(lambda: self._answer(work()))

    def read(self, work: Work) -> None:
        self._runner.read(lambda: self._answer(work()))

    def _answer(self, answer: Callable[[], None]) -> None:
        def run() -> None:
            self._begin_turn()
            answer()

        self._runner.post(run)
