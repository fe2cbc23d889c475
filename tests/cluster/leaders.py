"""Which node leads a queue of a cluster, and tests of what happens without a node.

A test that kills a leader asks which node that is, and connects its clients to others:

    leader, second, third = leader_and_others(cluster, "orders")
    channel = channel_to(cluster, second)
    with without_leader(cluster, "orders", leader):
        publish(channel, "orders", [b"afterwards"])
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.waiting import eventually
from warren.testing import ClusterOfNodes, Node


def leader_number(cluster: ClusterOfNodes, queue: str, vhost: str = "%2F") -> int:
    """Return the number of the node that leads the queue, or that is the home of a classic queue.

    Wait until all nodes that run name the same one, and it is one of them. `queue` and `vhost` are
    written as in a URL.
    """
    running = [each for each in cluster.nodes if each.is_running() and not each.is_paused]

    def named() -> set[str]:
        rows = [each.api("GET", f"/api/queues/{vhost}/{queue}") for each in running]
        return {str(row.get("leader", row["node"])) for row in rows}

    def agreed() -> int:
        names = named()
        is_one = len(names) == 1 and names <= {each.name for each in running}
        return cluster.number_of(names.pop()) if is_one else 0

    return eventually(agreed, named)


def leader_and_others(cluster: ClusterOfNodes, queue: str, vhost: str = "%2F") -> tuple[int, ...]:
    """Return the number of the node that leads the queue, then those of all other nodes."""
    leader = leader_number(cluster, queue, vhost)
    return (leader, *(n for n in range(1, len(cluster) + 1) if n != leader))


@contextmanager
def without_node(
    cluster: ClusterOfNodes, number: int, end: Callable[[Node], None] = Node.kill9
) -> Iterator[None]:
    """Run the block while that node is killed (or ended by `end`: stopped, paused); then the node
    runs again and all others reach it, whatever the block has raised. The block may start it
    earlier itself."""
    node = cluster.node(number)
    end(node)
    try:
        yield
    finally:
        if not node.is_running():
            node.start()
        elif node.is_paused:
            node.resume()
        reached_by_others(cluster, number)


def reached_by_others(cluster: ClusterOfNodes, number: int) -> None:
    """Wait until that node, which is ready, is reached by all others that run: until then they
    refuse to use its classic queues."""
    name = cluster.node(number).name
    others = [each for each in cluster.others(number) if each.is_running() and not each.is_paused]

    def without() -> list[str]:
        rows = {each.name: each.api("GET", "/api/nodes") for each in others}
        return [
            other
            for other, nodes in rows.items()
            if not any(row["running"] for row in nodes if row["name"] == name)
        ]

    eventually(lambda: not without(), without)


@contextmanager
def without_leader(
    cluster: ClusterOfNodes,
    queue: str,
    leader: int | None = None,
    *,
    vhost: str = "%2F",
    end: Callable[[Node], None] = Node.kill9,
) -> Iterator[int]:
    """Run the block while the node that leads the queue is killed, as `without_node`; its number.

    `leader` is the node that must lead it by then, if the clients depend on that. The test fails
    unless another node leads the queue at the end of the block, before the old leader returns.
    """
    lost = leader_number(cluster, queue, vhost)
    assert leader in (None, lost), f"node {lost} leads '{queue}' now, it was node {leader}"
    with without_node(cluster, lost, end):
        yield lost
        assert leader_number(cluster, queue, vhost) != lost, f"'{queue}' had no other leader"
