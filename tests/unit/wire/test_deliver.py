"""Deliveries, and messages in stored form 1 taken apart and made."""

import pamqp.body
import pamqp.commands
import pamqp.frame
import pamqp.header
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.frames import (
    BOUNDED,
    message,
    method_frame,
    opened,
    split_frames,
)
from warren.wire.amqp091 import deliver
from warren.wire.amqp091.events import Publishes
from warren.wire.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicReturn,
    decode_method,
)
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.buffer import BytesWriter


def offsets_of(messages: list[bytes], base: int) -> bytes:
    places = [base]
    for one in messages:
        places.append(places[-1] + len(one))
    return b"".join(place.to_bytes(4, "little") for place in places)


def deliveries(
    messages: list[bytes],
    channel: int = 7,
    first: int = 0,
    last: int | None = None,
    base: int = 0,
    redelivered: bool = False,
    first_tag: int = 1,
    frame_max: int = 131_072,
) -> bytes:
    writer = BytesWriter()
    deliver.write_deliveries(
        writer,
        channel,
        deliver.consumer_prefix(b"ctag"),
        first_tag,
        redelivered,
        b"".join(messages),
        base,
        offsets_of(messages, base),
        first,
        len(messages) if last is None else last,
        frame_max,
    )
    return writer.getvalue()


def delivered(data: bytes) -> list[tuple[int, BasicDeliver, bytes, bytes]]:
    """Channel, method, content header payload and body of each delivery."""
    result: list[tuple[int, BasicDeliver, bytes, bytes]] = []
    for kind, channel, payload in split_frames(data):
        if kind == 1:
            method = decode_method(payload)
            assert isinstance(method, BasicDeliver)
            result.append((channel, method, b"", b""))
        else:
            assert channel == result[-1][0]
            last_channel, method, header, body = result.pop()
            if kind == 2:
                header = payload
            else:
                body += payload
            result.append((last_channel, method, header, body))
    return result


def test_golden_bytes_of_a_delivery() -> None:
    assert deliveries([message(1, b"hi", routing_key=b"\xff", exchange="x")]) == (
        b"\x01\x00\x07\x00\x00\x00\x16\x00\x3c\x00\x3c\x04ctag\0\0\0\0\0\0\0\x01\x00\x01x\x01\xff\xce"
        b"\x02\x00\x07\x00\x00\x00\x0e\x00\x3c\x00\x00\0\0\0\0\0\0\0\x02\x00\x00\xce"
        b"\x03\x00\x07\x00\x00\x00\x02hi\xce"
    )


messages = st.builds(
    message,
    st.integers(1, 65_535),
    st.one_of(st.binary(max_size=300), st.binary(min_size=90, max_size=160)),
    st.binary(max_size=20),
    st.sampled_from([None, BasicProperties(delivery_mode=2, headers={"k": "v" * 90})]),
    st.sampled_from(["", "x", "amq.topic"]),
    st.booleans(),
    st.sampled_from([50, 131_064]),
)


@BOUNDED
@given(st.lists(messages, min_size=1, max_size=8), st.integers(1, 65_535), st.data())
def test_what_is_delivered_is_what_was_published(
    published: list[bytes], channel: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(published)))
    last = data.draw(st.integers(first, len(published)))
    base = data.draw(st.sampled_from([0, 1, 70_000]))
    sent = delivered(deliveries(published, channel, first, last, base, True, 2**40))
    assert len(sent) == last - first
    for number, (on, method, header, body) in enumerate(sent):
        one = published[first + number]
        exchange, routing_key, properties, original = deliver.extract(one, 0, len(one))
        assert on == channel
        assert method == BasicDeliver("ctag", 2**40 + number, True, exchange, routing_key)
        assert header == b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties
        assert body == original


def test_routes_of_the_same_length_are_told_apart() -> None:
    keys = [b"key-number-1", b"key-number-1", b"key-number-2", b"kez-number-2"]
    sent = delivered(deliveries([message(1, b"x", routing_key=key) for key in keys]))
    assert [method.routing_key for _, method, _, _ in sent] == keys


def test_pamqp_reads_a_delivery() -> None:
    properties = BasicProperties(delivery_mode=2, message_id="m")
    data = deliveries([message(1, b"body", b"key", properties, "amq.topic")])
    size, channel, method = pamqp.frame.unmarshal(data)
    assert channel == 7
    assert isinstance(method, pamqp.commands.Basic.Deliver)
    assert (method.exchange, method.routing_key, method.delivery_tag) == ("amq.topic", "key", 1)
    size_of_header, _, header = pamqp.frame.unmarshal(data[size:])
    assert isinstance(header, pamqp.header.ContentHeader)
    assert header.body_size == 4
    assert header.properties.message_id == "m"
    body = pamqp.frame.unmarshal(data[size + size_of_header :])[2]
    assert isinstance(body, pamqp.body.ContentBody)
    assert body.value == b"body"


@pytest.mark.parametrize("channel", [1, 2])
def test_a_body_is_cut_anew_only_where_a_frame_is_too_large(channel: int) -> None:
    body = bytes(range(256)) * 40
    one = message(1, body, body_frame_bytes=4096)
    frames = split_frames(deliveries([one], channel, frame_max=4096))
    assert [len(payload) for kind, _, payload in frames if kind == 3] == [
        *(4088, 8, 4088, 8, 2048),
    ]
    assert b"".join(payload for kind, _, payload in frames if kind == 3) == body
    assert {on for _, on, _ in frames} == {channel}
    whole = split_frames(deliveries([one], channel, frame_max=4104))
    assert [len(payload) for kind, _, payload in whole if kind == 3] == [4096, 4096, 2048]


def test_a_single_body_frame_that_is_too_large_is_cut() -> None:
    frames = split_frames(deliveries([message(1, bytes(10_000))], frame_max=4096))
    assert [len(payload) for kind, _, payload in frames if kind == 3] == [4088, 4088, 1824]


def test_the_channel_is_right_in_every_frame_of_many_frames() -> None:
    frames = split_frames(deliveries([message(9, bytes(100), body_frame_bytes=30)] * 2, 300))
    assert {channel for _, channel, _ in frames} == {300}
    assert len(frames) == 2 * (2 + 4)


def test_ack_and_nack_are_the_generated_ones() -> None:
    writer = BytesWriter()
    deliver.write_ack(writer, 65_535, 2**40, True)
    deliver.write_ack(writer, 1, 1, False)
    deliver.write_nack(writer, 2, 3, True)
    deliver.write_nack(writer, 2, 3, False, True)
    assert writer.getvalue() == (
        method_frame(65_535, BasicAck(2**40, True))
        + method_frame(1, BasicAck(1))
        + method_frame(2, BasicNack(3, True))
        + method_frame(2, BasicNack(3, False, True))
    )


@BOUNDED
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.binary(max_size=255),
    st.binary(max_size=20_000),
    st.integers(4096, 9000),
)
def test_extract_undoes_build(exchange: str, routing_key: bytes, body: bytes, most: int) -> None:
    properties = BasicProperties(delivery_mode=2, headers={"a": [1]}).encode()
    data = deliver.build(exchange, routing_key, properties, body, most)
    padded = b"##" + data + b"##"
    parts = deliver.extract(padded, 2, 2 + len(data))
    assert parts == (exchange, routing_key, properties, body)
    assert deliver.content_size(padded, 2) == len(body)
    assert deliver.body_bytes(padded, 2, 2 + len(data)) == body
    assert all(len(payload) + 8 <= most for kind, _, payload in split_frames(data) if kind == 3)


def test_what_is_built_is_what_a_client_would_have_sent() -> None:
    properties = BasicProperties(priority=3)
    built = deliver.build("x", b"key", properties.encode(), b"body")
    assert built == message(0, b"body", b"key", properties, "x")
    assert deliver.build("", b"", b"\x00\x00", b"") == message(0, b"", b"")


def test_a_returned_or_fetched_message_has_its_content_behind_the_method() -> None:
    connection = opened(5, frame_max=4096)
    one = message(5, bytes(6000), body_frame_bytes=4088)
    [run] = connection.receive(one, 0)
    assert isinstance(run, Publishes)
    for method in (BasicReturn(312, "NO_ROUTE", "", b"q"), BasicGetOk(1, False, "", b"q", 0)):
        connection.send_content(5, method, run.data, 0, len(run.data))
        frames = split_frames(connection.data_to_send())
        assert decode_method(frames[0][2]) == method
        assert frames[1:] == split_frames(one)[1:]


def test_a_message_built_here_goes_out_on_the_channel_asked_for() -> None:
    connection = opened(5)
    data = deliver.build("", b"q", b"\x00\x00", b"body")
    connection.send_content(5, BasicGetOk(1, False, "", b"q", 0), data, 0, len(data))
    assert {channel for _, channel, _ in split_frames(connection.data_to_send())} == {5}


def test_a_run_of_the_connection_is_delivered_from_its_own_offsets() -> None:
    connection = opened(1)
    [run] = connection.receive(message(1, b"one") + message(1, b"two"), 0)
    assert isinstance(run, Publishes)
    writer = BytesWriter()
    prefix = deliver.consumer_prefix(b"c")
    deliver.write_deliveries(writer, 1, prefix, 5, False, run.data, 0, run.offsets, 0, 2, 4096)
    sent = delivered(writer.getvalue())
    assert [(method.delivery_tag, body) for _, method, _, body in sent] == [
        (5, b"one"),
        (6, b"two"),
    ]
