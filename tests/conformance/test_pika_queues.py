"""Queues with pika: declare and its texts, exclusive, auto-delete, server-named, passive, purge."""

import re
from collections.abc import Callable
from typing import Any

import pika.exceptions
import pytest

from tests.conformance.broker import (
    Inbox,
    channel_closed,
    drain,
    numbered,
    publish_all,
    ready_count,
    settle_down,
    take,
)

Connect = Callable[..., Any]


def missing(queue: str) -> str:
    return f"NOT_FOUND - no queue '{queue}' in vhost '/'"


def locked(queue: str) -> str:
    return (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'."
        " It could be originally declared on another connection or the exclusive property value"
        " does not match that of the original declaration."
    )


def inequivalent(key: str, queue: str, received: str, current: str) -> str:
    return (
        f"PRECONDITION_FAILED - inequivalent arg '{key}' for queue '{queue}' in vhost '/':"
        f" received {received} but current is {current}"
    )


def test_a_server_named_queue_gets_22_random_characters(channel: Any) -> None:
    names = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    assert all(re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name) for name in names)
    assert len(set(names)) == 3


def test_the_empty_name_means_the_queue_last_declared_on_the_channel(
    channel: Any, name: str
) -> None:
    channel.queue_declare(f"{name}-1", exclusive=True)
    channel.queue_declare(f"{name}-2", exclusive=True)
    channel.queue_bind("", "amq.direct", "")
    publish_all(channel, f"{name}-2", [b"here"])
    channel.basic_publish("amq.direct", f"{name}-2", b"bound by its own name")
    assert drain(channel, "") == [b"here", b"bound by its own name"]


def test_the_empty_name_before_any_declare_is_refused(channel: Any) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_purge("")
    assert caught.value.reply_code == 404


def test_declaring_again_alike_tells_the_counts(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(3))
    Inbox(channel, queue).wait(3)
    publish_all(channel, queue, [b"4"])
    again = channel.queue_declare(queue, durable=True).method
    assert (again.queue, again.consumer_count) == (queue, 1)


def test_a_passive_declare_tells_ready_messages_and_consumers(
    channel: Any, connect: Connect, queue: str
) -> None:
    publish_all(channel, queue, numbered(3))
    take(channel, queue)
    told = connect().channel().queue_declare(queue, passive=True).method
    assert (told.message_count, told.consumer_count) == (2, 0)
    Inbox(channel, queue).wait(2)
    told = connect().channel().queue_declare(queue, passive=True).method
    assert (told.message_count, told.consumer_count) == (0, 1)


def test_a_passive_declare_ignores_the_other_attributes(channel: Any, queue: str) -> None:
    told = channel.queue_declare(queue, passive=True, auto_delete=True).method
    assert told.message_count == 0


def test_a_passive_declare_of_a_missing_queue_closes_the_channel(channel: Any, name: str) -> None:
    with channel_closed(404, missing(name)):
        channel.queue_declare(name, passive=True)


def test_the_connection_outlives_a_closed_channel(channel: Any, connection: Any, name: str) -> None:
    with channel_closed(404, missing(name)):
        channel.queue_declare(name, passive=True)
    again = connection.channel()
    again.queue_declare(name, exclusive=True)
    assert ready_count(again, name) == 0


@pytest.mark.parametrize(
    ("first", "second", "key", "received", "current"),
    [
        ({"durable": True}, {}, "durable", "'false'", "'true'"),
        ({}, {"durable": True}, "durable", "'true'", "'false'"),
        ({}, {"auto_delete": True}, "auto_delete", "'true'", "'false'"),
        (
            {"durable": True},
            {"durable": True, "arguments": {"x-queue-type": "quorum"}},
            "x-queue-type",
            "'quorum'",
            "'classic'",
        ),
        (
            {"arguments": {"x-max-length": 10}},
            {"arguments": {"x-max-length": 11}},
            "x-max-length",
            "'11'",
            "'10'",
        ),
        (
            {},
            {"arguments": {"x-max-length": 11}},
            "x-max-length",
            "the value '11' of type 'signedint'",
            "none",
        ),
        (
            {"arguments": {"x-dead-letter-exchange": "amq.fanout"}},
            {},
            "x-dead-letter-exchange",
            "none",
            "the value 'amq.fanout' of type 'longstr'",
        ),
    ],
)
def test_declaring_again_differently_names_the_difference(
    channel: Any,
    name: str,
    first: dict[str, Any],
    second: dict[str, Any],
    key: str,
    received: str,
    current: str,
) -> None:
    channel.queue_declare(name, **first)
    with channel_closed(406, inequivalent(key, name, received, current)):
        channel.queue_declare(name, **second)


def test_numbers_in_arguments_are_compared_by_value(channel: Any, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-length": 10})
    channel.queue_declare(name, arguments={"x-max-length": pika_long(10)})


def pika_long(value: int) -> Any:
    """An integer that pika encodes with 64 bits whatever its size."""
    from pika.data import long  # type: ignore[attr-defined,unused-ignore]

    return long(value)


def test_an_absent_queue_type_is_classic(channel: Any, name: str) -> None:
    channel.queue_declare(name, durable=True)
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "classic"})


def test_a_reserved_queue_name_is_refused(channel: Any) -> None:
    text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    with channel_closed(403, text):
        channel.queue_declare("amq.mine")


def test_an_exclusive_queue_belongs_to_its_connection(connect: Connect, name: str) -> None:
    owner, stranger = connect(), connect()
    owner.channel().queue_declare(name, exclusive=True)
    assert owner.channel().queue_declare(name, exclusive=True).method.queue == name
    attempts: list[Callable[[Any], object]] = [
        lambda channel: channel.queue_declare(name, exclusive=True),
        lambda channel: channel.queue_declare(name),
        lambda channel: channel.queue_declare(name, passive=True),
        lambda channel: Inbox(channel, name),
        lambda channel: channel.basic_get(name),
        lambda channel: channel.queue_purge(name),
        lambda channel: channel.queue_delete(name),
        lambda channel: channel.queue_bind(name, "amq.fanout"),
    ]
    for attempt in attempts:
        with channel_closed(405, locked(name)):
            attempt(stranger.channel())


def test_anybody_may_publish_to_an_exclusive_queue(connect: Connect, name: str) -> None:
    owner = connect().channel()
    owner.queue_declare(name, exclusive=True)
    publish_all(connect().channel(), name, [b"hello"])
    assert drain(owner, name) == [b"hello"]


def test_an_exclusive_queue_is_gone_once_the_close_of_its_connection_is_answered(
    connect: Connect, name: str
) -> None:
    watching = connect()
    for _ in range(20):
        owner = connect()
        owner.channel().queue_declare(name, exclusive=True, durable=True)
        owner.close()
        with channel_closed(404, missing(name)):
            watching.channel().queue_declare(name, passive=True)


def test_an_auto_delete_queue_goes_with_its_last_consumer(channel: Any, name: str) -> None:
    channel.queue_declare(name, auto_delete=True)
    first, second = Inbox(channel, name), Inbox(channel, name)
    channel.basic_cancel(first.consumer_tag)
    assert ready_count(channel, name) == 0
    channel.basic_cancel(second.consumer_tag)
    with channel_closed(404, missing(name)):
        channel.queue_declare(name, passive=True)


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(connect: Connect, name: str) -> None:
    declaring = connect()
    channel = declaring.channel()
    channel.queue_declare(name, auto_delete=True)
    publish_all(channel, name, [b"kept"])
    take(channel, name)
    declaring.close()
    assert drain(connect().channel(), name) == [b"kept"]


def test_an_auto_delete_queue_goes_when_its_consumer_is_lost(connect: Connect, name: str) -> None:
    consuming, watching = connect(), connect().channel()
    channel = consuming.channel()
    channel.queue_declare(name, auto_delete=True)
    Inbox(channel, name)
    assert watching.queue_declare(name, passive=True).method.consumer_count == 1
    consuming.close()
    with channel_closed(404, missing(name)):
        settle_down(watching, lambda: ready_count(watching, name) < 0)


def test_a_purge_removes_only_ready_messages_and_counts_them(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(5))
    take(channel, queue)
    take(channel, queue)
    assert channel.queue_purge(queue).method.message_count == 3
    channel.basic_recover(requeue=True)
    settle_down(channel, lambda: ready_count(channel, queue) == 2)
    assert drain(channel, queue) == [b"1", b"2"]


def test_purging_an_empty_queue_counts_0(channel: Any, queue: str) -> None:
    assert channel.queue_purge(queue).method.message_count == 0


def test_purging_a_missing_queue_closes_the_channel(channel: Any, name: str) -> None:
    with channel_closed(404, missing(name)):
        channel.queue_purge(name)


def test_a_delete_counts_what_was_in_the_queue(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(4))
    assert channel.queue_delete(queue).method.message_count == 4
    with channel_closed(404, missing(queue)):
        channel.queue_declare(queue, passive=True)


def test_deleting_a_missing_queue_is_fine(channel: Any, name: str) -> None:
    assert channel.queue_delete(name).method.message_count == 0


def test_delete_if_unused_refuses_a_queue_in_use(channel: Any, queue: str) -> None:
    Inbox(channel, queue)
    with channel_closed(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"):
        channel.queue_delete(queue, if_unused=True)


def test_delete_if_empty_refuses_a_queue_with_messages(channel: Any, queue: str) -> None:
    publish_all(channel, queue, [b"1"])
    with channel_closed(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"):
        channel.queue_delete(queue, if_empty=True)


def test_delete_with_conditions_that_hold_deletes(channel: Any, queue: str) -> None:
    channel.queue_delete(queue, if_unused=True, if_empty=True)
    with channel_closed(404, missing(queue)):
        channel.queue_declare(queue, passive=True)


def test_binding_a_missing_queue_or_exchange_closes_the_channel(
    connection: Any, channel: Any, queue: str
) -> None:
    with channel_closed(404, missing("nowhere")):
        connection.channel().queue_bind("nowhere", "amq.fanout")
    with channel_closed(404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'"):
        connection.channel().queue_bind(queue, "nowhere")


def test_unbinding_what_was_not_bound_is_fine(channel: Any, queue: str) -> None:
    channel.queue_unbind(queue, "amq.direct", "never bound")


def test_a_queue_name_may_be_255_bytes_long_and_hold_any_text(channel: Any) -> None:
    name = "ż" * 127 + "x"
    channel.queue_declare(name, exclusive=True)
    publish_all(channel, name, [b"1"])
    assert drain(channel, name) == [b"1"]


def test_a_bad_argument_names_itself_and_the_reason(connection: Any, name: str) -> None:
    wrong = {
        "x-max-length": (-1, "{value_negative,-1}"),
        "x-expires": (0, "{value_zero,0}"),
        "x-max-priority": (256, "{max_value_exceeded,256}"),
        "x-single-active-consumer": ("yes", "{unacceptable_type,longstr}"),
        "x-overflow": ("drop-tail", "invalid_overflow"),
        "x-dead-letter-routing-key": ("key", "routing_key_but_no_dlx_defined"),
    }
    for key, (value, reason) in wrong.items():
        text = f"invalid arg '{key}' for queue '{name}' in vhost '/': {reason}"
        with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
            connection.channel().queue_declare(name, arguments={key: value})
