"""A node that operators look at: `python -m bench.management --help`; Warren alone.

Sets up very many queues, connections, channels and consumers, then asks each list of the HTTP API
a few times: how long it takes, how large it is, and how long the node kept another client waiting
meanwhile (a probe that asks `basic.get` of an empty queue without a pause: its longest answer is at
least the longest turn of the loop, and what the machine adds). Last: how fast messages go with and
without a client that asks for all lists every few seconds, as a page that is open does.

Every fifth queue gets a few messages, so that lists have counts. The clients, the probe and the
clients that ask share the machine with the node.
"""

import argparse
import http.client
import resource
import shutil
import statistics
import struct
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import psutil

from bench.many_queues import QUEUE_DECLARE_OK, Wire, declare, frame, queue_name, short, timed
from bench.run import ROOT, Row, Warren, machine, run_row

LOGIN: Final = "Basic " + b64encode(b"guest:guest").decode()
CHANNELS: Final = 2  # of each connection
CONSUMERS: Final = 5  # of each connection
SORT: Final = "sort=message_stats.publish_details.rate&sort_reverse=true"
PAGES: Final = tuple(
    f"{kind}?page=1&page_size={size}{tail}"
    for kind in ("queues", "connections", "channels", "consumers")
    for size in (100, 500)
    for tail in ("", "&sort=name")
)
SORTED: Final = (
    f"queues?page=1&page_size=100&{SORT}",
    f"queues?page=1&page_size=500&{SORT}",
    "queues?page=1&page_size=100&sort=messages&sort_reverse=true",
    f"channels?page=1&page_size=100&{SORT}",
    "connections?page=1&page_size=100&sort=recv_oct_details.rate&sort_reverse=true",
)
WHOLE: Final = ("overview", "nodes", "vhosts", "exchanges", "queues", "connections", "channels")
POLLED: Final = (
    "overview?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5",
    "nodes",
    f"queues?page=1&page_size=100&{SORT}",
    "connections?page=1&page_size=100",
    "channels?page=1&page_size=100",
    "consumers?page=1&page_size=100",
    "exchanges?page=1&page_size=100",
)
LOAD: Final = "--declare bench:classic --fresh --queue bench --delete-after --producers 1"
ROW: Final = Row(
    "d1k-pubsub",
    "bgen",
    f"{LOAD} --consumers 1 --window 1000 --size 1024 --prefetch 1000 --ack 100",
)
PROBE: Final = frame(1, 60, 70, b"\x00\x00" + short(b"management.probe") + b"\x01")


class Client(Wire):
    """One connection as applications have them: channels with consumers on a few queues."""

    def consume(self, first_queue: int, queues: int) -> None:
        sent = []
        for number in range(CONSUMERS):
            queue = queue_name((first_queue + number) % queues)
            arguments = b"\x00\x00" + short(queue) + short(b"%d" % number)
            flags = b"\x08" + struct.pack(">I", 0)  # no-wait, and nothing else
            sent.append(frame(number % CHANNELS + 1, 60, 20, arguments + flags))
        self._send(b"".join(sent))


class Probe:
    """Asks the node without a pause, and remembers its longest answer."""

    def __init__(self, port: int) -> None:
        self._wire = Wire(port, channels=1)
        self._wire.each(1, QUEUE_DECLARE_OK, declare_probe)
        self._longest_s = 0.0
        self._goes_on = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while self._goes_on:
            begun = time.perf_counter()
            self._wire.ask(PROBE)
            self._longest_s = max(self._longest_s, time.perf_counter() - begun)
            time.sleep(0.001)

    def take_ms(self) -> float:
        """Since the last time."""
        longest, self._longest_s = self._longest_s, 0.0
        return longest * 1000

    def stop(self) -> None:
        self._goes_on = False
        self._thread.join()
        self._wire.close()


def declare_probe(channel: int, number: int) -> bytes:
    arguments = b"\x00\x00" + short(b"management.probe") + b"\x00" + struct.pack(">I", 0)
    return frame(channel, 50, 10, arguments)


class Api:
    """The HTTP API on one connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def get(self, path: str) -> int:
        """Bytes of the answer, which are discarded."""
        self._connection.request("GET", f"/api/{path}", headers={"Authorization": LOGIN})
        answer = self._connection.getresponse()
        size = len(answer.read())
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status}")
        return size


def set_up(broker: Warren, options: argparse.Namespace) -> list[Client]:
    """All objects."""
    wire = Wire(broker.port)
    wire.each(options.queues, QUEUE_DECLARE_OK, declare)
    wire.publish_some(range(0, options.queues, 5))
    wire.close()
    clients: list[Client] = []
    for number in range(options.connections):
        clients.append(Client(broker.port, channels=CHANNELS))
        clients[-1].consume(number * CONSUMERS, options.queues)
    return clients


def measure_lists(broker: Warren, rounds: int) -> None:
    """A line for each list: times, CPU of the node and size; then, once more, with a probe that
    says how long others waited."""
    api, node = Api(broker.management_port), psutil.Process(broker.pid())
    asked = (*PAGES, *SORTED, *WHOLE)
    lines = [measure_list(api, path, node, rounds) for path in asked]
    probe = Probe(broker.port)
    print("| list | first, ms | p50, ms | longest, ms | node CPU, ms | KB | others waited, ms |")
    print("|---|---|---|---|---|---|---|")
    for path, line in zip(asked, lines, strict=True):
        probe.take_ms()
        for _ in range(rounds):
            api.get(path)
        print(f"{line} {probe.take_ms():.0f} |", flush=True)
    probe.stop()


def measure_list(api: Api, path: str, node: psutil.Process, rounds: int) -> str:
    times, size = [], 0
    worked = cpu_s(node)
    for _ in range(rounds):
        begun = time.perf_counter()
        size = api.get(path)
        times.append((time.perf_counter() - begun) * 1000)
    cpu_ms = (cpu_s(node) - worked) * 1000 / rounds
    return (
        f"| {path} | {times[0]:.0f} | {statistics.median(times):.0f} | {max(times):.0f} |"
        f" {cpu_ms:.0f} | {size / 1024:.0f} |"
    )


def cpu_s(process: psutil.Process) -> float:
    """Seconds that it has worked."""
    times = process.cpu_times()
    return float(times.user + times.system)


class Page:
    """An open web page: all lists, every so many seconds."""

    def __init__(self, port: int, every_s: float) -> None:
        self._api = Api(port)
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.polls = 0

    def __enter__(self) -> "Page":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            for path in POLLED:
                self._api.get(path)
            self.polls += 1


def measure_rates(broker: Warren, options: argparse.Namespace) -> None:
    """Messages a second with the page and without, in turn."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(options.rate_rounds):
        for is_open in (False, True):
            if is_open:
                with Page(broker.management_port, options.every):
                    rate = run_row(ROW, broker, options)["pub_per_s"]
            else:
                rate = run_row(ROW, broker, options)["pub_per_s"]
            found[is_open].append(float(rate))
    without, with_page = statistics.median(found[False]), statistics.median(found[True])
    lost = 100 * (1 - with_page / without)
    print(f"messages/s without a page: {without:.0f} {found[False]}")
    print(f"messages/s with a page every {options.every:g} s: {with_page:.0f} {found[True]}")
    print(f"less by {lost:.1f} %")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5, help="of each list")
    parser.add_argument("--rate-rounds", type=int, default=3, help="0: no message rates")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each rate")
    parser.add_argument("--warmup", type=float, default=2.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two polls")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for Warren")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder = Path(tempfile.mkdtemp(prefix="warren-management-"))
    broker = Warren(options.python, folder, options.set)
    broker.start()
    clients: list[Client] = []
    try:
        print(f"{machine()}, {broker.build} build")
        took = timed(keep(clients, lambda: set_up(broker, options)))
        print(
            f"{options.queues} queues, {len(clients)} connections,"
            f" {CHANNELS * len(clients)} channels, {CONSUMERS * len(clients)} consumers"
            f" in {took:.1f} s"
        )
        measure_lists(broker, options.rounds)
        if options.rate_rounds:
            measure_rates(broker, options)
    finally:
        for client in clients:
            client.close()
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def keep(into: list[Client], make: Callable[[], list[Client]]) -> Callable[[], None]:
    def work() -> None:
        into.extend(make())

    return work


if __name__ == "__main__":
    raise SystemExit(main())
