"""Messages of a queue in the form in which AMQP 0-9-1 delivers them. Compiled, hot.

Takes messages in either stored form and gives them in stored form 1; messages of a stream bear
their offset in the header `x-stream-offset`. What messages of one publisher begin with is converted
once (`Beginning`): then a message is that beginning, its offset, and its body as it came. Any other
message is converted by itself. `cost` tells how much that was, so that a turn stays short.
"""

from typing import Final, final

from mypy_extensions import i32, i64

from queues.conversion.chunks import names_of
from queues.conversion.costs import CONVERTED, REPEATED
from queues.conversion.to_amqp091 import to_amqp091
from queues.message import FORMAT_091, FORMAT_10, Chunk
from warren.wire.amqp091.deliver import BODY, FRAME_END, FRAME_OVERHEAD
from warren.wire.amqp091.fields import write_short
from warren.wire.amqp091.properties import HEADERS, find_property
from warren.wire.amqp091.rewrite import raw_headers, rewrite, without_keys
from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.transfers import payload_at
from warren.wire.buffer import BytesWriter, read_i32_be, write_i32_be, write_i32_le, write_i64_be
from warren.wire.errors import ProtocolError
from warren.wire.inplace import begins_with, copy

KNOWN_MAX: Final = 64
HEAD_BYTES_MAX: Final = 4096  # of what is remembered of a message
OFFSET_HEADER: Final = b"x-stream-offset"
NO_OFFSET: Final = -1
SIGNED_64: Final = 0x6C  # kind of a header
OFFSET_BYTES: Final = 8
SIZE_AT: Final = 11  # of the body in a header frame: behind the frame's head, class and weight
PROPERTIES_AT: Final = 19
BODY_FRAME_MAX: Final = 131072 - FRAME_OVERHEAD
DATA_SECTION: Final = 0x005375  # descriptor of a data section


@final
class Beginning:
    """Publish and header frame of messages that differ in their body and offset alone.

    `front` ends before the size of the body, `middle` before the offset, or before the end of the
    frame if the messages have none (`is_numbered`).
    """

    def __init__(self, front: bytes, middle: bytes, rest: bytes, is_numbered: bool) -> None:
        self.front = front
        self.middle = middle
        self.rest = rest
        self.is_numbered = is_numbered

    def write(self, writer: BytesWriter, body_bytes: i64, offset: i64) -> None:
        writer.write(self.front)
        write_i64_be(writer, body_bytes)
        writer.write(self.middle)
        if self.is_numbered:
            write_i64_be(writer, offset)
            writer.write(self.rest)
        writer.append(FRAME_END)


NOTHING: Final = Beginning(b"", b"", b"", False)


@final
class Forms:
    """What one channel remembers of conversions. Invariant: `_beginning` is that of messages with
    `_names` whose sections before the body are `_head`, or, in form 1, of those whose publish frame
    is `_names` and whose properties are `_head`."""

    def __init__(self) -> None:
        self.cost: i64 = 0  # of what `show` did last
        self._sections = Sections()
        self._known: dict[tuple[int, bool, bytes, bytes], Beginning] = {}
        self._format_tag: i64 = -1
        self._names = b""
        self._head = b""
        self._beginning = NOTHING

    def show(self, chunk: Chunk, index: i64, count: i64, offset: i64, cost_max: i64) -> Chunk:
        """Messages index.. in stored form 1: up to `count`, and no more once they cost so much.

        The first has this offset; NO_OFFSET: they have none.
        """
        data = chunk.data
        assert data is not None
        is_091 = chunk.format_tag == FORMAT_091
        writer, offsets = BytesWriter(), BytesWriter()
        write_i32_le(offsets, 0)
        self.cost = 0
        place: i64 = 0
        while place < count and (place == 0 or self.cost < cost_max):
            start, end = chunk.span(index + place)
            number = NO_OFFSET if offset == NO_OFFSET else offset + place
            if is_091:
                is_repeated = self._put_091(writer, data, start, end, number)
            else:
                is_repeated = self._put_10(writer, data, start, end, chunk.names, number)
            least: i64 = REPEATED if is_repeated else CONVERTED
            self.cost += max(i64(end) - i64(start), least)
            write_i32_le(offsets, i32(len(writer)))
            place += 1
        return Chunk(FORMAT_091, writer.getvalue(), 0, offsets.getvalue(), chunk.info)

    def _find(self, format_tag: i64, is_numbered: bool, names: bytes, head: bytes) -> bool:
        """Have the beginning at hand; False: it is not known."""
        found = self._known.get((int(format_tag), is_numbered, names, head))
        if found is None:
            return False
        self._use(format_tag, names, head, found)
        return True

    def _use(self, format_tag: i64, names: bytes, head: bytes, beginning: Beginning) -> None:
        self._format_tag = format_tag
        self._names = names
        self._head = head
        self._beginning = beginning

    def _learn(
        self, format_tag: i64, is_numbered: bool, names: bytes, head: bytes, message: bytes
    ) -> None:
        """Remember the beginning of a message, as it is shown, unless it is large."""
        if len(head) > HEAD_BYTES_MAX:
            return
        header_at = FRAME_OVERHEAD + i64(read_i32_be(message, 3))
        end = header_at + 7 + i64(read_i32_be(message, header_at + 3))
        middle_end = end
        if is_numbered:
            pos = find_property(message, 0, HEADERS)
            # `with_offset` has put it behind the other headers.
            middle_end = pos + 4 + i64(read_i32_be(message, pos)) - OFFSET_BYTES
        front = message[: header_at + SIZE_AT]
        middle = message[header_at + PROPERTIES_AT : middle_end]
        rest = message[middle_end + OFFSET_BYTES : end] if is_numbered else b""
        if len(self._known) >= KNOWN_MAX:
            self._known = {}
        beginning = Beginning(front, middle, rest, is_numbered)
        self._known[(int(format_tag), is_numbered, names, head)] = beginning
        self._use(format_tag, names, head, beginning)

    # Messages of AMQP 1.0

    def _put_10(
        self, writer: BytesWriter, data: bytes, start: i64, end: i64, names: bytes, offset: i64
    ) -> bool:
        """Append the message; return whether its beginning was known."""
        at = payload_at(data, start)
        is_numbered = offset != NO_OFFSET
        if (
            self._format_tag == FORMAT_10
            and self._beginning.is_numbered == is_numbered
            and self._names == names
            and begins_with(data, at, end, self._head)
        ):
            body_at = content_at(data, at + len(self._head), end)
            if body_at >= 0:
                self._write(writer, data, body_at, end, offset)
                return True
        sections = self._sections
        if sections.walk(data, at, end) and sections.footer_at == end:
            body_at = content_at(data, sections.body_at, end)
            if body_at >= 0:
                head = data[at : sections.body_at]
                if self._find(FORMAT_10, is_numbered, names, head):
                    self._write(writer, data, body_at, end, offset)
                    return True
                self._convert(writer, data, at, end, names, offset, head)
                return False
        self._convert(writer, data, at, end, names, offset, None)
        return False

    def _convert(
        self,
        writer: BytesWriter,
        data: bytes,
        at: i64,
        end: i64,
        names: bytes,
        offset: i64,
        head: bytes | None,
    ) -> None:
        """Append the message; remember what it begins with where that is said."""
        exchange, routing_key = names_of(names)
        plain = to_amqp091(data, int(at), int(end), exchange, routing_key)
        message = plain if offset == NO_OFFSET else with_offset(plain, 0, len(plain), offset)
        if head is not None and (offset == NO_OFFSET or message != plain):
            self._learn(FORMAT_10, offset != NO_OFFSET, names, head, message)
        writer.write(message)

    def _write(self, writer: BytesWriter, data: bytes, body_at: i64, end: i64, offset: i64) -> None:
        """Append a message of the beginning at hand."""
        self._beginning.write(writer, end - body_at, offset)
        while body_at < end:
            stop = min(end, body_at + BODY_FRAME_MAX)
            size = stop - body_at
            writer.append(BODY)
            write_short(writer, 0)
            write_i32_be(writer, i32(size))
            copy(writer, data, body_at, stop)
            writer.append(FRAME_END)
            body_at = stop

    # Messages of AMQP 0-9-1, of a stream

    def _put_091(self, writer: BytesWriter, data: bytes, start: i64, end: i64, offset: i64) -> bool:
        """Append the message with its offset; return whether its beginning was known."""
        header_at = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
        properties_at = header_at + PROPERTIES_AT
        properties_end = header_at + 7 + i64(read_i32_be(data, header_at + 3))
        if not (
            self._format_tag == FORMAT_091
            and header_at - start == len(self._names)
            and properties_end - properties_at == len(self._head)
            and begins_with(data, start, end, self._names)
            and begins_with(data, properties_at, end, self._head)
        ):
            names = data[start:header_at]
            head = data[properties_at:properties_end]
            if not self._find(FORMAT_091, True, names, head):
                message = with_offset(data, start, end, offset)
                if message != data[start:end]:
                    self._learn(FORMAT_091, True, names, head, message)
                writer.write(message)
                return False
        writer.write(self._beginning.front)
        copy(writer, data, header_at + SIZE_AT, properties_at)
        writer.write(self._beginning.middle)
        write_i64_be(writer, offset)
        writer.write(self._beginning.rest)
        copy(writer, data, properties_end, end)
        return True


def content_at(data: bytes, at: i64, end: i64) -> i64:
    """Where the bytes begin of a data section that is data[at:end]; -1: that is something else."""
    if end - at < 5 or i64(data[at]) << 16 | i64(data[at + 1]) << 8 | data[at + 2] != DATA_SECTION:
        return -1
    kind: i64 = data[at + 3]
    if kind == codes.BINARY_8:
        return at + 5 if at + 5 + data[at + 4] == end else -1
    if kind != codes.BINARY or end - at < 8:
        return -1
    size = i64(read_i32_be(data, at + 4)) & 0xFFFFFFFF
    return at + 8 if at + 8 + size == end else -1


def with_offset(data: bytes, start: i64, end: i64, offset: i64) -> bytes:
    """The message with the header; one whose headers cannot be read is delivered as it is."""
    try:
        kept = without_keys(raw_headers(data, start), (OFFSET_HEADER,))
    except ProtocolError:
        return data[start:end]
    table = BytesWriter()
    table.write(kept)
    table.append(len(OFFSET_HEADER))
    table.write(OFFSET_HEADER)
    table.append(SIGNED_64)
    write_i64_be(table, offset)
    return rewrite(data, start, end, None, None, table.getvalue(), 0, None)
