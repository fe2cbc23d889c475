"""Quorum queues that lose their majority for ever, on real nodes: an operator has them go on."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pika
import pytest

from node.cli.warrenctl import main
from tests.cluster.leaders import leader_number, without_leader
from warren.testing.cluster import ClusterOfNodes
from warren.testing.http_api import HttpApi
from warren.testing.node import Node

LONG: Final = os.environ.get("WARREN_LONG") == "1"
pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not LONG, reason="takes long: `make chaos` runs it"),
]
COUNT: Final = 200


@pytest.fixture
def cluster() -> Iterator[ClusterOfNodes]:
    """Five nodes, so that the definitions keep their majority when a queue of three loses its."""
    settings = {
        "quorum_queue.continuous_membership_reconciliation.trigger_interval": "500",
        "quorum_queue.auto_rebalance": "false",
    }
    with ClusterOfNodes(5, settings=settings) as started:
        url = started.node(1).management_url
        assert main(["-q", "--node-url", url, "--timeout", "30", "await_online_nodes", "5"]) == 0
        yield started


@pytest.fixture
def lost_two() -> Iterator[ClusterOfNodes]:
    """Three nodes with a queue; two are gone with their disks."""
    settings = {
        "quorum_queue.continuous_membership_reconciliation.trigger_interval": "500",
        "quorum_queue.auto_rebalance": "false",
    }
    with ClusterOfNodes(3, settings=settings) as started:
        connection = pika.BlockingConnection(pika.URLParameters(started.node(1).url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "quorum"})
        for _ in range(COUNT):
            channel.basic_publish("", "orders", b"kept")
        connection.close()
        started.kill9([2, 3])
        for number in (2, 3):
            started.node(number).wipe()
        yield started


def ask(node: Node, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    return HttpApi(node.management_url).ask(method, f"/{path}", body)


def eventually(is_so: Callable[[], object], seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, is_so
        time.sleep(0.05)


def row_of(node: Node) -> Any:
    return ask(node, "queues/%2F/orders")[1]


def memberships(node: Node) -> list[str]:
    _, rows = ask(node, "queues/quorum/%2F/orders/status")
    return [row["Membership"] for row in rows]


class Shop:
    """A queue of three members with COUNT messages, which all of them have applied."""

    def __init__(self, cluster: ClusterOfNodes) -> None:
        self.cluster = cluster
        connection = pika.BlockingConnection(pika.URLParameters(cluster.node(1).url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "quorum"})
        for number in range(COUNT):
            channel.basic_publish("", "orders", b"%d" % number)
        connection.close()
        eventually(self.all_have_all)
        row = row_of(cluster.node(1))
        self.leader = row["leader"]
        self.members = sorted(row["members"])
        self.survivor = next(each for each in self.members if each != self.leader)
        self.lost = [cluster.number_of(each) for each in self.members if each != self.survivor]
        self.outsider = next(each for each in cluster.nodes if each.name not in self.members)

    def all_have_all(self) -> bool:
        _, rows = ask(self.cluster.node(1), "queues/quorum/%2F/orders/status")
        return len(rows) == 3 and len({row["Last Applied"] for row in rows}) == 1

    def node(self, name: str) -> Node:
        return self.cluster.node(self.cluster.number_of(name))

    def recover(self) -> None:
        """By the command, at a node that has no member of it."""
        url = self.outsider.management_url
        words = ("recover_queue", "orders", self.survivor)
        assert main(["-q", "--node-url", url, *words]) == 64
        assert main(["-q", "--node-url", url, "--timeout", "30", *words, "--unsafe"]) == 0

    def has_its_size(self) -> bool:
        return memberships(self.outsider) == ["voter"] * 3

    def take_all(self) -> list[bytes]:
        connection = pika.BlockingConnection(pika.URLParameters(self.outsider.url))
        channel = connection.channel()
        found: list[bytes] = []
        while True:
            method, _, body = channel.basic_get("orders", auto_ack=True)
            if method is None:
                break
            found.append(body)
        connection.close()
        return found


def test_two_of_three_members_are_wiped_and_the_third_goes_on_with_all_there_was(
    cluster: ClusterOfNodes,
) -> None:
    shop = Shop(cluster)
    place = "queues/quorum/%2F/orders/recover"
    assert "leads the queue" in ask(shop.outsider, place, "POST", refused(shop))[1]["reason"]
    cluster.kill9(shop.lost)
    for number in shop.lost:
        cluster.node(number).wipe()
    eventually(lambda: row_of(shop.outsider)["state"] == "minority")
    assert ask(shop.outsider, place, "POST", {"confirm": "other"})[0] == 400
    shop.recover()
    eventually(lambda: row_of(shop.outsider)["leader"] == shop.survivor)
    cluster.start(shop.lost)
    eventually(shop.has_its_size)
    assert shop.take_all() == [b"%d" % number for number in range(COUNT)]


def refused(shop: Shop) -> dict[str, str]:
    return {"confirm": "orders", "node": shop.survivor}


def test_members_of_before_that_come_back_with_their_disks_are_over(
    cluster: ClusterOfNodes,
) -> None:
    shop = Shop(cluster)
    cluster.kill9(shop.lost)
    eventually(lambda: row_of(shop.outsider)["state"] == "minority")
    shop.recover()
    connection = pika.BlockingConnection(pika.URLParameters(shop.outsider.url))
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(COUNT, COUNT + 50):
        channel.basic_publish("", "orders", b"%d" % number)
    cluster.start(shop.lost)
    leaders: set[str] = set()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        leaders.update(row_of(node)["leader"] for node in cluster.nodes)
        time.sleep(0.05)
    assert leaders <= {shop.survivor, ""}
    for number in range(COUNT + 50, COUNT + 60):
        channel.basic_publish("", "orders", b"%d" % number)
    connection.close()
    eventually(shop.has_its_size)
    assert shop.take_all() == [b"%d" % number for number in range(COUNT + 60)]


def test_sessions_of_before_hear_that_the_queue_is_another_and_can_go_on(
    cluster: ClusterOfNodes,
) -> None:
    shop = Shop(cluster)
    connection = pika.BlockingConnection(pika.URLParameters(shop.outsider.url))
    publisher = connection.channel()
    publisher.confirm_delivery()
    publisher.basic_publish("", "orders", b"from a session of before")
    consumer = connection.channel()
    consumer.basic_qos(prefetch_count=10)
    cancelled: list[Any] = []
    consumer.add_on_cancel_callback(cancelled.append)
    held: list[bytes] = []
    consumer.basic_consume("orders", lambda *delivery: held.append(delivery[-1]))
    while len(held) < 10:
        connection.process_data_events(1)
    eventually(shop.all_have_all)
    cluster.kill9(shop.lost)
    eventually(lambda: row_of(shop.outsider)["state"] == "minority")
    shop.recover()
    deadline = time.monotonic() + 20
    while not cancelled and time.monotonic() < deadline:
        connection.process_data_events(0.2)
    assert cancelled
    publisher.basic_publish("", "orders", b"and after that")
    connection.close()
    eventually(lambda: row_of(shop.outsider)["messages"] == COUNT + 2)
    assert len(shop.take_all()) == COUNT + 2


def test_two_of_three_nodes_are_lost_with_their_disks_and_the_third_goes_on(
    lost_two: ClusterOfNodes,
) -> None:
    """The definitions have lost their majority as well."""
    cluster, first = lost_two, lost_two.node(1)
    url = first.management_url
    eventually(lambda: row_of(first)["state"] == "minority")
    assert main(["-q", "--node-url", url, "recover_cluster"]) == 64
    words = ["-q", "--node-url", url, "--timeout", "40", "recover_cluster", "--unsafe"]
    eventually(lambda: main(words) == 0)  # Refused as long as this node leads the definitions.
    assert main(["-q", "--node-url", url, "--timeout", "40", "recover_queue", "orders"]) == 64
    again = ["-q", "--node-url", url, "--timeout", "40", "recover_queue", "orders", "--unsafe"]
    assert main(again) == 0
    cluster.start([2, 3])
    eventually(lambda: len(row_of(first)["online"]) == 3)
    connection = pika.BlockingConnection(pika.URLParameters(cluster.node(3).url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "orders", b"more")
    eventually(lambda: row_of(first)["messages"] == COUNT + 1)
    connection.close()
    eventually(lambda: memberships(first) == ["voter"] * 3)
    with without_leader(cluster, "orders", 1):  # The new members have what it had.
        assert leader_number(cluster, "orders") in (2, 3)
        assert row_of(cluster.node(2))["messages"] == COUNT + 1
