"""The annotation x-opt-ingress-time: when the broker took a message, in milliseconds since 1970.

In stored form 1 it is a header of that name, in form 2 a message annotation; it replaces one that
the publisher has set. All messages of a chunk get the same time, so those of form 2 that begin
alike, as messages of one publisher do, are rewritten once. A message whose headers or annotations
cannot be read stays as it is. Compiled.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i32, i64

from queues.message import FORMAT_10, Chunk
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp091.rewrite import raw_headers, rewrite, without_keys
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.transfers import BARE_BYTES, payload_at, store
from warren.wire.buffer import BytesWriter, write_i32_be, write_i32_le
from warren.wire.errors import ProtocolError

KEY: Final = "x-opt-ingress-time"
KEYS: Final = (KEY.encode(),)
LENGTH_BYTES: Final = 4  # of an encoded table
BARE_TRANSFER: Final = 0x00531445  # a transfer without fields
NO_HEAD: Final = b"\xff"  # no head of a message

# A message of form 2 with its annotations, at so many milliseconds.
Annotate = Callable[[bytes, int], bytes]


@final
class Fronts:
    """Writes messages of form 2 with other annotations. Invariant: `_begin` is what messages that
    begin with `_head` begin with once they are annotated at `_now_ms`."""

    def __init__(self, annotate: Annotate) -> None:
        self._annotate = annotate
        self._sections = Sections()
        self._now_ms: i64 = 0
        self._head = NO_HEAD
        self._begin = b""

    def write(self, writer: BytesWriter, data: bytes, begin: i64, after: i64, now_ms: i64) -> None:
        """Append the message data[begin:after]."""
        if now_ms != self._now_ms:
            self._now_ms = now_ms
            self._head = NO_HEAD
        at = payload_at(data, begin)
        bare_at = self._sections.walk_head(data, at, after)
        if bare_at < 0:
            writer.write(data[begin:after])
            return
        head = data[at:bare_at]
        if head != self._head:
            self._begin = self._annotate(store(head), int(now_ms))[BARE_BYTES:]
            self._head = head
        write_i32_be(writer, i32(BARE_BYTES + len(self._begin) + after - bare_at))
        writer.write(data[begin + 4 : begin + 8])  # with the channel: the mark of a dead letter
        write_i32_be(writer, BARE_TRANSFER)
        writer.write(self._begin)
        writer.write(data[bare_at:after])


@final
class IngressTimes:
    """Stamps the chunks of one set of targets."""

    def __init__(self, now_ms: Callable[[], int], annotate: Annotate) -> None:
        self._clock = now_ms
        self._fronts = Fronts(annotate)

    def stamp(self, chunk: Chunk) -> Chunk:
        """The same messages, whose bytes are in memory, with the time that it is now."""
        data = chunk.data
        assert data is not None
        now_ms = self._clock()
        is_10 = chunk.format_tag == FORMAT_10
        entry = b"" if is_10 else encode_table({KEY: now_ms})[LENGTH_BYTES:]
        writer, offsets = BytesWriter(), BytesWriter()
        write_i32_le(offsets, 0)
        count = chunk.count()
        place: i64 = 0
        while place < count:
            begin, after = chunk.span(place)
            if is_10:
                self._fronts.write(writer, data, begin, after, now_ms)
            else:
                writer.write(with_entry(data, begin, after, entry))
            write_i32_le(offsets, i32(len(writer)))
            place += 1
        made = offsets.getvalue()
        return Chunk(chunk.format_tag, writer.getvalue(), 0, made, chunk.info, chunk.names)


def with_entry(data: bytes, begin: i64, after: i64, entry: bytes) -> bytes:
    """The message of form 1 with the entry KEY in its headers."""
    try:
        table = without_keys(raw_headers(data, begin), KEYS)
    except ProtocolError:
        return data[begin:after]
    return rewrite(data, begin, after, None, None, table + entry, 0, None)
