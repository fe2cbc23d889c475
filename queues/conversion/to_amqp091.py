"""An AMQP 1.0 message as one of AMQP 0-9-1.

Not carried over: absolute-expiry-time, to, subject, group-sequence, reply-to-group-id, delivery
annotations, footer, and annotations whose names do not begin with `x-`. A body that is not one data
section goes as it is encoded, with `type` AMQP10_TYPE.
"""

from typing import Final
from urllib.parse import unquote
from uuid import UUID

from queues.conversion.addresses import QUEUES
from queues.conversion.deaths import X_DEATH, X_OPT_DEATHS, deaths_10, header_of
from queues.conversion.values import DROPPED, MS, NAME_BYTES_MAX, pairs_of, to_091
from warren.wire.amqp091 import values as v091
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.amqp10.codec import values as v10
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Properties
from warren.wire.amqp10.codec.reader import value_end

AMQP10_TYPE: Final = "amqp-1.0"
BASIC_TYPE: Final = "x-basic-type"  # annotation that holds the property `type`
# When the broker took a message, in milliseconds, as RabbitMQ names it in either protocol.
RECEIVED_TIME: Final = "x-opt-rabbitmq-received-time"
RECEIVED_TIME_BYTES: Final = RECEIVED_TIME.encode()
TIMESTAMP_IN_MS: Final = "timestamp_in_ms"
X_CC: Final = "x-cc"  # annotation that holds the header CC
PERSISTENT: Final = 2
TRANSIENT: Final = 1


def to_amqp091(data: bytes, start: int, end: int, exchange: str, routing_key: bytes) -> bytes:
    """The 1.0 message `data[start:end]` in stored form 1. Whatever cannot be read is left out."""
    sections = Sections()
    sections.find(data, start, end)
    body, encoded = _body(data, sections)
    properties = basic_properties(data, sections)
    if encoded:
        properties.type = AMQP10_TYPE
    return build(exchange, routing_key, properties.encode(), body)


def basic_properties(data: bytes, sections: Sections) -> BasicProperties:
    """Properties and headers of the message; of the body nothing is looked at."""
    header = sections.header(data)
    properties = sections.properties(data)
    headers = headers_of(data, sections)
    basic = BasicProperties(
        content_type=_fitting(properties.content_type),
        content_encoding=_fitting(properties.content_encoding),
        delivery_mode=PERSISTENT if header.durable else TRANSIENT,
        priority=header.priority,
        expiration=None if header.ttl is None else str(header.ttl),
        timestamp=_seconds(_time_of(data, sections, properties, headers)),
        app_id=_fitting(properties.group_id),
        user_id=_user(properties.user_id),
        reply_to=_reply_to(properties.reply_to),
        type=_fitting(_text(headers.pop(BASIC_TYPE, None))),
    )
    _identify(basic, properties, headers)
    basic.headers = headers or None
    return basic


def headers_of(data: bytes, sections: Sections) -> dict[str, object]:
    """What a headers exchange sees: application properties, and annotations named `x-...`."""
    headers: dict[str, object] = {}
    for name, value in pairs_of(sections.application_properties(data)):
        _put(headers, name, value)
    for name, value in pairs_of(sections.annotations(data)):
        if name == X_CC:
            _put(headers, "CC", value)
        elif name == RECEIVED_TIME and isinstance(value, v10.Timestamp):
            headers[TIMESTAMP_IN_MS] = int(value)
        elif name == X_OPT_DEATHS:
            deaths = deaths_10(value)
            if deaths:
                headers[X_DEATH] = header_of(deaths)
        elif isinstance(name, str) and name.startswith("x-"):
            _put(headers, name, value)
    return headers


def _put(headers: dict[str, object], name: object, value: object) -> None:
    if isinstance(name, str) and len(name.encode()) <= NAME_BYTES_MAX:
        converted = to_091(value)
        if converted is not DROPPED:
            headers[str(name)] = converted


def _identify(basic: BasicProperties, properties: Properties, headers: dict[str, object]) -> None:
    """message-id and correlation-id; what a short string cannot hold becomes a header."""
    basic.message_id, message = _id(properties.message_id)
    basic.correlation_id, correlation = _id(properties.correlation_id)
    if message is not None:
        headers["x-message-id"] = message
    if correlation is not None:
        headers["x-correlation-id"] = correlation


def _id(value: object) -> tuple[str | None, object]:
    """(as a property, as a header)."""
    if isinstance(value, UUID):
        return f"urn:uuid:{value}", None
    if isinstance(value, bool):
        return str(value).lower(), None
    if isinstance(value, int):
        return str(int(value)), None
    if isinstance(value, bytes):
        return None, bytearray(value)
    if isinstance(value, str):
        return (value, None) if _fitting(value) is not None else (None, value)
    return None, None


def _fitting(text: str | None) -> str | None:
    """Text that fits a short string; longer text is dropped."""
    return None if text is None or len(text.encode()) > NAME_BYTES_MAX else str(text)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _user(user_id: bytes | None) -> str | None:
    if user_id is None or len(user_id) > NAME_BYTES_MAX:
        return None
    return user_id.decode("utf-8", "surrogateescape")


def _reply_to(address: str | None) -> str | None:
    if address is not None and address.startswith(QUEUES):
        return _fitting(unquote(address[len(QUEUES) :]))
    return _fitting(address)


def _time_of(
    data: bytes, sections: Sections, properties: Properties, headers: dict[str, object]
) -> int | None:
    """In milliseconds: when the message was made, or else when the broker took it."""
    annotations = data[sections.message_annotations_at : sections.bare_at]
    if properties.creation_time is not None or RECEIVED_TIME_BYTES not in annotations:
        return properties.creation_time
    received = headers.get(TIMESTAMP_IN_MS)
    return received if isinstance(received, int) else None


def _seconds(creation_time: int | None) -> int | None:
    if creation_time is None or creation_time < 0:
        return None
    return v091.Timestamp(creation_time // MS)


def _body(data: bytes, sections: Sections) -> tuple[bytes, bool]:
    """(payload, whether it is encoded as 1.0)."""
    at, end = sections.body_at, sections.footer_at
    if at == end:
        return b"", False
    plain = sections.body_data(data) if value_end(data, at, end) == end else None
    return (data[at:end], True) if plain is None else (plain, False)
