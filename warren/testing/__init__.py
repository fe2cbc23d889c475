"""Real nodes for tests: start one, talk to it with any client, kill it, start it again.

`Broker` runs an empty broker for the tests of an application, `Node` a node as a process of its
own, `ClusterOfNodes` several that form a cluster; `Faults` is a broker behind Toxiproxy. pytest
finds `broker`, `cluster`, `faults` and `history` as fixtures (`warren.testing.plugin`):

    def test_a_job_is_queued(broker):
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
"""

from typing import TYPE_CHECKING

from warren.testing.broker import Broker, VirtualHost
from warren.testing.node import Node, NodeFailed, free_port, free_ports

if TYPE_CHECKING:
    from warren.testing.cluster import ClusterOfNodes
    from warren.testing.faults import Faults

__all__ = [
    "Broker",
    "ClusterOfNodes",
    "Faults",
    "Node",
    "NodeFailed",
    "VirtualHost",
    "free_port",
    "free_ports",
]


def __getattr__(name: str) -> object:
    """Import what most tests do not use when it is asked for: a broker is there earlier."""
    if name == "ClusterOfNodes":
        from warren.testing.cluster import ClusterOfNodes

        return ClusterOfNodes
    if name == "Faults":
        from warren.testing.faults import Faults

        return Faults
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
