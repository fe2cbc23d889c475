"""Content properties: round trips, single ones found in place, and pamqp as a second opinion."""

import datetime

import pamqp.commands
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.frames import BOUNDED, message
from tests.unit.wire.test_fields import tables
from warren.wire.amqp091 import properties
from warren.wire.amqp091.events import (
    INFO_EXPIRATION,
    INFO_HEADERS,
    INFO_PERSISTENT,
    INFO_REPLY_TO,
    INFO_USER_ID,
)
from warren.wire.amqp091.properties import BasicProperties, decode_properties, scan_properties
from warren.wire.errors import ProtocolError

texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
octets = st.none() | st.integers(0, 255)
all_properties = st.builds(
    BasicProperties,
    content_type=texts,
    content_encoding=texts,
    headers=st.none() | tables,
    delivery_mode=octets,
    priority=octets,
    correlation_id=texts,
    reply_to=texts,
    expiration=texts,
    message_id=texts,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type=texts,
    user_id=texts,
    app_id=texts,
    cluster_id=texts,
)
NAMES = (
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority"),
    *("correlation_id", "reply_to", "expiration", "message_id", "timestamp"),
    *("type", "user_id", "app_id", "cluster_id"),
)


@BOUNDED
@given(all_properties)
def test_decode_undoes_encode(one: BasicProperties) -> None:
    again = decode_properties(one.encode())
    assert again == one
    for name in NAMES:
        assert getattr(again, name) == getattr(one, name)


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


@BOUNDED
@given(all_properties, st.binary(max_size=5))
def test_one_property_is_found_without_decoding_the_rest(one: BasicProperties, body: bytes) -> None:
    data = b"before" + message(1, body, properties=one) + b"after"
    assert properties.headers_of(data, 6) == one.headers
    assert properties.delivery_mode_of(data, 6) == one.delivery_mode
    assert properties.priority_of(data, 6) == one.priority
    assert properties.expiration_of(data, 6) == encoded(one.expiration)
    assert properties.user_id_of(data, 6) == encoded(one.user_id)
    assert properties.reply_to_of(data, 6) == encoded(one.reply_to)
    assert properties.text_of(data, 6, properties.CLUSTER_ID) == encoded(one.cluster_id)


@BOUNDED
@given(all_properties)
def test_the_scan_finds_what_routing_asks_for(one: BasicProperties) -> None:
    data = one.encode()
    info = scan_properties(data, 0, len(data))
    assert info & INFO_PERSISTENT != 0 or one.delivery_mode != 2
    assert info & INFO_PERSISTENT == 0 or one.delivery_mode == 2
    assert (info & INFO_HEADERS != 0) == (one.headers is not None)
    assert (info & INFO_EXPIRATION != 0) == (one.expiration is not None)
    assert (info & INFO_USER_ID != 0) == (one.user_id is not None)
    assert (info & INFO_REPLY_TO != 0) == (one.reply_to is not None)
    assert info >> 8 == (one.priority or 0)


@BOUNDED
@given(all_properties, st.data())
def test_a_cut_or_a_tail_is_malformed(one: BasicProperties, data: st.DataObject) -> None:
    whole = one.encode()
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert scan_properties(whole[:cut], 0, cut) == -1
    assert scan_properties(whole + b"\x00", 0, len(whole) + 1) == -1
    with pytest.raises(ProtocolError, match="FRAME_ERROR"):
        decode_properties(whole[:cut])


@BOUNDED
@given(st.binary(max_size=80))
def test_any_bytes_scan_within_their_bounds(data: bytes) -> None:
    assert scan_properties(data, 0, len(data)) >= -1


def test_a_second_word_of_flags_is_malformed() -> None:
    assert scan_properties(b"\x00\x01\x00\x00", 0, 4) == -1
    assert scan_properties(b"\x00\x01", 0, 2) == -1


def test_a_headers_table_is_read_no_further_than_its_length() -> None:
    one = BasicProperties(headers={"k": "v"}, user_id="guest")
    data = message(1, b"", properties=one).replace(b"\x00\x00\x00\x01v", b"\x00\x00\x00\x02v")
    with pytest.raises(ProtocolError, match="FRAME_ERROR"):
        properties.headers_of(data, 0)


def test_pamqp_reads_our_properties_and_we_read_its() -> None:
    when = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    fields: dict[str, object] = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "headers": {"a": 1, "b": ["c", True]},
        "delivery_mode": 2,
        "priority": 9,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "message_type": "t",
        "user_id": "guest",
        "app_id": "a",
    }
    theirs = pamqp.commands.Basic.Properties(timestamp=when, **fields)  # type: ignore[arg-type]
    ours = decode_properties(theirs.marshal())
    renamed = fields | {"message_type": ours.type}
    assert {name: getattr(ours, name, ours.type) for name in fields} == renamed
    assert ours.type == "t"
    assert ours.timestamp == int(when.timestamp())
    again = pamqp.commands.Basic.Properties()
    again.unmarshal(int.from_bytes(ours.encode()[:2], "big"), ours.encode()[2:])
    assert {name: getattr(again, name) for name in fields} == fields
    assert again.timestamp == when
