"""Which messages of a queue are meant: what of them must be so. Pure, and not compiled.

Takes what an operator says of exchange, routing key, death, headers and properties; tells of a
message in form 1 whether all of that is true of it. What is not said may be anything.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from warren.wire.amqp091.properties import BasicProperties

FIRST_QUEUE: Final = "x-first-death-queue"
FIRST_REASON: Final = "x-first-death-reason"
PROPERTIES: Final = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type",
    "user_id", "app_id",
)  # fmt: skip


class MessageFilter(Struct, frozen=True, kw_only=True):
    """What must be so. None: anything."""

    exchange: str | None = None
    routing_key: bytes | None = None
    death_queue: str | None = None  # where it first died
    death_reason: str | None = None
    headers: Mapping[str, object] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    def matches(self, exchange: str, routing_key: bytes, properties: BasicProperties) -> bool:
        headers = properties.headers or {}
        return (
            self.exchange in (None, exchange)
            and self.routing_key in (None, routing_key)
            and self.death_queue in (None, plain(headers.get(FIRST_QUEUE)))
            and self.death_reason in (None, plain(headers.get(FIRST_REASON)))
            and all(is_same(headers.get(name), value) for name, value in self.headers.items())
            and all(getattr(properties, name) == value for name, value in self.properties.items())
        )


def is_same(value: object, asked: object) -> bool:
    """Whether a header has the value that JSON says; true is not 1 there."""
    value = plain(value)
    return isinstance(value, bool) == isinstance(asked, bool) and value == asked


def plain(value: object) -> object:
    """Text that came as bytes is text."""
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    return value
