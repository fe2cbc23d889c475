"""A delivery goes on with one header more, and else byte for byte."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.wire.amqp091.deliver import build, extract
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp091.forward import forwarded
from warren.wire.amqp091.methods import BasicDeliver
from warren.wire.amqp091.properties import BasicProperties, decode_properties

ENTRY = encode_table({"x-received-from": [{"redelivered": False}]})[4:]
AGAIN = encode_table({"x-received-from": [{"redelivered": True}]})[4:]
TEXTS = st.text(max_size=20)
HEADERS = st.dictionaries(st.text("abc", min_size=1, max_size=5), st.integers(0, 9) | TEXTS)


def delivery(properties: BasicProperties, body: bytes, redelivered: bool = False) -> bytes:
    method = BasicDeliver("tag", 7, redelivered, "there", b"a.key").encode()
    published = build("", b"", properties.encode(), body)
    header_at = 8 + int.from_bytes(published[3:7], "big")
    frame = b"\1\0\1" + len(method).to_bytes(4, "big") + method + b"\xce"
    return frame + published[header_at:]


def passed(content: bytes, key: bytes | None = None, user_id: bool = False) -> bytes | None:
    return forwarded(content, "here", key, ENTRY, AGAIN, b"x-received-from", user_id, 0)


@given(
    st.none() | HEADERS,
    st.dictionaries(st.sampled_from(["content_type", "content_encoding", "message_id"]), TEXTS),
    st.none() | st.integers(0, 9),
    st.binary(max_size=50),
)
def test_all_but_the_headers_stays(
    headers: dict[str, object] | None, texts: dict[str, Any], priority: int | None, body: bytes
) -> None:
    properties = BasicProperties(headers=headers, priority=priority, **texts)
    made = passed(delivery(properties, body))
    assert made is not None
    exchange, key, encoded, got = extract(made, 0, len(made))
    assert (exchange, key, got) == ("here", b"a.key", body)
    properties.headers = {"x-received-from": [{"redelivered": False}], **(headers or {})}
    assert decode_properties(encoded) == properties


def test_the_entry_is_that_of_the_redelivered_flag_and_the_key_may_be_another() -> None:
    made = passed(delivery(BasicProperties(), b"", redelivered=True), b"queue")
    assert made is not None
    _, key, encoded, _ = extract(made, 0, len(made))
    assert key == b"queue"
    assert decode_properties(encoded).headers == {"x-received-from": [{"redelivered": True}]}


@pytest.mark.parametrize(
    "properties",
    [BasicProperties(headers={"x-received-from": []}), BasicProperties(user_id="anna")],
)
def test_what_needs_a_look_is_left_to_the_caller(properties: BasicProperties) -> None:
    assert passed(delivery(properties, b"b")) is None


def test_a_user_id_passes_where_it_is_trusted() -> None:
    made = passed(delivery(BasicProperties(user_id="anna"), b"b"), user_id=True)
    assert made is not None
    assert decode_properties(extract(made, 0, len(made))[2]).user_id == "anna"
