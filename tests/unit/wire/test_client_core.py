"""The client's AMQP 0-9-1 core: handshake, contents in any pieces, what a broker may get wrong."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.frames import BOUNDED, HEARTBEAT, frame, header_frame, method_frame
from warren.wire.amqp091.client import ClientConnection, ClientLimits
from warren.wire.amqp091.client_events import (
    Arrived,
    ChannelClosed,
    ClientEvent,
    Closed,
    Opened,
    StartRequested,
)
from warren.wire.amqp091.contents import content_parts, delivery_tag, method_payload
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.events import ACK, NACK, REJECT, Called, Ended, Failed, Settles
from warren.wire.amqp091.header import HEADER_091
from warren.wire.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionStart,
    ConnectionTune,
    Method,
    decode_method,
)
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.buffer import read_i32_le
from warren.wire.errors import ProtocolError

START = ConnectionStart(0, 9, {"product": "b"}, b"PLAIN AMQPLAIN", b"en_US")


def methods_in(data: bytes) -> list[tuple[int, Method]]:
    """The method frames of some output."""
    found = []
    pos = 0
    while pos < len(data):
        size = int.from_bytes(data[pos + 3 : pos + 7], "big")
        if data[pos] == 1:
            channel = int.from_bytes(data[pos + 1 : pos + 3], "big")
            found.append((channel, decode_method(data[pos + 7 : pos + 7 + size])))
        pos += 8 + size
    return found


def running(
    tune: ConnectionTune | None = None, limits: ClientLimits | None = None
) -> ClientConnection:
    core = ClientConnection(limits or ClientLimits(), 0)
    core.receive(method_frame(0, START), 0)
    core.login("PLAIN", b"\0guest\0guest", "/", {})
    core.receive(method_frame(0, tune or ConnectionTune(2047, 131_072, 60)), 0)
    core.receive(method_frame(0, ConnectionOpenOk()), 0)
    assert core.state_name == "running"
    core.data_to_send()
    return core


def with_channel(limits: ClientLimits | None = None) -> ClientConnection:
    """One open channel, number 1."""
    core = running(limits=limits)
    assert core.open_channel() == 1
    core.receive(method_frame(1, ChannelOpenOk()), 0)
    core.data_to_send()
    return core


def delivery(
    tag: int, body: bytes, channel: int = 1, cut: int = 131_064, key: bytes = b"q"
) -> bytes:
    frames = method_frame(channel, BasicDeliver("tag", tag, False, "", key))
    frames += header_frame(channel, len(body), BasicProperties(content_type="t"))
    for pos in range(0, len(body), cut):
        frames += frame(3, channel, body[pos : pos + cut])
    return frames


Told = tuple[object, ...]


def told(events: list[ClientEvent]) -> list[Told]:
    """Events in a form that compares; runs are taken apart."""
    plain: list[Told] = []
    for event in events:
        match event:
            case Arrived():
                for place in range(event.count):
                    start = int(read_i32_le(event.offsets, 4 * place))
                    end = int(read_i32_le(event.offsets, 4 * place + 4))
                    method = decode_method(method_payload(event.data, start))
                    plain.append((event.channel, method, *content_parts(event.data, start, end)))
            case Settles():
                if event.multiple:
                    plain.append((event.channel, event.kind, event.last, "multiple"))
                else:
                    tags = range(event.first, event.last + 1)
                    plain += [(event.channel, event.kind, tag) for tag in tags]
            case Called():
                plain.append((event.channel, event.method))
            case ChannelClosed():
                plain.append((event.channel, event.reply_code, event.reply_text))
            case Closed():
                plain.append(("closed", event.reply_code, event.reply_text))
            case Failed():
                plain.append(("failed", int(event.error.code), event.error.text))
            case StartRequested():
                plain.append(("start", tuple(event.mechanisms)))
            case Opened() | Ended():
                plain.append((type(event).__name__,))
    return plain


def failure(core: ClientConnection, data: bytes) -> str:
    """The text of the error that this input is; connection.close is said."""
    events = told(core.receive(data, 0))
    assert events[-1] == ("Ended",)
    assert events[-2][0] == "failed"
    assert any(isinstance(method, ConnectionClose) for _, method in methods_in(core.data_to_send()))
    assert core.receive(HEARTBEAT, 0) == []
    return f"{events[-2][1]} {events[-2][2]}"


# Handshake


def test_the_handshake_takes_the_smaller_limits_of_both() -> None:
    core = ClientConnection(ClientLimits(frame_max=65_536, heartbeat_s=30), 0)
    assert core.data_to_send() == HEADER_091
    events = core.receive(method_frame(0, START), 0)
    assert told(events) == [("start", ("PLAIN", "AMQPLAIN"))]
    assert isinstance(events[0], StartRequested)
    assert events[0].server_properties == {"product": "b"}
    core.login("PLAIN", b"\0a\0b", "/v", {"product": "c"})
    [(_, start_ok)] = methods_in(core.data_to_send())
    assert (start_ok.name, getattr(start_ok, "response", b"")) == ("connection.start-ok", b"\0a\0b")
    assert core.receive(method_frame(0, ConnectionTune(100, 0, 10)), 0) == []
    sent = methods_in(core.data_to_send())
    assert [method.name for _, method in sent] == ["connection.tune-ok", "connection.open"]
    assert repr(sent[0][1]) == "ConnectionTuneOk(channel_max=100, frame_max=65536, heartbeat=10)"
    assert getattr(sent[1][1], "virtual_host", "") == "/v"
    assert told(core.receive(method_frame(0, ConnectionOpenOk()), 0)) == [("Opened",)]
    assert (core.frame_max, core.channel_max, core.heartbeat_s) == (65_536, 100, 10)


def test_without_heartbeats_wanted_here_there_are_none() -> None:
    core = running(ConnectionTune(10, 131_072, 60), ClientLimits(heartbeat_s=0))
    assert core.heartbeat_s == 0
    assert core.tick(10_000_000) == [] and core.data_to_send() == b""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"AMQP\x00\x01\x00\x00", "540 the broker does not speak AMQP 0-9-1 here"),
        (b"HTTP/1.1", "501 a frame of kind 72"),
        (method_frame(0, ConnectionOpenOk()), "503 connection.open-ok while starting"),
        (method_frame(0, ConnectionTune(1, 1, 1)), "503 connection.tune while starting"),
        (frame(1, 0, b"\x00"), "501 "),
        (frame(1, 0, START.encode(), 0), "501 a frame ends in octet 0"),
        (frame(3, 0, b"x"), "505 a content on channel 0"),
        (method_frame(1, ChannelOpenOk()), "504 channel 1 is not open"),
    ],
)
def test_what_is_no_greeting_fails_without_a_word(data: bytes, text: str) -> None:
    core = ClientConnection(ClientLimits(), 0)
    core.data_to_send()
    events = told(core.receive(data, 0))
    assert [each[0] for each in events] == ["failed", "Ended"]
    assert f"{events[0][1]} {events[0][2]}".startswith(text)
    assert core.data_to_send() == b"" and core.state_name == "closed"


def test_a_challenge_and_a_tiny_frame_max_are_refused() -> None:
    for method in (ConnectionSecure(b"?"), ConnectionTune(1, 100, 1)):
        core = ClientConnection(ClientLimits(), 0)
        core.receive(method_frame(0, START), 0)
        core.login("PLAIN", b"", "/", {})
        events = told(core.receive(method_frame(0, method), 0))
        assert [each[:2] for each in events] == [("failed", 503), ("Ended",)]


def test_a_refused_login_is_told_with_its_code() -> None:
    core = ClientConnection(ClientLimits(), 0)
    core.receive(method_frame(0, START), 0)
    core.login("PLAIN", b"", "/", {})
    core.data_to_send()
    events = core.receive(method_frame(0, ConnectionClose(403, "no", 0, 0)), 0)
    assert told(events) == [("closed", 403, "no"), ("Ended",)]
    assert methods_in(core.data_to_send()) == [(0, ConnectionCloseOk())]


def test_a_handshake_takes_no_longer_than_its_time() -> None:
    core = ClientConnection(ClientLimits(), 0)
    assert core.tick(29_999) == []
    assert [each[0] for each in told(core.tick(30_000))] == ["failed", "Ended"]


# Channels


def test_channels_are_numbered_and_used_again() -> None:
    core = running(ConnectionTune(2, 0, 0))
    assert [core.open_channel(), core.open_channel()] == [1, 2]
    with pytest.raises(ProtocolError, match="all 2 channels"):
        core.open_channel()
    core.receive(method_frame(1, ChannelOpenOk()), 0)
    core.close_channel(1)
    answer = method_frame(1, ChannelCloseOk())
    crossed = delivery(1, b"late") + method_frame(1, ChannelClose(404, "x", 0, 0)) + answer
    core.data_to_send()
    assert told(core.receive(crossed, 0)) == [(1, ChannelCloseOk())]
    assert methods_in(core.data_to_send()) == [(1, ChannelCloseOk())]
    assert core.open_channel() == 1


def test_a_channel_that_the_broker_closes_is_answered_and_gone() -> None:
    core = with_channel()
    close = method_frame(1, ChannelClose(404, "NOT_FOUND - no queue", 50, 10))
    assert told(core.receive(close, 0)) == [(1, 404, "NOT_FOUND - no queue")]
    assert methods_in(core.data_to_send()) == [(1, ChannelCloseOk())]
    core.send(1, ChannelFlow(True))
    core.publish(1, [build("", b"q", b"\x00\x00", b"x")])
    core.settle(1, ACK, 1, False, False)
    assert core.data_to_send() == b""
    assert "504 channel 1 is not open" in failure(core, delivery(1, b"x"))


def test_flow_is_answered_and_told() -> None:
    core = with_channel()
    assert told(core.receive(method_frame(1, ChannelFlow(False)), 0)) == [(1, ChannelFlow(False))]
    [(_, answer)] = methods_in(core.data_to_send())
    assert repr(answer) == "ChannelFlowOk(active=False)"


# What arrives


MIXED = (
    delivery(1, b"one")
    + delivery(2, b"")
    + method_frame(1, BasicAck(1))
    + method_frame(1, BasicAck(2))
    + method_frame(1, BasicNack(7, True))
    + HEARTBEAT
    + delivery(3, bytes(range(256)) * 40, cut=1000)
    + method_frame(1, BasicReturn(312, "NO_ROUTE", "x", b"k"))
    + header_frame(1, 2)
    + frame(3, 1, b"no")
    + method_frame(1, BasicGetOk(4, True, "", b"q", 5))
    + header_frame(1, 0)
    + method_frame(1, BasicCancelOk("tag"))
    + method_frame(1, BasicCancel("tag", False))
    + method_frame(0, ConnectionBlocked("low on memory"))
)
BARE = b"\x00\x00"
TYPED = BasicProperties(content_type="t").encode()
MIXED_TOLD: list[Told] = [
    (1, BasicDeliver("tag", 1, False, "", b"q"), TYPED, b"one"),
    (1, BasicDeliver("tag", 2, False, "", b"q"), TYPED, b""),
    (1, ACK, 1),
    (1, ACK, 2),
    (1, NACK, 7, "multiple"),
    (1, BasicDeliver("tag", 3, False, "", b"q"), TYPED, bytes(range(256)) * 40),
    (1, BasicReturn(312, "NO_ROUTE", "x", b"k"), BARE, b"no"),
    (1, BasicGetOk(4, True, "", b"q", 5), BARE, b""),
    (1, BasicCancelOk("tag")),
    (1, BasicCancel("tag", False)),
    (0, ConnectionBlocked("low on memory")),
]


def test_what_comes_whole_is_told_in_order() -> None:
    assert told(with_channel().receive(MIXED, 0)) == MIXED_TOLD


def test_runs_are_found_in_place() -> None:
    core = with_channel()
    events = core.receive(b"".join(delivery(n, b"x" * n) for n in range(1, 101)), 0)
    assert len(events) == 1 and isinstance(events[0], Arrived) and events[0].count == 100
    assert delivery_tag(events[0].data, int(read_i32_le(events[0].offsets, 4 * 99))) == 100


@given(st.lists(st.integers(1, len(MIXED) - 1), max_size=30))
@BOUNDED
def test_any_split_of_the_bytes_gives_the_same_events(cuts: list[int]) -> None:
    core = with_channel()
    places = [0, *sorted(set(cuts)), len(MIXED)]
    events: list[ClientEvent] = []
    for start, end in pairwise(places):
        events += core.receive(MIXED[start:end], 0)
    assert told(events) == MIXED_TOLD


def test_byte_by_byte_gives_the_same_events() -> None:
    core = with_channel()
    events: list[ClientEvent] = []
    for pos in range(len(MIXED)):
        events += core.receive(MIXED[pos : pos + 1], 0)
    assert told(events) == MIXED_TOLD


def test_contents_of_two_channels_may_be_mixed_frame_by_frame() -> None:
    core = with_channel()
    assert core.open_channel() == 2
    body = bytes(200_000)
    big = [
        method_frame(1, BasicDeliver("a", 1, False, "", b"q")),
        header_frame(1, len(body)),
        frame(3, 1, body[:100_000]),
        frame(3, 1, body[100_000:]),
    ]
    small = [
        method_frame(2, ChannelOpenOk()),
        method_frame(2, BasicDeliver("b", 1, False, "", b"q")),
        header_frame(2, 1),
        frame(3, 2, b"x"),
    ]
    events: list[ClientEvent] = []
    for one, other in zip(big, small, strict=True):
        events += core.receive(one + other, 0)
    assert [(each[0], each[-1]) for each in told(events)] == [
        (2, ChannelOpenOk()),
        (1, body),
        (2, b"x"),
    ]


WRONG: list[tuple[bytes, str]] = [
    (frame(3, 1, b"x"), "505 a frame of kind 3 without a method before it"),
    (header_frame(1, 0), "505 a frame of kind 2 without"),
    (method_frame(1, BasicDeliver("t", 1)) + frame(3, 1, b"x"), "505 a frame of kind 3 within"),
    (method_frame(1, BasicDeliver("t", 1)) * 2, "505 a frame of kind 1 within a content"),
    (
        method_frame(1, BasicDeliver("t", 1)) + header_frame(1, 2) + frame(3, 1, b"xyz"),
        "505 content body frame of 3 bytes where 2 are left",
    ),
    (
        method_frame(1, BasicDeliver("t", 1)) + header_frame(1, 2) + frame(3, 1, b""),
        "505 empty content body frame",
    ),
    (
        method_frame(1, BasicDeliver("t", 1)) + header_frame(1, 1001) + frame(3, 1, b"x"),
        "506 message size 1001 is larger than the limit of this client (1000)",
    ),
    (
        method_frame(1, BasicDeliver("t", 1)) + frame(2, 1, b"\x00\x3d" + bytes(14)),
        "501 cannot decode content header",
    ),
    (frame(1, 1, b"\x00\x3c\x00\x3c\xff"), "501 cannot decode a method with content"),
    (frame(1, 1, b"\x00\x3c\x00\x3c" + bytes(11)), "501 cannot decode a method with content"),
    (frame(1, 1, b"\x00\x3c\x00\x32\x00"), "501 cannot decode a method with content"),
    (frame(1, 1, b"\x00\x3c\x00\x47" + bytes(9)), "501 cannot decode a method with content"),
    (method_frame(1, BasicPublish("", b"q")), "503 basic.publish from a broker"),
    (frame(1, 1, b"\x00\x63\x00\x01"), "503 unknown method 99.1"),
    (frame(1, 1, b"\x00"), "501 "),
    (b"\x01\x00\x01\x00\x10\x00\x00", "501 a frame of 1048576 bytes where 131072"),
    (method_frame(0, START), "503 connection.start while running"),
    (method_frame(0, ConnectionCloseOk()), "503 connection.close-ok while running"),
    (method_frame(9, ChannelOpenOk()), "504 channel 9 is not open"),
]


@pytest.mark.parametrize(("data", "text"), WRONG)
def test_a_broker_that_breaks_the_protocol_ends_the_connection(data: bytes, text: str) -> None:
    assert failure(with_channel(ClientLimits(message_bytes_max=1000)), data).startswith(text)


@given(st.binary(max_size=200))
@BOUNDED
def test_garbage_raises_nothing(data: bytes) -> None:
    core = with_channel()
    core.receive(data, 0)
    core.tick(1_000_000)
    core.data_to_send()


def test_unfinished_contents_are_bounded_together() -> None:
    core = with_channel(ClientLimits(held_bytes_max=300_000))
    assert core.open_channel() == 2
    core.receive(method_frame(2, ChannelOpenOk()), 0)
    for channel in (1, 2):
        core.receive(
            method_frame(channel, BasicDeliver("t", 1)) + header_frame(channel, 400_000), 0
        )
    assert core.receive(frame(3, 1, bytes(131_000)), 0) == []
    assert core.receive(frame(3, 2, bytes(131_000)), 0) == []
    assert "unfinished messages hold more than 300000" in failure(core, frame(3, 1, bytes(131_000)))


# What goes out


def test_messages_are_written_on_their_channel_in_frames_that_the_broker_takes() -> None:
    core = running(ConnectionTune(10, 4096, 0))
    channel = core.open_channel()
    core.data_to_send()
    body = bytes(range(256)) * 40
    core.publish(channel, [build("x", b"k", TYPED, body, bits=1), build("", b"q", BARE, b"")])
    data = core.data_to_send()
    assert methods_in(data) == [
        (channel, BasicPublish("x", b"k", True)),
        (channel, BasicPublish("", b"q")),
    ]
    sizes, bodies, pos = [], b"", 0
    while pos < len(data):
        size = int.from_bytes(data[pos + 3 : pos + 7], "big")
        assert int.from_bytes(data[pos + 1 : pos + 3], "big") == channel
        if data[pos] == 3:
            bodies += data[pos + 7 : pos + 7 + size]
            sizes.append(size + 8)
        pos += 8 + size
    assert bodies == body and max(sizes) == 4096


def test_settlements_are_the_methods_of_the_standard() -> None:
    core = with_channel()
    core.settle(1, ACK, 3, True, False)
    core.settle(1, NACK, 4, False, True)
    core.settle(1, REJECT, 5, False, False)
    assert [repr(method) for _, method in methods_in(core.data_to_send())] == [
        "BasicAck(delivery_tag=3, multiple=True)",
        "BasicNack(delivery_tag=4, multiple=False, requeue=True)",
        "BasicReject(delivery_tag=5, requeue=False)",
    ]


# Time and the end


def test_heartbeats_are_sent_in_time_and_missed_ones_end_the_connection() -> None:
    core = running(ConnectionTune(0, 0, 10))
    assert core.tick(1_000) == [] and core.data_to_send() == b""
    assert core.tick(6_000) == [] and core.data_to_send() == HEARTBEAT
    core.receive(HEARTBEAT, 15_000)
    assert core.tick(34_999) == []
    assert told(core.tick(35_000))[0][:2] == ("failed", 320)
    assert core.state_name == "closed"


def test_while_reading_is_paused_silence_is_nobodys_fault() -> None:
    core = running(ConnectionTune(0, 0, 10))
    core.pause_reading()
    assert core.tick(100_000) == []
    core.resume_reading(100_000)
    assert core.tick(119_000) == []
    assert core.tick(120_000) != []


@pytest.mark.parametrize(
    "finish",
    [
        lambda core: core.receive(method_frame(0, ConnectionCloseOk()), 1),
        lambda core: core.tick(10_000),
    ],
)
def test_a_close_is_over_when_it_is_answered_or_in_time(
    finish: Callable[[ClientConnection], list[ClientEvent]],
) -> None:
    core = with_channel()
    core.close()
    [(_, close)] = methods_in(core.data_to_send())
    assert isinstance(close, ConnectionClose) and close.reply_code == 200
    assert core.receive(delivery(1, b"late") + HEARTBEAT, 0) == []
    assert core.tick(9_999) == []
    assert told(finish(core)) == [("Ended",)]
    assert core.state_name == "closed"


def test_a_broker_that_closes_tells_why() -> None:
    core = with_channel()
    close = method_frame(0, ConnectionClose(320, "CONNECTION_FORCED - shutdown", 0, 0))
    assert told(core.receive(close, 0)) == [
        ("closed", 320, "CONNECTION_FORCED - shutdown"),
        ("Ended",),
    ]
    assert methods_in(core.data_to_send()) == [(0, ConnectionCloseOk())]
    with pytest.raises(ProtocolError, match="the connection is closed"):
        core.open_channel()
