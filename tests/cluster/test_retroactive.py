"""Retroactive exchanges in a cluster: bound on any node, after the loss of the ring's leader."""

from functools import partial
from typing import Any

import pika

from tests.cluster.leaders import without_leader
from tests.conformance.broker import drain, numbered
from tests.waiting import eventually
from warren.testing import ClusterOfNodes, Node
from warren.testing.http_api import HttpApi

EXCHANGE = "news"


def on(node: Node) -> Any:
    channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
    channel.confirm_delivery()
    return channel


def ring_at(node: Node) -> dict[str, Any]:
    rows = HttpApi(node.management_url).get("/queues/%2F")
    return next((each for each in rows if each["name"].startswith("amq.retroactive.")), {})


def past_on(node: Node) -> list[bytes]:
    """What a queue gets that is bound there."""
    channel = on(node)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, EXCHANGE, "a.#")
    found = drain(channel, queue)
    channel.connection.close()
    return found


def test_queues_of_all_nodes_get_the_newest_messages_also_without_the_leader() -> None:
    with ClusterOfNodes(3) as cluster:
        first = cluster.node(1)
        channel = on(first)
        arguments = {"x-retroactive-message-count": 20}
        channel.exchange_declare(EXCHANGE, "topic", durable=True, arguments=arguments)
        eventually(lambda: ring_at(first).get("state") == "running")
        publishers = [on(cluster.node(number)) for number in (1, 2, 3)]
        for number in (2, 3):  # They route to the ring once they know of it.
            eventually(partial(ring_at, cluster.node(number)))
        for number, body in enumerate(numbered(30)):
            publishers[number % 3].basic_publish(EXCHANGE, "a.b", body)
        assert [past_on(cluster.node(number)) for number in (1, 2, 3)] == [numbered(20, 11)] * 3
        with without_leader(cluster, ring_at(first)["name"]) as lost:
            other = cluster.node(lost % 3 + 1)
            eventually(lambda: past_on(other) == numbered(20, 11))
