"""Python values for the AMQP 1.0 types that Python has no type of its own for.

| AMQP | Python | | AMQP | Python |
|---|---|---|---|---|
| null | None | | float | Float32 |
| boolean | bool | | double | float |
| ubyte ushort uint ulong | UByte UShort UInt ULong | | decimal32 64 128 | Decimal32 64 128 |
| byte short int | Byte Short Int | | char, timestamp | Char, Timestamp |
| long | int | | uuid | uuid.UUID |
| binary | bytes | | list | list |
| string | str | | map | dict, or Pairs |
| symbol | Symbol | | array, described | Array, Described |

A decoded value encodes to the same types again. Numbers compare as numbers and text as text: a
`Symbol` is found in a dict by the plain string. Not compiled, for compiled classes cannot extend
`int`, `float`, `str`, `bytes` and `tuple`.
"""

from collections.abc import Iterable


class UByte(int):
    """Unsigned, 8 bits."""

    __slots__ = ()


class UShort(int):
    """Unsigned, 16 bits."""

    __slots__ = ()


class UInt(int):
    """Unsigned, 32 bits."""

    __slots__ = ()


class ULong(int):
    """Unsigned, 64 bits."""

    __slots__ = ()


class Byte(int):
    """Signed, 8 bits."""

    __slots__ = ()


class Short(int):
    """Signed, 16 bits."""

    __slots__ = ()


class Int(int):
    """Signed, 32 bits."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970, signed, 64 bits."""

    __slots__ = ()


class Float32(float):
    """A number that 32 bits hold exactly."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Symbol(str):
    """ASCII text from a constrained domain."""

    __slots__ = ()


class Decimal32(bytes):
    """IEEE 754 decimal32, its 4 bytes as they came."""

    __slots__ = ()


class Decimal64(bytes):
    """IEEE 754 decimal64, its 8 bytes as they came."""

    __slots__ = ()


class Decimal128(bytes):
    """IEEE 754 decimal128, its 16 bytes as they came."""

    __slots__ = ()


class Pairs(tuple[tuple[object, object], ...]):
    """A map that a dict cannot hold: keys that do not hash (or as a peer likes them to: UUIDs), or
    that only Python takes for equal.

    Keys 1 (long) and 1 (uint), or 1 and true, are different keys in AMQP.
    """

    __slots__ = ()


class Described:
    """A value with a descriptor (symbol or ulong in all that is standard) that says what it is."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: object, value: object) -> None:
        self.descriptor = descriptor
        self.value = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Described)
            and self.descriptor == other.descriptor
            and self.value == other.value
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


class Array:
    """Values of one type, named as in the specification: `Array("uint", [UInt(1)])`.

    `descriptors` hold for every item, the outermost first; the items stand without them.
    """

    __slots__ = ("descriptors", "items", "kind")

    def __init__(
        self, kind: str, items: Iterable[object], descriptors: tuple[object, ...] = ()
    ) -> None:
        self.kind = kind
        self.items = list(items)
        self.descriptors = descriptors

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Array)
            and self.kind == other.kind
            and self.items == other.items
            and self.descriptors == other.descriptors
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Array({self.kind!r}, {self.items!r}, {self.descriptors!r})"
