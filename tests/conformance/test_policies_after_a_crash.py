"""What a policy says holds from the first moment after `kill -9`: nothing is done without it."""

import time
from collections.abc import Iterator

import pika
import pytest

from tests.conformance.broker import GUEST, Broker, ready_count, wait_until_ready
from warren.testing import Node
from warren.testing.http_api import HttpApi

LIFETIME_S = 2.0


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(config=GUEST) as found:
        yield found


def declared(node: Node, kind: str, **policy: object) -> Broker:
    """Set the policy, then declare `q`: the log has both, and the saved definitions neither."""
    wanted = {"pattern": "^q$", "apply-to": "all", "definition": policy}
    HttpApi(f"http://127.0.0.1:{node.management_port}").put("/policies/%2F/p", wanted)
    broker = Broker("127.0.0.1", node.port, node)
    channel = broker.connect().channel()
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    return broker


def publish(broker: Broker, count: int, expiration: str | None = None) -> None:
    """Each is confirmed, or pika raises."""
    channel = broker.connect().channel()
    channel.confirm_delivery()
    for _ in range(count):
        properties = pika.BasicProperties(delivery_mode=2, expiration=expiration)
        channel.basic_publish("", "q", b"order", properties, mandatory=True)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_messages_that_expired_while_the_node_was_down_are_dead_lettered(
    node: Node, kind: str
) -> None:
    policy = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    broker = declared(node, kind, **policy)
    publish(broker, 3, str(int(LIFETIME_S * 1000)))
    expired_s = time.monotonic() + LIFETIME_S
    assert ready_count(broker.connect().channel(), "q") == 3
    node.kill9()
    while time.monotonic() < expired_s:  # The messages expire while no process has them.
        time.sleep(0.05)
    node.start()
    wait_until_ready(broker.connect().channel(), "dead", 3)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_max_length_of_a_policy_holds_after_a_crash(node: Node, kind: str) -> None:
    broker = declared(node, kind, **{"max-length": 3})
    publish(broker, 2)
    node.kill9()
    node.start()
    publish(broker, 5)
    assert ready_count(broker.connect().channel(), "q") == 3


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_last_value_key_of_a_policy_holds_after_a_crash(node: Node, kind: str) -> None:
    broker = declared(node, kind, **{"last-value-key": "order"})
    publish_values(broker, "a", "b")
    node.kill9()
    node.start()
    publish_values(broker, "b", "c")
    assert ready_count(broker.connect().channel(), "q") == 3


def publish_values(broker: Broker, *values: str) -> None:
    channel = broker.connect().channel()
    channel.confirm_delivery()
    for value in values:
        properties = pika.BasicProperties(delivery_mode=2, headers={"order": value})
        channel.basic_publish("", "q", b"", properties, mandatory=True)
