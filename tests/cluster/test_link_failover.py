"""A shovel in a cluster of three: it runs on one node, and moves when that node dies or drains."""

import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.conformance.http_api import HttpApi
from tests.waiting import crowding, eventually, within
from warren.testing import ClusterOfNodes, Node

MOVED_S = 2.0
LOCAL = "amqp:///%2F"
QUORUM = {"x-queue-type": "quorum"}

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def away() -> Iterator[Node]:
    with Node(name="away") as node:
        yield node


def fill(node: Node, queue: str, first: int, count: int) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    for number in range(first, first + count):
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))
    connection.close()


def running_on(node: Node) -> str:
    """Name of the node that runs the only shovel, as that node knows it; "": none runs it."""
    rows: list[dict[str, Any]] = HttpApi(node.management_url).get("/shovels")
    assert len(rows) == 1, rows
    return str(rows[0]["node"]) if rows[0]["state"] == "running" else ""


def taken(node: Node, queue: str, count: int) -> list[int]:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    found: list[int] = []
    for _, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=20):
        assert body is not None, f"{len(found)} of {count} came"
        found.append(int(body))
        if len(set(found)) == count:
            break
    connection.close()
    return found


def ended(cluster: ClusterOfNodes, name: str, how: str) -> None:
    """Kill the node, or have it drained."""
    node = cluster.node(cluster.number_of(name))
    if how == "kill":
        node.kill9()
    else:
        HttpApi(node.management_url).post(f"/nodes/{name}/drain", {})


def returned(cluster: ClusterOfNodes, name: str, how: str) -> None:
    node = cluster.node(cluster.number_of(name))
    if how == "kill":
        node.start()
    else:
        HttpApi(node.management_url).post(f"/nodes/{name}/revive", {})


def shovelled(cluster: ClusterOfNodes, away: Node, queue: str) -> str:
    """Move the messages of a queue of the other node to the cluster; the node that does so."""
    value = {
        "src-uri": away.url,
        "src-queue": queue,
        "dest-uri": LOCAL,
        "dest-queue": queue,
        "dest-queue-args": QUORUM,
        "reconnect-delay": 0.1,
    }
    first = cluster.node(1)
    HttpApi(first.management_url).put("/parameters/shovel/%2F/moving", {"value": value})
    return eventually(lambda: running_on(first))


@pytest.mark.parametrize("how", ["kill", "drain"])
def test_a_shovel_moves_when_its_node_ends(away: Node, how: str) -> None:
    queue = f"work-{how}"
    with ClusterOfNodes(3) as cluster:
        fill(away, queue, 0, 100)
        name = shovelled(cluster, away, queue)
        assert {running_on(node) for node in cluster.nodes} == {name}
        begun = 100

        def move() -> float:
            nonlocal begun, name
            left = name
            other = cluster.node(cluster.number_of(left) % 3 + 1)
            begun_s = time.monotonic()
            ended(cluster, left, how)
            eventually(lambda: running_on(other) not in ("", left))
            took_s = time.monotonic() - begun_s
            name = running_on(other)
            fill(away, queue, begun, 100)
            begun += 100
            returned(cluster, left, how)
            return took_s

        within(MOVED_S * crowding(), move)
        found = taken(cluster.node(cluster.number_of(name)), queue, begun)
        assert sorted(set(found)) == list(range(begun))
        eventually(
            lambda: HttpApi(away.management_url).get(f"/queues/%2F/{queue}")["messages"] == 0
        )


def test_a_node_that_wakes_up_leaves_its_shovel_to_the_other_one(away: Node) -> None:
    """While it was halted, its consumer stayed and got every second message."""
    queue = "work-halted"
    source = HttpApi(away.management_url)
    with ClusterOfNodes(3) as cluster:
        fill(away, queue, 0, 100)
        halted = shovelled(cluster, away, queue)
        place = f"/queues/%2F/{queue}"
        eventually(lambda: source.get(place)["messages"] == 0)
        node = cluster.node(cluster.number_of(halted))
        other = cluster.node(cluster.number_of(halted) % 3 + 1)
        node.pause()
        eventually(lambda: running_on(other) not in ("", halted))
        owner = running_on(other)
        fill(away, queue, 100, 100)
        node.resume()
        eventually(lambda: {running_on(each) for each in cluster.nodes} == {owner})
        eventually(lambda: (row := source.get(place))["messages"] == 0 and row["consumers"] == 1)
        fill(away, queue, 200, 100)
        found = taken(cluster.node(cluster.number_of(owner)), queue, 300)
        assert sorted(set(found)) == list(range(300))
        assert {running_on(each) for each in cluster.nodes} == {owner}
