"""Frames and channels of the AMQP 0-9-1 core: every wrong input with its code and text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.frames import (
    BOUNDED,
    HEARTBEAT,
    channel_failure,
    failure,
    frame,
    header_frame,
    message,
    method_frame,
    opened,
    plain,
    sent_methods,
)
from warren.wire.amqp091.connection import EVENTS_MAX, Connection, Limits
from warren.wire.amqp091.events import Called, ChannelFailed, Failed
from warren.wire.amqp091.methods import (
    BasicAck,
    BasicCancelOk,
    BasicDeliver,
    BasicGetEmpty,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    QueueDeclare,
)
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.errors import ProtocolError, ReplyCode

PUBLISH = method_frame(1, BasicPublish("", b"q"))


def test_a_wrong_end_octet_closes_the_connection() -> None:
    text = failure(opened(1), frame(1, 1, b"\x01\x02", end=0xCD))
    assert text == (
        "501 FRAME_ERROR - type 1, all octets = <<1,2>>: {invalid_frame_end_marker,205}"
    )


def test_a_wrong_end_octet_is_found_in_every_frame_of_a_run() -> None:
    one = message(1, b"abc")
    ends = [at for at, octet in enumerate(one) if octet == 0xCE]
    assert len(ends) == 3
    for at in ends:
        wrong = one[:at] + b"\xcd" + one[at + 1 :]
        events = opened(1).receive(one + wrong, 0)
        assert [entry[0] for entry in plain(events)] == ["publish", "failed"]
        assert "{invalid_frame_end_marker,205}" in str(plain(events)[1])
    acks = method_frame(1, BasicAck(1)) + method_frame(1, BasicAck(2))[:-1] + b"\xcd"
    assert [entry[0] for entry in plain(opened(1).receive(acks, 0))] == ["settle", "failed"]


def test_after_a_wrong_end_octet_nothing_is_believed() -> None:
    connection = opened(1)
    failure(connection, frame(1, 1, b"\x01\x02", end=0))
    assert connection.receive(method_frame(0, ConnectionCloseOk()), 0) == []
    assert connection.tick(2_999) == []
    assert plain(connection.tick(3_000)) == [("ended",)]


def test_a_frame_over_the_negotiated_size_is_refused_by_its_head() -> None:
    head = b"\x03\x00\x01" + (4097).to_bytes(4, "big") + b"\x00"
    text = failure(opened(1, frame_max=4096), head)
    assert text == "501 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4097,4088}"


def test_frames_up_to_8192_bytes_are_taken_before_tune() -> None:
    connection = Connection(Limits(), {}, "PLAIN", 0)
    connection.start()
    head = b"\x01\x00\x00" + (8193).to_bytes(4, "big") + b"\x00"
    assert "frame_too_large,8193,8184" in failure(connection, head)
    connection = Connection(Limits(), {}, "PLAIN", 0)
    assert connection.receive(b"\x01\x00\x00" + (8192).to_bytes(4, "big"), 0) == []
    assert connection.state_name == "starting"


def test_a_publish_over_the_negotiated_size_is_refused_as_well() -> None:
    data = message(1, b"x" * 5000)
    assert "frame_too_large,5000,4088" in failure(opened(1, frame_max=4096), data)


@pytest.mark.parametrize("kind", [0, 4, 7, 9, 65, 255])
def test_an_unknown_frame_type_is_a_frame_error(kind: int) -> None:
    text = failure(opened(1), frame(kind, 1, b"x"))
    assert text == f"501 FRAME_ERROR - type {kind}, all octets = <<>>: unknown_frame"


def test_content_on_channel_0_is_an_invalid_command() -> None:
    text = failure(opened(1), frame(3, 0, b"abc"))
    assert text == '503 COMMAND_INVALID - type 3, all octets = <<"abc">>'
    assert failure(opened(1), header_frame(0, 1)).startswith("503 COMMAND_INVALID - type 2")


def test_a_heartbeat_on_a_channel_is_an_unexpected_frame() -> None:
    text = failure(opened(1), frame(8, 1, b""))
    assert text == "505 UNEXPECTED_FRAME - type 8, all octets = <<>>"


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        (header_frame(1, 1), "expected method frame, got non method frame instead"),
        (frame(3, 1, b"x"), "expected method frame, got non method frame instead"),
        (
            PUBLISH + PUBLISH,
            "expected content header for class 60, got non content header frame instead",
        ),
        (
            PUBLISH + frame(3, 1, b"x"),
            "expected content header for class 60, got non content header frame instead",
        ),
        (
            PUBLISH + frame(2, 1, b"\x00\x32" + bytes(12)),
            "expected content header for class 60, got one for class 50 instead",
        ),
        (
            PUBLISH + header_frame(1, 1) + header_frame(1, 1),
            "expected content body, got non content body frame instead",
        ),
        (
            PUBLISH + header_frame(1, 2) + PUBLISH,
            "expected content body, got non content body frame instead",
        ),
        (
            PUBLISH + header_frame(1, 2) + frame(3, 1, b"xyz"),
            "content body frame of 3 bytes where 2 are left to come",
        ),
        (
            PUBLISH + header_frame(1, 2) + frame(3, 1, b"x") + frame(3, 1, b"yz"),
            "content body frame of 2 bytes where 1 are left to come",
        ),
        (PUBLISH + header_frame(1, 2) + frame(3, 1, b""), "empty content body frame"),
    ],
)
def test_content_frames_out_of_order_are_unexpected(frames: bytes, text: str) -> None:
    assert failure(opened(1), frames) == f"505 UNEXPECTED_FRAME - {text}"
    connection = opened(1)
    for at in range(len(frames) - 1):
        assert plain(connection.receive(frames[at : at + 1], 0)) == []
    assert failure(connection, frames[-1:]) == f"505 UNEXPECTED_FRAME - {text}"


def test_an_empty_frame_before_the_rest_of_the_body_is_not_stored() -> None:
    data = PUBLISH + header_frame(1, 2) + frame(3, 1, b"") + frame(3, 1, b"xy")
    assert failure(opened(1), data) == "505 UNEXPECTED_FRAME - empty content body frame"


@pytest.mark.parametrize(
    "payload",
    [
        b"\x00\x3c\x00\x28",
        b"\x00\x3c\x00\x28\x00\x00\x00\x00",
        b"\x00\x3c\x00\x28\x00\x00\x00\x01\x00",
        b"\x00\x3c\x00\x28\x00\x00\xff\x00\x00",
        b"\x00\x3c\x00\x28\x00\x00\x00\x00\x00\x00",
        b"\x00\x3c\x00\x28\x00\x00\x01\xff\x00\x00",
    ],
)
def test_a_malformed_publish_is_a_frame_error(payload: bytes) -> None:
    content = header_frame(1, 1) + frame(3, 1, b"x")
    assert failure(opened(1), frame(1, 1, payload) + content).startswith("501 FRAME_ERROR")
    connection = opened(1)
    connection.receive(message(1, b"x"), 0)
    assert failure(connection, frame(1, 1, payload) + content).startswith("501 FRAME_ERROR")


@pytest.mark.parametrize(
    "payload",
    [
        b"\x00\x3c\x00\x00" + bytes(8),
        b"\x00\x3c\x00\x01" + bytes(10),
        b"\x00\x3c\x00\x00" + b"\xff" * 8 + bytes(2),
        b"\x00\x3c\x00\x00" + bytes(8) + b"\x80\x00\x05abc",
        b"\x00\x3c\x00\x00" + bytes(8) + b"\x20\x00\xff\xff\xff\xff",
        b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00\x00",
    ],
)
def test_a_malformed_content_header_is_a_frame_error(payload: bytes) -> None:
    text = failure(opened(1), PUBLISH + frame(2, 1, payload))
    assert text == "501 FRAME_ERROR - cannot decode content header"


def test_what_came_before_an_error_is_not_lost() -> None:
    connection = opened(1)
    events = connection.receive(message(1, b"one") * 2 + frame(9, 0, b""), 0)
    assert [entry[0] for entry in plain(events)] == ["publish", "publish", "failed"]


def test_frames_behind_an_error_do_not_throw_the_close_out_of_step() -> None:
    connection = opened(1)
    data = frame(8, 1, b"") + message(1, b"dropped" * 9)
    assert isinstance(connection.receive(data[:60], 0)[-1], Failed)
    assert connection.receive(data[60:], 0) == []
    assert plain(connection.receive(method_frame(0, ConnectionCloseOk()), 0)) == [("ended",)]


def test_garbage_while_closing_is_dropped() -> None:
    connection = opened(1)
    failure(connection, frame(8, 1, b""))
    assert connection.receive(b"\xff" * 100, 0) == []
    assert connection.receive(method_frame(0, ConnectionCloseOk()), 0) == []
    assert plain(connection.tick(10_000)) == [("ended",)]


def test_a_method_on_an_unopened_channel_is_a_channel_error() -> None:
    text = "504 CHANNEL_ERROR - expected 'channel.open'"
    assert failure(opened(1), method_frame(2, QueueDeclare("q"))) == text
    assert failure(opened(1), method_frame(2, BasicPublish("", b"q"))) == text
    assert failure(opened(1), message(2, b"x")) == text
    assert failure(opened(), method_frame(1, ChannelClose(200))) == text


def test_a_second_open_is_a_channel_error() -> None:
    text = failure(opened(1), method_frame(1, ChannelOpen()))
    assert text == "504 CHANNEL_ERROR - second 'channel.open' seen"


def test_more_open_channels_than_channel_max_are_not_allowed() -> None:
    connection = opened(1, 7, limits=Limits(channel_max=2))
    text = failure(connection, method_frame(2, ChannelOpen()))
    assert text == (
        "530 NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    )


def test_channel_numbers_above_channel_max_are_allowed_while_few_are_open() -> None:
    connection = opened(6, 65_535, limits=Limits(channel_max=2))
    assert connection.channel_is_open(65_535)


def test_all_channels_up_to_channel_max_may_be_open() -> None:
    connection = opened(*range(1, 6), limits=Limits(channel_max=5))
    assert connection.channel_count == 5
    assert connection.channel_is_open(5)
    assert not connection.channel_is_open(6)


def test_an_opened_channel_is_called_and_answered_by_the_endpoint() -> None:
    connection = opened()
    [event] = connection.receive(method_frame(3, ChannelOpen()), 0)
    assert isinstance(event, Called)
    assert (event.channel, event.method) == (3, ChannelOpen())
    connection.send(3, ChannelOpenOk())
    assert sent_methods(connection) == [(3, ChannelOpenOk())]


def test_flow_off_is_not_implemented_and_flow_on_is_answered() -> None:
    connection = opened(1)
    assert connection.receive(method_frame(1, ChannelFlow(True)), 0) == []
    assert sent_methods(connection) == [(1, ChannelFlowOk(True))]
    text = failure(connection, method_frame(1, ChannelFlow(False)))
    assert text == "540 NOT_IMPLEMENTED - active=false"


def test_methods_of_the_server_are_invalid_from_a_client() -> None:
    text = "503 COMMAND_INVALID - unimplemented method"
    for method in (BasicDeliver(), BasicGetEmpty(), ConnectionOpen("/")):
        assert failure(opened(1), method_frame(1, method)) == text


def test_late_answers_of_the_client_are_ignored() -> None:
    for method in (BasicCancelOk("c"), ChannelFlowOk(True), ChannelCloseOk()):
        assert opened(1).receive(method_frame(1, method), 0) == []


def test_the_close_names_the_method_it_answers() -> None:
    connection = opened()
    connection.receive(method_frame(1, QueueDeclare("q")), 0)
    [(_, close)] = sent_methods(connection)
    assert isinstance(close, ConnectionClose)
    assert (close.class_id, close.method_id) == (50, 10)


def test_the_clients_channel_close_is_done_when_the_endpoint_answers() -> None:
    connection = opened(1)
    events = connection.receive(method_frame(1, ChannelClose(200, "bye")), 0)
    assert plain(events) == [("called", 1, ChannelClose(200, "bye"))]
    assert connection.channel_count == 1
    connection.send(1, ChannelCloseOk())
    assert sent_methods(connection) == [(1, ChannelCloseOk())]
    assert connection.channel_count == 0
    assert plain(connection.receive(method_frame(1, ChannelOpen()), 0)) == [
        ("called", 1, ChannelOpen())
    ]


def test_methods_behind_the_clients_channel_close_are_a_channel_error() -> None:
    data = method_frame(1, ChannelClose(200)) + method_frame(1, QueueDeclare("q"))
    assert failure(opened(1), data) == "504 CHANNEL_ERROR - expected 'channel.open'"


def test_a_closed_channel_drops_its_input_until_close_ok() -> None:
    connection = opened(1, 2)
    connection.close_channel(1, ProtocolError(ReplyCode.NOT_FOUND, "no queue 'q' in vhost '/'"))
    close = ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'")
    assert sent_methods(connection) == [(1, close)]
    dropped = message(1, b"x" * 100) + method_frame(1, QueueDeclare("q")) + message(1, b"y")
    assert plain(connection.receive(dropped + message(2, b"kept"), 0))[0][-1] == b"kept"
    assert not connection.channel_is_open(1)
    assert connection.receive(method_frame(1, ChannelCloseOk()), 0) == []
    assert connection.channel_count == 1
    reopened = connection.receive(method_frame(1, ChannelOpen()) + message(1, b"z"), 0)
    assert [entry[0] for entry in plain(reopened)] == ["called", "publish"]


def test_two_closes_of_a_channel_that_cross_are_both_answered() -> None:
    connection = opened(1)
    connection.close_channel(1, ProtocolError(ReplyCode.NOT_FOUND, "x"))
    connection.data_to_send()
    assert connection.receive(method_frame(1, ChannelClose(200)), 0) == []
    assert sent_methods(connection) == [(1, ChannelCloseOk())]
    connection.receive(method_frame(1, ChannelCloseOk()), 0)
    assert connection.channel_count == 0


def test_a_close_read_together_with_a_refused_method_is_answered_too() -> None:
    connection = opened(1)
    data = method_frame(1, QueueDeclare("q")) + method_frame(1, ChannelClose(200))
    assert len(connection.receive(data, 0)) == 2
    connection.close_channel(1, ProtocolError(ReplyCode.NOT_FOUND, "x"))
    connection.send(1, ChannelCloseOk())
    assert [type(method) for _, method in sent_methods(connection)] == [
        ChannelClose,
        ChannelCloseOk,
    ]
    connection.receive(method_frame(1, ChannelCloseOk()), 0)
    assert connection.channel_count == 0


def test_nothing_but_close_ok_is_sent_on_a_closed_channel() -> None:
    connection = opened(1)
    connection.close_channel(1, ProtocolError(ReplyCode.NOT_FOUND, "x"))
    connection.data_to_send()
    connection.send(1, ChannelOpenOk())
    connection.send(2, ChannelOpenOk())
    connection.send_content(1, BasicGetEmpty(), b"", 0, 0)
    assert connection.data_to_send() == b""


def test_a_message_over_the_limit_closes_its_channel_by_its_header() -> None:
    connection = opened(1, 2, limits=Limits(message_bytes_max=1000))
    text = channel_failure(connection, 1, PUBLISH + header_frame(1, 1001))
    assert text == (
        "406 PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
    )
    rest = frame(3, 1, bytes(1001)) + message(1, b"later") + message(2, b"kept" * 250)
    assert [entry[0] for entry in plain(connection.receive(rest, 0))] == ["publish"]


def test_a_body_of_exactly_the_limit_passes() -> None:
    connection = opened(1, limits=Limits(message_bytes_max=1000))
    assert plain(connection.receive(message(1, bytes(1000)), 0))[0][-1] == bytes(1000)


def test_a_delivery_tag_over_63_bits_is_unknown() -> None:
    tag = (2**63).to_bytes(8, "big")
    connection = opened(1)
    text = channel_failure(connection, 1, frame(1, 1, b"\x00\x3c\x00\x50" + tag + b"\x00"))
    assert text == "406 PRECONDITION_FAILED - unknown delivery tag 9223372036854775808"


def test_an_error_of_one_channel_leaves_the_others_alone() -> None:
    connection = opened(1, 2, limits=Limits(message_bytes_max=10))
    events = connection.receive(message(1, bytes(11)) + message(2, b"x"), 0)
    assert isinstance(events[0], ChannelFailed)
    assert [entry[0] for entry in plain(events)] == ["channel failed", "publish"]


@BOUNDED
@given(st.binary(max_size=300))
def test_any_bytes_before_login_end_in_an_error_or_in_waiting(data: bytes) -> None:
    connection = Connection(Limits(), {}, "PLAIN", 0)
    connection.start()
    for event in connection.receive(data, 0):
        assert isinstance(event, Failed) or plain([event]) == [("ended",)]


fragments = st.one_of(
    st.binary(max_size=40),
    st.builds(frame, st.integers(0, 9), st.integers(0, 3), st.binary(max_size=60)),
    st.builds(message, st.integers(0, 3), st.binary(max_size=60)),
    st.just(HEARTBEAT),
    st.builds(header_frame, st.integers(0, 3), st.integers(0, 2**63)),
    st.just(method_frame(2, ChannelClose(200))),
    st.just(method_frame(3, ChannelOpen())),
    st.just(message(1, b"x", properties=BasicProperties(headers={"k": [1, {}]}))[:-3]),
)


@BOUNDED
@given(st.lists(fragments, max_size=12), st.integers(1, 50))
def test_any_frames_in_any_pieces_end_in_events_or_one_error(parts: list[bytes], step: int) -> None:
    stream = b"".join(parts)
    whole = plain(opened(1, 2).receive(stream, 0))
    assert [entry[0] for entry in whole[:-1]].count("failed") == 0 or whole[-1] == ("ended",)
    connection = opened(1, 2)
    pieces = []
    for at in range(0, len(stream), step):
        pieces += plain(connection.receive(stream[at : at + step], 0))
    assert pieces == whole


def test_a_flood_of_small_frames_is_taken_in_slices_and_whole() -> None:
    connection = opened(1)
    declares = [method_frame(1, QueueDeclare(f"q{number}")) for number in range(3 * EVENTS_MAX)]
    names: list[str] = []
    data = b"".join(declares)
    while data or connection.has_more:
        events = connection.receive(data, 0)
        data = b""
        assert len(events) <= EVENTS_MAX
        for event in events:
            assert isinstance(event, Called)
            assert isinstance(event.method, QueueDeclare)
            names.append(event.method.queue)
    assert names == [f"q{number}" for number in range(3 * EVENTS_MAX)]
