"""A delivered AMQP 0-9-1 message as it is published on the other side.

Properties and body are passed on as they are, byte for byte, unless headers are added; then only
the properties are decoded and encoded again.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from federation.marking import mark_id
from queues.definitions.arguments import is_integer
from warren.wire.amqp091.contents import content_parts, method_payload
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.methods import BasicDeliver, decode_method
from warren.wire.amqp091.properties import BasicProperties, readable_properties

MANDATORY: Final = 1  # bit of basic.publish
SHOVELLED: Final = "x-shovelled"
SHOVELLED_AT: Final = "x-shovelled-timestamp"
PROPERTIES: Final = frozenset(
    ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to",
     "expiration", "message_id", "timestamp", "type", "user_id", "app_id")
)  # fmt: skip


class Rewriting(Struct, frozen=True):
    """`exchange` and `key` None: those of each message. `hop`: prepended to `x-shovelled`."""

    exchange: str | None = None
    key: bytes | None = None
    mandatory: bool = False
    hop: Mapping[str, object] | None = None
    stamped: bool = False
    properties: Mapping[str, object] = field(default_factory=dict)
    scope: str = ""  # of ids by which repeats are left out; "": messages get none

    @property
    def changes_properties(self) -> bool:
        return self.hop is not None or self.stamped or bool(self.properties or self.scope)


def delivered(content: bytes) -> BasicDeliver:
    """The basic.deliver in front of a content."""
    method = decode_method(method_payload(content, 0))
    assert isinstance(method, BasicDeliver)
    return method


def republished(content: bytes, how: Rewriting, now_s: int) -> bytes:
    """The message of a delivery, as basic.publish."""
    properties, body = content_parts(content, 0, len(content))
    exchange, key = how.exchange, how.key
    if exchange is None or key is None:
        method = delivered(content)
        exchange = method.exchange if exchange is None else exchange
        key = method.routing_key if key is None else key
    if how.changes_properties:
        properties = _changed(readable_properties(properties), how, now_s).encode()
    return build(exchange, key, properties, body, bits=MANDATORY if how.mandatory else 0)


def _changed(properties: BasicProperties, how: Rewriting, now_s: int) -> BasicProperties:
    for name, value in how.properties.items():
        if name in PROPERTIES:
            setattr(properties, name, value)
    headers = dict(properties.headers or {})
    if how.scope:
        mark_id(headers, properties.message_id, how.scope)
    if how.hop is not None:
        headers[SHOVELLED] = prepended(headers.get(SHOVELLED), how.hop)
    if how.stamped:
        headers[SHOVELLED_AT] = now_s
    added = how.properties.get("headers")
    if isinstance(added, dict):
        headers.update(added)
    properties.headers = headers or None
    return properties


def prepended(earlier: object, entry: Mapping[str, object]) -> list[object]:
    """A list of hops with a new one in front; what is no list is replaced."""
    return [dict(entry), *(earlier if isinstance(earlier, list) else ())]


def property_faults(properties: Mapping[str, object]) -> list[str]:
    """Why a message cannot have these properties."""
    numbers = ("delivery_mode", "priority", "timestamp")
    found = [
        f"unrecognised property {name}"
        for name in properties
        if name not in PROPERTIES | {"headers"}
    ]
    for name, value in properties.items():
        is_number = name in numbers
        if (
            name in PROPERTIES
            and (is_integer(value) if is_number else isinstance(value, str)) is False
        ):
            found.append(f"{name} should be a {'number' if is_number else 'binary'}")
    return found
