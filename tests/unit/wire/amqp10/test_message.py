"""Sections of a message found in place: every order, every wrong one, and single fields."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.amqp10.messages import (
    APPLICATION_PROPERTIES,
    BOUNDED,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    messages,
    section,
)
from warren.wire.amqp10.codec.message import (
    CORRELATION_ID,
    INFO_ANNOTATIONS,
    INFO_DURABLE,
    INFO_HEADERS,
    INFO_PRIORITY,
    INFO_REPLY_TO,
    INFO_TO,
    INFO_TTL,
    INFO_USER_ID,
    MAP_BYTES_MAX,
    MESSAGE_ID,
    SUBJECT,
    TO,
    Sections,
)
from warren.wire.amqp10.codec.performatives import Header, Properties
from warren.wire.amqp10.codec.reader import decode_value
from warren.wire.amqp10.codec.values import Described, Symbol, UInt, ULong
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.transfers import single

FULL = [
    Header(durable=True, priority=9, ttl=1000).encoded(),
    section(DELIVERY_ANNOTATIONS, {Symbol("x-d"): 1}),
    section(MESSAGE_ANNOTATIONS, {Symbol("x-m"): "v"}),
    Properties(message_id="id", user_id=b"u", to="/queues/q", reply_to="r").encoded(),
    section(APPLICATION_PROPERTIES, {"a": True}),
    section(DATA, b"one") + section(DATA, b"two"),
    section(FOOTER, {Symbol("x-f"): 1}),
]


def walked(data: bytes) -> Sections:
    sections = Sections()
    assert sections.walk(data, 0, len(data))
    return sections


def is_message(data: bytes) -> bool:
    """Whether it is one, wherever it lies."""
    alone = Sections().walk(data, 0, len(data))
    assert Sections().walk(b"\xff" + data + b"\xff", 1, len(data) + 1) == alone
    return alone


def parts(data: bytes, sections: Sections) -> list[bytes]:
    at = [
        sections.header_at,
        sections.delivery_annotations_at,
        sections.message_annotations_at,
        sections.bare_at,
        sections.application_properties_at,
        sections.body_at,
        sections.footer_at,
        sections.end,
    ]
    return [data[begin:end] for begin, end in itertools.pairwise(at)]


def test_all_sections_are_found_where_they_are() -> None:
    data = b"".join(FULL)
    sections = walked(data)
    assert parts(data, sections) == FULL
    assert sections.info == (
        INFO_DURABLE
        | INFO_PRIORITY
        | 9 << 8
        | INFO_TTL
        | INFO_ANNOTATIONS
        | INFO_USER_ID
        | INFO_TO
        | INFO_REPLY_TO
        | INFO_HEADERS
    )
    assert sections.body_data(data) == b"onetwo"


def test_any_sections_may_be_absent() -> None:
    for kept in itertools.product((True, False), repeat=len(FULL)):
        chosen = [part if keep else b"" for part, keep in zip(FULL, kept, strict=True)]
        data = b"".join(chosen)
        assert parts(data, walked(data)) == chosen


def test_sections_out_of_order_or_twice_are_no_message() -> None:
    for left, right in itertools.combinations(range(len(FULL)), 2):
        assert not is_message(FULL[right] + FULL[left])
    for place in (0, 1, 2, 3, 4, 6):
        assert not is_message(FULL[place] * 2)
    assert not is_message(section(VALUE, 1) * 2)
    assert not is_message(section(DATA, b"") + section(SEQUENCE, []))
    assert is_message(section(SEQUENCE, []) * 2)


def test_every_cut_is_no_message_but_at_the_end_of_a_section() -> None:
    data = b"".join(FULL)
    ends = {len(b"".join(FULL[:count])) for count in range(len(FULL) + 1)}
    ends.add(len(b"".join(FULL[:5]) + section(DATA, b"one")))
    assert {end for end in range(len(data) + 1) if is_message(data[:end])} == ends


@pytest.mark.parametrize(
    "wrong",
    [
        b"\x00",
        b"\x40\x40\x40\x40",
        b"\x00\x53\x79\x40",
        section(0x10, []),
        section(HEADER, {}),
        section(HEADER, [1]),
        section(HEADER, [None, UInt(4)]),
        section(HEADER, [None, None, 5]),
        section(MESSAGE_ANNOTATIONS, []),
        section(PROPERTIES, [Symbol("id")]),
        section(PROPERTIES, [[1]]),
        section(PROPERTIES, [None, "user"]),
        section(PROPERTIES, [None, None, Symbol("to")]),
        section(PROPERTIES, [None] * 6 + ["text/plain"]),
        section(PROPERTIES, [None] * 8 + [1]),
        section(PROPERTIES, [None] * 11 + ["1"]),
        section(DATA, "text"),
        section(SEQUENCE, {}),
        b"\x00\x53\x72\xc1\x04\x01\xa1\x01a",
        b"\x00\x53\x72\xc1\x04\x02\xa1\x01a",
        b"\x00\x53\x70\xc0\x02\x02\x41",
        b"\x00\x53\x73\xc0\x02\x02\x40",
        b"\x00\x53\x73\xc0\x03\x01\x40\x40",
        b"\x00\x53\x73\xd0\xff\xff\xff\xff\x00\x00\x00\x01\x40",
        b"\x00\x53\x75\xb0\xff\xff\xff\xff",
        b"\x00\x53\x70\xc0\x00",
        b"\x00\x53\x70\xd0\x00\x00\x00\x04\xff\xff\xff\xff",
    ],
)
def test_what_no_section_can_hold_is_no_message(wrong: bytes) -> None:
    assert not is_message(wrong)
    with pytest.raises(ProtocolError) as caught:
        single(0, 0, 0, 0, False, wrong)
    assert caught.value.condition == Condition.DECODE_ERROR
    assert caught.value.scope == Scope.LINK


def test_descriptors_may_be_symbols_or_wide() -> None:
    named = encode_value(Described(Symbol("amqp:header:list"), [True]))
    long_named = named.replace(b"\xa3\x10", b"\xb3\x00\x00\x00\x10")
    wide = b"\x00\x80" + (0x75).to_bytes(8, "big") + b"\xa0\x01x"
    for head in (named, long_named):
        sections = walked(head + wide)
        assert sections.info == INFO_DURABLE
        assert sections.header(head + wide).durable is True
        assert sections.body_data(head + wide) == b"x"


def test_a_map_may_be_large_but_not_without_end() -> None:
    entry = 2 + len(b"k" * 2) + 5
    largest = {"kk": bytes(MAP_BYTES_MAX - entry)}
    assert is_message(section(APPLICATION_PROPERTIES, largest))
    larger = {"kk": bytes(MAP_BYTES_MAX - entry + 1)}
    assert not is_message(section(APPLICATION_PROPERTIES, larger))


def test_an_empty_message_is_let_through() -> None:
    sections = walked(b"")
    assert (sections.info, sections.body_data(b"")) == (0, b"")
    assert sections.header(b"") == Header()
    assert sections.properties(b"") == Properties()
    assert (sections.annotations(b""), sections.application_properties(b"")) == ({}, {})


def test_single_properties_are_read_without_the_rest() -> None:
    data = FULL[0] + FULL[3] + FULL[5]
    sections = walked(data)
    found = [sections.property(data, place) for place in (MESSAGE_ID, TO, SUBJECT, CORRELATION_ID)]
    assert found == ["id", "/queues/q", None, None]
    assert sections.properties(data) == Properties(
        message_id="id", user_id=b"u", to="/queues/q", reply_to="r"
    )
    ulong = Properties(message_id=ULong(7)).encoded()
    assert type(walked(ulong).property(ulong, MESSAGE_ID)) is ULong


def test_a_body_that_is_no_data_is_none() -> None:
    data = section(VALUE, "text")
    assert walked(data).body_data(data) is None


@settings(BOUNDED)
@given(messages())
def test_what_is_found_in_place_is_what_decoding_finds(data: bytes) -> None:
    sections = walked(data)
    assert b"".join(parts(data, sections)) == data
    header = sections.header(data)
    properties = sections.properties(data)
    info = sections.info
    assert bool(info & INFO_DURABLE) == (header.durable is True)
    assert info & (INFO_PRIORITY | 0xFF00) == (
        0 if header.priority is None else INFO_PRIORITY | header.priority << 8
    )
    assert bool(info & INFO_TTL) == (header.ttl is not None)
    assert bool(info & INFO_TO) == (properties.to is not None)
    assert bool(info & INFO_USER_ID) == (properties.user_id is not None)
    assert bool(info & INFO_REPLY_TO) == (properties.reply_to is not None)
    assert sections.property(data, MESSAGE_ID) == properties.message_id


@settings(BOUNDED, max_examples=100)
@given(messages(), st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 255)), max_size=4))
def test_any_bytes_are_a_message_or_not(data: bytes, changes: list[tuple[int, int]]) -> None:
    """What is a message has sections that decode, or fail to as values do: no other error."""
    changed = bytearray(data)
    for place, octet in changes:
        if changed:
            changed[place % len(changed)] = octet
    sections = Sections()
    if sections.walk(bytes(changed), 0, len(changed)):
        sections.header(bytes(changed))
        for part in parts(bytes(changed), sections):
            try:
                decode_value(part)
            except ProtocolError as error:
                assert error.condition == Condition.DECODE_ERROR
