"""Messages of AMQP 1.0 as AMQP 0-9-1 and back."""

import math
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.conversion.to_amqp091 import to_amqp091
from queues.conversion.to_amqp10 import structured_headers, to_amqp10
from queues.conversion.values import DROPPED, to_091, to_10
from warren.wire.amqp091 import values as v091
from warren.wire.amqp091.deliver import build, extract
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.amqp10.codec import values as v10
from warren.wire.amqp10.codec.descriptors import MESSAGE_ANNOTATIONS
from warren.wire.amqp10.codec.message import Sections, fail_sections
from warren.wire.amqp10.codec.performatives import Header, Properties
from warren.wire.amqp10.codec.writer import encode_value

SOME_UUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def section(code: int, value: object) -> bytes:
    """One section whose content is a plain value."""
    return encode_value(v10.Described(v10.ULong(code), value))


def data(body: bytes) -> bytes:
    return section(0x75, body)


def basic_of(message: bytes) -> tuple[BasicProperties, bytes]:
    """Properties and body of a 1.0 message, as 0-9-1."""
    stored = to_amqp091(message, 0, len(message), "x", b"key")
    exchange, key, properties, body = extract(stored, 0, len(stored))
    assert (exchange, key) == ("x", b"key")
    return decode_properties(properties), body


class Found:
    """The sections of a message, decoded."""

    def __init__(self, message: bytes) -> None:
        sections = Sections()
        if not sections.walk(message, 0, len(message)):
            fail_sections(sections)
        self.properties = sections.properties(message)
        self.annotations = sections.annotations(message)
        self.application_properties = sections.application_properties(message)


def message10(basic: BasicProperties, body: bytes = b"body") -> tuple[Header, Found, bytes]:
    """Header, sections behind it and bare message of a 0-9-1 message, as 1.0."""
    stored = build("x", b"key", basic.encode(), body)
    found = to_amqp10(stored, 0, len(stored))
    whole = section(MESSAGE_ANNOTATIONS, found.annotations) + found.bare
    return found.header, Found(whole), found.bare


def test_a_bare_body_becomes_a_transient_message_without_properties() -> None:
    basic, body = basic_of(data(b"hello"))
    assert body == b"hello"
    assert basic == BasicProperties(delivery_mode=1)


def test_tables_and_arrays_among_headers_become_annotations() -> None:
    headers: dict[str, object] = {
        "routed_queues": ["a", "b"],
        "properties": {"message_id": "m", "headers": {"x-death": [{"count": 1}]}},
        "node": "n1",
        "x-death": [{"count": 2}],
        "CC": ["k"],
        "nöt": [1],
    }
    stored = build("x", b"key", BasicProperties(headers=headers).encode(), b"body")
    assert structured_headers(stored, 0, len(stored)) == {
        "x-routed-queues": ["a", "b"],
        "x-properties": {"message_id": "m", "headers": {"x-death": [{"count": 1}]}},
    }
    plain = build("x", b"key", BasicProperties().encode(), b"body")
    assert structured_headers(plain, 0, len(plain)) == {}


def test_header_and_properties_find_their_places() -> None:
    properties = Properties(
        message_id=SOME_UUID,
        user_id=b"guest",
        to="/queues/q",
        subject="dropped",
        reply_to="/queues/an%20answer",
        correlation_id=v10.ULong(7),
        content_type="text/plain",
        content_encoding="gzip",
        absolute_expiry_time=5,
        creation_time=1_700_000_000_999,
        group_id="group",
    )
    header = Header(durable=True, priority=9, ttl=60_000)
    basic, _ = basic_of(header.encoded() + properties.encoded() + data(b""))
    assert basic == BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        delivery_mode=2,
        priority=9,
        correlation_id="7",
        reply_to="an answer",
        expiration="60000",
        message_id=f"urn:uuid:{SOME_UUID}",
        timestamp=1_700_000_000,
        user_id="guest",
        app_id="group",
    )


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b"\xff\x00", {"x-message-id": bytearray(b"\xff\x00")}),
        ("e" * 256, {"x-message-id": "e" * 256}),
    ],
)
def test_a_message_id_that_is_no_short_string_becomes_a_header(
    value: object, headers: dict[str, object]
) -> None:
    basic, _ = basic_of(Properties(message_id=value).encoded() + data(b""))
    assert basic.message_id is None
    assert basic.headers == headers


def test_application_properties_and_x_annotations_become_headers() -> None:
    annotations = {
        v10.Symbol("x-cc"): ["a", "b"],
        v10.Symbol("x-opt-own"): v10.UInt(3),
        v10.Symbol("not-ours"): True,
        v10.Symbol("x-basic-type"): "order",
    }
    application = {"n": 5, "d": v10.Decimal32(b"1234"), "nan": math.nan, "s": v10.Symbol("sym")}
    message = section(0x72, annotations) + section(0x74, application) + data(b"")
    basic, _ = basic_of(message)
    assert basic.headers == {"n": 5, "s": "sym", "CC": ["a", "b"], "x-opt-own": 3}
    assert basic.type == "order"


@pytest.mark.parametrize(
    "body",
    [
        data(b"one") + data(b"two"),
        section(0x77, {"amqp": "value"}),
        section(0x76, [1, 2]) + section(0x76, [3]),
    ],
)
def test_a_body_that_is_not_one_data_section_travels_encoded_and_back(body: bytes) -> None:
    basic, payload = basic_of(Header(durable=True).encoded() + body + section(0x78, {}))
    assert basic.type == "amqp-1.0"
    assert payload == body
    _, _, bare = message10(basic, payload)
    assert bare == Properties().encoded() + body


def test_a_type_that_lies_about_its_body_is_kept_as_an_annotation() -> None:
    _, sections, bare = message10(BasicProperties(type="amqp-1.0"), b"no sections")
    assert bare.endswith(data(b"no sections"))
    assert sections.annotations == {"x-basic-type": "amqp-1.0"}


def test_properties_of_0_9_1_find_their_places() -> None:
    basic = BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        headers={
            "x-own": 1,
            "CC": ["a"],
            "BCC": ["hidden"],
            "n": v091.Int64(5),
            "table": {"dropped": True},
            "array": [1],
            "price": Decimal("1.5"),
        },
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="an answer/ü",
        expiration="1000",
        message_id=f"urn:uuid:{SOME_UUID}",
        timestamp=v091.Timestamp(1_700_000_000),
        type="order",
        user_id="guest",
        app_id="app",
    )
    header, sections, _ = message10(basic)
    assert header == Header(durable=True, priority=3, ttl=1000)
    assert sections.properties == Properties(
        message_id=SOME_UUID,
        user_id=b"guest",
        reply_to="/queues/an%20answer%2F%C3%BC",
        correlation_id="c",
        content_type="text/plain",
        content_encoding="gzip",
        creation_time=1_700_000_000_000,
        group_id="app",
    )
    annotations = {"x-own": 1, "x-cc": ["a"], "x-basic-type": "order"}
    assert sections.annotations == annotations
    assert sections.application_properties == {"n": 5}


@pytest.mark.parametrize(
    ("text", "ttl"),
    [("0", 0), ("99999999999", 0xFFFFFFFF), ("soon", None), ("٣", None), ("", None)],
)
def test_an_expiration_that_is_no_number_is_no_ttl(text: str, ttl: int | None) -> None:
    header, _, _ = message10(BasicProperties(expiration=text))
    assert header.ttl == ttl


@pytest.mark.parametrize("text", ["urn:uuid:nonsense", "urn:uuid:"])
def test_a_message_id_that_only_looks_like_a_uuid_stays_text(text: str) -> None:
    _, sections, _ = message10(BasicProperties(message_id=text))
    assert sections.properties.message_id == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (v10.ULong(1 << 63), "9223372036854775808"),
        (v10.ULong(5), v091.Int64(5)),
        (v10.Timestamp(-1), DROPPED),
        (v10.Float32(math.inf), DROPPED),
        (v10.Described("d", 1), DROPPED),
        (v10.Array("uint", [v10.UInt(1)]), [v091.UInt32(1)]),
        (v10.Array("uint", [v10.UInt(1)], ("d",)), DROPPED),
        (v10.Pairs(((1, "dropped"), ("kept", None))), {"kept": None}),
        ({"k" * 256: 1}, {}),
        ([v10.Decimal64(b"12345678"), True], [True]),
    ],
)
def test_what_0_9_1_cannot_say_is_dropped_or_told_otherwise(one: object, other: object) -> None:
    converted = to_091(one)
    assert converted == other
    assert type(converted) is type(other)


@pytest.mark.parametrize(
    "message",
    [
        b"\x00",
        section(0x75, b"body") + section(0x73, []),
        section(0x77, 1) + section(0x75, b""),
        section(0x77, 1) + section(0x77, 1),
        section(0x10, []),
        b"\x00\x53\x75\xa0\x05abc",
        b"no section",
    ],
)
def test_what_is_no_row_of_sections_is_all_body(message: bytes) -> None:
    basic, body = basic_of(message)
    assert (basic.type, basic.headers, body) == ("amqp-1.0", None, message)


NAMES = st.text(min_size=1, max_size=20).filter(lambda name: not name.startswith("x-"))
SCALARS = st.one_of(
    st.booleans(),
    st.text(max_size=20),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(0, 255).map(v091.UInt8),
    st.integers(0, 65535).map(v091.UInt16),
    st.integers(0, (1 << 32) - 1).map(v091.UInt32),
    st.integers(-128, 127).map(v091.Int8),
    st.integers(-(1 << 15), (1 << 15) - 1).map(v091.Int16),
    st.integers(1 << 31, (1 << 63) - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.binary(max_size=20).map(bytearray),
    st.integers(0, 1 << 40).map(v091.Timestamp),
    st.none(),
)


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)))
def test_a_value_of_0_9_1_comes_back_from_1_0_as_it_was(value: object) -> None:
    there = to_10(value)
    assert encode_value(there)
    assert encode_table({"v": to_091(there)}) == encode_table({"v": value})  # Kinds, too.


@given(
    st.dictionaries(NAMES.filter(lambda name: name not in ("CC", "BCC")), SCALARS, max_size=5),
    st.binary(max_size=50),
    st.booleans(),
)
def test_headers_and_body_come_back_from_1_0_as_they_were(
    headers: dict[str, object], body: bytes, durable: bool
) -> None:
    mode = 2 if durable else 1
    basic = BasicProperties(headers=headers or None, delivery_mode=mode)
    stored = build("x", b"key", basic.encode(), body)
    found = to_amqp10(stored, 0, len(stored))
    whole = found.header.encoded() + found.bare
    back, same = basic_of(whole)
    assert same == body
    assert back.delivery_mode == mode
    assert (back.headers or {}) == headers
