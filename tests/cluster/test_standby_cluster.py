"""A standby of three nodes: its queues go on elsewhere when a node dies, and count once."""

import os
import time
from collections.abc import Iterator

import pika
import pytest

from tests.conformance.standby_pair import Side, feed_uri
from tests.waiting import eventually
from warren.testing import ClusterOfNodes, Node

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("WARREN_LONG") != "1", reason="long"),
]
VHOST = "orders"


@pytest.fixture
def primary() -> Iterator[Side]:
    with Node(name="primary") as node:
        side = Side(node, VHOST)
        side.add_vhost()
        yield side
        side.close()


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_messages_are_there_once_when_nodes_of_the_standby_die(primary: Side, kind: str) -> None:
    channel = primary.channel()
    for queue in ("a", "b", "c"):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    channel.confirm_delivery()
    with ClusterOfNodes(3) as cluster:
        cluster.start()
        sides = [Side(cluster.node(number), VHOST) for number in (1, 2, 3)]
        sides[0].add_vhost()
        sides[0].follow(feed_uri(primary.node.management_url))
        sent = 0
        for number in (1, 2, 3):
            for _ in range(200):
                for queue in ("a", "b", "c"):
                    persistent = pika.BasicProperties(delivery_mode=2)
                    channel.basic_publish("", queue, b"%d" % sent, persistent)
                sent += 1
            cluster.node(number).kill9()
            if kind == "quorum":  # They go on with the nodes that are left.
                sides[number % 3].synced_after(int(time.time() * 1000))
            cluster.node(number).start()
            sides[number % 3].synced_after(int(time.time() * 1000))
        eventually(lambda: sides[1].row()["messages"] == 3 * sent, sides[1].row, seconds=60)
        primary.node.kill9()
        code, text = sides[2].promote()
        assert code == 0, text
        for queue in ("a", "b", "c"):
            found = [int(body) for _, _, body in sides[0].all_of(queue, sent)]
            assert found == list(range(sent))
        for side in sides:
            side.close()
