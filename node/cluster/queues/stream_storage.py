"""The segment files of this node's streams: one directory, and threads for all of them."""

import os
from collections.abc import Callable, Collection, Sequence

from node.cluster.queues.stream_store import StreamStore
from queues.streams.offsets import OFFSET_MAX
from warren.storage.disk import Disk
from warren.storage.objects.location import Location
from warren.storage.streams.log import StreamLog, nothing
from warren.storage.streams.segments import Reads, Segment, SegmentFiles, remove_unknown
from warren.storage.streams.workers import ThreadWorkers

Answer = Callable[[], None]
Work = Callable[[], Answer]


class StreamStorage:
    """Keeps `queues.streams.storage.Disks`. `post` calls on the loop, from any thread;
    `begin_turn` is called there before each answer; `on_failure` if a write fails."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        post: Callable[[Answer], object],
        begin_turn: Callable[[], None],
        on_failure: Callable[[BaseException], None],
        location: Location,
        cluster_id: Callable[[], str],
        reads: Reads | None = None,
    ) -> None:
        """`location`: of the object store for old segments. `reads`: see `SegmentFiles`."""
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._disk = disk
        self._directory = directory
        self._reads = reads

        def answer(work: Answer) -> None:
            def run() -> None:
                begin_turn()
                work()

            post(run)

        self._workers = ThreadWorkers(answer, on_failure)
        self.store = StreamStore(location, cluster_id, answer)

    def keep_only(self, uids: Collection[int]) -> None:
        """See Disks."""
        known = frozenset(uids)

        def work() -> Answer:
            remove_unknown(self._disk, self._directory, known)
            return nothing

        self.write(work)

    def files(self, uid: int, generation: int) -> SegmentFiles:
        return SegmentFiles(self._disk, self._directory, uid, generation, self._reads)

    def log(
        self,
        files: SegmentFiles,
        segments: Sequence[Segment],
        end_offset: int,
        segment_bytes: int,
    ) -> StreamLog:
        assert 0 <= end_offset <= OFFSET_MAX
        return StreamLog(files, self._workers, segments, end_offset, segment_bytes, self.store)

    def write(self, work: Work) -> None:
        self._workers.write(work)

    def read(self, work: Work) -> None:
        self._workers.read(work)

    def stop(self) -> None:
        """Write what was handed over; the threads end."""
        self.store.stop()
        self._workers.stop()
