"""Classic queues used through every node: any node serves any client."""

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any
from uuid import uuid4

import pika
import pika.exceptions
import pytest

from tests.conformance.broker import (
    Inbox,
    channel_closed,
    drain,
    numbered,
    publish_all,
    settle_down,
    take,
    wait_until_ready,
)
from warren.testing import ClusterOfNodes

REPLY_TO = "amq.rabbitmq.reply-to"
Open = Callable[[int], Any]


@pytest.fixture
def on(shared_cluster: ClusterOfNodes) -> Iterator[Open]:
    """A channel on the node of that number."""
    opened: list[Any] = []

    def open_one(number: int) -> Any:
        parameters = pika.URLParameters(shared_cluster.node(number).url)
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1].channel()

    yield open_one
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def name(shared_cluster: ClusterOfNodes) -> str:
    return f"t-{uuid4().hex[:12]}"


def declared(channel: Any, queue: str, **options: Any) -> str:
    """A durable queue at home on the channel's node."""
    channel.queue_declare(queue, durable=True, **options)
    return queue


def counts(channel: Any, queue: str) -> tuple[int, int]:
    """Messages that are ready, and consumers, as a passive declare tells them."""
    method = channel.queue_declare(queue, passive=True).method
    return method.message_count, method.consumer_count


def test_messages_published_on_one_node_are_consumed_on_another(on: Open, name: str) -> None:
    declared(on(1), name)
    publish_all(on(2), name, numbered(300), persistent=True)
    inbox = Inbox(on(3), name)
    found = inbox.wait(300)
    assert [each.body for each in found] == numbered(300)
    assert not any(each.redelivered for each in found)
    inbox.channel.basic_ack(found[-1].delivery_tag, multiple=True)
    settle_down(on(2), lambda: counts(on(2), name) == (0, 1))


def test_large_messages_come_whole(on: Open, name: str) -> None:
    bodies = [bytes([number]) * 700_000 for number in range(12)]
    declared(on(1), name)
    publish_all(on(2), name, bodies)
    assert drain(on(3), name) == bodies


def test_what_is_requeued_on_another_node_comes_again_and_is_flagged(on: Open, name: str) -> None:
    home, away = on(1), on(2)
    declared(home, name)
    publish_all(home, name, [b"once"])
    first = take(away, name)
    assert (first.body, first.redelivered) == (b"once", False)
    away.basic_nack(first.delivery_tag, requeue=True)
    wait_until_ready(home, name, 1)
    again = take(home, name)
    assert (again.body, again.redelivered) == (b"once", True)
    home.basic_reject(again.delivery_tag, requeue=False)
    settle_down(away, lambda: counts(away, name) == (0, 0))


def test_what_a_connection_held_on_another_node_is_ready_when_it_ends(on: Open, name: str) -> None:
    home, away = on(1), on(2)
    declared(home, name)
    publish_all(home, name, [b"held"])
    take(away, name)
    away.connection.close()
    wait_until_ready(home, name, 1)
    assert take(home, name).redelivered


def test_a_consumer_on_another_node_holds_no_more_than_its_prefetch(on: Open, name: str) -> None:
    home, away = on(1), on(2)
    declared(home, name)
    away.basic_qos(prefetch_count=1)
    inbox = Inbox(away, name)
    publish_all(home, name, numbered(3))
    for number in range(3):
        found = inbox.wait(number + 1)
        assert counts(home, name)[0] == 2 - number
        away.basic_ack(found[number].delivery_tag)


def test_purging_and_deleting_tell_how_many_messages_went(on: Open, name: str) -> None:
    home, away = on(1), on(2)
    declared(home, name)
    publish_all(away, name, numbered(7))
    assert counts(away, name) == (7, 0)
    assert away.queue_purge(name).method.message_count == 7
    publish_all(home, name, numbered(3))
    assert away.queue_delete(name).method.message_count == 3
    with channel_closed(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        home.queue_declare(name, passive=True)


def test_a_queue_in_use_elsewhere_is_not_deleted_if_unused(on: Open, name: str) -> None:
    declared(on(1), name)
    Inbox(on(2), name)
    text = f"PRECONDITION_FAILED - queue '{name}' in vhost '/' in use"
    with channel_closed(406, text):
        on(3).queue_delete(name, if_unused=True)


def test_a_fanout_reaches_queues_of_all_nodes(on: Open, name: str) -> None:
    on(1).exchange_declare(name, "fanout")
    queues = [declared(on(number), f"{name}-{number}") for number in (1, 2, 3)]
    for queue in queues:
        on(2).queue_bind(queue, name)
    channel = on(3)
    channel.confirm_delivery()
    for body in numbered(20):
        channel.basic_publish(name, "", body, mandatory=True)
    for queue in queues:
        assert drain(on(1), queue) == numbered(20)


def test_dead_letters_go_to_a_queue_of_a_third_node(on: Open, name: str) -> None:
    dead = declared(on(3), f"{name}-dead")
    arguments = {
        "x-message-ttl": 100,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    declared(on(1), name, arguments=arguments)
    publish_all(on(2), name, [b"late"])
    channel = on(2)
    wait_until_ready(channel, dead, 1)
    found = take(channel, dead)
    assert found.body == b"late"
    assert found.properties.headers["x-death"][0]["reason"] == "expired"


def test_an_answer_finds_its_way_to_another_node(on: Open, name: str) -> None:
    asking, answering = on(1), on(2)
    declared(answering, name)
    inbox = Inbox(asking, REPLY_TO, auto_ack=True)
    properties = pika.BasicProperties(reply_to=REPLY_TO, correlation_id="7")
    asking.basic_publish("", name, b"question", properties)
    wait_until_ready(answering, name, 1)
    asked = take(answering, name)
    address = asked.properties.reply_to
    assert answering.queue_declare(address, passive=True).method.consumer_count == 1
    answering.confirm_delivery()
    answering.basic_publish("", address, b"answer")
    [answer] = inbox.wait(1)
    assert (answer.body, answer.routing_key) == (b"answer", address)
    asking.connection.close()
    with channel_closed(404, f"NOT_FOUND - no queue '{address}' in vhost '/'"):
        answering.queue_declare(address, passive=True)


def test_an_auto_delete_queue_goes_with_its_last_consumer_wherever_that_is(
    on: Open, name: str
) -> None:
    home, away = on(1), on(2)
    home.queue_declare(name, durable=True, auto_delete=True)
    inbox = Inbox(away, name)
    away.basic_cancel(inbox.consumer_tag)
    deadline_s = monotonic() + 60  # The delete is committed behind the answer to the cancel.
    with channel_closed(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        while monotonic() < deadline_s:
            home.queue_declare(name, passive=True)


def test_an_exclusive_queue_is_locked_on_all_nodes_and_goes_with_its_connection(
    on: Open, name: str
) -> None:
    owner = on(1)
    owner.queue_declare(name, exclusive=True)
    on(2).basic_publish("", name, b"for the owner")
    wait_until_ready(owner, name, 1)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        on(2).queue_declare(name, passive=True)
    assert caught.value.reply_code == 405
    owner.connection.close()
    with channel_closed(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        on(3).queue_declare(name, passive=True)


def test_a_single_active_consumer_is_followed_by_one_on_another_node(on: Open, name: str) -> None:
    declared(on(1), name, arguments={"x-single-active-consumer": True})
    first, second = Inbox(on(2), name), Inbox(on(3), name)
    publish_all(on(1), name, [b"a"])
    assert first.wait(1)[0].body == b"a"
    first.channel.connection.close()
    assert second.wait(1)[0].body == b"a"


def test_a_consumer_on_another_node_is_cancelled_when_the_queue_is_deleted(
    on: Open, name: str
) -> None:
    declared(on(1), name)
    away = on(2)
    cancelled: list[Any] = []
    away.add_on_cancel_callback(cancelled.append)
    Inbox(away, name)
    on(3).queue_delete(name)
    settle_down(away, lambda: bool(cancelled))
