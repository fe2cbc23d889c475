"""Short-lived exclusive queues on all nodes of a cluster: `python -m bench.definitions --help`.

One connection for each node, with many channels; each declares an exclusive queue, binds it and
deletes it, again and again. Tells how many queues went through that in a second, all nodes
together, how long a node works on each of them, and how long one such round takes where no other
client asks. The client is one process of
three threads, and shares the machine with the nodes.
"""

import argparse
import json
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from bench.many_queues import (
    CHANNELS,
    EXCHANGE,
    QUEUE_BIND_OK,
    QUEUE_DECLARE_OK,
    Wire,
    frame,
    short,
)
from bench.run import machine
from warren.testing.cluster import ClusterOfNodes

QUEUE_DELETE_OK: Final = (50, 41)
EXCLUSIVE: Final = b"\x04"
ALONE: Final = 200  # rounds of one channel


class Client:
    """One connection's rounds."""

    def __init__(self, node: int, port: int) -> None:
        self._prefix = b"bench.%d." % node
        self._wire = Wire(port)
        self.count = 0

    def round(self, channels: int) -> None:
        """A queue on each channel: declared, bound, deleted."""
        self._wire.each(channels, QUEUE_DECLARE_OK, self._declare)
        self._wire.each(channels, QUEUE_BIND_OK, self._bind)
        self._wire.each(channels, QUEUE_DELETE_OK, self._delete)
        self.count += channels

    def until(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self.round(CHANNELS)

    def _name(self, number: int) -> bytes:
        return short(self._prefix + b"%d" % number)

    def _declare(self, channel: int, number: int) -> bytes:
        arguments = b"\x00\x00" + self._name(number) + EXCLUSIVE + struct.pack(">I", 0)
        return frame(channel, 50, 10, arguments)

    def _bind(self, channel: int, number: int) -> bytes:
        arguments = b"\x00\x00" + self._name(number) + short(EXCHANGE) + self._name(number)
        return frame(channel, 50, 20, arguments + b"\x00" + struct.pack(">I", 0))

    def _delete(self, channel: int, number: int) -> bytes:
        return frame(channel, 50, 40, b"\x00\x00" + self._name(number) + b"\x00")

    def close(self) -> None:
        self._wire.close()


def cpu_of(cluster: ClusterOfNodes) -> float:
    """Seconds that all nodes have worked."""
    times = [psutil.Process(node.pid).cpu_times() for node in cluster.nodes]
    return sum(each.user + each.system for each in times)


def measure(cluster: ClusterOfNodes, seconds: float) -> dict[str, object]:
    """The figures."""
    clients = [Client(place, node.port) for place, node in enumerate(cluster.nodes)]
    for client in clients:
        client.round(CHANNELS)
    latencies: list[float] = []
    for number in range(ALONE):
        began = time.perf_counter()
        clients[number % len(clients)].round(1)
        latencies.append(time.perf_counter() - began)
    latencies.sort()
    for client in clients:
        client.count = 0
    cpu_s = cpu_of(cluster)
    began = time.monotonic()
    threads = [threading.Thread(target=client.until, args=(began + seconds,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    cpu_s = cpu_of(cluster) - cpu_s
    count = sum(client.count for client in clients)
    for client in clients:
        client.close()
    return {
        "nodes": len(clients),
        "queues_per_s": round(count / took),
        "node_cpu_us_per_queue": round(1e6 * cpu_s / count / len(clients)),
        "alone_p50_ms": round(latencies[ALONE // 2] * 1000, 2),
        "alone_p99_ms": round(latencies[ALONE * 99 // 100] * 1000, 2),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args(arguments)
    print(f"# {machine()}", flush=True)
    with ClusterOfNodes(options.nodes, python=str(options.python)) as cluster:
        print(json.dumps(measure(cluster, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
