"""Bytes as a client sends them, and events in a form that compares."""

from hypothesis import settings

from warren.wire.amqp091.connection import Connection, Limits
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.events import (
    Called,
    ChannelFailed,
    Event,
    Failed,
    LoginRequested,
    OpenRequested,
    Publishes,
    Settles,
)
from warren.wire.amqp091.methods import (
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    decode_method,
)
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.errors import ProtocolError

BOUNDED = settings(max_examples=60, deadline=None, database=None)
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def frame(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    head = bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big")
    return head + payload + bytes([end])


def method_frame(channel: int, method: Method) -> bytes:
    return frame(1, channel, method.encode())


def header_frame(channel: int, body_bytes: int, properties: BasicProperties | None = None) -> bytes:
    values = (properties or BasicProperties()).encode()
    return frame(2, channel, b"\x00\x3c\x00\x00" + body_bytes.to_bytes(8, "big") + values)


def message(
    channel: int,
    body: bytes,
    routing_key: bytes = b"q",
    properties: BasicProperties | None = None,
    exchange: str = "",
    mandatory: bool = False,
    body_frame_bytes: int = 131_064,
) -> bytes:
    """The frames of one publish."""
    frames = method_frame(channel, BasicPublish(exchange, routing_key, mandatory))
    frames += header_frame(channel, len(body), properties)
    for at in range(0, len(body), body_frame_bytes):
        frames += frame(3, channel, body[at : at + body_frame_bytes])
    return frames


def split_frames(data: bytes) -> list[tuple[int, int, bytes]]:
    """Kind, channel and payload of each frame; the bytes must be whole frames."""
    frames = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 3 : at + 7], "big")
        assert data[at + 7 + size] == 0xCE
        channel = int.from_bytes(data[at + 1 : at + 3], "big")
        frames.append((data[at], channel, data[at + 7 : at + 7 + size]))
        at += 8 + size
    assert at == len(data)
    return frames


def sent_methods(connection: Connection) -> list[tuple[int, Method]]:
    """The methods that wait to be sent; takes them."""
    frames = split_frames(connection.data_to_send())
    return [(channel, decode_method(payload)) for kind, channel, payload in frames if kind == 1]


def login(limits: Limits | None = None, **capabilities: bool) -> Connection:
    """A connection at LoginRequested, its output taken."""
    connection = Connection(limits or Limits(), {}, "PLAIN AMQPLAIN", 0)
    connection.start()
    properties: dict[str, object] = {"capabilities": dict(capabilities)}
    start_ok = ConnectionStartOk(properties, "PLAIN", b"\x00a\x00b", "en_US")
    connection.receive(method_frame(0, start_ok), 0)
    connection.data_to_send()
    return connection


def opened(
    *channels: int, limits: Limits | None = None, frame_max: int = 0, heartbeat_s: int = 60
) -> Connection:
    """A connection in state running with these channels open, its output taken."""
    connection = login(limits)
    connection.accept_login()
    connection.receive(method_frame(0, ConnectionTuneOk(0, frame_max, heartbeat_s)), 0)
    connection.receive(method_frame(0, ConnectionOpen("/")), 0)
    connection.accept_open()
    for channel in channels:
        connection.receive(method_frame(channel, ChannelOpen()), 0)
    connection.data_to_send()
    return connection


def error_of(event: Event) -> ProtocolError:
    assert isinstance(event, Failed | ChannelFailed)
    return event.error


def failure(connection: Connection, data: bytes) -> str:
    """Feed bytes that must fail the connection; the text of the connection.close it sends."""
    events = connection.receive(data, 0)
    assert isinstance(events[-1], Failed)
    close = sent_methods(connection)[-1][1]
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == events[-1].error.code
    return f"{close.reply_code} {close.reply_text}"


def channel_failure(connection: Connection, channel: int, data: bytes) -> str:
    """Feed bytes that must fail the channel; the text of the channel.close it sends."""
    events = connection.receive(data, 0)
    last = events[-1]
    assert isinstance(last, ChannelFailed)
    assert last.channel == channel
    closed, close = sent_methods(connection)[-1]
    assert isinstance(close, ChannelClose)
    assert closed == channel
    return f"{close.reply_code} {close.reply_text}"


def messages_of(run: Publishes) -> list[tuple[object, ...]]:
    """Every message of a run: channel, key, info, exchange, routing key, properties, body."""
    places = [
        int.from_bytes(run.offsets[at : at + 4], "little") for at in range(0, len(run.offsets), 4)
    ]
    assert run.firsts[0] == 0
    assert len(run.firsts) == len(run.keys) == len(run.infos)
    result: list[tuple[object, ...]] = []
    entry = -1
    for number in range(run.count):
        if entry + 1 < len(run.firsts) and run.firsts[entry + 1] == number:
            entry += 1
        parts = extract(run.data, places[number], places[number + 1])
        result.append(("publish", run.channel, run.keys[entry], run.infos[entry], *parts))
    return result


def plain(events: list[Event]) -> list[tuple[object, ...]]:
    """Events without the cuts between runs: per message, per acknowledged tag."""
    result: list[tuple[object, ...]] = []
    for event in events:
        match event:
            case Publishes():
                result += messages_of(event)
            case Settles():
                for tag in range(event.first, event.last + 1):
                    result.append(
                        ("settle", event.channel, event.kind, tag, event.multiple, event.requeue)
                    )
            case Called():
                result.append(("called", event.channel, event.method))
            case LoginRequested():
                result.append(("login", event.mechanism, event.response))
            case OpenRequested():
                result.append(("open", event.vhost))
            case ChannelFailed():
                result.append(("channel failed", event.channel, str(event.error)))
            case Failed():
                result.append(("failed", str(event.error)))
            case _:
                result.append(("ended",))
    return result
