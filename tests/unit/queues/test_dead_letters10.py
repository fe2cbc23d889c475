"""Dead letters of AMQP 1.0: history in annotations, everything else as the publisher sent it."""

from uuid import UUID

import pytest

from queues.conversion.chunks import in_form_1, names_for, names_of
from queues.conversion.deaths import Death, annotation_of, deaths_091, deaths_10, header_of
from queues.conversion.to_amqp10 import to_amqp10
from queues.dead_lettering.dead_letters import DeadLetterRule
from queues.dead_lettering.dead_letters10 import DeadLetter10, dead_letter_10
from queues.message import FORMAT_10, Chunk
from queues.routing.content10 import Content10
from tests.unit.queues.messages import bodies_of
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.properties import decode_properties
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Header, Properties
from warren.wire.amqp10.codec.values import Array, Described, Symbol, ULong
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.transfers import payload_at, store

NOW_MS = 1_700_000_000_123
BARE = Properties(message_id=UUID(int=7)).encoded() + b"\x00\x53\x75\xa0\x04body"


def chunk_of_one(
    annotations: dict[object, object] | None = None,
    header: Header | None = None,
    names: bytes = names_for("ex", b"key"),
) -> Chunk:
    sections = b"" if header is None else header.encoded()
    if annotations is not None:
        sections += encode_value(Described(ULong(0x72), annotations))
    message = store(sections + BARE)
    offsets = bytes(4) + len(message).to_bytes(4, "little")
    return Chunk(FORMAT_10, message, 0, offsets, 1, names)


def bury(chunk: Chunk, reason: str = "rejected", key: bytes | None = None, queue: str = "work",
         now_ms: int = NOW_MS) -> DeadLetter10:  # fmt: skip
    return dead_letter_10(DeadLetterRule(queue, "dlx", key), chunk, 0, reason, now_ms, 3)


def annotations_of(chunk: Chunk) -> dict[object, object]:
    data = chunk.data
    assert data is not None
    sections = Sections()
    assert sections.walk(data, payload_at(data, 0), len(data))
    assert data[sections.bare_at :] == BARE
    found = sections.annotations(data)
    assert isinstance(found, dict)
    return found


def test_a_first_death_is_told_in_annotations_and_the_bare_message_stays() -> None:
    letter = bury(chunk_of_one({Symbol("x-own"): 1}, Header(durable=True, ttl=500)), "expired")
    assert names_of(letter.chunk.names) == ("dlx", b"key")
    assert (letter.routing_keys, letter.deaths) == ([b"key"], [("work", "expired")])
    found = annotations_of(letter.chunk)
    deaths = found.pop("x-opt-deaths")
    assert found == {
        "x-own": 1,
        **{f"x-{which}-death-exchange": "ex" for which in ("first", "last")},
        **{f"x-{which}-death-queue": "work" for which in ("first", "last")},
        **{f"x-{which}-death-reason": "expired" for which in ("first", "last")},
    }
    assert deaths_10(deaths) == [
        Death("work", "expired", 1, NOW_MS, NOW_MS, "ex", ("key",), ttl_ms=500)
    ]
    data = letter.chunk.data
    assert data is not None
    sections = Sections()
    sections.walk(data, payload_at(data, 0), len(data))
    assert sections.header(data) == Header(durable=True)


def test_the_same_death_again_is_counted_and_another_goes_before_it() -> None:
    first = bury(chunk_of_one(), "expired")
    other = bury(first.chunk, "rejected", queue="second", now_ms=NOW_MS + 5)
    again = bury(other.chunk, "expired", now_ms=NOW_MS + 9)
    assert again.deaths == [("work", "expired"), ("second", "rejected")]
    found = annotations_of(again.chunk)
    [newest, oldest] = deaths_10(found["x-opt-deaths"])
    assert (newest.count, newest.first_ms, newest.last_ms) == (2, NOW_MS, NOW_MS + 9)
    assert oldest.queue == "second"
    assert found["x-first-death-queue"] == "work"
    assert found["x-last-death-queue"] == "work"


def test_a_history_that_a_client_has_made_up_is_not_believed() -> None:
    made_up = annotation_of([Death("work", "expired", 9, 1, 1, "", ())])
    chunk = chunk_of_one({Symbol("x-opt-deaths"): made_up, Symbol("x-first-death-queue"): "no"})
    letter = bury(chunk)
    found = annotations_of(letter.chunk)
    assert [death.count for death in deaths_10(found["x-opt-deaths"])] == [1]
    assert found["x-first-death-queue"] == "work"


@pytest.mark.parametrize(("key", "keys"), [(None, [b"key", b"a", b"b"]), (b"dead", [b"dead"])])
def test_keys_in_cc_have_an_effect_until_a_rule_has_a_key(
    key: bytes | None, keys: list[bytes]
) -> None:
    chunk = chunk_of_one({Symbol("x-cc"): Array("string", ["a", "b"])})
    letter = bury(chunk, key=key)
    assert letter.routing_keys == keys
    found = annotations_of(letter.chunk)
    assert "x-cc" in found
    again = bury(letter.chunk, queue="second")
    assert again.routing_keys == keys
    [death] = deaths_10(found["x-opt-deaths"])
    assert death.routing_keys == ("key", "a", "b")


def test_consumers_of_0_9_1_see_the_history_as_x_death_and_back() -> None:
    letter = bury(chunk_of_one(header=Header(ttl=250)), "expired")
    shown = in_form_1(letter.chunk, 0, 1)
    [stored] = bodies_of(shown)
    exchange, key, properties, body = extract(stored, 0, len(stored))
    assert (exchange, key, body) == ("dlx", b"key", b"body")
    headers = decode_properties(properties).headers
    assert headers is not None
    [table] = deaths_091(headers["x-death"])
    assert table == Death(
        "work", "expired", 1, NOW_MS // 1000 * 1000, NOW_MS // 1000 * 1000, "ex", ("key",), 250
    )
    assert header_of([table]) == headers["x-death"]
    back = to_amqp10(stored, 0, len(stored)).annotations
    assert deaths_10(back["x-opt-deaths"]) == [table]
    assert "x-death" not in back


@pytest.mark.parametrize("value", [None, "text", [1, {"queue": 1}], {}, [{"queue": "q"}]])
def test_what_is_no_history_is_none(value: object) -> None:
    assert deaths_10(value) == []
    assert deaths_091(value) == []


def test_routing_sees_application_properties_annotations_and_ids() -> None:
    properties = Properties(message_id=UUID(int=7), correlation_id="c", creation_time=5_999)
    application = encode_value(Described(ULong(0x74), {"n": 5}))
    annotations = encode_value(Described(ULong(0x72), {Symbol("x-a"): True, Symbol("own"): 1}))
    message = store(annotations + properties.encoded() + application + b"\x00\x53\x75\xa0\x00")
    content = Content10(message, 0, len(message))
    assert content.headers() == {"n": 5, "x-a": True}
    assert content.text("correlation_id") == b"c"
    assert content.text("message_id") == str(UUID(int=7)).encode()
    assert content.text("timestamp") == b"5"
    bare = chunk_of_one().data
    assert bare is not None
    assert Content10(bare, 0, len(bare)).text("timestamp") == b""
