"""One subscription of a connection of the stream protocol: chunks of its stream, by credit.

It reads the committed messages of the member on this node, at its own place, and packs them into
chunks of at most CHUNK_BYTES; those of segment files are packed on the thread that reads them. One
chunk takes one credit. Nothing is kept of what was sent, but for the last chunks of the tail, which
other subscriptions without a filter are sent as they are.
"""

from collections.abc import Callable
from typing import Final

from node.streams.bodies import put_entries
from queues.message import Chunk
from queues.sessions.counts import Counts
from queues.streams.host import StreamHost
from queues.streams.member import StreamMember
from queues.streams.offsets import OffsetSpec, Start
from queues.streams.reader import NOT_KNOWN, StreamReader
from queues.streams.tail import EncodedChunk, Run
from warren.wire.buffer import BytesWriter
from warren.wire.stream.chunks import ENTRIES_MAX, chunk_head
from warren.wire.stream.codes import DELIVER, VERSION_2
from warren.wire.stream.frames import FrameWriter

CHUNK_BYTES: Final = 128 << 10
MESSAGES_MAX: Final = min(4096, ENTRIES_MAX)  # of a chunk
CREDIT_MAX: Final = 65_535
EPOCH: Final = 1  # of every chunk: clients only compare chunks of one connection


class Packing:
    """A chunk that is being made, of messages whose offsets count up."""

    def __init__(self) -> None:
        self.count = 0
        self._first = 0
        self._timestamp_ms = 0  # when the first message was written
        self._writer = BytesWriter()

    @property
    def room(self) -> int:
        """So many more messages, at most."""
        return MESSAGES_MAX - self.count

    @property
    def is_full(self) -> bool:
        return self.room == 0 or len(self._writer) >= CHUNK_BYTES

    def continues(self, offset: int) -> bool:
        """Whether the message with that offset may be the next one."""
        return self.count == 0 or offset == self._first + self.count

    def put(self, offset: int, chunk: Chunk, index: int, count: int, timestamp_ms: int) -> int:
        """Add messages of a run, written at that time, as many as there is room for, and at least
        one; return how many."""
        if self.count == 0:
            self._first, self._timestamp_ms = offset, timestamp_ms
        used = put_entries(self._writer, chunk, index, min(count, self.room), CHUNK_BYTES)
        self.count += used
        return used

    def end(self) -> EncodedChunk:
        data = self._writer.getvalue()
        head = chunk_head(self._first, self._timestamp_ms, EPOCH, self.count, data)
        return EncodedChunk(self._first, self._first + self.count, head, data)


def encode_runs(runs: list[Run], offset: int) -> list[EncodedChunk]:
    """All messages of these runs from an offset on. Called on a thread."""
    found: list[EncodedChunk] = []
    packing = Packing()
    for first, chunk, made_ms in runs:
        index = max(0, offset - first)
        count = int(chunk.count())
        while index < count:
            if packing.is_full or not packing.continues(first + index):
                found.append(packing.end())
                packing = Packing()
            index += packing.put(first + index, chunk, index, count - index, made_ms)
    if packing.count > 0:
        found.append(packing.end())
    return found


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
        self._reader = self._reading(spec) if is_active else None
        member.consumer_count += 1
        member.watchers.append(mark)

    def _reading(self, spec: OffsetSpec) -> StreamReader:
        encode = encode_runs if spec.filter is None else None
        return StreamReader(self._member, spec, self._mark, encode)

    @property
    def next_offset(self) -> int:
        """Of the message that is sent next; -1: it is being looked up, or it is not active."""
        return NOT_KNOWN if self._reader is None else self._reader.next_offset

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
        self._reader = self._reading(spec)
        self._mark()

    def stop(self) -> None:
        """Send nothing until `begin`."""
        self._reader = None

    def grant(self, credit: int) -> None:
        self.credit = min(CREDIT_MAX, self.credit + credit)

    def has_scanned(self) -> bool:
        """Its filter looked at as many messages as it may in one turn."""
        return self.credit > 0 and self._reader is not None and self._reader.has_scanned

    def take_frame(self, version: int, now_ms: int) -> list[bytes]:
        """A frame with the next chunk, for one credit, in parts; none: there is nothing to send
        now."""
        if self.credit == 0 or self._reader is None:
            return []
        encoded = self._next_chunk(self._reader, now_ms)
        if encoded is None:
            return []
        self.credit -= 1
        count = encoded.end_offset - encoded.first_offset
        self.delivered_count += count
        self.last_offset = encoded.end_offset - 1
        self._member.delivered_count += count
        self._counts.delivered_no_ack += count
        frame = FrameWriter(DELIVER, version).u8(self.number)
        if version == VERSION_2:
            frame.u64(max(0, self._member.last_chunk_offset))
        return [frame.raw(encoded.head).end(len(encoded.data)), encoded.data]

    def _next_chunk(self, reader: StreamReader, now_ms: int) -> EncodedChunk | None:
        """The chunk from the next offset on: the one that another subscription has been sent, or
        one that is made of what the reader gives."""
        member = self._member
        is_shared = self._spec.filter is None and member.consumer_count > 1
        if is_shared and (found := member.tail.encoded.find(reader.next_offset)) is not None:
            reader.go_to(found.end_offset)
            return found
        if (found := reader.take_encoded()) is not None:
            return found
        made = self._take(reader, now_ms)
        if made is not None and is_shared and 0 <= member.tail.first_offset <= made.first_offset:
            member.tail.encoded.add(made)
        return made

    def _take(self, reader: StreamReader, now_ms: int) -> EncodedChunk | None:
        """A chunk of messages whose offsets count up."""
        packing = Packing()
        while not packing.is_full:
            found = reader.take(packing.room)
            if found is None:
                break
            offset, chunk, index, count = found
            if not packing.continues(offset):
                reader.go_to(offset)  # A filter left some out.
                break
            used = packing.put(offset, chunk, index, count, reader.taken_ms or now_ms)
            reader.go_to(offset + used)
        return packing.end() if packing.count > 0 else None

    def end(self) -> None:
        if self.on_end is not None:
            self.on_end()
        self._member.consumer_count -= 1
        if self._mark in self._member.watchers:
            self._member.watchers.remove(self._mark)
