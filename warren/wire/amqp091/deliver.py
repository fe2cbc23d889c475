"""Messages in stored form 1 (`events`) on their way out, and taken apart or made. Compiled.

A delivery is a basic.deliver method frame, then the content frames of the message as they came in.
They are copied; their channel is patched, and a body is cut again only where one of its frames is
too large for this consumer's `frame_max`.
"""

from typing import Final

from mypy_extensions import i32, i64, u8

from warren.wire.amqp091.fields import write_short, write_short_bytes, write_short_string
from warren.wire.buffer import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i32_le,
    read_i64_be,
    write_i32_be,
    write_i64_be,
)
from warren.wire.inplace import copy_words, same_bytes

Buffer = bytes | memoryview

FRAME_END: Final = 0xCE
FRAME_OVERHEAD: Final = 8  # kind, channel, size, end
BODY: Final = 3  # a kind of frame
DELIVER: Final = 0x003C003C
PUBLISH: Final = 0x003C0028
ACK: Final = 0x003C0050
NACK: Final = 0x003C0078
LARGE_BYTES: Final = 8192  # a frame of so many is sent as it lies in memory
SMALL_BYTES: Final = 128  # a content up to this size is copied by words: no slice is made


def consumer_prefix(consumer_tag: bytes) -> bytes:
    """How every basic.deliver payload to this consumer begins: method and consumer tag."""
    writer = BytesWriter()
    write_i32_be(writer, DELIVER)
    write_short_bytes(writer, consumer_tag)
    return writer.getvalue()


def write_deliveries(
    writer: BytesWriter,
    channel: i64,
    prefix: bytes,
    first_tag: i64,
    redelivered: bool,
    data: bytes,
    base: i64,
    offsets: bytes,
    first: i64,
    last: i64,
    frame_max: i64,
) -> None:
    """Write messages first..last-1 of a chunk, with delivery tags from `first_tag` on.

    `prefix` is the consumer's (`consumer_prefix`); message `i` is
    `data[offsets[i] - base : offsets[i + 1] - base]`.
    """
    rest = prefix[1:]  # The first octet, the high one of the class id, goes with the frame head.
    flag: i64 = 1 if redelivered else 0
    tag = first_tag
    route = b""
    route_at: i64 = -1
    route_bytes: i64 = -1
    head: i64 = 0
    start = i64(read_i32_le(offsets, 4 * first)) - base
    while first < last:
        first += 1
        end = i64(read_i32_le(offsets, 4 * first)) - base
        size = i64(read_i32_be(data, start + 3)) - 7  # without method, ticket and bits
        if size != route_bytes or not same_bytes(data, route_at, start + 13, size):
            route_at = start + 13
            route_bytes = size
            route = data[route_at : route_at + size]
            head = 1 << 56 | channel << 40 | (i64(len(prefix)) + 9 + size) << 8
        write_i64_be(writer, head)
        writer.write(rest)
        write_i64_be(writer, tag)
        writer.append(flag)
        writer.write(route)
        writer.append(FRAME_END)
        write_content(writer, channel, data, start, end, frame_max)
        tag += 1
        start = end


def write_large(
    writer: BytesWriter,
    parts: list[Buffer],
    channel: i64,
    prefix: bytes,
    first_tag: i64,
    redelivered: bool,
    data: bytes,
    base: i64,
    offsets: bytes,
    first: i64,
    last: i64,
    frame_max: i64,
) -> None:
    """As `write_deliveries`, for large bodies: they are not copied.

    What the writer holds goes to `parts` first, then views of `data` and what is between them; the
    end stays in the writer.
    """
    view = memoryview(data)
    tag = first_tag
    start = i64(read_i32_le(offsets, 4 * first)) - base
    while first < last:
        first += 1
        end = i64(read_i32_le(offsets, 4 * first)) - base
        size = i64(read_i32_be(data, start + 3)) - 7  # without method, ticket and bits
        write_i64_be(writer, 1 << 56 | channel << 40 | (i64(len(prefix)) + 9 + size) << 8)
        writer.write(prefix[1:])  # Its first octet, that of the class id, went with the head.
        write_i64_be(writer, tag)
        writer.append(1 if redelivered else 0)
        writer.write(data[start + 13 : start + 13 + size])
        writer.append(FRAME_END)
        _put_content(writer, parts, channel, data, view, start, end, frame_max)
        tag += 1
        start = end


def _put_content(
    writer: BytesWriter,
    parts: list[Buffer],
    channel: i64,
    data: bytes,
    view: memoryview,
    start: i64,
    end: i64,
    frame_max: i64,
) -> None:
    """The content frames of the message `data[start:end]`; large ones as parts."""
    pos = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
    while pos < end:
        size = i64(read_i32_be(data, pos + 3))
        after = pos + FRAME_OVERHEAD + size
        kind: i64 = data[pos]
        if size < LARGE_BYTES or (size + FRAME_OVERHEAD > frame_max and kind == BODY):
            _write_frames(writer, channel, data, pos, after, frame_max)
        else:
            write_i32_be(writer, i32(kind << 24 | channel << 8 | size >> 24))
            writer.append(size >> 16 & 255)
            write_short(writer, size & 0xFFFF)
            parts.append(writer.getvalue())
            writer.truncate(0)
            parts.append(view[pos + 7 : after])
        pos = after


def write_content(
    writer: BytesWriter, channel: i64, data: bytes, start: i64, end: i64, frame_max: i64
) -> None:
    """Write the content frames of the message `data[start:end]`."""
    header_at = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
    body_at = header_at + FRAME_OVERHEAD + i64(read_i32_be(data, header_at + 3))
    if body_at < end:
        body_bytes = FRAME_OVERHEAD + i64(read_i32_be(data, body_at + 3))
        if body_bytes > frame_max or body_at + body_bytes != end:
            _write_frames(writer, channel, data, header_at, end, frame_max)
            return
    at: i64 = len(writer)
    if end - header_at <= SMALL_BYTES:
        copy_words(writer, data, header_at, end)
    else:
        writer.write(data[header_at:end])
    if i64(read_i16_be(data, header_at + 1)) & 0xFFFF != channel:
        writer[at + 1] = u8(channel >> 8)
        writer[at + 2] = u8(channel & 255)
        if body_at < end:
            at += body_at - header_at
            writer[at + 1] = u8(channel >> 8)
            writer[at + 2] = u8(channel & 255)


def _write_frames(
    writer: BytesWriter, channel: i64, data: bytes, pos: i64, end: i64, frame_max: i64
) -> None:
    """Write content frames one by one. The caller has checked that the header frame fits."""
    while pos < end:
        kind: i64 = data[pos]
        size = i64(read_i32_be(data, pos + 3))
        pos += 7
        limit = frame_max - FRAME_OVERHEAD if kind == BODY else size
        stop = pos + size
        while pos < stop:
            piece = min(limit, stop - pos)
            _write_frame(writer, kind, channel, data, pos, pos + piece)
            pos += piece
        pos += 1


def _write_frame(
    writer: BytesWriter, kind: i64, channel: i64, data: bytes, pos: i64, end: i64
) -> None:
    """Write a frame around data[pos:end]."""
    size = end - pos
    write_i32_be(writer, i32(kind << 24 | channel << 8 | size >> 24))
    writer.append(size >> 16 & 255)
    write_short(writer, size & 0xFFFF)
    writer.write(data[pos:end])
    writer.append(FRAME_END)


def write_method(writer: BytesWriter, channel: i64, payload: bytes) -> None:
    """Write a method frame."""
    _write_frame(writer, 1, channel, payload, 0, len(payload))


def write_ack(writer: BytesWriter, channel: i64, tag: i64, multiple: bool) -> None:
    write_i64_be(writer, 1 << 56 | channel << 40 | 13 << 8)
    writer.append(0x3C)
    writer.append(0)
    writer.append(0x50)
    write_i64_be(writer, tag)
    writer.append(1 if multiple else 0)
    writer.append(FRAME_END)


def write_nack(
    writer: BytesWriter, channel: i64, tag: i64, multiple: bool, requeue: bool = False
) -> None:
    write_i64_be(writer, 1 << 56 | channel << 40 | 13 << 8)
    writer.append(0x3C)
    writer.append(0)
    writer.append(0x78)
    write_i64_be(writer, tag)
    writer.append((1 if multiple else 0) | (2 if requeue else 0))
    writer.append(FRAME_END)


def header_frame_bytes(data: bytes, start: i64) -> i64:
    """Return the size of the content header frame of the message at `start`."""
    header_at = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
    return FRAME_OVERHEAD + i64(read_i32_be(data, header_at + 3))


def fitting_headers(
    data: bytes, base: i64, offsets: bytes, first: i64, last: i64, frame_max: i64
) -> i64:
    """Return how many messages from `first` on have a header frame of at most `frame_max` bytes.

    The protocol cannot split a header frame. A message that is no larger than `frame_max` in all
    needs no look at its header.
    """
    start = i64(read_i32_le(offsets, 4 * first))
    if i64(read_i32_le(offsets, 4 * last)) - start <= frame_max:
        return last - first
    place = first
    while place < last:
        end = i64(read_i32_le(offsets, 4 * place + 4))
        if end - start > frame_max and header_frame_bytes(data, start - base) > frame_max:
            break
        place += 1
        start = end
    return place - first


def content_size(data: bytes, start: i64) -> i64:
    """Bytes of the body of the message at `start`, as its header announces them."""
    header_at = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
    return read_i64_be(data, header_at + 11)


def body_bytes(data: bytes, start: i64, end: i64) -> bytes:
    """The body of the message `data[start:end]`."""
    pos = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
    pos += FRAME_OVERHEAD + i64(read_i32_be(data, pos + 3))
    pieces: list[bytes] = []
    while pos < end:
        size = i64(read_i32_be(data, pos + 3))
        pieces.append(data[pos + 7 : pos + 7 + size])
        pos += FRAME_OVERHEAD + size
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def names_in(data: bytes, start: i64) -> tuple[str, bytes]:
    """Exchange and routing key of the message."""
    exchange_at = start + 14
    exchange_end = exchange_at + data[exchange_at - 1]
    key_end = exchange_end + 1 + data[exchange_end]
    return data[exchange_at:exchange_end].decode("utf-8"), data[exchange_end + 1 : key_end]


def extract(data: bytes, start: i64, end: i64) -> tuple[str, bytes, bytes, bytes]:
    """Exchange, routing key, properties (`properties`) and body of the message."""
    exchange, routing_key = names_in(data, start)
    header_at = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
    header_end = header_at + 7 + i64(read_i32_be(data, header_at + 3))
    properties = data[header_at + 19 : header_end]
    return exchange, routing_key, properties, body_bytes(data, start, end)


def build(
    exchange: str,
    routing_key: bytes,
    properties: bytes,
    body: bytes,
    frame_max: i64 = 131072,
    bits: i64 = 0,
) -> bytes:
    """The message in stored form 1, on channel 0; `bits`: 1 mandatory, 2 immediate."""
    method = BytesWriter()
    write_i32_be(method, PUBLISH)
    write_short(method, 0)
    write_short_string(method, exchange)
    write_short_bytes(method, routing_key)
    method.append(bits)
    header = BytesWriter()
    write_i32_be(header, 0x003C0000)
    write_i64_be(header, len(body))
    header.write(properties)
    writer = BytesWriter()
    write_method(writer, 0, method.getvalue())
    payload = header.getvalue()
    _write_frame(writer, 2, 0, payload, 0, len(payload))
    pos: i64 = 0
    size: i64 = len(body)
    while pos < size:
        stop = min(size, pos + frame_max - FRAME_OVERHEAD)
        _write_frame(writer, 3, 0, body, pos, stop)
        pos = stop
    return writer.getvalue()
