"""A quorum queue with very many scattered messages: no turn of any node is long because of it.

Two minutes on a quiet machine, most of them for entries that are made one by one, and five on a
busy one. WARREN_SCATTERED=1000000 takes an hour; a consumer holds half of them at most 65,535 at a
time, so that with more it is several consumers, one after the other.
"""

import os
import re
import time
from typing import Any, Final

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from warren.testing import ClusterOfNodes, Node

LONG: Final = os.environ.get("WARREN_LONG") == "1"
COUNT: Final = int(os.environ.get("WARREN_SCATTERED", "20000"))
ENTRIES: Final = 4500  # more than there are between two snapshots
ENTRIES_S: Final = 120.0  # then fewer have to do, as many as there are for two snapshots by time
MORE: Final = 300  # so many go to the member that is back
HELD_MAX: Final = 65_535  # what basic.qos can ask for; a consumer without a limit holds 2,000
WAIT_S: Final = 120.0
QUEUE: Final = "scattered"
TURN_MS: Final = {"compiled": 50.0, "pure": 1000.0}
OWN_LOAD: Final = 4.0  # three nodes and this process
BUCKET: Final = re.compile(r'warren_loop_turn_ms_bucket\{le="([0-9.]+)"\}')
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not LONG, reason="takes long: `make chaos` runs it"),
]


def channel_to(node: Node) -> BlockingChannel:
    """Without heartbeats: some of these connections say nothing for minutes."""
    parameters = pika.URLParameters(node.url)
    parameters.heartbeat = 0
    return pika.BlockingConnection(parameters).channel()


def ready_count(channel: BlockingChannel) -> int:
    return int(channel.queue_declare(QUEUE, passive=True).method.message_count)


def wait_for(what: Any, wanted: object) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while (found := what()) != wanted:
        assert time.monotonic() < deadline_s, f"{found} instead of {wanted}"
        time.sleep(0.1)


def settle_every_second(node: Node) -> None:
    """The others are held, and go back at the end."""
    held: list[BlockingChannel] = []
    for first in range(0, COUNT, 2 * HELD_MAX):
        channel = channel_to(node)
        channel.basic_qos(prefetch_count=HELD_MAX)
        last = min(COUNT, first + 2 * HELD_MAX) - 1
        for place, (method, _, _) in enumerate(channel.consume(QUEUE), first):
            if place % 2 == 0:
                channel.basic_ack(method.delivery_tag)
            if place == last:
                break
        held.append(channel)
    for channel in held:
        channel.connection.close()


def entries(node: Node, count: int) -> int:
    """Each of them one of the log; how many there was time for."""
    channel = channel_to(node)
    channel.confirm_delivery()
    ends = time.monotonic() + ENTRIES_S
    made = 0
    while made < count and time.monotonic() < ends:
        channel.basic_publish("", QUEUE, b"more")
        made += 1
    channel.connection.close()
    return made


def applied(cluster: ClusterOfNodes) -> set[object]:
    """By all members, as the first node sees them."""
    rows = cluster.node(1).api("GET", f"/api/queues/quorum/%2F/{QUEUE}/status")
    return {row["Last Applied"] for row in rows}


def long_turns(node: Node) -> float:
    """By the wall: where more wants to run than there are processors, each turn takes as many times
    as long, and where that is longer than can be told, nothing is judged."""
    limit_ms = TURN_MS[node.build] * max(
        1.0, (os.getloadavg()[0] - OWN_LOAD) / (os.cpu_count() or 1)
    )
    shown = node.metrics()
    bounds = [(float(found[1]), name) for name in shown if (found := BUCKET.fullmatch(name))]
    above = [name for bound, name in sorted(bounds) if bound >= limit_ms]
    return shown["warren_loop_turn_ms_count"] - shown[above[0]] if above else 0


def test_snapshots_of_many_scattered_messages_make_no_turn_long() -> None:
    """They are taken, given to a member that was away, installed, and deleted."""
    with ClusterOfNodes(3) as cluster:
        first = cluster.node(1)
        channel = channel_to(first)
        channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        for _ in range(COUNT):
            channel.basic_publish("", QUEUE, b"message")
        wait_for(lambda: ready_count(channel), COUNT)
        third = cluster.node(3)
        wait_for(lambda: len(applied(cluster)), 1)
        third.kill9()
        settle_every_second(first)
        wait_for(lambda: ready_count(channel), COUNT // 2)
        made = entries(first, ENTRIES)
        third.start()
        wait_for(lambda: len(applied(cluster)), 1)
        assert third.metrics()["warren_raft_snapshots_received_total"] >= 1
        made += entries(first, MORE)
        wait_for(lambda: len(applied(cluster)), 1)
        assert ready_count(channel_to(third)) == COUNT // 2 + made
        channel.queue_delete(QUEUE)
        assert {node: long_turns(cluster.node(node)) for node in (1, 2, 3)} == {1: 0, 2: 0, 3: 0}
