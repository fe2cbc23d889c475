"""The chunks of one stream: appended in order, read by place, cut at the front by retention.

    log = StreamLog(files, workers, segments, segment_bytes)
    log.append(head, payload)            # written behind, by the writer thread
    log.checkpoint(done)                 # `done(segments)`: what is durable, to be recorded
    log.recorded(segments)               # it is recorded: what retention has cut is removed
    log.read(place, prepare, done)       # chunks that are written, on a reader thread
    log.offloaded = rows                 # segments that the object store has, and perhaps it alone

The owner records the segments (the snapshot of the stream's group). After a crash exactly what was
recorded counts; the group's log has the entries behind it. All methods run on the loop; `workers`
calls back there. Failed writes are fatal for the node, as those of the log: `workers` sees to that.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from msgspec.structs import replace

from warren.storage.streams.chunk_format import ChunkHead, encode_head
from warren.storage.streams.offloaded import OffloadedSegment, SegmentStore
from warren.storage.streams.segments import INDEX_ROW, Place, Segment, SegmentFiles, Writing

SEGMENT_BYTES: Final = 500_000_000  # RabbitMQ's default

Chunks = list[tuple[ChunkHead, bytes]]
T = TypeVar("T")


class Workers(Protocol):
    """Runs work on threads, and what it returns, which is called on the loop."""

    def write(self, work: Callable[[], Callable[[], None]]) -> None:
        """In order of the calls."""

    def read(self, work: Callable[[], Callable[[], None]]) -> None:
        """Beside the writer and other reads."""


class StreamLog:
    """See the module. Invariants: segments ascend without a gap; only the last one grows;
    `written_offset` <= `end_offset`."""

    def __init__(
        self,
        files: SegmentFiles,
        workers: Workers,
        segments: Sequence[Segment] = (),
        end_offset: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
        store: SegmentStore | None = None,
    ) -> None:
        """`end_offset`: of the next message. Where segments do not follow each other, or end before
        it, an operator has accepted their loss."""
        self.segment_bytes = segment_bytes
        self.offloaded: Sequence[OffloadedSegment] = ()  # without a gap, the oldest first
        self._store = store
        self.on_written: Callable[[], None] | None = None
        self._files = files
        self._workers = workers
        self._segments = list(segments)
        self.end_offset = end_offset
        self.written_offset = self.end_offset
        self._written: Segment | None = self._segments[-1] if segments else None
        self._unwritten: list[Writing] = []
        self._is_writing = False
        self._appended_bytes = 0
        self._written_bytes = 0
        self._cut: list[Segment] = []  # by retention, and still in what is recorded
        self._is_closed = False

    @property
    def files(self) -> SegmentFiles:
        return self._files

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments

    @property
    def first_offset(self) -> int:
        """Of the first message that there is, or of the next one."""
        if self.offloaded:
            return min(self.offloaded[0].first_offset, self.local_offset)
        return self.local_offset

    @property
    def local_offset(self) -> int:
        """Of the first message in the files."""
        return self._segments[0].first_offset if self._segments else self.end_offset

    @property
    def offloaded_end(self) -> int:
        """Of the first message that is not in the object store; 0: none is."""
        return self.offloaded[-1].end_offset if self.offloaded else 0

    @property
    def byte_count(self) -> int:
        """Of all segments, each counted once."""
        end = self.offloaded_end
        local = sum(each.byte_count for each in self._segments if each.end_offset > end)
        return self.offloaded_byte_count + local

    @property
    def local_byte_count(self) -> int:
        return sum(each.byte_count for each in self._segments)

    @property
    def offloaded_byte_count(self) -> int:
        return sum(each.byte_count for each in self.offloaded)

    @property
    def pending_bytes(self) -> int:
        """Appended, and not yet in the files."""
        return self._appended_bytes - self._written_bytes

    # Appending

    def append(self, head: ChunkHead, payload: Sequence[bytes]) -> bool:
        """Add a chunk behind the last one; return whether it begins a new segment."""
        assert head.first_offset == self.end_offset, "a chunk of another offset than the next"
        last = self._segments[-1] if self._segments else None
        begins = (
            last is None
            or last.byte_count >= self.segment_bytes
            or last.end_offset != head.first_offset
        )
        if last is None or begins:
            first, at_ms = head.first_offset, head.timestamp_ms
            last = Segment(first, first, at_ms, at_ms, 0, 0)
            self._segments.append(last)
        row = INDEX_ROW.pack(head.first_offset, head.timestamp_ms, last.byte_count)
        parts = [encode_head(head, payload), *payload]
        position, number = last.byte_count, last.chunk_count
        self._unwritten.append(Writing(last.first_offset, position, number, parts, row))
        self._segments[-1] = replace(
            last,
            end_offset=head.end_offset,
            last_ms=max(last.last_ms, head.timestamp_ms),
            byte_count=last.byte_count + head.size,
            chunk_count=last.chunk_count + 1,
        )
        self.end_offset = head.end_offset
        self._appended_bytes += head.size
        self._write()
        return begins

    def _write(self) -> None:
        if self._is_writing or not self._unwritten or self._is_closed:
            return
        self._is_writing = True
        writings, self._unwritten = joined(self._unwritten), []
        reached, byte_count = self._segments[-1], self._appended_bytes
        files = self._files

        def work() -> Callable[[], None]:
            for writing in writings:
                files.write(writing)
            return written

        def written() -> None:
            self._is_writing = False
            self.written_offset = reached.end_offset
            self._written = reached
            self._written_bytes = max(self._written_bytes, byte_count)
            self._write()
            if self.on_written is not None and not self._is_closed:
                self.on_written()

        self._workers.write(work)

    def checkpoint(self, done: Callable[[Sequence[Segment]], None]) -> None:
        """Make durable all that was appended; `done` with the segments as they were now."""
        segments = tuple(self._segments)
        waiting, self._unwritten = joined(self._unwritten), []
        files, byte_count = self._files, self._appended_bytes
        end = self._segments[-1] if self._segments else None

        def work() -> Callable[[], None]:
            for writing in waiting:
                files.write(writing)
            files.sync()
            return synced

        def synced() -> None:
            if self._is_closed:
                return
            if end is not None and end.end_offset >= self.written_offset:
                self.written_offset = end.end_offset
                self._written = end
                self._written_bytes = max(self._written_bytes, byte_count)
            done(segments)

        self._workers.write(work)

    def recorded(self, segments: Sequence[Segment]) -> None:
        """These are what counts after a crash: what was cut and is not among them is removed.

        A cut segment that is not written yet stays until a later call: its write would bring the
        file back.
        """
        known = {each.first_offset for each in segments}
        kept = [
            each
            for each in self._cut
            if each.first_offset in known or each.end_offset > self.written_offset
        ]
        gone = [each.first_offset for each in self._cut if each not in kept]
        self._cut = kept
        files = self._files
        if gone and not self._is_closed:

            def work() -> Callable[[], None]:
                files.remove(gone)
                return nothing

            self._workers.write(work)

    # Retention

    def expiry_ms(self, age_max_ms: int) -> int | None:
        """When the first segment becomes too old; None: no segment may be cut for its age."""
        if age_max_ms < 0:
            return None
        if self.offloaded:
            return self.offloaded[0].last_ms + age_max_ms + 1
        if len(self._segments) < 2:
            return None
        return self._segments[0].last_ms + age_max_ms + 1

    def retain(self, bytes_max: int, age_max_ms: int, now_ms: int) -> int:
        """Cut whole segments at the front; return how many messages go. Negative: no limit.

        The last segment always stays. The first one goes while all of them hold more than
        `bytes_max`, or when its newest chunk is older than `age_max_ms`. While segments are in the
        object store, those are the oldest, and `overdue_offset` says which are to go.
        """
        if self.offloaded:
            return 0
        rest = self.byte_count
        count = 0
        while count < len(self._segments) - 1:
            first = self._segments[count]
            too_many = 0 <= bytes_max < rest
            too_old = age_max_ms >= 0 and first.last_ms < now_ms - age_max_ms
            if not too_many and not too_old:
                break
            rest -= first.byte_count
            count += 1
        before = self.first_offset
        self._cut_first(count)
        return self.first_offset - before

    def _cut_first(self, count: int) -> None:
        self._cut.extend(self._segments[:count])
        del self._segments[:count]

    def overdue_offset(self, bytes_max: int, age_max_ms: int, now_ms: int) -> int:
        """Up to which offset offloaded segments are more than the limits of `retain` allow; 0: none
        is."""
        rest = self.byte_count
        upto = 0
        for row in self.offloaded:
            too_many = 0 <= bytes_max < rest
            too_old = age_max_ms >= 0 and row.last_ms < now_ms - age_max_ms
            if not too_many and not too_old:
                break
            rest -= row.byte_count
            upto = row.end_offset
        return upto

    def to_offload(self) -> tuple[Segment, int] | None:
        """The oldest whole segment that is not in the object store, and from which offset
        on; it may not be written to its end yet. None: all but the last one are there."""
        for segment in self._segments[:-1]:
            if segment.end_offset > self.offloaded_end:
                return segment, max(segment.first_offset, self.offloaded_end)
        return None

    def drop_offloaded(self, local_bytes_max: int) -> bool:
        """Cut files of segments that are in the object store, the oldest first, while all files
        have more than `local_bytes_max`; return whether there were any."""
        rest = self.local_byte_count
        count = 0
        for segment in self._segments[:-1]:
            if segment.end_offset > self.offloaded_end or rest <= local_bytes_max:
                break
            rest -= segment.byte_count
            count += 1
        self._cut_first(count)
        return count > 0

    def trim(self, upto: int) -> bool:
        """Cut files of whole segments before that offset, but the last one."""
        count = sum(1 for each in self._segments[:-1] if each.end_offset <= upto)
        self._cut_first(count)
        return count > 0

    # Reading

    def segment_of(self, offset: int) -> Segment | None:
        """The segment that holds the offset, or the next one if it is lost; None if no chunk there
        is written yet."""
        at = bisect_right(self._segments, offset, key=lambda each: each.first_offset) - 1
        if offset >= self.written_offset:
            return None
        if at < 0 or offset >= self._segments[at].end_offset:
            at += 1
        return self._as_written(self._segments[at]) if at < len(self._segments) else None

    def _as_written(self, segment: Segment) -> Segment | None:
        written = self._written
        if written is None or segment.first_offset > written.first_offset:
            return None
        return written if segment.first_offset == written.first_offset else segment

    def read(
        self,
        place: Place,
        prepare: Callable[[Chunks], T],
        done: Callable[[T, Place], None],
        failed: Callable[[Exception], None],
    ) -> bool:
        """Read some chunks from a place on; False: nothing is written there.

        `prepare` is called on the thread; `done` gets what it makes of the chunks, and where to go
        on. A place that retention has cut stands for the first offset that there is. What is in no
        file of this node is read from the object store.
        """
        offset = max(place.offset, self.first_offset)
        segment = self.segment_of(offset)
        if segment is None or offset < segment.first_offset:
            row = self._offloaded_at(offset)
            if row is not None:
                self._read_offloaded(row, place, offset, prepare, done, failed)
                return True
        if segment is None:
            return False
        offset = max(offset, segment.first_offset)
        known = place.position if place.segment == segment.first_offset else -1
        size = place.size if known >= 0 else 0
        files = self._files

        def work() -> Callable[[], None]:
            try:
                begin = known if known >= 0 else files.place_of(segment, offset).position
                chunks, next_size = files.read(segment, begin, size)
                made = prepare(chunks)
            except Exception as error:  # Told to the reader; others go on.
                told = error
                return lambda: failed(told)
            end = begin + sum(head.size for head, _ in chunks)
            following = Place(chunks[-1][0].end_offset, segment.first_offset, end, next_size)
            return lambda: done(made, following)

        self._workers.read(work)
        return True

    def _offloaded_at(self, offset: int) -> OffloadedSegment | None:
        at = bisect_right(self.offloaded, offset, key=lambda each: each.first_offset) - 1
        if at < 0 or offset >= self.offloaded[at].end_offset:
            return None
        return self.offloaded[at]

    def _read_offloaded(
        self,
        row: OffloadedSegment,
        place: Place,
        offset: int,
        prepare: Callable[[Chunks], T],
        done: Callable[[T, Place], None],
        failed: Callable[[Exception], None],
    ) -> None:
        assert self._store is not None, "a log without a store has no offloaded segments"
        mark = (
            -1 - row.first_offset
        )  # Its bytes are not those of a file with the same first offset.
        position = place.position if place.segment == mark else -1

        def found(chunks: Chunks, end: int) -> None:
            following = Place(chunks[-1][0].end_offset, mark, end)

            def work() -> Callable[[], None]:
                try:
                    made = prepare(chunks)
                except Exception as error:  # Told to the reader; others go on.
                    told = error
                    return lambda: failed(told)
                return lambda: done(made, following)

            self._workers.read(work)

        self._store.read(self._files.uid, row, offset, position, found, failed)

    def find_time(
        self, timestamp_ms: int, done: Callable[[int], None], failed: Callable[[Exception], None]
    ) -> None:
        """Find the offset of the first chunk that is not older; the next offset if there is none.

        Chunks that are not written yet are newer than all that are: `done` may name their first.
        """
        for row in self.offloaded:
            if row.first_offset < self.local_offset and row.last_ms >= timestamp_ms:
                assert self._store is not None
                self._store.find_time(self._files.uid, row, timestamp_ms, done, failed)
                return
        for segment in self._segments:
            written = self._as_written(segment)
            if written is not None and written.last_ms >= timestamp_ms:
                self._look_up(written, timestamp_ms, done, failed)
                return
        done(self.written_offset)

    def _look_up(
        self,
        segment: Segment,
        timestamp_ms: int,
        done: Callable[[int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        files = self._files

        def work() -> Callable[[], None]:
            try:
                offset = files.place_at(segment, timestamp_ms).offset
            except Exception as error:  # Told to the reader; others go on.
                told = error
                return lambda: failed(told)
            return lambda: done(offset)

        self._workers.read(work)

    # The end

    def close(self) -> None:
        """The log is not used any more; its files stay."""
        self._is_closed = True
        files = self._files

        def work() -> Callable[[], None]:
            files.close()
            return nothing

        self._workers.write(work)

    def delete(self) -> None:
        """The stream is deleted, with all its files."""
        self._is_closed = True
        files = self._files

        def work() -> Callable[[], None]:
            files.close()
            files.remove_others(set())
            return nothing

        self._workers.write(work)


def joined(writings: Sequence[Writing]) -> list[Writing]:
    """Writings that follow each other in one segment, as one each."""
    found: list[Writing] = []
    for writing in writings:
        if found and found[-1].segment == writing.segment:
            last = found[-1]
            parts = [*last.parts, *writing.parts]
            found[-1] = replace(last, parts=parts, index=last.index + writing.index)
        else:
            found.append(writing)
    return found


def nothing() -> None:
    """No caller waits for this."""
