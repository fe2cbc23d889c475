"""What a lone message costs: `python -m bench.micro.lone --help`.

Messages of 1 KB come so seldom that most reads, turns and synced writes are for one of them. CPU is
the sum over the nodes, from /proc; turns and synced writes are from `/metrics`. Several builds of
Warren (`--python`, given again) are measured in turn, A B A B ..., each on a fresh cluster, and
with `--rabbitmq` RabbitMQ beside them.

    three     three nodes, quorum queue: 1,000/s over 99 connections to all nodes; on each node a
              consumer that acknowledges every message
    one       one node, classic queue: 5,000/s, one publisher, one consumer, an ack for each 20
    idle      three nodes without clients: CPU of all of them in a minute
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import psutil

from bench.cluster_brokers import BrokerCluster, RabbitCluster, WarrenCluster, declare
from bench.run import HERE, ROOT
from warren.testing.http_api import HttpApi

QUEUE: Final = "lone"
SUMS: Final = {
    "syncs": re.compile(r"^warren_wal_sync_seconds_count\S* (\S+)$", re.M),
    "turns": re.compile(r"^warren_loop_turn_ms_count\S* (\S+)$", re.M),
}


@dataclass(frozen=True, slots=True)
class Load:
    """One row. A node has `publishers` and one consumer."""

    nodes: int
    kind: str
    publishers: int
    rate: int
    ack: int


LOADS: Final = {"three": Load(3, "quorum", 33, 1000, 1), "one": Load(1, "classic", 1, 5000, 20)}
IDLE: Final = "idle"
ROWS: Final = (*LOADS, IDLE)


def generator(load: Load, ports: Sequence[int], seconds: float, warmup: float) -> list[str]:
    """The command of bgen for a load."""
    command = [str(HERE / "bgen"), "--size", "1024", "--rate", str(load.rate)]
    for port in ports:
        publisher = f"proto=0.9.1,pub={QUEUE},window=1000,port={port}"
        command += ["--conn", publisher] * load.publishers
        command += ["--conn", f"proto=0.9.1,sub={QUEUE},prefetch=1000,ack={load.ack},port={port}"]
    return [*command, "--warmup", str(warmup), "--duration", str(seconds + warmup)]


def cpu_s(pids: Sequence[int]) -> float:
    """CPU time of all threads of these processes, of which some may have ended."""
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def sums(broker: BrokerCluster) -> dict[str, float]:
    """Counters of all nodes of a Warren."""
    totals = dict.fromkeys(SUMS, 0.0)
    if isinstance(broker, WarrenCluster):
        for node in broker.cluster.nodes:
            text = HttpApi(f"http://127.0.0.1:{node.management_port}").text("/metrics")
            for name, pattern in SUMS.items():
                totals[name] += sum(map(float, pattern.findall(text)))
    return totals


def loaded(load: Load, broker: BrokerCluster, seconds: float, warmup: float) -> dict[str, float]:
    """Figures of one row on a broker that runs."""
    ports = broker.ports()
    declare(ports[0], [QUEUE], load.kind, load.nodes)
    command = generator(load, ports, seconds, warmup)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        time.sleep(warmup)
        before, spent_s, began_s = sums(broker), cpu_s(broker.pids()), time.monotonic()
        # It ends a little earlier than the load.
        time.sleep(max(seconds - 0.5, 0.5))
        spent_s = cpu_s(broker.pids()) - spent_s
        count = load.rate * (time.monotonic() - began_s)
        after = sums(broker)
        told, _ = running.communicate(timeout=120)
    if running.returncode not in (0, 3) or not told.strip():
        raise SystemExit(f"{' '.join(command)} failed with code {running.returncode}")
    answer = json.loads(told.strip().splitlines()[-1])
    return {
        "published/s": answer["pub_per_s"],
        "consumed/s": answer["sub_per_s"],
        "CPU us/message": spent_s / count * 1e6,
        **{f"{name}/message": (after[name] - before[name]) / count for name in SUMS},
        "confirm p50 ms": answer["conf_ms"][0],
        "confirm p99 ms": answer["conf_ms"][1],
        "end to end p50 ms": answer["e2e_ms"][0],
        "end to end p99 ms": answer["e2e_ms"][1],
    }


def idle(broker: BrokerCluster, seconds: float, warmup: float) -> dict[str, float]:
    """CPU of all nodes for a minute in which nothing happens, and their memory."""
    time.sleep(warmup + 5)  # Until what the start has left behind is done.
    spent_s, began_s = cpu_s(broker.pids()), time.monotonic()
    time.sleep(seconds)
    passed_s = time.monotonic() - began_s
    spent_s = cpu_s(broker.pids()) - spent_s
    rss = [psutil.Process(pid).memory_info().rss / 1e6 for pid in broker.pids()]
    return {"CPU s/minute": spent_s * 60 / passed_s, "RSS MB, largest": max(rss)}


def measure(row: str, broker: BrokerCluster, options: argparse.Namespace) -> dict[str, float]:
    """One row on a fresh cluster."""
    broker.start()
    try:
        if row == IDLE:
            return idle(broker, options.seconds, options.warmup)
        load = LOADS[row]
        if options.rate:
            load = replace(load, rate=options.rate)
        return loaded(load, broker, options.seconds, options.warmup)
    finally:
        broker.stop()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", type=Path, action="append", help="of a compiled environment")
    parser.add_argument("--rabbitmq", action="store_true")
    parser.add_argument("--rows", default=",".join(ROWS), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--warmup", type=float, default=2.0)
    rate = (
        "messages/s in place of the row's: with few of them no two share a turn, on a busy machine"
    )
    parser.add_argument("--rate", type=int, default=0, help=rate)
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for Warren")
    options = parser.parse_args(arguments)
    unknown = set(options.rows.split(",")) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the rows and print a line for each broker."""
    options = parse(arguments)
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    pythons = options.python or [ROOT / ".venv-compiled/bin/python"]
    with tempfile.TemporaryDirectory(prefix="warren-bench-", dir=options.data) as folder:
        for row in options.rows.split(","):
            nodes = LOADS[row].nodes if row in LOADS else 3
            brokers: dict[str, BrokerCluster] = {
                str(python): WarrenCluster(nodes, python.absolute(), Path(folder), options.set)
                for python in pythons
            }
            if options.rabbitmq:
                brokers["rabbitmq"] = RabbitCluster(nodes)
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in brokers}
            for number in range(options.rounds):
                for name in list(brokers) if number % 2 == 0 else reversed(list(brokers)):
                    rounds[name].append(measure(row, brokers[name], options))
                    print(f"{row} {name}: {rounds[name][-1]}", file=sys.stderr, flush=True)
            for name, found in rounds.items():
                print(f"{row} {name}, medians of {options.rounds}:")
                for figure in found[0]:
                    values = sorted(each[figure] for each in found)
                    low, high = values[0], values[-1]
                    print(f"  {figure}: {statistics.median(values):.2f} ({low:.2f} .. {high:.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
