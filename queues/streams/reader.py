"""Reads the committed messages of a stream on a node that has a member of it.

    reader = StreamReader(member, spec, wake)
    found = reader.take(count_max)     # offset, chunk, index, count; None: `wake` is called later
    found = reader.take_encoded()      # what `encode` has made of messages of segment files

A reader keeps its place alone, and reads from the member's tail in memory or, on a thread, from
segment files: while the messages of one read are taken, the next read is under way. It sees what is
committed on this member, each message once, in order. Where retention has cut what it would read
next, it goes on with the oldest message that there is. With `encode`, which is called on the
thread, it gives what is read from files as chunks that are ready to be sent.
"""

from collections import deque
from collections.abc import Callable

from queues.message import Chunk
from queues.streams.entry import decode_entry
from queues.streams.filtering import StreamFilter
from queues.streams.member import StreamMember
from queues.streams.offsets import OffsetSpec, Start
from queues.streams.tail import EncodedChunk, Run
from warren.storage.objects.store import NoSuchObject, StoreUnavailable
from warren.storage.streams.log import Chunks, StreamLog
from warren.storage.streams.segments import Place

NOT_KNOWN = -1
MISSING_MAX = 64  # looks for an object that the store does not have
SCANNED_MAX = 512  # messages that a filter looks at in one call
Found = tuple[int, Chunk, int, int]  # offset, chunk, index in it, count
Encode = Callable[[list[Run], int], list[EncodedChunk]]  # all messages from an offset on


class Read:
    """One read of some chunks of a log, and what became of it."""

    __slots__ = ("encoded", "error", "following", "is_done", "log", "offset", "runs")

    def __init__(self, log: StreamLog, offset: int) -> None:
        self.log = log
        self.offset = offset  # of the first message that it is for
        self.is_done = False
        self.runs: list[Run] = []  # or `encoded`
        self.encoded: list[EncodedChunk] = []
        self.following = Place(0, -1)  # where the next read begins
        self.error: Exception | None = None


def runs_in(chunks: Chunks, offset: int, wanted: StreamFilter | None) -> list[Run]:
    """The messages of these chunks from an offset on, but for chunks that hold none that is
    wanted."""
    found: list[Run] = []
    for head, payload in chunks:
        if wanted is not None and not wanted.wants_chunk(head.bloom):
            continue
        first = head.first_offset
        for chunk in decode_entry(payload)[2]:
            if first + chunk.count() > offset:
                found.append((first, chunk, head.timestamp_ms))
            first += int(chunk.count())
    return found


class StreamReader:
    """See the module. Invariants: `_buffer` has runs from the one that was given last on, without a
    gap but for chunks that the filter does not want; of chunks behind them one read is in memory or
    under way, at most."""

    def __init__(
        self,
        member: StreamMember,
        spec: OffsetSpec,
        wake: Callable[[], None],
        encode: Encode | None = None,
    ) -> None:
        """`encode`: not with a filter."""
        assert encode is None or spec.filter is None
        self.error: Exception | None = None  # a segment cannot be read
        self._member = member
        self._wake = wake
        self._spec = spec
        self._filter = spec.filter
        self._encode = encode
        self._buffer: deque[Run] = deque()
        self._encoded: deque[EncodedChunk] = deque()  # what comes next, if anything; then no run
        self._offset = NOT_KNOWN  # of the next message
        self._read: Read | None = None  # the next one
        self._is_waiting = False  # for a thread
        self._missing_index = -1  # what was applied when an object was missing last
        self._missing_count = 0  # how often it was
        self.taken_ms = 0  # when the entry was made of which `take` gave messages last
        self.has_scanned = False  # as much as it may: `take` again in the next turn
        self._begin(spec)

    def _begin(self, spec: OffsetSpec) -> None:
        member = self._member
        if spec.start is Start.FIRST:
            self._offset = member.first_offset
        elif spec.start is Start.NEXT:
            self._offset = member.next_offset
        elif spec.start is Start.OFFSET:
            self._offset = max(spec.value, member.first_offset)
        elif spec.start is Start.LAST:
            self._offset = member.last_chunk_offset
        else:
            self._is_waiting = True
            member.find_time(spec.value, self._begins_at, self._failed)

    def _begins_at(self, offset: int) -> None:
        self._is_waiting = False
        self._offset = offset
        self._wake()

    @property
    def next_offset(self) -> int:
        """Of the message that comes next; -1: it is being looked up."""
        return self._offset

    @property
    def is_at_end(self) -> bool:
        """Whether there is nothing more to read now."""
        return not self._is_waiting and self._offset >= self._member.next_offset

    @property
    def available(self) -> int:
        """How many messages are committed and not read."""
        return 0 if self._offset < 0 else max(0, self._member.next_offset - self._offset)

    def take(self, count_max: int) -> Found | None:
        """Take the next messages, all of one chunk; None: there are none in memory now, or the
        filter has left out as many as it may look at in a turn (`has_scanned`)."""
        budget = SCANNED_MAX
        self.has_scanned = False
        while not self._is_waiting and self.error is None:
            self._drop_read()
            if not self._buffer and not (self._fill() and self._buffer):
                return None
            first, chunk, made_ms = self._buffer[0]
            index = max(self._offset - first, 0)  # What the filter does not want is left out.
            left = int(chunk.count()) - index
            if self._filter is not None:
                before = index
                index, left = self._filter.run_in(chunk, index, min(budget, count_max))
                budget -= index - before
            count = min(count_max, left)
            self._offset = first + index + count
            if count > 0:
                self.taken_ms = made_ms
                return first + index, chunk, index, count
            if budget <= 0:
                self.has_scanned = True
                return None
        return None

    def take_encoded(self) -> EncodedChunk | None:
        """Take the next messages as `encode` has made a chunk of them. None: there are none, or
        `take` has them; if it has not, `wake` is called later."""
        if self._is_waiting or self.error is not None:
            return None
        self._drop_read()
        if not self._buffer:
            self._fill()
        if not self._encoded:
            return None
        found = self._encoded.popleft()
        self._offset = found.end_offset
        return found

    def go_to(self, offset: int) -> None:
        """Go on there: at or behind the first message that was given last."""
        self._offset = offset
        self._encoded.clear()

    def _drop_read(self) -> None:
        """Let go of what comes before the next message; `go_to` may have needed it."""
        while self._buffer:
            first, chunk, _ = self._buffer[0]
            if first + chunk.count() > self._offset:
                return
            self._buffer.popleft()

    def _fill(self) -> bool:
        """Have the next messages in one of the buffers; False: they are not in memory now."""
        member = self._member
        while not self._buffer and not self._encoded:
            if self._offset >= member.next_offset or member.is_gone:
                return False
            if self._missing_index == member.applied_index:
                return False
            self._offset = max(self._offset, member.first_offset)
            found = member.tail.find(self._offset)
            if found is not None:
                self._read = None
                self._buffer.append(found)
                return True
            read = self._read
            if read is None or read.offset != self._offset or read.log is not member.log:
                read = self._begin_read(Place(self._offset, -1))
            if read is None or not read.is_done:
                self._is_waiting = read is not None
                return False
            self._read = None
            if read.error is not None:
                self._failed(read.error)
                return False
            self._use(read)
        return True

    def _begin_read(self, place: Place) -> Read | None:
        """Read what comes from a place on; None: nothing is written there."""
        read = Read(self._member.log, place.offset)
        wanted, encode = self._filter, self._encode

        def prepare(chunks: Chunks) -> tuple[list[Run], list[EncodedChunk]]:
            runs = runs_in(chunks, place.offset, wanted)
            return (runs, []) if encode is None else ([], encode(runs, place.offset))

        def done(made: tuple[list[Run], list[EncodedChunk]], following: Place) -> None:
            read.runs, read.encoded = made
            read.following = following
            self._end_read(read)

        def failed(error: Exception) -> None:
            read.error = error
            self._end_read(read)

        self._read = read if read.log.read(place, prepare, done, failed) else None
        return self._read

    def _end_read(self, read: Read) -> None:
        read.is_done = True
        if read is not self._read:
            return  # The reader has gone elsewhere.
        if self._is_waiting:
            self._is_waiting = False
            self._wake()
        elif read.error is not None:
            self._read = None  # What is wrong now may be right when it is needed.

    def _use(self, read: Read) -> None:
        """Put what was read into its buffer, and begin the next read."""
        self._missing_count = 0
        self._buffer.extend(read.runs)
        self._encoded.extend(read.encoded)
        following = read.following
        if not self._buffer and not self._encoded:
            self._offset = max(self._offset, following.offset)
        if self._member.tail.find(following.offset) is None:
            self._begin_read(following)

    def _failed(self, error: Exception) -> None:
        """Ask again where retention has cut the segment meanwhile, where it is in the object store
        alone, or where the store cannot be used for now: it answers that slowly."""
        self._is_waiting = False
        member = self._member
        is_gone = isinstance(error, FileNotFoundError) and self._offset < member.log.local_offset
        is_missing = isinstance(error, NoSuchObject)
        is_cut = is_missing and self._offset < member.first_offset
        if is_missing and not is_cut and self._may_be_removed():
            return
        if not (is_gone or is_cut or isinstance(error, StoreUnavailable)):
            self.error = error
        elif self._offset == NOT_KNOWN:
            self._begin(self._spec)
        self._wake()

    def _may_be_removed(self) -> bool:
        """Whether the leader may have removed an object by an entry that is not applied here yet.
        Then it is asked for again when another entry is."""
        member = self._member
        if member.is_leading or self._offset == NOT_KNOWN or self._missing_count >= MISSING_MAX:
            return False
        self._missing_count += 1
        self._missing_index = member.applied_index
        return True
