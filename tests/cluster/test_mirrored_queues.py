"""Mirrored classic queues on three real nodes: what is confirmed survives nodes that are killed."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.waiting import eventually
from warren.testing import ClusterOfNodes

WAIT_S = 20.0
COUNT = 50
PERSISTENT = pika.BasicProperties(delivery_mode=2)
pytestmark = [pytest.mark.timeout(90)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    """One for all; who kills a node starts it again."""
    with ClusterOfNodes(3) as found:
        put_policy(found, "all", "^m-", {"ha-mode": "all", "ha-sync-mode": "automatic"})
        put_policy(found, "two", "^two-", {"ha-mode": "exactly", "ha-params": 2})
        yield found


def put_policy(
    cluster: ClusterOfNodes, name: str, pattern: str, definition: dict[str, object]
) -> None:
    body = {"pattern": pattern, "definition": definition, "apply-to": "queues", "priority": 0}
    cluster.node(1).api("PUT", f"/api/policies/%2F/{name}", body)


def channel_to(cluster: ClusterOfNodes, number: int) -> BlockingChannel:
    connection = pika.BlockingConnection(pika.URLParameters(cluster.node(number).url))
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def publish(channel: BlockingChannel, queue: str, bodies: list[bytes]) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def filled(cluster: ClusterOfNodes, queue: str) -> list[bytes]:
    """Declared on one node, published to on another."""
    channel_to(cluster, 1).queue_declare(queue, durable=True)
    bodies = [b"message %d" % number for number in range(COUNT)]
    publish(channel_to(cluster, 2), queue, bodies)
    return bodies


def consume(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=WAIT_S):
        assert method is not None, f"nothing comes behind {len(found)} messages"
        channel.basic_ack(method.delivery_tag)
        found.append(body)
        if len(found) == count:
            break
    channel.cancel()
    return found


def row(cluster: ClusterOfNodes, queue: str, number: int = 2) -> dict[str, Any]:
    found = cluster.node(number).api("GET", f"/api/queues/%2F/{queue}")
    assert isinstance(found, dict)
    return found


def synchronised(cluster: ClusterOfNodes, queue: str, count: int, number: int = 2) -> None:
    def is_so() -> bool:
        return len(row(cluster, queue, number).get("synchronised_slave_nodes", ())) == count

    eventually(is_so, seconds=WAIT_S)


def test_a_queue_declared_under_a_policy_has_mirrors_on_all_nodes(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "m-across")
    found = row(cluster, "m-across")
    assert found["type"] == "classic"
    assert found["node"] == "n1"
    assert sorted(found["slave_nodes"]) == ["n2", "n3"]
    assert sorted(found["synchronised_slave_nodes"]) == ["n2", "n3"]
    assert consume(channel_to(cluster, 3), "m-across", COUNT) == bodies


def test_what_was_confirmed_survives_a_leader_that_is_killed(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "m-led")
    cluster.node(1).kill9()
    third = channel_to(cluster, 3)
    publish(third, "m-led", [b"afterwards"])
    assert row(cluster, "m-led")["node"] in ("n2", "n3")
    cluster.node(1).start()
    synchronised(cluster, "m-led", 2)
    assert consume(channel_to(cluster, 1), "m-led", COUNT + 1) == [*bodies, b"afterwards"]


def test_a_mirror_that_came_back_can_lead(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "m-back")
    for number in (2, 3, 1):
        cluster.node(number).kill9()
        other = number % 3 + 1
        publish(channel_to(cluster, other), "m-back", [b"without n%d" % number])
        bodies.append(b"without n%d" % number)
        cluster.node(number).start()
        synchronised(cluster, "m-back", 2, other)
    assert consume(channel_to(cluster, 1), "m-back", len(bodies)) == bodies


def test_messages_are_there_when_all_nodes_were_killed_at_once(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "m-dark")
    for number in (1, 2, 3):
        cluster.node(number).kill9()
    cluster.start()
    assert consume(channel_to(cluster, 2), "m-dark", COUNT) == bodies


def test_a_queue_with_messages_gets_mirrors_and_loses_them(cluster: ClusterOfNodes) -> None:
    """Transient messages are kept as well."""
    channel = channel_to(cluster, 1)
    channel.queue_declare("later", durable=True)
    bodies = [b"message %d" % number for number in range(COUNT)]
    publish(channel, "later", bodies)
    channel.basic_publish("", "later", b"transient")
    put_policy(cluster, "later", "^later$", {"ha-mode": "all", "ha-sync-mode": "automatic"})
    synchronised(cluster, "later", 2)
    publish(channel, "later", [b"by an open channel"])
    cluster.node(1).kill9()
    second = channel_to(cluster, 2)
    publish(second, "later", [b"afterwards"])
    cluster.node(1).start()
    synchronised(cluster, "later", 2)
    cluster.node(2).api("DELETE", "/api/policies/%2F/later")
    eventually(lambda: "slave_nodes" not in row(cluster, "later"), seconds=WAIT_S)
    expected = [*bodies, b"transient", b"by an open channel", b"afterwards"]
    assert consume(channel_to(cluster, 3), "later", len(expected)) == expected
