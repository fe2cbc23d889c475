"""A stored message with the annotations that its consumers have noted on it.

Takes a message in either stored form, whose bytes are in memory, and words
(`queues.machine.annotations`);
gives a chunk of this one message in the same form. In form 2 they are message annotations, in place
of those with the same key; all else stays as it came, and the mark of a dead letter, too. In form 1
they are headers, as annotations of a message are when it is converted.

What the broker itself says of a message cannot be noted (`is_reserved`): a consumer must not
rewrite where a message came from, why it died, or where else it is to go. A message whose
annotations or headers cannot be read stays as it is. Not compiled: seldom, and per message.
"""

from collections.abc import Mapping
from typing import Final

from queues.conversion.ingress_times import KEY as INGRESS_TIME
from queues.conversion.values import DROPPED, NAME_BYTES_MAX, to_091
from queues.machine.annotations import Annotations, Words, decode_words, encode_words
from queues.message import FORMAT_10, Chunk
from queues.queue_host import View
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp091.rewrite import raw_headers, rewrite, without_keys
from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.descriptors import MESSAGE_ANNOTATIONS
from warren.wire.amqp10.codec.message import Sections, list_span
from warren.wire.amqp10.codec.reader import decode_value, value_end
from warren.wire.amqp10.codec.writer import write_compound, write_symbol, write_ulong, write_value
from warren.wire.amqp10.transfers import payload_at, store
from warren.wire.buffer import BytesWriter
from warren.wire.errors import ProtocolError

CHANNEL_AT: Final = 6  # in a frame: the mark of a dead letter
PREFIX: Final = "x-"
RESERVED: Final = frozenset(
    {
        *("x-cc", "x-exchange", "x-routing-key", "x-opt-deaths", "x-death", INGRESS_TIME),
        *("x-routed-by", "x-opt-rabbitmq-received-time", "x-opt-rabbitmq-sent-time"),
    }
)
RESERVED_PREFIXES: Final = ("x-first-death-", "x-last-death-")


def is_reserved(key: str) -> bool:
    """Whether only the broker, or the publisher, says this of a message."""
    return key in RESERVED or key.startswith(RESERVED_PREFIXES)


def words_of(annotations: Mapping[str, object]) -> bytes:
    """As words, less what is reserved. ValueError: a key does not begin with `x-`."""
    words: Words = {}
    for key, value in annotations.items():
        if not key.startswith(PREFIX):
            raise ValueError(f"annotations whose keys do not begin with x- are reserved: '{key}'")
        if not is_reserved(key):
            encoded = BytesWriter()
            write_value(encoded, value)
            words[key.encode("ascii")] = encoded.getvalue()
    return encode_words(words)


def annotated_view(view: View, noted: Annotations) -> View:
    """The head of the view: messages on which nothing was noted, or one with what was."""
    bare = noted.bare_run(view.first, view.count)
    if bare > 0:
        return View(view.chunk, view.index, view.first, int(bare))
    return View(annotated(view.chunk, view.index, noted.words[view.first]), 0, view.first, 1)


def annotated(chunk: Chunk, index: int, words: bytes) -> Chunk:
    """Message `index` of the chunk with these annotations."""
    data = chunk.data
    assert data is not None
    start, end = chunk.span(index)
    noted = decode_words(words)
    if chunk.format_tag == FORMAT_10:
        message = _annotated_10(data, start, end, noted)
    else:
        message = _annotated_091(data, start, end, noted)
    offsets = bytes(4) + len(message).to_bytes(4, "little")
    return Chunk(chunk.format_tag, message, 0, offsets, chunk.info, chunk.names)


# Stored form 2


def annotated_form_10(message: bytes, noted: Words) -> bytes:
    """A message in stored form 2, with these annotations in place of those with the same key."""
    return _annotated_10(message, 0, len(message), noted)


def annotated_if_absent(message: bytes, noted: Words) -> bytes:
    """A message in stored form 2, with those of these annotations whose keys it does not have."""
    sections = Sections()
    if sections.walk_head(message, payload_at(message, 0), len(message)) < 0:
        return message
    there = _keys_in(message, int(sections.message_annotations_at), int(sections.bare_at))
    absent = {key: value for key, value in noted.items() if key not in there}
    return annotated_form_10(message, absent) if absent else message


def annotated_with_ingress(message: bytes, now_ms: int) -> bytes:
    """The message in stored form 2 with its annotation x-opt-ingress-time (`IngressTimes`)."""
    encoded = BytesWriter()
    write_value(encoded, now_ms)
    return annotated_form_10(message, {INGRESS_TIME.encode(): encoded.getvalue()})


def _annotated_10(data: bytes, start: int, end: int, noted: Words) -> bytes:
    sections = Sections()
    at = int(payload_at(data, start))
    if sections.walk_head(data, at, end) < 0:
        return data[start:end]
    bare_at = int(sections.bare_at)
    annotations_at = int(sections.message_annotations_at)
    entries, count = _entries_kept(data, annotations_at, bare_at, noted)
    for key, value in noted.items():
        write_symbol(entries, key.decode("ascii"))
        entries.write(value)
        count += 2
    writer = BytesWriter()
    writer.write(data[at:annotations_at])
    writer.append(codes.DESCRIBED)
    write_ulong(writer, MESSAGE_ANNOTATIONS)
    write_compound(writer, codes.MAP, entries.getvalue(), count)
    writer.write(data[bare_at:end])
    frame = store(writer.getvalue())
    mark = data[start + CHANNEL_AT : start + CHANNEL_AT + 2]
    return frame[:CHANNEL_AT] + mark + frame[CHANNEL_AT + 2 :]


def _entries_kept(data: bytes, at: int, end: int, noted: Words) -> tuple[BytesWriter, int]:
    """Entries of the section data[at:end] with other keys, as they came; twice their number."""
    kept = BytesWriter()
    count = 0
    if at == end:
        return kept, count
    value_at = value_end(data, at + 1, end)  # behind the descriptor
    item_at, inside_end, left = list_span(data, value_at, end, codes.MAP)
    while left > 0:
        value_at = value_end(data, item_at, inside_end)
        after = value_end(data, value_at, inside_end)
        if _key_at(data, int(item_at), int(value_at)) not in noted:
            kept.write(data[item_at:after])
            count += 2
        item_at = after
        left -= 2
    return kept, count


def _keys_in(data: bytes, at: int, end: int) -> set[bytes]:
    """The keys of the section data[at:end]."""
    keys: set[bytes] = set()
    if at == end:
        return keys
    item_at, inside_end, left = list_span(data, value_end(data, at + 1, end), end, codes.MAP)
    while left > 0:
        value_at = value_end(data, item_at, inside_end)
        keys.add(_key_at(data, int(item_at), int(value_at)))
        item_at = value_end(data, value_at, inside_end)
        left -= 2
    return keys


def _key_at(data: bytes, at: int, end: int) -> bytes:
    """The text of a symbol or string; of another value, nothing."""
    if data[at] in (codes.SYMBOL_8, codes.STRING_8):
        return data[at + 2 : end]
    return data[at + 5 : end] if data[at] in (codes.SYMBOL, codes.STRING) else b""


# Stored form 1


def _annotated_091(data: bytes, start: int, end: int, noted: Words) -> bytes:
    added: dict[str, object] = {}
    for key, value in noted.items():
        converted = to_091(decode_value(value, 0, len(value)))
        if converted is not DROPPED and len(key) <= NAME_BYTES_MAX:
            added[key.decode("ascii")] = converted
    try:
        kept = without_keys(raw_headers(data, start), tuple(noted))
    except ProtocolError:
        return data[start:end]
    return rewrite(data, start, end, None, None, kept + encode_table(added)[4:], 0, None)
