"""Priorities with pika: levels of a classic queue, and of a quorum queue."""

from typing import Any

import pytest

from tests.conformance.broker import (
    Broker,
    Inbox,
    channel_closed,
    drain,
    publish_all,
    ready_count,
    take,
    wait_until_ready,
)
from tests.conformance.options import declare, exclusive_queue, onward, publish


def levels(channel: Any, queue: str, *priorities: int | None) -> None:
    """Publish messages with these priorities; a body says its place and its priority."""
    for number, priority in enumerate(priorities, 1):
        publish(channel, queue, b"%d/%s" % (number, str(priority).encode()), priority=priority)


def test_higher_priorities_come_first_and_equals_in_their_order(channel: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-priority": 5})
    levels(channel, name, 1, 5, 3, 1, 5)
    assert drain(channel, name) == [b"2/5", b"5/5", b"3/3", b"1/1", b"4/1"]


def test_a_message_without_priority_has_the_lowest(channel: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-priority": 5})
    levels(channel, name, None, 0, 1, None)
    assert drain(channel, name) == [b"3/1", b"1/None", b"2/0", b"4/None"]


def test_a_priority_above_the_maximum_counts_as_the_maximum(channel: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-priority": 5})
    levels(channel, name, 4, 5, 200, 5)
    assert drain(channel, name) == [b"2/5", b"3/200", b"4/5", b"1/4"]
    levels(channel, name, 200)
    assert take(channel, name).properties.priority == 200


def test_a_queue_without_the_argument_takes_no_notice_of_priorities(
    channel: Any, queue: str
) -> None:
    levels(channel, queue, 1, 9, 5)
    assert drain(channel, queue) == [b"1/1", b"2/9", b"3/5"]


def test_a_consumer_gets_the_backlog_by_priority(channel: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-priority": 255})
    levels(channel, name, 0, 255, 100, 0, 255)
    inbox = Inbox(channel, name)
    inbox.wait(5)
    assert inbox.bodies == [b"2/255", b"5/255", b"3/100", b"1/0", b"4/0"]


def test_what_a_consumer_holds_is_not_overtaken(channel: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-priority": 5})
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, name)
    levels(channel, name, 1, 1, 5)
    inbox.wait(1)
    for _ in range(3):
        channel.basic_ack(inbox.messages[-1].delivery_tag)
        inbox.wait(min(len(inbox.messages) + 1, 3))
    assert inbox.bodies == [b"1/1", b"3/5", b"2/1"]


def test_a_requeued_message_returns_to_its_place_in_its_level(channel: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-priority": 5})
    levels(channel, name, 1, 5, 5)
    taken = [take(channel, name).delivery_tag for _ in range(3)]
    for tag in reversed(taken):
        channel.basic_reject(tag, requeue=True)
    wait_until_ready(channel, name, 3)
    assert drain(channel, name) == [b"2/5", b"3/5", b"1/1"]


def test_counts_and_purges_are_of_all_levels(channel: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-priority": 5})
    levels(channel, name, 1, 5, 3, None)
    assert ready_count(channel, name) == 4
    assert channel.basic_get(name)[0].message_count == 3
    assert channel.queue_purge(name).method.message_count == 3


def test_too_long_a_queue_drops_from_the_lowest_level_first(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # RabbitMQ drops the message that it would deliver next, which is one of the highest level.
    declare(channel, name, arguments={"x-max-priority": 5, "x-max-length": 2})
    levels(channel, name, 5, 1, 3)
    wait_until_ready(channel, name, 2)
    assert drain(channel, name) == [b"1/5", b"3/3"]


def test_a_new_message_of_the_lowest_level_may_be_the_one_that_goes(
    own_broker: Broker, channel: Any, name: str
) -> None:
    other = exclusive_queue(channel)
    declare(channel, name, arguments={"x-max-priority": 5, "x-max-length": 2, **onward(other)})
    levels(channel, name, 5, 5, 1)
    wait_until_ready(channel, other, 1)
    assert (drain(channel, other), drain(channel, name)) == ([b"3/1"], [b"1/5", b"2/5"])


def test_a_message_expires_behind_others_of_a_higher_level(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # With RabbitMQ it is stuck until those of the higher levels are gone.
    declare(channel, name, arguments={"x-max-priority": 5})
    publish(channel, name, b"stays", priority=5)
    publish(channel, name, b"goes", priority=1, expiration="100")
    wait_until_ready(channel, name, 1)
    assert drain(channel, name) == [b"stays"]


def test_a_maximum_of_0_makes_one_level(own_broker: Broker, channel: Any, name: str) -> None:
    # RabbitMQ makes two levels of it, 0 and above.
    declare(channel, name, arguments={"x-max-priority": 0})
    levels(channel, name, 0, 9, 5)
    assert drain(channel, name) == [b"1/0", b"2/9", b"3/5"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "{value_negative,-1}"),
        (256, "{max_value_exceeded,256}"),
    ],
)
def test_a_maximum_must_be_of_0_to_255(channel: Any, name: str, value: object, reason: str) -> None:
    text = f"invalid arg 'x-max-priority' for queue '{name}' in vhost '/': {reason}"
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        declare(channel, name, arguments={"x-max-priority": value})


def test_the_maximum_must_be_the_same_when_the_queue_is_declared_again(
    connection: Any, name: str
) -> None:
    declare(connection.channel(), name, arguments={"x-max-priority": 5})
    begin = f"PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue '{name}'"
    with channel_closed(406, f"{begin} in vhost '/': received '6' but current is '5'"):
        declare(connection.channel(), name, arguments={"x-max-priority": 6})
    missing = "received none but current is the value '5' of type 'signedint'"
    with channel_closed(406, f"{begin} in vhost '/': {missing}"):
        declare(connection.channel(), name)


def test_a_quorum_queue_takes_no_maximum(channel: Any, name: str) -> None:
    text = f"invalid arg 'x-max-priority' for queue '{name}' in vhost '/'"
    with channel_closed(406, f"PRECONDITION_FAILED - {text} of queue type rabbit_quorum_queue"):
        declare(channel, name, "quorum", {"x-max-priority": 5})


def test_a_quorum_queue_has_32_levels_and_4_is_that_of_no_priority(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # RabbitMQ 4.0 has two levels, up to 4 and above, served two to one; 4.3 has these 32.
    declare(channel, name, "quorum")
    levels(channel, name, 0, 4, None, 5, 31, 200, 3)
    expected = [b"5/31", b"6/200", b"4/5", b"2/4", b"3/None", b"7/3", b"1/0"]
    assert drain(channel, name) == expected


def test_a_quorum_queue_requeues_to_the_place_and_level(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # RabbitMQ serves what was returned before all else, in the order of return.
    declare(channel, name, "quorum")
    levels(channel, name, 1, 9, 9)
    taken = [take(channel, name).delivery_tag for _ in range(3)]
    for tag in reversed(taken):
        channel.basic_reject(tag, requeue=True)
    wait_until_ready(channel, name, 3)
    assert drain(channel, name) == [b"2/9", b"3/9", b"1/1"]


def test_a_quorum_queue_that_is_too_long_drops_from_the_lowest_level_first(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # RabbitMQ 4.0 drops the message that it would deliver next.
    declare(channel, name, "quorum", {"x-max-length": 2})
    levels(channel, name, 9, 1, 5)
    wait_until_ready(channel, name, 2)
    assert drain(channel, name) == [b"1/9", b"3/5"]


def test_a_large_backlog_comes_by_priority(channel: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-priority": 9})
    publish_all(channel, name, [b"begin"])
    take(channel, name)
    for number in range(1, 1_001):
        publish(channel, name, b"%d" % number, priority=number % 10)
    bodies = [int(body) for body in drain(channel, name)]
    assert bodies == sorted(range(1, 1_001), key=lambda number: (-(number % 10), number))
