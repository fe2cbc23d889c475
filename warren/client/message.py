"""A message as the user of the client has it, and its sections."""

from dataclasses import dataclass, field

from warren.wire.amqp10.codec.descriptors import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
)
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Header, Properties
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.codec.values import Described, Pairs, Symbol, Timestamp
from warren.wire.amqp10.codec.writer import write_binary, write_ulong, write_value
from warren.wire.amqp10.errors import ProtocolError
from warren.wire.buffer import BytesWriter


@dataclass(slots=True, kw_only=True)
class Message:
    """`body` bytes are sent as data, all else as one value; what comes in sequences is a list.

    Times are milliseconds since 1970. Values of types that Python has none of its own for are those
    of `warren.wire.amqp10.codec.values`: `UInt(7)`, `Symbol("red")`.

        Message(b"hello", subject="greeting", application_properties={"tries": 3})
    """

    body: object = field(default=b"", kw_only=False)
    durable: bool = True
    priority: int | None = None
    ttl_ms: int | None = None
    first_acquirer: bool = False  # of a delivery
    delivery_count: int = 0  # of a delivery: how often it failed before
    annotations: dict[str, object] = field(default_factory=dict)
    message_id: object = None
    user_id: bytes | None = None
    to: str | None = None  # where to, if the publisher has no address
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: object = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None
    application_properties: dict[str, object] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The sections. ValueError or TypeError: a value that AMQP cannot hold."""
        writer = BytesWriter()
        header = Header(
            durable=True if self.durable else None, priority=self.priority, ttl=self.ttl_ms
        )
        if header != Header():
            header.encode(writer)
        if self.annotations:
            _descriptor(writer, MESSAGE_ANNOTATIONS)
            write_value(writer, {Symbol(name): each for name, each in self.annotations.items()})
        properties = self._properties()
        if properties != Properties():
            properties.encode(writer)
        if self.application_properties:
            _descriptor(writer, APPLICATION_PROPERTIES)
            write_value(writer, self.application_properties)
        if isinstance(self.body, (bytes, bytearray, memoryview)):
            _descriptor(writer, DATA)
            write_binary(writer, bytes(self.body))
        else:
            _descriptor(writer, AMQP_VALUE)
            write_value(writer, self.body)
        return writer.getvalue()

    def _properties(self) -> Properties:
        return Properties(
            message_id=self.message_id,
            user_id=self.user_id,
            to=self.to,
            subject=self.subject,
            reply_to=self.reply_to,
            correlation_id=self.correlation_id,
            content_type=self.content_type,
            content_encoding=self.content_encoding,
            absolute_expiry_time=_time(self.absolute_expiry_time),
            creation_time=_time(self.creation_time),
            group_id=self.group_id,
            group_sequence=self.group_sequence,
            reply_to_group_id=self.reply_to_group_id,
        )


def decode_message(data: bytes, start: int, end: int) -> Message:
    """The message in sections `data[start:end]`. ProtocolError: they are none."""
    sections = Sections()
    sections.walk(data, start, end)
    header = sections.header(data)
    properties = sections.properties(data)
    return Message(
        decode_body(data, sections),
        durable=header.durable is True,
        priority=header.priority,
        ttl_ms=header.ttl,
        first_acquirer=header.first_acquirer is True,
        delivery_count=header.delivery_count or 0,
        annotations=_texts(sections.annotations(data)),
        message_id=properties.message_id,
        user_id=properties.user_id,
        to=properties.to if isinstance(properties.to, str) else None,
        subject=properties.subject,
        reply_to=properties.reply_to if isinstance(properties.reply_to, str) else None,
        correlation_id=properties.correlation_id,
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        absolute_expiry_time=properties.absolute_expiry_time,
        creation_time=properties.creation_time,
        group_id=properties.group_id,
        group_sequence=properties.group_sequence,
        reply_to_group_id=properties.reply_to_group_id,
        application_properties=_texts(sections.application_properties(data)),
    )


def decode_body(data: bytes, sections: Sections) -> object:
    """Bytes of data sections, the value, or a list of the lists of sequences."""
    found = sections.body_data(data)
    if found is not None:
        return found
    reader = Reader(data, sections.body_at, sections.footer_at)
    lists: list[object] = []
    while reader.pos < sections.footer_at:
        part = reader.value()
        assert isinstance(part, Described)
        if part.descriptor not in (AMQP_SEQUENCE, "amqp:amqp-sequence:list"):
            return part.value
        lists.append(part.value)
    return lists


def try_decode(data: bytes, start: int, end: int) -> Message:
    """The same; a message whose maps or body do not decode has what came as its body."""
    try:
        return decode_message(data, start, end)
    except ProtocolError:
        return Message(data[start:end])


def _descriptor(writer: BytesWriter, code: int) -> None:
    writer.append(0)
    write_ulong(writer, code)


def _time(value: int | None) -> Timestamp | None:
    return None if value is None else Timestamp(value)


def _texts(section: object) -> dict[str, object]:
    """A map with texts as keys; entries with other keys are left out."""
    pairs = section if isinstance(section, Pairs) else ()
    if isinstance(section, dict):
        pairs = Pairs(section.items())
    return {str(key): value for key, value in pairs if isinstance(key, str)}
