"""A standby or a primary of three nodes: messages count once when leaders change their node."""

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


def defined(side: Side) -> None:
    """A quorum queue, a mirrored one and a stream, led by the node of this side."""
    policy = {"ha-mode": "all", "ha-sync-mode": "automatic"}
    body = {"pattern": "^mirrored$", "definition": policy, "apply-to": "queues", "priority": 0}
    side.api.put(f"/policies/{side.path}/ha", body)
    channel = side.channel()
    for queue, kind in (("quorum", "quorum"), ("mirrored", "classic"), ("stream", "stream")):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})


def sent_to(side: Side, numbers: range) -> None:
    channel = side.channel()
    channel.confirm_delivery()
    for number in numbers:
        for queue in ("quorum", "mirrored", "stream"):
            persistent = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("", queue, b"%d" % number, persistent)


def in_stream(side: Side, count: int) -> list[int]:
    channel = side.channel()
    channel.basic_qos(prefetch_count=100)
    begin = {"x-stream-offset": "first"}
    found: list[int] = []
    messages = channel.consume("stream", inactivity_timeout=20, arguments=begin)
    for method, _, body in messages:
        assert method is not None, f"{len(found)} of {count} messages came"
        channel.basic_ack(method.delivery_tag)
        found.append(int(body))
        if len(found) == count:
            return found
    return found


def test_messages_are_there_once_when_leaders_of_the_primary_change_their_node() -> None:
    with Node(name="standby") as node, ClusterOfNodes(3) as cluster:
        standby = Side(node, VHOST)
        standby.add_vhost()
        sides = {number: Side(cluster.node(number), VHOST) for number in (1, 2, 3)}
        sides[1].add_vhost()
        defined(sides[1])
        uris = [feed_uri(cluster.node(number).management_url) for number in (1, 2, 3)]
        standby.follow(uris)
        sent = 0
        for number in (1, 2, 3):
            sent_to(sides[number], range(sent, sent + 200))
            standby.synced_after(int(time.time() * 1000))
            cluster.node(number).kill9()
            sides[number].close()
            other = sides[number % 3 + 1]
            sent_to(other, range(sent + 200, sent + 400))
            other.close()
            sent += 400
            cluster.node(number).start()
            standby.synced_after(int(time.time() * 1000))
        for number in (1, 2, 3):
            cluster.node(number).kill9()
        code, text = standby.promote()
        assert code == 0, text
        for queue in ("quorum", "mirrored"):
            found = [int(body) for _, _, body in standby.all_of(queue, sent)]
            assert found == list(range(sent)), queue
        assert in_stream(standby, sent) == list(range(sent))
        standby.close()
