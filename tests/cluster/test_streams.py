"""Streams with three members, on real nodes: any node serves any client, what is confirmed survives
the loss of the leader, and all members have the same."""

from collections.abc import Iterator
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.leaders import leader_and_others, without_leader, without_node
from tests.cluster.queue_clients import channel_to
from tests.waiting import eventually
from warren.testing import ClusterOfNodes

COUNT = 100
WAIT_S = 60.0
pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    """One for all; who kills a node starts it again."""
    with ClusterOfNodes(3) as found:
        yield found


def declare(cluster: ClusterOfNodes, stream: str, **arguments: Any) -> None:
    arguments = {"x-queue-type": "stream", **{k.replace("_", "-"): v for k, v in arguments.items()}}
    channel_to(cluster, 1).queue_declare(stream, durable=True, arguments=arguments)


def publish(channel: BlockingChannel, stream: str, first: int, count: int = COUNT) -> None:
    for number in range(first, first + count):
        channel.basic_publish("", stream, b"message %d" % number, mandatory=True)


def read(cluster: ClusterOfNodes, number: int, stream: str, count: int) -> list[tuple[int, bytes]]:
    """Offset and body of so many messages, from the first on, as that node has them."""
    channel = channel_to(cluster, number)
    channel.basic_qos(prefetch_count=50)
    found: list[tuple[int, bytes]] = []
    arguments = {"x-stream-offset": "first"}
    for method, properties, body in channel.consume(
        stream, inactivity_timeout=WAIT_S, arguments=arguments
    ):
        assert method is not None, f"nothing comes behind {len(found)} messages"
        channel.basic_ack(method.delivery_tag)
        found.append((properties.headers["x-stream-offset"], body))
        if len(found) == count:
            break
    channel.connection.close()
    return found


def numbered(count: int) -> list[tuple[int, bytes]]:
    return [(number, b"message %d" % number) for number in range(count)]


def test_every_member_serves_the_same_messages(cluster: ClusterOfNodes) -> None:
    declare(cluster, "same")
    for number in (1, 2, 3):
        publish(channel_to(cluster, number), "same", (number - 1) * COUNT)
    for number in (1, 2, 3):
        assert read(cluster, number, "same", 3 * COUNT) == numbered(3 * COUNT)


def test_what_was_confirmed_survives_kill_9_of_the_leader(cluster: ClusterOfNodes) -> None:
    declare(cluster, "led")
    leader, second, third = leader_and_others(cluster, "led")
    channel = channel_to(cluster, third)
    publish(channel, "led", 0)
    with without_leader(cluster, "led", leader):
        publish(channel, "led", COUNT)
        assert read(cluster, second, "led", 2 * COUNT) == numbered(2 * COUNT)
    assert read(cluster, leader, "led", 2 * COUNT) == numbered(2 * COUNT)


def test_streams_are_there_when_all_nodes_were_killed_at_once(cluster: ClusterOfNodes) -> None:
    declare(cluster, "dark")
    publish(channel_to(cluster, 2), "dark", 0)
    cluster.kill9()
    cluster.start()
    for number in (1, 2, 3):
        assert read(cluster, number, "dark", COUNT) == numbered(COUNT)


def test_a_member_that_was_away_for_long_gets_the_segments(cluster: ClusterOfNodes) -> None:
    """More entries than the log keeps: the leader sends its snapshot."""
    declare(cluster, "away", x_stream_max_segment_size_bytes=100_000)
    publish(channel_to(cluster, 2), "away", 0, 10)
    with without_node(cluster, 3):
        publish(channel_to(cluster, 2), "away", 10, 4500)

    def is_served() -> bool:
        other = channel_to(cluster, 3)
        return bool(other.queue_declare("away", passive=True).method.message_count == 4510)

    eventually(is_served, seconds=WAIT_S)
    assert cluster.node(3).metrics()["warren_raft_snapshots_received_total"] >= 1
    assert read(cluster, 3, "away", 4510) == numbered(4510)
