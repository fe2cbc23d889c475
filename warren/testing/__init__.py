"""Real nodes for tests: start one, talk to it with any client, kill it, start it again.

`Node` runs a broker as a process of its own, `ClusterOfNodes` several that form a cluster;
`warren.testing.plugin` offers both to pytest:

    # conftest.py
    pytest_plugins = ["warren.testing.plugin"]

    def test_a_job_is_queued(warren_node: Node) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(warren_node.url))
"""

from warren.testing.cluster import ClusterOfNodes
from warren.testing.node import Node, NodeFailed, free_port, free_ports

__all__ = ["ClusterOfNodes", "Node", "NodeFailed", "free_port", "free_ports"]
