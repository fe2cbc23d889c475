"""A node whose settings name a default queue type and relax the check of redeclarations."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.conformance.broker import channel_closed
from warren.testing import Node

RELAXED = "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="typed", settings={"default_queue_type": "quorum", RELAXED: "true"}) as started:
        yield started


@pytest.fixture
def channel(node: Node) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    yield connection.channel()
    connection.close()


def type_of(node: Node, queue: str) -> object:
    return node.api("GET", f"/api/queues/%2F/{queue}")["type"]


def test_queues_have_the_default_type_of_the_node(node: Node, channel: Any) -> None:
    channel.queue_declare("untyped", durable=True)
    channel.queue_declare("untyped", durable=True)
    channel.queue_declare("named", durable=True, arguments={"x-queue-type": "classic"})
    channel.queue_declare("transient", exclusive=True)
    found = [type_of(node, each) for each in ("untyped", "named", "transient")]
    assert found == ["quorum", "classic", "classic"]
    assert node.api("GET", "/api/vhosts/%2F")["default_queue_type"] == "quorum"


def test_a_quorum_queue_is_declared_again_as_classic(node: Node, channel: Any) -> None:
    channel.queue_declare("moved", durable=True, arguments={"x-max-length": 9})
    channel.basic_publish("", "moved", b"kept")
    old = {"x-queue-type": "classic", "x-max-length": 9, "x-max-priority": 5}
    channel.queue_declare("moved", arguments=old)
    assert type_of(node, "moved") == "quorum"
    text = (
        "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'moved' in vhost '/':"
        " received '8' but current is '9'"
    )
    with channel_closed(406, text):
        channel.queue_declare("moved", arguments={**old, "x-max-length": 8})
