"""A cheap blocking client of RabbitMQ's stream protocol, for measuring any broker that speaks it.

Publishes are frames that were made once: a publisher without a reference may use ids again.
"""

import select
import socket
import time
from collections.abc import Callable
from struct import Struct
from typing import Final

from warren.wire.stream import codes
from warren.wire.stream.codes import RESPONSE, VERSION_1

HEAD: Final = Struct(">IHH")  # size, key, version
U16: Final = Struct(">H")
U32: Final = Struct(">I")
U64: Final = Struct(">Q")
FIRST: Final = 1  # kinds of an offset specification
NEXT: Final = 3
OFFSET: Final = 4
TIMESTAMP: Final = 5
READ_BYTES: Final = 1 << 20
CHUNK_HEAD_BYTES: Final = 48  # before the entries of a chunk
CONFIRM_AT: Final = 8  # of the count in a confirm without its size: key, version, publisher, count


def text(value: str) -> bytes:
    return U16.pack(len(value)) + value.encode()


def amqp_message(body: bytes, number: int | None = None) -> bytes:
    """A message of AMQP 1.0 with one data section, and an application property `n`."""
    properties = b""
    if number is not None:
        entry = b"\xa1\x01n\x71" + number.to_bytes(4, "big")
        properties = b"\x00\x53\x74\xc1" + bytes((len(entry) + 1, 2)) + entry
    size = bytes((0xA0, len(body))) if len(body) < 256 else b"\xb0" + U32.pack(len(body))
    return properties + b"\x00\x53\x75" + size + body


def publish_frame(messages: list[bytes], publisher: int = 0) -> bytes:
    entries = [
        U64.pack(number) + U32.pack(len(each)) + each for number, each in enumerate(messages)
    ]
    return frame(codes.PUBLISH, bytes((publisher,)) + U32.pack(len(messages)), *entries)


def batch_frame(messages: list[bytes], batches: int, publisher: int = 0) -> bytes:
    """So many sub-entry batches of these messages, not compressed: one id for each batch."""
    inside = b"".join([U32.pack(len(each)) + each for each in messages])
    entry = b"\x80" + U16.pack(len(messages)) + U32.pack(len(inside)) + U32.pack(len(inside))
    entries = [U64.pack(number) + entry + inside for number in range(batches)]
    return frame(codes.PUBLISH, bytes((publisher,)) + U32.pack(batches), *entries)


def frame(key: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return HEAD.pack(len(body) + 4, key, VERSION_1) + body


class StreamClient:
    """One connection. `confirmed`, `chunks`, `messages` and `read_bytes` count what came."""

    def __init__(self, port: int) -> None:
        self.confirmed = 0
        self.chunks = 0
        self.messages = 0
        self.read_bytes = 0
        self.on_chunk: Callable[[int], None] | None = None  # subscription
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = bytearray()
        self._answers: list[bytes] = []
        self._correlation = 0
        self._log_in()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def _log_in(self) -> None:
        self.ask(codes.PEER_PROPERTIES, U32.pack(0))
        self.ask(codes.SASL_HANDSHAKE)
        login = b"\0guest\0guest"
        self.send(
            self._question(codes.SASL_AUTHENTICATE, text("PLAIN"), U32.pack(len(login)), login)
        )
        tune = None
        while tune is None:
            self.read()
            tune = next((each for each in self._answers if _key(each) == codes.TUNE), None)
        self._answers.clear()
        self.send(frame(codes.TUNE, U32.pack(1 << 20), U32.pack(0)))
        self.ask(codes.OPEN, text("/"))

    def _question(self, key: int, *parts: bytes) -> bytes:
        self._correlation += 1
        return frame(key, U32.pack(self._correlation), *parts)

    def ask(self, key: int, *parts: bytes) -> bytes:
        """Send a request and wait for its answer, which must be OK; what is behind its code."""
        self.send(self._question(key, *parts))
        while True:
            for place, each in enumerate(self._answers):
                if _key(each) == key | RESPONSE:
                    del self._answers[place]
                    (code,) = U16.unpack_from(each, 8)
                    if code != 1:
                        raise RuntimeError(f"request {key} is answered with code {code}")
                    return each[10:]
            self.read()

    def create(self, stream: str, **arguments: str) -> None:
        pairs = [text(key.replace("_", "-")) + text(value) for key, value in arguments.items()]
        self.ask(codes.CREATE, text(stream), U32.pack(len(pairs)), *pairs)

    def delete(self, stream: str) -> None:
        self.ask(codes.DELETE, text(stream))

    def declare_publisher(self, stream: str, publisher: int = 0) -> None:
        self.ask(codes.DECLARE_PUBLISHER, bytes((publisher,)), text(""), text(stream))

    def subscribe(
        self, stream: str, kind: int, value: int = 0, credit: int = 10, number: int = 0
    ) -> None:
        where = U16.pack(kind) + (U64.pack(value) if kind >= OFFSET else b"")
        self.ask(codes.SUBSCRIBE, bytes((number,)), text(stream), where, U16.pack(credit))

    def credit(self, count: int = 1, number: int = 0) -> None:
        self.send(frame(codes.CREDIT, bytes((number,)), U16.pack(count)))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> None:
        """Take in what comes next; credit for each chunk."""
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise RuntimeError("the broker closed the connection")
        self._data += data
        at = 0
        while len(self._data) - at >= 4:
            (size,) = U32.unpack_from(self._data, at)
            if len(self._data) - at < 4 + size:
                break
            self._take(at + 4, size)
            at += 4 + size
        del self._data[:at]

    def read_within(self, seconds: float) -> None:
        """Take in what comes in that time, if anything does."""
        if select.select([self._socket], [], [], seconds)[0]:
            self.read()

    def _take(self, at: int, size: int) -> None:
        (key,) = U16.unpack_from(self._data, at)
        if key == codes.PUBLISH_CONFIRM:
            self.confirmed += U32.unpack_from(self._data, at + 5)[0]
        elif key == codes.DELIVER:
            number = self._data[at + 4]
            (count,) = U32.unpack_from(self._data, at + 5 + 4)
            self.chunks += 1
            self.messages += count
            self.read_bytes += size - 5 - CHUNK_HEAD_BYTES
            if self.on_chunk is not None:
                self.on_chunk(number)
            self.credit(1, number)
        elif key == codes.PUBLISH_ERROR:
            raise RuntimeError("a publish was refused")
        elif key == codes.HEARTBEAT:
            self.send(frame(codes.HEARTBEAT))
        else:
            self._answers.append(bytes(self._data[at : at + size]))

    def publish_for(self, seconds: float, data: bytes, per_frame: int, window: int) -> float:
        """Publish the frame again and again, `window` messages or batches under way; confirmed per
        second."""
        begun, first = time.monotonic(), self.confirmed
        sent = first
        while time.monotonic() - begun < seconds:
            while sent - self.confirmed + per_frame <= window:
                self.send(data)
                sent += per_frame
            self.read()
        elapsed = time.monotonic() - begun
        rate = (self.confirmed - first) / elapsed
        while self.confirmed < sent:
            self.read()
        return rate

    def publish_count(self, frames: int, data: bytes, per_frame: int, window: int) -> None:
        """Publish the frame so many times, and wait for all confirms."""
        first = self.confirmed
        for number in range(1, frames + 1):
            self.send(data)
            while number * per_frame - (self.confirmed - first) > window:
                self.read()
        while self.confirmed - first < frames * per_frame:
            self.read()


def _key(body: bytes) -> int:
    return int(U16.unpack_from(body, 0)[0])
