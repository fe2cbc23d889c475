"""Queues and streams take each id once, also after a restart, by argument and by policy."""

from collections.abc import Iterator

import pika
import pytest

from tests.conformance.broker import GUEST, Broker, ready_count
from warren.testing import Node
from warren.testing.http_api import HttpApi


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(config=GUEST) as found:
        yield found


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
@pytest.mark.parametrize("by_policy", [False, True])
def test_a_message_with_a_known_id_is_confirmed_and_dropped(
    node: Node, kind: str, by_policy: bool
) -> None:
    broker = Broker("127.0.0.1", node.port, node)
    channel = broker.connect().channel()
    arguments: dict[str, object] = {"x-queue-type": kind}
    if by_policy:
        policy = {"pattern": "q", "apply-to": "all", "definition": {"id-cache-size": 100}}
        HttpApi(f"http://127.0.0.1:{node.management_port}").put("/policies/%2F/ids", policy)
    else:
        arguments["x-id-cache-size"] = 100
    channel.queue_declare("q", durable=True, arguments=arguments)
    publish(broker, 1, 2, 1, 3)
    node.kill9()
    node.start()
    publish(broker, 3, 4, 2, 5)
    assert ready_count(broker.connect().channel(), "q") == 5


def publish(broker: Broker, *ids: int) -> None:
    """Each is confirmed, or pika raises."""
    channel = broker.connect().channel()
    channel.confirm_delivery()
    for number in ids:
        headers = {"_AMQ_DUPL_ID": f"order {number}"}
        properties = pika.BasicProperties(headers=headers, delivery_mode=2)
        channel.basic_publish("", "q", b"%d" % number, properties, mandatory=True)
