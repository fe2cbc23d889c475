"""Features of classic queues that are mirrored, after the node of their leader was killed.

All queues are led by one node, which is killed once. Each test looks at one of them from another.
"""

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.leaders import leader_number
from tests.cluster.queue_clients import channel_to
from tests.waiting import eventually
from warren.testing import ClusterOfNodes

WAIT_S = 60.0
TTL_MS = 3000
COUNT = 20
HELD = 5
LARGE = 100_000
DEAD: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
QUEUES: dict[str, dict[str, object]] = {
    "dead": {},
    "expired": {},
    "lazy": {"x-queue-mode": "lazy"},
    "priorities": {"x-max-priority": 9},
    "rejected": DEAD,
    "ttl": {**DEAD, "x-dead-letter-routing-key": "expired", "x-message-ttl": TTL_MS},
    "short": {"x-max-length": 10},
    "held": {},
    "single": {"x-single-active-consumer": True},
    "committed": {},
}
POLICY = {
    "pattern": "",
    "apply-to": "queues",
    "definition": {"ha-mode": "all", "ha-sync-mode": "automatic"},
}
pytestmark = [pytest.mark.timeout(240)]


def publish(channel: BlockingChannel, queue: str, body: bytes, priority: int = 0) -> None:
    properties = pika.BasicProperties(delivery_mode=2, priority=priority)
    channel.basic_publish("", queue, body, properties, mandatory=True)


@pytest.fixture(scope="module")
def survivors() -> Iterator[ClusterOfNodes]:
    """The cluster after the node that led all queues was killed."""
    with ClusterOfNodes(3) as cluster:
        cluster.node(1).api("PUT", "/api/policies/%2F/all", POLICY)
        channel = channel_to(cluster, 1)
        for queue, arguments in QUEUES.items():
            channel.queue_declare(queue, durable=True, arguments=arguments)
        for number in range(COUNT):
            publish(channel, "lazy", b"%d" % number * LARGE)
            publish(channel, "priorities", b"%d" % number, priority=number % 10)
            publish(channel, "short", b"%d" % number)
            publish(channel, "held", b"%d" % number)
            publish(channel, "single", b"%d" % number)
        transaction = channel.connection.channel()
        transaction.tx_select()
        for number in range(COUNT):
            transaction.basic_publish("", "committed", b"%d" % number)
        transaction.tx_commit()
        publish(channel, "rejected", b"r")
        (leader,) = {leader_number(cluster, queue) for queue in QUEUES}
        holder = channel_to(cluster, leader)
        holder.basic_qos(prefetch_count=HELD)
        next(holder.consume("held"))
        publish(channel, "ttl", b"t")
        cluster.node(leader).kill9()
        assert leader not in {leader_number(cluster, queue) for queue in QUEUES}
        yield cluster


def channels(survivors: ClusterOfNodes) -> list[BlockingChannel]:
    """One to each node that runs."""
    numbers = [survivors.number_of(each.name) for each in survivors.nodes if each.is_running()]
    return [channel_to(survivors, number) for number in numbers]


@pytest.fixture
def channel(survivors: ClusterOfNodes) -> Iterator[BlockingChannel]:
    found = channels(survivors)
    yield found[0]
    for each in found:
        each.connection.close()


def take(channel: BlockingChannel, queue: str, count: int) -> list[tuple[Any, Any, bytes]]:
    found: list[tuple[Any, Any, bytes]] = []
    own = channel.connection.channel()
    for method, properties, body in own.consume(queue, inactivity_timeout=WAIT_S):
        assert method is not None, f"nothing comes behind {len(found)} messages"
        own.basic_ack(method.delivery_tag)
        found.append((method, properties, body))
        if len(found) == count:
            break
    own.close()  # pika forgets what comes while it cancels: that goes back to the queue now.
    return found


def count(channel: BlockingChannel, queue: str) -> int:
    found: int = channel.queue_declare(queue, passive=True).method.message_count
    return found


def test_a_lazy_queue_has_its_large_messages_in_order(channel: BlockingChannel) -> None:
    bodies = [body for _, _, body in take(channel, "lazy", COUNT)]
    assert bodies == [b"%d" % number * LARGE for number in range(COUNT)]


def test_messages_of_a_higher_priority_come_first(channel: BlockingChannel) -> None:
    publish(channel, "priorities", b"new", priority=9)
    found = [(properties.priority, body) for _, properties, body in take(channel, "priorities", 21)]
    assert found[:3] == [(9, b"9"), (9, b"19"), (9, b"new")]
    assert [priority for priority, _ in found] == sorted((p for p, _ in found), reverse=True)


def test_a_rejected_message_is_dead_lettered(channel: BlockingChannel) -> None:
    method, _, _ = channel.basic_get("rejected")
    channel.basic_reject(method.delivery_tag, requeue=False)
    eventually(lambda: count(channel, "dead") == 1, seconds=WAIT_S)
    [(_, properties, body)] = take(channel, "dead", 1)
    [death] = properties.headers["x-death"]
    assert (body, death["reason"], death["queue"]) == (b"r", "rejected", "rejected")


def test_a_message_expires_and_is_dead_lettered(channel: BlockingChannel) -> None:
    eventually(lambda: count(channel, "expired") == 1, seconds=WAIT_S)
    [(_, properties, body)] = take(channel, "expired", 1)
    [death] = properties.headers["x-death"]
    assert (body, death["reason"], death["queue"]) == (b"t", "expired", "ttl")
    assert count(channel, "ttl") == 0


def test_what_a_transaction_has_committed_is_there(channel: BlockingChannel) -> None:
    found = take(channel, "committed", COUNT)
    assert [body for _, _, body in found] == [b"%d" % number for number in range(COUNT)]


def test_the_length_limit_holds_for_old_and_new_messages(channel: BlockingChannel) -> None:
    assert count(channel, "short") == 10
    publish(channel, "short", b"new")
    bodies = [body for _, _, body in take(channel, "short", 10)]
    assert bodies == [*(b"%d" % number for number in range(11, COUNT)), b"new"]


def test_what_a_client_of_the_killed_node_held_is_redelivered(channel: BlockingChannel) -> None:
    eventually(lambda: count(channel, "held") == COUNT, seconds=WAIT_S)
    found = take(channel, "held", COUNT)
    assert [body for _, _, body in found] == [b"%d" % number for number in range(COUNT)]
    assert [method.redelivered for method, _, _ in found] == [True] * HELD + [False] * 15


def test_one_consumer_is_active_and_another_one_follows_it(
    survivors: ClusterOfNodes, channel: BlockingChannel
) -> None:
    _, first = channels(survivors)
    first.basic_qos(prefetch_count=HELD)
    first_bodies: list[bytes] = []
    first.basic_consume("single", lambda _c, _m, _p, body: first_bodies.append(body))
    second_bodies: list[bytes] = []
    channel.basic_consume("single", lambda _c, _m, _p, body: second_bodies.append(body))

    def served() -> tuple[int, int]:
        for each in (first.connection, channel.connection):
            if each.is_open:
                each.process_data_events(0.01)
        return len(first_bodies), len(second_bodies)

    eventually(lambda: served() == (HELD, 0), seconds=WAIT_S)
    first.connection.close()
    eventually(lambda: served() == (HELD, COUNT), seconds=WAIT_S)
    assert first_bodies == [b"%d" % number for number in range(HELD)]
    assert sorted(second_bodies) == sorted(b"%d" % number for number in range(COUNT))
