"""A delivered message of either protocol as it is published by a shovel, in either protocol.

Between equal protocols the message is passed on byte for byte. Between different ones it is
converted as the broker converts it (`queues.conversion`). Over AMQP 1.0 a shovel changes message
annotations only, since the bare message is immutable: `x-opt-shovelled-by`, `x-opt-shovel-type`,
`x-opt-shovel-name` and `x-opt-shovelled-timestamp`; and the id by which queues leave out repeats.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from federation.republishing import Rewriting, delivered, republished
from queues.conversion.annotated import annotated_form_10
from queues.conversion.to_amqp091 import to_amqp091
from queues.conversion.to_amqp10 import to_amqp10
from queues.conversion.values import dict_of, pairs_of
from queues.hosts.message_digests import DUPLICATE_IDS
from warren.wire.amqp10.codec.descriptors import MESSAGE_ANNOTATIONS
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Header
from warren.wire.amqp10.codec.values import Symbol
from warren.wire.amqp10.codec.writer import write_ulong, write_value
from warren.wire.amqp10.transfers import payload_at, store
from warren.wire.buffer import BytesWriter

KEY: Final = Symbol("x-routing-key")
STAMP: Final = "x-opt-shovelled-timestamp"  # milliseconds


class Annotating(Struct, frozen=True):
    """What a shovel notes on messages of AMQP 1.0."""

    added: Mapping[str, str] = field(default_factory=dict)
    stamped: bool = False
    scope: str = ""  # of ids by which repeats are left out; "": messages get none

    def words(self, now_ms: int) -> dict[bytes, bytes]:
        """Annotations by key, encoded."""
        values: dict[str, object] = dict(self.added)
        if self.stamped:
            values[STAMP] = now_ms
        return {name.encode(): _encoded(value) for name, value in values.items()}


def annotated(payload: bytes, how: Annotating, now_ms: int) -> bytes:
    """A message of AMQP 1.0 with the shovel's annotations; unchanged if there are none."""
    words = how.words(now_ms)
    if how.scope:
        words |= duplicate_id(payload, how.scope)
    if not words:
        return payload
    stored = annotated_form_10(store(payload), words)
    return stored[int(payload_at(stored, 0)) :]


def duplicate_id(payload: bytes, scope: str) -> dict[bytes, bytes]:
    """The id of a message of AMQP 1.0 as an annotation: its message-id within `scope`. {}: it has
    an id of its publisher already, or no message-id that can be read."""
    sections = Sections()
    sections.find(payload, 0, len(payload))
    tables = (sections.annotations(payload), sections.application_properties(payload))
    if any(str(name) in DUPLICATE_IDS for table in tables for name, _ in pairs_of(table)):
        return {}
    message_id = sections.properties(payload).message_id
    if message_id is None:
        return {}
    text = message_id.hex() if isinstance(message_id, bytes) else str(message_id)
    return {DUPLICATE_IDS[0].encode(): _encoded(f"{scope}/{text}")}


def as_amqp10(content: bytes, how: Annotating, now_ms: int) -> bytes:
    """A delivery of AMQP 0-9-1 as a message of AMQP 1.0, which has exchange and routing key as
    annotations, as brokers give them to consumers."""
    method = delivered(content)
    kept = Rewriting(method.exchange, method.routing_key, scope=how.scope)
    published = republished(content, kept, 0)
    made = to_amqp10(published, 0, len(published))
    writer = BytesWriter()
    if made.header != Header():
        made.header.encode(writer)
    made.annotations[Symbol("x-exchange")] = method.exchange
    made.annotations[KEY] = method.routing_key.decode("utf-8", "replace")
    writer.append(0)
    write_ulong(writer, MESSAGE_ANNOTATIONS)
    write_value(writer, made.annotations)
    writer.write(made.bare)
    return annotated(writer.getvalue(), how, now_ms)


def as_amqp091(payload: bytes, how: Rewriting, now_s: int) -> bytes:
    """A message of AMQP 1.0 as basic.publish. What cannot be read of it is left out.

    Without an exchange in `how` the default one is used; without a key, the message's subject, or
    the routing key that its source has noted.
    """
    sections = Sections()
    key = how.key
    if key is None:
        sections.find(payload, 0, len(payload))
        noted = dict_of(sections.annotations(payload)).get(KEY, "")
        key = (sections.properties(payload).subject or str(noted)).encode()
    exchange = how.exchange or ""
    content = to_amqp091(payload, 0, len(payload), exchange, key)
    return republished(content, replace(how, exchange=exchange, key=key), now_s)


def _encoded(value: object) -> bytes:
    writer = BytesWriter()
    write_value(writer, value)
    return writer.getvalue()
