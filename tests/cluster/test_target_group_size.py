"""A policy on the size of quorum queues is followed while all nodes run."""

import pika
import pytest

from tests.waiting import eventually
from warren.testing import ClusterOfNodes
from warren.testing.node import Node

URGENT_MS = 32_000  # For so long after a node has joined, queues are looked at with every tick.
TRIGGER = "quorum_queue.continuous_membership_reconciliation.trigger_interval"
pytestmark = [pytest.mark.timeout(120)]


def uptime_ms(node: Node) -> int:
    row = node.api("GET", "/api/nodes/n1")
    assert isinstance(row, dict)
    return int(row["uptime"])


def test_a_policy_adds_members_while_all_nodes_run() -> None:
    with ClusterOfNodes(2, settings={TRIGGER: "500"}) as cluster:
        node = cluster.node(1)

        def count_members() -> int:
            row = node.api("GET", "/api/queues/%2F/q")
            assert isinstance(row, dict)
            return len(row["members"])

        connection = pika.BlockingConnection(pika.URLParameters(node.url))
        arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}
        connection.channel().queue_declare("q", durable=True, arguments=arguments)
        connection.close()
        eventually(lambda: uptime_ms(node) > URGENT_MS, seconds=60)
        assert count_members() == 1
        definition = {"target-group-size": 2}
        policy = {"pattern": "^q$", "definition": definition, "apply-to": "quorum_queues"}
        cluster.node(2).api("PUT", "/api/policies/%2F/larger", policy)
        eventually(lambda: count_members() == 2, seconds=20)
