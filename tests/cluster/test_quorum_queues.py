"""Quorum queues with three members, on real nodes: any node serves any client, and what is
confirmed survives the loss of one."""

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from warren.testing import ClusterOfNodes

ARGUMENTS = {"x-queue-type": "quorum"}
WAIT_S = 20.0


@pytest.fixture
def cluster() -> Iterator[ClusterOfNodes]:
    with ClusterOfNodes(3) as found:
        yield found


def channel_to(cluster: ClusterOfNodes, number: int) -> BlockingChannel:
    connection = pika.BlockingConnection(pika.URLParameters(cluster.node(number).url))
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def publish(channel: BlockingChannel, queue: str, bodies: list[bytes]) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body, mandatory=True)


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


def test_what_is_published_on_one_node_is_consumed_on_another(cluster: ClusterOfNodes) -> None:
    channel_to(cluster, 1).queue_declare("q", durable=True, arguments=ARGUMENTS)
    bodies = [b"message %d" % number for number in range(50)]
    publish(channel_to(cluster, 2), "q", bodies)
    assert consume(channel_to(cluster, 3), "q", 50) == bodies


def test_what_was_confirmed_survives_the_node_that_led_the_queue(cluster: ClusterOfNodes) -> None:
    channel_to(cluster, 1).queue_declare("q", durable=True, arguments=ARGUMENTS)
    bodies = [b"message %d" % number for number in range(50)]
    publish(channel_to(cluster, 2), "q", bodies)
    cluster.node(1).kill9()
    third = channel_to(cluster, 3)
    publish(third, "q", [b"afterwards"])
    assert consume(third, "q", 51) == [*bodies, b"afterwards"]


def test_messages_are_there_when_all_nodes_have_lost_their_power(cluster: ClusterOfNodes) -> None:
    channel_to(cluster, 1).queue_declare("q", durable=True, arguments=ARGUMENTS)
    bodies = [b"message %d" % number for number in range(50)]
    publish(channel_to(cluster, 2), "q", bodies)
    for number in (1, 2, 3):
        cluster.node(number).kill9()
    cluster.start()
    assert consume(channel_to(cluster, 2), "q", 50) == bodies


def test_a_node_whose_disk_was_wiped_has_the_messages_again(cluster: ClusterOfNodes) -> None:
    channel_to(cluster, 1).queue_declare("q", durable=True, arguments=ARGUMENTS)
    bodies = [b"message %d" % number for number in range(50)]
    publish(channel_to(cluster, 2), "q", bodies)
    cluster.node(3).kill9()
    publish(channel_to(cluster, 2), "q", [b"meanwhile"])
    cluster.node(3).start()
    assert consume(channel_to(cluster, 3), "q", 51) == [*bodies, b"meanwhile"]
