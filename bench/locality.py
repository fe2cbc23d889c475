"""Clients on any node against clients that follow the leaders: hops, latency, bytes.

    python -m bench.locality [--python PATH] [--queues 6] [--clients 12] [--rate 100] [--seconds 20]

Starts a cluster of three nodes and spreads queues over them. Clients connect to nodes drawn at
random, each with a publisher and a consumer of one queue, publish at a steady rate and measure the
time to the outcome and to the delivery. First they stay where they are (`follow=None`), then the
same clients follow. Prints a table: how many links are local, the median and the 99th percentile of
both times in ms, messages, and bytes between nodes per message (`warren_peer_sent_bytes_total`).
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from warren.client import Connection, Follow, Message, Publisher, connect
from warren.testing import ClusterOfNodes

NODES: Final = 3
QUEUE: Final = "bench-locality-{}"
FOLLOW: Final = Follow(steady_s=0.0, pause_s=0.5)
SETTLE_S: Final = 3.0  # for links to move, and for what was published to be delivered


@dataclass(slots=True)
class Times:
    """Of all clients of one run, in seconds."""

    outcome: list[float] = field(default_factory=list)
    delivery: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Client:
    """One connection with its links."""

    connection: Connection
    publisher: Publisher
    reader: "asyncio.Task[None]"


def queue_type(name: str) -> dict[str, object]:
    return {"x-queue-type": name}


async def declare(cluster: ClusterOfNodes, queues: int, type_: str) -> None:
    """Queues are led, at first, by the node on which they are declared."""
    for number in range(queues):
        url = cluster.node(number % NODES + 1).url
        async with await connect(url, follow=None) as connection:
            management = await connection.management()
            await management.declare_queue(QUEUE.format(number), arguments=queue_type(type_))


async def begin(url: str, queue: str, follow: Follow | None, times: Times) -> Client:
    connection = await connect(url, follow=follow)
    consumer = await connection.consumer(f"/queues/{queue}", credit=100)

    async def read() -> None:
        async for delivery in consumer:
            body = delivery.message.body
            assert isinstance(body, bytes)
            sent_s = float(body)
            times.delivery.append(time.perf_counter() - sent_s)
            delivery.accept()

    publisher = await connection.publisher(f"/queues/{queue}")
    return Client(connection, publisher, asyncio.create_task(read()))


async def publish(client: Client, rate: float, seconds: float, size: int, times: Times) -> None:
    """One at a time, at a steady rate."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    count = 0
    while (due_s := count / rate) < seconds:
        await asyncio.sleep(max(0.0, began_s + due_s - loop.time()))
        sent_s = time.perf_counter()
        outcome = await client.publisher.publish(Message(b"%-*.9f" % (size, sent_s)))
        assert outcome.is_accepted
        times.outcome.append(time.perf_counter() - sent_s)
        count += 1


def peer_bytes(cluster: ClusterOfNodes) -> float:
    """Sent to other nodes so far, all nodes together."""
    total = 0.0
    for node in cluster.nodes:
        samples = node.metrics().items()
        total += sum(value for key, value in samples if key.startswith("warren_peer_sent_bytes"))
    return total


async def run(cluster: ClusterOfNodes, chosen: argparse.Namespace, follow: Follow | None) -> str:
    random = Random(chosen.seed)
    times = Times()
    clients = [
        await begin(
            cluster.node(random.randint(1, NODES)).url,
            QUEUE.format(number % chosen.queues),
            follow,
            times,
        )
        for number in range(chosen.clients)
    ]
    await asyncio.sleep(SETTLE_S)
    local = sum(client.publisher.state.local is True for client in clients)
    before = peer_bytes(cluster)
    await asyncio.gather(
        *(publish(each, chosen.rate, chosen.seconds, chosen.size, times) for each in clients)
    )
    between = peer_bytes(cluster) - before
    await asyncio.sleep(SETTLE_S)
    for client in clients:
        client.reader.cancel()
        await client.connection.close()
    name = "stay" if follow is None else "follow"
    columns = [
        f"{name:8}",
        f"{local:3}/{len(clients):<3}",
        *(f"{1000 * part(times.outcome, share):8.2f}" for share in (0.5, 0.99)),
        *(f"{1000 * part(times.delivery, share):8.2f}" for share in (0.5, 0.99)),
        f"{len(times.outcome):9}",
        f"{between / max(1, len(times.outcome)):10.0f}",
    ]
    return " ".join(columns)


def part(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    return sorted(values)[int(share * (len(values) - 1))] if values else float("nan")


async def compare(cluster: ClusterOfNodes, chosen: argparse.Namespace) -> None:
    await declare(cluster, chosen.queues, chosen.type)
    print("clients  local   outcome p50 p99    delivery p50 p99   messages  bytes/msg", flush=True)
    for _ in range(chosen.rounds):
        for follow in (None, FOLLOW):
            print(await run(cluster, chosen, follow), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.locality")
    parser.add_argument("--queues", type=int, default=6)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--rate", type=float, default=100.0, help="messages/s of each client")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--type", choices=["classic", "quorum"], default="classic")
    chosen = parser.parse_args(arguments)
    with ClusterOfNodes(NODES) as cluster:
        asyncio.run(compare(cluster, chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
