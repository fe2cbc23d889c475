"""Address settings of queues beside windows and rates, with pika and python-qpid-proton."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import proton
import pytest

from tests.conformance.broker import (
    Broker,
    Inbox,
    drain,
    publish_all,
    settle_down,
    wait_until_ready,
)
from tests.conformance.options import both_kinds, declare, onward, publish
from tests.conformance.proton10 import ACCEPTED, connect10, link_refused, outcome_of
from warren.testing.http_api import HttpApi


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


@both_kinds
def test_requeued_message_comes_back_after_the_redelivery_delay_and_later_each_time(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    arguments = {"x-redelivery-delay": 200, "x-redelivery-delay-multiplier": 2}
    declare(channel, name, kind, arguments)
    consuming = connection.channel()
    inbox = Inbox(consuming, name)
    publish(channel, name, b"1")
    inbox.wait(1)
    for count, delay in ((2, 0.2), (3, 0.4)):
        begun = time.monotonic()
        consuming.basic_nack(inbox.tags[-1], requeue=True)
        inbox.wait(count)
        assert time.monotonic() - begun >= delay - 0.005
        assert inbox.messages[-1].redelivered


def test_released_message_of_amqp10_comes_back_after_the_redelivery_delay(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    declare(channel, name, "classic", {"x-redelivery-delay": 200})
    publish(channel, name, b"1")
    receiver = open10().create_receiver(f"/queues/{name}", credit=1)
    receiver.receive(timeout=5)
    begun = time.monotonic()
    receiver.release(delivered=False)
    receiver.flow(1)
    receiver.receive(timeout=5)
    assert time.monotonic() - begun >= 0.195


@both_kinds
def test_message_is_dead_lettered_after_its_last_delivery_attempt(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    dead = channel.queue_declare("", exclusive=True).method.queue
    declare(channel, name, kind, {"x-max-delivery-attempts": 3, **onward(dead)})
    consuming = connection.channel()
    inbox = Inbox(consuming, name)
    publish(channel, name, b"1")
    for count in (1, 2, 3):
        inbox.wait(count)
        consuming.basic_nack(inbox.tags[-1], requeue=True)
    wait_until_ready(channel, dead, 1)
    assert len(inbox.messages) == 3
    _, properties, _ = channel.basic_get(dead, auto_ack=True)
    assert properties.headers["x-death"][0]["reason"] == "delivery_limit"


@both_kinds
def test_policy_bounds_delivery_attempts_and_its_end_ends_that(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    assert own_broker.node is not None
    api = HttpApi(own_broker.node.management_url)
    declare(channel, name, kind)
    publish_all(channel, name, [b"1", b"2"])
    policy = {"pattern": f"^{name}$", "definition": {"max-delivery-attempts": 2}}
    api.put(f"/policies/%2F/{name}", policy)
    consuming = connection.channel()
    consuming.basic_qos(prefetch_count=1)
    inbox = Inbox(consuming, name)
    for count in (1, 2):
        inbox.wait(count)
        consuming.basic_nack(inbox.tags[-1], requeue=True)
    inbox.wait(3)
    assert inbox.bodies == [b"1", b"1", b"2"]
    api.delete(f"/policies/%2F/{name}")
    for count in (3, 4, 5):
        inbox.wait(count)
        consuming.basic_nack(inbox.tags[-1], requeue=True)
    inbox.wait(6)


@both_kinds
def test_message_without_expiration_is_dead_lettered_after_the_expiry_delay(
    own_broker: Broker, channel: Any, name: str, kind: str
) -> None:
    dead = channel.queue_declare("", exclusive=True).method.queue
    declare(channel, name, kind, {"x-expiry-delay": 100, **onward(dead)})
    publish(channel, name, b"1")
    wait_until_ready(channel, dead, 1)


@both_kinds
def test_expiration_of_a_message_is_at_most_max_expiry_delay(
    own_broker: Broker, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-max-expiry-delay": 100})
    publish(channel, name, b"1", expiration="3600000")
    wait_until_ready(channel, name, 0)


def test_time_to_live_of_amqp10_is_at_most_max_expiry_delay(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    declare(channel, name, "quorum", {"x-max-expiry-delay": 100})
    open10().create_sender(f"/queues/{name}").send(proton.Message(body="1", ttl=3600))
    wait_until_ready(channel, name, 0)


@both_kinds
def test_no_message_is_dispatched_before_there_are_enough_consumers(
    own_broker: Broker, connect: Callable[..., Any], channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-consumers-before-dispatch": 2, "x-consumer-window-size": 0})
    publish_all(channel, name, [b"1", b"2"])
    first, second = connect().channel(), connect().channel()
    inbox = Inbox(first, name)
    wait_until_ready(channel, name, 2)
    assert inbox.messages == []
    other = Inbox(second, name)
    other.wait(1)
    inbox.wait(1)


@both_kinds
def test_dispatch_begins_after_its_delay_though_consumers_are_missing(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    arguments = {"x-consumers-before-dispatch": 2, "x-delay-before-dispatch": 200}
    declare(channel, name, kind, arguments)
    publish(channel, name, b"1")
    begun = time.monotonic()
    inbox = Inbox(connection.channel(), name)
    settle_down(channel, lambda: len(inbox.messages) == 1)
    assert time.monotonic() - begun >= 0.195


SLOW = {
    "x-slow-consumer-threshold": 100,
    "x-slow-consumer-check-period": 1,
    "x-slow-consumer-policy": "KILL",
}


@both_kinds
def test_slow_consumer_is_cancelled_and_its_messages_are_redelivered(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, SLOW)
    publish_all(channel, name, [b"1", b"2"])
    consuming = connection.channel()
    cancelled: list[str] = []
    consuming.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    inbox = Inbox(consuming, name)
    inbox.wait(2)
    settle_down(consuming, lambda: cancelled == [inbox.consumer_tag])
    wait_until_ready(channel, name, 2)
    assert channel.basic_get(name)[0].redelivered


def slow_consumers_of(broker: Broker) -> int:
    """How often the node has found one."""
    assert broker.node is not None
    return int(broker.node.metrics()["warren_slow_consumers_total"])


def test_slow_consumer_is_counted_and_kept_by_default(
    own_broker: Broker, connection: Any, channel: Any, name: str
) -> None:
    declare(channel, name, "classic", {**SLOW, "x-slow-consumer-policy": "NOTIFY"})
    publish_all(channel, name, [b"1"])
    consuming = connection.channel()
    inbox = Inbox(consuming, name)
    inbox.wait(1)
    before = slow_consumers_of(own_broker)
    settle_down(channel, lambda: slow_consumers_of(own_broker) > before)
    consuming.basic_ack(inbox.tags[0])
    publish_all(channel, name, [b"2"])
    inbox.wait(2)


def test_slow_receiver_of_amqp10_is_detached(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    declare(channel, name, "quorum", SLOW)
    publish_all(channel, name, [b"1", b"2"])
    receiver = open10().create_receiver(f"/queues/{name}", credit=5)
    with link_refused("amqp:resource-limit-exceeded"):
        for _ in range(3):
            receiver.receive(timeout=10)


@both_kinds
def test_ring_keeps_the_newest_messages(
    own_broker: Broker, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-ring-size": 2})
    publish_all(channel, name, [b"1", b"2", b"3"])
    wait_until_ready(channel, name, 2)
    assert channel.basic_get(name, auto_ack=True)[2] == b"2"


@both_kinds
def test_second_message_with_the_same_duplicate_id_is_confirmed_and_dropped(
    own_broker: Broker, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-id-cache-size": 100})
    for body, value in ((b"1", "a"), (b"2", "b"), (b"3", "a")):
        publish(channel, name, body, headers={"_AMQ_DUPL_ID": value})
    publish(channel, name, b"4")
    wait_until_ready(channel, name, 3)
    assert drain(channel, name) == [b"1", b"2", b"4"]
    publish(channel, name, b"5", headers={"x-deduplication-header": "b"})
    wait_until_ready(channel, name, 0)


def test_duplicate_of_amqp10_is_accepted_and_dropped(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    declare(channel, name, "quorum", {"x-id-cache-size": 100})
    sender = open10().create_sender(f"/queues/{name}")
    for body in ("1", "2"):
        sent = proton.Message(body=body, annotations={proton.symbol("_AMQ_DUPL_ID"): "a"})
        assert outcome_of(sender, sent) == ACCEPTED
    sent = proton.Message(body="3", properties={"_AMQ_DUPL_ID": "a"})
    assert outcome_of(sender, sent) == ACCEPTED
    wait_until_ready(channel, name, 1)


@both_kinds
def test_last_value_of_each_key_alone_stays(
    own_broker: Broker, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-last-value-key": "symbol"})
    for body, value in ((b"1", "A"), (b"2", "B"), (b"3", "A"), (b"4", "C"), (b"5", "B")):
        publish(channel, name, body, headers={"symbol": value})
    wait_until_ready(channel, name, 3)
    assert drain(channel, name) == [b"3", b"4", b"5"]


def test_last_value_is_found_by_an_application_property_of_amqp10(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    declare(channel, name, "quorum", {"x-last-value-key": "symbol"})
    sender = open10().create_sender(f"/queues/{name}")
    for body in ("1", "2"):
        sender.send(proton.Message(body=body, properties={"symbol": "A"}))
    wait_until_ready(channel, name, 1)


# Non-destructive queues

COPIES = {"x-non-destructive": True}
BODIES = [str(number).encode() for number in range(20)]


def test_consumers_of_a_non_destructive_queue_each_get_all_messages(
    own_broker: Broker, channel: Any, name: str
) -> None:
    declare(channel, name, "classic", COPIES)
    publish_all(channel, name, BODIES)
    for consumer in (channel, own_broker.connect().channel()):
        consumer.basic_qos(prefetch_count=3)
        found: list[bytes] = []
        for method, _, body in consumer.consume(name, inactivity_timeout=20):
            assert body is not None
            found.append(body)
            consumer.basic_ack(method.delivery_tag)
            if len(found) == len(BODIES):
                break
        consumer.cancel()
        assert found == BODIES
    wait_until_ready(channel, name, len(BODIES))
    method, _, body = channel.basic_get(name)
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert body == BODIES[0]
    wait_until_ready(channel, name, len(BODIES))
    channel.queue_purge(name)
    wait_until_ready(channel, name, 0)


def test_receiver_of_amqp10_gets_copies_of_a_non_destructive_queue(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    declare(channel, name, "classic", COPIES)
    publish_all(channel, name, BODIES[:3])
    for _ in range(2):
        receiver = open10().create_receiver(f"/queues/{name}", credit=1)
        for body in BODIES[:3]:
            assert bytes(receiver.receive(timeout=20).body) == body
            receiver.accept()
            receiver.flow(1)
        receiver.close()
    wait_until_ready(channel, name, 3)


# Message groups


def group_of(number: int) -> str:
    return f"g{number % 4}"


@both_kinds
def test_messages_of_a_group_go_to_one_consumer_until_it_leaves(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-group-buckets": 64, "x-consumers-before-dispatch": 2})
    for number in range(40):
        publish(channel, name, b"%d" % number, headers={"JMSXGroupID": group_of(number)})
    inboxes = [Inbox(connection.channel(), name) for _ in range(2)]
    settle_down(channel, lambda: sum(len(inbox.messages) for inbox in inboxes) == 40)
    groups = [{group_of(int(body)) for body in inbox.bodies} for inbox in inboxes]
    assert groups[0] and groups[1] and not groups[0] & groups[1]
    for inbox in inboxes:
        assert inbox.bodies == sorted(inbox.bodies, key=int)
    left, stays = inboxes
    left.channel.basic_ack(0, multiple=True)
    left.channel.basic_cancel(left.consumer_tag)
    for number in range(40, 44):
        publish(channel, name, b"%d" % number, headers={"JMSXGroupID": group_of(number)})
    stays.wait(len(stays.messages) + 4)
    assert stays.bodies[-4:] == [b"40", b"41", b"42", b"43"]


def test_group_of_amqp10_is_the_same_as_that_of_a_header(
    open10: Callable[..., Any], connection: Any, channel: Any, name: str
) -> None:
    declare(channel, name, "classic", {"x-group-buckets": 64, "x-consumers-before-dispatch": 2})
    sender = open10().create_sender(f"/queues/{name}")
    for number in range(4):
        sender.send(proton.Message(body=b"%d" % number, group_id="g"))
        publish(channel, name, b"header", headers={"_AMQ_GROUP_ID": "g"})
    inboxes = [Inbox(connection.channel(), name) for _ in range(2)]
    settle_down(channel, lambda: max(len(inbox.messages) for inbox in inboxes) == 8)
    assert min(len(inbox.messages) for inbox in inboxes) == 0


# The time at which the broker took a message

INGRESS_TIME = "x-opt-ingress-time"


@both_kinds
def test_consumers_of_both_protocols_see_when_the_broker_took_a_message(
    open10: Callable[..., Any], channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-enable-ingress-timestamp": True})
    connection = open10()
    begun_ms = time.time_ns() // 1_000_000
    publish(channel, name, b"0-9-1", headers={INGRESS_TIME: 1})
    assert outcome_of(connection.create_sender(f"/queues/{name}"), proton.Message("1.0")) == (
        ACCEPTED
    )
    wait_until_ready(channel, name, 2)
    ended_ms = time.time_ns() // 1_000_000
    times = [channel.basic_get(name)[1].headers[INGRESS_TIME] for _ in range(2)]
    assert begun_ms <= times[0] <= times[1] <= ended_ms
    channel.basic_recover(requeue=True)
    receiver = connection.create_receiver(f"/queues/{name}", credit=2)
    found = []
    for _ in times:
        found.append(int(receiver.receive(timeout=60).annotations[INGRESS_TIME]))
        receiver.accept()
    assert sorted(found) == times


def test_messages_to_an_exchange_have_their_time_in_all_queues_and_others_have_none(
    own_broker: Broker, channel: Any, name: str
) -> None:
    channel.exchange_declare(
        name, "fanout", durable=True, arguments={"x-enable-ingress-timestamp": True}
    )
    queues = [f"{name} {number}" for number in range(2)]
    for queue in queues:
        declare(channel, queue)
        channel.queue_bind(queue, name)
    channel.basic_publish(name, "", b"by the exchange", pika.BasicProperties())
    publish(channel, queues[0], b"by the queue")
    wait_until_ready(channel, queues[0], 2)
    times = [channel.basic_get(queue, auto_ack=True)[1].headers[INGRESS_TIME] for queue in queues]
    assert times[0] == times[1]
    assert channel.basic_get(queues[0], auto_ack=True)[1].headers is None
    for queue in queues:
        channel.queue_delete(queue)
    channel.exchange_delete(name)


def test_message_published_by_the_http_api_has_its_time(
    own_broker: Broker, channel: Any, name: str
) -> None:
    declare(channel, name, "classic", {"x-enable-ingress-timestamp": True})
    assert own_broker.node is not None
    api = HttpApi(own_broker.node.management_url)
    sent = {"properties": {}, "routing_key": name, "payload": "1", "payload_encoding": "string"}
    assert api.post("/exchanges/%2F/amq.default/publish", sent) == {"routed": True}
    assert channel.basic_get(name, auto_ack=True)[1].headers[INGRESS_TIME] > 0
