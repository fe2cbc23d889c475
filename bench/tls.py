"""What TLS takes of the rates: `python -m bench.tls --help`; Warren alone.

One node with a listener of each kind. In turn over both: a publisher with confirms (a thread that
sends frames which were made once, with WINDOW of them unconfirmed) and a consumer without
acknowledgements (another thread, which counts bytes), of transient messages; the node's CPU for
each message; then how long a connection takes from the first packet to an open channel, and the
node's CPU for that. The load shares the machine with the node, and encrypts as well: with TLS both
ends pay, and on two processors rates say more of both than of the node alone. CPU is the node's.
"""

import argparse
import socket
import ssl
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import trustme

from bench.many_queues import FRAME_END, QUEUE_DECLARE_OK, Wire, frame, short
from bench.run import ROOT, Warren, machine

AMQPS_PORT: Final = 5910
QUEUE: Final = b"bench.tls"
BATCH: Final = 500  # messages in one send
WINDOW: Final = 20  # batches without a confirm
ACK_BYTES: Final = 21  # basic.ack, or a confirm
SETTLE_S: Final = 1.0
CONNECTIONS: Final = 100


@dataclass(frozen=True, slots=True)
class Way:
    """How a connection comes to the node."""

    name: str
    port: int
    tls: ssl.SSLContext | None

    def wire(self) -> Wire:
        return Wire(self.port, 1, self.tls)


@dataclass(slots=True)
class Count:
    """What a thread has done so far."""

    messages: float = 0.0


def declare(channel: int, number: int) -> bytes:
    arguments = b"\x00\x00" + short(QUEUE) + b"\x00" + struct.pack(">I", 0)
    return frame(channel, 50, 10, arguments)


def message(size: int) -> bytes:
    """The frames of a transient publish."""
    method = frame(1, 60, 40, b"\x00\x00" + short(b"") + short(QUEUE) + b"\x00")
    header = struct.pack(">HHQH", 60, 0, size, 0)
    content = struct.pack(">BHI", 2, 1, len(header)) + header + FRAME_END
    return method + content + struct.pack(">BHI", 3, 1, size) + bytes(size) + FRAME_END


def delivery_bytes(size: int) -> int:
    """Of a delivery: the method with its tag and names, header and body."""
    names = short(b"c") + bytes(9) + short(b"") + short(QUEUE)
    return 8 + 4 + len(names) + 8 + 14 + 8 + size


class Publisher:
    """Sends batches; invariant: at most WINDOW of them are unconfirmed."""

    def __init__(self, way: Way, size: int) -> None:
        wire = way.wire()
        wire.each(1, QUEUE_DECLARE_OK, declare)
        wire.ask(frame(1, 85, 10, b"\x00"))  # confirm.select
        self._socket = wire.take_socket()
        self._batch = message(size) * BATCH
        self.count = Count()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        sent, rest = 0, b""
        while not self._stop.is_set():
            while sent - self.count.messages <= (WINDOW - 1) * BATCH:
                self._socket.sendall(self._batch)
                sent += BATCH
            rest += self._socket.recv(1 << 16)
            whole = len(rest) // ACK_BYTES * ACK_BYTES
            if whole:
                (tag,) = struct.unpack_from(">Q", rest, whole - ACK_BYTES + 11)
                self.count.messages = float(tag)
                rest = rest[whole:]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()


class Consumer:
    """Counts the bytes of deliveries, which are all alike."""

    def __init__(self, way: Way, size: int) -> None:
        wire = way.wire()
        wire.each(1, QUEUE_DECLARE_OK, declare)
        wire.ask(frame(1, 50, 30, b"\x00\x00" + short(QUEUE) + b"\x00"))  # queue.purge
        consume = b"\x00\x00" + short(QUEUE) + short(b"c") + b"\x02" + struct.pack(">I", 0)
        wire.ask(frame(1, 60, 20, consume))
        self._socket: socket.socket = wire.take_socket()
        self._each = delivery_bytes(size)
        self.count = Count()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        room = bytearray(1 << 18)
        seen = 0
        while got := self._received(room):
            seen += got
            self.count.messages = seen / self._each

    def _received(self, room: bytearray) -> int:
        try:
            return self._socket.recv_into(room)
        except OSError:
            return 0  # It was shut down: that is the end.

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


def measure(way: Way, size: int, seconds: float, node: psutil.Process) -> tuple[float, float]:
    """Messages a second, and microseconds of the node's CPU for each."""
    consumer, publisher = Consumer(way, size), Publisher(way, size)
    time.sleep(SETTLE_S)
    begun, worked, before = time.perf_counter(), cpu_s(node), publisher.count.messages
    seen = consumer.count.messages
    time.sleep(seconds)
    done = publisher.count.messages - before
    spent, took = cpu_s(node) - worked, time.perf_counter() - begun
    if consumer.count.messages - seen < done / 2:
        raise SystemExit("the consumer falls behind: what was measured says nothing")
    publisher.stop()
    consumer.stop()
    return done / took, spent / done * 1e6


def measure_handshakes(way: Way, node: psutil.Process) -> tuple[float, float]:
    """Milliseconds until a channel is open, and of the node's CPU."""
    worked, begun = cpu_s(node), time.perf_counter()
    for _ in range(CONNECTIONS):
        way.wire().close()
    took = time.perf_counter() - begun
    return took / CONNECTIONS * 1000, (cpu_s(node) - worked) / CONNECTIONS * 1000


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def issued(folder: Path) -> tuple[list[str], ssl.SSLContext]:
    """Settings of the node, and the context of a client that trusts it."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certfile, keyfile = folder / "server.pem", folder / "server.key"
    certificate.private_key_pem.write_to_path(keyfile)
    for place, pem in enumerate(certificate.cert_chain_pems):
        pem.write_to_path(certfile, append=place > 0)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    settings = [f"listeners.amqps=127.0.0.1:{AMQPS_PORT}"]
    return [*settings, f"tls.certfile={certfile}", f"tls.keyfile={keyfile}"], context


def show(ways: Sequence[Way], options: argparse.Namespace, node: psutil.Process) -> None:
    print("| load | " + " | ".join(f"{way.name}: k/s, node CPU us" for way in ways) + " |")
    print("|---" * (len(ways) + 1) + "|")
    for size in options.size:
        found: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
        for _ in range(options.rounds):
            for way in ways:
                found[way.name].append(measure(way, size, options.seconds, node))
        cells = [
            f"{statistics.median(rate for rate, _ in found[way.name]) / 1000:.0f},"
            f" {statistics.median(cost for _, cost in found[way.name]):.2f}"
            for way in ways
        ]
        print(f"| {size} bytes, published and consumed | " + " | ".join(cells) + " |", flush=True)
    cells = []
    for way in ways:
        took_ms, cost_ms = measure_handshakes(way, node)
        cells.append(f"{took_ms:.1f} ms, {cost_ms:.2f} ms")
    print("| a connection and its channel | " + " | ".join(cells) + " |")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--size", type=int, nargs="*", default=[12, 1024, 16384])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="warren-tls-") as place:
        folder = Path(place)
        settings, context = issued(folder)
        broker = Warren(options.python, folder, settings)
        broker.start()
        try:
            print(f"{machine()}, {broker.build} build, {ssl.OPENSSL_VERSION}")
            ways = (Way("plain", broker.port, None), Way("TLS", AMQPS_PORT, context))
            show(ways, options, psutil.Process(broker.pid()))
        finally:
            broker.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
