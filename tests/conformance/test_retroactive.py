"""Retroactive exchanges: queues that are bound later get the newest messages.

Clients are pika and python-qpid-proton.

In Artemis a queue that is made on an address with `retroactive-message-count` gets the newest
messages of the address, as far as its filter means them.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pika
import pytest

from tests.conformance.broker import (
    Broker,
    Inbox,
    channel_closed,
    drain,
    numbered,
    settle_down,
    wait_until_ready,
)
from tests.conformance.options import both_kinds, exclusive_queue
from tests.conformance.proton10 import body_of, connect10, data_message, take10
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.http_api import HttpApi

KEY: Final = "retroactive-message-count"
SAFE: Final = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="retroactive") as running:
        yield running


@pytest.fixture
def broker(node: Node) -> Broker:
    """A node of its own: the tests restart it."""
    return Broker(node.host, node.port, node)


@pytest.fixture
def api(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


@pytest.fixture
def kept(api: HttpApi, name: str) -> Callable[[], int]:
    """How many messages the exchange `name` keeps; -1: there is no ring."""

    def count() -> int:
        rows = [each for each in api.get("/queues") if each["name"].startswith("amq.retroactive.")]
        found = [each for each in rows if each["name"].endswith(f".{name}")]
        assert len(found) < 2
        return int(found[0]["messages"]) if found else -1

    return count


@pytest.fixture
def exchange(channel: Any, name: str, kept: Callable[[], int]) -> Callable[..., str]:
    """Declares the exchange `name`, which keeps `count` messages from then on."""

    def declare(kind: str = "topic", count: int = 10) -> str:
        channel.exchange_declare(name, kind, durable=True, arguments={f"x-{KEY}": count})
        eventually(lambda: kept() == 0)
        channel.confirm_delivery()
        return name

    return declare


def publish(channel: Any, exchange: str, keys: list[str], bodies: list[bytes]) -> None:
    for number, body in enumerate(bodies):
        channel.basic_publish(exchange, keys[number % len(keys)], body, SAFE)


@pytest.mark.parametrize(
    ("kind", "binding_key", "expected"),
    [
        ("topic", "a.#", numbered(15, 11)[::2]),
        ("topic", "#", numbered(10, 11)),
        ("direct", "b.y", [b"12", b"14", b"16", b"18", b"20"]),
        ("fanout", "", numbered(10, 11)),
    ],
)
def test_queue_that_is_bound_later_gets_the_newest_messages_that_match(
    channel: Any, exchange: Callable[..., str], kind: str, binding_key: str, expected: list[bytes]
) -> None:
    source = exchange(kind)
    publish(channel, source, ["a.x", "b.y"], numbered(20))
    queue = exclusive_queue(channel)
    channel.queue_bind(queue, source, binding_key)
    publish(channel, source, ["a.x", "b.y"], [b"21", b"22"])
    later = {"a.#": [b"21"], "b.y": [b"22"]}.get(binding_key, [b"21", b"22"])
    kept = [each for each in expected if int(each) <= 20]
    wait_until_ready(channel, queue, len(kept) + len(later))
    assert drain(channel, queue) == kept + later


def test_headers_exchange_gives_what_its_binding_matches(
    channel: Any, exchange: Callable[..., str]
) -> None:
    source = exchange("headers")
    for body, colour in ((b"1", "red"), (b"2", "blue"), (b"3", "red")):
        channel.basic_publish(source, "", body, pika.BasicProperties(headers={"colour": colour}))
    queue = exclusive_queue(channel)
    channel.queue_bind(queue, source, "", {"x-match": "all", "colour": "red"})
    assert drain(channel, queue) == [b"1", b"3"]


def test_message_with_further_keys_comes_by_each_of_them(
    channel: Any, exchange: Callable[..., str]
) -> None:
    source = exchange("direct")
    properties = pika.BasicProperties(headers={"CC": ["copy"]})
    channel.basic_publish(source, "first", b"1", properties)
    queue = exclusive_queue(channel)
    channel.queue_bind(queue, source, "copy")
    assert drain(channel, queue) == [b"1"]


def test_binding_that_is_there_already_brings_nothing_again(
    channel: Any, exchange: Callable[..., str]
) -> None:
    source = exchange()
    publish(channel, source, ["a"], [b"1"])
    queue = exclusive_queue(channel)
    channel.queue_bind(queue, source, "a")
    channel.queue_bind(queue, source, "a")
    assert drain(channel, queue) == [b"1"]


@both_kinds
def test_messages_and_their_order_survive_a_restart(
    broker: Broker, node: Node, name: str, kept: Callable[[], int], kind: str
) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.exchange_declare(name, "topic", durable=True, arguments={f"x-{KEY}": 10})
    eventually(lambda: kept() == 0)
    channel.confirm_delivery()
    for number, body in enumerate(numbered(12)):
        properties = pika.BasicProperties(delivery_mode=2, priority=number % 3 + 3)
        channel.basic_publish(name, "a", body, properties)
    connection.close()
    node.stop()
    node.start()
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    channel.queue_bind(name, name, "a")
    wait_until_ready(channel, name, 10)
    if kind == "classic":
        assert drain(channel, name) == numbered(10, 3)
    else:  # It delivers higher priorities first.
        assert sorted(drain(channel, name), key=int) == numbered(10, 3)
    connection.close()


def test_consumer_gets_the_past_before_what_is_published_later(
    connect: Callable[..., Any], channel: Any, exchange: Callable[..., str]
) -> None:
    source = exchange(count=1000)
    publish(channel, source, ["a"], numbered(600))
    consuming = connect().channel()
    queue = exclusive_queue(consuming)
    consuming.queue_bind(queue, source, "a")
    inbox = Inbox(consuming, queue)
    publish(channel, source, ["a"], [b"601"])
    inbox.wait(601)
    assert inbox.bodies == numbered(601)


def test_policy_says_how_many_messages_are_kept(
    channel: Any, api: HttpApi, name: str, kept: Callable[[], int]
) -> None:
    channel.exchange_declare(name, "fanout")
    channel.confirm_delivery()

    def put(count: int) -> None:
        body = {"pattern": f"^{name}$", "apply-to": "exchanges", "definition": {KEY: count}}
        api.put("/policies/%2F/past", body)

    put(5)
    eventually(lambda: kept() == 0)
    publish(channel, name, [""], numbered(8))
    assert kept() == 5
    put(3)
    eventually(lambda: kept() == 3)
    queue = exclusive_queue(channel)
    channel.queue_bind(queue, name, "")
    assert drain(channel, queue) == [b"6", b"7", b"8"]
    api.delete("/policies/%2F/past")
    eventually(lambda: kept() == -1)


def test_exchange_that_is_declared_again_begins_without_messages(
    channel: Any, name: str, exchange: Callable[..., str], kept: Callable[[], int]
) -> None:
    source = exchange()
    publish(channel, source, ["a"], [b"1"])
    channel.exchange_delete(name)
    exchange()
    queue = exclusive_queue(channel)
    channel.queue_bind(queue, source, "a")
    assert drain(channel, queue) == []
    channel.exchange_delete(name)
    eventually(lambda: kept() == -1)


def test_kept_message_is_routed_and_does_not_spare_the_alternate_exchange(
    channel: Any, name: str, kept: Callable[[], int]
) -> None:
    queue = exclusive_queue(channel)
    channel.queue_bind(queue, "amq.fanout", "")
    arguments = {f"x-{KEY}": 10, "alternate-exchange": "amq.fanout"}
    channel.exchange_declare(name, "direct", arguments=arguments)
    eventually(lambda: kept() == 0)
    channel.confirm_delivery()
    channel.basic_publish(name, "nowhere", b"1", SAFE, mandatory=True)
    assert drain(channel, queue) == [b"1"]
    assert kept() == 1


def test_subscription_of_amqp10_gets_the_newest_messages(
    broker: Broker, channel: Any, exchange: Callable[..., str]
) -> None:
    source = exchange()
    connection = connect10(broker)
    sender = connection.create_sender(f"/exchanges/{source}/a.b")
    for body in numbered(12):
        sender.send(data_message(body))
    receiver = connection.create_receiver(f"/exchanges/{source}/a.%23", credit=20)
    assert [body_of(each) for each in take10(receiver, 10)] == numbered(10, 3)
    sender.send(data_message(b"13"))
    assert [body_of(each) for each in take10(receiver, 1)] == [b"13"]
    connection.close()


def test_ring_that_is_full_is_read_back_from_disk(
    connect: Callable[..., Any], channel: Any, exchange: Callable[..., str]
) -> None:
    source = exchange(count=1200)
    publishing = connect().channel()
    bodies = [b"%d " % number + bytes(5000) for number in range(1500)]
    for body in bodies:
        publishing.basic_publish(source, "a", body, SAFE)
    queue = exclusive_queue(channel)
    settle_down(channel, lambda: publishing.is_open)
    publishing.confirm_delivery()
    publishing.basic_publish(source, "end", b"end", SAFE)
    channel.queue_bind(queue, source, "a")
    assert drain(channel, queue) == bodies[301:]


@pytest.mark.parametrize("count", [-1, 100_001, "10"])
def test_wrong_count_is_refused_with_what_is_allowed(
    channel: Any, name: str, count: object
) -> None:
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-{KEY}' for exchange '{name}' in vhost '/': "
        '"expected a number of messages from 0 to 100000"'
    )
    with channel_closed(406, text):
        channel.exchange_declare(name, "topic", arguments={f"x-{KEY}": count})


def test_exchange_of_another_type_keeps_no_messages(channel: Any, name: str) -> None:
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-{KEY}' for exchange '{name}' in vhost '/': "
        '"exchanges of type x-random keep no messages"'
    )
    with channel_closed(406, text):
        channel.exchange_declare(name, "x-random", arguments={f"x-{KEY}": 1})


def test_policy_for_queues_is_refused(api: HttpApi) -> None:
    body = {"pattern": ".*", "apply-to": "queues", "definition": {KEY: 5}}
    status, reason = api.refused("PUT", "/policies/%2F/past", body)
    assert status == 400
    assert f"{KEY} applies to exchanges, not to queues" in str(reason)
