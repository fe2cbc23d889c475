"""Consumers with selectors in a cluster: they get each matching message whatever node leads."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from proton.reactor import Selector
from proton.utils import BlockingConnection

from tests.cluster.leaders import leader_and_others, without_leader
from tests.cluster.queue_clients import channel_to
from tests.conformance.proton10 import body_of
from tests.waiting import eventually
from warren.testing import ClusterOfNodes

WAIT_S = 60
COUNT = 60
pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    """One for all; who kills a node starts it again."""
    with ClusterOfNodes(3) as found:
        yield found


def publish(channel: Any, queue: str, first: int) -> None:
    for number in range(first, first + COUNT):
        properties = pika.BasicProperties(headers={"n": number}, delivery_mode=2)
        channel.basic_publish("", queue, b"%d" % number, properties, mandatory=True)


def receiver(cluster: ClusterOfNodes, number: int, queue: str, selector: str) -> Any:
    node = cluster.node(number)
    url = f"amqp://guest:guest@{node.host}:{node.port}"
    connection = BlockingConnection(url, timeout=WAIT_S, allowed_mechs="PLAIN")
    return connection.create_receiver(f"/queues/{queue}", credit=10, options=Selector(selector))


def take(found: Any, count: int) -> list[int]:
    numbers = []
    for _ in range(count):
        numbers.append(int(body_of(found.receive(timeout=WAIT_S))))
        found.accept()
    return numbers


def test_selectors_of_a_quorum_queue_survive_the_loss_of_its_leader(
    cluster: ClusterOfNodes,
) -> None:
    arguments = {"x-queue-type": "quorum"}
    channel_to(cluster, 1).queue_declare("selected", durable=True, arguments=arguments)
    leader, *others = leader_and_others(cluster, "selected")
    channel = channel_to(cluster, others[1])
    publish(channel, "selected", 0)
    third = receiver(cluster, others[0], "selected", "n % 3 = 0")
    fifth = receiver(cluster, others[1], "selected", "n % 5 = 0 AND n % 3 <> 0")
    assert take(third, 20) == list(range(0, COUNT, 3))
    with without_leader(cluster, "selected", leader):
        publish(channel, "selected", COUNT)
        assert take(third, 20) == list(range(COUNT, 2 * COUNT, 3))
        wanted = [n for n in range(2 * COUNT) if n % 5 == 0 and n % 3]
        assert take(fifth, len(wanted)) == wanted
        third.connection.close()
        fifth.connection.close()
    rest = [n for n in range(2 * COUNT) if n % 5 and n % 3]
    found = []
    for method, _, body in channel.consume("selected", inactivity_timeout=WAIT_S):
        assert method is not None
        channel.basic_ack(method.delivery_tag)
        found.append(int(body))
        if len(found) == len(rest):
            break
    assert found == rest


def test_a_consumer_on_another_node_than_that_of_a_classic_queue_selects(
    cluster: ClusterOfNodes,
) -> None:
    home = channel_to(cluster, 1)
    home.queue_declare("classic-selected", durable=True)
    found = receiver(cluster, 2, "classic-selected", "n >= 58")
    publish(home, "classic-selected", 0)
    assert take(found, 2) == [58, 59]
    found.connection.close()

    def is_left() -> bool:
        answer = home.queue_declare("classic-selected", passive=True)
        return bool(answer.method.message_count == COUNT - 2)

    assert eventually(is_left)
