"""Consumer side with pika: delivery tags, acks, requeue, prefetch, get, recover, cancel."""

import socket
from collections.abc import Callable
from typing import Any

import pika.exceptions
import pytest

from tests.conformance.broker import (
    Broker,
    Inbox,
    channel_closed,
    connection_closed,
    drain,
    numbered,
    publish_all,
    ready_count,
    settle_down,
    take,
    wait_until_ready,
)

Connect = Callable[..., Any]


def test_delivery_tags_begin_at_1_and_are_shared_by_get_and_deliver(
    channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(5))
    assert [take(channel, queue).delivery_tag for _ in range(2)] == [1, 2]
    assert [message.delivery_tag for message in Inbox(channel, queue).wait(3)] == [3, 4, 5]


def test_delivery_tags_are_counted_per_channel(channel: Any, connection: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(2))
    other = connection.channel()
    assert take(channel, queue).delivery_tag == 1
    assert take(other, queue).delivery_tag == 1


def test_a_delivery_carries_its_exchange_routing_key_and_flags(channel: Any, queue: str) -> None:
    channel.queue_bind(queue, "amq.direct", "a key")
    channel.basic_publish("amq.direct", "a key", b"body")
    [message] = Inbox(channel, queue).wait(1)
    assert (message.exchange, message.routing_key) == ("amq.direct", "a key")
    assert (message.body, message.redelivered) == (b"body", False)


def test_an_automatic_ack_leaves_nothing_to_requeue(connect: Connect, queue: str) -> None:
    consuming = connect()
    channel = consuming.channel()
    inbox = Inbox(channel, queue, auto_ack=True)
    publish_all(channel, queue, numbered(3))
    assert [message.body for message in inbox.wait(3)] == numbered(3)
    consuming.close()
    assert ready_count(connect().channel(), queue) == 0


def test_a_single_ack_settles_one_message(channel: Any, connection: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(3))
    inbox = Inbox(channel, queue)
    inbox.wait(3)
    channel.basic_ack(2)
    channel.close()
    assert drain(connection.channel(), queue) == [b"1", b"3"]


def test_a_multiple_ack_settles_all_tags_up_to_it(
    channel: Any, connection: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(5))
    Inbox(channel, queue).wait(5)
    channel.basic_ack(3, multiple=True)
    channel.close()
    assert drain(connection.channel(), queue) == [b"4", b"5"]


def test_a_multiple_ack_of_tag_0_settles_all(channel: Any, connection: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(5))
    Inbox(channel, queue).wait(5)
    channel.basic_ack(0, multiple=True)
    channel.close()
    assert drain(connection.channel(), queue) == []


def test_a_multiple_ack_skips_what_was_settled_before(
    channel: Any, connection: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(4))
    Inbox(channel, queue).wait(4)
    channel.basic_ack(2)
    channel.basic_ack(3, multiple=True)
    channel.close()
    assert drain(connection.channel(), queue) == [b"4"]


def test_a_reject_without_requeue_drops_the_message(
    channel: Any, connection: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(2))
    Inbox(channel, queue).wait(2)
    channel.basic_reject(1, requeue=False)
    channel.close()
    assert drain(connection.channel(), queue) == [b"2"]


def test_a_nack_of_many_without_requeue_drops_them(
    channel: Any, connection: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(4))
    Inbox(channel, queue).wait(4)
    channel.basic_nack(3, multiple=True, requeue=False)
    channel.close()
    assert drain(connection.channel(), queue) == [b"4"]


def test_a_nack_of_tag_0_with_multiple_requeues_all(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(4))
    for _ in range(4):
        take(channel, queue)
    channel.basic_nack(0, multiple=True, requeue=True)
    wait_until_ready(channel, queue, 4)
    assert drain(channel, queue) == numbered(4)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_requeued_messages_return_to_their_places(
    channel: Any, queue: str, order: tuple[int, ...]
) -> None:
    publish_all(channel, queue, numbered(6))
    for _ in range(4):
        take(channel, queue)
    for tag in order:
        channel.basic_reject(tag, requeue=True)
    wait_until_ready(channel, queue, 5)
    assert drain(channel, queue) == [b"1", b"2", b"3", b"5", b"6"]


def test_a_requeued_message_is_marked_redelivered_and_a_fresh_one_is_not(
    channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(2))
    first = take(channel, queue)
    channel.basic_nack(first.delivery_tag, requeue=True)
    wait_until_ready(channel, queue, 2)
    seen = [(message.body, message.redelivered) for message in Inbox(channel, queue).wait(2)]
    assert seen == [(b"1", True), (b"2", False)]


def test_a_message_may_be_requeued_many_times(channel: Any, queue: str) -> None:
    publish_all(channel, queue, [b"again"])
    for attempt in range(30):
        message = take(channel, queue)
        assert message.redelivered == (attempt > 0)
        channel.basic_reject(message.delivery_tag, requeue=True)
        wait_until_ready(channel, queue, 1)


def test_closing_the_channel_requeues_what_is_unsettled_in_order(
    channel: Any, connection: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(6))
    Inbox(channel, queue).wait(6)
    channel.basic_ack(2)
    channel.close()
    other = connection.channel()
    seen = [(message.body, message.redelivered) for message in Inbox(other, queue).wait(5)]
    assert seen == [(body, True) for body in (b"1", b"3", b"4", b"5", b"6")]


def test_a_lost_connection_requeues_what_is_unsettled(connect: Connect, queue: str) -> None:
    lost, other = connect(), connect().channel()
    channel = lost.channel()
    publish_all(channel, queue, numbered(3))
    Inbox(channel, queue).wait(3)
    lost._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(pika.exceptions.StreamLostError):
        lost.process_data_events(time_limit=5)
    wait_until_ready(other, queue, 3)
    assert drain(other, queue) == numbered(3)


@pytest.mark.parametrize("settle", ["basic_ack", "basic_nack", "basic_reject"])
def test_an_unknown_delivery_tag_closes_the_channel(channel: Any, queue: str, settle: str) -> None:
    getattr(channel, settle)(100)
    with channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 100"):
        ready_count(channel, queue)


def test_a_second_ack_of_the_same_tag_closes_the_channel(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(1))
    take(channel, queue)
    channel.basic_ack(1)
    channel.basic_ack(1)
    with channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 1"):
        ready_count(channel, queue)


def test_a_tag_of_another_channel_closes_only_the_channel_that_used_it(
    channel: Any, connection: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(1))
    take(channel, queue)
    other = connection.channel()
    other.basic_ack(1)
    with channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 1"):
        ready_count(other, queue)
    channel.basic_ack(1)
    assert ready_count(channel, queue) == 0


def test_prefetch_holds_for_each_consumer_started_afterwards(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(20))
    channel.basic_qos(prefetch_count=2)
    first = Inbox(channel, queue)
    channel.basic_qos(prefetch_count=3)
    second = Inbox(channel, queue)
    first.wait(2)
    second.wait(3)
    wait_until_ready(channel, queue, 15)
    assert (len(first.messages), len(second.messages)) == (2, 3)
    channel.basic_ack(first.messages[0].delivery_tag)
    first.wait(3)
    wait_until_ready(channel, queue, 14)
    assert (len(first.messages), len(second.messages)) == (3, 3)


def test_a_prefetch_of_0_sets_no_limit(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(300))
    channel.basic_qos(prefetch_count=0)
    assert Inbox(channel, queue).wait(300)[-1].body == b"300"


def test_global_prefetch_bounds_the_sum_over_the_channel(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(20))
    channel.basic_qos(prefetch_count=5, global_qos=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    settle_down(channel, lambda: len(first.messages) + len(second.messages) >= 5)
    wait_until_ready(channel, queue, 15)
    assert len(first.messages) + len(second.messages) == 5
    channel.basic_ack(2, multiple=True)
    settle_down(channel, lambda: len(first.messages) + len(second.messages) == 7)
    wait_until_ready(channel, queue, 13)


def test_queues_of_a_channel_share_its_prefetch(channel: Any, name: str) -> None:
    queues = [f"{name}-{number}" for number in range(3)]
    for queue in queues:
        channel.queue_declare(queue, exclusive=True)
        publish_all(channel, queue, numbered(300))
    channel.basic_qos(prefetch_count=10, global_qos=True)
    inboxes = [Inbox(channel, queue) for queue in queues]
    acked: list[int] = []

    def tags() -> list[int]:
        return sorted(message.delivery_tag for inbox in inboxes for message in inbox.messages)

    while len(acked) < 300:
        settle_down(channel, lambda: len(tags()) >= len(acked) + 10)
        acked.append(tags()[len(acked)])
        channel.basic_ack(acked[-1])
    settle_down(channel, lambda: len(tags()) == 310)
    assert min(len(inbox.messages) for inbox in inboxes) >= 80


def test_consumers_of_one_queue_share_the_prefetch_of_their_channel(
    channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(60))
    channel.basic_qos(prefetch_count=10, global_qos=True)
    inboxes = [Inbox(channel, queue) for _ in range(2)]
    for number in range(1, 41):
        settle_down(channel, lambda: sum(len(each.messages) for each in inboxes) >= number)  # noqa: B023
        channel.basic_ack(number)
    assert min(len(inbox.messages) for inbox in inboxes) >= 10


def test_messages_that_were_got_do_not_count_against_the_prefetch_of_the_channel(
    channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(6))
    channel.basic_qos(prefetch_count=2, global_qos=True)
    got = [take(channel, queue).delivery_tag for _ in range(2)]
    inbox = Inbox(channel, queue)
    inbox.wait(2)
    channel.basic_ack(got[-1], multiple=True)
    wait_until_ready(channel, queue, 2)
    assert len(inbox.messages) == 2


def test_a_consumer_without_acks_waits_while_the_prefetch_of_the_channel_is_used_up(
    channel: Any, queue: str, name: str
) -> None:
    other = f"{name}-other"
    channel.queue_declare(other, exclusive=True)
    publish_all(channel, queue, numbered(1))
    publish_all(channel, other, numbered(3))
    channel.basic_qos(prefetch_count=1, global_qos=True)
    limited = Inbox(channel, queue)
    limited.wait(1)
    free = Inbox(channel, other, auto_ack=True)
    wait_until_ready(channel, other, 3)
    assert free.messages == []
    channel.basic_ack(limited.messages[0].delivery_tag)
    assert free.wait(3)[-1].body == b"3"


def test_both_prefetch_limits_hold_together(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(20))
    channel.basic_qos(prefetch_count=4)
    channel.basic_qos(prefetch_count=6, global_qos=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    settle_down(channel, lambda: len(first.messages) + len(second.messages) >= 6)
    wait_until_ready(channel, queue, 14)
    assert sorted([len(first.messages), len(second.messages)]) in ([2, 4], [3, 3])


def test_prefetch_does_not_bound_a_consumer_without_acks(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(10))
    channel.basic_qos(prefetch_count=1)
    assert len(Inbox(channel, queue, auto_ack=True).wait(10)) == 10


def test_get_is_not_bounded_by_prefetch(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(3))
    channel.basic_qos(prefetch_count=1, global_qos=True)
    assert [take(channel, queue).body for _ in range(3)] == numbered(3)


def test_get_tells_how_many_remain_and_says_when_the_queue_is_empty(
    channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(2))
    counts = [channel.basic_get(queue)[0].message_count for _ in range(2)]
    assert counts == [1, 0]
    assert channel.basic_get(queue) == (None, None, None)


def test_recover_requeues_all_that_is_unsettled_in_order(channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(4))
    for _ in range(3):
        take(channel, queue)
    channel.basic_ack(2)
    channel.basic_recover(requeue=True)
    wait_until_ready(channel, queue, 3)
    seen = [(message.body, message.redelivered) for message in Inbox(channel, queue).wait(3)]
    assert seen == [(b"1", True), (b"3", True), (b"4", False)]


def test_recover_without_requeue_is_not_implemented(channel: Any, queue: str) -> None:
    with connection_closed(540, "NOT_IMPLEMENTED - requeue=false"):
        channel.basic_recover(requeue=False)
        ready_count(channel, queue)


def test_a_cancelled_consumer_gets_no_more_but_may_settle_what_it_has(
    channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(2))
    inbox = Inbox(channel, queue)
    inbox.wait(2)
    assert channel.basic_cancel(inbox.consumer_tag) == []
    publish_all(channel, queue, [b"3"])
    assert ready_count(channel, queue) == 1
    channel.basic_ack(2, multiple=True)
    channel.basic_recover(requeue=True)
    assert ready_count(channel, queue) == 1
    assert inbox.bodies == [b"1", b"2"]


def test_deleting_the_queue_cancels_its_consumers(
    channel: Any, connect: Connect, queue: str
) -> None:
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    inbox = Inbox(channel, queue)
    connect().channel().queue_delete(queue)
    settle_down(channel, lambda: bool(cancelled))
    assert cancelled == [inbox.consumer_tag]


def test_an_exclusive_consumer_keeps_others_out(channel: Any, connection: Any, queue: str) -> None:
    Inbox(channel, queue, exclusive=True)
    with channel_closed(403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"):
        Inbox(connection.channel(), queue)


def test_an_exclusive_consumer_must_be_the_first(channel: Any, connection: Any, queue: str) -> None:
    Inbox(channel, queue)
    with channel_closed(403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"):
        Inbox(connection.channel(), queue, exclusive=True)


def test_consuming_from_a_missing_queue_closes_the_channel(channel: Any, name: str) -> None:
    with channel_closed(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        Inbox(channel, name)


def test_getting_from_a_missing_queue_closes_the_channel(channel: Any, name: str) -> None:
    with channel_closed(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        channel.basic_get(name)


def test_a_queue_serves_its_consumers_in_turn(channel: Any, connection: Any, queue: str) -> None:
    inboxes = [Inbox(connection.channel(), queue) for _ in range(3)]
    publish_all(channel, queue, numbered(30))
    for inbox in inboxes:
        inbox.wait(10)
    assert [len(inbox.messages) for inbox in inboxes] == [10, 10, 10]
    assert inboxes[0].bodies == sorted(inboxes[0].bodies, key=int)


def test_a_consumer_without_credit_is_passed_over(
    channel: Any, connection: Any, queue: str
) -> None:
    slow, quick = connection.channel(), connection.channel()
    slow.basic_qos(prefetch_count=1)
    slow_inbox, quick_inbox = Inbox(slow, queue), Inbox(quick, queue)
    publish_all(channel, queue, numbered(10))
    quick_inbox.wait(9)
    assert len(slow_inbox.messages) == 1


def test_fifo_order_is_kept_over_many_messages(channel: Any, queue: str) -> None:
    inbox = Inbox(channel, queue, auto_ack=True)
    for body in numbered(5_000):
        channel.basic_publish("", queue, body)
    inbox.wait(5_000)
    assert inbox.bodies == numbered(5_000)


def test_two_channels_of_one_connection_consume_side_by_side(
    channel: Any, connection: Any, queue: str
) -> None:
    inboxes = [Inbox(connection.channel(), queue, auto_ack=True) for _ in range(2)]
    publish_all(channel, queue, numbered(100))
    settle_down(channel, lambda: sum(len(inbox.messages) for inbox in inboxes) == 100)
    assert sorted(inboxes[0].bodies + inboxes[1].bodies, key=int) == numbered(100)


def test_a_multiple_ack_of_ten_thousand_settles_them_all(
    channel: Any, connection: Any, queue: str
) -> None:
    for body in numbered(10_000):
        channel.basic_publish("", queue, body)
    inbox = Inbox(channel, queue)
    inbox.wait(10_000)
    channel.basic_ack(inbox.tags[-1], multiple=True)
    channel.close()
    assert ready_count(connection.channel(), queue) == 0


def test_acks_that_come_after_the_timeout_are_no_error_but_only_once(
    own_broker: Broker, channel: Any, connection: Any, queue: str
) -> None:
    # RabbitMQ 4.0 closes the channel of a late consumer, and checks once a minute.
    late = connection.channel()
    cancelled: list[str] = []
    late.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    publish_all(channel, queue, numbered(2))
    inbox = Inbox(late, queue, arguments={"x-consumer-timeout": 100})
    inbox.wait(2)
    settle_down(late, lambda: cancelled == [inbox.consumer_tag])
    late.basic_ack(inbox.tags[0])
    late.basic_nack(inbox.tags[1], requeue=False)
    assert ready_count(late, queue) == 2
    late.basic_ack(inbox.tags[0])
    with channel_closed(406, f"PRECONDITION_FAILED - unknown delivery tag {inbox.tags[0]}"):
        ready_count(late, queue)
