"""What a node marks messages with as it takes them, in both stored forms."""

import struct
from itertools import accumulate
from typing import Any

import pytest

from queues.conversion.incoming_marks import IncomingMarks
from queues.conversion.to_amqp091 import to_amqp091
from queues.conversion.to_amqp10 import to_amqp10
from queues.message import FORMAT_091, FORMAT_10, Chunk
from tests.unit.queues.messages import bodies_of
from warren.client.message import Message, decode_message
from warren.wire.amqp091.deliver import build, extract
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.amqp10.codec.values import Symbol, Timestamp
from warren.wire.amqp10.transfers import payload_at, store

NOW_MS = 1_800_000_000_123
RECEIVED = "x-opt-rabbitmq-received-time"


def marked(
    form: int, frames: list[bytes], timestamp: bool | None, node: bool | None, later_ms: int = 0
) -> list[bytes]:
    places = list(accumulate(map(len, frames), initial=0))
    offsets = struct.pack(f"<{len(places)}I", *places)
    chunk = Chunk(form, b"".join(frames), 0, offsets, 1, b"\x00\x01q")
    marks = IncomingMarks(lambda: NOW_MS + later_ms, "rabbit@n1", timestamp, node)
    made = marks.mark(chunk)
    assert (made.format_tag, made.info, made.names) == (form, 1, b"\x00\x01q")
    return bodies_of(made)


def marked_091(
    properties: BasicProperties, timestamp: bool | None, node: bool | None
) -> BasicProperties:
    frames = [build("x", b"key", properties.encode(), b"body") for _ in range(2)]
    first, second = marked(FORMAT_091, frames, timestamp, node)
    assert first == second
    exchange, routing_key, encoded, body = extract(first, 0, len(first))
    assert (exchange, routing_key, body) == ("x", b"key", b"body")
    return decode_properties(encoded)


@pytest.mark.parametrize(
    ("timestamp", "node", "headers", "seconds"),
    [
        (True, None, {"timestamp_in_ms": NOW_MS}, NOW_MS // 1000),
        (None, True, {"x-routed-by": "rabbit@n1"}, None),
        (False, False, {"timestamp_in_ms": NOW_MS, "x-routed-by": "rabbit@n1"}, NOW_MS // 1000),
    ],
)
def test_a_message_of_amqp_0_9_1_gets_headers_and_the_property_timestamp(
    timestamp: bool | None, node: bool | None, headers: dict[str, Any], seconds: int | None
) -> None:
    sent = BasicProperties(content_type="text/plain", reply_to="r", message_id="m", app_id="a")
    found = marked_091(sent, timestamp, node)
    assert (found.headers, found.timestamp) == (headers, seconds)
    names = (found.content_type, found.reply_to, found.message_id, found.app_id)
    assert names == ("text/plain", "r", "m", "a")


def test_what_a_publisher_of_amqp_0_9_1_has_set_is_replaced_or_kept() -> None:
    headers: dict[str, Any] = {"a": 1, "timestamp_in_ms": 1000, "x-routed-by": "other"}
    sent = BasicProperties(headers=headers, timestamp=1, message_id="m")
    found = marked_091(sent, True, True)
    changed = {**headers, "timestamp_in_ms": NOW_MS, "x-routed-by": "rabbit@n1"}
    assert (found.headers, found.timestamp) == (changed, NOW_MS // 1000)
    found = marked_091(sent, False, False)
    assert (found.headers, found.timestamp, found.message_id) == (headers, 1, "m")


def test_headers_that_cannot_be_read_stay_as_they_came() -> None:
    properties = BasicProperties(headers={"a": 1}).encode().replace(b"\x01aI", b"\x01a?")
    frame = build("", b"q", properties, b"body")
    assert marked(FORMAT_091, [frame], True, True) == [frame]


def annotations_of(frame: bytes) -> dict[Any, Any]:
    return dict(decode_message(frame, int(payload_at(frame, 0)), len(frame)).annotations)


@pytest.mark.parametrize(("timestamp", "node"), [(True, True), (False, None), (None, False)])
def test_a_message_of_amqp_1_0_gets_annotations(timestamp: bool | None, node: bool | None) -> None:
    sent: list[dict[str, Any]] = [{}, {"x-a": 1}, {RECEIVED: Timestamp(5), "x-routed-by": "other"}]
    messages = [Message(b"body", durable=True, message_id="m", annotations=each) for each in sent]
    frames = [store(each.encode()) for each in messages for _ in range(2)]
    found = marked(FORMAT_10, frames, timestamp, node)
    assert found[::2] == found[1::2]
    marks: dict[str, Any] = {}
    if timestamp is not None:
        marks[RECEIVED] = Timestamp(NOW_MS)
    if node is not None:
        marks["x-routed-by"] = "rabbit@n1"
    own: dict[str, Any] = {
        **sent[2],
        **({RECEIVED: Timestamp(NOW_MS)} if timestamp else {}),
        **({"x-routed-by": "rabbit@n1"} if node else {}),
    }
    assert [annotations_of(each) for each in found[::2]] == [marks, {**sent[1], **marks}, own]
    for frame in found:
        message = decode_message(frame, int(payload_at(frame, 0)), len(frame))
        assert (message.body, message.message_id, message.durable) == (b"body", "m", True)


def test_consumers_of_the_other_protocol_get_the_time() -> None:
    (frame,) = marked(FORMAT_091, [build("", b"q", BasicProperties().encode(), b"")], True, True)
    annotations = to_amqp10(frame, 0, len(frame)).annotations
    assert annotations[Symbol(RECEIVED)] == Timestamp(NOW_MS)
    assert annotations[Symbol("x-routed-by")] == "rabbit@n1"
    (frame,) = marked(FORMAT_10, [store(Message(b"body").encode())], True, True)
    at = int(payload_at(frame, 0))
    converted = to_amqp091(frame, at, len(frame), "", b"q")
    properties = decode_properties(extract(converted, 0, len(converted))[2])
    assert properties.headers == {"timestamp_in_ms": NOW_MS, "x-routed-by": "rabbit@n1"}
    assert properties.timestamp == NOW_MS // 1000


def test_a_header_of_the_publisher_alone_does_not_set_the_timestamp() -> None:
    message = Message(b"body", application_properties={"timestamp_in_ms": 5}).encode()
    converted = to_amqp091(message, 0, len(message), "", b"q")
    properties = decode_properties(extract(converted, 0, len(converted))[2])
    assert (properties.headers, properties.timestamp) == ({"timestamp_in_ms": 5}, None)
