"""The properties of a message: fourteen optional values behind a word of flags. Compiled.

`properties` here is the end of a content header frame's payload: flags (u16; the first property has
the highest bit), then the values that are present, in the order of `FLAGS`. The payload before it
is class id (u16), weight (u16), body size (u64). `headers_of` and its like read one property of a
message in stored form 1 (`events`) and step over the rest undecoded.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp091.events import (
    INFO_EXPIRATION,
    INFO_HEADERS,
    INFO_PERSISTENT,
    INFO_PRIORITY,
    INFO_PRIORITY_SHIFT,
    INFO_REPLY_TO,
    INFO_USER_ID,
)
from warren.wire.amqp091.fields import (
    Reader,
    is_table,
    write_longlong,
    write_short,
    write_short_string,
    write_table,
)
from warren.wire.buffer import BytesWriter, read_i16_be, read_i32_be
from warren.wire.errors import ProtocolError

CONTENT_TYPE: Final = 0x8000
CONTENT_ENCODING: Final = 0x4000
HEADERS: Final = 0x2000
DELIVERY_MODE: Final = 0x1000
PRIORITY: Final = 0x0800
CORRELATION_ID: Final = 0x0400
REPLY_TO: Final = 0x0200
EXPIRATION: Final = 0x0100
MESSAGE_ID: Final = 0x0080
TIMESTAMP: Final = 0x0040
TYPE: Final = 0x0020
USER_ID: Final = 0x0010
APP_ID: Final = 0x0008
CLUSTER_ID: Final = 0x0004

BAD_HEADERS: Final = -2  # of `scan_properties`
OCTETS: Final = DELIVERY_MODE | PRIORITY  # one byte each; the rest but two are short strings


@final
class BasicProperties:
    """The properties, decoded; None where absent. Strings that are not UTF-8 keep their bytes as
    surrogates."""

    def __init__(
        self,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, object] | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: str | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.headers = headers
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.expiration = expiration
        self.message_id = message_id
        self.timestamp = timestamp  # seconds since 1970
        self.type = type
        self.user_id = user_id
        self.app_id = app_id
        self.cluster_id = cluster_id

    def encode(self) -> bytes:
        """Flags and values. ValueError: a value that does not fit its field."""
        values = BytesWriter()
        flags: i64 = _write_text(values, CONTENT_TYPE, self.content_type)
        flags |= _write_text(values, CONTENT_ENCODING, self.content_encoding)
        if self.headers is not None:
            flags |= HEADERS
            write_table(values, self.headers)
        flags |= _write_octet(values, DELIVERY_MODE, self.delivery_mode)
        flags |= _write_octet(values, PRIORITY, self.priority)
        flags |= _write_text(values, CORRELATION_ID, self.correlation_id)
        flags |= _write_text(values, REPLY_TO, self.reply_to)
        flags |= _write_text(values, EXPIRATION, self.expiration)
        flags |= _write_text(values, MESSAGE_ID, self.message_id)
        if self.timestamp is not None:
            flags |= TIMESTAMP
            write_longlong(values, self.timestamp)
        flags |= _write_text(values, TYPE, self.type)
        flags |= _write_text(values, USER_ID, self.user_id)
        flags |= _write_text(values, APP_ID, self.app_id)
        flags |= _write_text(values, CLUSTER_ID, self.cluster_id)
        writer = BytesWriter()
        write_short(writer, flags)
        writer.write(values.getvalue())
        return writer.getvalue()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BasicProperties) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())


def decode_properties(properties: bytes) -> BasicProperties:
    """ProtocolError 501: malformed."""
    reader = Reader(properties, 0, len(properties))
    flags: i64 = reader.short()
    result = BasicProperties(
        content_type=_text(reader, flags & CONTENT_TYPE),
        content_encoding=_text(reader, flags & CONTENT_ENCODING),
        headers=reader.table() if flags & HEADERS != 0 else None,
        delivery_mode=reader.octet() if flags & DELIVERY_MODE != 0 else None,
        priority=reader.octet() if flags & PRIORITY != 0 else None,
        correlation_id=_text(reader, flags & CORRELATION_ID),
        reply_to=_text(reader, flags & REPLY_TO),
        expiration=_text(reader, flags & EXPIRATION),
        message_id=_text(reader, flags & MESSAGE_ID),
        timestamp=reader.longlong() if flags & TIMESTAMP != 0 else None,
        type=_text(reader, flags & TYPE),
        user_id=_text(reader, flags & USER_ID),
        app_id=_text(reader, flags & APP_ID),
        cluster_id=_text(reader, flags & CLUSTER_ID),
    )
    reader.finish()
    return result


def readable_properties(properties: bytes) -> BasicProperties:
    """The same for a stored message, on whose arrival only sizes were looked at. Never raises:
    headers that cannot be read are left out, and so is all from a property on that does not fit."""
    try:
        return decode_properties(properties)
    except ProtocolError:
        return _readable(properties)


def _readable(properties: bytes) -> BasicProperties:
    """The properties one by one, each in bytes of its own."""
    end: i64 = len(properties)
    kept = BytesWriter()
    seen: i64 = 0
    headers: dict[str, object] | None = None
    pos: i64 = 2
    flags: i64 = i64(read_i16_be(properties, 0)) & 0xFFFF if end >= 2 else 0
    flag: i64 = CONTENT_TYPE
    while flag >= CLUSTER_ID:
        if flags & flag != 0:
            after = value_end(properties, pos, end, flag)
            if after < 0:
                break
            if flag == HEADERS:
                headers = _readable_table(properties, pos + 4, after)
            else:
                seen |= flag
                kept.write(properties[pos:after])
            pos = after
        flag >>= 1
    whole = BytesWriter()
    write_short(whole, seen)
    whole.write(kept.getvalue())
    result = decode_properties(whole.getvalue())
    result.headers = headers
    return result


def _readable_table(data: bytes, pos: i64, end: i64) -> dict[str, object]:
    """The entries data[pos:end] whose values can be read, up to one of unknown size."""
    result: dict[str, object] = {}
    reader = Reader(data, pos, end)
    try:
        while reader.pos < end:
            name = reader.short_bytes().decode("utf-8", "surrogateescape")
            value_at = reader.pos
            reader.skip_value()
            if _can_read(data, value_at, reader.pos):
                result[name] = Reader(data, value_at, reader.pos).value()
    except ProtocolError:
        return result
    return result


def _can_read(data: bytes, pos: i64, end: i64) -> bool:
    try:
        Reader(data, pos, end).value()
    except ProtocolError:
        return False
    return True


def _text(reader: Reader, present: i64) -> str | None:
    if present == 0:
        return None
    return reader.short_bytes().decode("utf-8", "surrogateescape")


def _write_text(writer: BytesWriter, flag: i64, text: str | None) -> i64:
    if text is None:
        return 0
    write_short_string(writer, text)
    return flag


def _write_octet(writer: BytesWriter, flag: i64, value: int | None) -> i64:
    if value is None:
        return 0
    if not 0 <= value <= 255:
        raise ValueError("does not fit 8 bits")
    writer.append(value)
    return flag


def value_end(data: bytes, pos: i64, end: i64, flag: i64) -> i64:
    """Where the value of property `flag` at `pos` ends; -1: it runs past `end`."""
    if flag & OCTETS != 0:
        pos += 1
    elif flag == HEADERS:
        if end - pos < 4:
            return -1
        pos += 4 + (i64(read_i32_be(data, pos)) & 0xFFFFFFFF)
    elif flag == TIMESTAMP:
        pos += 8
    elif pos < end:
        pos += 1 + data[pos]
    else:
        return -1
    return pos if pos <= end else -1


def scan_properties(data: bytes, pos: i64, end: i64) -> i64:
    """The bits of `Publishes.infos` for the properties in `data[pos:end]`.

    Negative: malformed; BAD_HEADERS: that is the headers table, and all before it is right.
    """
    if end - pos < 2:
        return -1
    flags = i64(read_i16_be(data, pos)) & 0xFFFF
    pos += 2
    info: i64 = 0
    flag: i64 = CONTENT_TYPE
    while flag >= CLUSTER_ID:
        if flags & flag != 0:
            begin = pos
            pos = value_end(data, pos, end, flag)
            if pos < 0:
                return -1
            if flag == DELIVERY_MODE:
                info |= INFO_PERSISTENT if data[begin] == 2 else 0
            elif flag == PRIORITY:
                info |= i64(data[begin]) << INFO_PRIORITY_SHIFT
            elif flag == HEADERS and not is_table(data, begin, pos):
                return BAD_HEADERS
        flag >>= 1
    if pos != end or flags & 1 != 0:  # Bit 0 would announce a second word of flags: there is none.
        return -1
    return info | _presence(flags)


def _presence(flags: i64) -> i64:
    info: i64 = INFO_HEADERS if flags & HEADERS != 0 else 0
    if flags & EXPIRATION != 0:
        info |= INFO_EXPIRATION
    if flags & USER_ID != 0:
        info |= INFO_USER_ID
    if flags & REPLY_TO != 0:
        info |= INFO_REPLY_TO
    if flags & PRIORITY != 0:
        info |= INFO_PRIORITY
    return info


def properties_offset(data: bytes, start: i64) -> i64:
    """Where the properties of the message at `start` (stored form 1) begin."""
    return start + 8 + i64(read_i32_be(data, start + 3)) + 19


def find_property(data: bytes, start: i64, wanted: i64) -> i64:
    """Where the value of property `wanted` of the message at `start` begins; -1: absent."""
    pos = properties_offset(data, start)
    end = pos - 12 + i64(read_i32_be(data, pos - 16))
    flags = i64(read_i16_be(data, pos)) & 0xFFFF
    if flags & wanted == 0:
        return -1
    pos += 2
    flag: i64 = CONTENT_TYPE
    while flag != wanted:
        if flags & flag != 0:
            pos = value_end(data, pos, end, flag)
            assert pos >= 0  # Checked when the message came in.
        flag >>= 1
    return pos


def headers_of(data: bytes, start: i64) -> dict[str, object] | None:
    """The headers table; None: absent. ProtocolError 501: malformed."""
    pos = find_property(data, start, HEADERS)
    if pos < 0:
        return None
    size = i64(read_i32_be(data, pos)) & 0xFFFFFFFF
    reader = Reader(data, pos, pos + 4 + size)
    return reader.table()


def readable_headers_of(data: bytes, start: i64) -> dict[str, object] | None:
    """The same for a stored message: what cannot be read is left out."""
    try:
        return headers_of(data, start)
    except ProtocolError:
        pos = find_property(data, start, HEADERS)
        return _readable_table(data, pos + 4, pos + 4 + (i64(read_i32_be(data, pos)) & 0xFFFFFFFF))


def octet_of(data: bytes, start: i64, flag: i64) -> int | None:
    """`DELIVERY_MODE` or `PRIORITY`."""
    pos = find_property(data, start, flag)
    return None if pos < 0 else data[pos]


def text_of(data: bytes, start: i64, flag: i64) -> bytes | None:
    """A property that is a short string, such as `EXPIRATION`, as its bytes."""
    pos = find_property(data, start, flag)
    return None if pos < 0 else data[pos + 1 : pos + 1 + data[pos]]


def delivery_mode_of(data: bytes, start: i64) -> int | None:
    return octet_of(data, start, DELIVERY_MODE)


def priority_of(data: bytes, start: i64) -> int | None:
    return octet_of(data, start, PRIORITY)


def expiration_of(data: bytes, start: i64) -> bytes | None:
    return text_of(data, start, EXPIRATION)


def user_id_of(data: bytes, start: i64) -> bytes | None:
    return text_of(data, start, USER_ID)


def reply_to_of(data: bytes, start: i64) -> bytes | None:
    return text_of(data, start, REPLY_TO)
