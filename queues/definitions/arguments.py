"""Arguments of exchanges, queues and bindings: their canonical bytes, and how texts show them.

The canonical form is an AMQP 0-9-1 field table with its entries in the order of their names, and
no bytes at all for an empty one. So equal arguments are equal bytes, whatever order a client sent
them in, and every value keeps its kind.

Texts show values and kinds with the names that RabbitMQ gives them.
"""

from decimal import Decimal
from typing import Final

from queues.definitions.broker_objects import NO_ARGUMENTS
from warren.wire.amqp091.fields import binary_term, decode_table, encode_table
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

QUOTED_MAX: Final = 200  # characters of a value that an error text quotes

_KIND_NAMES: Final = (
    (bool, "bool"),
    (Int8, "byte"),
    (UInt8, "unsignedbyte"),
    (Int16, "short"),
    (UInt16, "unsignedshort"),
    (UInt32, "unsignedint"),
    (Int64, "long"),
    (Timestamp, "timestamp"),
    (Float32, "float"),
    (float, "double"),
    (Decimal, "decimal"),
    (str, "longstr"),
    (bytes, "longstr"),
    (bytearray, "binary"),
    (dict, "table"),
    (list, "array"),
    (tuple, "array"),
)


def encode_arguments(arguments: dict[str, object]) -> bytes:
    """The canonical form. ValueError: a value that no field kind can hold."""
    if not arguments:
        return NO_ARGUMENTS
    return encode_table({name: arguments[name] for name in sorted(arguments)})


def decode_arguments(data: bytes) -> dict[str, object]:
    """The arguments of a canonical form."""
    return decode_table(data) if data else {}


def is_canonical(data: bytes) -> bool:
    """Whether the bytes are what `encode_arguments` makes of the arguments in them."""
    return not data or encode_arguments(decode_table(data)) == data


def is_integer(value: object) -> bool:
    """Whether the kind is one that counts; neither booleans nor times do."""
    return isinstance(value, int) and not isinstance(value, (bool, Timestamp))


def type_name(value: object) -> str:
    """RabbitMQ's name of the value's field kind."""
    if type(value) is int:
        return "signedint" if -(1 << 31) <= value < 1 << 31 else "long"
    for kind, name in _KIND_NAMES:
        if isinstance(value, kind):
            return name
    return "void"


def comparable(value: object) -> object:
    """A hashable stand-in: numbers are equal by value, nothing else is equal across kinds."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, (int, float, bytes, Decimal)):
        return value
    if isinstance(value, bytearray):
        return ("bytes", bytes(value))
    if isinstance(value, dict):
        return ("table", tuple([(name, comparable(value[name])) for name in sorted(value)]))
    if isinstance(value, (list, tuple)):
        return ("array", tuple([comparable(each) for each in value]))
    return ("void",)


def shown(value: object) -> str:
    """The value alone, as it stands between quotes in a text."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    return term(value)


def brief_term(value: object) -> str:
    """The term for an error text: QUOTED_MAX characters at most, whatever the size of the value."""
    return cut(term(_pruned(value, [QUOTED_MAX])))


def cut(text: str) -> str:
    """The text as an error quotes it."""
    return text if len(text) <= QUOTED_MAX else text[:QUOTED_MAX] + "..."


def _pruned(value: object, room: list[int]) -> object:
    """The first `room[0]` members of the value, so that the work does not grow with its size."""
    room[0] -= 1
    if isinstance(value, (str, bytes, bytearray)):
        return value[: QUOTED_MAX + 1]
    if isinstance(value, dict):
        entries: dict[str, object] = {}
        for name, each in value.items():
            if room[0] <= 0:
                break
            entries[name[: QUOTED_MAX + 1]] = _pruned(each, room)
        return entries
    if isinstance(value, (list, tuple)):
        items: list[object] = []
        for each in value:
            if room[0] <= 0:
                break
            items.append(_pruned(each, room))
        return items
    return value


def term(value: object) -> str:
    """The value as a term of RabbitMQ's language."""
    if isinstance(value, str):
        return binary_term(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, (bytes, bytearray)):
        return binary_term(bytes(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, dict):
        entries = [f"{{{term(name)},{_typed_term(each)}}}" for name, each in value.items()]
        return f"[{','.join(entries)}]"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_typed_term(each) for each in value)}]"
    return "undefined" if value is None else str(value)


def _typed_term(value: object) -> str:
    return f"{{{type_name(value)},{term(value)}}}"


def _is_equivalent(received: object, current: object) -> bool:
    """Equal by value; but as in RabbitMQ no whole number is equivalent to a fraction."""
    if isinstance(received, float) != isinstance(current, float):
        return False
    return comparable(received) == comparable(current)


def inequivalence(
    key: str, subject: str, received: dict[str, object], current: dict[str, object]
) -> str | None:
    """The sentence for a redeclaration in which argument `key` differs; None if it does not.

    Where both sides have a value it is shown alone, else the one there is comes with its kind.
    """
    if (key in received) != (key in current):
        return inequivalent(key, subject, _valued(key, received), _valued(key, current))
    if key not in received or _is_equivalent(received[key], current[key]):
        return None
    given, found = cut(shown(received[key])), cut(shown(current[key]))
    return inequivalent(key, subject, f"'{given}'", f"'{found}'")


def inequivalent(key: str, subject: str, received: str, current: str) -> str:
    """The sentence of a redeclaration; `subject` is like `queue 'Q' in vhost 'V'`."""
    return f"inequivalent arg '{key}' for {subject}: received {received} but current is {current}"


def _valued(key: str, arguments: dict[str, object]) -> str:
    if key not in arguments:
        return "none"
    value = arguments[key]
    return f"the value '{cut(shown(value))}' of type '{type_name(value)}'"
