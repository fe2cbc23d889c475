"""Consumers that keep deliveries for too long, with pika: the consumer is out.

All of this is ours. RabbitMQ 4.0 closes the channel whether or not the client understands a
cancel, looks only once a minute, and since 4.3 only quorum queues do it.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.conformance.broker import (
    PATIENCE_SECONDS,
    Broker,
    Inbox,
    channel_closed,
    drain,
    numbered,
    publish_all,
    ready_count,
    settle_down,
    take,
    wait_until_ready,
)
from tests.conformance.options import both_kinds, declare, fields, onward, pass_time, publish
from warren.testing import Node

Connect = Callable[..., Any]

TIMEOUT_MS = 300
TIMEOUT_SECONDS = TIMEOUT_MS / 1000
LATE_SECONDS = 15.0


class Cancels:
    """The consumer tags that the broker cancelled on a channel."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.tags: list[str] = []
        channel.add_on_cancel_callback(lambda frame: self.tags.append(frame.method.consumer_tag))

    def wait(self, tag: str) -> None:
        settle_down(self.channel, lambda: tag in self.tags)


@pytest.fixture
def impatient(own_broker: Broker, channel: Any, name: str, kind: str) -> str:
    """A queue that wants its deliveries settled soon."""
    return declare(channel, name, kind, {"x-consumer-timeout": TIMEOUT_MS})


@both_kinds
def test_a_consumer_that_keeps_a_delivery_is_cancelled_and_not_before_its_time(
    connection: Any, channel: Any, impatient: str, kind: str
) -> None:
    consuming = connection.channel()
    cancels = Cancels(consuming)
    publish(channel, impatient, b"1")
    begun = time.monotonic()
    inbox = Inbox(consuming, impatient)
    cancels.wait(inbox.consumer_tag)
    assert TIMEOUT_SECONDS - 0.005 <= time.monotonic() - begun < LATE_SECONDS
    assert channel.queue_declare(impatient, passive=True).method.consumer_count == 0


@both_kinds
def test_what_it_kept_is_ready_again_and_redelivered(
    connection: Any, channel: Any, impatient: str, kind: str
) -> None:
    consuming = connection.channel()
    publish_all(channel, impatient, numbered(3))
    inbox = Inbox(consuming, impatient)
    inbox.wait(3)
    consuming.basic_ack(inbox.tags[1])
    wait_until_ready(channel, impatient, 2)
    first = take(channel, impatient)
    assert (first.body, first.redelivered) == (b"1", True)
    assert drain(channel, impatient) == [b"3"]


@both_kinds
def test_the_channel_and_its_other_consumers_go_on(
    connection: Any, channel: Any, impatient: str, kind: str
) -> None:
    consuming = connection.channel()
    cancels = Cancels(consuming)
    other_queue = consuming.queue_declare("", exclusive=True).method.queue
    other = Inbox(consuming, other_queue, auto_ack=True)
    late = Inbox(consuming, impatient)
    publish(channel, impatient, b"1")
    cancels.wait(late.consumer_tag)
    publish(channel, other_queue, b"2")
    other.wait(1)
    assert (cancels.tags, other.bodies) == ([late.consumer_tag], [b"2"])


@both_kinds
def test_it_may_consume_again_and_gets_the_messages_again(
    connection: Any, channel: Any, impatient: str, kind: str
) -> None:
    consuming = connection.channel()
    cancels = Cancels(consuming)
    publish(channel, impatient, b"1")
    cancels.wait(Inbox(consuming, impatient).consumer_tag)
    again = Inbox(consuming, impatient)
    [message] = again.wait(1)
    consuming.basic_ack(message.delivery_tag)
    consuming.close()
    assert (message.redelivered, ready_count(channel, impatient)) == (True, 0)


@both_kinds
def test_who_settles_in_time_is_left_alone(
    connection: Any, channel: Any, impatient: str, kind: str
) -> None:
    consuming = connection.channel()
    cancels = Cancels(consuming)
    consuming.basic_qos(prefetch_count=1)
    inbox = Inbox(consuming, impatient)
    begun, settled, longest = time.monotonic(), 0, 0.0
    while time.monotonic() - begun < 3 * TIMEOUT_SECONDS and longest < TIMEOUT_SECONDS:
        sent = time.monotonic()
        publish(channel, impatient, b"1")
        inbox.wait(settled + 1)
        pass_time(channel, TIMEOUT_SECONDS / 5)
        consuming.basic_ack(inbox.tags[settled])
        longest = max(longest, time.monotonic() - sent)
        settled += 1
    if longest >= 0.9 * TIMEOUT_SECONDS:
        pytest.skip("the machine is too busy to settle in time")
    pass_time(channel, 2 * TIMEOUT_SECONDS)
    assert cancels.tags == []
    assert channel.queue_declare(impatient, passive=True).method.consumer_count == 1


@both_kinds
def test_a_consumer_without_acks_is_left_alone(
    connection: Any, channel: Any, impatient: str, kind: str
) -> None:
    consuming = connection.channel()
    cancels = Cancels(consuming)
    inbox = Inbox(consuming, impatient, auto_ack=True)
    publish(channel, impatient, b"1")
    inbox.wait(1)
    pass_time(channel, 2 * TIMEOUT_SECONDS)
    publish(channel, impatient, b"2")
    inbox.wait(2)
    assert cancels.tags == []


@both_kinds
def test_the_next_consumer_gets_what_the_late_one_kept(
    connection: Any, channel: Any, impatient: str, kind: str
) -> None:
    late = connection.channel()
    Inbox(late, impatient).wait(0)
    publish_all(channel, impatient, numbered(3))
    # It comes later, so that its own time is not over yet.
    pass_time(channel, TIMEOUT_SECONDS / 2)
    patient = Inbox(connection.channel(), impatient, auto_ack=True)
    patient.wait(3)
    assert patient.bodies == numbered(3)


@both_kinds
def test_a_client_that_knows_no_cancel_loses_its_channel(
    connect: Connect, broker: Broker, channel: Any, impatient: str, kind: str
) -> None:
    parameters = pika.URLParameters(broker.url())
    parameters.client_properties = {"capabilities": {"consumer_cancel_notify": False}}
    parameters.socket_timeout = PATIENCE_SECONDS
    old_fashioned = pika.BlockingConnection(parameters)
    consuming = old_fashioned.channel()
    publish(channel, impatient, b"1")
    inbox = Inbox(consuming, impatient)
    inbox.wait(1)
    wait_until_ready(channel, impatient, 1)
    text = (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value"
        f" used: {TIMEOUT_MS} ms. This timeout value can be configured, see consumers doc guide to"
        " learn more"
    )
    with channel_closed(406, text):
        consuming.queue_declare(impatient, passive=True)
    assert old_fashioned.channel().is_open
    old_fashioned.close()


@both_kinds
def test_the_timeout_of_the_consumer_beats_that_of_the_queue(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-consumer-timeout": 60_000})
    consuming = connection.channel()
    cancels = Cancels(consuming)
    publish(channel, name, b"1")
    inbox = Inbox(consuming, name, arguments={"x-consumer-timeout": TIMEOUT_MS})
    cancels.wait(inbox.consumer_tag)


@both_kinds
def test_the_timeout_of_the_consumer_may_be_the_longer_one(
    connection: Any, channel: Any, impatient: str, kind: str
) -> None:
    consuming = connection.channel()
    cancels = Cancels(consuming)
    patient = Inbox(consuming, impatient, arguments={"x-consumer-timeout": 60_000})
    publish(channel, impatient, b"1")
    patient.wait(1)
    pass_time(channel, 3 * TIMEOUT_SECONDS)
    assert (cancels.tags, ready_count(channel, impatient)) == ([], 0)


@both_kinds
def test_a_timeout_in_the_arguments_of_a_queue_must_be_at_least_0(
    own_broker: Broker, channel: Any, name: str, kind: str
) -> None:
    text = (
        f"invalid arg 'x-consumer-timeout' for queue '{name}' in vhost '/': {{value_negative,-1}}"
    )
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        declare(channel, name, kind, {"x-consumer-timeout": -1})


def test_a_consumer_asks_for_ten_years_at_the_most(
    own_broker: Broker, channel: Any, queue: str
) -> None:
    longest = 315_360_000_000
    Inbox(channel, queue, arguments={"x-consumer-timeout": longest})
    text = (
        f"invalid arg 'x-consumer-timeout' for queue '{queue}' in vhost '/': "
        f"{{value_too_large,{2**63 - 1}}}"
    )
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        Inbox(channel, queue, arguments={"x-consumer-timeout": 2**63 - 1})


def test_a_quorum_queue_counts_it_as_a_delivery_that_did_not_fail(
    own_broker: Broker, connection: Any, channel: Any, name: str
) -> None:
    graves = channel.queue_declare("", exclusive=True).method.queue
    limits = {"x-consumer-timeout": 100, "x-delivery-limit": 1}
    declare(channel, name, "quorum", {**limits, **onward(graves)})
    publish(channel, name, b"1")
    for _ in range(3):
        consuming = connection.channel()
        cancels = Cancels(consuming)
        cancels.wait(Inbox(consuming, name).consumer_tag)
    wait_until_ready(channel, name, 1)
    headers = take(channel, name).properties.headers
    assert fields(headers, "x-delivery-count", "x-acquired-count") in ((None, 3), (0, 3))
    assert ready_count(channel, graves) == 0


def test_the_active_consumer_that_is_late_hands_over(
    own_broker: Broker, connection: Any, channel: Any, name: str
) -> None:
    arguments = {"x-consumer-timeout": TIMEOUT_MS, "x-single-active-consumer": True}
    declare(channel, name, arguments=arguments)
    late, next_one = connection.channel(), connection.channel()
    first = Inbox(late, name)
    second = Inbox(next_one, name, auto_ack=True)
    publish_all(channel, name, numbered(2))
    second.wait(2)
    assert (first.bodies, second.bodies) == (numbered(2), numbered(2))


@pytest.fixture
def hasty_node() -> Iterator[Node]:
    """A node whose own timeout is short."""
    with Node(name="hasty", settings={"consumer_timeout": str(TIMEOUT_MS)}) as started:
        yield started


def test_without_any_argument_the_timeout_of_the_node_holds(hasty_node: Node) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(hasty_node.url))
    channel = connection.channel()
    channel.queue_declare("q")
    cancels = Cancels(channel)
    publish(channel, "q", b"1")
    cancels.wait(Inbox(channel, "q").consumer_tag)
    assert drain(channel, "q") == [b"1"]
    connection.close()
