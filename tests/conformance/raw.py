"""A bare AMQP 0-9-1 client for what no library can be made to send. Shares no code with Warren.

Bytes go out as given; frames come in as (kind, channel, payload). Method ids are written
`(class, method)` as in the standard.
"""

import socket
import struct
from dataclasses import dataclass
from typing import Final, Self

HEADER: Final = b"AMQP\x00\x00\x09\x01"
METHOD: Final = 1
CONTENT_HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
END: Final = b"\xce"

START: Final = (10, 10)
START_OK: Final = (10, 11)
TUNE: Final = (10, 30)
TUNE_OK: Final = (10, 31)
OPEN: Final = (10, 40)
OPEN_OK: Final = (10, 41)
CLOSE: Final = (10, 50)
CLOSE_OK: Final = (10, 51)
CHANNEL_OPEN: Final = (20, 10)
CHANNEL_OPEN_OK: Final = (20, 11)
CHANNEL_CLOSE: Final = (20, 40)
CHANNEL_CLOSE_OK: Final = (20, 41)
QUEUE_DECLARE: Final = (50, 10)
QUEUE_DECLARE_OK: Final = (50, 11)
QUEUE_BIND: Final = (50, 20)
QUEUE_DELETE: Final = (50, 40)
QUEUE_DELETE_OK: Final = (50, 41)
BASIC_CONSUME: Final = (60, 20)
BASIC_CONSUME_OK: Final = (60, 21)
BASIC_PUBLISH: Final = (60, 40)
BASIC_DELIVER: Final = (60, 60)
BASIC_GET: Final = (60, 70)
BASIC_GET_OK: Final = (60, 71)
BASIC_CANCEL: Final = (60, 30)

MethodId = tuple[int, int]


class PeerClosed(Exception):
    """The broker closed the socket."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it came in."""

    kind: int
    channel: int
    payload: bytes

    @property
    def method(self) -> MethodId:
        assert self.kind == METHOD, f"a frame of kind {self.kind}"
        return int.from_bytes(self.payload[:2]), int.from_bytes(self.payload[2:4])

    @property
    def arguments(self) -> bytes:
        return self.payload[4:]

    @property
    def reply(self) -> tuple[int, str]:
        """Code and text, if this is connection.close or channel.close."""
        assert self.method in (CLOSE, CHANNEL_CLOSE), f"method {self.method}"
        length = self.payload[6]
        return int.from_bytes(self.payload[4:6]), self.payload[7 : 7 + length].decode()


def short(text: str) -> bytes:
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded


def long(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def frame(kind: int, channel: int, payload: bytes, end: bytes = END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def method(channel: int, method_id: MethodId, arguments: bytes = b"") -> bytes:
    return frame(METHOD, channel, struct.pack(">HH", *method_id) + arguments)


def declare(channel: int, queue: str, flags: int = 0, table: bytes = b"") -> bytes:
    """queue.declare; flags are passive 1, durable 2, exclusive 4, auto-delete 8, no-wait 16."""
    arguments = b"\x00\x00" + short(queue) + bytes([flags]) + long(table)
    return method(channel, QUEUE_DECLARE, arguments)


def delete(channel: int, queue: str) -> bytes:
    return method(channel, QUEUE_DELETE, b"\x00\x00" + short(queue) + b"\x00")


def consume(channel: int, queue: str, tag: str, flags: int = 0) -> bytes:
    """basic.consume; flags are no-local 1, no-ack 2, exclusive 4, no-wait 8."""
    arguments = b"\x00\x00" + short(queue) + short(tag) + bytes([flags]) + long(b"")
    return method(channel, BASIC_CONSUME, arguments)


def publish_method(channel: int, exchange: str, routing_key: str, flags: int = 0) -> bytes:
    arguments = b"\x00\x00" + short(exchange) + short(routing_key) + bytes([flags])
    return method(channel, BASIC_PUBLISH, arguments)


def content_header(channel: int, size: int, properties: bytes = b"\x00\x00") -> bytes:
    return frame(CONTENT_HEADER, channel, struct.pack(">HHQ", 60, 0, size) + properties)


def body(channel: int, content: bytes) -> bytes:
    return frame(BODY, channel, content)


def publish(channel: int, exchange: str, routing_key: str, content: bytes) -> bytes:
    """A whole message of at most one body frame."""
    sent = publish_method(channel, exchange, routing_key) + content_header(channel, len(content))
    return sent + body(channel, content) if content else sent


def start_ok(capabilities: bytes = b"", user: str = "guest", password: str = "guest") -> bytes:
    """connection.start-ok by PLAIN; `capabilities` are the fields of that table."""
    table = short("capabilities") + b"F" + long(capabilities) if capabilities else b""
    secret = b"\x00" + user.encode() + b"\x00" + password.encode()
    arguments = long(table) + short("PLAIN") + long(secret) + short("en_US")
    return method(0, START_OK, arguments)


def yes(name: str) -> bytes:
    """A true field of a table."""
    return short(name) + b"t\x01"


def tune_ok(channel_max: int = 2047, frame_max: int = 131_072, heartbeat: int = 0) -> bytes:
    return method(0, TUNE_OK, struct.pack(">HIH", channel_max, frame_max, heartbeat))


def open_vhost(vhost: str = "/") -> bytes:
    return method(0, OPEN, short(vhost) + b"\x00\x00")


def channel_open(channel: int) -> bytes:
    return method(channel, CHANNEL_OPEN, b"\x00")


class RawClient:
    """One socket to the broker; a context manager that closes it."""

    def __init__(self, host: str, port: int, seconds: float = 10.0) -> None:
        self.socket = socket.create_connection((host, port), seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> Self:
        self.socket.sendall(b"".join(parts))
        return self

    def read_exactly(self, count: int) -> bytes:
        while len(self.received) < count:
            try:
                chunk = self.socket.recv(65_536)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise PeerClosed(f"after {self.received!r}")
            self.received += chunk
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def read(self) -> Frame:
        """The next frame that is no heartbeat."""
        while True:
            kind, channel, size = struct.unpack(">BHI", self.read_exactly(7))
            payload = self.read_exactly(size)
            assert self.read_exactly(1) == END
            if kind != HEARTBEAT:
                return Frame(kind, channel, payload)

    def read_heartbeat(self) -> None:
        """Wait for a heartbeat frame."""
        while self.read_exactly(8)[0] != HEARTBEAT:
            continue

    def expect(self, method_id: MethodId) -> Frame:
        """The next frame, which must be this method."""
        got = self.read()
        if got.method != method_id and got.method in (CLOSE, CHANNEL_CLOSE):
            raise AssertionError(f"closed: {got.reply}")
        assert got.method == method_id, f"{got.method} instead of {method_id}"
        return got

    def expect_connection_close(self) -> tuple[int, str]:
        """Code and text of the connection.close that comes next; answers it and sees the end."""
        reply = self.expect(CLOSE).reply
        self.send(method(0, CLOSE_OK))
        self.expect_end()
        return reply

    def expect_channel_close(self, channel: int = 1) -> tuple[int, str]:
        """Code and text of the channel.close that comes next; answers it."""
        reply = self.expect(CHANNEL_CLOSE).reply
        self.send(method(channel, CHANNEL_CLOSE_OK))
        return reply

    def expect_end(self) -> None:
        """The broker closes the socket, whatever it still sends before that."""
        try:
            while True:
                self.read_exactly(1)
        except PeerClosed:
            return

    def expect_end_or_close(self) -> None:
        """The broker ends the connection, with or without a connection.close before it."""
        try:
            assert self.read().method == CLOSE
            self.send(method(0, CLOSE_OK))
        except (PeerClosed, BrokenPipeError, ConnectionResetError):
            return
        self.expect_end()

    def begin(self, capabilities: bytes = b"", **tuning: int) -> Self:
        """Log in and open the vhost."""
        self.send(HEADER)
        self.expect(START)
        self.send(start_ok(capabilities))
        self.expect(TUNE)
        self.send(tune_ok(**tuning), open_vhost())
        self.expect(OPEN_OK)
        return self

    def begin_channel(self, capabilities: bytes = b"", **tuning: int) -> Self:
        """Log in and open channel 1."""
        self.begin(capabilities, **tuning).send(channel_open(1))
        self.expect(CHANNEL_OPEN_OK)
        return self
