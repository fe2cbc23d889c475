"""Direct reply-to with pika: requests and answers without a queue of one's own."""

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions

from tests.conformance.broker import (
    Inbox,
    channel_closed,
    numbered,
    publish_all,
    ready_count,
    settle_down,
    take,
)
from tests.conformance.options import publish

Connect = Callable[..., Any]

REPLY_TO = "amq.rabbitmq.reply-to"


def request(channel: Any, queue: str, body: bytes, exchange: str = "") -> None:
    """Ask through the pseudo-queue."""
    properties = pika.BasicProperties(reply_to=REPLY_TO, correlation_id=body.decode())
    channel.basic_publish(exchange, queue, body, properties)


def answer_one(channel: Any, queue: str, answer: bytes) -> str:
    """Take one request and answer it; the address that the answer went to."""
    settle_down(channel, lambda: ready_count(channel, queue) > 0)
    asked = take(channel, queue)
    channel.basic_ack(asked.delivery_tag)
    properties = pika.BasicProperties(correlation_id=asked.properties.correlation_id)
    channel.basic_publish("", asked.properties.reply_to, answer, properties)
    return str(asked.properties.reply_to)


def test_an_answer_finds_the_channel_that_asked(connect: Connect, channel: Any, queue: str) -> None:
    asking = connect().channel()
    inbox = Inbox(asking, REPLY_TO, auto_ack=True)
    request(asking, queue, b"question")
    address = answer_one(channel, queue, b"answer")
    [answer] = inbox.wait(1)
    assert address.startswith(f"{REPLY_TO}.")
    assert (answer.body, answer.properties.correlation_id) == (b"answer", "question")
    assert (answer.exchange, answer.routing_key, answer.redelivered) == ("", address, False)


def test_one_address_may_be_answered_many_times_in_order(
    connect: Connect, channel: Any, queue: str
) -> None:
    asking = connect().channel()
    inbox = Inbox(asking, REPLY_TO, auto_ack=True)
    request(asking, queue, b"question")
    address = answer_one(channel, queue, b"0")
    for body in numbered(100):
        channel.basic_publish("", address, body)
    inbox.wait(101)
    assert inbox.bodies == [b"0", *numbered(100)]


def test_each_channel_gets_its_own_answers(connect: Connect, channel: Any, queue: str) -> None:
    asking = connect()
    channels = [asking.channel() for _ in range(3)]
    inboxes = [Inbox(each, REPLY_TO, auto_ack=True) for each in channels]
    for number, each in enumerate(channels):
        request(each, queue, b"%d" % number)
    for _ in channels:
        settle_down(channel, lambda: ready_count(channel, queue) > 0)
        asked = take(channel, queue)
        channel.basic_ack(asked.delivery_tag)
        channel.basic_publish("", asked.properties.reply_to, asked.body)
    for number, inbox in enumerate(inboxes):
        inbox.wait(1)
        assert inbox.bodies == [b"%d" % number]


def test_a_request_may_go_through_any_exchange(connect: Connect, channel: Any, queue: str) -> None:
    channel.queue_bind(queue, "amq.direct", f"{queue}-service")
    asking = connect().channel()
    inbox = Inbox(asking, REPLY_TO, auto_ack=True)
    request(asking, f"{queue}-service", b"question", "amq.direct")
    answer_one(channel, queue, b"answer")
    inbox.wait(1)


def test_an_answer_is_confirmed(connect: Connect, channel: Any, queue: str) -> None:
    asking = connect().channel()
    inbox = Inbox(asking, REPLY_TO, auto_ack=True)
    request(asking, queue, b"question")
    channel.confirm_delivery()
    answer_one(channel, queue, b"answer")
    inbox.wait(1)


def test_a_mandatory_answer_that_arrives_is_not_returned(
    connect: Connect, channel: Any, queue: str
) -> None:
    asking = connect().channel()
    inbox = Inbox(asking, REPLY_TO, auto_ack=True)
    request(asking, queue, b"question")
    settle_down(channel, lambda: ready_count(channel, queue) > 0)
    address = take(channel, queue).properties.reply_to
    publish(channel, address, b"answer")  # UnroutableError, if it came back.
    inbox.wait(1)
    assert inbox.bodies == [b"answer"]


def test_an_answer_to_who_is_gone_comes_back_when_it_is_mandatory(
    connect: Connect, channel: Any, queue: str
) -> None:
    asking = connect()
    asking_channel = asking.channel()
    Inbox(asking_channel, REPLY_TO, auto_ack=True)
    request(asking_channel, queue, b"question")
    settle_down(channel, lambda: ready_count(channel, queue) > 0)
    address = take(channel, queue).properties.reply_to
    asking.close()
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _c, _m, _p, body: returned.append(body))
    channel.basic_publish("", address, b"too late", mandatory=True)
    settle_down(channel, lambda: returned == [b"too late"])


def test_a_passive_declare_of_the_address_tells_whether_somebody_waits(
    connect: Connect, channel: Any, queue: str
) -> None:
    asking = connect()
    asking_channel = asking.channel()
    Inbox(asking_channel, REPLY_TO, auto_ack=True)
    request(asking_channel, queue, b"question")
    settle_down(channel, lambda: ready_count(channel, queue) > 0)
    address = take(channel, queue).properties.reply_to
    told = channel.queue_declare(address, passive=True).method
    assert (told.queue, told.message_count, told.consumer_count) == (address, 0, 1)
    asking.close()
    with channel_closed(404, f"NOT_FOUND - no queue '{address}' in vhost '/'"):
        settle_down(channel, lambda: ready_count(channel, address) < 0)


def test_the_pseudo_queue_itself_is_always_there(channel: Any) -> None:
    told = channel.queue_declare(REPLY_TO, passive=True).method
    assert (told.queue, told.message_count) == (REPLY_TO, 0)


def test_answers_must_be_taken_without_acks(channel: Any) -> None:
    text = "PRECONDITION_FAILED - reply consumer cannot acknowledge"
    with channel_closed(406, text):
        Inbox(channel, REPLY_TO)


def test_a_channel_has_one_consumer_of_answers(channel: Any) -> None:
    Inbox(channel, REPLY_TO, auto_ack=True)
    with channel_closed(406, "PRECONDITION_FAILED - reply consumer already set"):
        Inbox(channel, REPLY_TO, auto_ack=True)


def test_after_a_cancel_another_consumer_of_answers_may_come(
    connection: Any, channel: Any, queue: str
) -> None:
    asking = connection.channel()
    asking.basic_cancel(Inbox(asking, REPLY_TO, auto_ack=True).consumer_tag)
    inbox = Inbox(asking, REPLY_TO, auto_ack=True)
    request(asking, queue, b"question")
    answer_one(channel, queue, b"answer")
    inbox.wait(1)


def test_asking_without_a_consumer_of_answers_is_refused(channel: Any, queue: str) -> None:
    request(channel, queue, b"question")
    with channel_closed(406, "PRECONDITION_FAILED - fast reply consumer does not exist"):
        ready_count(channel, queue)


def test_asking_after_the_cancel_is_refused(channel: Any, queue: str) -> None:
    channel.basic_cancel(Inbox(channel, REPLY_TO, auto_ack=True).consumer_tag)
    request(channel, queue, b"question")
    with channel_closed(406, "PRECONDITION_FAILED - fast reply consumer does not exist"):
        ready_count(channel, queue)


def test_nothing_can_be_got_from_the_pseudo_queue(channel: Any) -> None:
    with channel_closed(404, f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'"):
        channel.basic_get(REPLY_TO)


def test_an_address_of_nobody_is_no_queue(channel: Any) -> None:
    address = f"{REPLY_TO}.abcdef"
    with channel_closed(404, f"NOT_FOUND - no queue '{address}' in vhost '/'"):
        channel.queue_declare(address, passive=True)


def test_any_other_reply_to_is_left_as_it_is(channel: Any, queue: str) -> None:
    publish(channel, queue, b"1", reply_to="a.queue.of.mine")
    assert take(channel, queue).properties.reply_to == "a.queue.of.mine"


def test_a_large_answer_arrives_whole(connect: Connect, channel: Any, queue: str) -> None:
    asking = connect().channel()
    inbox = Inbox(asking, REPLY_TO, auto_ack=True)
    request(asking, queue, b"question")
    answer_one(channel, queue, b"x" * 1_000_000)
    [answer] = inbox.wait(1)
    assert answer.body == b"x" * 1_000_000


def test_the_queue_of_requests_may_be_shared_by_servers(
    connect: Connect, channel: Any, queue: str
) -> None:
    asking = connect().channel()
    inbox = Inbox(asking, REPLY_TO, auto_ack=True)
    for body in numbered(20):
        request(asking, queue, body)
    servers = [connect().channel() for _ in range(2)]
    for turn in range(20):
        answer_one(servers[turn % 2], queue, b"done")
    inbox.wait(20)
    asked = sorted(int(message.properties.correlation_id) for message in inbox.messages)
    assert asked == list(range(1, 21))
    publish_all(channel, queue, [b"the queue is as any other"])
    assert ready_count(channel, queue) == 1
