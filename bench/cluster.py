"""Clusters of Warren and RabbitMQ measured side by side: `python -m bench.cluster --help`.

Both clusters run on this machine, on empty data; each row runs on both in turn, in rounds, once
with the clients on the node of the queue's leader (`near`) and once on another (`far`). Quorum
queues with a member on each node (`--type mirrored`: classic queues under `ha-mode: all`), bodies
of 1 KB, unless the options say otherwise. CPU is the sum over the nodes. A figure is the median of
the rounds with its range.

    confirm     one publisher, 1,000 in flight        pubsub      the same and one consumer
    confirm10   over AMQP 1.0                         pubsub10    over AMQP 1.0
    four        four queues, four publishers          single      one message in flight
    paced       5,000/s published and consumed        kill        2,000/s, the leader is killed -9
    idle        1,000 queues in which nothing happens
    hang        2,000/s, the leader is stopped with SIGSTOP
    slow        paced, one follower 200 ms away (Warren alone, behind Toxiproxy)
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from bench.cluster_brokers import (
    MIRRORED,
    BrokerCluster,
    RabbitCluster,
    WarrenCluster,
    declare,
    delete,
)
from bench.run import HERE, ROOT, machine, percentiles, spread

QUEUE: Final = "bench"
CONSUME: Final = "prefetch=1000,ack=100"
SLOW_MS: Final = 200
IDLE_QUEUES: Final = 1000
LEADER: Final = 1  # queues are declared there
FAR: Final = 2
KILL_AFTER_S: Final = 6.0
KILL_LASTS_S: Final = 14.0
HANG_LASTS_S: Final = 4.0  # until the leader that was stopped continues
PLACES: Final = {"near": LEADER, "far": FAR}


@dataclass(frozen=True, slots=True)
class Row:
    """One load: connections of bgen without their ports, and its other options."""

    name: str
    connections: tuple[str, ...]
    options: str = ""
    queues: int = 1
    figure: str = "pub_per_s"


def publisher(queue: int = 1, window: int = 1000, protocol: str = "0.9.1") -> str:
    return f"proto={protocol},pub={QUEUE}-{queue},window={window}"


def consumer(protocol: str = "0.9.1") -> str:
    return f"proto={protocol},sub={QUEUE}-1,{CONSUME}"


ROWS: Final = (
    Row("confirm", (publisher(),)),
    Row("confirm10", (publisher(protocol="1.0"),)),
    Row("pubsub", (publisher(), consumer())),
    Row("pubsub10", (publisher(protocol="1.0"), consumer("1.0"))),
    Row("four", tuple(publisher(number) for number in (1, 2, 3, 4)), queues=4),
    Row("single", (publisher(window=1),)),
    Row("paced", (publisher(), consumer().replace("ack=100", "ack=20")), "--rate 5000"),
)
KILL: Final = Row("kill", (publisher(),), "--rate 2000", figure="max_confirm_gap_ms")
HANG: Final = Row("hang", (publisher(),), "--rate 2000", figure="max_confirm_gap_ms")
SLOW: Final = Row("slow", (publisher(), consumer().replace("ack=100", "ack=20")), "--rate 5000")
IDLE: Final = "idle"
NAMES: Final = (*(row.name for row in ROWS), KILL.name, HANG.name, IDLE, SLOW.name)


@dataclass
class Figures:
    """What the rounds of one row on one broker gave."""

    compared: list[float] = field(default_factory=list)
    consumed_per_s: list[float] = field(default_factory=list)
    cpu_us_per_message: list[float] = field(default_factory=list)
    confirm_ms: list[list[float]] = field(default_factory=list)
    end_to_end_ms: list[list[float]] = field(default_factory=list)


class RowFailed(Exception):
    """bgen gave up: the broker refused something, or went away."""


def run_row(row: Row, broker: BrokerCluster, place: str, options: argparse.Namespace) -> Figures:
    """Run one row once on fresh queues."""
    names = [f"{QUEUE}-{number}" for number in range(1, row.queues + 1)]
    ports = broker.ports()
    declare(ports[LEADER - 1], names, options.type, options.nodes)
    try:
        return figures_of(row, bgen(row, broker, ports[PLACES[place] - 1], options))
    finally:
        delete(ports[FAR - 1], names)


def bgen(
    row: Row, broker: BrokerCluster, port: int, options: argparse.Namespace, seconds: float = 0.0
) -> dict[str, Any]:
    """Run the generator against one node; its JSON object."""
    lasts = seconds or options.seconds + options.warmup
    command = [str(HERE / "bgen"), "--port", str(port), "--size", str(options.size)]
    for connection in row.connections:
        command += ["--conn", f"{connection},port={port}"]
    command += [*row.options.split(), "--warmup", str(options.warmup), "--duration", str(lasts)]
    command += ["--pids", ",".join(map(str, broker.pids()))]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=lasts + 120, check=False
    )
    if done.returncode not in (0, 3) or not done.stdout.strip():
        raise RowFailed(f"{' '.join(command)} failed with code {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def figures_of(row: Row, answer: dict[str, Any]) -> Figures:
    rate = float(answer["pub_per_s"])
    figures = Figures([float(answer[row.figure])], [float(answer["sub_per_s"])])
    if rate:
        figures.cpu_us_per_message = [float(answer["broker_cpu_pct"]) / 100 / rate * 1e6]
    figures.confirm_ms = [answer["conf_ms"]]
    if any(answer["e2e_ms"]):
        figures.end_to_end_ms = [answer["e2e_ms"]]
    return figures


def run_kill(broker: BrokerCluster, options: argparse.Namespace) -> Figures:
    """Kill the leader's node under load; the publisher is on another one."""
    ports = broker.ports()
    declare(ports[LEADER - 1], [f"{QUEUE}-1"], options.type, options.nodes)
    killer = threading.Timer(KILL_AFTER_S, broker.kill9, [LEADER])
    killer.start()
    try:
        answer = bgen(KILL, broker, ports[FAR - 1], options, KILL_LASTS_S)
    finally:
        killer.join()
        broker.start_again(LEADER)
        delete(ports[FAR - 1], [f"{QUEUE}-1"])
    figures = figures_of(KILL, answer)
    figures.cpu_us_per_message = []  # One of the processes is gone.
    return figures


def run_hang(broker: BrokerCluster, options: argparse.Namespace) -> Figures:
    """Stop the leader's process under load for a while; the publisher is on another node."""
    ports = broker.ports()
    declare(ports[LEADER - 1], [f"{QUEUE}-1"], options.type, options.nodes)

    def hang() -> None:
        broker.pause(LEADER)
        time.sleep(HANG_LASTS_S)
        broker.resume(LEADER)

    hanging = threading.Timer(KILL_AFTER_S, hang)
    hanging.start()
    try:
        answer = bgen(HANG, broker, ports[FAR - 1], options, KILL_LASTS_S)
    finally:
        hanging.join()
        delete(ports[FAR - 1], [f"{QUEUE}-1"])
    figures = figures_of(HANG, answer)
    figures.cpu_us_per_message = []  # One of the processes did not run.
    return figures


def run_idle(broker: BrokerCluster, options: argparse.Namespace) -> Figures:
    """CPU of all nodes, in per cent of a core for each, while many queues do nothing."""
    names = [f"{QUEUE}-{number}" for number in range(1, IDLE_QUEUES + 1)]
    port = broker.ports()[LEADER - 1]
    declare(port, names, options.type, options.nodes)
    time.sleep(options.warmup + 5)  # Until what declaring has left behind is done.
    processes = [psutil.Process(pid) for pid in broker.pids()]
    before = [sum(process.cpu_times()[:2]) for process in processes]
    began = time.monotonic()
    time.sleep(options.seconds)  # So long it is measured.
    passed = time.monotonic() - began
    shares = [
        100 * (sum(process.cpu_times()[:2]) - spent) / passed
        for process, spent in zip(processes, before, strict=True)
    ]
    delete(port, names)
    return Figures([statistics.mean(shares)])


def run_slow(broker: WarrenCluster, options: argparse.Namespace) -> Figures:
    """The paced load while what one follower hears and says takes longer."""
    links = broker.cluster.links
    follower = options.nodes
    try:
        for number in range(1, options.nodes):
            links.slow(number, follower, SLOW_MS // 2)
        return run_row(SLOW, broker, "near", options)
    finally:
        links.heal()


def once(name: str, place: str, broker: BrokerCluster, options: argparse.Namespace) -> Figures:
    """One row by its name."""
    if name == KILL.name:
        return run_kill(broker, options)
    if name == HANG.name:
        return run_hang(broker, options)
    if name == IDLE:
        return run_idle(broker, options)
    row = next(row for row in ROWS if row.name == name)
    return run_row(row, broker, place, options)


def add(figures: Figures, more: Figures) -> None:
    """Add a round."""
    figures.compared += more.compared
    figures.consumed_per_s += more.consumed_per_s
    figures.cpu_us_per_message += more.cpu_us_per_message
    figures.confirm_ms += more.confirm_ms
    figures.end_to_end_ms += more.end_to_end_ms


Results = dict[str, dict[str, Figures]]


def run_rows(
    rows: Sequence[tuple[str, str]],
    brokers: Sequence[BrokerCluster],
    options: argparse.Namespace,
) -> Results:
    """All rows on all brokers, in turn, `rounds` times."""
    results: Results = {}
    for name, place in rows:
        label = f"{name} {place}".strip()
        results[label] = {broker.name: Figures() for broker in brokers}
        for number in range(options.rounds):
            for broker in brokers if number % 2 == 0 else reversed(brokers):
                try:
                    add(results[label][broker.name], once(name, place, broker, options))
                except RowFailed as failure:
                    print(failure, file=sys.stderr, flush=True)
        for broker in brokers:
            told = spread(results[label][broker.name].compared, 1)
            print(f"{label} {broker.name}: {told}", file=sys.stderr, flush=True)
    return results


def table(results: Results) -> str:
    """The markdown table of all rows and brokers."""
    lines = [
        "| row | broker | compared | consumed/s | CPU us/message, all nodes"
        " | confirm p50/p99 ms | end to end p50/p99 ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for row, by_broker in results.items():
        for broker, figures in by_broker.items():
            cells = (
                row,
                broker,
                spread(figures.compared, 1),
                spread(figures.consumed_per_s),
                spread(figures.cpu_us_per_message, 1),
                percentiles(figures.confirm_ms),
                percentiles(figures.end_to_end_ms),
            )
            lines.append(f"| {' | '.join(cells)} |")
        if len(by_broker) == 2 and all(figures.compared for figures in by_broker.values()):
            ours, theirs = (
                statistics.median(by_broker[name].compared) for name in ("warren", "rabbitmq")
            )
            lines.append(f"| {row} | ratio | {ours / max(theirs, 0.001):.2f} x | | | | |")
    return "\n".join(lines)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--rabbitmq", action="store_true", help="measure RabbitMQ beside Warren")
    parser.add_argument("--only-rabbitmq", action="store_true", help="measure RabbitMQ alone")
    parser.add_argument("--nodes", type=int, choices=(1, 3, 5, 7), default=3)
    parser.add_argument("--type", choices=("quorum", "classic", MIRRORED), default="quorum")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="measured time of one row")
    parser.add_argument("--warmup", type=float, default=2.0)
    parser.add_argument("--rows", default="", help=f"comma-separated: {', '.join(NAMES)}")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for Warren")
    options = parser.parse_args(arguments)
    unknown = set(filter(None, options.rows.split(","))) - set(NAMES)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    return options


def chosen(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Rows and places that run on every broker."""
    wanted = set(filter(None, options.rows.split(","))) or set(NAMES)
    places = list(PLACES) if options.nodes > 1 else ["near"]
    rows = [(row.name, place) for row in ROWS if row.name in wanted for place in places]
    if KILL.name in wanted and options.nodes > 2:
        rows.append((KILL.name, ""))
    if HANG.name in wanted and options.nodes > 2:
        rows.append((HANG.name, ""))
    if IDLE in wanted:
        rows.append((IDLE, ""))
    return rows


def start(broker: BrokerCluster, options: argparse.Namespace) -> None:
    broker.start()
    if options.type == MIRRORED:
        broker.mirror_all()


def measure(options: argparse.Namespace, folder: Path, kept: dict[str, Any]) -> Results:
    """Start the clusters, run all rows, stop them."""
    warren = WarrenCluster(options.nodes, options.python.absolute(), folder, options.set)
    brokers: list[BrokerCluster] = [] if options.only_rabbitmq else [warren]
    if options.rabbitmq or options.only_rabbitmq:
        brokers.append(RabbitCluster(options.nodes))
    started: list[BrokerCluster] = []
    try:
        for broker in brokers:
            started.append(broker)
            start(broker, options)
        kept["build"] = warren.build
        return run_rows(chosen(options), brokers, options)
    finally:
        for broker in started:
            broker.stop()


def measure_slow(options: argparse.Namespace, folder: Path) -> Results:
    """The row of the slow follower, on a cluster of its own."""
    broker = WarrenCluster(
        options.nodes, options.python.absolute(), folder, options.set, proxied=True
    )
    figures: dict[str, Figures] = {"paced, proxied": Figures(), SLOW.name: Figures()}
    try:
        start(broker, options)
        paced = next(row for row in ROWS if row.name == "paced")
        for _ in range(options.rounds):
            add(figures["paced, proxied"], run_row(paced, broker, "near", options))
            add(figures[SLOW.name], run_slow(broker, options))
    finally:
        broker.stop()
    return {name: {"warren": each} for name, each in figures.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, keep the results."""
    options = parse(arguments)
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="warren-bench-", dir=options.data))
    kept: dict[str, Any] = {"machine": machine(), "arguments": sys.argv[1:]}
    results = measure(options, folder, kept)
    wanted = options.rows.split(",")
    if SLOW.name in wanted and options.nodes > 1 and not options.only_rabbitmq:
        results |= measure_slow(options, folder)
    kept["rows"] = {
        row: {name: asdict(figures) for name, figures in by_broker.items()}
        for row, by_broker in results.items()
    }
    (HERE / "results").mkdir(exist_ok=True)
    path = HERE / "results" / f"cluster-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    print(f"{kept['machine']}; Warren {kept['build']}, {options.nodes} nodes\n")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
