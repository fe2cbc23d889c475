"""Messages whose insides are damaged: what arrives is refused, but for keys that are there twice.

All that decodes stored ones runs inside a turn of the loop, where an error stops the node.
"""

from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Final
from uuid import UUID

import pytest

from federation.converting import Annotating, as_amqp091
from federation.converting import annotated as shovelled
from federation.republishing import Rewriting
from node.amqp091.deliveries import with_counts
from node.amqp091.delivery_ids import with_id
from node.amqp091.forms import NO_OFFSET
from node.amqp091.forms import Forms as Forms091
from node.amqp10.forms import TRACE, converted
from node.amqp10.forms import Forms as Forms10
from node.amqp10.links.stream_source import _annotate
from node.amqp10.special import _more_keys
from node.events.firehose import decoded, more_keys, properties_table, shown_in_form_1
from node.management.operations import shown_properties
from node.management.replies import json_reply
from node.operations.live_operations import got_message
from node.operations.message_filter import MessageFilter
from node.standby.labels import label_of
from node.streams.bodies import body_of
from queues.conversion.annotated import annotated, annotated_with_ingress
from queues.conversion.chunks import in_form_1, names_for
from queues.conversion.ingress_times import IngressTimes
from queues.conversion.offset_marks import OffsetMarks
from queues.conversion.values import dict_of, map_of
from queues.dead_lettering.dead_letters import DeadLetterRule, dead_letter
from queues.dead_lettering.dead_letters10 import dead_letter_10
from queues.definitions.arguments import comparable
from queues.hosts.message_digests import DUPLICATE_IDS, digests_of, groups_of
from queues.machine.annotations import encode_words
from queues.machine.traits import traits_of
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.routing.consistent_hash import as_bytes
from queues.routing.content import Content091
from queues.routing.content10 import Content10
from queues.selectors.message_fields import property_filter, selector_of
from queues.selectors.sql import APPLICATION, parse_sql
from queues.streams.filtering import filter_value, values_of
from tests.unit.wire.amqp10.messages import transfer
from warren.wire.amqp091 import values as v091
from warren.wire.amqp091.deliver import build, extract
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp091.properties import (
    EXPIRATION,
    BasicProperties,
    decode_properties,
    readable_properties,
    scan_properties,
    text_of,
)
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Header, Properties
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.codec.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Described,
    Float32,
    Int,
    Pairs,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
)
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.deliver import Heads
from warren.wire.amqp10.errors import Condition, Scope
from warren.wire.amqp10.errors import ProtocolError as AmqpError
from warren.wire.amqp10.transfers import TransferScanner, payload_at, single, store
from warren.wire.errors import ProtocolError

BODY: Final = b"\x00\x53\x75\xa0\x04body"
TELLING: Final = b"\x40\x41\x43\x45\xa1\xa3\xc0\xc1\xf0\xff\xe9\x73\x56\x00"
ROUNDS: Final = 40
NAMES: Final = names_for("ex", b"key")
WORDS: Final = encode_words({b"x-note": b"\xa1\x01n"})
RULE: Final = ("work", "dlx", None)
SELECTORS: Final = [
    selector_of([expression], lambda: 0)
    for expression in (
        parse_sql("n > 1 OR color LIKE 'r%' OR nested = 'x' OR properties.subject = 'a'"),
        parse_sql("JMSMessageID = 'a' OR JMSXUserID = 'b' OR JMSPriority + n > 1.5", jms=True),
        property_filter(APPLICATION, {"color": "&p:re", "n": 1, "array": "x"}),
        property_filter("properties", {"subject": "&s:x", "message-id": 1}),
    )
]
FILTER: Final = MessageFilter(
    death_queue="work", headers={"color": "red", "n": 7}, properties={"type": "t"}
)
DEATH: Final[dict[object, object]] = {
    Symbol("queue"): "work",
    Symbol("reason"): Symbol("expired"),
    Symbol("count"): ULong(1),
    Symbol("first-time"): Timestamp(1),
    Symbol("last-time"): Timestamp(2),
    Symbol("exchange"): "ex",
    Symbol("routing-keys"): Array("string", ["key"]),
    Symbol("ttl"): UInt(7),
}
NESTED: Final = [Char("x"), {"a": [True, None, 1.5, "é"]}, Array("uint", [UInt(1)]), UUID(int=3)]


def section(code: int, value: object) -> bytes:
    return encode_value(Described(ULong(code), value))


def some_message(random: Random) -> bytes:
    """A valid message of AMQP 1.0, with all kinds of sections and of values."""
    parts = []
    if random.random() < 0.7:
        parts.append(Header(durable=True, priority=3, ttl=50, delivery_count=1).encoded())
    if random.random() < 0.5:
        parts.append(section(0x71, {Symbol("x-opt-hop"): NESTED}))
    if random.random() < 0.7:
        annotations: dict[object, object] = {
            Symbol("x-cc"): ["one", "two"],
            Symbol("x-opt-deaths"): Array("map", [DEATH]),
            Symbol("x-stream-filter-value"): "red",
            Symbol("x-basic-type"): "kind",
            Symbol("x-stream-raw"): True,
            Symbol("x-opt-nested"): NESTED,
            Symbol("x-opt-standby"): "1.2.3.44",
            Symbol("x-last-death-queue"): "q",
            ULong(3): Decimal32(b"1234"),
        }
        parts.append(section(0x72, annotations))
    if random.random() < 0.8:
        identity = random.choice(["id", b"id", UUID(int=1), ULong(9), True, UInt(3)])
        properties = Properties(
            message_id=identity,
            user_id=b"guest",
            to="/queues/q",
            subject="subject é",
            reply_to="/queues/%C3%A9",
            correlation_id=random.choice([None, identity]),
            content_type="text/plain",
            content_encoding="gzip",
            creation_time=1_700_000_000_000,
            group_id="group",
            group_sequence=3,
        )
        parts.append(properties.encoded())
    if random.random() < 0.8:
        fields: dict[object, object] = {
            "color": "red", "n": 7, "i": Int(-3), "b": Byte(-3), "u": UByte(3), "f": Float32(0.5),
            "nested": "x", "array": Array("string", ["x"]), "_AMQ_DUPL_ID": "id",
            "JMSXGroupID": "g", "list": NESTED, "at": Timestamp(5), "bin": b"\x00",
            "char": Char("c"), "uuid": UUID(int=2),
        }  # fmt: skip
        parts.append(section(0x74, Pairs(fields.items()) if random.random() < 0.2 else fields))
    parts.append(
        random.choice([BODY, BODY * 2, section(0x77, NESTED), section(0x76, [1, "é"]), b""])
    )
    if random.random() < 0.2:
        parts.append(section(0x78, {Symbol("x-sum"): b"1"}))
    return b"".join(parts)


def damaged(random: Random, message: bytes) -> bytes:
    """Some bytes of it changed, at random or to what begins a value of another type."""
    changed = bytearray(message)
    for _ in range(random.choice([1, 1, 1, 2, 3, 5])):
        place = random.randrange(len(changed))
        some = (random.randrange(256), changed[place] ^ 0x80)
        changed[place] = random.choice([*TELLING, *some])
    return bytes(changed)


def chunk_of(tag: int, stored: bytes) -> Chunk:
    return Chunk(tag, stored, 0, bytes(4) + len(stored).to_bytes(4, "little"), 3, NAMES)


def read_headers(content: Content091 | Content10) -> None:
    for value in content.headers().values():
        comparable(value)
        as_bytes(value)
    for name in ("message_id", "correlation_id", "timestamp"):
        content.text(name)


def read_basic(properties: bytes) -> None:
    """What is done with properties and headers of AMQP 0-9-1."""
    basic = readable_properties(properties)
    basic.encode()
    encode_value(map_of(shown_properties(basic)))
    json_reply(shown_properties(basic))
    encode_table({"properties": properties_table(decoded(properties))})
    FILTER.matches("ex", b"key", basic)


def read_091(stored: bytes) -> None:
    """All that decodes a message of form 1, but for its conversion."""
    chunk, end = chunk_of(FORMAT_091, stored), len(stored)
    read_basic(extract(stored, 0, end)[2])
    read_headers(Content091(stored, 0))
    more_keys(stored, 0)
    label_of(FORMAT_091, stored)
    got_message(chunk, 0, False, 0)
    digests_of(chunk, DUPLICATE_IDS)
    groups_of(chunk)
    traits_of(chunk, True)
    filter_value(chunk, 0)
    values_of([chunk])
    Forms091().show(chunk, 0, 1, 5, 1 << 20)
    with_counts(stored, 0, end, 3)
    with_id(stored, 0, end, b"id")
    IngressTimes(lambda: 5, annotated_with_ingress).stamp(chunk)
    annotated(chunk, 0, WORDS)
    for selects in SELECTORS:
        assert selects is not None
        selects(chunk, 0)


def read_10(stored: bytes) -> None:
    """All that decodes a message of form 2, but for its conversion."""
    chunk, at, end = chunk_of(FORMAT_10, stored), int(payload_at(stored, 0)), len(stored)
    payload = stored[at:]
    sections = Sections()
    sections.find(stored, at, end)
    _more_keys(sections, stored)
    read_headers(Content10(stored, 0, end))
    label_of(FORMAT_10, stored)
    got_message(chunk, 0, False, 0)
    assert shown_in_form_1(chunk, 0) is not None
    digests_of(chunk, DUPLICATE_IDS)
    groups_of(chunk)
    traits_of(chunk, True)
    filter_value(chunk, 0)
    values_of([chunk])
    body_of(chunk, 0)
    Heads({"x-exchange": "ex"}).head(stored, at, end, 1, True)
    IngressTimes(lambda: 5, annotated_with_ingress).stamp(chunk)
    OffsetMarks(_annotate).mark(chunk, 0, 1, 7, 0)
    annotated(chunk, 0, WORDS)
    Forms091().show(chunk, 0, 1, NO_OFFSET, 1 << 20)
    Forms091().show(chunk, 0, 1, 5, 1 << 20)
    shovelled(payload, Annotating(added={"x-a": "b"}, stamped=True, scope="s"), 5)
    as_amqp091(payload, Rewriting(stamped=True, scope="s"), 5)
    as_amqp091(payload, Rewriting(exchange="ex", key=b"key"), 5)
    for selects in SELECTORS:
        assert selects is not None
        selects(chunk, 0)


def read_all_10(message: bytes) -> None:
    """Decode, convert and dead-letter it, and what comes of that."""
    stored = store(message)
    read_10(stored)
    shown = in_form_1(chunk_of(FORMAT_10, stored), 0, 1).data
    assert shown is not None
    read_091(shown)
    decode_properties(extract(shown, 0, len(shown))[2])
    chunk = chunk_of(FORMAT_10, stored)
    for _ in range(2):
        chunk = dead_letter_10(DeadLetterRule(*RULE), chunk, 0, "expired", 5000, 3).chunk
        assert chunk.data is not None
        read_10(chunk.data)


def read_all_091(stored: bytes) -> None:
    end = len(stored)
    read_091(stored)
    made = converted(stored, 0, end, "ex", b"key")
    converted(stored, 0, end, TRACE, b"key")
    assert Sections().walk(made, 0, len(made))
    read_10(store(made))
    Forms10().convert(chunk_of(FORMAT_091, stored), 0, 1, 1 << 20)
    letter = dead_letter(DeadLetterRule(*RULE), stored, 0, end, "expired", 5)
    read_091(letter.data)
    again = dead_letter(DeadLetterRule(*RULE), letter.data, 0, len(letter.data), "expired", 5)
    read_091(again.data)


# What RabbitMQ's clients cannot be made to send.
BAD_STRING: Final = b"\xa1\x04caf\xe9"
BAD_SYMBOL: Final = b"\xa3\x04caf\xe9"
BAD_VALUES: Final = {
    "string": BAD_STRING,
    "symbol": BAD_SYMBOL,
    "surrogate": b"\x73\x00\x00\xd8\x00",
    "char": b"\x73\x00\x11\x00\x00",
    "boolean": b"\x56\x02",
    "in a list": b"\xc0\x07\x01" + BAD_STRING,
    "unknown type": b"\xc0\x02\x01\x3f",
    "count": b"\xc0\x02\x09\x40",
    "nulls": b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
    "twice": b"\xc1\x0d\x04\xa1\x01a\xa1\x01b\xa1\x01a\xa1\x01b",
    "deep": b"".join(
        b"\xd0" + (9 * left + 5).to_bytes(4) + b"\x00\x00\x00\x01" for left in range(39, -1, -1)
    ) + b"\x40",
}  # fmt: skip


def map_section(code: int, *pieces: bytes) -> bytes:
    inside = b"".join(pieces)
    size = (len(inside) + 4).to_bytes(4)
    return b"\x00\x53" + bytes([code, 0xD1]) + size + len(pieces).to_bytes(4) + inside


def list_section(count: int, fields: bytes) -> bytes:
    return b"\x00\x53\x73\xc0" + bytes((len(fields) + 1, count)) + fields


GOOD: Final = (b"\xa1\x04good", b"\xa1\x03yes")
BAD_MESSAGES: Final = [
    *(
        pytest.param(map_section(code, *GOOD, key, value), id=f"{code:#x}-{name}")
        for code in (0x71, 0x72, 0x74)
        for name, bad in BAD_VALUES.items()
        for key, value in ((b"\xa1\x01k", bad), (bad, b"\x40"))
    ),
    *(
        pytest.param(map_section(code, *GOOD, *GOOD), id=f"{code:#x}-key twice")
        for code in (0x71, 0x72, 0x74)
    ),
    *(
        pytest.param(list_section(place + 1, fields), id=f"field {place}")
        for place in (0, 2, 3, 4, 5, 6, 7, 10, 12)
        for fields in (b"\x40" * place + (BAD_SYMBOL if place in (6, 7) else BAD_STRING),)
    ),
    pytest.param(b"\x00\x53\x73\xc0\x03\x01\x56\x02", id="boolean id"),
]  # fmt: skip


@pytest.mark.parametrize("sections", BAD_MESSAGES)
def test_what_cannot_be_decoded_is_left_out(sections: bytes) -> None:
    message = sections + BODY
    assert Sections().walk(message, 0, len(message))
    read_all_10(message)
    shown = in_form_1(chunk_of(FORMAT_10, store(message)), 0, 1).data
    assert shown is not None
    _, _, properties, body = extract(shown, 0, len(shown))
    assert body == b"body"
    headers = decode_properties(properties).headers or {}
    assert headers.get("good") == ("yes" if sections[2] == 0x74 else None)


def why_not(message: bytes, start: int, end: int) -> str:
    """What the strict decoder says of a section."""
    try:
        if start < end:
            Reader(message, start, end).value()
    except AmqpError as error:
        return error.text
    return ""


def can_arrive(message: bytes) -> bool:
    """Whether it is taken, as an ordinary frame and by itself."""
    try:
        single(0, 0, 0, 0, False, message)
    except AmqpError as error:
        assert (error.condition, error.scope) == (Condition.DECODE_ERROR, Scope.LINK)
        taken = False
    else:
        taken = True
    run = TransferScanner(1 << 20).scan(transfer(message, 1), 0, 0)
    assert (run is not None) == taken
    return taken


@pytest.mark.parametrize("sections", BAD_MESSAGES)
def test_what_cannot_be_decoded_does_not_arrive(sections: bytes) -> None:
    if b"a\xa1\x01b\xa1\x01a" in sections or sections.count(GOOD[0]) == 2:
        pytest.skip("keys that are there twice are not looked for")
    assert not can_arrive(sections + BODY)


@pytest.mark.parametrize("seed", range(8))
def test_what_arrives_can_be_decoded(seed: int) -> None:
    random = Random(seed)
    verdicts = [0, 0]
    for _ in range(10 * ROUNDS):
        message = damaged(random, some_message(random))
        sections = Sections()
        if not sections.walk(message, 0, len(message)):
            assert not can_arrive(message)
            continue
        places = (
            sections.delivery_annotations_at,
            sections.message_annotations_at,
            sections.bare_at,
            sections.application_properties_at,
            sections.body_at,
        )
        faults = {why_not(message, *each) for each in pairwise(places)} - {""}
        if faults != {"a map has the same key twice"}:  # It may be at the top or inside.
            assert can_arrive(message) == (not faults)
            verdicts[not faults] += 1
    assert min(verdicts) > 10


def test_a_good_message_arrives() -> None:
    random = Random(1)
    assert all(can_arrive(some_message(random)) for _ in range(ROUNDS))


def test_a_property_that_cannot_be_read_does_not_take_others_with_it() -> None:
    fields = b"\xa1\x02id\x40\x40" + BAD_STRING + b"\x40\x40\xa3\x04text"
    message = b"\x00\x53\x73\xc0" + bytes((len(fields) + 1, 7)) + fields + BODY
    sections = Sections()
    assert sections.walk(message, 0, len(message))
    found = sections.properties(message)
    assert (found.message_id, found.subject, found.content_type) == ("id", None, "text")
    assert sections.property(message, 3) is None


def test_of_entries_with_the_same_key_the_first_counts() -> None:
    message = map_section(0x74, b"\xa1\x01k", b"\x41", b"\xa1\x01k", b"\x42", *GOOD) + BODY
    sections = Sections()
    assert sections.walk(message, 0, len(message))
    assert sections.application_properties(message) == {"k": True, "good": "yes"}


def test_bytes_that_are_no_message_become_the_body() -> None:
    for message in (
        b"",
        b"\xff\xff",
        b"\x00\x53\x72\x40",
        BODY + BODY[:-1],
        b"\x00\x53\x74" + BODY,
    ):
        read_all_10(message)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_messages_of_amqp_10_can_be_decoded_by_all(seed: int) -> None:
    random = Random(seed)
    taken = 0
    while taken < ROUNDS:
        message = damaged(random, some_message(random))
        if Sections().walk(message, 0, len(message)):
            taken += 1
            try:
                read_all_10(message)
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {message!r}") from error


@pytest.mark.parametrize("seed", range(4))
def test_damaged_messages_of_amqp_091_can_be_decoded_by_all(seed: int) -> None:
    random = Random(seed)
    taken = 0
    while taken < ROUNDS:
        properties = damaged(random, some_properties(random))
        if scan_properties(properties, 0, len(properties)) >= 0 and has_sane_expiration(properties):
            taken += 1
            try:
                read_all_091(build("ex", b"key", properties, BODY))
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {properties!r}") from error


def has_sane_expiration(properties: bytes) -> bool:
    """It is checked when a message is published."""
    text = text_of(build("ex", b"key", properties, b""), 0, EXPIRATION)
    return text is None or text.isdigit()


def some_properties(random: Random) -> bytes:
    """Valid properties of AMQP 0-9-1, with all kinds of values."""
    death: dict[str, object] = {
        "count": v091.Int64(1), "reason": "expired", "queue": "work", "time": v091.Timestamp(3),
        "exchange": "ex", "routing-keys": ["key"], "original-expiration": "50",
    }  # fmt: skip
    headers: dict[str, object] = {
        "color": "red", "n": 7, "x-death": [death], "CC": ["one"], "BCC": ["two"], "none": None,
        "é": bytearray(b"x"), "d": Decimal("1.5"), "f": 1.5, "g": v091.Float32(0.5),
        "u": v091.UInt32(7), "nested": {"a": [1, {"b": True}, "é"]}, "x-stream-filter-value": "red",
        "_AMQ_DUPL_ID": "id", "JMSXGroupID": "g", "x-first-death-queue": "work", "big": 1 << 60,
        "x-opt-standby": "1.2.3.44", "at": v091.Timestamp(9),
    }  # fmt: skip
    return BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        headers=headers if random.random() < 0.8 else None,
        delivery_mode=2,
        priority=3,
        correlation_id="urn:uuid:00000000-0000-0000-0000-000000000007",
        reply_to="reply",
        expiration="50" if random.random() < 0.5 else None,
        message_id=random.choice(["id", "urn:uuid:7"]),
        timestamp=17,
        type=random.choice(["type", "amqp-1.0"]),
        user_id="guest",
        app_id="app",
        cluster_id=None,
    ).encode()


BAD_TEXT: Final = "caf\udce9"


@pytest.mark.parametrize(
    "basic",
    [
        BasicProperties(type=BAD_TEXT),
        BasicProperties(message_id="urn:uuid:" + BAD_TEXT, correlation_id=BAD_TEXT),
        BasicProperties(content_type=BAD_TEXT, content_encoding=BAD_TEXT, app_id=BAD_TEXT),
        BasicProperties(user_id=BAD_TEXT, reply_to=BAD_TEXT, expiration=None, cluster_id=BAD_TEXT),
        BasicProperties(timestamp=(1 << 64) - 1),
        BasicProperties(headers={BAD_TEXT: {BAD_TEXT: b"caf\xe9"}}),
        BasicProperties(headers={"x-" + BAD_TEXT: 1, "x-death": [{"queue": "q", "reason": "é",
                        "count": -1, "time": v091.Timestamp(1 << 63), "exchange": "e"}]}),
        BasicProperties(headers={"x-death": [{"queue": "q", "reason": "rejected", "count": 1,
                        "original-expiration": "7" * 5000, "routing-keys": [1, None]}]}),
    ],
)  # fmt: skip
def test_properties_of_amqp_091_that_are_no_text_reach_all(basic: BasicProperties) -> None:
    read_all_091(build("ex", b"key", basic.encode(), b"body"))


def test_a_type_that_is_no_text_is_binary_in_amqp_10() -> None:
    stored = build("ex", b"key", BasicProperties(type=BAD_TEXT).encode(), b"body")
    made = converted(stored, 0, len(stored), "ex", b"key")
    sections = Sections()
    assert sections.walk(made, 0, len(made))
    assert dict_of(sections.annotations(made))[Symbol("x-basic-type")] == b"caf\xe9"


def test_headers_that_can_be_read_survive_those_that_cannot() -> None:
    table = b"\x01aI\x00\x00\x00\x07" + b"\x01bF\x00\x00\x00\x02\x01?" + b"\x01ct\x01"
    properties = b"\x20\x20" + len(table).to_bytes(4) + table + b"\x04type"
    found = readable_properties(properties)
    assert (found.headers, found.type) == ({"a": 7, "c": True}, "type")
    content = Content091(build("ex", b"key", properties, b""), 0)
    assert content.headers() == {"a": 7, "c": True}
    with pytest.raises(ProtocolError):
        Content091(build("ex", b"key", properties, b""), 0, is_arriving=True).headers()
