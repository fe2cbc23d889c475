"""Dead letters at least once, and messages that wait before they come again, with
pika on one node. RabbitMQ 4.0 knows no delayed retry; what no queue wants has 32 places there."""

import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.conformance.broker import (
    Broker,
    drain,
    publish_all,
    ready_count,
    settle_down,
    take,
    wait_until_ready,
)
from tests.conformance.options import declare, exclusive_queue, onward, publish
from tests.waiting import eventually
from warren.testing import Node

SURE = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
DELAY_S = 0.4


@pytest.fixture
def node() -> Iterator[Node]:
    """A node of this test's own, to be killed."""
    with Node(name="sure") as started:
        yield started


def connect(node: Node) -> Any:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def reject_all(channel: Any, queue: str, count: int) -> None:
    wait_until_ready(channel, queue, count)
    for _ in range(count):
        channel.basic_reject(take(channel, queue).delivery_tag, requeue=False)


def test_what_dies_arrives_with_its_story(channel: Any, name: str) -> None:
    graves = exclusive_queue(channel)
    declare(channel, name, "quorum", SURE | onward(graves))
    for body in (b"1", b"2", b"3"):
        publish(channel, name, body)
    reject_all(channel, name, 3)
    wait_until_ready(channel, graves, 3)
    dead = take(channel, graves)
    assert dead.body == b"1"
    [death] = dead.properties.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == (name, "rejected", 1)


def test_what_nobody_wants_is_kept_until_somebody_does(channel: Any, name: str) -> None:
    """More of them than are on their way at once; and they delay nothing else."""
    later, now = f"{name}-later", exclusive_queue(channel)
    channel.exchange_declare(name, "direct")
    declare(channel, name, "quorum", SURE | {"x-dead-letter-exchange": name})
    channel.queue_bind(now, name, "now")
    channel.queue_bind(name, "amq.topic", "#")
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    for key in (*["later"] * 40, "now"):
        channel.basic_publish("amq.topic", key, key.encode(), persistent, mandatory=True)
    reject_all(channel, name, 41)
    wait_until_ready(channel, now, 1)
    channel.queue_declare(later, exclusive=True)
    channel.queue_bind(later, name, "later")
    wait_until_ready(channel, later, 40)
    assert drain(channel, later) == [b"later"] * 40


def test_a_full_target_gets_what_died_when_it_has_room(channel: Any, name: str) -> None:
    small = f"{name}-small"
    limits = {"x-max-length": 2, "x-overflow": "reject-publish"}
    channel.queue_declare(small, exclusive=True, arguments=limits)
    declare(channel, name, "quorum", SURE | onward(small))
    for number in range(4):
        publish(channel, name, b"%d" % number)
    reject_all(channel, name, 4)
    wait_until_ready(channel, small, 2)
    found = []
    for _ in range(4):
        settle_down(channel, lambda: ready_count(channel, small) > 0)
        got = take(channel, small)
        channel.basic_ack(got.delivery_tag)
        found.append(got.body)
    assert sorted(found) == [b"0", b"1", b"2", b"3"]


def test_a_purge_removes_what_is_dying(node: Node) -> None:
    channel = connect(node)
    declare(channel, "work", "quorum", SURE | {"x-dead-letter-exchange": "absent"})
    publish_all(channel, "work", [b"1", b"2", b"3"])
    reject_all(channel, "work", 3)

    def dying() -> int:
        return int(node.api("GET", "/api/queues/%2F/work")["messages_dlx"])

    eventually(lambda: dying() == 3)
    channel.queue_purge("work")
    eventually(lambda: dying() == 0)
    channel.exchange_declare("absent", "fanout")
    channel.queue_declare("graves")
    channel.queue_bind("graves", "absent")
    publish(channel, "work", b"4")
    reject_all(channel, "work", 1)
    wait_until_ready(channel, "graves", 1)
    assert drain(channel, "graves") == [b"4"]


def test_a_node_that_is_killed_sends_what_was_dying(node: Node) -> None:
    channel = connect(node)
    declare(channel, "work", "quorum", SURE | {"x-dead-letter-exchange": "dlx"})
    publish_all(channel, "work", [b"%d" % number for number in range(50)])
    reject_all(channel, "work", 50)
    node.kill9()
    node.start()
    channel = connect(node)
    assert ready_count(channel, "work") <= 50  # What was not committed comes again.
    left = ready_count(channel, "work")
    reject_all(channel, "work", left)
    channel.exchange_declare("dlx", "fanout", durable=True)
    channel.queue_declare("graves", durable=True)
    channel.queue_bind("graves", "dlx", "")
    wait_until_ready(channel, "graves", 50)
    assert sorted(set(drain(channel, "graves"))) == sorted(b"%d" % n for n in range(50))


def test_without_reject_publish_letters_go_at_most_once_and_the_log_says_so(
    own_broker: Broker, channel: Any, name: str
) -> None:
    graves = exclusive_queue(channel)
    arguments = {"x-dead-letter-strategy": "at-least-once"} | onward(graves)
    declare(channel, name, "quorum", arguments)
    publish(channel, name, b"1")
    reject_all(channel, name, 1)
    wait_until_ready(channel, graves, 1)
    assert own_broker.node is not None
    log = own_broker.node.log()
    assert f"queue '{name}' in vhost '/': dead letters go at most once" in log


def test_what_is_given_back_waits_for_its_time(own_broker: Broker, channel: Any, name: str) -> None:
    delay = {"x-delayed-retry-type": "all", "x-delayed-retry-min": round(1000 * DELAY_S)}
    declare(channel, name, "quorum", delay)
    publish(channel, name, b"1")
    publish(channel, name, b"2")
    wait_until_ready(channel, name, 2)
    first = take(channel, name)
    began = time.monotonic()
    channel.basic_nack(first.delivery_tag, requeue=True)
    second = take(channel, name)
    assert second.body == b"2"
    wait_until_ready(channel, name, 1)
    assert time.monotonic() - began >= DELAY_S - 0.02
    again = take(channel, name)
    assert (again.body, again.redelivered) == (b"1", True)


def test_a_policy_has_messages_wait_too_and_a_restart_forgets_none(node: Node) -> None:
    channel = connect(node)
    declare(channel, "work", "quorum", {"x-delayed-retry-min": 3_600_000})
    publish(channel, "work", b"1")
    channel.basic_reject(take_soon(channel, "work").delivery_tag, requeue=True)
    assert take_soon(channel, "work").body == b"1"
    channel.connection.close()
    said = {"pattern": "work", "definition": {"delayed-retry-type": "failed"}}
    node.api("PUT", "/api/policies/%2F/p", said)
    channel = connect(node)
    channel.basic_reject(take_soon(channel, "work").delivery_tag, requeue=True)
    publish(channel, "work", b"2")
    node.kill9()
    node.start()
    channel = connect(node)
    assert take_soon(channel, "work").body == b"2"
    assert ready_count(channel, "work") == 0
    assert node.api("GET", "/api/queues/%2F/work")["messages_delayed"] == 1


def take_soon(channel: Any, queue: str) -> Any:
    wait_until_ready(channel, queue, 1)
    return take(channel, queue)
