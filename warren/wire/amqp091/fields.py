"""Integers, strings and field tables of AMQP 0-9-1: bytes to Python values and back. Compiled.

A table is its length in bytes (u32), then entries of name (short string), kind (1 byte), value.
An array is its length, then kinds and values. Kinds are read as RabbitMQ reads them:

    t bool    b B s u I i l  int8 uint8 int16 uint16 int32 uint32 int64    f d  float double
    D decimal: scale (u8), unscaled (i32)    S string    x bytes    T timestamp
    A array    F table    V nothing

In Python: bool; int for `I`, and for `l` when 32 bits do not hold it; float for `d`; str for `S`,
or bytes where it is not UTF-8; bytearray for `x`; list, dict, None, Decimal; the classes of
`values` for the rest. `L` is read as `l`. What is decoded encodes to the same bytes.
"""

import struct
from decimal import Decimal
from typing import Final, NoReturn, final

from mypy_extensions import i64

from warren.wire.amqp091.values import (
    Float32,
    Int8,
    Int16,
    Int64,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
)
from warren.wire.buffer import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i32_be,
    write_i64_be,
)
from warren.wire.errors import ProtocolError, ReplyCode

TABLE_DEPTH_MAX: Final = 32  # tables and arrays inside each other
SNIPPET_BYTES: Final = 48  # of a payload that is shown in an error text

TYPED: Final[dict[type, tuple[int, str]]] = {  # kind and layout
    Int8: (98, ">b"),
    UInt8: (66, ">B"),
    Int16: (115, ">h"),
    UInt16: (117, ">H"),
    UInt32: (105, ">I"),
    Int64: (108, ">q"),
    Timestamp: (84, ">Q"),
    Float32: (102, ">f"),
}

U64_MASK: Final = (1 << 64) - 1

LENGTH_IN_FRONT: Final = -1  # of `value_bytes`: the value begins with its length (u32)
NO_KIND: Final = -2


def binary_term(data: bytes) -> str:
    """Bytes as RabbitMQ shows them in its error texts: `<<1,2,255>>` or `<<"text">>`."""
    if len(data) > 0 and data.isascii() and data.decode("ascii").isprintable():
        return '<<"' + data.decode("ascii") + '">>'
    return "<<" + ",".join([str(octet) for octet in data]) + ">>"


@final
class Reader:
    """Cursor over `data[pos:end]`. Reading past the end is the peer's error: 501 FRAME_ERROR."""

    def __init__(self, data: bytes, start: i64, end: i64) -> None:
        self.data = data
        self.start: i64 = start
        self.pos: i64 = start
        self.end: i64 = end
        self.depth: i64 = 0

    def fail(self) -> NoReturn:
        shown = self.data[self.start : min(self.end, self.start + SNIPPET_BYTES)]
        raise ProtocolError(ReplyCode.FRAME_ERROR, "cannot decode " + binary_term(shown))

    def take(self, size: i64) -> i64:
        """Move over `size` bytes; return where they begin."""
        pos = self.pos
        if size < 0 or size > self.end - pos:
            self.fail()
        self.pos = pos + size
        return pos

    def finish(self) -> None:
        """Nothing may be left."""
        if self.pos != self.end:
            self.fail()

    def octet(self) -> int:
        return self.data[self.take(1)]

    def short(self) -> int:
        return i64(read_i16_be(self.data, self.take(2))) & 0xFFFF

    def long(self) -> int:
        return i64(read_i32_be(self.data, self.take(4))) & 0xFFFFFFFF

    def longlong(self) -> int:
        value: int = read_i64_be(self.data, self.take(8))
        return value & U64_MASK

    def short_bytes(self) -> bytes:
        size: i64 = self.data[self.take(1)]
        pos = self.take(size)
        return self.data[pos : pos + size]

    def short_string(self) -> str:
        return self._utf8(self.short_bytes())

    def long_string(self) -> bytes:
        size: i64 = self.long()
        pos = self.take(size)
        return self.data[pos : pos + size]

    def table(self) -> dict[str, object]:
        """A table with its length before it."""
        outer_end = self._enter()
        result: dict[str, object] = {}
        while self.pos < self.end:
            name = self.short_bytes().decode("utf-8", "surrogateescape")
            result[name] = self.value()
        self._leave(outer_end)
        return result

    def _array(self) -> list[object]:
        outer_end = self._enter()
        result: list[object] = []
        while self.pos < self.end:
            result.append(self.value())
        self._leave(outer_end)
        return result

    def _enter(self) -> i64:
        """Narrow the cursor to what the length in front says; return the end outside."""
        self.depth += 1
        if self.depth > TABLE_DEPTH_MAX:
            text = f"field table is nested deeper than {TABLE_DEPTH_MAX}"
            raise ProtocolError(ReplyCode.FRAME_ERROR, text)
        size: i64 = self.long()
        if size > self.end - self.pos:
            self.fail()
        outer_end = self.end
        self.end = self.pos + size
        return outer_end

    def _leave(self, outer_end: i64) -> None:
        self.end = outer_end
        self.depth -= 1

    def _utf8(self, text: bytes) -> str:
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError:
            code = ReplyCode.FRAME_ERROR
            raise ProtocolError(code, "Malformed UTF-8 in shortstr") from None

    def value(self) -> object:
        """A value, its kind in front."""
        kind = self.octet()
        if kind == 83:  # S
            text = self.long_string()
            try:
                return text.decode("utf-8")
            except UnicodeDecodeError:
                return text
        if kind == 73:  # I
            return int(read_i32_be(self.data, self.take(4)))
        if kind == 116:  # t
            return self.octet() != 0
        if kind == 70:  # F
            return self.table()
        if kind == 65:  # A
            return self._array()
        if kind == 86:  # V
            return None
        if kind == 120:  # x
            return bytearray(self.long_string())
        if kind == 68:  # D
            scale = self.octet()
            unscaled = int(read_i32_be(self.data, self.take(4)))
            return Decimal(unscaled).scaleb(-scale)
        return self._number(kind)

    def skip_value(self) -> None:
        """Move over a value, its kind in front; what is inside a table or array stays unread."""
        size = value_bytes(self.octet())
        if size == NO_KIND:
            self.fail()
        self.take(self.long() if size == LENGTH_IN_FRONT else size)

    def _number(self, kind: int) -> object:
        if kind == 108 or kind == 76:  # l L
            value: int = read_i64_be(self.data, self.take(8))
            if -0x80000000 <= value <= 0x7FFFFFFF:
                return Int64(value)
            return value
        if kind == 84:  # T
            return Timestamp(self.longlong())
        if kind == 100:  # d
            pos = self.take(8)
            return float(struct.unpack_from(">d", self.data, pos)[0])
        if kind == 102:  # f
            pos = self.take(4)
            return Float32(struct.unpack_from(">f", self.data, pos)[0])
        if kind == 98:  # b
            octet = self.octet()
            return Int8(octet - 256 if octet > 127 else octet)
        if kind == 66:  # B
            return UInt8(self.octet())
        if kind == 115:  # s
            return Int16(read_i16_be(self.data, self.take(2)))
        if kind == 117:  # u
            return UInt16(self.short())
        if kind == 105:  # i
            return UInt32(self.long())
        return self.fail()


def value_bytes(kind: i64) -> i64:
    """How many bytes a value of this kind takes; LENGTH_IN_FRONT; NO_KIND."""
    if kind == 83 or kind == 70 or kind == 65 or kind == 120:  # S F A x
        return LENGTH_IN_FRONT
    if kind == 73 or kind == 102 or kind == 105:  # I f i
        return 4
    if kind == 116 or kind == 98 or kind == 66:  # t b B
        return 1
    if kind == 108 or kind == 76 or kind == 84 or kind == 100:  # l L T d
        return 8
    if kind == 115 or kind == 117:  # s u
        return 2
    if kind == 68:  # D
        return 5
    return 0 if kind == 86 else NO_KIND  # V


def is_table(data: bytes, pos: i64, end: i64) -> bool:
    """Whether `decode_table` decodes data[pos:end]. Makes nothing; at most `end` is read."""
    if end - pos < 4 or pos + 4 + (i64(read_i32_be(data, pos)) & 0xFFFFFFFF) != end:
        return False
    return _are_items(data, pos + 4, end, True, 1)


def _are_items(data: bytes, pos: i64, end: i64, is_named: bool, depth: i64) -> bool:
    """Whether data[pos:end] is the inside of a table (`is_named`) or of an array."""
    if depth > TABLE_DEPTH_MAX:
        return False
    while pos < end:
        if is_named:
            pos += 1 + i64(data[pos])
            if pos >= end:
                return False
        kind: i64 = data[pos]
        pos += 1
        size = value_bytes(kind)
        if size == LENGTH_IN_FRONT:
            if end - pos < 4:
                return False
            size = i64(read_i32_be(data, pos)) & 0xFFFFFFFF
            pos += 4
            if size > end - pos:
                return False
            is_inner = kind == 70 or kind == 65  # F A
            if is_inner and not _are_items(data, pos, pos + size, kind == 70, depth + 1):
                return False
        elif size == NO_KIND:
            return False
        pos += size
    return pos == end


def decode_table(data: bytes, start: i64 = 0, end: i64 = -1) -> dict[str, object]:
    """The table in `data[start:end]`, its length in front; anything after it is an error."""
    reader = Reader(data, start, len(data) if end < 0 else end)
    table = reader.table()
    reader.finish()
    return table


def encode_table(table: dict[str, object]) -> bytes:
    """The table with its length in front. ValueError: a value that no kind can hold."""
    writer = BytesWriter()
    write_table(writer, table)
    return writer.getvalue()


def write_short(writer: BytesWriter, value: i64) -> None:
    if not 0 <= value <= 0xFFFF:
        raise ValueError("does not fit 16 bits")
    writer.append(value >> 8)
    writer.append(value & 255)


def write_long(writer: BytesWriter, value: i64) -> None:
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError("does not fit 32 bits")
    write_short(writer, value >> 16)
    write_short(writer, value & 0xFFFF)


def write_longlong(writer: BytesWriter, value: int) -> None:
    """Unsigned; more than 63 bits are written too."""
    if not 0 <= value <= U64_MASK:
        raise ValueError("does not fit 64 bits")
    write_i64_be(writer, value if value < 1 << 63 else value - (1 << 64))


def write_short_string(writer: BytesWriter, text: str) -> None:
    write_short_bytes(writer, text.encode("utf-8", "surrogateescape"))


def write_short_bytes(writer: BytesWriter, text: bytes) -> None:
    size: i64 = len(text)
    if size > 255:
        raise ValueError("a short string holds at most 255 bytes")
    writer.append(size)
    writer.write(text)


def write_long_string(writer: BytesWriter, text: bytes) -> None:
    write_long(writer, len(text))
    writer.write(text)


def write_table(writer: BytesWriter, table: dict[str, object]) -> None:
    inner = BytesWriter()
    for name, value in table.items():
        write_short_string(inner, name)
        _write_value(inner, value)
    write_long_string(writer, inner.getvalue())


def _write_value(writer: BytesWriter, value: object) -> None:
    if _is_typed(value):
        _write_typed(writer, value)
    elif isinstance(value, str):
        writer.append(83)
        write_long_string(writer, value.encode("utf-8", "surrogateescape"))
    elif isinstance(value, bool):
        writer.append(116)
        writer.append(1 if value else 0)
    elif isinstance(value, int):
        _write_int(writer, value)
    elif isinstance(value, float):
        writer.append(100)
        writer.write(struct.pack(">d", value))
    elif isinstance(value, dict):
        writer.append(70)
        write_table(writer, value)
    elif isinstance(value, (list, tuple)):
        writer.append(65)
        _write_array(writer, value)
    elif value is None:
        writer.append(86)
    else:
        _write_rare(writer, value)


def _write_array(writer: BytesWriter, items: object) -> None:
    assert isinstance(items, (list, tuple))
    inner = BytesWriter()
    for item in items:
        _write_value(inner, item)
    write_long_string(writer, inner.getvalue())


def _write_rare(writer: BytesWriter, value: object) -> None:
    if isinstance(value, bytes):
        writer.append(83)
        write_long_string(writer, value)
    elif isinstance(value, bytearray):
        writer.append(120)
        write_long_string(writer, bytes(value))
    elif isinstance(value, Decimal):
        _write_decimal(writer, value)
    else:
        raise ValueError("no field kind for " + type(value).__name__)


def _write_decimal(writer: BytesWriter, value: Decimal) -> None:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or not -255 <= exponent <= 0:
        raise ValueError("decimal scale is not in 0..255")
    unscaled = int(value.scaleb(-exponent))
    if not -0x80000000 <= unscaled <= 0x7FFFFFFF:
        raise ValueError("decimal does not fit 32 bits")
    writer.append(68)
    writer.append(-exponent)
    write_i32_be(writer, unscaled)


def _write_int(writer: BytesWriter, value: int) -> None:
    if -0x80000000 <= value <= 0x7FFFFFFF:
        writer.append(73)
        write_i32_be(writer, value)
    else:
        _write_int64(writer, value)


def _is_typed(value: object) -> bool:
    """Whether it is of the classes of `values`.

    Asked for before anything else: in compiled code a value once seen as int is no more than that.
    """
    return type(value) in TYPED


def _write_typed(writer: BytesWriter, value: object) -> None:
    kind, layout = TYPED[type(value)]
    try:
        packed = struct.pack(layout, value)
    except (struct.error, OverflowError):
        raise ValueError("number does not fit its kind") from None
    writer.append(kind)
    writer.write(packed)


def _write_int64(writer: BytesWriter, value: int) -> None:
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("integer does not fit 64 bits")
    writer.append(108)
    write_i64_be(writer, value)
