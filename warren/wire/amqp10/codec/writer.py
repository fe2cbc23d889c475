"""AMQP 1.0 types: Python values (`values`) to bytes, in the smallest encodings. Compiled.

What does not fit its type is our own mistake, or that of the caller: ValueError.
"""

import struct
from typing import Final
from uuid import UUID

from mypy_extensions import i32, i64

from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.codes import WIDEST
from warren.wire.amqp10.codec.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Pairs,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from warren.wire.buffer import BytesWriter, write_i32_be, write_i64_be

# The type of each Python class, by its widest code.
KINDS: Final[dict[type, int]] = {
    type(None): codes.NULL,
    bool: codes.BOOLEAN,
    UByte: codes.UBYTE,
    UShort: codes.USHORT,
    UInt: codes.UINT,
    ULong: codes.ULONG,
    Byte: codes.BYTE,
    Short: codes.SHORT,
    Int: codes.INT,
    int: codes.LONG,
    Float32: codes.FLOAT,
    float: codes.DOUBLE,
    Decimal32: codes.DECIMAL32,
    Decimal64: codes.DECIMAL64,
    Decimal128: codes.DECIMAL128,
    Char: codes.CHAR,
    Timestamp: codes.TIMESTAMP,
    UUID: codes.UUID,
    bytes: codes.BINARY,
    str: codes.STRING,
    Symbol: codes.SYMBOL,
    list: codes.LIST,
    dict: codes.MAP,
    Pairs: codes.MAP,
    Array: codes.ARRAY,
    Described: codes.DESCRIBED,
}

# Numbers of one width: how `struct` packs them behind their code.
LAYOUTS: Final[dict[int, str]] = {
    codes.UBYTE: ">B",
    codes.USHORT: ">H",
    codes.UINT: ">I",
    codes.ULONG: ">Q",
    codes.BYTE: ">b",
    codes.SHORT: ">h",
    codes.INT: ">i",
    codes.LONG: ">q",
    codes.FLOAT: ">f",
    codes.DOUBLE: ">d",
    codes.TIMESTAMP: ">q",
    codes.UINT_8: ">B",
    codes.ULONG_8: ">B",
    codes.INT_8: ">b",
    codes.LONG_8: ">b",
}

# Integers with a form of one octet: that form, and the least and the last number it holds.
SMALL: Final[dict[int, tuple[int, int, int]]] = {
    codes.UINT: (codes.UINT_8, 0, 255),
    codes.ULONG: (codes.ULONG_8, 0, 255),
    codes.INT: (codes.INT_8, -128, 127),
    codes.LONG: (codes.LONG_8, -128, 127),
}

OPAQUE: Final[dict[int, int]] = {
    codes.DECIMAL32: 4,
    codes.DECIMAL64: 8,
    codes.DECIMAL128: 16,
}


def encode_value(value: object) -> bytes:
    """The value with its constructor. ValueError: no type holds it."""
    writer = BytesWriter()
    write_value(writer, value)
    return writer.getvalue()


def write_null(writer: BytesWriter) -> None:
    writer.append(codes.NULL)


def write_boolean(writer: BytesWriter, value: bool) -> None:
    writer.append(codes.TRUE if value else codes.FALSE)


def write_ubyte(writer: BytesWriter, value: i64) -> None:
    if not 0 <= value <= 0xFF:
        raise ValueError("does not fit ubyte")
    writer.append(codes.UBYTE)
    writer.append(value)


def write_ushort(writer: BytesWriter, value: i64) -> None:
    if not 0 <= value <= 0xFFFF:
        raise ValueError("does not fit ushort")
    writer.append(codes.USHORT)
    writer.append(value >> 8)
    writer.append(value & 0xFF)


def write_u32(writer: BytesWriter, value: i64) -> None:
    """Four octets, without a constructor."""
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError("does not fit 32 bits")
    write_i32_be(writer, i32(value if value < 0x80000000 else value - 0x100000000))


def write_uint(writer: BytesWriter, value: i64) -> None:
    if value == 0:
        writer.append(codes.UINT_0)
    elif 0 < value <= 0xFF:
        writer.append(codes.UINT_8)
        writer.append(value)
    else:
        writer.append(codes.UINT)
        write_u32(writer, value)


def write_ulong(writer: BytesWriter, value: int) -> None:
    if value == 0:
        writer.append(codes.ULONG_0)
    elif 0 < value <= 0xFF:
        writer.append(codes.ULONG_8)
        writer.append(value)
    elif 0 < value < 1 << 64:
        writer.append(codes.ULONG)
        write_i64_be(writer, value if value < 1 << 63 else value - (1 << 64))
    else:
        raise ValueError("does not fit ulong")


def write_timestamp(writer: BytesWriter, value: int) -> None:
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("does not fit timestamp")
    writer.append(codes.TIMESTAMP)
    write_i64_be(writer, value)


def write_binary(writer: BytesWriter, value: bytes) -> None:
    _write_octets(writer, codes.BINARY, value)


def write_string(writer: BytesWriter, value: str) -> None:
    _write_octets(writer, codes.STRING, value.encode("utf-8"))


def write_symbol(writer: BytesWriter, value: str) -> None:
    _write_octets(writer, codes.SYMBOL, value.encode("ascii"))


def write_symbols(writer: BytesWriter, values: list[str]) -> None:
    """Several symbols: one stands alone, others are an array."""
    if len(values) == 1:
        write_symbol(writer, values[0])
    else:
        _write_array(writer, Array("symbol", values))


def write_map(writer: BytesWriter, value: dict[object, object]) -> None:
    write_compound(writer, codes.MAP, _map_inside(list(value.items())), 2 * len(value))


def write_fields(writer: BytesWriter, value: dict[str, object]) -> None:
    """A map whose keys are symbols."""
    inside = BytesWriter()
    for key, item in value.items():
        write_symbol(inside, key)
        write_value(inside, item)
    write_compound(writer, codes.MAP, inside.getvalue(), 2 * len(value))


def write_list(writer: BytesWriter, inside: bytes, count: i64) -> None:
    """A list of `count` items that are encoded already."""
    if count == 0:
        writer.append(codes.LIST_0)
    else:
        write_compound(writer, codes.LIST, inside, count)


def write_value(writer: BytesWriter, value: object) -> None:
    kind = _kind_of(value)
    if kind == codes.DESCRIBED:
        assert isinstance(value, Described)
        writer.append(codes.DESCRIBED)
        write_value(writer, value.descriptor)
        write_value(writer, value.value)
    elif kind == codes.ARRAY:
        assert isinstance(value, Array)
        _write_array(writer, value)
    else:
        bare = _bare(kind, value)
        code = _narrowest(kind, bare, _count_of(value))
        writer.append(code)
        _write_bare(writer, code, bare, _count_of(value))


def _kind_of(value: object) -> int:
    """The widest code of its type. Classes that extend ours or Python's are taken for those."""
    kind = KINDS.get(type(value), -1)
    if kind >= 0:
        return kind
    for base in type(value).__mro__:
        kind = KINDS.get(base, -1)
        if kind >= 0:
            return kind
    raise ValueError("no AMQP type for " + type(value).__name__)


def _count_of(value: object) -> int:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, (dict, Pairs)):
        return 2 * len(value)
    if isinstance(value, Array):
        return len(value.items)
    return 0


def _bare(kind: int, value: object) -> bytes:
    """What is behind constructor, size and count, in the widest form of the type."""
    if kind in LAYOUTS:
        try:
            return struct.pack(LAYOUTS[kind], value)
        except (struct.error, OverflowError):
            raise ValueError(f"number does not fit {codes.type_name(kind)}") from None
    if kind in OPAQUE:
        return _opaque(kind, value)
    if kind == codes.STRING or kind == codes.SYMBOL:
        assert isinstance(value, str)
        return value.encode("utf-8" if kind == codes.STRING else "ascii")
    if kind == codes.BINARY:
        assert isinstance(value, bytes)
        return value
    if kind == codes.LIST:
        assert isinstance(value, list)
        return _list_inside(value)
    if kind == codes.MAP:
        return _map_inside(_pairs(value))
    if kind == codes.ARRAY:
        assert isinstance(value, Array)
        return _array_inside(value)
    return _rare(kind, value)


def _rare(kind: int, value: object) -> bytes:
    if kind == codes.BOOLEAN:
        return b"\x01" if value else b"\x00"
    if kind == codes.UUID:
        assert isinstance(value, UUID)
        return value.bytes
    if kind == codes.CHAR:
        assert isinstance(value, str)
        if len(value) != 1:
            raise ValueError("a char is one character")
        return value.encode("utf-32-be")
    return b""


def _opaque(kind: int, value: object) -> bytes:
    assert isinstance(value, bytes)
    if len(value) != OPAQUE[kind]:
        raise ValueError(f"a {codes.type_name(kind)} has {OPAQUE[kind]} bytes")
    return value


def _pairs(value: object) -> list[tuple[object, object]]:
    if isinstance(value, dict):
        return list(value.items())
    assert isinstance(value, Pairs)
    return list(value)


def _list_inside(items: list[object]) -> bytes:
    inside = BytesWriter()
    for item in items:
        write_value(inside, item)
    return inside.getvalue()


def _map_inside(pairs: list[tuple[object, object]]) -> bytes:
    inside = BytesWriter()
    for key, item in pairs:
        write_value(inside, key)
        write_value(inside, item)
    return inside.getvalue()


def _narrowest(kind: int, bare: bytes, count: int) -> int:
    """The smallest code for a value of this type alone; `bare` is from `_bare`."""
    if kind == codes.BOOLEAN:
        return codes.TRUE if bare == b"\x01" else codes.FALSE
    if (kind == codes.UINT or kind == codes.ULONG) and bare.count(0) == len(bare):
        return codes.UINT_0 if kind == codes.UINT else codes.ULONG_0
    if kind == codes.LIST and count == 0:
        return codes.LIST_0
    return _narrower(kind, bare, count)


def _narrower(kind: int, bare: bytes, count: int) -> int:
    """The smallest code with a size of its own or one octet, as arrays use them too."""
    if kind in SMALL:
        code, least, last = SMALL[kind]
        number: int = struct.unpack(LAYOUTS[kind], bare)[0]
        return code if least <= number <= last else kind
    if kind >= codes.LIST:
        return kind - 0x10 if len(bare) < 255 and count <= 255 else kind
    if kind in (codes.BINARY, codes.STRING, codes.SYMBOL):
        return kind - 0x10 if len(bare) <= 255 else kind
    return kind


def _write_bare(writer: BytesWriter, code: int, bare: bytes, count: int) -> None:
    """`bare` as it stands behind the constructor `code`."""
    if code in (codes.TRUE, codes.FALSE, codes.UINT_0, codes.ULONG_0, codes.LIST_0):
        return
    width = codes.WIDTHS[code]
    if width == 1:
        writer.append(bare[len(bare) - 1])
    elif width <= 16:
        writer.write(bare)
    else:
        _write_sized(writer, code, bare, count)


def _write_sized(writer: BytesWriter, code: int, bare: bytes, count: int) -> None:
    counted = code >= codes.LIST_8
    if codes.WIDTHS[code] == codes.SIZE_U8:
        writer.append(len(bare) + (1 if counted else 0))
        if counted:
            writer.append(count)
    else:
        write_u32(writer, len(bare) + (4 if counted else 0))
        if counted:
            write_u32(writer, count)
    writer.write(bare)


def _write_octets(writer: BytesWriter, kind: int, octets: bytes) -> None:
    code = kind - 0x10 if len(octets) <= 255 else kind
    writer.append(code)
    _write_sized(writer, code, octets, 0)


def write_compound(writer: BytesWriter, kind: int, inside: bytes, count: int) -> None:
    """A list, map or array (`kind`: its widest code) whose inside is encoded already."""
    code = _narrower(kind, inside, count)
    writer.append(code)
    _write_sized(writer, code, inside, count)


def _write_array(writer: BytesWriter, array: Array) -> None:
    write_compound(writer, codes.ARRAY, _array_inside(array), len(array.items))


def _array_inside(array: Array) -> bytes:
    """Descriptors, the one constructor, and the items in the form that fits them all."""
    kind = WIDEST.get(array.kind, -1)
    if kind < 0:
        raise ValueError("no AMQP type is called " + array.kind)
    bares = [_bare(kind, item) for item in _checked(array, kind)]
    counts = [_count_of(item) for item in array.items]
    fitting = {_narrower(kind, bares[place], counts[place]) for place in range(len(bares))}
    code = kind if kind in fitting or not fitting else fitting.pop()
    inside = BytesWriter()
    for descriptor in array.descriptors:
        inside.append(codes.DESCRIBED)
        write_value(inside, descriptor)
    inside.append(code)
    for place in range(len(bares)):
        _write_bare(inside, code, bares[place], counts[place])
    return inside.getvalue()


def _checked(array: Array, kind: int) -> list[object]:
    """The items; each is of the array's type, or of Python's that stands for it."""
    for item in array.items:
        found = _kind_of(item)
        plain_number = found == codes.LONG and kind in LAYOUTS
        plain_text = found == codes.STRING and kind == codes.SYMBOL
        if found != kind and not plain_number and not plain_text:
            raise ValueError(f"an array of {array.kind} holds {type(item).__name__}")
    return array.items
