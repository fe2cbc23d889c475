"""Length limits with pika: drop-head, reject-publish and what counts towards a limit."""

from typing import Any

import pika
import pika.exceptions
import pytest

from tests.conformance.broker import (
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
from tests.conformance.options import both_kinds, declare, exclusive_queue, onward, publish


def is_accepted(channel: Any, queue: str, body: bytes) -> bool:
    """Whether a publish was confirmed and not refused."""
    try:
        publish(channel, queue, body)
    except pika.exceptions.NackError:
        return False
    return True


@both_kinds
def test_the_oldest_go_when_the_queue_is_too_long(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind, {"x-max-length": 3})
    publish_all(channel, name, numbered(5))
    wait_until_ready(channel, name, 3)
    assert drain(channel, name) == [b"3", b"4", b"5"]


@both_kinds
def test_a_queue_at_its_limit_drops_nothing(channel: Any, name: str, kind: str) -> None:
    other = exclusive_queue(channel)
    declare(channel, name, kind, {"x-max-length": 3, **onward(other)})
    publish_all(channel, name, numbered(3))
    assert drain(channel, name) == numbered(3)
    assert ready_count(channel, other) == 0


@both_kinds
def test_the_bytes_of_the_bodies_are_limited(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind, {"x-max-length-bytes": 10})
    for body in (b"aaaa", b"bbbb", b"cc"):
        publish(channel, name, body, headers={"long": "h" * 100}, message_id="i" * 100)
    assert ready_count(channel, name) == 3
    publish(channel, name, b"d")
    wait_until_ready(channel, name, 3)
    assert drain(channel, name) == [b"bbbb", b"cc", b"d"]


@both_kinds
def test_as_many_go_as_the_newest_needs_room(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind, {"x-max-length-bytes": 10})
    publish_all(channel, name, [b"aaa", b"bbb", b"ccc"])
    publish(channel, name, b"d" * 8)
    wait_until_ready(channel, name, 1)
    assert drain(channel, name) == [b"d" * 8]


@both_kinds
def test_a_body_over_the_limit_of_bytes_does_not_stay(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind, {"x-max-length-bytes": 10})
    publish(channel, name, b"small")
    publish(channel, name, b"x" * 11)
    wait_until_ready(channel, name, 0)


@both_kinds
@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({"x-max-length": 2, "x-max-length-bytes": 1000}, [b"ccc", b"ddd"]),
        ({"x-max-length": 100, "x-max-length-bytes": 6}, [b"ccc", b"ddd"]),
    ],
)
def test_of_two_limits_the_one_that_is_reached_first_holds(
    channel: Any, name: str, kind: str, limits: dict[str, int], kept: list[bytes]
) -> None:
    declare(channel, name, kind, dict(limits))
    publish_all(channel, name, [b"aaa", b"bbb", b"ccc", b"ddd"])
    wait_until_ready(channel, name, 2)
    assert drain(channel, name) == kept


@both_kinds
def test_what_consumers_hold_does_not_count(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind, {"x-max-length": 2})
    publish_all(channel, name, numbered(2))
    for _ in range(2):
        take(channel, name)
    publish_all(channel, name, numbered(2, first=3))
    assert ready_count(channel, name) == 2
    channel.basic_ack(0, multiple=True)
    assert drain(channel, name) == [b"3", b"4"]


@both_kinds
def test_what_is_requeued_counts_again(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind, {"x-max-length": 2})
    publish_all(channel, name, numbered(2))
    held = [take(channel, name).delivery_tag for _ in range(2)]
    publish_all(channel, name, numbered(2, first=3))
    channel.basic_nack(held[-1], multiple=True, requeue=True)
    wait_until_ready(channel, name, 2)
    assert drain(channel, name) == [b"3", b"4"]


@both_kinds
def test_a_message_that_goes_straight_to_a_consumer_meets_no_limit(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-max-length": 1})
    inbox = Inbox(channel, name)
    for body in numbered(5):
        publish(channel, name, body)
    inbox.wait(5)
    assert inbox.bodies == numbered(5)


@both_kinds
def test_a_length_of_0_keeps_nothing(channel: Any, name: str, kind: str) -> None:
    other = exclusive_queue(channel)
    declare(channel, name, kind, {"x-max-length": 0, **onward(other)})
    publish_all(channel, name, numbered(2))
    wait_until_ready(channel, other, 2)
    assert ready_count(channel, name) == 0


@both_kinds
def test_dropped_messages_are_dead_lettered_oldest_first_as_maxlen(
    channel: Any, name: str, kind: str
) -> None:
    other = exclusive_queue(channel)
    declare(channel, name, kind, {"x-max-length": 1, **onward(other)})
    publish_all(channel, name, numbered(4))
    wait_until_ready(channel, other, 3)
    first = take(channel, other)
    assert first.properties.headers["x-death"][0]["reason"] == "maxlen"
    assert [first.body, *drain(channel, other)] == numbered(3)


def test_a_full_queue_refuses_publishes_and_takes_them_again_when_there_is_room(
    channel: Any, name: str
) -> None:
    declare(channel, name, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    assert [is_accepted(channel, name, body) for body in numbered(4)] == [True, True, False, False]
    assert ready_count(channel, name) == 2
    channel.basic_ack(take(channel, name).delivery_tag)
    assert is_accepted(channel, name, b"5")
    assert drain(channel, name) == [b"2", b"5"]


def test_a_full_quorum_queue_refuses_exactly_what_is_over_its_limit(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # RabbitMQ tells publishers from a soft state, so that some more get in.
    declare(channel, name, "quorum", {"x-max-length": 2, "x-overflow": "reject-publish"})
    assert [is_accepted(channel, name, body) for body in numbered(4)] == [True, True, False, False]
    channel.basic_ack(take(channel, name).delivery_tag)
    settle_down(channel, lambda: is_accepted(channel, name, b"5"))
    assert drain(channel, name) == [b"2", b"5"]


def test_a_body_that_needs_more_bytes_than_are_left_is_refused(channel: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-length-bytes": 10, "x-overflow": "reject-publish"})
    assert is_accepted(channel, name, b"x" * 8)
    assert not is_accepted(channel, name, b"y" * 3)
    assert is_accepted(channel, name, b"z" * 2)
    assert drain(channel, name) == [b"x" * 8, b"z" * 2]


def test_without_confirms_a_refused_publish_vanishes(
    channel: Any, connection: Any, name: str
) -> None:
    declare(channel, name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    silent = connection.channel()
    for body in numbered(3):
        silent.basic_publish("", name, body)
    wait_until_ready(silent, name, 1)
    assert drain(silent, name) == [b"1"]


def test_a_publish_that_one_of_two_queues_refuses_is_refused_and_stays_in_the_other(
    channel: Any, name: str
) -> None:
    channel.exchange_declare(name, "fanout")
    roomy = exclusive_queue(channel)
    declare(channel, name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for queue in (name, roomy):
        channel.queue_bind(queue, name)
    channel.confirm_delivery()
    channel.basic_publish(name, "", b"1")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish(name, "", b"2")
    assert (drain(channel, name), drain(channel, roomy)) == ([b"1"], [b"1", b"2"])


def test_what_a_consumer_waits_for_is_not_refused(channel: Any, connection: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    inbox = Inbox(connection.channel(), name, auto_ack=True)
    assert all(is_accepted(channel, name, body) for body in numbered(5))
    inbox.wait(5)
    assert inbox.bodies == numbered(5)


def test_reject_publish_dlx_refuses_and_dead_letters_the_newest(channel: Any, name: str) -> None:
    other = exclusive_queue(channel)
    limits = {"x-max-length": 1, "x-overflow": "reject-publish-dlx"}
    declare(channel, name, arguments={**limits, **onward(other)})
    assert is_accepted(channel, name, b"1")
    assert not is_accepted(channel, name, b"2")
    wait_until_ready(channel, other, 1)
    rejected = take(channel, other)
    assert rejected.body == b"2"
    assert rejected.properties.headers["x-death"][0]["reason"] == "maxlen"
    assert drain(channel, name) == [b"1"]


def test_reject_publish_does_not_dead_letter(channel: Any, name: str) -> None:
    other = exclusive_queue(channel)
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    declare(channel, name, arguments={**limits, **onward(other)})
    assert is_accepted(channel, name, b"1")
    assert not is_accepted(channel, name, b"2")
    assert (ready_count(channel, name), ready_count(channel, other)) == (1, 0)


def test_a_quorum_queue_may_dead_letter_what_it_refuses(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # RabbitMQ takes the argument for a quorum queue, and drops the head all the same.
    other = exclusive_queue(channel)
    limits = {"x-max-length": 1, "x-overflow": "reject-publish-dlx"}
    declare(channel, name, "quorum", {**limits, **onward(other)})
    assert is_accepted(channel, name, b"1")
    assert not is_accepted(channel, name, b"2")
    wait_until_ready(channel, other, 1)
    assert (drain(channel, name), drain(channel, other)) == ([b"1"], [b"2"])


@both_kinds
def test_a_limit_must_be_at_least_0(connection: Any, name: str, kind: str) -> None:
    for key in ("x-max-length", "x-max-length-bytes"):
        begin = f"PRECONDITION_FAILED - invalid arg '{key}' for queue '{name}' in vhost '/': "
        with channel_closed(406, begin + "{value_negative,-1}"):
            declare(connection.channel(), name, kind, {key: -1})


@both_kinds
def test_an_overflow_must_be_a_known_word(connection: Any, name: str, kind: str) -> None:
    begin = f"PRECONDITION_FAILED - invalid arg 'x-overflow' for queue '{name}' in vhost '/': "
    with channel_closed(406, begin + "invalid_overflow"):
        declare(connection.channel(), name, kind, {"x-overflow": "drop-tail"})
    with channel_closed(406, begin + "{unacceptable_type,signedint}"):
        declare(connection.channel(), name, kind, {"x-overflow": 5})


@both_kinds
def test_a_purge_makes_room(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind, {"x-max-length": 2})
    publish_all(channel, name, numbered(2))
    assert channel.queue_purge(name).method.message_count == 2
    publish_all(channel, name, numbered(3, first=3))
    wait_until_ready(channel, name, 2)
    assert drain(channel, name) == [b"4", b"5"]


@both_kinds
def test_a_limit_holds_over_thousands_of_messages(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind, {"x-max-length": 100})
    for body in numbered(3_000):
        channel.basic_publish("", name, body)
    publish(channel, name, b"last")
    wait_until_ready(channel, name, 100)
    assert drain(channel, name) == [*numbered(99, first=2_902), b"last"]
