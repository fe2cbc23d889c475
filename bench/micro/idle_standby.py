"""What a warm standby costs at rest: `python -m bench.micro.idle_standby --help`; Warren alone.

A primary with `--queues` idle quorum queues of `--nodes` members each, and a standby of one node,
which asks it every `--interval` seconds. The CPU of each node, in percent of a core: of the primary
before it has a standby, and of both sides afterwards.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.federation_sides import cpu_seconds
from bench.run import ROOT, machine
from warren.client import amqp091
from warren.testing import ClusterOfNodes, Node

VHOST: Final = "copied"
SETTLE_SECONDS: Final = 15.0
LIMIT_SECONDS: Final = 240.0
QUORUM: Final = {"x-queue-type": "quorum"}


def add_vhost(node: Node) -> None:
    node.api("PUT", f"/api/vhosts/{VHOST}", {})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    node.api("PUT", f"/api/permissions/{VHOST}/guest", everything)


async def declare(node: Node, count: int) -> None:
    url = f"{node.url.rpartition('/')[0]}/{VHOST}"
    async with await amqp091.connect(url) as connection:
        management = await connection.management()
        for number in range(count):
            await management.declare_queue(f"queue {number}", arguments=dict(QUORUM))


def used(nodes: Sequence[Node], seconds: float) -> dict[str, float]:
    """CPU of each node in the next seconds, in percent of a core."""
    before = [cpu_seconds(node.pid) for node in nodes]
    time.sleep(seconds)
    return {
        node.name: round((cpu_seconds(node.pid) - begun) / seconds * 100, 2)
        for node, begun in zip(nodes, before, strict=True)
    }


def row_of(standby: Node) -> dict[str, Any]:
    (row,) = standby.api("GET", "/api/standbys")
    return dict(row)


def follow(primary: Node, standby: Node, queues: int, interval_s: float) -> float:
    """Seconds until the standby has all queues."""
    scheme, _, place = primary.management_url.partition("://")
    uri = f"{scheme}://guest:guest@{place.removesuffix('/api')}"
    value = {"uri": uri, "interval": interval_s}
    begun_s = time.monotonic()
    standby.api("PUT", f"/api/parameters/standby/{VHOST}/primary", {"value": value})
    while (row := row_of(standby))["queues"] < queues or row["state"] != "running":
        if time.monotonic() > begun_s + LIMIT_SECONDS:
            raise SystemExit(f"not within {LIMIT_SECONDS:g} s: {row}")
        time.sleep(0.5)
    return time.monotonic() - begun_s


def measured(nodes: list[Node], standby: Node, options: argparse.Namespace) -> dict[str, Any]:
    for node in (nodes[0], standby):
        add_vhost(node)
    asyncio.run(declare(nodes[0], options.queues))
    time.sleep(SETTLE_SECONDS)
    alone = used([*nodes, standby], options.seconds)
    copied_s = follow(nodes[0], standby, options.queues, options.interval)
    time.sleep(SETTLE_SECONDS)
    found = used([*nodes, standby], options.seconds)
    rpo_s = row_of(standby)["rpo_seconds"]
    return {"alone": alone, "followed": found, "start_s": round(copied_s, 1), "rpo_s": rpo_s}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=1, help="of the primary")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two passes")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print what was found as JSON."""
    options = parse(arguments)
    python = str(options.python.absolute())
    plain = {"PYTHONPATH": ""}
    with Node("standby", python=python, environment=plain) as standby:
        if options.nodes == 1:
            with Node("primary", python=python, environment=plain) as node:
                found = measured([node], standby, options)
        else:
            with ClusterOfNodes(options.nodes, python=python, environment=plain) as cluster:
                nodes = [cluster.node(number) for number in range(1, options.nodes + 1)]
                found = measured(nodes, standby, options)
    print(f"{machine()}\n{json.dumps(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
