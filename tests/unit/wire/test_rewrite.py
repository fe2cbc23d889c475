"""Stored messages with other names, headers and properties: what is asked for, and no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.frames import BOUNDED, message, split_frames
from tests.unit.wire.test_fields import tables
from tests.unit.wire.test_properties import NAMES, all_properties
from warren.wire.amqp091 import properties, rewrite
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.fields import decode_table, encode_table
from warren.wire.amqp091.methods import BasicPublish, decode_method
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.errors import ProtocolError

FLAGS = {name: 0x8000 >> place for place, name in enumerate(NAMES)}

names = st.none() | st.binary(max_size=255)
bodies = st.binary(max_size=100)
dropped = st.sets(st.sampled_from(NAMES), max_size=5)


def table(**entries: object) -> bytes:
    return encode_table(dict(entries))[4:]


def rewritten(
    data: bytes,
    exchange: bytes | None = None,
    routing_key: bytes | None = None,
    headers: bytes | None = None,
    drop: int = 0,
    reply_to: bytes | None = None,
) -> bytes:
    """`rewrite` of all of `data`, which lies between other bytes."""
    padded = b"##" + data + b"###"
    end = 2 + len(data)
    return rewrite.rewrite(padded, 2, end, exchange, routing_key, headers, drop, reply_to)


@BOUNDED
@given(all_properties, bodies, st.sampled_from(["", "x"]))
def test_nothing_asked_for_is_nothing_changed(
    one: BasicProperties, body: bytes, exchange: str
) -> None:
    data = message(3, body, b"key", one, exchange, True, 40)
    assert rewritten(data) == data
    assert rewritten(data, exchange.encode(), b"key") == data
    headers = rewrite.raw_headers(data, 0)
    if one.headers is not None:
        assert rewritten(data, headers=headers) == data


@BOUNDED
@given(all_properties, bodies, names, st.none() | tables, dropped, st.none() | st.text(max_size=60))
def test_what_is_asked_for_is_changed_and_the_rest_stays(
    one: BasicProperties,
    body: bytes,
    routing_key: bytes | None,
    headers: dict[str, object] | None,
    drop: set[str],
    reply_to: str | None,
) -> None:
    data = message(3, body, b"key", one, "from", body_frame_bytes=40)
    encoded = None if headers is None else encode_table(headers)[4:]
    answer = None if reply_to is None else reply_to.encode()
    flags = sum(FLAGS[name] for name in drop)
    result = rewritten(data, b"to", routing_key, encoded, flags, answer)
    exchange, key, values, same_body = extract(result, 0, len(result))
    assert (exchange, same_body) == ("to", body)
    assert key == (b"key" if routing_key is None else routing_key)
    for name in drop:
        setattr(one, name, None)
    one.headers = one.headers if headers is None else headers
    one.reply_to = one.reply_to if reply_to is None else reply_to
    assert values == one.encode()
    assert split_frames(result)[2:] == split_frames(data)[2:]


def test_a_name_alone_leaves_the_content_as_it_is() -> None:
    one = BasicProperties(delivery_mode=2, headers={"a": 1})
    data = message(9, b"body", b"key", one, "from", mandatory=True)
    for exchange, key, expected in (
        (b"to", None, BasicPublish("to", b"key", True)),
        (None, b"other", BasicPublish("from", b"other", True)),
        (b"", b"", BasicPublish("", b"", True)),
    ):
        frames = split_frames(rewritten(data, exchange, key))
        assert decode_method(frames[0][2]) == expected
        assert frames[1:] == split_frames(data)[1:]
        assert {channel for _, channel, _ in frames} == {9}


def test_frame_sizes_that_need_more_than_one_byte_are_right() -> None:
    data = message(1, b"body", b"k")
    result = rewritten(data, b"e" * 255, b"k" * 255, table(long="v" * 70_000), 0, b"r" * 255)
    method, header, body = split_frames(result)
    assert decode_method(method[2]) == BasicPublish("e" * 255, b"k" * 255)
    found = decode_properties(header[2][12:])
    assert found == BasicProperties(headers={"long": "v" * 70_000}, reply_to="r" * 255)
    assert body[2] == b"body"


def test_what_is_given_stays_even_if_it_is_to_be_dropped() -> None:
    data = message(1, b"", properties=BasicProperties(headers={"a": 1}, reply_to="old"))
    drop = properties.HEADERS | properties.REPLY_TO
    kept = rewritten(data, headers=table(b=2), drop=drop, reply_to=b"new")
    found = decode_properties(extract(kept, 0, len(kept))[2])
    assert found == BasicProperties(headers={"b": 2}, reply_to="new")
    gone = rewritten(data, drop=drop)
    assert extract(gone, 0, len(gone))[2] == b"\x00\x00"


@BOUNDED
@given(all_properties, bodies)
def test_a_timestamp_is_set_and_the_rest_stays(one: BasicProperties, body: bytes) -> None:
    data = message(3, body, b"key", one, "from", body_frame_bytes=40)
    result = rewrite.rewrite(data, 0, len(data), None, None, None, 0, None, 1_800_000_000)
    exchange, key, values, same_body = extract(result, 0, len(result))
    one.timestamp = 1_800_000_000
    assert (exchange, key, values, same_body) == ("from", b"key", one.encode(), body)


def test_an_empty_table_is_a_table() -> None:
    data = message(1, b"", properties=BasicProperties(headers={"a": 1}))
    result = rewritten(data, headers=b"")
    assert decode_properties(extract(result, 0, len(result))[2]).headers == {}


@pytest.mark.parametrize("place", [0, 1, 4])
def test_a_name_that_is_too_long_is_refused(place: int) -> None:
    given: list[bytes | None] = [None] * 5
    given[place] = b"n" * 256
    with pytest.raises(ValueError, match="at most 255 bytes"):
        rewritten(message(1, b""), given[0], given[1], None, 0, given[4])


@BOUNDED
@given(all_properties, st.binary(max_size=5))
def test_raw_headers_are_the_bytes_of_the_table(one: BasicProperties, body: bytes) -> None:
    data = b"ab" + message(1, body, properties=one) + b"c"
    raw = rewrite.raw_headers(data, 2)
    assert raw == (b"" if one.headers is None else encode_table(one.headers)[4:])


@BOUNDED
@given(tables, st.data())
def test_keys_cut_out_leave_the_others_as_they_were(
    headers: dict[str, object], data: st.DataObject
) -> None:
    gone = data.draw(st.sets(st.sampled_from([*headers, "CC"])))
    cut = rewrite.without_keys(table(**headers), tuple(name.encode() for name in gone))
    expected = {name: value for name, value in headers.items() if name not in gone}
    assert cut == encode_table(expected)[4:]


@BOUNDED
@given(tables)
def test_every_kind_of_value_is_found_and_stepped_over(headers: dict[str, object]) -> None:
    raw = table(**headers)
    for name, value in headers.items():
        assert rewrite.value_of(raw, name.encode()) == (True, value)
    assert rewrite.value_of(raw, b"not there" * 5) == (False, None)


def test_the_first_of_two_entries_is_found_and_both_are_cut() -> None:
    raw = table(CC=1) + table(a=2) + table(CC=3)
    assert rewrite.value_of(raw, b"CC") == (True, 1)
    assert rewrite.without_keys(raw, (b"CC",)) == table(a=2)
    assert rewrite.without_keys(raw, (b"CC", b"a")) == b""


def test_where_no_key_is_found_the_table_is_the_same_object() -> None:
    raw = table(a=1, b=[1, {"CC": 2}])
    assert rewrite.without_keys(raw, (b"CC", b"BCC")) is raw


@pytest.mark.parametrize("kind", [b"q", b"\x00"])
def test_an_unknown_kind_of_value_is_malformed(kind: bytes) -> None:
    raw = b"\x01a" + kind + b"\x00" * 8
    with pytest.raises(ProtocolError, match="FRAME_ERROR"):
        rewrite.without_keys(raw, (b"CC",))


@BOUNDED
@given(tables.filter(bool), st.data())
def test_a_table_cut_within_an_entry_is_malformed(
    headers: dict[str, object], data: st.DataObject
) -> None:
    raw = table(**headers)
    name = list(headers)[-1]
    last = len(table(**{name: headers[name]}))
    cut = raw[: -data.draw(st.integers(1, last - 1))]
    with pytest.raises(ProtocolError, match="FRAME_ERROR"):
        rewrite.without_keys(cut, (b"CC",))


def test_a_key_inside_another_value_is_not_the_message_s_own() -> None:
    nested = table(outer={"BCC": ["x"]}, text="\x03BCCA")
    assert rewrite.value_of(nested, b"BCC") == (False, None)
    assert decode_table(encode_table({"outer": {"BCC": ["x"]}, "text": "\x03BCCA"})) == {
        "outer": {"BCC": ["x"]},
        "text": "\x03BCCA",
    }
