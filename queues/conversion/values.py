"""Single values between the type systems of AMQP 0-9-1 (field tables) and AMQP 1.0.

| 1.0 | 0-9-1 | | 0-9-1 | 1.0 |
|---|---|---|---|---|
| string, symbol, char | S | | S | string; binary if it is not UTF-8 |
| boolean | t | | t | boolean |
| ubyte, ushort, uint | B u i | | B u i | ubyte ushort uint |
| byte, short, int, long | b s I l | | b s I l | byte short int long |
| ulong | l; above 2^63 - 1 its digits as S | | D | dropped |
| timestamp, ms | T, seconds | | T, seconds | timestamp, ms |
| float, double | f d; NaN and infinities dropped | | f d | float double |
| binary | x | | x | binary |
| uuid | S, as `urn:uuid:...` | | | |
| list, array | A | | A | list |
| map | F; keys as text, others dropped | | F | map of strings |
| null | V | | V | null |
| decimals, described | dropped | | | |

Dropped is `DROPPED`. Tables and lists leave it out.
"""

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Final
from uuid import UUID

from warren.wire.amqp091 import values as v091
from warren.wire.amqp10.codec import values as v10
from warren.wire.amqp10.codec.reader import UNFIT_KEYS

Map = dict[object, object] | v10.Pairs

DROPPED: Final = object()
INT64_MAX: Final = (1 << 63) - 1
NAME_BYTES_MAX: Final = 255  # of a name in a 0-9-1 table
MS: Final = 1000  # 0-9-1 counts seconds

TO_091: Final[dict[type, type]] = {
    v10.UByte: v091.UInt8,
    v10.UShort: v091.UInt16,
    v10.UInt: v091.UInt32,
    v10.Byte: v091.Int8,
    v10.Short: v091.Int16,
    v10.Int: int,
    v10.Float32: v091.Float32,
    v10.Symbol: str,
    v10.Char: str,
}
TO_10: Final[dict[type, type]] = {
    v091.UInt8: v10.UByte,
    v091.UInt16: v10.UShort,
    v091.UInt32: v10.UInt,
    v091.Int8: v10.Byte,
    v091.Int16: v10.Short,
    v091.Int64: int,
    v091.Float32: v10.Float32,
}


def to_091(value: object) -> object:
    """An AMQP 1.0 value for a field table, or DROPPED."""
    if value is None or type(value) in (str, bool):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return DROPPED
    known = TO_091.get(type(value))
    if known is not None:
        return known(value)
    if type(value) is float:
        return value
    if isinstance(value, v10.Timestamp):
        return v091.Timestamp(value // MS) if value >= 0 else DROPPED
    if isinstance(value, v10.ULong):
        return str(int(value)) if value > INT64_MAX else v091.Int64(value)
    if type(value) is int:
        return v091.Int64(value)
    if type(value) is bytes:
        return bytearray(value)
    if isinstance(value, UUID):
        return f"urn:uuid:{value}"
    return _compound_to_091(value)


def _compound_to_091(value: object) -> object:
    if isinstance(value, v10.Array):
        return DROPPED if value.descriptors else _kept(to_091(item) for item in value.items)
    if isinstance(value, list):
        return _kept(to_091(item) for item in value)
    if isinstance(value, (dict, v10.Pairs)):
        return table_of(value)
    return DROPPED


def pairs_of(section: object) -> Iterable[tuple[object, object]]:
    """Keys and values of a map."""
    if isinstance(section, dict):
        return section.items()
    assert isinstance(section, v10.Pairs), type(section)
    return section


def dict_of(section: object) -> dict[object, object]:
    """A map less the entries whose keys a dict cannot have."""
    if isinstance(section, dict):
        return dict(section)
    return {key: value for key, value in pairs_of(section) if not isinstance(key, UNFIT_KEYS)}


def table_of(value: Map) -> dict[str, object]:
    """A map as a field table: entries whose key is text that fits, and whose value has a kind."""
    table: dict[str, object] = {}
    for key, item in pairs_of(value):
        if isinstance(key, str) and len(key.encode()) <= NAME_BYTES_MAX:
            converted = to_091(item)
            if converted is not DROPPED:
                table[str(key)] = converted
    return table


def to_10(value: object) -> object:
    """A value of a field table in AMQP 1.0, or DROPPED."""
    if value is None or isinstance(value, (bool, bytes)):
        return value
    if isinstance(value, str):
        return text_to_10(value)
    known = TO_10.get(type(value))
    if known is not None:
        return known(value)
    if isinstance(value, v091.Timestamp):
        return v10.Timestamp(value * MS) if value * MS <= INT64_MAX else DROPPED
    if isinstance(value, int):
        if value > INT64_MAX:
            return v10.ULong(value)
        return v10.Int(value) if -0x80000000 <= value <= 0x7FFFFFFF else int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return _kept(to_10(item) for item in value)
    if isinstance(value, dict):
        return map_of(value)
    assert isinstance(value, Decimal), type(value)
    return DROPPED


def text_to_10(value: str) -> object:
    """Text; binary if it is not UTF-8: names of 0-9-1 keep such bytes as surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape")
    return value


def map_of(table: dict[str, object]) -> dict[object, object]:
    """A field table as a map with strings as keys."""
    converted = ((text_to_10(key), to_10(item)) for key, item in table.items())
    return {key: item for key, item in converted if item is not DROPPED and isinstance(key, str)}


def _kept(items: Iterable[object]) -> list[object]:
    return [item for item in items if item is not DROPPED]
