"""A quorum queue with very many scattered messages: no turn of any node is long because of it."""

import os
import time
from typing import Any, Final

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.faults.nodes import metrics
from warren.testing import ClusterOfNodes, Node

LONG: Final = os.environ.get("WARREN_LONG") == "1"
COUNT: Final = int(os.environ.get("WARREN_SCATTERED", "60000"))
ENTRIES: Final = 4500  # more than there are between two snapshots
WAIT_S: Final = 120.0
QUEUE: Final = "scattered"
TURN_MS: Final = {"compiled": "50.0", "pure": "1000.0"}
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not LONG, reason="takes long: `make chaos` runs it"),
]


def channel_to(node: Node) -> BlockingChannel:
    return pika.BlockingConnection(pika.URLParameters(node.url)).channel()


def ready_count(channel: BlockingChannel) -> int:
    return int(channel.queue_declare(QUEUE, passive=True).method.message_count)


def wait_for(what: Any, wanted: object) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while (found := what()) != wanted:
        assert time.monotonic() < deadline_s, f"{found} instead of {wanted}"
        time.sleep(0.1)


def settle_every_second(node: Node) -> None:
    """The others go back, one by one."""
    channel = channel_to(node)
    for place, (method, _, _) in enumerate(channel.consume(QUEUE)):
        if place % 2 == 0:
            channel.basic_ack(method.delivery_tag)
        if place == COUNT - 1:
            break
    channel.connection.close()


def entries(node: Node) -> None:
    """Each of them one of the log."""
    channel = channel_to(node)
    channel.confirm_delivery()
    for _ in range(ENTRIES):
        channel.basic_publish("", QUEUE, b"more")


def applied(cluster: ClusterOfNodes) -> set[object]:
    """By all members, as the first node sees them."""
    rows = cluster.node(1).api("GET", f"/api/queues/quorum/%2F/{QUEUE}/status")
    return {row["Last Applied"] for row in rows}


def long_turns(node: Node) -> float:
    shown = metrics(node)
    bucket = f'warren_loop_turn_ms_bucket{{le="{TURN_MS[node.build]}"}}'
    return shown["warren_loop_turn_ms_count"] - shown[bucket]


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
        entries(first)
        third.start()
        wait_for(lambda: len(applied(cluster)), 1)
        entries(first)
        wait_for(lambda: len(applied(cluster)), 1)
        assert ready_count(channel_to(third)) == COUNT // 2 + 2 * ENTRIES
        channel.queue_delete(QUEUE)
        assert {node: long_turns(cluster.node(node)) for node in (1, 2, 3)} == {1: 0, 2: 0, 3: 0}
