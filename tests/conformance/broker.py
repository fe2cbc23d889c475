"""The broker under test as the client tests see it, and what they ask of pika again and again."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pika
import pika.exceptions
import pytest

from warren.testing import Node

PATIENCE_SECONDS: Final = 20.0

GUEST: Final = """
[[users]]
name = "guest"
password = "guest"
tags = ["administrator"]
permissions = [{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]
"""
CONFIG: Final = (
    GUEST
    + """
[[users]]
name = "limited"
password = "limited"
permissions = [{ vhost = "/", configure = "^open-", write = "^open-", read = "^open-" }]

[[users]]
name = "stranger"
password = "stranger"
"""
)


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker listens; `node` is None when it is not ours but `WARREN_TEST_URL`'s.

    Its users are guest (may do all), limited (only names that begin with `open-`) and stranger
    (no permission at all); each has its own name as password.
    """

    host: str
    port: int
    node: Node | None

    def url(self, user: str = "guest", password: str | None = None, vhost: str = "/") -> str:
        secret = user if password is None else password
        place = f"{self.host}:{self.port}/{quote(vhost, safe='')}"
        return f"amqp://{quote(user)}:{quote(secret)}@{place}"

    def connect(self, user: str = "guest", password: str | None = None, vhost: str = "/") -> Any:
        parameters = pika.URLParameters(self.url(user, password, vhost))
        parameters.socket_timeout = PATIENCE_SECONDS
        parameters.blocked_connection_timeout = PATIENCE_SECONDS
        return pika.BlockingConnection(parameters)


@dataclass(frozen=True, slots=True)
class Delivered:
    """One delivery as the client saw it."""

    delivery_tag: int
    redelivered: bool
    body: bytes
    exchange: str
    routing_key: str
    properties: Any


class Inbox:
    """One consumer that keeps what it gets and settles nothing by itself."""

    def __init__(self, channel: Any, queue: str, **options: Any) -> None:
        self.channel = channel
        self.messages: list[Delivered] = []
        self.consumer_tag: str = channel.basic_consume(queue, self._on_message, **options)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    @property
    def tags(self) -> list[int]:
        return [message.delivery_tag for message in self.messages]

    def wait(self, count: int) -> list[Delivered]:
        """Serve the connection until `count` messages are here."""
        settle_down(self.channel, lambda: len(self.messages) >= count)
        return self.messages

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.messages.append(
            Delivered(
                method.delivery_tag,
                method.redelivered,
                body,
                method.exchange,
                method.routing_key,
                properties,
            )
        )


def settle_down(channel: Any, done: Callable[[], bool]) -> None:
    """Serve the channel's connection until `done`; fail when patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        if time.monotonic() > deadline:
            pytest.fail(f"not so after {PATIENCE_SECONDS} s")
        channel.connection.process_data_events(time_limit=0.01)


def ready_count(channel: Any, queue: str) -> int:
    """How many messages wait in the queue."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def wait_until_ready(channel: Any, queue: str, count: int) -> None:
    """Wait until so many messages wait in the queue."""
    settle_down(channel, lambda: ready_count(channel, queue) == count)


def publish_all(channel: Any, queue: str, bodies: list[bytes], persistent: bool = False) -> None:
    """Publish to the queue through the default exchange and wait for each confirm."""
    properties = pika.BasicProperties(delivery_mode=2 if persistent else 1)
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body, properties, mandatory=True)


def numbered(count: int, first: int = 1) -> list[bytes]:
    """Bodies that say their place: b"1", b"2", ..."""
    return [b"%d" % number for number in range(first, first + count)]


def take(channel: Any, queue: str) -> Delivered:
    """Get one message, which must be there, without settling it."""
    method, properties, body = channel.basic_get(queue)
    assert method is not None, f"queue {queue} is empty"
    return Delivered(
        method.delivery_tag,
        method.redelivered,
        body,
        method.exchange,
        method.routing_key,
        properties,
    )


def drain(channel: Any, queue: str) -> list[bytes]:
    """Get and accept all that is ready, in order."""
    bodies: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


@contextmanager
def channel_closed(code: int, text: str) -> Iterator[None]:
    """The broker closes the channel in here with this code and text."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        yield
    assert (caught.value.reply_code, caught.value.reply_text) == (code, text)


@contextmanager
def connection_closed(code: int, text: str) -> Iterator[None]:
    """The broker closes the connection in here with this code and text."""
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        yield
    assert (caught.value.reply_code, caught.value.reply_text) == (code, text)
