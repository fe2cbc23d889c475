"""Quorum queues on one node with pika: what they refuse, how they count tries."""

from collections.abc import Callable, Iterator
from typing import Any

import pika
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
from tests.conformance.options import (
    declare,
    exclusive_queue,
    fields,
    onward,
    publish,
)
from warren.testing import Node

Connect = Callable[..., Any]

UNLIMITED_PREFETCH = 2_000
QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture
def quorum(channel: Any, name: str) -> str:
    """A quorum queue of this test."""
    return declare(channel, name, "quorum")


def tries(message: Any) -> tuple[Any, ...]:
    """The headers that count: failed deliveries, deliveries."""
    return fields(message.properties.headers or {}, "x-delivery-count", "x-acquired-count")


def take_soon(channel: Any, queue: str) -> Any:
    wait_until_ready(channel, queue, 1)
    return take(channel, queue)


@pytest.mark.parametrize(
    ("attributes", "property_name"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
    ],
)
def test_a_quorum_queue_must_be_durable_and_of_nobody(
    channel: Any, name: str, attributes: dict[str, bool], property_name: str
) -> None:
    text = f"invalid property '{property_name}' for queue '{name}' in vhost '/'"
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        channel.queue_declare(name, arguments=QUORUM, **attributes)


def test_a_quorum_queue_may_go_with_its_last_consumer(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # RabbitMQ: invalid property 'auto-delete'.
    channel.queue_declare(name, durable=True, auto_delete=True, arguments=QUORUM)
    channel.basic_cancel(Inbox(channel, name).consumer_tag)
    with channel_closed(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        settle_down(channel, lambda: ready_count(channel, name) < 0)


def test_a_quorum_queue_needs_a_name(channel: Any) -> None:
    text = "Cannot declare a server-named queue for type rabbit_quorum_queue"
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        channel.queue_declare("", durable=True, arguments=QUORUM)


@pytest.mark.parametrize(
    ("key", "value"),
    [("x-max-priority", 5), ("x-queue-mode", "lazy"), ("x-queue-version", 2), ("x-max-age", "1D")],
)
def test_arguments_of_other_types_are_refused(
    channel: Any, name: str, key: str, value: object
) -> None:
    text = f"invalid arg '{key}' for queue '{name}' in vhost '/' of queue type rabbit_quorum_queue"
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        declare(channel, name, "quorum", {key: value})


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-queue-leader-locator", "nope", "invalid_queue_locator_arg"),
    ],
)
def test_a_bad_argument_names_itself_and_the_reason(
    channel: Any, name: str, key: str, value: object, reason: str
) -> None:
    text = f"invalid arg '{key}' for queue '{name}' in vhost '/': {reason}"
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        declare(channel, name, "quorum", {key: value})


def test_arguments_of_quorum_queues_are_refused_by_classic_ones(channel: Any, name: str) -> None:
    text = f"invalid arg 'x-delivery-limit' for queue '{name}' in vhost '/'"
    with channel_closed(406, f"PRECONDITION_FAILED - {text} of queue type rabbit_classic_queue"):
        declare(channel, name, "classic", {"x-delivery-limit": 3})


def test_a_type_that_is_unknown_is_refused(channel: Any, name: str) -> None:
    text = f"invalid arg 'x-queue-type' for queue '{name}' in vhost '/'"
    with channel_closed(406, f"PRECONDITION_FAILED - {text}: \"unsupported queue type 'nope'\""):
        declare(channel, name, "nope")


def test_the_type_must_be_the_same_when_the_queue_is_declared_again(
    channel: Any, quorum: str
) -> None:
    text = f"inequivalent arg 'x-queue-type' for queue '{quorum}' in vhost '/'"
    with channel_closed(
        406, f"PRECONDITION_FAILED - {text}: received 'classic' but current is 'quorum'"
    ):
        channel.queue_declare(quorum, durable=True)


def test_messages_come_in_order_and_are_settled(channel: Any, quorum: str) -> None:
    publish_all(channel, quorum, numbered(100), persistent=True)
    inbox = Inbox(channel, quorum)
    inbox.wait(100)
    assert inbox.bodies == numbered(100)
    channel.basic_ack(inbox.tags[-1], multiple=True)
    channel.close()
    assert inbox.messages[0].redelivered is False


def test_what_is_settled_does_not_come_back(channel: Any, connection: Any, quorum: str) -> None:
    publish_all(channel, quorum, numbered(3))
    inbox = Inbox(channel, quorum)
    inbox.wait(3)
    channel.basic_ack(inbox.tags[1])
    channel.close()
    other = connection.channel()
    wait_until_ready(other, quorum, 2)
    assert drain(other, quorum) == [b"1", b"3"]


def test_counts_gets_and_purges(channel: Any, quorum: str) -> None:
    publish_all(channel, quorum, numbered(5))
    assert ready_count(channel, quorum) == 5
    assert channel.basic_get(quorum)[0].message_count == 4
    assert channel.queue_purge(quorum).method.message_count == 4
    assert channel.basic_get(quorum) == (None, None, None)


def test_a_delete_counts_what_was_in_the_queue(channel: Any, quorum: str) -> None:
    publish_all(channel, quorum, numbered(4))
    assert channel.queue_delete(quorum).method.message_count == 4
    with channel_closed(404, f"NOT_FOUND - no queue '{quorum}' in vhost '/'"):
        ready_count(channel, quorum)


def test_delete_if_empty_and_if_unused_are_judged(
    own_broker: Broker, channel: Any, connection: Any, quorum: str
) -> None:
    # RabbitMQ: 540, not supported by quorum queues.
    publish(channel, quorum, b"1")
    with channel_closed(406, f"PRECONDITION_FAILED - queue '{quorum}' in vhost '/' not empty"):
        connection.channel().queue_delete(quorum, if_empty=True)
    inbox = Inbox(channel, quorum, auto_ack=True)
    inbox.wait(1)
    with channel_closed(406, f"PRECONDITION_FAILED - queue '{quorum}' in vhost '/' in use"):
        connection.channel().queue_delete(quorum, if_unused=True)
    channel.basic_cancel(inbox.consumer_tag)
    channel.queue_delete(quorum, if_empty=True, if_unused=True)


def test_deleting_the_queue_cancels_its_consumers(
    channel: Any, connect: Connect, quorum: str
) -> None:
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    inbox = Inbox(channel, quorum)
    connect().channel().queue_delete(quorum)
    settle_down(channel, lambda: cancelled == [inbox.consumer_tag])


def test_a_prefetch_holds(channel: Any, quorum: str) -> None:
    publish_all(channel, quorum, numbered(10))
    channel.basic_qos(prefetch_count=3)
    inbox = Inbox(channel, quorum)
    inbox.wait(3)
    wait_until_ready(channel, quorum, 7)
    channel.basic_ack(inbox.tags[1], multiple=True)
    inbox.wait(5)
    wait_until_ready(channel, quorum, 5)
    assert inbox.bodies == numbered(5)


def test_no_prefetch_means_two_thousand(channel: Any, connection: Any, quorum: str) -> None:
    publisher = connection.channel()
    for body in numbered(UNLIMITED_PREFETCH + 10):
        publisher.basic_publish("", quorum, body)
    wait_until_ready(publisher, quorum, UNLIMITED_PREFETCH + 10)
    inbox = Inbox(channel, quorum)
    inbox.wait(UNLIMITED_PREFETCH)
    wait_until_ready(publisher, quorum, 10)
    assert len(inbox.messages) == UNLIMITED_PREFETCH
    channel.basic_ack(inbox.tags[-1], multiple=True)
    inbox.wait(UNLIMITED_PREFETCH + 10)
    assert inbox.bodies == numbered(UNLIMITED_PREFETCH + 10)


def test_a_consumer_without_acks_has_no_bound(channel: Any, connection: Any, quorum: str) -> None:
    publisher = connection.channel()
    for body in numbered(UNLIMITED_PREFETCH + 500):
        publisher.basic_publish("", quorum, body)
    inbox = Inbox(channel, quorum, auto_ack=True)
    inbox.wait(UNLIMITED_PREFETCH + 500)
    assert inbox.bodies == numbered(UNLIMITED_PREFETCH + 500)
    assert ready_count(publisher, quorum) == 0


def test_a_prefetch_of_the_channel_cannot_span_a_quorum_queue(channel: Any, quorum: str) -> None:
    channel.basic_qos(prefetch_count=4, global_qos=True)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        Inbox(channel, quorum)
    text = f"NOT_IMPLEMENTED - queue '{quorum}' in vhost '/' does not support global qos"
    assert (caught.value.reply_code, caught.value.reply_text) == (540, text)


def test_a_prefetch_of_the_channel_spans_a_quorum_queue_if_the_node_is_told_so(name: str) -> None:
    # Ours: RabbitMQ has no such setting.
    with Node(name="spanning", settings={"quorum_queue.global_qos": "true"}) as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.url))
        channel = connection.channel()
        declare(channel, name, "quorum")
        publish_all(channel, name, numbered(10))
        channel.basic_qos(prefetch_count=4, global_qos=True)
        first, second = Inbox(channel, name), Inbox(channel, name)
        settle_down(channel, lambda: len(first.messages) + len(second.messages) == 4)
        wait_until_ready(channel, name, 6)
        channel.basic_ack(0, multiple=True)
        settle_down(channel, lambda: len(first.messages) + len(second.messages) == 8)
        wait_until_ready(channel, name, 2)
        connection.close()


def test_a_quorum_queue_serves_its_consumers_in_turn(
    channel: Any, connection: Any, quorum: str
) -> None:
    inboxes = [Inbox(connection.channel(), quorum) for _ in range(3)]
    for body in numbered(30):
        publish(channel, quorum, body)
    for inbox in inboxes:
        inbox.wait(10)
    assert [len(inbox.messages) for inbox in inboxes] == [10, 10, 10]


def test_a_first_delivery_has_no_count_and_each_rejection_counts(channel: Any, quorum: str) -> None:
    publish(channel, quorum, b"1")
    for count in (None, 1, 2, 3):
        message = take_soon(channel, quorum)
        assert tries(message)[0] == count
        assert message.redelivered == (count is not None)
        channel.basic_reject(message.delivery_tag, requeue=True)


def test_a_lost_channel_counts_as_a_failed_delivery(connection: Any, quorum: str) -> None:
    publish(connection.channel(), quorum, b"1")
    for count in (None, 1, 2):
        channel = connection.channel()
        message = take_soon(channel, quorum)
        assert (tries(message)[0], message.redelivered) == (count, count is not None)
        channel.close()


def test_a_nack_counts_as_a_delivery_but_not_as_a_failed_one(
    own_broker: Broker, channel: Any, quorum: str
) -> None:
    # So does RabbitMQ since 4.3; 4.0 counts a nack like a rejection and has one count only.
    publish(channel, quorum, b"1")
    first = take_soon(channel, quorum)
    assert tries(first) == (None, None)
    channel.basic_nack(first.delivery_tag, requeue=True)
    for delivered in (1, 2):
        message = take_soon(channel, quorum)
        assert tries(message) in ((None, delivered), (0, delivered))
        channel.basic_nack(message.delivery_tag, requeue=True)
    message = take_soon(channel, quorum)
    channel.basic_reject(message.delivery_tag, requeue=True)
    assert tries(take_soon(channel, quorum)) == (1, 4)


def test_the_headers_of_the_publisher_stay_beside_the_count(channel: Any, quorum: str) -> None:
    publish(channel, quorum, b"1", headers={"mine": "x"})
    channel.basic_reject(take(channel, quorum).delivery_tag, requeue=True)
    headers = take_soon(channel, quorum).properties.headers
    assert fields(headers, "mine", "x-delivery-count") == ("x", 1)


def delivery_ids(broker: Broker, queue: str, **arguments: object) -> list[tuple[bytes, object]]:
    """Bodies and ids of two deliveries, which go back to the queue with their connection."""
    with broker.connect() as connection:
        messages = Inbox(connection.channel(), queue, arguments=arguments).wait(2)
        return [
            (each.body, (each.properties.headers or {}).get("x-delivery-id"))
            for each in sorted(messages, key=lambda each: each.body)
        ]


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_deliveries_have_the_id_of_their_message_if_a_consumer_asks(
    own_broker: Broker, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    publish(channel, name, b"1", headers={"mine": "x"})
    publish(channel, name, b"2")
    asked = {"x-delivery-ids": True}
    first, again = delivery_ids(own_broker, name, **asked), delivery_ids(own_broker, name, **asked)
    assert [body for body, _ in first] == [b"1", b"2"]
    assert again == first
    ids = {each for _, each in first}
    assert ids == {None} if kind == "classic" else len(ids) == 2
    assert {each for _, each in delivery_ids(own_broker, name)} == {None}


def test_a_requeue_by_nack_counts_towards_the_delivery_limit_where_configured(
    own_broker: Broker, channel: Any, name: str
) -> None:
    graves = exclusive_queue(channel)
    counts = {"x-delivery-limit": 2, "x-delivery-limit-counts": "returned"}
    declare(channel, name, "quorum", {**counts, **onward(graves)})
    publish(channel, name, b"1")
    for _ in range(3):
        channel.basic_nack(take_soon(channel, name).delivery_tag, requeue=True)
    [death] = take_soon(channel, graves).properties.headers["x-death"]
    assert death["reason"] == "delivery_limit"


@pytest.mark.parametrize(("limit", "deliveries"), [(0, 1), (2, 3), (None, 21)])
def test_a_message_over_the_delivery_limit_is_dead_lettered(
    channel: Any, name: str, limit: int | None, deliveries: int
) -> None:
    graves = exclusive_queue(channel)
    arguments = {} if limit is None else {"x-delivery-limit": limit}
    declare(channel, name, "quorum", {**arguments, **onward(graves)})
    publish(channel, name, b"1", headers={"mine": "x"})
    for _ in range(deliveries):
        channel.basic_reject(take_soon(channel, name).delivery_tag, requeue=True)
    dead = take_soon(channel, graves)
    assert ready_count(channel, name) == 0
    [death] = dead.properties.headers["x-death"]
    assert fields(death, "queue", "reason", "count") == (name, "delivery_limit", 1)
    assert fields(dead.properties.headers, "mine", "x-delivery-count") == ("x", None)


def test_a_message_over_the_delivery_limit_is_dropped_when_nobody_wants_the_dead(
    channel: Any, name: str
) -> None:
    declare(channel, name, "quorum", {"x-delivery-limit": 1})
    publish(channel, name, b"1")
    for _ in range(2):
        channel.basic_reject(take_soon(channel, name).delivery_tag, requeue=True)
    publish(channel, name, b"2")
    wait_until_ready(channel, name, 1)
    assert drain(channel, name) == [b"2"]


def test_a_delivery_limit_below_0_is_none(channel: Any, name: str) -> None:
    declare(channel, name, "quorum", {"x-delivery-limit": -1})
    publish(channel, name, b"1")
    for _ in range(25):
        channel.basic_reject(take_soon(channel, name).delivery_tag, requeue=True)
    assert take_soon(channel, name).body == b"1"


def test_a_lost_consumer_brings_a_message_over_its_limit(
    channel: Any, connection: Any, name: str
) -> None:
    graves = exclusive_queue(channel)
    declare(channel, name, "quorum", {"x-delivery-limit": 1, **onward(graves)})
    publish(channel, name, b"1")
    for _ in range(2):
        consuming = connection.channel()
        Inbox(consuming, name).wait(1)
        consuming.close()
    assert take_soon(channel, graves).body == b"1"


def test_what_is_under_way_to_a_consumer_that_is_cancelled_goes_back(
    channel: Any, connection: Any, name: str
) -> None:
    """A message that was committed between the cancel and the queue's answer to it stayed with the
    consumer until the channel closed."""
    quorum = declare(channel, name, "quorum", {"x-delivery-limit": -1})
    publisher, rounds = connection.channel(), 200
    consumer = connection.channel()
    for number in range(rounds):
        publisher.basic_publish("", quorum, b"%d" % number)
        tag = consumer.basic_consume(quorum, lambda *_: None)
        consumer.basic_cancel(tag)  # pika rejects what it has not given to the callback.
    wait_until_ready(channel, quorum, rounds)
    assert sorted(map(int, drain(channel, quorum))) == list(range(rounds))


def test_requeued_messages_return_to_their_places(
    own_broker: Broker, channel: Any, quorum: str
) -> None:
    # RabbitMQ serves what was returned before all else, in the order of return.
    publish_all(channel, quorum, numbered(6))
    tags = [take(channel, quorum).delivery_tag for _ in range(4)]
    for tag in (tags[2], tags[0], tags[1]):
        channel.basic_reject(tag, requeue=True)
    wait_until_ready(channel, quorum, 5)
    assert drain(channel, quorum) == [b"1", b"2", b"3", b"5", b"6"]


def test_an_unknown_delivery_tag_closes_the_channel(channel: Any, quorum: str) -> None:
    publish(channel, quorum, b"1")
    take(channel, quorum)
    channel.basic_ack(2)
    with channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 2"):
        ready_count(channel, quorum)


def test_one_publish_to_both_types_of_queue_is_confirmed_once(channel: Any, quorum: str) -> None:
    classic = exclusive_queue(channel)
    for queue in (quorum, classic):
        channel.queue_bind(queue, "amq.direct", quorum)
    channel.confirm_delivery()
    for body in numbered(50):
        channel.basic_publish("amq.direct", quorum, body, mandatory=True)
    assert drain(channel, quorum) == drain(channel, classic) == numbered(50)


@pytest.fixture
def node() -> Iterator[Node]:
    """A node of this test, to be killed."""
    with Node(name="quorum") as started:
        yield started


@pytest.mark.timeout(240)
def test_what_a_quorum_queue_confirmed_survives_a_kill_whatever_its_delivery_mode(
    own_broker: Broker, node: Node
) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    declare(channel, "q", "quorum")
    publish_all(channel, "q", numbered(50), persistent=False)
    channel.basic_ack(take(channel, "q").delivery_tag)
    rejected = take(channel, "q")
    channel.basic_reject(rejected.delivery_tag, requeue=True)
    publish(channel, "q", b"51")
    wait_until_ready(channel, "q", 50)
    node.kill9()
    node.start()
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    wait_until_ready(channel, "q", 50)
    first = take(channel, "q")
    assert (first.body, tries(first)[0], first.redelivered) == (b"2", 1, True)
    assert drain(channel, "q") == numbered(49, first=3)
    connection.close()


def commit_index(broker: Broker, queue: str) -> int:
    assert broker.node is not None
    (row,) = broker.node.api("GET", f"/api/queues/quorum/%2F/{queue}/status")
    return int(row["Commit Index"])


@pytest.mark.parametrize("passive", [False, True])
def test_a_redeclare_of_a_quorum_queue_writes_no_entry(
    own_broker: Broker, channel: Any, quorum: str, passive: bool
) -> None:
    publish_all(channel, quorum, numbered(3))
    before = commit_index(own_broker, quorum)
    arguments = None if passive else QUORUM
    for _ in range(5):
        declared = channel.queue_declare(quorum, passive, durable=True, arguments=arguments)
        assert declared.method.message_count == 3
    assert commit_index(own_broker, quorum) == before


def test_a_redeclare_of_a_quorum_queue_that_expires_writes_an_entry(
    own_broker: Broker, channel: Any, name: str
) -> None:
    declare(channel, name, "quorum", {"x-expires": 60_000})
    before = commit_index(own_broker, name)
    channel.queue_declare(name, passive=True)
    settle_down(channel, lambda: commit_index(own_broker, name) > before)
