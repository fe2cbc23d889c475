"""Address settings: windows of 0, rates, blocked producers, paging, credit schemes.

    python -m bench.addresses [--artemis apache-artemis-2.x] [--page-mb 1000] [--seconds 60]
    python -m bench.addresses --only windows hot

Prints one line per case. Cases whose clients are those of Python (pika, proton) share the machine
with the broker: their counts and bounds mean more than their rates. Windows, paging, credit schemes
and the path of messages without settings are measured with `bgen`, paging and credit schemes over
AMQP 1.0, beside Artemis if its unzipped distribution is named.
"""

import argparse
import json
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Any, Final

import pika
import proton
from proton.utils import BlockingConnection

from bench.artemis import Artemis
from bench.run import HERE, ROOT, Broker, Warren
from warren.testing.http_api import HttpApi

QUEUE: Final = "bench"
ROUNDS: Final = 7  # of windows and of slow consumers
SLOW_S: Final = 0.01
WINDOW_MESSAGES: Final = 5000  # of slow consumers with credit 1
WINDOW_SECONDS: Final = 3
WINDOW_BACKLOG: Final = 150_000
HOT_SECONDS: Final = 4
CASES: Final = ("windows", "rate", "block", "mixed", "page", "credits", "hot")
RATE: Final = 1000
PRODUCERS: Final = 100
BLOCK_BYTES: Final = 1_000_000
PAGE_BODY_BYTES: Final = 10_000
PAGE_LIMIT_BYTES: Final = 50_000_000
SAFE: Final = pika.BasicProperties(delivery_mode=2)
ACK: Final = Struct(">BHIHHQBB")  # a frame of basic.ack
DELIVER: Final = bytes([0, 60, 0, 60])


class Client:
    """A connection with one channel and, once it consumes, what it got."""

    def __init__(self, port: int) -> None:
        url = f"amqp://guest:guest@127.0.0.1:{port}/%2F"
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel: Any = self.connection.channel()
        self.arrivals_s: list[float] = []
        self.held = 0
        self.held_max = 0
        self.settled = 0
        self._tag = 0

    def consume(self, acks: bool = True) -> None:
        def arrived(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            self.arrivals_s.append(time.monotonic())
            self.held += 1
            self.held_max = max(self.held_max, self.held)
            self._tag = method.delivery_tag
            if acks:
                self.settle()

        self.channel.basic_consume(QUEUE, arrived)

    def settle(self) -> None:
        self.channel.basic_ack(self._tag, multiple=True)
        self.settled += self.held
        self.held = 0


@contextmanager
def queue_with(port: int, **arguments: object) -> Iterator[Client]:
    """An empty queue with these settings, and the connection that declared it."""
    client = Client(port)
    said = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    client.channel.queue_delete(QUEUE)  # Of the case before.
    client.channel.queue_declare(QUEUE, durable=True, arguments=said)
    yield client
    client.channel.queue_delete(QUEUE)
    client.connection.close()


def ready(client: Client) -> int:
    return int(client.channel.queue_declare(QUEUE, passive=True).method.message_count)


def fill(client: Client, count: int) -> None:
    for _ in range(count):
        client.channel.basic_publish("", QUEUE, b"x" * 12, SAFE)
    while ready(client) < count:
        client.connection.process_data_events(0.01)


class SlowConsumer(threading.Thread):
    """A consumer that works for SLOW_S on each message. It reads its socket itself: a client
    library in Python takes so much CPU for each message that it slows down what shares the machine.
    """

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.settled = 0
        self.held_max = 0
        self.cpu_s = 0.0
        self.is_over = threading.Event()
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._unread = b""
        self._early: list[Any] = []  # what came with an answer
        login = pika.spec.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US")
        self._ask(b"AMQP\0\0\x09\x01", pika.spec.Connection.Start)
        self._ask(login, pika.spec.Connection.Tune)
        self._send(pika.spec.Connection.TuneOk(0, 131_072, 0))
        self._ask(pika.spec.Connection.Open("/"), pika.spec.Connection.OpenOk)
        self._ask(pika.spec.Channel.Open(), pika.spec.Channel.OpenOk, 1)
        self._ask(pika.spec.Basic.Consume(queue=QUEUE), pika.spec.Basic.ConsumeOk, 1)

    def _ask(self, said: Any, answer: type, channel: int = 0) -> None:
        if isinstance(said, bytes):
            self._socket.sendall(said)
        else:
            self._send(said, channel)
        while not any(isinstance(each, answer) for each in self._early):
            self._early += self._methods()

    def _send(self, method: Any, channel: int = 0) -> None:
        self._socket.sendall(pika.frame.Method(channel, method).marshal())

    def _methods(self) -> list[Any]:
        """Those of the next bytes; empty: none came in a while."""
        self._socket.settimeout(0.2)
        try:
            self._unread += self._socket.recv(65_536)
        except TimeoutError:
            return []
        found: list[Any] = []
        while True:
            size, frame = pika.frame.decode_frame(self._unread)
            if frame is None:
                return found
            self._unread = self._unread[size:]
            if isinstance(frame, pika.frame.Method):
                found.append(frame.method)

    def run(self) -> None:
        begun_s = time.thread_time()
        tags = [m.delivery_tag for m in self._early if isinstance(m, pika.spec.Basic.Deliver)]
        while not self.is_over.is_set():
            self.held_max = max(self.held_max, len(tags))
            for tag in tags:
                time.sleep(SLOW_S)
                self._socket.sendall(ACK.pack(1, 1, 13, 60, 80, tag, 0, 0xCE))
                self.settled += 1
            tags = self._tags()
        self.cpu_s = time.thread_time() - begun_s
        self._socket.close()

    def _tags(self) -> list[int]:
        """Delivery tags of the next bytes, without the cost of a library; empty: none came."""
        try:
            self._unread += self._socket.recv(65_536)
        except TimeoutError:
            return []
        found: list[int] = []
        while len(self._unread) >= 7:
            end = int.from_bytes(self._unread[3:7], "big") + 8
            if len(self._unread) < end:
                break
            if self._unread[0] == 1 and self._unread[7:11] == DELIVER:
                start = 12 + self._unread[11]  # behind the consumer's tag
                found.append(int.from_bytes(self._unread[start : start + 8], "big"))
            self._unread = self._unread[end:]
        return found


def window_case(broker: Warren, with_slow: bool) -> None:
    """Consumers with a window of 0: one settles at once, the other after SLOW_S."""
    settings = f"--declare {QUEUE}:classic --qarg x-consumer-window-size=0"
    filling = f"--size 12 --producers 1 --window 1000 --count {WINDOW_BACKLOG} --duration 3600"
    bgen(broker, filling, f"{settings} --fresh", "0.9.1")
    slow = SlowConsumer(broker.port) if with_slow else None
    if slow is not None:
        slow.start()
    begun_s = time.monotonic()
    way = f"--consumers 1 --prefetch 1000 --ack 1 --duration {WINDOW_SECONDS} --warmup 1"
    found = bgen(broker, way, settings, "0.9.1")
    rate, beside = found["sub_per_s"], ""
    if slow is not None:
        slow.is_over.set()
        slow.join()
        took_s = time.monotonic() - begun_s
        rate += slow.settled / took_s
        beside = (
            f"; slow {slow.settled / took_s:.0f}/s, held at most {slow.held_max}, "
            f"{100 * slow.cpu_s / took_s:.1f} % CPU"
        )
    print(
        f"window 0, {'slow and fast' if with_slow else 'fast alone'}: {rate:.0f}/s, "
        f"{1e4 * found['broker_cpu_pct'] / rate:.2f} us CPU of the node a message{beside}",
        flush=True,
    )


def hot_case(broker: Warren, name: str) -> None:
    """A publisher and a consumer of a queue without address settings."""
    words = f"--size 12 --producers 1 --consumers 1 --window 1000 --duration {HOT_SECONDS}"
    declared = f"--declare {QUEUE}:classic --fresh"
    found = bgen(broker, f"{words} --warmup 1 --prefetch 1000 --ack 100", declared, "0.9.1")
    print(
        f"hot path, {name}: {found['pub_per_s']}/s in, {found['sub_per_s']}/s out, "
        f"{found['broker_cpu_pct']} % CPU",
        flush=True,
    )


def hot_cases(broker: Warren) -> None:
    """In turn without any policy, and with policies for other queues and exchanges."""
    definition = {"max-size-bytes": 1 << 30, "address-full-policy": "BLOCK"}
    definition |= {"consumer-window-size": 1 << 20, "redelivery-delay": 100, "id-cache-size": 1000}
    body = {"pattern": "^other$", "apply-to": "all", "definition": definition}
    for _ in range(ROUNDS):
        api(broker, "policies/%2F/other", "DELETE")
        hot_case(broker, "no policy")
        api(broker, "policies/%2F/other", "PUT", body)
        hot_case(broker, "policies for others")


def rate_case(port: int, seconds: int) -> None:
    with queue_with(port, consumer_max_rate=RATE) as owner:
        fill(owner, RATE * (seconds + 2))
        client = Client(port)
        client.consume()
        while not client.arrivals_s or time.monotonic() < client.arrivals_s[0] + seconds:
            client.connection.process_data_events(0.01)
        counts = [0] * (seconds + 1)
        for at_s in client.arrivals_s:
            counts[min(int(at_s - client.arrivals_s[0]), seconds)] += 1
        each = counts[:seconds]
        print(
            f"rate {RATE}/s over {seconds} s: {sum(each)} messages, "
            f"{min(each)} to {max(each)} per second",
            flush=True,
        )


def block_case(broker: Warren) -> None:
    """PRODUCERS fill an address; then it is purged, and all of them go on."""
    with queue_with(broker.port, max_size_bytes=BLOCK_BYTES, address_full_policy="BLOCK") as owner:
        resumed_s: list[float] = []
        purged_s = [float("inf")]

        def publish(client: Client) -> None:
            client.channel.confirm_delivery()
            while time.monotonic() < purged_s[0]:
                client.channel.basic_publish("", QUEUE, bytes(1000), SAFE)
            resumed_s.append(time.monotonic())

        for _ in range(PRODUCERS):
            threading.Thread(target=publish, args=[Client(broker.port)], daemon=True).start()
        row: Any = {}
        while row.get("blocked_publishers") != PRODUCERS:
            [row] = [each for each in api(broker, "addresses") if each["name"] == QUEUE]
        purged_s[0] = time.monotonic()
        owner.channel.queue_purge(QUEUE)
        while len(resumed_s) < PRODUCERS:
            owner.connection.process_data_events(0.01)
        late_ms = 1000 * (max(resumed_s) - purged_s[0])
        print(
            f"BLOCK, {PRODUCERS} producers of 1,000 bytes: {row['bytes']} bytes held, "
            f"the limit is {BLOCK_BYTES}; the last goes on {late_ms:.0f} ms after the purge",
            flush=True,
        )


def api(broker: Warren, path: str, method: str = "GET", body: object = None) -> Any:
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    status, answer = api.ask(method, f"/{path}", body)
    if status >= 300 and (status != 404 or method != "DELETE"):
        raise SystemExit(f"{method} {path}: {status} {answer}")
    return answer


def bgen(broker: Broker, words: str, declared: str = "", protocol: str = "1.0") -> dict[str, Any]:
    """One run; Artemis has the queue."""
    is_warren = broker.name == "warren"
    prefix = ["--addr-prefix", "/queues/" if is_warren else ""] if protocol == "1.0" else []
    if is_warren and not declared.startswith("--declare"):
        declared = f"--declare {QUEUE}:classic {declared}"
    command = [str(HERE / "bgen"), "--port", str(broker.port), "--proto", protocol, *prefix]
    command += declared.split() if is_warren else []
    command += ["--queue", QUEUE, "--pids", str(broker.pid()), *words.split()]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=3600, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def page_case(broker: Broker, megabytes: int) -> None:
    count = megabytes * 1_000_000 // PAGE_BODY_BYTES
    limits = f"--fresh --qarg x-max-size-bytes={PAGE_LIMIT_BYTES} --qarg x-address-full-policy=PAGE"
    way = f"--size {PAGE_BODY_BYTES} --duration 3600 --linger 600"
    entered = bgen(broker, f"{way} --producers 1 --window 1000 --count {count}", limits)
    left = bgen(
        broker, f"{way} --consumers 1 --prefetch 1000 --ack 100 --consume-count {count}", limits[8:]
    )
    print(
        f"PAGE, {megabytes} MB of {PAGE_BODY_BYTES} bytes, {broker.name}: "
        f"in {entered['pub_per_s']}/s, {entered['broker_cpu_pct']} % CPU, "
        f"RSS {entered['broker_rss_max_mb']} MB; "
        f"out {left['sub_per_s']}/s, {left['broker_cpu_pct']} % CPU; "
        f"confirmed {entered['confirmed']}, received {left['received']}",
        flush=True,
    )


def mixed_case(broker: Broker, with_slow: bool) -> None:
    """The consumers of `window_case` over AMQP 1.0: a window of 0 is a credit of 1."""
    bgen(
        broker,
        f"--size 100 --producers 1 --window 1000 --count {WINDOW_MESSAGES} --duration 3600",
        "--fresh",
    )
    prefix = "/queues/" if broker.name == "warren" else ""
    counts = [0, 0]

    def consume(place: int, busy_s: float) -> None:
        url = f"amqp://guest:guest@127.0.0.1:{broker.port}"
        connection = BlockingConnection(url, timeout=60, allowed_mechs="PLAIN")
        receiver = connection.create_receiver(prefix + QUEUE, credit=1)
        while sum(counts) < WINDOW_MESSAGES:
            try:
                receiver.receive(timeout=1)
            except proton.Timeout:
                continue  # The other one has the last message.
            time.sleep(busy_s)
            counts[place] += 1
            receiver.accept()
            receiver.flow(1)
            last_s[0] = time.monotonic()
        connection.close()

    begun_s = time.monotonic()
    last_s = [begun_s]
    consumers = [threading.Thread(target=consume, args=[0, 0.0])]
    if with_slow:
        consumers.append(threading.Thread(target=consume, args=[1, SLOW_S]))
    for each in consumers:
        each.start()
    for each in consumers:
        each.join()
    print(
        f"credit 1, {'slow and fast' if with_slow else 'fast alone'}, {broker.name}: "
        f"{WINDOW_MESSAGES / (last_s[0] - begun_s):.0f}/s, fast {counts[0]}, slow {counts[1]}",
        flush=True,
    )


def credit_case(broker: Broker, name: str, seconds: int, arguments: str = "") -> None:
    """A producer under this scheme of credits, and a consumer."""
    words = f"--size 1000 --producers 1 --consumers 1 --window 1000 --duration {seconds} --warmup 2"
    found = bgen(broker, f"{words} --prefetch 1000 --ack 100", f"--fresh {arguments}")
    print(
        f"credits {name}, 1,000 bytes, {broker.name}: {found['pub_per_s']}/s, "
        f"confirms p50 and p99 {found['conf_ms'][:2]} ms, {found['broker_cpu_pct']} % CPU",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--artemis", type=Path, help="folder of an unzipped distribution")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--page-mb", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, metavar="CASE")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    options = parser.parse_args(arguments)
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    with tempfile.TemporaryDirectory(prefix="warren-bench-", dir=options.data) as folder:
        measure_warren(Warren(options.python.absolute(), Path(folder), []), options)
    if options.artemis is None:
        return
    with tempfile.TemporaryDirectory(prefix="warren-bench-", dir=options.data) as folder:
        artemis = Artemis(options.artemis.absolute(), Path(folder), PAGE_LIMIT_BYTES, QUEUE)
        artemis.start()
        try:
            if "mixed" in options.only:
                for _ in range(ROUNDS):
                    for with_slow in (False, True):
                        mixed_case(artemis, with_slow)
            if "page" in options.only:
                page_case(artemis, options.page_mb)
            if "credits" in options.only:
                credit_case(artemis, "100/30", options.seconds)
        finally:
            artemis.stop()


def measure_warren(warren: Warren, options: argparse.Namespace) -> None:
    cases: dict[str, Callable[[], None]] = {
        "windows": lambda: in_turn(partial(window_case, warren)),
        "rate": lambda: rate_case(warren.port, options.seconds),
        "block": lambda: block_case(warren),
        "mixed": lambda: in_turn(partial(mixed_case, warren)),
        "page": lambda: page_case(warren, options.page_mb),
        "credits": lambda: credit_cases(warren, options.seconds),
        "hot": lambda: hot_cases(warren),
    }
    warren.start()
    try:
        for name in options.only:
            cases[name]()
    finally:
        warren.stop()


def in_turn(case: Callable[[bool], None]) -> None:
    """A fast consumer alone, and beside a slow one."""
    for _ in range(ROUNDS):
        case(False)
        case(True)


def credit_cases(warren: Warren, seconds: int) -> None:
    credit_case(warren, "170/85", seconds)
    scheme = "--qarg x-amqp-credits=100 --qarg x-amqp-low-credits=30"
    credit_case(warren, "100/30", seconds, scheme)


if __name__ == "__main__":
    main()
