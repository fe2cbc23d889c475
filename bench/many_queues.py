"""A node with very many queues: `python -m bench.many_queues --help`; Warren alone.

Declares durable queues and binds each of them a few times over AMQP, on many channels at once, then
stops and starts the node: how quick that is, how much memory a queue takes, and the longest turn of
the loop while they are declared.
"""

import argparse
import json
import shutil
import socket
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from bench.run import machine
from bench.turns import buckets, longest_turn_ms
from warren.testing.node import Node

CHANNELS: Final = 500
EXCHANGE: Final = b"amq.direct"
METHOD: Final = 1
FRAME_END: Final = b"\xce"
QUEUE_DECLARE_OK: Final = (50, 11)
QUEUE_BIND_OK: Final = (50, 21)


def short(text: bytes) -> bytes:
    """A short string."""
    return bytes((len(text),)) + text


def frame(channel: int, class_id: int, method_id: int, arguments: bytes) -> bytes:
    """A method frame."""
    payload = struct.pack(">HH", class_id, method_id) + arguments
    return struct.pack(">BHI", METHOD, channel, len(payload)) + payload + FRAME_END


class Wire:
    """A connection with many channels, each with one method under way at most."""

    def __init__(
        self, port: int, channels: int = CHANNELS, tls: ssl.SSLContext | None = None
    ) -> None:
        self._channels = channels
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
        self._received = b""
        self._socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._expect(10, 10)
        login = short(b"PLAIN") + struct.pack(">I", 12) + b"\x00guest\x00guest" + short(b"en_US")
        self._send(frame(0, 10, 11, struct.pack(">I", 0) + login))
        self._expect(10, 30)
        self._send(frame(0, 10, 31, struct.pack(">HIH", 2047, 131072, 0)))
        self._send(frame(0, 10, 40, short(b"/") + short(b"") + b"\x00"))
        self._expect(10, 41)
        for channel in range(1, channels + 1):
            self._send(frame(channel, 20, 10, short(b"")))
        for _ in range(channels):
            self._expect(20, 11)

    def _send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def _frames(self) -> Iterator[tuple[int, int, int]]:
        """Channel, class and method of what has come whole."""
        received, at = self._received, 0
        while len(received) - at >= 7:
            _, channel, size = struct.unpack_from(">BHI", received, at)
            if len(received) - at < size + 8:
                break
            class_id, method_id = struct.unpack_from(">HH", received, at + 7)
            at += size + 8
            self._received = received[at:]
            yield channel, class_id, method_id

    def _answers(self) -> Iterator[tuple[int, int, int]]:
        while True:
            yield from self._frames()
            more = self._socket.recv(1 << 16)
            if not more:
                raise SystemExit("the node closed the connection")
            self._received += more

    def _expect(self, class_id: int, method_id: int) -> None:
        _, *method = next(self._answers())
        assert method == [class_id, method_id], method

    def each(self, count: int, answer: tuple[int, int], make: Callable[[int, int], bytes]) -> None:
        """Carry out `count` methods; `make` gives the frame for a channel and a number."""
        sent = min(self._channels, count)
        self._send(b"".join(make(number + 1, number) for number in range(sent)))
        answers = self._answers()
        done = 0
        while done < count:
            channel, *method = next(answers)
            assert tuple(method) == answer, method
            done += 1
            if sent < count:
                self._send(make(channel, sent))
                sent += 1

    def take_socket(self) -> socket.socket:
        """For the caller that continues alone; nothing is under way."""
        assert not self._received
        return self._socket

    def ask(self, method: bytes) -> None:
        """Send one method and wait for any answer."""
        self._send(method)
        next(self._answers())

    def publish_some(self, numbers: Sequence[int]) -> None:
        """Three short messages to each of these queues, all taken in when this returns."""
        header = struct.pack(">HHQH", 60, 0, 1, 0)
        content = struct.pack(">BHI", 2, 1, len(header)) + header + FRAME_END
        content += struct.pack(">BHI", 3, 1, 1) + b"x" + FRAME_END
        for number in numbers:
            method = b"\x00\x00" + short(b"") + short(queue_name(number)) + b"\x00"
            self._send((frame(1, 60, 40, method) + content) * 3)
        self.each(1, QUEUE_DECLARE_OK, declare)  # An answer comes behind all of them.

    def close(self) -> None:
        """No manners needed."""
        self._socket.close()


def queue_name(number: int) -> bytes:
    """A name as applications have them."""
    return b"orders.region-%d.customer-%06d" % (number % 17, number)


def declare(channel: int, number: int) -> bytes:
    """A durable queue."""
    arguments = b"\x00\x00" + short(queue_name(number)) + b"\x02" + struct.pack(">I", 0)
    return frame(channel, 50, 10, arguments)


def bind(channel: int, number: int) -> bytes:
    """A binding of one of the queues, with a key of its own."""
    queue = queue_name(number // 2)
    key = b"orders.%d.%d" % (number // 2, number % 2)
    arguments = b"\x00\x00" + short(queue) + short(EXCHANGE) + short(key) + b"\x00"
    return frame(channel, 50, 20, arguments + struct.pack(">I", 0))


def timed(work: Callable[[], None]) -> float:
    """Seconds that it takes."""
    begun = time.monotonic()
    work()
    return round(time.monotonic() - begun, 2)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All of it with one node."""
    result: dict[str, Any] = {"queues": options.queues, "bindings": 2 * options.queues}
    folder = Path(tempfile.mkdtemp(prefix="warren-many-", dir=options.folder))
    python = options.python or sys.executable
    node = Node(
        "many", data_dir=folder, python=python, ready_seconds=300, settings=dict(options.set)
    )
    try:
        node.start()
        result["build"] = node.build
        empty = node.rss_bytes()
        before = buckets(node.management_port)
        wire = Wire(node.port)
        parts = 4
        rates: list[int] = []
        for part in range(parts):
            first, count = part * options.queues // parts, options.queues // parts
            seconds = timed(
                lambda first=first, count=count: wire.each(  # type: ignore[misc]
                    count, QUEUE_DECLARE_OK, lambda channel, each: declare(channel, first + each)
                )
            )
            rates.append(int(count / max(seconds, 0.01)))
        result["queues_per_second"] = rates
        seconds = timed(lambda: wire.each(2 * options.queues, QUEUE_BIND_OK, bind))
        result["bindings_per_second"] = int(2 * options.queues / max(seconds, 0.01))
        result["longest_turn_ms"] = longest_turn_ms(before, buckets(node.management_port))
        result["bytes_per_queue"] = (node.rss_bytes() - empty) // options.queues
        wire.close()
        result["stop_seconds"] = timed(lambda: node.stop(120))
        result["start_seconds"] = timed(node.start)
        result["start_cpu_seconds"] = round(sum(psutil.Process(node.pid).cpu_times()[:2]), 2)
        result["started_bytes_per_queue"] = (node.rss_bytes() - empty) // options.queues
        result["stop_2_seconds"] = timed(lambda: node.stop(120))
        result["start_2_seconds"] = timed(node.start)
        node.kill9()
        result["start_after_kill_seconds"] = timed(node.start)
        result["disk_mb"] = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) >> 20
        result["log"] = [line for line in node.log().splitlines() if "recovered" in line]
    finally:
        node.close()
        shutil.rmtree(folder, ignore_errors=True)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """As the command line says."""
    parser = argparse.ArgumentParser(description="a node with very many queues")
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--python", help="interpreter of the environment that runs the node")
    parser.add_argument("--folder", help="where the data directory is made")
    parser.add_argument(
        "--set", action="append", default=[], type=lambda text: tuple(text.split("=", 1))
    )
    options = parser.parse_args(arguments)
    print(json.dumps({"machine": machine(), **run(options)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
