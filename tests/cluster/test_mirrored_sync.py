"""Synchronisation of mirrors in its blocking form, with a limit of its throughput."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from node.cli.warrenctl import main as warrenctl
from tests.cluster.leaders import without_leader
from tests.cluster.queue_clients import PERSISTENT, WAIT_S, channel_to, consume, publish
from tests.waiting import eventually
from warren.testing import ClusterOfNodes

BODIES = [b"%d" % number * 100_000 for number in range(10)]
BYTES_PER_S = 200_000  # a synchronisation takes several seconds: it sends a megabyte
pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    limit = {"cluster.mirroring_sync_max_throughput": str(BYTES_PER_S)}
    with ClusterOfNodes(3, settings=limit) as found:
        yield found


def row(cluster: ClusterOfNodes, queue: str, number: int = 1) -> dict[str, Any]:
    found = cluster.node(number).api("GET", f"/api/queues/%2F/{queue}")
    assert isinstance(found, dict)
    return found


def blocked(cluster: ClusterOfNodes, queue: str) -> BlockingChannel:
    """A channel with confirms to a queue with messages, which is getting mirrors."""
    channel = channel_to(cluster, 1)
    channel.queue_declare(queue, durable=True)
    publish(channel, queue, BODIES)
    definition = {"ha-mode": "all", "ha-sync-mode": "automatic", "ha-sync-nonblocking": False}
    policy = {"pattern": f"^{queue}$", "definition": definition, "apply-to": "queues"}
    cluster.node(1).api("PUT", f"/api/policies/%2F/{queue}", policy)
    return channel


def test_publishers_go_on_when_an_operator_cancels_a_synchronisation(
    cluster: ClusterOfNodes,
) -> None:
    channel = blocked(cluster, "cancelled")
    eventually(lambda: len(row(cluster, "cancelled").get("slave_nodes", ())) == 2)
    url = cluster.node(2).management_url
    assert warrenctl(["--node-url", url, "cancel_sync_queue", "cancelled"]) == 0
    channel.basic_publish("", "cancelled", b"later", PERSISTENT)
    assert row(cluster, "cancelled")["synchronised_slave_nodes"] == []
    channel.queue_delete("cancelled")


def test_a_queue_takes_no_publishes_while_its_mirrors_are_synchronised(
    cluster: ClusterOfNodes,
) -> None:
    channel = blocked(cluster, "blocked")

    def count_synchronised() -> int:
        return len(row(cluster, "blocked").get("synchronised_slave_nodes", ()))

    # Some are confirmed before the mirrors join. The limit holds one back for seconds.
    later: list[bytes] = []
    waits: list[float] = []
    deadline = time.monotonic() + WAIT_S
    while count_synchronised() < 2 and time.monotonic() < deadline:
        later.append(b"later %d" % len(later))
        began = time.monotonic()
        channel.basic_publish("", "blocked", later[-1], PERSISTENT)
        waits.append(time.monotonic() - began)
    assert max(waits) > 1, "no confirm waited for the synchronisation"
    eventually(lambda: count_synchronised() == 2, seconds=WAIT_S)
    expected = [*BODIES, *later]
    with without_leader(cluster, "blocked") as lost:
        assert consume(channel_to(cluster, lost % 3 + 1), "blocked", len(expected)) == expected
