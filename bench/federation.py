"""Links and shovels of Warren and RabbitMQ side by side: `python -m bench.federation --help`.

Each broker has two single nodes on this machine, an upstream and a downstream, which runs the link;
each row runs on both brokers in turn, in rounds. Messages of `--size` bytes, persistent, in durable
classic queues, on-confirm, prefetch 1,000. A figure is the median of the rounds with its range.

    exchange    from the first publish at the upstream exchange until the queue of the downstream
                exchange has all messages; messages/s
    queue       a consumer at the downstream queue takes the backlog of the upstream queue
    shovel      from queue to queue over AMQP 0-9-1         shovel10    the same over AMQP 1.0
    exchange-slow, queue-slow, shovel-slow, shovel10-slow
                the same through Toxiproxy, 50 ms in each direction; the bound is 10,000/s. Measured
                without the start: from the first message seen, of `queue` from the second second on
    idle        CPU and memory of a downstream node with `--links` exchange links without messages
    publish     p50 and p99 of confirms of 2,000 messages/s at the upstream: alone; with the work of
                a link done by a plain client (a consumer at the upstream and a publisher of 2,000
                messages/s at the downstream); with a link

A part that lasts longer than `--limit` seconds ends there; its row says so on stderr.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import psutil

from bench.federation_sides import (
    RabbitSide,
    Side,
    TooSlow,
    WarrenSide,
    cpu_seconds,
    rss_bytes,
    until,
)
from bench.run import HERE, ROOT, machine, spread
from warren.client import ClientError, amqp091
from warren.testing import free_ports
from warren.testing.toxiproxy import Proxy, Toxic, ToxiproxyServer

ONE_WAY_MS: Final = 50
PREFETCH: Final = 1000
SAMPLE_SECONDS: Final = 0.02
SLOW: Final = "-slow"
MOVING: Final = ("exchange", "queue", "shovel", "shovel10")
NAMES: Final = (*MOVING, *(f"{name}{SLOW}" for name in MOVING), "idle", "publish")
PUBLISH_RATE: Final = 2000
SETTLE_SECONDS: Final = 10.0
Figures = dict[str, float]


class Pair:
    """Two nodes, and the port at which the downstream finds the upstream."""

    def __init__(self, up: Side, down: Side, options: argparse.Namespace) -> None:
        self.up, self.down, self.options = up, down, options
        self.link_port = up.port

    @property
    def is_slow(self) -> bool:
        return self.link_port != self.up.port

    def uri(self, port: int, vhost: str = "/%2F") -> str:
        return f"amqp://guest:guest@127.0.0.1:{port}{vhost}"


def ask(port: int, work: Callable[[amqp091.Management], Coroutine[Any, Any, Any]]) -> Any:
    """Let `work` have a channel for definitions of the node at that port."""

    async def connected() -> Any:
        async with await amqp091.connect(f"amqp://guest:guest@127.0.0.1:{port}/%2F") as connection:
            return await work(await connection.management())

    return asyncio.run(connected())


def fresh(port: int, *queues: str) -> None:
    async def work(management: amqp091.Management) -> None:
        for queue in queues:
            await management.delete_queue(queue)
            await management.declare_queue(queue)

    ask(port, work)


def bgen(*words: object) -> list[str]:
    return [str(HERE / "bgen"), *map(str, words)]


def generated(command: list[str], seconds: float) -> dict[str, Any]:
    """Run the generator to its end; its JSON object."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise TooSlow(f"not within {seconds:g} s: {' '.join(command)}") from None
    if done.returncode not in (0, 3) or not done.stdout.strip():
        raise TooSlow(f"{' '.join(command)} failed with code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def publish(pair: Pair, port: int, queue: str, exchange: str = "") -> list[str]:
    """The command that publishes all messages of a row."""
    options = pair.options
    words = ("--port", port, "--queue", queue, "--producers", 1, "--window", 1000)
    more = ("--size", options.size, "--count", options.messages, "--duration", options.limit)
    return bgen(*words, *more, "--exchange", exchange)


def arrived(port: int, queue: str, count: int, limit_s: float) -> float:
    """Messages/s, from the first message that is seen in the queue until all are there."""

    async def work(management: amqp091.Management) -> float:
        first: tuple[float, int] | None = None
        deadline = time.monotonic() + limit_s
        while True:
            try:
                depth = (await management.queue(queue)).message_count
            except ClientError:
                depth = 0  # The shovel has not declared it yet.
            now = time.monotonic()
            if first is None and depth:
                first = now, depth
            if first is not None and depth >= count:
                return (count - first[1]) / max(SAMPLE_SECONDS, now - first[0])
            if now > deadline:
                raise TooSlow(f"{depth} of {count} messages within {limit_s:g} s in {queue}")
            await asyncio.sleep(SAMPLE_SECONDS)

    return float(ask(port, work))


def upstream(pair: Pair) -> None:
    """The upstream `bench`, with RabbitMQ's defaults but for the time between attempts."""
    value = {"uri": pair.uri(pair.link_port), "prefetch-count": PREFETCH, "reconnect-delay": 1}
    pair.down.put("federation-upstream", "bench", value)


def linked(pair: Pair, apply_to: str, pattern: str, count: int = 1) -> None:
    """Federate what the pattern matches, and wait until so many links run."""
    upstream(pair)
    pair.down.put_policy("bench", apply_to, pattern, "bench")
    until(lambda: pair.down.running_links() == count, pair.options.limit, f"{count} links run")


def unlinked(pair: Pair) -> None:
    pair.down.clear_policy("bench")
    until(lambda: pair.down.running_links() == 0, pair.options.limit, "no link runs")
    pair.down.clear("federation-upstream", "bench")


def declare_exchange(port: int, queue: str) -> None:
    async def work(management: amqp091.Management) -> None:
        await management.declare_exchange("fanned", "fanout")
        await management.delete_queue(queue)
        await management.declare_queue(queue)
        await management.bind("fanned", queue=queue)

    ask(port, work)


def await_binding(pair: Pair) -> None:
    """A link of RabbitMQ runs before it has bound: publish until a message arrives."""

    async def depth(management: amqp091.Management) -> int:
        return (await management.queue("arrivals")).message_count

    async def purge(management: amqp091.Management) -> None:
        await management.purge_queue("arrivals")

    limit_s = pair.options.limit
    probe = bgen("--port", pair.up.port, "--queue", "k", "--exchange", "fanned", "--producers", 1)

    def came() -> bool:
        generated([*probe, "--count", "1"], limit_s)
        time.sleep(4 * ONE_WAY_MS / 1000)
        return bool(ask(pair.down.port, depth))

    until(came, limit_s, "a message arrives over the link")
    ask(pair.down.port, purge)


def run_exchange(pair: Pair) -> Figures:
    down, count, limit = pair.down.port, pair.options.messages, pair.options.limit
    declare_exchange(down, "arrivals")
    ask(pair.up.port, lambda management: management.declare_exchange("fanned", "fanout"))
    linked(pair, "exchanges", "^fanned$")
    try:
        await_binding(pair)
        begun_s = time.monotonic()
        publisher = subprocess.Popen(
            publish(pair, pair.up.port, "k", "fanned"), stdout=subprocess.DEVNULL
        )
        try:
            per_s = arrived(down, "arrivals", count, limit)
        finally:
            publisher.kill()
            publisher.wait()
        return {"per_s": per_s if pair.is_slow else count / (time.monotonic() - begun_s)}
    finally:
        unlinked(pair)


def run_queue(pair: Pair) -> Figures:
    options = pair.options
    for port in (pair.up.port, pair.down.port):
        fresh(port, "federated")
    generated(publish(pair, pair.up.port, "federated"), options.limit)
    linked(pair, "queues", "^federated$")
    try:
        words = ("--port", pair.down.port, "--queue", "federated", "--consumers", 1)
        more = ("--prefetch", 1000, "--ack", 100, "--consume-count", options.messages)
        ends = ("--duration", options.limit, "--linger", options.limit / 2)
        start = ("--warmup", 1) if pair.is_slow else ()
        answer = generated(bgen(*words, *more, *ends, *start), options.limit + 10)
        if answer["received"] < options.messages:
            raise TooSlow(f"{answer['received']} of {options.messages} messages were consumed")
        return {"per_s": answer["sub_per_s"]}
    finally:
        unlinked(pair)


def run_shovel(pair: Pair, protocol: str) -> Figures:
    options = pair.options
    fresh(pair.up.port, "source")
    fresh(pair.down.port, "target")
    generated(publish(pair, pair.up.port, "source"), options.limit)
    if protocol == "amqp10":  # RabbitMQ's client refuses a vhost in these URIs.
        source = {"uri": pair.uri(pair.link_port, ""), "address": "/queues/source"}
        target = {"uri": pair.uri(pair.down.port, ""), "address": "/queues/target"}
    else:
        source = {"uri": pair.uri(pair.link_port), "queue": "source"}
        target = {"uri": pair.uri(pair.down.port), "queue": "target"}
    value: dict[str, object] = {"ack-mode": "on-confirm", "src-prefetch-count": PREFETCH}
    for kind, end in (("src", source), ("dest", target)):
        value |= {f"{kind}-{name}": given for name, given in end.items()}
        value[f"{kind}-protocol"] = protocol
    pair.down.put("shovel", "bench", value)
    try:
        return {"per_s": arrived(pair.down.port, "target", options.messages, options.limit)}
    finally:
        pair.down.clear("shovel", "bench")


def run_slow(pair: Pair, row: Callable[[Pair], Figures]) -> Figures:
    """The row with a round trip of twice ONE_WAY_MS between the two nodes."""
    api_port, pair.link_port = free_ports(2)
    proxy = Proxy("link", pair.link_port, f"127.0.0.1:{pair.up.port}")
    server = ToxiproxyServer(api_port, [proxy])
    server.start()
    try:
        for stream in ("upstream", "downstream"):
            server.add("link", Toxic("latency", stream, {"latency": ONE_WAY_MS}))
        return row(pair)
    finally:
        pair.link_port = pair.up.port
        server.stop()


def run_idle(pair: Pair) -> Figures:
    """CPU in percent of a core and memory for each link, over those of the node without links."""
    options, pid = pair.options, pair.down.pid()
    names = [f"idle-{number}" for number in range(options.links)]

    async def declare(management: amqp091.Management) -> None:
        for name in names:
            await management.declare_exchange(name, "fanout")

    async def delete(management: amqp091.Management) -> None:
        for name in names:
            await management.delete_exchange(name)

    for port in (pair.up.port, pair.down.port):
        ask(port, declare)
    time.sleep(SETTLE_SECONDS)
    before = rss_bytes(pid)
    begun_s = time.monotonic()
    linked(pair, "exchanges", "^idle-", options.links)
    started_s = time.monotonic() - begun_s
    try:
        time.sleep(SETTLE_SECONDS)
        memory = (rss_bytes(pid) - before) / options.links / 1024
        used, up_used = cpu_seconds(pid), cpu_seconds(pair.up.pid())
        time.sleep(options.idle_seconds)
        found = {
            "cpu_pct": (cpu_seconds(pid) - used) / options.idle_seconds * 100,
            "upstream_cpu_pct": (cpu_seconds(pair.up.pid()) - up_used) / options.idle_seconds * 100,
            "kb_per_link": memory,
            "start_s": started_s,
        }
    finally:
        unlinked(pair)
    for port in (pair.up.port, pair.down.port):
        ask(port, delete)
    return found


def declare_bound(port: int, queue: str) -> None:
    """Declare a durable queue that is bound to the exchange `fanned`."""

    async def work(management: amqp091.Management) -> None:
        await management.declare_queue(queue)
        await management.bind("fanned", queue=queue)

    ask(port, work)


@contextmanager
def plain_client(pair: Pair) -> Iterator[None]:
    """Do at both nodes what a link asks of them, by one process that is no broker."""
    declare_bound(pair.up.port, "taken")
    source = f"port={pair.up.port},sub=taken,prefetch={PREFETCH},ack=1"
    target = f"port={pair.down.port},pub=k,window={PREFETCH}"
    words = ("--conn", source, "--conn", target, "--exchange", "fanned", "--rate", PUBLISH_RATE)
    more = ("--size", pair.options.size, "--duration", pair.options.limit)
    client = subprocess.Popen(bgen(*words, *more), stdout=subprocess.DEVNULL)
    try:
        if pair.options.apart:
            run_on(client.pid, os.sched_getaffinity(pair.down.pid()))
        yield
    finally:
        client.kill()
        client.wait()
        ask(pair.up.port, lambda management: management.delete_queue("taken"))


@contextmanager
def link(pair: Pair) -> Iterator[None]:
    linked(pair, "exchanges", "^fanned$")
    try:
        yield
    finally:
        unlinked(pair)


@contextmanager
def apart(pair: Pair) -> Iterator[None]:
    """Leave the last CPU to the downstream node, and the others to the rest, as if the nodes ran
    on two machines. They still share the disk."""
    every = os.sched_getaffinity(0)
    last = {max(every)}
    placed = {os.getpid(): every - last, pair.up.pid(): every - last, pair.down.pid(): last}
    for pid, cpus in placed.items():
        run_on(pid, cpus)
    try:
        yield
    finally:
        for pid in placed:
            run_on(pid, every)


def run_on(pid: int, cpus: set[int]) -> None:
    for thread in psutil.Process(pid).threads():
        os.sched_setaffinity(thread.id, cpus)


def run_publish(pair: Pair) -> Figures:
    """Confirms of a paced publisher at the upstream: alone, beside a plain client, with a link."""
    if pair.options.apart:
        with apart(pair):
            return confirms(pair)
    return confirms(pair)


def confirms(pair: Pair) -> Figures:
    found: Figures = {}
    for port in (pair.up.port, pair.down.port):
        declare_exchange(port, "arrivals")
    words = ("--port", pair.up.port, "--queue", "k", "--exchange", "fanned", "--producers", 1)
    more = ("--size", pair.options.size, "--rate", PUBLISH_RATE, "--window", 1000, "--warmup", 1)
    command = bgen(*words, *more, "--duration", pair.options.seconds + 1)
    for name, beside in (("alone", nullcontext), ("plain", plain_client), ("linked", link)):
        with beside(pair):
            answer = generated(command, pair.options.limit)
        found |= {f"{name}_p50_ms": answer["conf_ms"][0], f"{name}_p99_ms": answer["conf_ms"][1]}
    return found


def run_row(name: str, pair: Pair) -> Figures:
    rows: dict[str, Callable[[Pair], Figures]] = {
        "exchange": run_exchange,
        "queue": run_queue,
        "shovel": lambda pair: run_shovel(pair, "amqp091"),
        "shovel10": lambda pair: run_shovel(pair, "amqp10"),
        "idle": run_idle,
        "publish": run_publish,
    }
    if name.endswith(SLOW):
        return run_slow(pair, rows[name.removesuffix(SLOW)])
    return rows[name](pair)


Results = dict[str, dict[str, list[Figures]]]


def run_rows(names: Sequence[str], pairs: Sequence[Pair], rounds: int) -> Results:
    """All rows on all brokers, in turn."""
    results: Results = {name: {pair.down.broker: [] for pair in pairs} for name in names}
    for name in names:
        for number in range(rounds):
            for pair in pairs if number % 2 == 0 else reversed(pairs):
                broker = pair.down.broker
                try:
                    found = run_row(name, pair)
                except (TooSlow, subprocess.CalledProcessError, ClientError, OSError) as error:
                    print(f"{name} {broker}: {error}", file=sys.stderr, flush=True)
                    continue
                results[name][broker].append(found)
                print(json.dumps({"row": name, "broker": broker, **found}), flush=True)
    return results


def table(results: Results) -> str:
    """Markdown: a line for each figure of each row."""
    lines = ["| row | figure | Warren | RabbitMQ | ratio |", "|---|---|---|---|---|"]
    for name, by_broker in results.items():
        figures = dict.fromkeys(key for runs in by_broker.values() for run in runs for key in run)
        for figure in figures:
            values = {broker: [run[figure] for run in runs] for broker, runs in by_broker.items()}
            digits = 0 if figure == "per_s" else 2
            shown = [
                spread(values[broker], digits) if values.get(broker) else "-"
                for broker in ("warren", "rabbitmq")
            ]
            ratio = "-"
            if values.get("warren") and values.get("rabbitmq"):
                other = statistics.median(values["rabbitmq"])
                ratio = f"{statistics.median(values['warren']) / other:.2f}" if other else "-"
            lines.append(f"| {name} | {figure} | {' | '.join(shown)} | {ratio} |")
    return "\n".join(lines)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--rabbitmq", action="store_true", help="measure RabbitMQ beside Warren")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="", help=f"comma-separated; default all: {NAMES}")
    parser.add_argument("--messages", type=int, default=100_000, help="of one row")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--links", type=int, default=1000, help="of the row idle")
    parser.add_argument("--idle-seconds", type=float, default=20.0, help="of the row idle")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the row publish, each part")
    text = "row publish: a CPU for the downstream node alone, as on another machine"
    parser.add_argument("--apart", action="store_true", help=text)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each part")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    options = parser.parse_args(arguments)
    unknown = set(filter(None, options.rows.split(","))) - set(NAMES)
    if unknown:
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}; allowed: {', '.join(NAMES)}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    options = parse(arguments)
    names = [name for name in NAMES if not options.rows or name in options.rows.split(",")]
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="warren-bench-", dir=options.data))
    python = options.python.absolute()
    sides: list[tuple[Side, Side]] = [
        (WarrenSide("up", python, folder), WarrenSide("down", python, folder))
    ]
    if options.rabbitmq:
        sides.append((RabbitSide(1), RabbitSide(2)))
    started: list[Side] = []
    try:
        for side in (side for pair in sides for side in pair):
            started.append(side)
            side.start()
        results = run_rows(names, [Pair(*each, options) for each in sides], options.rounds)
    finally:
        for side in started:
            side.stop()
    print(f"\n{machine()}; {' '.join(arguments or sys.argv[1:])}\n\n{table(results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
