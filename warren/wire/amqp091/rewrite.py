"""A stored message with other names, headers or properties, and the same body. Compiled.

Takes messages in stored form 1 (`events`) and gives bytes of the same form: for BCC, which no
consumer may see, for dead letters, replies and other parts that pass a message on. Body frames are
copied as they are; properties that stay are copied undecoded.

A *table* here is what is behind the length of a field table: its entries, and nothing else. All
of a message was checked when it came in. Data of earlier builds may have messages whose headers
are malformed inside: what steps through those raises ProtocolError 501.
"""

from typing import Final

from mypy_extensions import i64, u8

from warren.wire.amqp091.fields import Reader, write_long_string, write_short_bytes
from warren.wire.amqp091.properties import (
    CLUSTER_ID,
    CONTENT_TYPE,
    HEADERS,
    REPLY_TO,
    TIMESTAMP,
    find_property,
    value_end,
)
from warren.wire.buffer import BytesWriter, read_i16_be, read_i32_be, write_i64_be

FRAME_END: Final = 0xCE
FRAME_HEAD: Final = 7  # kind, channel, size
FRAME_OVERHEAD: Final = 8  # the same, and the end
NO_TIMESTAMP: Final = -1
CONTENT_HEAD: Final = 12  # class, weight and body size, before the properties


def rewrite(
    data: bytes,
    start: i64,
    end: i64,
    exchange: bytes | None,
    routing_key: bytes | None,
    headers: bytes | None,
    drop: i64,
    reply_to: bytes | None,
    timestamp_s: i64 = NO_TIMESTAMP,
) -> bytes:
    """The message `data[start:end]` with what is given in place of what it had; None: as it was.

    `headers` is a table; `drop` is the flags of properties that go (`properties`), and what is
    given stays even then. ValueError: a name of more than 255 bytes.
    """
    header_at = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
    properties_at = header_at + FRAME_HEAD + CONTENT_HEAD
    properties_end = header_at + FRAME_HEAD + i64(read_i32_be(data, header_at + 3))
    writer = BytesWriter()
    if exchange is None and routing_key is None:
        writer.write(data[start:header_at])
    else:
        _write_publish(writer, data, start, exchange, routing_key)
    if headers is None and drop == 0 and reply_to is None and timestamp_s == NO_TIMESTAMP:
        writer.write(data[header_at:end])
        return writer.getvalue()
    at: i64 = len(writer)
    writer.write(data[header_at:properties_at])
    timestamp = None if timestamp_s == NO_TIMESTAMP else encoded_time(timestamp_s)
    given = (headers, reply_to, timestamp)
    _write_properties(writer, data, properties_at, properties_end, given, drop)
    _patch_size(writer, at)
    writer.append(FRAME_END)
    writer.write(data[properties_end + 1 : end])
    return writer.getvalue()


def _write_publish(
    writer: BytesWriter, data: bytes, start: i64, exchange: bytes | None, routing_key: bytes | None
) -> None:
    """The publish frame at `start`, with other names; its bits stay."""
    exchange_at = start + FRAME_HEAD + 6  # behind class, method and ticket
    key_at = exchange_at + 1 + data[exchange_at]
    bits_at = key_at + 1 + data[key_at]
    at: i64 = len(writer)
    writer.write(data[start:exchange_at])
    if exchange is None:
        writer.write(data[exchange_at:key_at])
    else:
        write_short_bytes(writer, exchange)
    if routing_key is None:
        writer.write(data[key_at:bits_at])
    else:
        write_short_bytes(writer, routing_key)
    writer.append(data[bits_at])
    _patch_size(writer, at)
    writer.append(FRAME_END)


def _write_properties(
    writer: BytesWriter,
    data: bytes,
    pos: i64,
    end: i64,
    replacing: tuple[bytes | None, bytes | None, bytes | None],
    drop: i64,
) -> None:
    """Flags and values of `data[pos:end]`, changed as `rewrite` says.

    `replacing`: headers, reply-to, and the bytes of the timestamp.
    """
    headers, reply_to, timestamp = replacing
    old = i64(read_i16_be(data, pos)) & 0xFFFF
    new = old & ~drop
    if headers is not None:
        new |= HEADERS
    if reply_to is not None:
        new |= REPLY_TO
    if timestamp is not None:
        new |= TIMESTAMP
    writer.append(new >> 8)
    writer.append(new & 255)
    pos += 2
    kept_from = pos  # What is behind it and before `pos` stays as it is, and is yet to be written.
    flag: i64 = CONTENT_TYPE
    while flag >= CLUSTER_ID:
        value_at = pos
        if old & flag != 0:
            pos = value_end(data, pos, end, flag)
            assert pos >= 0  # Checked when the message came in.
        given: bytes | None = None
        if flag == HEADERS:
            given = headers
        elif flag == REPLY_TO:
            given = reply_to
        elif flag == TIMESTAMP:
            given = timestamp
        if given is not None or (old & flag != 0 and new & flag == 0):
            writer.write(data[kept_from:value_at])
            kept_from = pos
        if given is not None:
            if flag == HEADERS:
                write_long_string(writer, given)
            elif flag == TIMESTAMP:
                writer.write(given)
            else:
                write_short_bytes(writer, given)
        flag >>= 1
    writer.write(data[kept_from:end])


def encoded_time(seconds: i64) -> bytes:
    """A timestamp: 8 bytes."""
    writer = BytesWriter()
    write_i64_be(writer, seconds)
    return writer.getvalue()


def _patch_size(writer: BytesWriter, at: i64) -> None:
    """Put right the size in the head of the frame that begins at `at` and is written up to here."""
    size = i64(len(writer)) - at - FRAME_HEAD
    writer[at + 3] = u8(size >> 24 & 255)
    writer[at + 4] = u8(size >> 16 & 255)
    writer[at + 5] = u8(size >> 8 & 255)
    writer[at + 6] = u8(size & 255)


def raw_headers(data: bytes, start: i64) -> bytes:
    """The headers of the message at `start`, as a table; empty if it has none."""
    pos = find_property(data, start, HEADERS)
    if pos < 0:
        return b""
    size = i64(read_i32_be(data, pos)) & 0xFFFFFFFF
    return data[pos + 4 : pos + 4 + size]


def without_keys(table: bytes, keys: tuple[bytes, ...]) -> bytes:
    """The table less its entries of these names."""
    reader = Reader(table, 0, len(table))
    kept: list[bytes] = []
    kept_from: i64 = 0
    while reader.pos < reader.end:
        entry_at = reader.pos
        name = reader.short_bytes()
        reader.skip_value()
        if name in keys:
            kept.append(table[kept_from:entry_at])
            kept_from = reader.pos
    if kept_from == 0:
        return table
    kept.append(table[kept_from:])
    return b"".join(kept)


def value_of(table: bytes, key: bytes) -> tuple[bool, object]:
    """Whether the table has an entry of this name, and the value of the first."""
    reader = Reader(table, 0, len(table))
    while reader.pos < reader.end:
        if reader.short_bytes() == key:
            return True, reader.value()
        reader.skip_value()
    return False, None
