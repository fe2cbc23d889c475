"""A single node with data that becomes the first of three, and a cluster that shrinks to one."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.waiting import eventually
from warren.testing.node import Node, free_ports

RECONCILIATION = "quorum_queue.continuous_membership_reconciliation"
QUICK = {f"{RECONCILIATION}.interval": "1000", f"{RECONCILIATION}.trigger_interval": "500"}
QUEUES: dict[str, dict[str, str]] = {"classic": {}, "quorum": {"x-queue-type": "quorum"}}
PERSISTENT = pika.BasicProperties(delivery_mode=2)

pytestmark = [pytest.mark.timeout(180)]


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


def test_single_node_is_joined_by_others_and_stays_when_they_leave(nodes: list[Node]) -> None:
    first, second, third = nodes
    assert {row["name"] for row in third.api("GET", "/api/nodes")} == {"n1", "n2", "n3"}
    eventually(partial(has_members, first, "n1", "n2", "n3"), seconds=60)
    publish(second, 10, 10)
    assert drain(third, "quorum") == list(range(20))
    assert drain(third, "classic") == list(range(20))
    publish(third, 20, 10)
    for leaving, left in ((third, ("n1", "n2")),):
        leaving.api("POST", f"/api/nodes/{leaving.name}/reset", {})
        leaving.await_end()
        eventually(partial(has_members, first, *left), seconds=60)
    publish(first, 30, 10)
    first.kill9()
    first.start()
    assert drain(first, "quorum") == list(range(20, 40))
    assert drain(first, "classic") == list(range(20, 40))
