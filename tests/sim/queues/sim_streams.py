"""Segment files of streams on a simulated disk, whose threads run when told, and an object store
that all nodes share."""

from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, TypeVar

from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.sim_objects import SimObjects, on_no_thread, run_at_once
from tests.sim.storage.steps import StepRunner
from warren.storage.streams.log import StreamLog, nothing
from warren.storage.streams.offloaded import Chunks, OffloadedSegment
from warren.storage.streams.segment_objects import SegmentObjects
from warren.storage.streams.segments import Segment, SegmentFiles, remove_unknown

DIRECTORY = "/streams"
CLUSTER = "c1"
Answer = Callable[[], None]
Work = Callable[[], Answer]
Failed = Callable[[Exception], None]
T = TypeVar("T")


class SimStore:
    """Keeps `warren.storage.streams.offloaded.SegmentStore`; each call is one step of a thread."""

    is_set = True
    fault = ""

    def __init__(self, objects: SimObjects, read: Callable[[Work], None]) -> None:
        self._segments = SegmentObjects(objects, CLUSTER, on_no_thread)
        self._read = read

    def _call(
        self,
        begin: Callable[[], Coroutine[Any, Any, T]],
        done: Callable[[T], None],
        failed: Failed,
    ) -> None:
        def work() -> Answer:
            try:
                found = run_at_once(begin())
            except Exception as error:
                told = error
                return lambda: failed(told)
            return lambda: done(found)

        self._read(work)

    def upload(
        self,
        files: SegmentFiles,
        segment: Segment,
        offset: int,
        term: int,
        done: Callable[[OffloadedSegment], None],
        failed: Failed,
    ) -> None:
        self._call(lambda: self._segments.upload(files, segment, offset, term), done, failed)

    def read(
        self,
        uid: int,
        row: OffloadedSegment,
        offset: int,
        position: int,
        done: Callable[[Chunks, int], None],
        failed: Failed,
    ) -> None:
        begin = lambda: self._segments.read(uid, row, offset, position)  # noqa: E731
        self._call(begin, lambda found: done(*found), failed)

    def find_time(
        self,
        uid: int,
        row: OffloadedSegment,
        timestamp_ms: int,
        done: Callable[[int], None],
        failed: Failed,
    ) -> None:
        self._call(lambda: self._segments.find_time(uid, row, timestamp_ms), done, failed)

    def sweep(
        self,
        uid: int,
        rows: Sequence[OffloadedSegment],
        term: int,
        done: Answer,
        failed: Failed,
    ) -> None:
        self._call(lambda: self._segments.sweep(uid, rows, term), lambda _: done(), failed)

    def streams(self, done: Callable[[list[int]], None], failed: Failed) -> None:
        self._call(self._segments.streams, done, failed)

    def remove_stream(self, uid: int, done: Answer, failed: Failed) -> None:
        self._call(lambda: self._segments.remove_stream(uid), lambda _: done(), failed)


class SimStreams:
    """Keeps `queues.streams.storage.Disks` and `warren.storage.streams.log.Workers`."""

    def __init__(
        self,
        disk: SimDisk,
        runner: StepRunner,
        begin_turn: Callable[[], None],
        objects: SimObjects,
    ) -> None:
        self.store = SimStore(objects, self.read)
        self._disk = disk
        self._runner = runner
        self._begin_turn = begin_turn

    def keep_only(self, uids: Collection[int]) -> None:
        """See Disks."""
        known = frozenset(uids)

        def work() -> Answer:
            remove_unknown(self._disk, DIRECTORY, known)
            return nothing

        self.write(work)

    def files(self, uid: int, generation: int) -> SegmentFiles:
        return SegmentFiles(self._disk, DIRECTORY, uid, generation)

    def log(
        self,
        files: SegmentFiles,
        segments: Sequence[Segment],
        end_offset: int,
        segment_bytes: int,
    ) -> StreamLog:
        return StreamLog(files, self, segments, end_offset, segment_bytes, self.store)

    def write(self, work: Work) -> None:
        self._runner.page(lambda: self._answer(work()))

    def read(self, work: Work) -> None:
        self._runner.read(lambda: self._answer(work()))

    def _answer(self, answer: Callable[[], None]) -> None:
        def run() -> None:
            self._begin_turn()
            answer()

        self._runner.post(run)
