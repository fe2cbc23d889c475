"""AMQP 1.0 types: bytes to Python values (`values`). Compiled.

`Reader` is a cursor that accepts every encoding of every type. What is wrong with the bytes is a
ProtocolError: amqp:decode-error, or amqp:invalid-field where a field that must be there is not or
has a value outside its choices; the text names field and type. Nothing is made before its bytes
are known to be there: a count is held against the size around it, and what takes no bytes (an
array of nulls) against the size of all that is read. Values nest at most `DEPTH_MAX` deep.

`value_end` steps over a value and looks at its constructor and size alone.
"""

import struct
from typing import Final, NoReturn, final
from uuid import UUID

from mypy_extensions import i64

from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.codes import SIZE_U8, SIZE_U32, UNKNOWN, WIDTHS, type_name
from warren.wire.amqp10.codec.descriptors import DESCRIPTORS
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
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.errors import Condition, ProtocolError
from warren.wire.buffer import read_i16_be, read_i32_be, read_i64_be

DEPTH_MAX: Final = 32  # described values, lists, maps and arrays inside each other
FREE_ITEMS_MIN: Final = 64  # items without bytes that even the shortest input may hold
U64_MASK: Final = (1 << 64) - 1

# What a dict cannot have as a key; UUIDs because their hashes are what a peer likes them to be.
# The standard has ulong, uuid, binary and string; RabbitMQ takes the others, too.
MESSAGE_ID_TYPES: Final = (
    "null", "string", "binary", "uuid", "ulong", "uint", "ushort", "ubyte", "long", "int", "short",
    "byte", "boolean",
)  # fmt: skip
UNFIT_KEYS: Final = (list, dict, Array, Described, Pairs, UUID)


def value_end(data: bytes, pos: i64, end: i64) -> i64:
    """Where the value at `pos` ends, at most `end`; -1: it does not fit or has no known type.

    What is inside of lists, maps, arrays and text stays unread.
    """
    left: i64 = 1  # values still to step over: a descriptor and what it describes are two
    depth: i64 = 0
    while left > 0:
        if pos >= end:
            return -1
        code: i64 = data[pos]
        pos += 1
        if code == 0:
            depth += 1
            if depth > DEPTH_MAX:
                return -1
            left += 1
            continue
        width: i64 = WIDTHS[code]
        if width <= 16:
            pos += width
        elif width == SIZE_U8:
            if pos >= end:
                return -1
            pos += 1 + data[pos]
        elif width == SIZE_U32:
            if end - pos < 4:
                return -1
            pos += 4 + (i64(read_i32_be(data, pos)) & 0xFFFFFFFF)
        else:
            return -1
        if pos > end:
            return -1
        left -= 1
    return pos


@final
class Reader:
    """Cursor over `data[pos:end]`.

    Invariant: start <= pos <= end <= len(data). Inside of a list of fields, `left` of them are to
    come and `owner` is whose fields they are.
    """

    def __init__(self, data: bytes, start: i64, end: i64) -> None:
        self.data = data
        self.pos: i64 = start
        self.end: i64 = end
        self.depth: i64 = 0
        self.left: i64 = 0
        self.owner = ""
        self.free_items: i64 = max(end - start, FREE_ITEMS_MIN)

    def fail(self, text: str) -> NoReturn:
        raise ProtocolError(Condition.DECODE_ERROR, text)

    def fail_field(self, name: str, wanted: str, code: i64) -> NoReturn:
        self.fail(f"field {name} of {self.owner}: expected {wanted}, found {type_name(code)}")

    def fail_missing(self, name: str) -> NoReturn:
        text = f"field {name} of {self.owner} is mandatory"
        raise ProtocolError(Condition.INVALID_FIELD, text)

    def take(self, size: i64) -> i64:
        """Move over `size` bytes; return where they begin."""
        pos = self.pos
        if size < 0 or size > self.end - pos:
            self.fail("the value ends before its size is reached")
        self.pos = pos + size
        return pos

    def octet(self) -> i64:
        return self.data[self.take(1)]

    def u32(self) -> i64:
        return i64(read_i32_be(self.data, self.take(4))) & 0xFFFFFFFF

    def finish(self) -> None:
        """Nothing may be left."""
        if self.pos != self.end:
            self.fail(f"{self.end - self.pos} bytes are left after the value")

    # Values of any type.

    def value(self) -> object:
        """A value with its constructor."""
        code = self.octet()
        return self._described() if code == 0 else self._of_code(code)

    def skip(self) -> None:
        """Move over a value with its constructor."""
        after = value_end(self.data, self.pos, self.end)
        if after < 0:
            self.fail("a value that does not fit or has no known type")
        self.pos = after

    def _described(self) -> object:
        self.descend()
        descriptor = self.value()
        result = Described(descriptor, self.value())
        self.depth -= 1
        return result

    def descend(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            self.fail(f"values are nested deeper than {DEPTH_MAX}")

    def _of_code(self, code: i64) -> object:
        """A value whose constructor has been read."""
        width: i64 = WIDTHS[code]
        if width == UNKNOWN:
            self.fail(type_name(code))
        if width == 0:
            return self._empty(code)
        if width == 1 or width == 2:
            return self._narrow(code)
        if width == 4:
            return self._of_4(code)
        if width == 8:
            return self._of_8(code)
        if width == 16:
            at = self.take(16)
            octets = self.data[at : at + 16]
            return UUID(bytes=octets) if code == codes.UUID else Decimal128(octets)
        high: i64 = code >> 4
        if high <= 0xB:
            return self._text(code)
        return self._compound(code)

    def _empty(self, code: i64) -> object:
        if code == codes.TRUE:
            return True
        if code == codes.FALSE:
            return False
        if code == codes.UINT_0:
            return UInt(0)
        if code == codes.ULONG_0:
            return ULong(0)
        if code == codes.LIST_0:
            return []
        return None

    def _narrow(self, code: i64) -> object:
        if code == codes.USHORT:
            return UShort(i64(read_i16_be(self.data, self.take(2))) & 0xFFFF)
        if code == codes.SHORT:
            return Short(read_i16_be(self.data, self.take(2)))
        octet: i64 = self.octet()
        if code == codes.BOOLEAN:
            return self._truth(octet)
        if code == codes.UBYTE:
            return UByte(octet)
        if code == codes.UINT_8:
            return UInt(octet)
        if code == codes.ULONG_8:
            return ULong(octet)
        signed = int(octet - 256 if octet > 127 else octet)
        if code == codes.BYTE:
            return Byte(signed)
        if code == codes.INT_8:
            return Int(signed)  # In one expression with the other it would lose its class.
        return signed

    def _truth(self, octet: i64) -> bool:
        if octet > 1:
            self.fail(f"a boolean is 0 or 1, not {octet}")
        return octet == 1

    def _of_4(self, code: i64) -> object:
        at = self.take(4)
        if code == codes.UINT:
            return UInt(i64(read_i32_be(self.data, at)) & 0xFFFFFFFF)
        if code == codes.INT:
            return Int(read_i32_be(self.data, at))
        if code == codes.FLOAT:
            return Float32(struct.unpack_from(">f", self.data, at)[0])
        if code == codes.DECIMAL32:
            return Decimal32(self.data[at : at + 4])
        point = i64(read_i32_be(self.data, at)) & 0xFFFFFFFF
        if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            self.fail(f"0x{point:x} is not a character")
        return Char(chr(point))

    def _of_8(self, code: i64) -> object:
        at = self.take(8)
        if code == codes.ULONG:
            return ULong(self._unsigned_64(at))
        if code == codes.LONG:
            return int(read_i64_be(self.data, at))
        if code == codes.TIMESTAMP:
            return Timestamp(read_i64_be(self.data, at))
        if code == codes.DOUBLE:
            return float(struct.unpack_from(">d", self.data, at)[0])
        return Decimal64(self.data[at : at + 8])

    def _unsigned_64(self, at: i64) -> int:
        value: int = read_i64_be(self.data, at)
        return value & U64_MASK

    def _text(self, code: i64) -> object:
        octets = self._octets(code)
        kind: i64 = code & 0xF
        if kind == 0:
            return octets
        if kind == 1:
            return self._utf8(octets)
        return Symbol(self._ascii(octets))

    def _octets(self, code: i64) -> bytes:
        """The bytes of a binary, string or symbol."""
        size = self.u32() if code & 0xF0 == 0xB0 else self.octet()
        at = self.take(size)
        return self.data[at : at + size]

    def _utf8(self, octets: bytes) -> str:
        try:
            return octets.decode("utf-8")
        except UnicodeDecodeError:
            self.fail("a string is not UTF-8")

    def _ascii(self, octets: bytes) -> str:
        if not octets.isascii():
            self.fail("a symbol is not ASCII")
        return octets.decode("ascii")

    # Lists, maps, arrays.

    def _compound(self, code: i64) -> object:
        outer_end = self.end
        count = self.open(code)
        high: i64 = code >> 4
        result: object
        if high >= 0xE:
            result = self._array(count)
        elif code & 0xF == 0:
            result = self._items(count)
        else:
            result = self._map(count)
        self.close(outer_end)
        return result

    def open(self, code: i64) -> i64:
        """Narrow the cursor to the inside of a list, map or array; return its count."""
        self.descend()
        if code & 0x10 != 0:
            size = self.u32()
            at = self.pos
            self.take(size)
            self.end = self.pos
            self.pos = at
            return self.u32()
        size = self.octet()
        at = self.pos
        self.take(size)
        self.end = self.pos
        self.pos = at
        return self.octet()

    def close(self, outer_end: i64) -> None:
        """All inside must have been read."""
        if self.pos != self.end:
            self.fail(f"the size of a value is {self.end - self.pos} more than its items take")
        self.end = outer_end
        self.depth -= 1

    def _check_count(self, count: i64) -> None:
        if count > self.end - self.pos:
            self.fail(f"{count} items are announced in {self.end - self.pos} bytes")

    def _items(self, count: i64) -> list[object]:
        self._check_count(count)
        items: list[object] = []
        while count > 0:
            items.append(self.value())
            count -= 1
        return items

    def _map(self, count: i64) -> object:
        self._check_count(count)
        if count & 1 != 0:
            self.fail("a map has a key without a value")
        pairs: list[tuple[object, object]] = []
        hashable = True
        while count > 0:
            key = self.value()
            hashable = hashable and not isinstance(key, UNFIT_KEYS)
            pairs.append((key, self.value()))
            count -= 2
        if hashable:
            result = dict(pairs)
            if len(result) == len(pairs):
                return result
        self._refuse_duplicates(pairs)
        return Pairs(pairs)

    def _refuse_duplicates(self, pairs: list[tuple[object, object]]) -> None:
        """Keys are the same if they are of the same type and value."""
        if len({encode_value(key) for key, _ in pairs}) < len(pairs):
            self.fail("a map has the same key twice")

    def _array(self, count: i64) -> Array:
        depth = self.depth
        descriptors: list[object] = []
        code = self.octet()
        while code == 0:
            self.descend()
            descriptors.append(self.value())
            code = self.octet()
        if WIDTHS[code] == 0:
            self.free_items -= count
            if self.free_items < 0:
                self.fail("more items without bytes than there are bytes")
        else:
            self._check_count(count)
        items: list[object] = []
        while count > 0:
            items.append(self._of_code(code))
            count -= 1
        if len(items) == 0 and WIDTHS[code] == UNKNOWN:
            self.fail(type_name(code))
        self.depth = depth
        return Array(type_name(code), items, tuple(descriptors))

    # Fields of composite types: the next one in the list that `open_fields` has opened.
    # None stands for null and for what the list was too short for.

    def descriptor(self) -> i64:
        """The code of a composite type: what is described begins here. -1: not one of those."""
        if self.octet() != codes.DESCRIBED:
            self.fail("a described type was expected")
        code = self.octet()
        if code == codes.ULONG_8:
            return self.octet()
        if code == codes.ULONG:
            number = read_i64_be(self.data, self.take(8))
            return number if 0 <= number <= 0xFF else -1
        if code == codes.SYMBOL_8 or code == codes.SYMBOL:
            return DESCRIPTORS.get(self._ascii(self._octets(code)), -1)
        return self.fail(f"a descriptor is {type_name(code)}")

    def open_fields(self, owner: str) -> None:
        """Step into the list of the fields of `owner`."""
        self.owner = owner
        code = self.octet()
        if code == codes.LIST_0:
            self.descend()
            self.left = 0
            self.end = self.pos
        elif code == codes.LIST_8 or code == codes.LIST:
            self.left = self.open(code)
            self._check_count(self.left)
        else:
            self.fail(f"the fields of {owner} are {type_name(code)}, not a list")

    def close_fields(self, outer_end: i64, outer_left: i64, outer_owner: str) -> None:
        """Step out again. Fields that this edition of the protocol does not know are skipped."""
        while self.left > 0:
            self.skip()
            self.left -= 1
        self.close(outer_end)
        self.left = outer_left
        self.owner = outer_owner

    def next_code(self) -> i64:
        """The constructor of the next field; -1: there is none."""
        if self.left == 0:
            return -1
        self.left -= 1
        code = self.octet()
        return -1 if code == codes.NULL else code

    def boolean(self, name: str) -> bool | None:
        code = self.next_code()
        if code < 0:
            return None
        if code == codes.TRUE:
            return True
        if code == codes.FALSE:
            return False
        if code == codes.BOOLEAN:
            return self._truth(self.octet())
        return self.fail_field(name, "boolean", code)

    def ubyte(self, name: str) -> int | None:
        code = self.next_code()
        if code < 0:
            return None
        if code == codes.UBYTE:
            return self.octet()
        return self.fail_field(name, "ubyte", code)

    def choice(self, name: str, last: int) -> int | None:
        """An ubyte from 0 to `last`."""
        number = self.ubyte(name)
        if number is not None and number > last:
            text = f"field {name} of {self.owner} is {number}: there is no such choice"
            raise ProtocolError(Condition.INVALID_FIELD, text)
        return number

    def ushort(self, name: str) -> int | None:
        code = self.next_code()
        if code < 0:
            return None
        if code == codes.USHORT:
            return i64(read_i16_be(self.data, self.take(2))) & 0xFFFF
        return self.fail_field(name, "ushort", code)

    def uint(self, name: str) -> int | None:
        code = self.next_code()
        if code < 0:
            return None
        if code == codes.UINT_8:
            return self.octet()
        if code == codes.UINT_0:
            return 0
        if code == codes.UINT:
            return self.u32()
        return self.fail_field(name, "uint", code)

    def ulong(self, name: str) -> int | None:
        code = self.next_code()
        if code < 0:
            return None
        if code == codes.ULONG_8:
            return self.octet()
        if code == codes.ULONG_0:
            return 0
        if code == codes.ULONG:
            return self._unsigned_64(self.take(8))
        return self.fail_field(name, "ulong", code)

    def timestamp(self, name: str) -> int | None:
        code = self.next_code()
        if code < 0:
            return None
        if code == codes.TIMESTAMP:
            return read_i64_be(self.data, self.take(8))
        return self.fail_field(name, "timestamp", code)

    def binary(self, name: str) -> bytes | None:
        code = self.next_code()
        if code < 0:
            return None
        if code == codes.BINARY_8 or code == codes.BINARY:
            return self._octets(code)
        return self.fail_field(name, "binary", code)

    def string(self, name: str) -> str | None:
        code = self.next_code()
        if code < 0:
            return None
        if code == codes.STRING_8 or code == codes.STRING:
            return self._utf8(self._octets(code))
        return self.fail_field(name, "string", code)

    def symbol(self, name: str) -> str | None:
        code = self.next_code()
        if code < 0:
            return None
        if code == codes.SYMBOL_8 or code == codes.SYMBOL:
            return self._ascii(self._octets(code))
        return self.fail_field(name, "symbol", code)

    def symbols(self, name: str) -> list[str] | None:
        """Several symbols: an array of them, or one alone."""
        code = self.next_code()
        if code < 0:
            return None
        if code == codes.SYMBOL_8 or code == codes.SYMBOL:
            return [self._ascii(self._octets(code))]
        if code != codes.ARRAY_8 and code != codes.ARRAY:
            self.fail_field(name, "symbols", code)
        found = self._compound(code)
        assert isinstance(found, Array)
        if found.kind != "symbol" or found.descriptors:
            self.fail(f"field {name} of {self.owner}: an array of {found.kind}, not of symbol")
        return [str(item) for item in found.items]

    def map(self, name: str) -> dict[object, object] | None:
        """A map of any keys that a dict can tell apart."""
        code = self.next_code()
        if code < 0:
            return None
        if code != codes.MAP_8 and code != codes.MAP:
            self.fail_field(name, "map", code)
        found = self._compound(code)
        if not isinstance(found, dict):
            self.fail(f"field {name} of {self.owner}: keys that are not symbols or numbers")
        return found

    def fields(self, name: str) -> dict[str, object] | None:
        """A map from symbols; strings are let through, as some clients send them."""
        found = self.map(name)
        if found is None:
            return None
        result: dict[str, object] = {}
        for key, value in found.items():
            if not isinstance(key, (Symbol, str)) or isinstance(key, Char):
                self.fail(f"field {name} of {self.owner}: a key is not a symbol")
            result[key] = value
        return result

    def any(self, name: str) -> object:
        if self.left == 0:
            return None
        self.left -= 1
        return self.value()

    def message_id(self, name: str) -> object:
        if self.left > 0 and self.pos < self.end:
            code: i64 = self.data[self.pos]
            kind = type_name(code)
            if kind not in MESSAGE_ID_TYPES:
                self.fail_field(name, "a message id", code)
        return self.any(name)

    def is_null(self) -> bool:
        """Whether the next field is absent; if so it is passed over."""
        if self.left > 0 and self.pos < self.end and self.data[self.pos] != codes.NULL:
            self.left -= 1  # The caller reads it as a whole.
            return False
        return self.next_code() < 0


def decode_value(data: bytes, start: i64 = 0, end: i64 = -1) -> object:
    """The value in `data[start:end]`; anything after it is an error."""
    reader = Reader(data, start, len(data) if end < 0 else end)
    value = reader.value()
    reader.finish()
    return value
