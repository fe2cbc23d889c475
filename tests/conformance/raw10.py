"""A bare AMQP 1.0 client for what no library can be made to send. Shares no code with Warren.

Values go through proton's codec; frames are made and taken apart here. A performative is its code
and the list of its fields; trailing fields may be left out.
"""

import socket
from dataclasses import dataclass
from typing import Any, Final, Self

from proton import Data, Described, Message, symbol, ubyte, uint, ulong, ushort

SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18
ERROR: Final = 0x1D
ACCEPTED: Final = 0x24
REJECTED: Final = 0x25
RELEASED: Final = 0x26
SOURCE: Final = 0x28
TARGET: Final = 0x29
SASL_INIT: Final = 0x41
SASL_OUTCOME: Final = 0x44
SENDER: Final = False  # roles
RECEIVER: Final = True
MESSAGE: Final = b"\x00\x53\x75\xa0\x01m"
DURABLE_MESSAGE: Final = b"\x00\x53\x70\xc0\x02\x01\x41" + MESSAGE
WINDOW: Final = 10_000
SECONDS: Final = 60.0


class PeerClosed(Exception):
    """The broker closed the socket."""


def encode(value: object) -> bytes:
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def owned(value: Any) -> Any:
    """The value with its binaries copied: proton's point into memory that it frees."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list):
        return [owned(each) for each in value]
    if isinstance(value, Described):
        return Described(value.descriptor, owned(value.value))
    return value


def described(code: int, *fields: Any) -> Any:
    return Described(ulong(code), list(fields))


def source(address: str | None) -> Any:
    return described(SOURCE, address)


def target(address: str | None) -> Any:
    return described(TARGET, address)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it came in."""

    channel: int
    code: int
    fields: list[Any]
    payload: bytes

    def field(self, place: int) -> Any:
        return self.fields[place] if place < len(self.fields) else None

    @property
    def error(self) -> str | None:
        """The condition, if this is a detach, an end or a close."""
        error = self.field(2 if self.code == DETACH else 0)
        return None if error is None else str(error.value[0])


class Raw10:
    """One socket. Invariant: `_input` begins with a frame."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), SECONDS)
        self._input = b""
        self.next_id = 0  # of the next delivery that is sent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def cut(self) -> None:
        """Close the socket with nothing said."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def frame(self, code: int, *fields: object, channel: int = 0, payload: bytes = b"") -> bytes:
        body = encode(described(code, *fields)) + payload
        kind = 1 if code == SASL_INIT else 0
        return (len(body) + 8).to_bytes(4) + bytes((2, kind)) + channel.to_bytes(2) + body

    def call(self, code: int, *fields: object, channel: int = 0) -> None:
        self.send(self.frame(code, *fields, channel=channel))

    def take(self, size: int) -> bytes:
        while len(self._input) < size:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError as error:
                raise PeerClosed from error
            if not data:
                raise PeerClosed
            self._input += data
        taken, self._input = self._input[:size], self._input[size:]
        return taken

    def read(self) -> Frame:
        """The next frame that is no heartbeat."""
        while True:
            head = self.take(8)
            body = self.take(int.from_bytes(head[:4]) - 8)
            if body:
                break
        data = Data()
        size = data.decode(body)
        data.rewind()
        data.next()
        found: Any = data.get_object()
        value = [owned(each) for each in found.value]
        return Frame(int.from_bytes(head[6:]), int(found.descriptor), value, body[size:])

    def expect(self, code: int) -> Frame:
        """The next frame, which must be that."""
        frame = self.read()
        assert frame.code == code, f"{frame.code:#x} {frame.fields}"
        return frame

    def until(self, code: int) -> Frame:
        """The next frame of that kind; flows of others before it do not matter."""
        while True:
            frame = self.read()
            if frame.code == code:
                return frame

    def closed(self) -> bool:
        """Whether the broker closes the socket, with nothing more to say."""
        try:
            self.take(1)
        except PeerClosed:
            return True
        return False

    # Steps that many tests begin with

    def login(self, user: str = "guest", password: str | None = None) -> Frame:
        """The SASL outcome."""
        self.send(SASL_HEADER)
        assert self.take(8) == SASL_HEADER
        self.read()
        secret = user if password is None else password
        self.call(SASL_INIT, symbol("PLAIN"), f"\0{user}\0{secret}".encode())
        return self.expect(SASL_OUTCOME)

    def open(self, user: str = "guest", hostname: str | None = None, **limits: int) -> Frame:
        """Log in and open; the broker's answer, which may be a close."""
        assert int(self.login(user).field(0)) == 0
        self.send(AMQP_HEADER)
        assert self.take(8) == AMQP_HEADER
        idle_ms = limits.get("idle_ms", 0)
        fields = ("raw", hostname, uint(65536), ushort(9), uint(idle_ms) if idle_ms else None)
        self.call(OPEN, *fields)
        return self.expect(OPEN)

    def begin(self, channel: int = 0, window: int = WINDOW) -> Frame:
        self.call(BEGIN, None, uint(0), uint(window), uint(WINDOW), channel=channel)
        return self.expect(BEGIN)

    def attached(self) -> Frame:
        """The broker's attach; flows of other links may come before it."""
        frame = self.read()
        while frame.code == FLOW:
            frame = self.read()
        assert frame.code == ATTACH, f"{frame.code:#x} {frame.fields}"
        return frame

    def attach_sender(self, address: str | None, handle: int = 0, settled: int = 2) -> Frame:
        """The broker's attach."""
        fields = (f"s{handle}", uint(handle), SENDER, ubyte(settled), ubyte(0))
        rest = (source(None), target(address), None, None, uint(0))
        self.call(ATTACH, *fields, *rest)
        return self.attached()

    def attach_receiver(self, address: str | None, handle: int = 0, settled: int = 2) -> Frame:
        fields = (f"r{handle}", uint(handle), RECEIVER, ubyte(settled), ubyte(0))
        self.call(ATTACH, *fields, source(address), target(None))
        return self.attached()

    def transfer(
        self, handle: int = 0, settled: bool = False, payload: bytes = DURABLE_MESSAGE
    ) -> bytes:
        """The bytes of the next transfer."""
        delivery_id = uint(self.next_id)
        self.next_id += 1
        tag = self.next_id.to_bytes(4)
        fields = (uint(handle), delivery_id, tag, uint(0), settled)
        return self.frame(TRANSFER, *fields, payload=payload)

    def credit(
        self,
        credit: int,
        count: int = 0,
        handle: int = 0,
        drain: bool = False,
        echo: bool = False,
    ) -> None:
        """A flow for a link that we receive on; `count` is its delivery-count."""
        session = (uint(0), uint(WINDOW), uint(0), uint(WINDOW))
        link = (uint(handle), uint(count), uint(credit), None, drain, echo)
        self.call(FLOW, *session, *link)

    def settle(self, first: int, last: int, code: int, settled: bool = True) -> None:
        """Our outcome for deliveries that came."""
        self.call(DISPOSITION, RECEIVER, uint(first), uint(last), settled, described(code))


def link_flow(frame: Frame) -> tuple[int, int, bool]:
    """Delivery-count, credit and drain of a link's flow."""
    return int(frame.field(5)), int(frame.field(6)), bool(frame.field(8))


def attach_browser(raw: Raw10, queue: str, settled: int = 0, rcv_settle_mode: int = 0) -> Frame:
    browsed = described(SOURCE, f"/queues/{queue}", None, None, None, None, None, symbol("copy"))
    modes = (ubyte(settled), ubyte(rcv_settle_mode))
    raw.call(ATTACH, "b0", uint(0), RECEIVER, *modes, browsed, target(None))
    return raw.expect(ATTACH)


def body_of(frame: Frame) -> bytes:
    message: Any = Message()
    message.decode(frame.payload)
    return bytes(message.body)


def browse(raw: Raw10, credit: int, count: int = 0) -> tuple[list[bytes], int]:
    """Drain the link: bodies, and the delivery-count of the flow that ends it."""
    raw.credit(credit, count, drain=True)
    bodies: list[bytes] = []
    while True:
        frame = raw.read()
        if frame.code == TRANSFER:
            bodies.append(body_of(frame))
        elif frame.code == FLOW:
            end, left, _ = link_flow(frame)
            assert left == 0
            return bodies, end
