"""Measure mirrored queues: `python -m bench.mirrored --help`. Takes about four minutes.

Classic queues under `ha-mode: all` with automatic synchronisation; persistent, confirmed messages.
`python -m bench.cluster --type mirrored` compares them with RabbitMQ.

    ring     bytes that the leader's node sends per message of 1 KB, by number of mirrors
    sync     a third member is synchronised while 5,000/s are published; with `--disk-load 100`
             something else writes and syncs 100 MB/s to the same disk meanwhile
    quorum   confirms of a mirrored queue and of a quorum queue, by nodes and size of the body
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import cluster
from bench.cluster import QUEUE, Row, RowFailed, bgen, publisher, run_row
from bench.cluster_brokers import (
    MIRROR_POLICY,
    MIRRORED,
    RETRY_SECONDS,
    WarrenCluster,
    declare,
    delete,
)
from bench.run import HERE, ROOT, machine

NODES: Final = (3, 5, 7)
SIZES: Final = (100, 1024, 10_240, 102_400)
SYNC_RATE: Final = 5000
SYNC_WAIT_S: Final = 300.0
LOAD: Final = bytes(1_000_000)
LOAD_FILE_BYTES: Final = 1 << 30
CONFIRM: Final = Row("confirm", (publisher(),))
SYNC: Final = Row("sync", (publisher(),), f"--rate {SYNC_RATE}")


@contextmanager
def mirrored_cluster(options: argparse.Namespace, folder: Path) -> Iterator[WarrenCluster]:
    broker = WarrenCluster(options.nodes, options.python.absolute(), folder, options.set)
    try:
        broker.start()
        broker.mirror_all()
        yield broker
    finally:
        broker.stop()


def wait_for(what: str, is_so: Callable[[], bool], seconds: float = SYNC_WAIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise RowFailed(f"{what}: not within {seconds:g} s")
        time.sleep(RETRY_SECONDS / 10)


# Bytes on the ring


def sent_bytes(broker: WarrenCluster) -> int:
    """By the node of the leader, to all other nodes."""
    samples = broker.cluster.node(cluster.LEADER).metrics().items()
    return int(sum(value for key, value in samples if "peer_sent_bytes_total{" in key))


def ring_row(broker: WarrenCluster, options: argparse.Namespace) -> str:
    port = broker.ports()[cluster.LEADER - 1]
    declare(port, [f"{QUEUE}-1"], MIRRORED, options.nodes)
    before = sent_bytes(broker)
    bgen(CONFIRM, broker, port, options)
    row = broker.cluster.node(cluster.LEADER).api("GET", f"/api/queues/%2F/{QUEUE}-1")
    per_message = (sent_bytes(broker) - before) / max(1, row["messages"])
    delete(port, [f"{QUEUE}-1"])
    return f"| ring | {options.nodes - 1} mirrors | {per_message:,.0f} bytes per message of 1 KB |"


# Synchronisation


@contextmanager
def disk_load(folder: Path, mb_per_s: float) -> Iterator[None]:
    """Write and sync so much to a file beside the nodes' data, 1 MB at a time."""
    ended = threading.Event()

    def write() -> None:
        with (folder / "load").open("wb", buffering=0) as file:
            due_s = time.monotonic()
            while not ended.wait(max(0.0, due_s - time.monotonic())):
                due_s = max(due_s + 1 / mb_per_s, time.monotonic() - 1)
                if file.tell() >= LOAD_FILE_BYTES:
                    file.seek(0)
                file.write(LOAD)
                os.fdatasync(file.fileno())

    writer = threading.Thread(target=write)
    if mb_per_s > 0:
        writer.start()
    try:
        yield
    finally:
        ended.set()
        if mb_per_s > 0:
            writer.join()


def put_policy(broker: WarrenCluster, definition: dict[str, object]) -> None:
    body = {"pattern": f"^{QUEUE}", "priority": 1, "apply-to": "queues", "definition": definition}
    broker.cluster.node(cluster.LEADER).api("PUT", "/api/policies/%2F/sync", body)


def sync_row(broker: WarrenCluster, options: argparse.Namespace, folder: Path) -> str:
    """Fill a queue with two members, then let the third one join while messages are published."""
    two: dict[str, object] = {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"}
    put_policy(broker, two)
    node, port = broker.cluster.node(cluster.LEADER), broker.ports()[cluster.LEADER - 1]
    declare(port, [f"{QUEUE}-1"], MIRRORED, options.nodes)

    def row() -> dict[str, Any]:
        found: dict[str, Any] = node.api("GET", f"/api/queues/%2F/{QUEUE}-1")
        return found

    while row()["messages"] < options.backlog:
        bgen(CONFIRM, broker, port, options, 2.0)
    count = row()["messages"]
    time.sleep(options.rest)
    took: list[float] = []

    def synchronise() -> None:
        put_policy(broker, dict(MIRROR_POLICY))
        began = time.monotonic()
        wait_for("synchronised", lambda: len(row()["synchronised_slave_nodes"]) == 2)
        took.append(time.monotonic() - began)

    beginner = threading.Timer(options.warmup + 1, synchronise)
    beginner.start()
    try:
        with disk_load(folder, options.disk_load):
            answer = bgen(SYNC, broker, port, options, options.sync_seconds)
    finally:
        beginner.join()
        delete(port, [f"{QUEUE}-1"])
        node.api("DELETE", "/api/policies/%2F/sync")
    if not took:
        raise RowFailed("the mirror was not synchronised")
    p50, p99 = answer["conf_ms"][:2]
    return (
        f"| sync | {count:,} messages of 1 KB, {answer['pub_per_s']:,.0f}/s published | "
        f"{took[0]:.1f} s, {count * 1024 / took[0] / 1e6:.0f} MB/s; confirms p50 {p50:.1f} ms, "
        f"p99 {p99:.1f} ms |"
    )


# Beside quorum queues


def quorum_row(size: int, broker: WarrenCluster, options: argparse.Namespace) -> str:
    cells = []
    for type_ in (MIRRORED, "quorum"):
        changed = {**vars(options), "type": type_, "size": size}
        figures = run_row(CONFIRM, broker, "near", argparse.Namespace(**changed))
        cpu = figures.cpu_us_per_message[0] if figures.cpu_us_per_message else 0.0
        cells.append(f"{type_} {figures.compared[0]:,.0f}/s, {cpu:.1f} us")
    return f"| quorum | {options.nodes} nodes, {size:,} bytes | {'; '.join(cells)} |"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--seconds", type=float, default=6.0, help="measured time of one row")
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--backlog", type=int, default=200_000, help="messages to synchronise")
    parser.add_argument("--sync-seconds", type=float, default=15.0)
    parser.add_argument(
        "--disk-load", type=float, default=0.0, help="MB/s that something else writes meanwhile"
    )
    parser.add_argument(
        "--rest", type=float, default=0.0, help="seconds for the disk between backlog and sync"
    )
    parser.add_argument("--rows", default="ring,sync,quorum", help="those that are measured")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for Warren")
    options = parser.parse_args()
    options.rows = options.rows.split(",")
    more = {"nodes": 3, "type": MIRRORED, "size": 1024, "rounds": 1}
    return argparse.Namespace(**vars(options), **more)


def rows(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    for nodes in NODES if options.rows != ["sync"] else NODES[:1]:
        own = argparse.Namespace(**{**vars(options), "nodes": nodes})
        with mirrored_cluster(own, folder) as broker:
            if "ring" in options.rows:
                yield ring_row(broker, own)
            if "sync" in options.rows and nodes == NODES[0]:
                yield sync_row(broker, own, folder)
            for size in SIZES if "quorum" in options.rows else ():
                yield quorum_row(size, broker, own)


def main() -> int:
    options = parse()
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="warren-bench-", dir=options.data))
    print(f"{machine()}\n\n| row | what | figures |\n|---|---|---|", flush=True)
    for line in rows(options, folder):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
