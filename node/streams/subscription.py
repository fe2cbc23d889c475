"""One subscription of a connection of the stream protocol: chunks of its stream, by credit.

It reads the committed messages of the member on this node, at its own place, and packs them into
chunks of at most CHUNK_BYTES; one chunk takes one credit. Nothing is kept of what was sent.
"""

from collections.abc import Callable
from typing import Final

from node.streams.bodies import body_of
from queues.message import Chunk
from queues.streams.host import StreamHost
from queues.streams.member import StreamMember
from queues.streams.offsets import OffsetSpec
from queues.streams.reader import StreamReader
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
    ) -> None:
        self.number = number
        self.host = host
        self.name = properties.get("name", "")
        self.properties = properties
        self.credit = 0
        self.delivered_count = 0
        self._member = member
        self._mark = mark
        self._reader = StreamReader(member, spec, mark)
        # Read and not sent: offset, chunk, index, count of what began another chunk
        self._next: tuple[int, Chunk, int, int] | None = None
        member.consumer_count += 1
        member.watchers.append(mark)

    @property
    def next_offset(self) -> int:
        """Of the message that is sent next; -1: it is being looked up."""
        return self._reader.next_offset if self._next is None else self._next[0]

    @property
    def is_gone(self) -> bool:
        """The stream is deleted, or has left this node."""
        return self._member.is_gone

    @property
    def error(self) -> Exception | None:
        """A segment cannot be read."""
        return self._reader.error

    def grant(self, credit: int) -> None:
        self.credit = min(CREDIT_MAX, self.credit + credit)

    def has_scanned(self) -> bool:
        """Its filter looked at as many messages as it may in one turn."""
        return self.credit > 0 and self._reader.has_scanned

    def take_frame(self, version: int, now_ms: int) -> bytes | None:
        """A frame with the next chunk, for one credit; None: there is nothing to send now."""
        if self.credit == 0:
            return None
        first, messages, timestamp_ms = self._take()
        if not messages:
            return None
        self.credit -= 1
        self.delivered_count += len(messages)
        self._member.delivered_count += len(messages)
        frame = FrameWriter(DELIVER, version).u8(self.number)
        if version == VERSION_2:
            frame.u64(max(0, self._member.last_chunk_offset))
        return frame.raw(encode_chunk(first, timestamp_ms or now_ms, EPOCH, messages)).end()

    def _take(self) -> tuple[int, list[bytes], int]:
        """Messages whose offsets count up, the first one's offset, and when it was written."""
        first, size = 0, 0
        messages: list[bytes] = []
        timestamp_ms = 0
        while size < CHUNK_BYTES and len(messages) < MESSAGES_MAX:
            found = self._next or self._reader.take(MESSAGES_MAX)
            self._next = None
            if found is None:
                break
            offset, chunk, index, count = found
            if messages and offset != first + len(messages):
                self._next = found  # A filter left some out.
                break
            if not messages:
                first, timestamp_ms = offset, self._reader.taken_ms
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
        self._member.consumer_count -= 1
        if self._mark in self._member.watchers:
            self._member.watchers.remove(self._mark)
