"""An AMQP 0-9-1 message as one of AMQP 1.0.

Headers that begin with `x-` become message annotations, the others application properties, but for
tables and arrays, which those may not hold. BCC is never carried over. The body is one data
section, unless its `type` says that it holds sections of AMQP 1.0 already and it does.
"""

from typing import Final
from urllib.parse import quote
from uuid import UUID

from msgspec import Struct

from queues.conversion.addresses import QUEUES
from queues.conversion.deaths import X_DEATH, X_OPT_DEATHS, annotation_of, deaths_091
from queues.conversion.to_amqp091 import (
    AMQP10_TYPE,
    BASIC_TYPE,
    PERSISTENT,
    RECEIVED_TIME,
    TIMESTAMP_IN_MS,
    X_CC,
)
from queues.conversion.values import DROPPED, MS, text_to_10, to_10
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.properties import BasicProperties, readable_properties
from warren.wire.amqp091.values import Int64
from warren.wire.amqp10.codec.descriptors import APPLICATION_PROPERTIES, DATA
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Header, Properties
from warren.wire.amqp10.codec.values import Symbol, Timestamp
from warren.wire.amqp10.codec.writer import write_binary, write_ulong, write_value
from warren.wire.buffer import BytesWriter

INTEGERS: Final = (int, Int64)
URN: Final = "urn:uuid:"
TTL_MAX: Final = 0xFFFFFFFF
PRIORITY_MAX: Final = 255


class Message10(Struct):
    """What the broker may change (header, annotations), and the bare message, encoded."""

    header: Header
    annotations: dict[object, object]
    bare: bytes


def to_amqp10(data: bytes, start: int, end: int) -> Message10:
    """The message in stored form 1 at `data[start:end]`. Whatever cannot be read is left out."""
    _, _, encoded, body = extract(data, start, end)
    basic = readable_properties(encoded)
    annotations, application = _headers(basic)
    writer = BytesWriter()
    properties_of(basic).encode(writer)
    if application:
        _descriptor(writer, APPLICATION_PROPERTIES)
        write_value(writer, application)
    if not (basic.type == AMQP10_TYPE and _holds_sections(body)):
        _descriptor(writer, DATA)
        write_binary(writer, body)
        if basic.type is not None:
            annotations[Symbol(BASIC_TYPE)] = text_to_10(basic.type)
    else:
        writer.write(body)
    return Message10(header_of(basic), annotations, writer.getvalue())


def header_of(basic: BasicProperties) -> Header:
    return Header(
        durable=basic.delivery_mode == PERSISTENT,
        priority=basic.priority,
        ttl=_ttl(basic.expiration),
    )


def properties_of(basic: BasicProperties) -> Properties:
    """The section of that name; empty where the message says nothing."""
    return Properties(
        message_id=_id(basic.message_id),
        user_id=None if basic.user_id is None else _bytes(basic.user_id),
        reply_to=None if basic.reply_to is None else QUEUES + quote(_bytes(basic.reply_to), ""),
        correlation_id=_id(basic.correlation_id),
        content_type=_symbol(basic.content_type),
        content_encoding=_symbol(basic.content_encoding),
        creation_time=None if basic.timestamp is None else _milliseconds(basic.timestamp),
        group_id=_utf8(basic.app_id),
    )


def _headers(basic: BasicProperties) -> tuple[dict[object, object], dict[object, object]]:
    """(message annotations, application properties)."""
    annotations: dict[object, object] = {}
    application: dict[object, object] = {}
    for name, value in (basic.headers or {}).items():
        if name == "BCC" or _utf8(name) is None:
            continue
        deaths = deaths_091(value) if name == X_DEATH else []
        if deaths:
            annotations[Symbol(X_OPT_DEATHS)] = annotation_of(deaths)
            continue
        converted = to_10(value)
        if converted is DROPPED:
            continue
        if name == TIMESTAMP_IN_MS and isinstance(value, int) and type(value) in INTEGERS:
            annotations[Symbol(RECEIVED_TIME)] = Timestamp(value)
        if name == "CC":
            annotations[Symbol(X_CC)] = converted
        elif name.startswith("x-"):
            if name.isascii():
                annotations[Symbol(name)] = converted
        elif not isinstance(converted, (list, dict)):
            application[name] = converted
    return annotations, application


def structured_headers(data: bytes, start: int, end: int) -> dict[object, object]:
    """Tables and arrays among the headers of a message in stored form 1, as annotations: of
    `routed_queues`, `x-routed-queues`."""
    _, _, encoded, _ = extract(data, start, end)
    found: dict[object, object] = {}
    for name, value in (readable_properties(encoded).headers or {}).items():
        if not isinstance(value, (dict, list)) or name.startswith("x-") or not name.isascii():
            continue
        converted = to_10(value)
        if converted is not DROPPED and name not in ("CC", "BCC"):
            found[Symbol("x-" + name.replace("_", "-"))] = converted
    return found


def _holds_sections(body: bytes) -> bool:
    """Whether the body is a row of body sections of AMQP 1.0."""
    sections = Sections()
    end = len(body)
    if not (end > 0 and sections.walk(body, 0, end)):
        return False
    return sections.body_at == 0 and sections.footer_at == end


def _descriptor(writer: BytesWriter, code: int) -> None:
    writer.append(0)
    write_ulong(writer, code)


def _id(text: str | None) -> object:
    """A UUID where the text is one, else a string; bytes that are no text are a binary."""
    if text is None:
        return None
    if text.startswith(URN):
        try:
            return UUID(text[len(URN) :])
        except ValueError:
            return text_to_10(text)
    return text_to_10(text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _utf8(text: str | None) -> str | None:
    """The text, unless it hides bytes that are not UTF-8."""
    if text is None:
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return text


def _symbol(text: str | None) -> str | None:
    return text if text is not None and text.isascii() else None


def _ttl(expiration: str | None) -> int | None:
    if expiration is None or not (expiration.isascii() and expiration.isdigit()):
        return None
    return min(int(expiration), TTL_MAX)


def _milliseconds(seconds: int) -> int | None:
    value = seconds * MS
    return value if value < 1 << 63 else None
