"""A message of AMQP 0-9-1 as the user of the client has it."""

from dataclasses import dataclass, field
from typing import Final

from warren.wire.amqp091.contents import content_parts
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.errors import ProtocolError

PERSISTENT: Final = 2
TRANSIENT: Final = 1
MANDATORY: Final = 1  # bit of basic.publish


@dataclass(slots=True, kw_only=True)
class Message:
    """`body` is bytes; `headers` may hold what a field table holds (`warren.wire.amqp091.fields`).

    Message(b"hello", content_type="text/plain", headers={"tries": 3})
    """

    body: bytes = field(default=b"", kw_only=False)
    durable: bool = True
    priority: int | None = None
    ttl_ms: int | None = None  # the property `expiration`
    headers: dict[str, object] = field(default_factory=dict)
    message_id: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    timestamp: int | None = None  # seconds since 1970
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None

    def encode(self, exchange: str, routing_key: str, mandatory: bool) -> bytes:
        """As it is published. ValueError: a value that does not fit its field."""
        properties = BasicProperties(
            content_type=self.content_type,
            content_encoding=self.content_encoding,
            headers=self.headers or None,
            delivery_mode=PERSISTENT if self.durable else TRANSIENT,
            priority=self.priority,
            correlation_id=self.correlation_id,
            reply_to=self.reply_to,
            expiration=None if self.ttl_ms is None else str(self.ttl_ms),
            message_id=self.message_id,
            timestamp=self.timestamp,
            type=self.type,
            user_id=self.user_id,
            app_id=self.app_id,
        )
        key = routing_key.encode("utf-8", "surrogateescape")
        bits = MANDATORY if mandatory else 0
        return build(exchange, key, properties.encode(), bytes(self.body), bits=bits)


def decode_content(content: bytes) -> Message:
    """The message in the frames of a content. Properties that do not decode are left out."""
    properties, body = content_parts(content, 0, len(content))
    try:
        return made_of(decode_properties(properties), body)
    except ProtocolError:
        return Message(body, durable=False)


def made_of(properties: BasicProperties, body: bytes) -> Message:
    expiration = properties.expiration
    return Message(
        body,
        durable=properties.delivery_mode == PERSISTENT,
        priority=properties.priority,
        ttl_ms=int(expiration) if expiration is not None and expiration.isdecimal() else None,
        headers=properties.headers or {},
        message_id=properties.message_id,
        correlation_id=properties.correlation_id,
        reply_to=properties.reply_to,
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        timestamp=properties.timestamp,
        type=properties.type,
        user_id=properties.user_id,
        app_id=properties.app_id,
    )
