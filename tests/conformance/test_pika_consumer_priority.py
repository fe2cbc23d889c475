"""Consumer priorities and exclusive consumers with pika."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.broker import (
    Broker,
    Inbox,
    channel_closed,
    numbered,
    publish_all,
    ready_count,
    settle_down,
    wait_until_ready,
)
from tests.conformance.options import both_kinds, declare, publish

Connect = Callable[..., Any]


def consume(connection: Any, queue: str, priority: int | None, prefetch: int = 0) -> Inbox:
    """A consumer on a channel of its own."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)
    arguments = None if priority is None else {"x-priority": priority}
    return Inbox(channel, queue, arguments=arguments)


@both_kinds
def test_the_consumer_of_the_highest_priority_gets_all(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    plain = consume(connection, name, None)
    high = consume(connection, name, 10)
    low = consume(connection, name, -5)
    publish_all(channel, name, numbered(10))
    high.wait(10)
    assert (high.bodies, plain.bodies, low.bodies) == (numbered(10), [], [])


@both_kinds
def test_the_lower_are_served_while_the_higher_have_no_credit(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    low = consume(connection, name, -1)
    middle = consume(connection, name, 0, prefetch=2)
    high = consume(connection, name, 1, prefetch=3)
    publish_all(channel, name, numbered(7))
    low.wait(2)
    assert (high.bodies, middle.bodies) == ([b"1", b"2", b"3"], [b"4", b"5"])
    assert low.bodies == [b"6", b"7"]


@both_kinds
def test_the_higher_are_served_again_as_soon_as_they_have_credit(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    low = consume(connection, name, 0)
    high = consume(connection, name, 1, prefetch=1)
    publish_all(channel, name, numbered(2))
    high.wait(1)
    low.wait(1)
    high.channel.basic_ack(high.tags[0])
    # Answered behind the ack: the credit is there.
    wait_until_ready(high.channel, name, 0)
    publish(channel, name, b"3")
    high.wait(2)
    assert (high.bodies, low.bodies) == ([b"1", b"3"], [b"2"])


@both_kinds
def test_consumers_of_one_priority_are_served_in_turn(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    low = consume(connection, name, 1)
    equals = [consume(connection, name, 7, prefetch=20) for _ in range(3)]
    for body in numbered(30):
        publish(channel, name, body)
    settle_down(channel, lambda: sum(len(inbox.messages) for inbox in equals) == 30)
    assert [len(inbox.messages) for inbox in equals] == [10, 10, 10]
    assert low.bodies == []


@both_kinds
def test_a_newcomer_of_higher_priority_is_served_first(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    early = consume(connection, name, 0)
    publish(channel, name, b"1")
    early.wait(1)
    late = consume(connection, name, 3)
    publish(channel, name, b"2")
    late.wait(1)
    assert (early.bodies, late.bodies) == ([b"1"], [b"2"])


@both_kinds
def test_when_the_highest_leaves_the_next_is_served(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    low, high = consume(connection, name, 0), consume(connection, name, 9)
    publish(channel, name, b"1")
    high.wait(1)
    high.channel.basic_cancel(high.consumer_tag)
    publish(channel, name, b"2")
    low.wait(1)
    assert (high.bodies, low.bodies) == ([b"1"], [b"2"])


@both_kinds
@pytest.mark.parametrize(("value", "type_name"), [("high", "longstr"), (True, "bool")])
def test_a_priority_must_be_a_number(
    channel: Any, name: str, kind: str, value: object, type_name: str
) -> None:
    declare(channel, name, kind)
    text = f"invalid arg 'x-priority' for queue '{name}' in vhost '/'"
    with channel_closed(406, f'PRECONDITION_FAILED - {text}: "expected integer, got {type_name}"'):
        Inbox(channel, name, arguments={"x-priority": value})


@both_kinds
def test_a_priority_may_be_any_number(channel: Any, connection: Any, name: str, kind: str) -> None:
    declare(channel, name, kind)
    lowest = consume(connection, name, -(2**40))
    highest = consume(connection, name, 2**40)
    publish(channel, name, b"1")
    highest.wait(1)
    assert lowest.bodies == []


def test_an_exclusive_consumer_leaves_the_queue_to_others_when_it_is_cancelled(
    channel: Any, connection: Any, queue: str
) -> None:
    inbox = Inbox(channel, queue, exclusive=True)
    channel.basic_cancel(inbox.consumer_tag)
    other = Inbox(connection.channel(), queue, auto_ack=True)
    publish(channel, queue, b"1")
    other.wait(1)
    assert other.bodies == [b"1"]


def test_an_exclusive_consumer_leaves_the_queue_to_others_when_its_connection_ends(
    connect: Connect, queue: str
) -> None:
    holding = connect()
    Inbox(holding.channel(), queue, exclusive=True)
    holding.close()
    other = connect().channel()
    Inbox(other, queue, exclusive=True)
    assert other.queue_declare(queue, passive=True).method.consumer_count == 1


def test_an_exclusive_consumer_keeps_nobody_from_publishing_or_getting(
    channel: Any, connection: Any, queue: str
) -> None:
    holder = connection.channel()
    holder.basic_qos(prefetch_count=1)
    inbox = Inbox(holder, queue, exclusive=True)
    publish_all(channel, queue, numbered(2))
    inbox.wait(1)
    assert channel.basic_get(queue)[2] == b"2"
    assert ready_count(channel, queue) == 0


def test_a_quorum_queue_keeps_others_from_an_exclusive_consumer(
    own_broker: Broker, channel: Any, connection: Any, name: str
) -> None:
    # RabbitMQ 4.0 takes no notice of the word on quorum queues.
    declare(channel, name, "quorum")
    Inbox(channel, name, exclusive=True)
    with channel_closed(403, f"ACCESS_REFUSED - queue '{name}' in vhost '/' in exclusive use"):
        Inbox(connection.channel(), name)
