"""Address settings: windows of 0, rates, blocked producers, paging, credit schemes.

    python -m bench.addresses [--artemis apache-artemis-2.x] [--page-mb 1000] [--seconds 60]
    python -m bench.addresses --only windows hot
    python -m bench.addresses --only page --page-mb 10000 --page-seconds 160 --artemis DIR

Prints one line per case, and for cases in turns the medians of their rounds. Cases whose clients
are those of Python (pika, proton) share the machine with the broker: their counts and bounds mean
more than their rates. Windows, paging, credit schemes and the path of messages without settings are
measured with `bgen`, paging and credit schemes over AMQP 1.0, beside Artemis if its unzipped
distribution is named.

A slow consumer of another queue costs the machine what a slow consumer of the same queue does: what
the latter costs the fast one is the difference of these two rounds.
"""

import argparse
import json
import math
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from struct import Struct
from typing import IO, Any, Final

import pika
import proton
import psutil
from proton.utils import BlockingConnection

from bench.artemis import Artemis
from bench.run import HERE, ROOT, Broker, Warren
from warren.testing.http_api import HttpApi

QUEUE: Final = "bench"
ELSEWHERE: Final = "bench-elsewhere"
ROUNDS: Final = 7  # of slow consumers over AMQP 1.0
SLOW_S: Final = 0.01
WINDOW_MESSAGES: Final = 5000  # of slow consumers with credit 1
WINDOW_CYCLES: Final = 14
WINDOW_BACKLOG: Final = 3_500_000  # more than a fast consumer takes in all cycles
WINDOW_BACKLOG_SLOW: Final = 10_000
HOT_SECONDS: Final = 3
HOT_PAIRS: Final = 15
T_95: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)  # by degrees of freedom
T_95_MORE: Final = (2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09)
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

    def __init__(self, port: int, queue: str) -> None:
        super().__init__(daemon=True)
        self.settled = 0
        self.held_max = 0
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
        self._ask(pika.spec.Basic.Consume(queue=queue), pika.spec.Basic.ConsumeOk, 1)

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
        tags = [m.delivery_tag for m in self._early if isinstance(m, pika.spec.Basic.Deliver)]
        while not self.is_over.is_set():
            self.held_max = max(self.held_max, len(tags))
            for tag in tags:
                time.sleep(SLOW_S)
                self._socket.sendall(ACK.pack(1, 1, 13, 60, 80, tag, 0, 0xCE))
                self.settled += 1
            tags = self._tags()
        self._socket.close()

    def end(self) -> int:
        """Leave, and return how many messages it held at most."""
        self.is_over.set()
        self.join()
        return self.held_max

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


@dataclass(frozen=True, slots=True)
class Round:
    """Of a case in turns: messages per second, and CPU of the node for each of them."""

    rate: float
    cpu_us: float


def window_cases(broker: Warren) -> None:
    """One fast consumer with a window of 0 all the time. In turn it is alone, there is a slow one
    of another queue, and there is one of the same queue, each for a slot."""
    settings = "--declare {}:classic --qarg x-consumer-window-size=0"
    filling = "--size 12 --producers 1 --window 1000 --duration 3600 --count"
    for queue, count in ((QUEUE, WINDOW_BACKLOG), (ELSEWHERE, WINDOW_BACKLOG_SLOW)):
        bgen(broker, f"{filling} {count}", f"{settings.format(queue)} --fresh", "0.9.1", queue)
    node = psutil.Process(broker.pid())
    way = "--consumers 1 --prefetch 1000 --ack 1 --duration 3600 --series"
    command = [str(HERE / "bgen"), "--port", str(broker.port), "--queue", QUEUE, *way.split()]
    rounds: dict[str, list[Round]] = {"": [], ELSEWHERE: [], QUEUE: []}
    held_max = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as fast:
        assert fast.stdout is not None
        try:
            for _ in range(WINDOW_CYCLES):
                for slow_queue, found in rounds.items():
                    slow = SlowConsumer(broker.port, slow_queue) if slow_queue else None
                    if slow is not None:
                        slow.start()
                    fast.stdout.readline()  # A second in which the slow one came.
                    found.append(one_second(fast.stdout, node, slow))
                    if slow is not None:
                        held_max = max(held_max, slow.end())
        finally:
            fast.terminate()
    print(f"window 0: the slow consumer held at most {held_max}", flush=True)
    compare("window 0, slow and fast to fast alone", rounds[""], rounds[QUEUE])
    compare("window 0, slow and fast to slow one elsewhere", rounds[ELSEWHERE], rounds[QUEUE])


def one_second(lines: IO[str], node: psutil.Process, slow: SlowConsumer | None) -> Round:
    """What both consumers get until the next line of the fast one's series."""
    begun_s, cpu_s = time.monotonic(), sum(node.cpu_times()[:2])
    settled = 0 if slow is None else slow.settled
    [taken] = re.findall(r"consumed/s=(\d+)", lines.readline())
    settled = 0 if slow is None else slow.settled - settled
    took_s, cpu_s = time.monotonic() - begun_s, sum(node.cpu_times()[:2]) - cpu_s
    messages = int(taken) + settled
    return Round(messages / took_s, 1e6 * cpu_s / messages)


def compare(name: str, before: list[Round], after: list[Round]) -> None:
    """Medians, and the 95 % interval of the ratio of rounds that ran one behind the other."""
    for figure, values in (
        ("rate", [(a.rate, b.rate) for a, b in zip(before, after, strict=True)]),
        ("us CPU a message", [(a.cpu_us, b.cpu_us) for a, b in zip(before, after, strict=True)]),
    ):
        medians = [statistics.median(each) for each in zip(*values, strict=True)]
        ratio, low, high = ratio_interval(values)
        print(
            f"{name}, {len(values)} pairs, {figure}: medians {medians[0]:.5g} and "
            f"{medians[1]:.5g}; ratio {ratio:.3f}, 95 % between {low:.3f} and {high:.3f}",
            flush=True,
        )


def ratio_interval(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """The mean ratio of the second of a pair to the first, and its 95 % interval (Student's t of
    the logarithms)."""
    logs = [math.log(b / a) for a, b in pairs]
    mean = statistics.fmean(logs)
    quantiles = T_95 + T_95_MORE
    quantile = quantiles[min(len(logs) - 2, len(quantiles) - 1)]
    half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def hot_case(broker: Warren) -> Round:
    """A publisher and a consumer of a queue without address settings."""
    words = f"--size 12 --producers 1 --consumers 1 --window 1000 --duration {HOT_SECONDS}"
    declared = f"--declare {QUEUE}:classic --fresh"
    found = bgen(broker, f"{words} --warmup 1 --prefetch 1000 --ack 100", declared, "0.9.1")
    rate = found["sub_per_s"]
    return Round(rate, 1e6 * found["broker_cpu_s"] / found["sub_s"] / rate)


def hot_cases(broker: Warren) -> None:
    """In turn without any policy, and with policies for other queues and exchanges."""
    definition = {"max-size-bytes": 1 << 30, "address-full-policy": "BLOCK"}
    definition |= {"consumer-window-size": 1 << 20, "redelivery-delay": 100, "id-cache-size": 1000}
    body = {"pattern": "^other$", "apply-to": "all", "definition": definition}
    rounds: dict[bool, list[Round]] = {False: [], True: []}
    for pair in range(HOT_PAIRS):
        for with_policy in (False, True) if pair % 2 == 0 else (True, False):
            way = "PUT" if with_policy else "DELETE"
            api(broker, "policies/%2F/other", way, body if with_policy else None)
            rounds[with_policy].append(hot_case(broker))
    compare("hot path, policies for others to no policy", rounds[False], rounds[True])


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


def bgen(
    broker: Broker, words: str, declared: str = "", protocol: str = "1.0", queue: str = QUEUE
) -> dict[str, Any]:
    """One run; Artemis has the queue."""
    is_warren = broker.name == "warren"
    prefix = ["--addr-prefix", "/queues/" if is_warren else ""] if protocol == "1.0" else []
    if is_warren and not declared.startswith("--declare"):
        declared = f"--declare {QUEUE}:classic {declared}"
    command = [str(HERE / "bgen"), "--port", str(broker.port), "--proto", protocol, *prefix]
    command += declared.split() if is_warren else []
    command += ["--queue", queue, "--pids", str(broker.pid()), *words.split()]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=3600, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def page_case(broker: Broker, megabytes: int, seconds: int) -> None:
    """Fill an address far beyond its size, then empty it; each takes so many seconds at most."""
    count = megabytes * 1_000_000 // PAGE_BODY_BYTES
    limits = f"--fresh --qarg x-max-size-bytes={PAGE_LIMIT_BYTES} --qarg x-address-full-policy=PAGE"
    way = f"--size {PAGE_BODY_BYTES} --duration {seconds} --linger 60"
    entered = bgen(broker, f"{way} --producers 1 --window 1000 --count {count}", limits)
    taken = f"--consumers 1 --prefetch 1000 --ack 100 --consume-count {entered['confirmed']}"
    left = bgen(broker, f"{way} {taken}", limits[8:])
    print(
        f"PAGE, {entered['confirmed'] * PAGE_BODY_BYTES // 1_000_000} of {megabytes} MB of "
        f"{PAGE_BODY_BYTES} bytes, {broker.name}: "
        f"in {entered['pub_per_s']}/s, {entered['broker_cpu_pct']} % CPU, "
        f"RSS {entered['broker_rss_max_mb']} MB; "
        f"out {left['sub_per_s']}/s, {left['broker_cpu_pct']} % CPU, "
        f"RSS {left['broker_rss_max_mb']} MB; confirmed {entered['confirmed']}, "
        f"received {left['received']}, {left['disordered']} out of order",
        flush=True,
    )


def check_space(folder: Path, megabytes: int) -> None:
    """A broker may keep each body twice while it moves it."""
    free = shutil.disk_usage(folder).free // 1_000_000
    if free < 2 * megabytes:
        raise SystemExit(f"{folder} has {free} MB free, and PAGE needs {2 * megabytes} MB")


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
    parser.add_argument("--page-seconds", type=int, default=600, help="for in, and for out")
    parser.add_argument("--no-warren", action="store_true", help="Artemis alone")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, metavar="CASE")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    options = parser.parse_args(arguments)
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    with tempfile.TemporaryDirectory(prefix="warren-bench-", dir=options.data) as folder:
        if "page" in options.only:
            check_space(Path(folder), options.page_mb)
        if not options.no_warren:
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
                page_case(artemis, options.page_mb, options.page_seconds)
            if "credits" in options.only:
                credit_case(artemis, "100/30", options.seconds)
        finally:
            artemis.stop()


def measure_warren(warren: Warren, options: argparse.Namespace) -> None:
    cases: dict[str, Callable[[], None]] = {
        "windows": lambda: window_cases(warren),
        "rate": lambda: rate_case(warren.port, options.seconds),
        "block": lambda: block_case(warren),
        "mixed": lambda: in_turn(partial(mixed_case, warren)),
        "page": lambda: page_case(warren, options.page_mb, options.page_seconds),
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
