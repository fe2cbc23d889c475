"""Subscriptions of AMQP 1.0: receivers whose source is the address of an exchange."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from proton import symbol, ubyte, uint

from tests.conformance.broker import Broker
from tests.conformance.raw10 import (
    ACCEPTED,
    ATTACH,
    DETACH,
    RECEIVER,
    SOURCE,
    TRANSFER,
    Frame,
    Raw10,
    body_of,
    described,
    target,
)

NEVER = "never"


@contextmanager
def session_of(broker: Broker, user: str = "guest") -> Iterator[Raw10]:
    with Raw10(broker.host, broker.port) as client:
        client.open(user)
        client.begin()
        yield client


def subscription(topic: str, expiry: str = NEVER) -> Any:
    durable = uint(2 if expiry == NEVER else 0)
    rest = (uint(0), False, None, symbol("copy") if expiry == NEVER else None)
    return described(SOURCE, f"/exchanges/amq.topic/{topic}", durable, symbol(expiry), *rest)


def attach(raw: Raw10, name: str, source: Any, handle: int = 0) -> Frame:
    raw.call(ATTACH, name, uint(handle), RECEIVER, ubyte(0), ubyte(0), source, target(None))
    return raw.attached()


def detach(raw: Raw10, closed: bool, handle: int = 0) -> None:
    raw.call(DETACH, uint(handle), closed)
    assert raw.until(DETACH).error is None


def publish(channel: Any, topic: str, *bodies: bytes) -> None:
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("amq.topic", topic, body)


def receive(raw: Raw10, count: int) -> list[bytes]:
    """Get and accept so many messages on link 0."""
    raw.credit(count)
    bodies: list[bytes] = []
    for _ in range(count):
        frame = raw.until(TRANSFER)
        bodies.append(body_of(frame))
        raw.settle(int(frame.field(1)), int(frame.field(1)), ACCEPTED)
    return bodies


def queue_of(name: str) -> str:
    return f"amq.subscription.raw:{name}"


def exists(broker: Broker, queue: str) -> bool:
    connection = broker.connect()
    channel = connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
    except Exception as error:
        assert "404" in str(error)
        return False
    finally:
        connection.close()
    return True


@pytest.mark.parametrize("end", ["detach", "cut"])
def test_durable_subscription_keeps_messages_until_it_is_attached_again(
    own_broker: Broker, channel: Any, name: str, end: str
) -> None:
    with session_of(own_broker) as raw:
        answer = attach(raw, name, subscription(f"{name}.#")).field(5).value
        assert (int(answer[1]), str(answer[2])) == (2, NEVER)
        publish(channel, f"{name}.a", b"1")
        assert receive(raw, 1) == [b"1"]
        if end == "detach":
            detach(raw, closed=False)
    publish(channel, f"{name}.b", b"2")
    publish(channel, "other", b"x")
    with session_of(own_broker) as raw:
        attach(raw, name, subscription(f"{name}.#"))
        assert receive(raw, 1) == [b"2"]
        detach(raw, closed=True)
    assert not exists(own_broker, queue_of(name))


def test_client_unsubscribes_by_an_attach_without_source(
    own_broker: Broker, channel: Any, name: str
) -> None:
    with session_of(own_broker) as raw:
        attach(raw, name, None)
        assert raw.until(DETACH).error == "amqp:not-found"
        raw.call(DETACH, uint(0), True)
        attach(raw, name, subscription(name))
        detach(raw, closed=False)
        answer = attach(raw, name, None)
        assert str(answer.field(5).value[2]) == NEVER
        detach(raw, closed=True)
        assert not exists(own_broker, queue_of(name))
        attach(raw, name, subscription(name))
        detach(raw, closed=True)


def test_another_topic_replaces_the_subscription(
    own_broker: Broker, channel: Any, name: str
) -> None:
    with session_of(own_broker) as raw:
        attach(raw, name, subscription(f"{name}.old"))
        detach(raw, closed=False)
        publish(channel, f"{name}.old", b"old")
        attach(raw, name, subscription(f"{name}.new"))
        publish(channel, f"{name}.old", b"old")
        publish(channel, f"{name}.new", b"new")
        assert receive(raw, 1) == [b"new"]
        detach(raw, closed=True)


def test_other_subscription_ends_with_its_link(own_broker: Broker, channel: Any, name: str) -> None:
    with session_of(own_broker) as raw:
        attach(raw, name, subscription(name, "link-detach"))
        publish(channel, name, b"1")
        assert receive(raw, 1) == [b"1"]
        publish(channel, name, b"gone")
        detach(raw, closed=False)
        attach(raw, name, subscription(name, "link-detach"))
        publish(channel, name, b"2")
        assert receive(raw, 1) == [b"2"]


def test_subscription_needs_the_exchange_and_the_permissions(own_broker: Broker) -> None:
    with session_of(own_broker) as raw:
        missing = described(SOURCE, "/exchanges/nothing/x", uint(2), symbol(NEVER))
        attach(raw, "s", missing)
        assert raw.until(DETACH).error == "amqp:not-found"
    with session_of(own_broker, "limited") as raw:
        raw.call(ATTACH, "s", uint(0), RECEIVER, ubyte(0), ubyte(0), subscription("x"), None)
        assert raw.until(0x17).error == "amqp:unauthorized-access"
    assert not exists(own_broker, queue_of("s"))
