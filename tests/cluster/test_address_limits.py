"""Limits of addresses in a cluster: publishers on several nodes, lost and restarted nodes."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import pika
import pika.exceptions
import pytest

from tests.cluster.leaders import without_leader, without_node
from tests.waiting import eventually
from warren.testing import ClusterOfNodes, Node
from warren.testing.http_api import HttpApi

BODY = b"x" * 1000
SAFE = pika.BasicProperties(delivery_mode=2)
Open = Callable[[Node], Any]

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def name() -> str:
    return f"t-{uuid4().hex[:12]}"


@pytest.fixture
def on() -> Iterator[Open]:
    """A channel with confirms on a node."""
    opened: list[Any] = []

    def open_one(node: Node) -> Any:
        opened.append(pika.BlockingConnection(pika.URLParameters(node.url)))
        channel = opened[-1].channel()
        channel.confirm_delivery()
        return channel

    yield open_one
    for connection in opened:
        with contextlib.suppress(pika.exceptions.AMQPError):  # Its node was killed.
            connection.close()


def is_accepted(channel: Any, queue: str) -> bool:
    try:
        channel.basic_publish("", queue, BODY, SAFE)
    except pika.exceptions.NackError:
        return False
    return True


def is_refused(channel: Any, queue: str) -> bool:
    return not is_accepted(channel, queue)


def declare(channel: Any, name: str, **arguments: object) -> None:
    said = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments=said)


def ready(channel: Any, name: str) -> int:
    return int(channel.queue_declare(name, passive=True).method.message_count)


class Publishing(threading.Thread):
    """A client that publishes as fast as it may."""

    def __init__(self, node: Node, queue: str, count: int) -> None:
        super().__init__(daemon=True)
        self._url = node.url
        self._queue = queue
        self._count = count
        self.sent = 0

    def run(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self._url))
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(self._count):
            channel.basic_publish("", self._queue, BODY, SAFE)
            self.sent += 1
        connection.close()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_publishers_on_all_nodes_together_keep_to_the_limit(
    shared_cluster: ClusterOfNodes, on: Open, name: str, kind: str
) -> None:
    limit, count = 160_000, 150
    channel = on(shared_cluster.node(1))
    declare(channel, name, queue_type=kind, max_size_bytes=limit, address_full_policy="BLOCK")
    publishers = [Publishing(shared_cluster.node(k % 3 + 1), name, count) for k in range(6)]
    for each in publishers:
        each.start()
    apis = [HttpApi(shared_cluster.node(k).management_url) for k in (1, 2, 3)]

    def blocked() -> int:
        rows = [row for row in apis[0].get("/addresses") if row["name"] == name]
        return int(rows[0]["blocked_publishers"]) if rows else 0

    eventually(lambda: blocked() == 6)
    slices = 3 * 3 * limit // 16
    assert ready(channel, name) * 1000 <= limit + slices + 6 * 1100
    taken = 0
    for taken, (method, _, _) in enumerate(channel.consume(name, inactivity_timeout=30), 1):
        assert method is not None, f"{taken - 1} of {6 * count} came"
        channel.basic_ack(method.delivery_tag)
        if taken == 6 * count:
            break
    for each in publishers:
        each.join(20)
    assert [each.sent for each in publishers] == [count] * 6


def test_bytes_that_are_not_committed_count_once() -> None:
    """The leader has them in its store already, and for their publisher they are on their way."""
    with ClusterOfNodes(3) as cluster:
        leader = cluster.node(1)
        connection = pika.BlockingConnection(pika.URLParameters(leader.url))
        channel = connection.channel()
        declare(
            channel, "q", queue_type="quorum", max_size_bytes=10**6, address_full_policy="BLOCK"
        )
        eventually(lambda: led(leader, "q"))
        api = HttpApi(leader.management_url)

        def held() -> tuple[int, int]:
            rows = [row for row in api.get("/addresses") if row["name"] == "q"]
            return (int(rows[0]["messages"]), int(rows[0]["bytes"])) if rows else (0, 0)

        for number in (2, 3):
            cluster.node(number).pause()
        for _ in range(20):
            channel.basic_publish("", "q", BODY, SAFE)
        eventually(lambda: held()[0] == 20)
        on_the_way = held()
        assert api.get("/queues/%2F/q")["messages"] == 0
        for number in (2, 3):
            cluster.node(number).resume()
        eventually(lambda: api.get("/queues/%2F/q")["messages"] == 20)
        assert on_the_way == held()
        connection.close()


def test_a_node_refuses_by_what_a_queue_holds_on_another(
    shared_cluster: ClusterOfNodes, on: Open, name: str
) -> None:
    home, away = on(shared_cluster.node(1)), on(shared_cluster.node(2))
    declare(home, name, max_size_messages=5, address_full_policy="FAIL")
    assert [is_accepted(home, name) for _ in range(6)] == [True] * 5 + [False]
    eventually(lambda: not is_accepted(away, name))
    held = ready(home, name)
    assert held < 5 + 20  # So many at most in the time that a word takes.
    home.queue_purge(name)
    eventually(lambda: is_accepted(away, name))


def test_global_max_size_of_a_node_holds_for_publishers_on_other_nodes(on: Open, name: str) -> None:
    with ClusterOfNodes(3, settings={"addresses.global_max_size": "50000"}) as cluster:
        home, away = on(cluster.node(1)), on(cluster.node(2))
        home.queue_declare(f"{name}-other", durable=True)
        declare(home, name, address_full_policy="FAIL")
        assert is_accepted(away, name)
        for _ in range(60):  # To a queue without any policy, which takes them all.
            assert is_accepted(home, f"{name}-other")
        eventually(lambda: is_refused(away, name))
        home.queue_purge(f"{name}-other")
        eventually(lambda: is_accepted(away, name))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_limits_hold_after_the_node_of_a_queue_is_killed(on: Open, name: str, kind: str) -> None:
    with ClusterOfNodes(3) as cluster:
        declare(
            on(cluster.node(1)),
            name,
            queue_type=kind,
            max_size_messages=4,
            address_full_policy="FAIL",
        )
        assert [is_accepted(on(cluster.node(1)), name) for _ in range(4)] == [True] * 4
        if kind == "quorum":
            with without_leader(cluster, name) as lost:
                eventually(partial(is_refused, on(cluster.node(lost % 3 + 1)), name))
        else:
            with without_node(cluster, 1):
                eventually(lambda: not led(cluster.node(2), name))
        for number in (1, 2, 3):
            channel = on(cluster.node(number))
            eventually(lambda: led(cluster.node(2), name))
            eventually(partial(is_refused, channel, name))


def led(node: Node, name: str) -> bool:
    return bool(HttpApi(node.management_url).get(f"/queues/%2F/{name}")["state"] == "running")
