"""Clients of queues of a cluster, by pika: each on the node that a test names."""

import pika
from pika.adapters.blocking_connection import BlockingChannel

from warren.testing import ClusterOfNodes

WAIT_S = 60.0
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def channel_to(cluster: ClusterOfNodes, number: int) -> BlockingChannel:
    """A channel with confirms."""
    connection = pika.BlockingConnection(pika.URLParameters(cluster.node(number).url))
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def publish(channel: BlockingChannel, queue: str, bodies: list[bytes]) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def filled(
    cluster: ClusterOfNodes, queue: str, count: int, arguments: dict[str, object] | None = None
) -> list[bytes]:
    """Declared on one node, published to on another; the bodies."""
    channel_to(cluster, 1).queue_declare(queue, durable=True, arguments=arguments)
    bodies = [b"message %d" % number for number in range(count)]
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
    channel.close()  # pika forgets what comes while it cancels: that goes back to the queue now.
    return found
