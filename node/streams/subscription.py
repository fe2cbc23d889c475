"""One subscription of a connection of the stream protocol: chunks of its stream, by credit.

It reads the committed messages of the member on this node, at its own place, and packs them into
chunks of at most CHUNK_BYTES; one chunk takes one credit. Nothing is kept of what was sent.
"""

from collections.abc import Callable
from typing import Final

from node.streams.bodies import body_of
from queues.message import Chunk
from queues.sessions.counts import Counts
from queues.streams.host import StreamHost
from queues.streams.member import StreamMember
from queues.streams.offsets import OffsetSpec, Start
from queues.streams.reader import NOT_KNOWN, StreamReader
from warren.wire.stream.chunks import ENTRIES_MAX, encode_chunk
from warren.wire.stream.codes import DELIVER, VERSION_2
from warren.wire.stream.frames import FrameWriter

CHUNK_BYTES: Final = 128 << 10
MESSAGES_MAX: Final = min(4096, ENTRIES_MAX)  # of a chunk
CREDIT_MAX: Final = 65_535
EPOCH: Final = 1  # of every chunk: clients only compare chunks of one connection


class Subscription:
    """See the module. `end` must be called."""

    def __init__(
        self,
        number: int,
        host: StreamHost,
        member: StreamMember,
        spec: OffsetSpec,
        properties: dict[str, str],
        mark: Callable[[], None],
        counts: Counts,
        is_active: bool = True,
    ) -> None:
        """Not active: it waits for `begin`. `counts`: of the node's messages."""
        self._counts = counts
        self.number = number
        self.host = host
        self.name = properties.get("name", "")
        self.properties = properties
        self.credit = 0
        self.delivered_count = 0
        self.last_offset = -1  # of the message that was sent last; -1: none was
        self.is_single = not is_active
        self._member = member
        self.on_end: Callable[[], None] | None = None
        self._mark = mark
        self._spec = spec
        self._reader = StreamReader(member, spec, mark) if is_active else None
        # Read and not sent: offset, chunk, index, count of what began another chunk
        self._next: tuple[int, Chunk, int, int] | None = None
        member.consumer_count += 1
        member.watchers.append(mark)

    @property
    def next_offset(self) -> int:
        """Of the message that is sent next; -1: it is being looked up, or it is not active."""
        if self._reader is None:
            return NOT_KNOWN
        return self._reader.next_offset if self._next is None else self._next[0]

    @property
    def lag(self) -> int:
        """Committed messages behind the one that was sent last, or that is sent first."""
        sent = self.last_offset + 1 if self.last_offset >= 0 else max(0, self.next_offset)
        return max(0, self._member.next_offset - max(sent, self._member.first_offset))

    @property
    def is_gone(self) -> bool:
        """The stream is deleted, or has left this node."""
        return self._member.is_gone

    @property
    def error(self) -> Exception | None:
        """A segment cannot be read."""
        return None if self._reader is None else self._reader.error

    @property
    def is_active(self) -> bool:
        return self._reader is not None

    def begin(self, start: Start | None, value: int) -> None:
        """Send messages from there on; None: from where it was subscribed."""
        spec = self._spec
        if start is not None:
            spec = OffsetSpec(start, value, spec.filter)
        self._next = None
        self._reader = StreamReader(self._member, spec, self._mark)
        self._mark()

    def stop(self) -> None:
        """Send nothing until `begin`."""
        self._next = None
        self._reader = None

    def grant(self, credit: int) -> None:
        self.credit = min(CREDIT_MAX, self.credit + credit)

    def has_scanned(self) -> bool:
        """Its filter looked at as many messages as it may in one turn."""
        return self.credit > 0 and self._reader is not None and self._reader.has_scanned

    def take_frame(self, version: int, now_ms: int) -> bytes | None:
        """A frame with the next chunk, for one credit; None: there is nothing to send now."""
        if self.credit == 0 or self._reader is None:
            return None
        first, messages, timestamp_ms = self._take(self._reader)
        if not messages:
            return None
        self.credit -= 1
        self.delivered_count += len(messages)
        self.last_offset = first + len(messages) - 1
        self._member.delivered_count += len(messages)
        self._counts.delivered_no_ack += len(messages)
        frame = FrameWriter(DELIVER, version).u8(self.number)
        if version == VERSION_2:
            frame.u64(max(0, self._member.last_chunk_offset))
        return frame.raw(encode_chunk(first, timestamp_ms or now_ms, EPOCH, messages)).end()

    def _take(self, reader: StreamReader) -> tuple[int, list[bytes], int]:
        """Messages whose offsets count up, the first one's offset, and when it was written."""
        first, size = 0, 0
        messages: list[bytes] = []
        timestamp_ms = 0
        while size < CHUNK_BYTES and len(messages) < MESSAGES_MAX:
            found = self._next or reader.take(MESSAGES_MAX)
            self._next = None
            if found is None:
                break
            offset, chunk, index, count = found
            if messages and offset != first + len(messages):
                self._next = found  # A filter left some out.
                break
            if not messages:
                first, timestamp_ms = offset, reader.taken_ms
            used = 0
            while used < count and size < CHUNK_BYTES and len(messages) < MESSAGES_MAX:
                message = body_of(chunk, index + used)
                messages.append(message)
                size += len(message)
                used += 1
            if used < count:
                self._next = (offset + used, chunk, index + used, count - used)
        return first, messages, timestamp_ms

    def end(self) -> None:
        if self.on_end is not None:
            self.on_end()
        self._member.consumer_count -= 1
        if self._mark in self._member.watchers:
            self._member.watchers.remove(self._mark)
