"""Reads the committed messages of a stream on a node that has a member of it.

    reader = StreamReader(member, spec, wake)
    found = reader.take(count_max)     # offset, chunk, index, count; None: `wake` is called later

A reader keeps its place alone, and reads from the member's tail in memory or, on a thread, from
segment files. It sees what is committed on this member, each message once, in order. Where
retention has cut what it would read next, it goes on with the oldest message that there is.
"""

from collections import deque
from collections.abc import Callable

from queues.message import Chunk
from queues.streams.entry import decode_entry
from queues.streams.member import StreamMember
from queues.streams.offsets import OffsetSpec, Start
from queues.streams.tail import Run
from warren.storage.objects.store import NoSuchObject, StoreUnavailable
from warren.storage.streams.chunk_format import ChunkHead
from warren.storage.streams.segments import Place

NOT_KNOWN = -1
SCANNED_MAX = 512  # messages that a filter looks at in one call
Found = tuple[int, Chunk, int, int]  # offset, chunk, index in it, count


class StreamReader:
    """See the module. Invariant: `_buffer` has runs from the one that was given last on, without a
    gap but for chunks that the filter does not want."""

    def __init__(self, member: StreamMember, spec: OffsetSpec, wake: Callable[[], None]) -> None:
        self.error: Exception | None = None  # a segment cannot be read
        self._member = member
        self._wake = wake
        self._spec = spec
        self._filter = spec.filter
        self._buffer: deque[Run] = deque()
        self._offset = NOT_KNOWN  # of the next message
        self._place = Place(0, -1)
        self._is_waiting = False  # for a thread
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
            if not self._buffer and not self._fill():
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

    def go_to(self, offset: int) -> None:
        """Have `take` go on there: at or behind the first message that it gave last."""
        self._offset = offset

    def _drop_read(self) -> None:
        """Let go of what comes before the next message; `go_to` may have needed it."""
        while self._buffer:
            first, chunk, _ = self._buffer[0]
            if first + chunk.count() > self._offset:
                return
            self._buffer.popleft()

    def _fill(self) -> bool:
        member = self._member
        if self._offset >= member.next_offset or member.is_gone:
            return False
        self._offset = max(self._offset, member.first_offset)
        found = member.tail.find(self._offset)
        if found is not None:
            self._buffer.append(found)
            return True
        place = self._place if self._place.offset == self._offset else Place(self._offset, -1)
        self._is_waiting = member.log.read(place, self._read, self._failed)
        return False

    def _read(self, chunks: list[tuple[ChunkHead, bytes]], following: Place) -> None:
        self._is_waiting = False
        for head, payload in chunks:
            if self._filter is not None and not self._filter.wants_chunk(head.bloom):
                continue
            first = head.first_offset
            for chunk in decode_entry(payload)[2]:
                if first + chunk.count() > self._offset:
                    self._buffer.append((first, chunk, head.timestamp_ms))
                first += int(chunk.count())
        self._place = following
        if not self._buffer:
            self._offset = max(self._offset, following.offset)
        self._wake()

    def _failed(self, error: Exception) -> None:
        """Ask again where retention has cut the segment meanwhile, where it is in the object store
        alone, or where the store cannot be used for now: it answers that slowly."""
        self._is_waiting = False
        member = self._member
        is_gone = isinstance(error, FileNotFoundError) and self._offset < member.log.local_offset
        is_cut = isinstance(error, NoSuchObject) and self._offset < member.first_offset
        if not (is_gone or is_cut or isinstance(error, StoreUnavailable)):
            self.error = error
        elif self._offset == NOT_KNOWN:
            self._begin(self._spec)
        self._wake()
