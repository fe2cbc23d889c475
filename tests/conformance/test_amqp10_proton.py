"""python-qpid-proton against the node, and against pika in both directions."""

from collections.abc import Callable, Iterator
from typing import Any

import pika
import proton
import pytest

from tests.conformance.broker import (
    PATIENCE_SECONDS,
    Broker,
    drain,
    numbered,
    publish_all,
    wait_until_ready,
)
from tests.conformance.proton10 import (
    ACCEPTED,
    NOT_FOUND,
    REJECTED,
    RELEASED,
    body_of,
    connect10,
    data_message,
    link_refused,
    outcome_of,
    take10,
)

LARGE: bytes = bytes(range(256)) * 2048


@pytest.fixture
def open10(own_broker: Broker, name: str) -> Iterator[Callable[..., Any]]:
    """Opens connections that are closed before `name` is cleaned up."""
    opened: list[Any] = []

    def open_one(**options: Any) -> Any:
        opened.append(connect10(own_broker, **options))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def client(open10: Callable[..., Any]) -> Any:
    return open10()


# Publishing


def test_a_message_is_accepted_and_comes_back_as_it_was(client: Any, queue: str) -> None:
    sender = client.create_sender(f"/queues/{queue}")
    sent = proton.Message(
        body={"a": [1, "b"]}, properties={"k": "v"}, durable=True, id="m1", subject="s", priority=7
    )
    assert outcome_of(sender, sent) == ACCEPTED
    receiver = client.create_receiver(f"/queues/{queue}", credit=1)
    came = take10(receiver, 1)[0]
    assert (came.body, came.properties, came.id, came.subject) == (
        sent.body,
        sent.properties,
        "m1",
        "s",
    )
    assert (came.durable, came.priority, came.first_acquirer, came.delivery_count) == (
        True,
        7,
        True,
        0,
    )
    assert came.annotations == {"x-exchange": "", "x-routing-key": queue}


def test_pika_gets_what_proton_publishes(client: Any, channel: Any, queue: str) -> None:
    sender = client.create_sender(f"/queues/{queue}")
    message = data_message(
        b"payload", properties={"k": "v"}, durable=True, id="m1", content_type="text/plain"
    )
    assert outcome_of(sender, message) == ACCEPTED
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (body, method.routing_key, method.exchange) == (b"payload", queue, "")
    assert (properties.message_id, properties.content_type) == ("m1", "text/plain")
    assert (properties.headers, properties.delivery_mode) == ({"k": "v"}, 2)


def test_proton_gets_what_pika_publishes(client: Any, channel: Any, queue: str) -> None:
    properties = pika.BasicProperties(headers={"k": "v", "x-a": 5}, message_id="m1", priority=3)
    channel.basic_publish("", queue, b"one", properties)
    channel.basic_publish("", queue, b"", properties)
    channel.basic_publish("", queue, LARGE, properties)
    receiver = client.create_receiver(f"/queues/{queue}", credit=3)
    messages = take10(receiver, 3)
    assert [body_of(each) for each in messages] == [b"one", b"", LARGE]
    for came in messages:
        assert (came.id, came.properties, came.priority) == ("m1", {"k": "v"}, 3)
        assert came.annotations == {"x-a": 5, "x-exchange": "", "x-routing-key": queue}


def test_a_large_message_goes_in_many_frames_both_ways(
    open10: Callable[..., Any], queue: str
) -> None:
    client = open10(max_frame_size=512)
    sender = client.create_sender(f"/queues/{queue}")
    assert outcome_of(sender, data_message(LARGE, durable=True)) == ACCEPTED
    receiver = client.create_receiver(f"/queues/{queue}", credit=1)
    assert body_of(take10(receiver, 1)[0]) == LARGE


def test_an_exchange_is_a_target_and_what_it_cannot_route_is_released(
    client: Any, channel: Any, queue: str, name: str
) -> None:
    channel.exchange_declare(name, "direct")
    channel.queue_bind(queue, name, "a/b")
    sender = client.create_sender(f"/exchanges/{name}/a%2Fb")
    assert outcome_of(sender, data_message(b"1")) == ACCEPTED
    nowhere = client.create_sender(f"/exchanges/{name}/other")
    assert outcome_of(nowhere, data_message(b"2")) == RELEASED
    assert drain(channel, queue) == [b"1"]


def test_a_headers_exchange_sees_application_properties(
    client: Any, channel: Any, queue: str, name: str
) -> None:
    channel.exchange_declare(name, "headers")
    channel.queue_bind(queue, name, "", {"x-match": "all", "colour": "red"})
    sender = client.create_sender(f"/exchanges/{name}")
    assert outcome_of(sender, data_message(b"1", properties={"colour": "red"})) == ACCEPTED
    assert outcome_of(sender, data_message(b"2", properties={"colour": "blue"})) == RELEASED
    assert drain(channel, queue) == [b"1"]


def test_the_anonymous_terminus_routes_by_the_address_of_each_message(
    client: Any, channel: Any, queue: str
) -> None:
    sender = client.create_sender(None)
    assert outcome_of(sender, data_message(b"1", address=f"/queues/{queue}")) == ACCEPTED
    assert outcome_of(sender, data_message(b"2", address="/queues/t-absent")) == RELEASED
    assert outcome_of(sender, data_message(b"3", address="nonsense")) == REJECTED
    assert outcome_of(sender, data_message(b"4", address="/exchanges/t-none/x")) == REJECTED
    assert outcome_of(sender, data_message(b"5", address=f"/queues/{queue}")) == ACCEPTED
    assert drain(channel, queue) == [b"1", b"5"]


def test_a_full_queue_rejects_and_says_which(client: Any, channel: Any, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    sender = client.create_sender(f"/queues/{name}")
    assert outcome_of(sender, data_message(b"1")) == ACCEPTED
    assert outcome_of(sender, data_message(b"2")) == REJECTED
    assert drain(channel, name) == [b"1"]


def test_the_annotation_x_cc_names_more_queues(client: Any, channel: Any, queue: str) -> None:
    other = channel.queue_declare("", exclusive=True).method.queue
    sender = client.create_sender(f"/queues/{queue}")
    message = data_message(b"1")
    message.annotations = {proton.symbol("x-cc"): [other]}
    assert outcome_of(sender, message) == ACCEPTED
    assert (drain(channel, queue), drain(channel, other)) == ([b"1"], [b"1"])


def test_another_users_name_is_refused(client: Any, queue: str) -> None:
    sender = client.create_sender(f"/queues/{queue}")
    assert outcome_of(sender, data_message(b"1", user_id=b"guest")) == ACCEPTED
    with link_refused("amqp:unauthorized-access"):
        sender.send(data_message(b"2", user_id=b"other"))


def test_a_message_that_is_too_large_ends_the_link(client: Any, queue: str) -> None:
    sender = client.create_sender(f"/queues/{queue}")
    with link_refused("amqp:link:message-size-exceeded"):
        sender.send(data_message(bytes(17 * 1024 * 1024)))


# Attaching


@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("/queues/t-absent", NOT_FOUND),
        ("/exchanges/t-absent/x", NOT_FOUND),
        ("/exchanges//x", "amqp:invalid-field"),
        ("/exchanges/amq.default/x", "amqp:invalid-field"),
        ("queue", "amqp:invalid-field"),
        ("/queues/%zz", "amqp:invalid-field"),
        ("/queues/" + "n" * 256, "amqp:invalid-field"),
    ],
)
def test_a_target_that_is_not_there_or_malformed_is_refused(
    client: Any, address: str, condition: str
) -> None:
    with link_refused(condition):
        client.create_sender(address)


def test_a_source_that_is_not_there_or_malformed_is_refused(client: Any) -> None:
    with link_refused(NOT_FOUND):
        client.create_receiver("/queues/t-absent")
    with link_refused("amqp:invalid-field"):
        client.create_receiver("/nowhere/x")


def test_an_exclusive_queue_of_another_connection_is_locked(client: Any, channel: Any) -> None:
    mine = channel.queue_declare("", exclusive=True).method.queue
    with link_refused("amqp:resource-locked"):
        client.create_receiver(f"/queues/{mine}")


def test_a_queue_with_an_exclusive_consumer_is_locked(
    client: Any, channel: Any, queue: str
) -> None:
    channel.basic_consume(queue, lambda *_: None, exclusive=True)
    with link_refused("amqp:resource-locked"):
        client.create_receiver(f"/queues/{queue}")


def test_a_wrong_password_is_refused(own_broker: Broker) -> None:
    with pytest.raises(proton.ConnectionException):
        connect10(own_broker, user="absent")


# Consuming


def test_outcomes_say_what_becomes_of_a_message(
    client: Any, channel: Any, queue: str, name: str
) -> None:
    publish_all(channel, queue, numbered(4))
    seen = []
    for settle in ("release", "accept", "reject"):
        receiver = client.create_receiver(f"/queues/{queue}", credit=1)
        message = receiver.receive()
        seen.append((body_of(message), message.first_acquirer))
        getattr(receiver, settle)()
        receiver.close()  # What proton sends first of an outcome and new credit is not said.
    assert seen[:2] == [(b"1", True), (b"1", False)]
    assert seen[2][0] == b"2"  # It may have been here before: proton grants credit by itself.
    assert drain(channel, queue) == [b"3", b"4"]


def test_a_rejected_message_is_dead_lettered(client: Any, channel: Any, name: str) -> None:
    dead = channel.queue_declare("", exclusive=True).method.queue
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(name, arguments=arguments)
    sender = client.create_sender(f"/queues/{name}")
    assert outcome_of(sender, data_message(b"1")) == ACCEPTED
    receiver = client.create_receiver(f"/queues/{name}", credit=1)
    receiver.receive()
    receiver.reject()
    receiver.close()  # proton sends nothing before it is asked something
    wait_until_ready(channel, dead, 1)
    assert drain(channel, dead) == [b"1"]


def test_a_quorum_queue_counts_failures(client: Any, channel: Any, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    sender = client.create_sender(f"/queues/{name}")
    assert outcome_of(sender, data_message(b"1", durable=True)) == ACCEPTED
    counts = []
    for _ in range(3):
        receiver = client.create_receiver(f"/queues/{name}", credit=1)
        message = receiver.receive()
        counts.append((message.delivery_count, message.first_acquirer))
        receiver.fetcher.unsettled[0].local.failed = True
        receiver.release(delivered=True)
        receiver.close()
    assert counts == [(0, True), (1, False), (2, False)]


def test_detach_gives_back_what_the_client_holds(client: Any, channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(5))
    receiver = client.create_receiver(f"/queues/{queue}", credit=3)
    assert body_of(receiver.receive()) == b"1"
    receiver.close()
    wait_until_ready(channel, queue, 5)
    assert drain(channel, queue) == numbered(5)


def test_a_lost_connection_gives_back_what_the_client_holds(
    open10: Callable[..., Any], channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(5))
    client = open10()
    receiver = client.create_receiver(f"/queues/{queue}", credit=5)
    receiver.receive()
    client.close()
    wait_until_ready(channel, queue, 5)


def test_a_queue_that_is_deleted_detaches_its_consumers(
    client: Any, channel: Any, queue: str
) -> None:
    receiver = client.create_receiver(f"/queues/{queue}", credit=1)
    channel.queue_delete(queue)
    with link_refused("amqp:resource-deleted"):
        receiver.receive()


def test_many_messages_pass_in_order(client: Any, channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(600))
    receiver = client.create_receiver(f"/queues/{queue}", credit=1000)
    assert [body_of(each) for each in take10(receiver, 600)] == numbered(600)


def test_the_consumer_with_the_higher_priority_is_served_first(
    client: Any, channel: Any, queue: str
) -> None:
    low = client.create_receiver(f"/queues/{queue}", credit=5, name="low")
    high = client.create_receiver(f"/queues/{queue}", credit=5, name="high", options=Priority(9))
    publish_all(channel, queue, numbered(3))
    assert [body_of(each) for each in take10(high, 3)] == numbered(3)
    assert not low.fetcher.has_message


class Priority:
    """A link option of proton: the priority of a consumer."""

    def __init__(self, priority: int) -> None:
        self.priority = priority

    def apply(self, link: Any) -> None:
        link.properties = {proton.symbol("rabbitmq:priority"): proton.int32(self.priority)}

    def test(self, link: Any) -> bool:
        return bool(link.is_receiver)


def test_a_receiver_may_have_a_queue_made_for_it_and_others_reply_there(
    open10: Callable[..., Any],
) -> None:
    client, other = open10(), open10()
    receiver = client.create_receiver(None, credit=1, dynamic=True)
    address = receiver.link.remote_source.address
    sender = other.create_sender(address)
    assert outcome_of(sender, data_message(b"reply")) == ACCEPTED
    assert body_of(receiver.receive(timeout=PATIENCE_SECONDS)) == b"reply"
    receiver.accept()
