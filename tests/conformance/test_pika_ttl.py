"""Message TTL with pika: of the queue and of the message, at 0, requeued, behind others (6.7)."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.broker import (
    Broker,
    Inbox,
    channel_closed,
    drain,
    numbered,
    publish_all,
    ready_count,
    take,
    wait_until_ready,
)
from tests.conformance.options import (
    both_kinds,
    declare,
    exclusive_queue,
    onward,
    pass_time,
    publish,
)

Connect = Callable[..., Any]

YEARS_10_MS = 315_360_000_000
LATE_SECONDS = 15.0


def refused(name: str, key: str, reason: str) -> str:
    return f"PRECONDITION_FAILED - invalid arg '{key}' for queue '{name}' in vhost '/': {reason}"


@both_kinds
def test_messages_leave_when_the_ttl_of_the_queue_is_over_and_not_before(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-message-ttl": 150})
    begun = time.monotonic()
    publish_all(channel, name, numbered(3))
    wait_until_ready(channel, name, 0)
    assert 0.145 <= time.monotonic() - begun < LATE_SECONDS
    assert drain(channel, name) == []


@both_kinds
def test_a_message_leaves_when_its_own_expiration_is_over_and_not_before(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    begun = time.monotonic()
    publish(channel, name, b"short", expiration="150")
    publish(channel, name, b"long", expiration="60000")
    publish(channel, name, b"for ever")
    wait_until_ready(channel, name, 2)
    assert 0.145 <= time.monotonic() - begun < LATE_SECONDS
    assert drain(channel, name) == [b"long", b"for ever"]


@both_kinds
@pytest.mark.parametrize(("of_queue", "of_message"), [(60_000, "100"), (100, "60000")])
def test_the_smaller_of_two_ttls_holds(
    channel: Any, name: str, kind: str, of_queue: int, of_message: str
) -> None:
    declare(channel, name, kind, {"x-message-ttl": of_queue})
    begun = time.monotonic()
    publish(channel, name, b"1", expiration=of_message)
    wait_until_ready(channel, name, 0)
    assert 0.095 <= time.monotonic() - begun < LATE_SECONDS


@both_kinds
def test_a_message_that_is_taken_in_time_is_delivered_with_its_expiration(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-message-ttl": 60_000})
    publish(channel, name, b"1", expiration="50000")
    taken = take(channel, name)
    assert (taken.body, taken.properties.expiration) == (b"1", "50000")


@both_kinds
def test_what_a_consumer_holds_does_not_expire(channel: Any, name: str, kind: str) -> None:
    other = exclusive_queue(channel)
    declare(channel, name, kind, {"x-message-ttl": 100, **onward(other)})
    inbox = Inbox(channel, name)
    publish(channel, name, b"1")
    [message] = inbox.wait(1)
    pass_time(channel, 0.2)
    channel.basic_ack(message.delivery_tag)
    assert (ready_count(channel, name), ready_count(channel, other)) == (0, 0)


@both_kinds
def test_a_requeued_message_keeps_the_instant_at_which_it_expires(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    publish(channel, name, b"over", expiration="150")
    publish(channel, name, b"not over", expiration="60000")
    tags = [take(channel, name).delivery_tag for _ in range(2)]
    pass_time(channel, 0.2)
    for tag in tags:
        channel.basic_reject(tag, requeue=True)
    wait_until_ready(channel, name, 1)
    assert drain(channel, name) == [b"not over"]


@both_kinds
def test_a_message_requeued_in_time_expires_later(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind)
    begun = time.monotonic()
    publish(channel, name, b"1", expiration="300")
    channel.basic_reject(take(channel, name).delivery_tag, requeue=True)
    wait_until_ready(channel, name, 1)
    wait_until_ready(channel, name, 0)
    assert time.monotonic() - begun >= 0.295


@both_kinds
def test_an_expired_message_is_not_delivered_to_who_comes_later(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-message-ttl": 100})
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, name)
    publish_all(channel, name, numbered(2))
    [held] = inbox.wait(1)
    wait_until_ready(channel, name, 0)
    channel.basic_ack(held.delivery_tag)
    publish(channel, name, b"fresh")
    inbox.wait(2)
    assert inbox.bodies == [b"1", b"fresh"]


@both_kinds
@pytest.mark.parametrize("of_queue", [True, False])
def test_a_ttl_of_0_means_now_or_never(
    channel: Any, connection: Any, name: str, kind: str, of_queue: bool
) -> None:
    other = exclusive_queue(channel)
    arguments = onward(other) | ({"x-message-ttl": 0} if of_queue else {})
    expiration = None if of_queue else "0"
    declare(channel, name, kind, arguments)
    publish(channel, name, b"no consumer", expiration=expiration)
    wait_until_ready(channel, other, 1)
    inbox = Inbox(connection.channel(), name, auto_ack=True)
    publish(channel, name, b"a consumer", expiration=expiration)
    inbox.wait(1)
    assert inbox.bodies == [b"a consumer"]
    assert drain(channel, other) == [b"no consumer"]


def test_an_expired_message_leaves_from_behind_one_that_stays(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # RabbitMQ drops expired messages only at the head of the queue; ours go wherever they are.
    for kind in ("classic", "quorum"):
        queue = declare(channel, f"{name}-{kind}", kind)
        publish(channel, queue, b"stays")
        publish(channel, queue, b"goes", expiration="100")
        publish(channel, queue, b"stays too", expiration="60000")
        wait_until_ready(channel, queue, 2)
        assert drain(channel, queue) == [b"stays", b"stays too"]
        channel.queue_delete(queue)


@both_kinds
def test_messages_of_one_queue_expire_in_their_order(channel: Any, name: str, kind: str) -> None:
    other = exclusive_queue(channel)
    declare(channel, name, kind, {"x-message-ttl": 50, **onward(other)})
    publish_all(channel, name, numbered(20))
    wait_until_ready(channel, other, 20)
    assert drain(channel, other) == numbered(20)


@both_kinds
def test_expired_messages_do_not_count_when_the_queue_is_deleted(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-message-ttl": 60_000})
    publish(channel, name, b"gone", expiration="50")
    publish_all(channel, name, numbered(2))
    wait_until_ready(channel, name, 2)
    assert channel.queue_delete(name).method.message_count == 2


@both_kinds
def test_a_ttl_in_the_arguments_must_be_at_least_0_and_at_most_ten_years(
    connection: Any, name: str, kind: str
) -> None:
    wrong = {
        -1: "{value_negative,-1}",
        YEARS_10_MS + 1: f"{{value_too_large,{YEARS_10_MS + 1}}}",
    }
    for value, reason in wrong.items():
        with channel_closed(406, refused(name, "x-message-ttl", reason)):
            declare(connection.channel(), name, kind, {"x-message-ttl": value})
    declare(connection.channel(), name, kind, {"x-message-ttl": YEARS_10_MS})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("soon", "no_integer"),
        ("", "no_integer"),
        (" 5", "no_integer"),
        ("1.5", '{leftover_string,".5"}'),
        ("5 ", '{leftover_string," "}'),
        ("-1", "{value_negative,-1}"),
        (f"{YEARS_10_MS + 1}", f"{{value_too_large,{YEARS_10_MS + 1}}}"),
    ],
)
def test_a_bad_expiration_is_refused_with_its_reason(
    channel: Any, queue: str, text: str, reason: str
) -> None:
    with channel_closed(406, f"PRECONDITION_FAILED - invalid expiration '{text}': {reason}"):
        publish(channel, queue, b"", expiration=text)


def test_the_longest_expiration_is_taken(channel: Any, queue: str) -> None:
    publish(channel, queue, b"1", expiration=f"{YEARS_10_MS}")
    assert drain(channel, queue) == [b"1"]


@both_kinds
def test_the_ttl_of_a_queue_must_be_the_same_when_it_is_declared_again(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-message-ttl": 1000})
    text = f"inequivalent arg 'x-message-ttl' for queue '{name}' in vhost '/'"
    with channel_closed(
        406, f"PRECONDITION_FAILED - {text}: received '2000' but current is '1000'"
    ):
        declare(channel, name, kind, {"x-message-ttl": 2000})


@both_kinds
def test_each_copy_of_a_message_expires_by_the_ttl_of_its_queue(
    channel: Any, name: str, kind: str
) -> None:
    channel.exchange_declare(name, "fanout")
    keeps = exclusive_queue(channel)
    declare(channel, name, kind, {"x-message-ttl": 50})
    for queue in (name, keeps):
        channel.queue_bind(queue, name)
    channel.confirm_delivery()
    channel.basic_publish(name, "", b"1")
    wait_until_ready(channel, name, 0)
    assert drain(channel, keeps) == [b"1"]
