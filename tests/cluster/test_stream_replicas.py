"""Replicas of a stream that are added and removed while clients use it."""

import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from proton.utils import BlockingConnection, LinkDetached

from node.cli.warrenctl import main
from tests.cluster.queue_clients import channel_to
from tests.cluster.test_streams import COUNT, WAIT_S, declare, numbered, publish, read
from tests.waiting import eventually
from warren.testing import ClusterOfNodes

STREAM = "orders"
BY_HAND = {"quorum_queue.continuous_membership_reconciliation.enabled": "false"}
pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    """Nothing but commands changes the replicas."""
    with ClusterOfNodes(3, settings=BY_HAND) as found:
        yield found


def warrenctl(cluster: ClusterOfNodes, *arguments: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["--node-url", cluster.node(1).management_url, *arguments]) == 0
    return out.getvalue()


def status(cluster: ClusterOfNodes) -> dict[str, dict[str, Any]]:
    told = warrenctl(cluster, "stream_status", STREAM, "--formatter", "json")
    return {row["node"]: row for row in json.loads(told)}


def replicas(cluster: ClusterOfNodes) -> list[str]:
    found = cluster.node(1).api("GET", f"/api/queues/%2F/{STREAM}")
    return sorted(found["members"])


def test_a_stream_moves_to_other_nodes_and_loses_nothing(cluster: ClusterOfNodes) -> None:
    names = [cluster.node(number).name for number in (1, 2, 3)]
    declare(cluster, STREAM, x_initial_cluster_size=1, x_queue_leader_locator="client-local")
    publish(channel_to(cluster, 1), STREAM, 0)
    assert replicas(cluster) == names[:1]
    for name in names[1:]:
        warrenctl(cluster, "add_replica", STREAM, name)

    def all_have_all() -> bool:
        found = status(cluster)
        return sorted(found) == names and all(row["offset"] == COUNT - 1 for row in found.values())

    eventually(all_have_all)
    for number in (1, 2, 3):
        assert read(cluster, number, STREAM, COUNT) == numbered(COUNT)
    assert status(cluster)[names[0]]["role"] == "writer"
    assert {row["first_offset"] for row in status(cluster).values()} == {0}

    consumer = channel_to(cluster, 1)
    consumer.basic_qos(prefetch_count=10)
    cancelled: list[object] = []
    consumer.add_on_cancel_callback(cancelled.append)
    consumer.basic_consume(STREAM, lambda *_: None, arguments={"x-stream-offset": "next"})
    modern = BlockingConnection(cluster.node(1).url)
    receiver = modern.create_receiver(f"/queues/{STREAM}", credit=10)
    warrenctl(cluster, "delete_replica", STREAM, names[0])

    def is_cancelled() -> bool:
        consumer.connection.process_data_events(0)
        return bool(cancelled)

    eventually(is_cancelled)
    assert consumer.is_open
    with pytest.raises(LinkDetached, match="no replica of stream 'orders'"):
        while True:
            receiver.receive(timeout=WAIT_S)
            receiver.accept()
    modern.close()
    assert replicas(cluster) == names[1:]
    publish(channel_to(cluster, 1), STREAM, COUNT)
    for number in (2, 3):
        assert read(cluster, number, STREAM, 2 * COUNT) == numbered(2 * COUNT)


def test_a_stream_is_led_by_the_replica_that_is_preferred(cluster: ClusterOfNodes) -> None:
    name = cluster.node(3).name
    warrenctl(cluster, "restart_stream", STREAM, "--preferred-leader-node", name)
    eventually(lambda: status(cluster)[name]["role"] == "writer")
    warrenctl(cluster, "restart_stream", STREAM)
    eventually(lambda: status(cluster)[cluster.node(2).name]["role"] == "writer")
