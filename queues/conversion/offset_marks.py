"""The annotation x-stream-offset on messages of a stream, in runs. Compiled, hot.

Messages of one publisher begin alike: header and annotations are rewritten once for all that have
the same ones, with room for the number at the end. Then a message is that beginning, its offset as
eight octets, and the bare message as it came.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i32, i64

from queues.message import FORMAT_10, Chunk
from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.transfers import BARE_BYTES, payload_at, store
from warren.wire.buffer import BytesWriter, write_i32_be, write_i32_le, write_i64_be

NUMBER_BYTES: Final = 9  # of a wide ulong
ZERO: Final = bytes([codes.ULONG]) + bytes(NUMBER_BYTES - 1)
BARE_TRANSFER: Final = 0x00531445  # a transfer without fields
NO_HEAD: Final = b"\xff"  # no head of a message

# The same message in stored form 2, with the value ZERO as its annotation x-stream-offset.
Annotate = Callable[[bytes], bytes]


@final
class OffsetMarks:
    """Invariant: `_begin` is what messages that begin with `_head` begin with, less the number."""

    def __init__(self, annotate: Annotate) -> None:
        self._annotate = annotate
        self._sections = Sections()
        self._head = NO_HEAD
        self._begin = b""

    def mark(self, chunk: Chunk, index: i64, count: i64, offset: i64, bytes_min: i64) -> Chunk:
        """Messages of stored form 2 from `index` on, the first with this offset: up to `count`, and
        no more once they have `bytes_min` bytes together."""
        data = chunk.data
        assert data is not None
        writer, offsets = BytesWriter(), BytesWriter()
        write_i32_le(offsets, 0)
        place: i64 = 0
        while place < count and (place == 0 or len(writer) < bytes_min):
            begin, after = chunk.span(index + place)
            self._write(writer, data, begin, after, offset + place)
            write_i32_le(offsets, i32(len(writer)))
            place += 1
        return Chunk(FORMAT_10, writer.getvalue(), 0, offsets.getvalue(), chunk.info, chunk.names)

    def _write(self, writer: BytesWriter, data: bytes, begin: i64, after: i64, offset: i64) -> None:
        """The message data[begin:after] of form 2; one that is malformed as it is."""
        at = payload_at(data, begin)
        bare_at = self._sections.walk_head(data, at, after)
        if bare_at < 0:
            writer.write(data[begin:after])
            return
        head = data[at:bare_at]
        if head != self._head:
            annotated = self._annotate(store(head))
            self._begin = annotated[BARE_BYTES : len(annotated) - NUMBER_BYTES + 1]
            self._head = head
        size = BARE_BYTES + len(self._begin) + NUMBER_BYTES - 1 + after - bare_at
        write_i32_be(writer, i32(size))
        writer.write(data[begin + 4 : begin + 8])  # with the mark of a dead letter
        write_i32_be(writer, BARE_TRANSFER)
        writer.write(self._begin)
        write_i64_be(writer, offset)
        writer.write(data[bare_at:after])
