"""Flow control of consumers by windows of bytes and by rates, with pika and python-qpid-proton.

The statements are those of the documentation of Apache ActiveMQ Artemis on consumer flow control;
each test is named after one. All of this is ours: RabbitMQ has neither windows of bytes nor rates.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika.exceptions
import proton
import pytest
from proton.reactor import ReceiverOption

from tests.conformance.broker import (
    Broker,
    Inbox,
    numbered,
    publish_all,
    settle_down,
    wait_until_ready,
)
from tests.conformance.options import both_kinds, declare
from tests.conformance.proton10 import connect10, link_refused, take10

BODY = b"x" * 1000
WINDOW = "x-consumer-window-bytes"
RATE = "x-consumer-max-rate"


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


class Properties(ReceiverOption):
    """Properties of the attach of a receiver."""

    def __init__(self, **properties: int) -> None:
        self._properties = {
            proton.symbol(f"warren:{name.replace('_', '-')}"): value
            for name, value in properties.items()
        }

    def apply(self, link: Any) -> None:
        link.properties = self._properties


@contextmanager
def refused_with(text: str) -> Iterator[None]:
    """The broker closes the channel in here with 406 and a text that has this in it."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        yield
    assert caught.value.reply_code == 406
    assert text in caught.value.reply_text


def fill(channel: Any, name: str, kind: str, count: int, **arguments: int) -> str:
    """A queue of this kind with messages of 1,000 bytes."""
    found = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    declare(channel, name, kind, found)
    publish_all(channel, name, [BODY] * count)
    wait_until_ready(channel, name, count)
    return name


@both_kinds
def test_consumer_window_size_is_the_most_bytes_that_are_buffered_on_a_consumer(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    fill(channel, name, kind, 20, consumer_window_size=5000)
    consuming = connection.channel()
    inbox = Inbox(consuming, name)
    inbox.wait(5)
    wait_until_ready(channel, name, 15)
    consuming.basic_ack(inbox.tags[1], multiple=True)
    inbox.wait(7)
    wait_until_ready(channel, name, 13)


@both_kinds
def test_window_of_a_consumer_overrides_that_of_the_address(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    fill(channel, name, kind, 20, consumer_window_size=5000)
    consuming = connection.channel()
    inbox = Inbox(consuming, name, arguments={WINDOW: 2000})
    inbox.wait(2)
    wait_until_ready(channel, name, 18)


@both_kinds
def test_window_of_minus_1_is_an_unbounded_buffer(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    fill(channel, name, kind, 50, consumer_window_size=5000)
    inbox = Inbox(connection.channel(), name, arguments={WINDOW: -1})
    inbox.wait(50)


@both_kinds
def test_without_a_window_the_buffer_is_unbounded_and_not_of_1_mib(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    """Not Artemis' default: clients of AMQP say themselves how many messages they take."""
    declare(channel, name, kind)
    publish_all(channel, name, [bytes(100_000)] * 20)
    Inbox(connection.channel(), name).wait(20)


@both_kinds
def test_window_of_a_consumer_holds_where_the_queue_has_none(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    fill(channel, name, kind, 20)
    consuming = connection.channel()
    inbox = Inbox(consuming, name, arguments={WINDOW: 3000})
    inbox.wait(3)
    wait_until_ready(channel, name, 17)
    publish_all(channel, name, [b"y" * 2500] * 2)
    consuming.basic_ack(inbox.tags[2], multiple=True)
    inbox.wait(6)
    wait_until_ready(channel, name, 16)


@both_kinds
def test_messages_in_the_window_of_a_slow_consumer_are_kept_from_a_fast_one(
    own_broker: Broker, connect: Callable[..., Any], channel: Any, name: str, kind: str
) -> None:
    fill(channel, name, kind, 20, consumer_window_size=5000)
    slow = Inbox(connect().channel(), name)
    slow.wait(5)
    fast = connect().channel()
    for taken, (method, _, _) in enumerate(fast.consume(name, inactivity_timeout=60), 1):
        assert method is not None, f"{taken - 1} messages came"
        fast.basic_ack(method.delivery_tag)
        if taken == 15:
            break
    wait_until_ready(channel, name, 0)
    assert len(slow.messages) == 5
    slow.channel.close()
    assert len([next(fast.consume(name, inactivity_timeout=60)) for _ in range(5)]) == 5


@both_kinds
def test_slow_consumer_with_a_window_of_0_leaves_messages_to_the_fast_one(
    own_broker: Broker, connect: Callable[..., Any], channel: Any, name: str, kind: str
) -> None:
    fill(channel, name, kind, 40, consumer_window_size=0)
    slow, fast = connect().channel(), connect().channel()
    slow_inbox, fast_inbox = Inbox(slow, name), Inbox(fast, name)
    slow_inbox.wait(1)
    fast_inbox.wait(1)

    def all_but_one_done() -> bool:
        for message in fast_inbox.messages[fast_done[0] :]:
            fast.basic_ack(message.delivery_tag)
            fast_done[0] += 1
        return fast_done[0] == 39

    fast_done = [0]
    settle_down(fast, all_but_one_done)
    slow.connection.process_data_events(time_limit=0.01)
    assert len(slow_inbox.messages) == 1


@both_kinds
def test_window_of_0_distributes_messages_deterministically(
    own_broker: Broker, connect: Callable[..., Any], channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-consumer-window-size": 0})
    inboxes = [Inbox(connect().channel(), name) for _ in range(3)]
    publish_all(channel, name, numbered(3))
    for inbox in inboxes:
        inbox.wait(1)
    assert sorted(inbox.bodies[0] for inbox in inboxes) == numbered(3)


@both_kinds
def test_consumer_never_gets_messages_faster_than_its_rate(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    fill(channel, name, kind, 100)
    begun = time.monotonic()
    inbox = Inbox(connection.channel(), name, arguments={RATE: 100})
    inbox.wait(50)
    assert time.monotonic() - begun >= 0.48


@both_kinds
def test_rate_of_minus_1_disables_it(
    own_broker: Broker, connection: Any, channel: Any, name: str, kind: str
) -> None:
    fill(channel, name, kind, 50, consumer_max_rate=1)
    Inbox(connection.channel(), name, arguments={RATE: -1}).wait(50)


def test_low_rate_with_a_large_window_fills_the_buffer(
    own_broker: Broker, connection: Any, channel: Any, name: str
) -> None:
    fill(channel, name, "classic", 20, consumer_max_rate=50, consumer_window_size=8000)
    inbox = Inbox(connection.channel(), name)
    inbox.wait(8)
    wait_until_ready(channel, name, 12)


def test_amqp10_receiver_is_held_by_the_window_whatever_its_link_credit(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    fill(channel, name, "quorum", 20, consumer_window_size=5000)
    receiver = open10().create_receiver(f"/queues/{name}", credit=20)
    for _ in range(5):
        receiver.receive(timeout=5)
    wait_until_ready(channel, name, 15)
    receiver.accept()
    receiver.receive(timeout=5)
    wait_until_ready(channel, name, 14)


@both_kinds
def test_slow_receiver_of_amqp10_with_a_window_of_0_leaves_messages_to_the_fast_one(
    open10: Callable[..., Any], channel: Any, name: str, kind: str
) -> None:
    """Whatever its link credit is."""
    fill(channel, name, kind, 20, consumer_window_size=0)
    slow = open10().create_receiver(f"/queues/{name}", credit=20)
    slow.receive(timeout=5)
    fast = open10().create_receiver(f"/queues/{name}", credit=20)
    assert len(take10(fast, 19)) == 19
    wait_until_ready(channel, name, 0)


@both_kinds
def test_receiver_of_amqp10_never_gets_messages_faster_than_its_rate(
    open10: Callable[..., Any], channel: Any, name: str, kind: str
) -> None:
    fill(channel, name, kind, 60, consumer_max_rate=100)
    begun = time.monotonic()
    take10(open10().create_receiver(f"/queues/{name}", credit=100), 50)
    assert time.monotonic() - begun >= 0.48


def test_amqp10_receiver_asks_for_a_window_of_its_own(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    fill(channel, name, "classic", 20)
    options = Properties(consumer_window_bytes=2000, consumer_max_rate=1000)
    receiver = open10().create_receiver(f"/queues/{name}", credit=20, options=options)
    receiver.receive(timeout=5)
    receiver.receive(timeout=5)
    wait_until_ready(channel, name, 18)


def test_receiver_of_amqp10_with_a_bad_rate_is_refused(
    open10: Callable[..., Any], queue: str
) -> None:
    with link_refused("amqp:invalid-field"):
        open10().create_receiver(f"/queues/{queue}", options=Properties(consumer_max_rate=0))


@pytest.mark.parametrize(("key", "value"), [(WINDOW, -2), (RATE, 0), (RATE, "many")])
def test_consumer_with_a_limit_that_is_not_allowed_is_refused(
    own_broker: Broker, channel: Any, queue: str, key: str, value: object
) -> None:
    with refused_with(f"invalid arg '{key}' for queue '{queue}' in vhost '/': \"expected"):
        channel.basic_consume(queue, print, arguments={key: value})


def test_limits_of_consumers_of_streams_are_refused(
    own_broker: Broker, channel: Any, name: str
) -> None:
    declare(channel, name, "stream")
    channel.basic_qos(prefetch_count=10)
    with refused_with("consumers of streams have no windows of bytes"):
        channel.basic_consume(name, print, arguments={WINDOW: 100})


def test_queue_with_a_rate_that_is_not_allowed_is_refused(
    own_broker: Broker, channel: Any, name: str
) -> None:
    with refused_with("expected messages per second from 1 to 1000000"):
        declare(channel, name, "classic", {"x-consumer-max-rate": 0})
