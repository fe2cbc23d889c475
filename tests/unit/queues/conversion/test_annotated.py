"""Messages with annotations that consumers noted: both stored forms, and what no consumer may
note.
"""

import pytest

from queues.conversion.annotated import annotated, words_of
from queues.conversion.chunks import in_form_1, names_for
from queues.conversion.to_amqp10 import to_amqp10
from queues.dead_lettering.dead_letters10 import CHANNEL_AT, DEATH_CHANNEL
from queues.message import FORMAT_10, Chunk
from tests.unit.queues.messages import chunk_of
from tests.unit.wire.amqp10.messages import DATA, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, section
from tests.unit.wire.frames import message
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.amqp091.values import Timestamp as Timestamp091
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Header, Properties
from warren.wire.amqp10.codec.values import Array, Symbol, Timestamp, UInt, ULong
from warren.wire.amqp10.transfers import payload_at, store

BARE = Properties(subject="s").encoded() + section(DATA, b"body")
HEAD = Header(durable=True, ttl=9).encoded() + section(DELIVERY_ANNOTATIONS, {Symbol("x-to"): 1})


def in_form_2(annotations: dict[object, object] | None, head: bytes = HEAD) -> Chunk:
    """The second of two messages of a chunk."""
    sections = head
    if annotations is not None:
        sections += section(MESSAGE_ANNOTATIONS, annotations)
    first, second = store(BARE), store(sections + BARE)
    places = (7, 7 + len(first), 7 + len(first) + len(second))
    offsets = b"".join(place.to_bytes(4, "little") for place in places)
    return Chunk(FORMAT_10, first + second, 7, offsets, 1, names_for("ex", b"key"))


def noted(chunk: Chunk, annotations: dict[str, object]) -> tuple[bytes, Sections]:
    """The message with these annotations, and its sections."""
    made = annotated(chunk, 1, words_of(annotations))
    assert (made.format_tag, made.info, made.names) == (chunk.format_tag, chunk.info, chunk.names)
    assert made.count() == 1
    assert made.data is not None
    sections = Sections()
    assert sections.walk(made.data, payload_at(made.data, 0), len(made.data))
    return made.data, sections


@pytest.mark.parametrize("key", ["y-own", "", "X-own", "xx-own", "amqp:x"])
def test_a_key_that_does_not_begin_with_x_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="reserved"):
        words_of({"x-own": 1, key: 2})


@pytest.mark.parametrize(
    "key",
    ["x-cc", "x-opt-deaths", "x-death", "x-exchange", "x-first-death-queue", "x-last-death-x"],
)
def test_what_the_broker_says_of_a_message_is_not_taken_from_a_consumer(key: str) -> None:
    assert words_of({key: "forged", "x-own": 1}) == words_of({"x-own": 1})


@pytest.mark.parametrize("head", [HEAD, b""])
@pytest.mark.parametrize("before", [None, {}])
def test_a_message_without_annotations_gets_them_and_all_else_stays(
    before: dict[object, object] | None, head: bytes
) -> None:
    data, sections = noted(in_form_2(before, head), {"x-why": "bad", "x-n": UInt(3)})
    assert sections.annotations(data) == {"x-why": "bad", "x-n": 3}
    assert data[sections.bare_at :] == BARE
    assert data[payload_at(data, 0) : sections.message_annotations_at] == head


def test_annotations_of_the_same_key_are_replaced_and_others_keep_their_bytes() -> None:
    before = {
        Symbol("x-a"): ULong(1),
        Symbol("x-b"): Array("int", [1, 2]),
        "x-c": "text",
        ULong(4): 5,
    }
    data, sections = noted(in_form_2(before), {"x-a": [1, None], "x-c": True})
    found = sections.annotations(data)
    assert isinstance(found, dict)
    assert list(found.items()) == [
        ("x-b", Array("int", [1, 2])),
        (4, 5),
        ("x-a", [1, None]),
        ("x-c", True),
    ]


def test_the_mark_of_a_dead_letter_stays() -> None:
    chunk = in_form_2(None)
    assert chunk.data is not None
    start, _ = chunk.span(1)
    mark = DEATH_CHANNEL.to_bytes(2, "big")
    chunk.data = chunk.data[: start + CHANNEL_AT] + mark + chunk.data[start + CHANNEL_AT + 2 :]
    data, _ = noted(chunk, {"x-own": 1})
    assert data[CHANNEL_AT : CHANNEL_AT + 2] == mark


def test_a_message_of_the_other_protocol_gets_headers() -> None:
    properties = BasicProperties(headers={"x-a": "old", "kept": 7}, message_id="m")
    first, second = message(1, b"first"), message(1, b"body", properties=properties)
    words = words_of({"x-a": "new", "x-at": Timestamp(5000), "x-odd": float("nan")})
    made = annotated(chunk_of([first, second], base=9), 1, words)
    assert made.data is not None
    _, key, encoded, body = extract(made.data, 0, len(made.data))
    found = decode_properties(encoded)
    assert (key, body, found.message_id) == (b"q", b"body", "m")
    assert found.headers == {"kept": 7, "x-a": "new", "x-at": Timestamp091(5)}


def test_a_message_without_properties_gets_headers_too() -> None:
    made = annotated(chunk_of([message(1, b"body")]), 0, words_of({"x-a": 1}))
    assert made.data is not None
    shown = to_amqp10(made.data, 0, len(made.data))
    assert shown.annotations == {"x-a": 1}


def test_consumers_of_the_other_protocol_see_what_was_noted() -> None:
    made = annotated(in_form_2({Symbol("x-b"): 2}), 1, words_of({"x-a": "1"}))
    shown = in_form_1(made, 0, 1)
    assert shown.data is not None
    _, _, encoded, _ = extract(shown.data, 0, len(shown.data))
    assert decode_properties(encoded).headers == {"x-b": 2, "x-a": "1"}
