"""Constructor codes of AMQP 1.0 (part 1.6): which there are, how wide their values are. Compiled.

A value is its constructor (one octet; or 0, a descriptor, and the constructor of what is
described), then its bytes. The high half of the octet says how many those are:

    4x none   5x 1   6x 2   7x 4   8x 8   9x 16
    ax cx ex  size (u8), then so many   bx dx fx  size (u32), then so many
    c d: the size counts a count (as wide as itself) and the items, each with its constructor
    e f: the size counts a count, one constructor for all, and the items without one
"""

from typing import Final

DESCRIBED: Final = 0x00
NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
UINT_0: Final = 0x43
ULONG_0: Final = 0x44
LIST_0: Final = 0x45
UBYTE: Final = 0x50
BYTE: Final = 0x51
UINT_8: Final = 0x52
ULONG_8: Final = 0x53
INT_8: Final = 0x54
LONG_8: Final = 0x55
BOOLEAN: Final = 0x56
USHORT: Final = 0x60
SHORT: Final = 0x61
UINT: Final = 0x70
INT: Final = 0x71
FLOAT: Final = 0x72
CHAR: Final = 0x73
DECIMAL32: Final = 0x74
ULONG: Final = 0x80
LONG: Final = 0x81
DOUBLE: Final = 0x82
TIMESTAMP: Final = 0x83
DECIMAL64: Final = 0x84
DECIMAL128: Final = 0x94
UUID: Final = 0x98
BINARY_8: Final = 0xA0
STRING_8: Final = 0xA1
SYMBOL_8: Final = 0xA3
BINARY: Final = 0xB0
STRING: Final = 0xB1
SYMBOL: Final = 0xB3
LIST_8: Final = 0xC0
MAP_8: Final = 0xC1
LIST: Final = 0xD0
MAP: Final = 0xD1
ARRAY_8: Final = 0xE0
ARRAY: Final = 0xF0

# The widest code of each type: what the encoder tells types apart by.
WIDEST: Final[dict[str, int]] = {
    "null": NULL,
    "boolean": BOOLEAN,
    "ubyte": UBYTE,
    "ushort": USHORT,
    "uint": UINT,
    "ulong": ULONG,
    "byte": BYTE,
    "short": SHORT,
    "int": INT,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "decimal32": DECIMAL32,
    "decimal64": DECIMAL64,
    "decimal128": DECIMAL128,
    "char": CHAR,
    "timestamp": TIMESTAMP,
    "uuid": UUID,
    "binary": BINARY,
    "string": STRING,
    "symbol": SYMBOL,
    "list": LIST,
    "map": MAP,
    "array": ARRAY,
}

NARROWER: Final[dict[int, str]] = {
    TRUE: "boolean",
    FALSE: "boolean",
    UINT_0: "uint",
    UINT_8: "uint",
    ULONG_0: "ulong",
    ULONG_8: "ulong",
    INT_8: "int",
    LONG_8: "long",
    BINARY_8: "binary",
    STRING_8: "string",
    SYMBOL_8: "symbol",
    LIST_0: "list",
    LIST_8: "list",
    MAP_8: "map",
    ARRAY_8: "array",
}

NAMES: Final[dict[int, str]] = {code: name for name, code in WIDEST.items()} | NARROWER

# What `WIDTHS` says of a code: so many bytes, or that a size comes first, or that there is none.
SIZE_U8: Final = 0x81
SIZE_U32: Final = 0x84
UNKNOWN: Final = 0xFF

_BY_HIGH_HALF: Final[dict[int, int]] = {
    4: 0,
    5: 1,
    6: 2,
    7: 4,
    8: 8,
    9: 16,
    10: SIZE_U8,
    11: SIZE_U32,
    12: SIZE_U8,
    13: SIZE_U32,
    14: SIZE_U8,
    15: SIZE_U32,
}


def _widths() -> bytes:
    return bytes([_BY_HIGH_HALF[code >> 4] if code in NAMES else UNKNOWN for code in range(256)])


WIDTHS: Final = _widths()


def type_name(code: int) -> str:
    """The type that a constructor code stands for, as error texts call it."""
    if code == DESCRIBED:
        return "a described value"
    return NAMES.get(code, f"unknown constructor 0x{code:02x}")
