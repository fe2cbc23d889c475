"""A single node with data that becomes the first of three, and a cluster that shrinks to one."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.waiting import eventually
from warren.testing.node import Node, NodeFailed, free_ports

RECONCILIATION = "quorum_queue.continuous_membership_reconciliation"
QUICK = {f"{RECONCILIATION}.interval": "1000", f"{RECONCILIATION}.trigger_interval": "500"}
QUEUES: dict[str, dict[str, str]] = {"classic": {}, "quorum": {"x-queue-type": "quorum"}}
PERSISTENT = pika.BasicProperties(delivery_mode=2)

pytestmark = [pytest.mark.timeout(240)]


def channel_of(node: Node) -> Any:
    channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
    channel.confirm_delivery()
    return channel


def publish(node: Node, first: int, count: int) -> None:
    channel = channel_of(node)
    for name, arguments in QUEUES.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
        for number in range(first, first + count):
            channel.basic_publish("", name, b"%d" % number, PERSISTENT)
    channel.connection.close()


def drain(node: Node, name: str) -> list[int]:
    channel = channel_of(node)
    found: list[int] = []
    while True:
        method, _, body = channel.basic_get(name, auto_ack=True)
        if method is None:
            channel.connection.close()
            return found
        found.append(int(body))


def queue(node: Node, name: str) -> Any:
    return node.api("GET", f"/api/queues/%2F/{name}")


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    """One node that has run alone, and two that are given its address as their only seed."""
    secret = tmp_path / "secret"
    secret.write_text("one secret for all of these nodes")
    os.chmod(secret, 0o600)
    ports = free_ports(3)
    common = {**QUICK, "cluster.secret_file": str(secret)}
    made: list[Node] = []
    for number, port in enumerate(ports, 1):
        settings = {**common, "listeners.cluster": f"127.0.0.1:{port}"}
        if number > 1:
            settings["cluster.seeds"] = f"127.0.0.1:{ports[0]}"
        made.append(Node(name=f"n{number}", data_dir=tmp_path / f"n{number}", settings=settings))
    alone = Node(name="n1", data_dir=tmp_path / "n1")
    try:
        with alone:
            publish(alone, 0, 10)
            assert queue(alone, "quorum")["members"] == ["n1"]
            alone.stop()
        for node in made:
            node.start()
        yield made
    finally:
        for node in made:
            node.close()


def has_members(node: Node, *names: str) -> bool:
    return sorted(queue(node, "quorum")["members"]) == list(names)


@pytest.mark.parametrize("is_killed_at_once", [False, True])
def test_single_node_is_joined_by_others_and_stays_when_they_leave(
    nodes: list[Node], is_killed_at_once: bool
) -> None:
    first, second, third = nodes
    assert {row["name"] for row in third.api("GET", "/api/nodes")} == {"n1", "n2", "n3"}
    eventually(partial(has_members, first, "n1", "n2", "n3"), seconds=60)
    publish(second, 10, 10)
    assert drain(third, "quorum") == list(range(20))
    assert drain(third, "classic") == list(range(20))
    publish(third, 20, 10)
    third.api("POST", "/api/nodes/n3/reset", {})
    third.await_end()
    eventually(partial(has_members, first, "n1", "n2"), seconds=60)
    publish(first, 30, 10)
    first.kill9()
    first.start()
    leave_to_first(first, second)
    if is_killed_at_once:  # It needs nothing of the node that has just left.
        first.kill9()
        first.start()
    assert queue(first, "quorum")["members"] == queue(first, "single")["members"] == ["n1"]
    assert drain(first, "single") == list(range(10))
    publish(first, 40, 10)
    declare(first, "new")
    assert queue(first, "new")["members"] == ["n1"]
    first.kill9()
    first.start()
    assert drain(first, "quorum") == list(range(20, 50))
    assert drain(first, "classic") == list(range(20, 50))


def leave_to_first(first: Node, second: Node) -> None:
    """Reset `second`, which leads all quorum queues and has the only member of one."""
    first.api("POST", "/api/nodes/n1/drain", {"force": True})
    first.api("POST", "/api/nodes/n1/revive", {})
    channel = declare(second, "single", {"x-quorum-initial-group-size": 1})
    for number in range(10):
        channel.basic_publish("", "single", b"%d" % number, PERSISTENT)
    assert queue(second, "single")["members"] == ["n2"]
    assert queue(second, "quorum")["leader"] == "n2"
    second.kill9()
    eventually(lambda: running(first) == ["n1"], seconds=60)
    with pytest.raises(NodeFailed, match=r"1 of 2 nodes run.*'n2'.*recover_cluster --unsafe"):
        first.api("DELETE", "/api/nodes/n2")
    second.start()
    eventually(lambda: running(first) == ["n1", "n2"], seconds=60)
    second.api("POST", "/api/nodes/n2/reset", {})
    second.await_end()


def declare(node: Node, name: str, more: dict[str, int] | None = None) -> Any:
    channel = channel_of(node)
    arguments = {"x-queue-type": "quorum", **(more or {})}
    channel.queue_declare(name, durable=True, arguments=arguments)
    return channel


def running(node: Node) -> list[str]:
    return [each["name"] for each in node.api("GET", "/api/nodes") if each["running"]]
