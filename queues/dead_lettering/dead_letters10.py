"""What a message of AMQP 1.0 becomes when its queue gives it up.

Takes messages in stored form 2 and gives them in the same form, for the dead-letter exchange:
without a ttl; with the annotations x-opt-deaths, x-first-death-{exchange,queue,reason} (set once)
and x-last-death-... as RabbitMQ 4 writes them; x-cc and the bare message stay. Message by message,
for it has to be decoded.

A history is believed only if the broker wrote it: the frame of a dead letter is on channel
DEATH_CHANNEL, or ALONE_CHANNEL if the rule's routing key has replaced the keys in x-cc; no client
can have these. What cannot be read of a message is left out; one that cannot be read at all becomes
the body of its dead letter, whose history begins with this death.
"""

from typing import Final

from msgspec import Struct

from queues.conversion.chunks import names_for, names_of
from queues.conversion.deaths import X_OPT_DEATHS, Death, annotation_of, deaths_10, with_death
from queues.conversion.to_amqp091 import X_CC
from queues.conversion.values import dict_of
from queues.dead_lettering.dead_letters import DeadLetterRule
from queues.message import FORMAT_10, Chunk
from warren.wire.amqp10.codec.descriptors import DATA, MESSAGE_ANNOTATIONS
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.values import Array, Symbol
from warren.wire.amqp10.codec.writer import write_binary, write_ulong, write_value
from warren.wire.amqp10.transfers import payload_at, store
from warren.wire.buffer import BytesWriter, read_i16_be

DEATH_CHANNEL: Final = 0x7EAD  # a client has 64 sessions at most
ALONE_CHANNEL: Final = 0x7EAE  # the same, and the keys in x-cc do not count any more
CHANNEL_AT: Final = 6  # in a frame
FIRST: Final = "x-first-death-"
LAST: Final = "x-last-death-"
PLACES: Final = ("exchange", "queue", "reason")


class DeadLetter10(Struct, frozen=True):
    """One dead letter and where it is to go."""

    chunk: Chunk
    routing_keys: list[bytes]  # at least one
    deaths: list[tuple[str, str]]  # queue, reason; newest first


def dead_letter_10(
    rule: DeadLetterRule, chunk: Chunk, index: int, reason: str, now_ms: int, info: int
) -> DeadLetter10:
    """Message `index` of the chunk, whose bytes are in memory; `info` is that of dead letters."""
    data = chunk.data
    assert data is not None
    start, end = chunk.span(index)
    sections = Sections()
    is_message = sections.find(data, int(payload_at(data, start)), end)
    annotations = dict_of(sections.annotations(data))
    channel = read_i16_be(data, start + CHANNEL_AT)
    is_alone = channel == ALONE_CHANNEL
    ours = is_alone or channel == DEATH_CHANNEL
    exchange, key = names_of(chunk.names)
    keys = [key] if is_alone else [key, *_copies(annotations.get(X_CC))]
    header = sections.header(data)
    new = Death(
        rule.queue,
        reason,
        1,
        now_ms,
        now_ms,
        exchange,
        tuple(each.decode("utf-8", "replace") for each in keys),
        header.ttl,
    )
    past = deaths_10(annotations.get(X_OPT_DEATHS)) if ours else []
    deaths = with_death(past, new)
    header.ttl = None
    target = rule.exchange.decode()
    if rule.routing_key is not None:
        is_alone = is_alone or len(keys) > 1
        keys = [rule.routing_key]
    _remember(annotations, deaths, new, bool(past))
    writer = BytesWriter()
    header.encode(writer)
    writer.append(0)
    write_ulong(writer, MESSAGE_ANNOTATIONS)
    write_value(writer, annotations)
    bare = data[sections.bare_at : end]
    if is_message:
        writer.write(bare)
    else:
        writer.append(0)
        write_ulong(writer, DATA)
        write_binary(writer, bare)
    letter = _marked(store(writer.getvalue()), ALONE_CHANNEL if is_alone else DEATH_CHANNEL)
    offsets = bytes(4) + len(letter).to_bytes(4, "little")
    made = Chunk(FORMAT_10, letter, 0, offsets, info, names_for(target, keys[0]))
    return DeadLetter10(made, keys, [(death.queue, death.reason) for death in deaths])


def _copies(value: object) -> list[bytes]:
    """The keys in x-cc."""
    items = value.items if isinstance(value, Array) else value
    if not isinstance(items, list):
        return []
    keys = [item.encode() for item in items if isinstance(item, str)]
    return [key for key in keys if len(key) <= 255]


def _remember(
    annotations: dict[object, object], deaths: list[Death], new: Death, died_before: bool
) -> None:
    """Our own annotations, in place of a client's."""
    told = dict(zip(PLACES, (new.exchange, new.queue, new.reason), strict=True))
    for place in PLACES:
        if not died_before:
            annotations.pop(FIRST + place, None)
            annotations[Symbol(FIRST + place)] = told[place]
        annotations.pop(LAST + place, None)
        annotations[Symbol(LAST + place)] = told[place]
    annotations.pop(X_OPT_DEATHS, None)
    annotations[Symbol(X_OPT_DEATHS)] = annotation_of(deaths)


def _marked(frame: bytes, channel: int) -> bytes:
    """The frame on a channel of dead letters."""
    mark = channel.to_bytes(2, "big")
    return frame[:CHANNEL_AT] + mark + frame[CHANNEL_AT + 2 :]
