"""Fixtures of the conformance tests: the shared broker, connections to it, unique names.

`WARREN_TEST_URL=amqp://HOST:PORT` runs the client tests against a broker that is already there,
such as RabbitMQ with the users that `tests.conformance.broker.CONFIG` names.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlparse

import pytest

from tests.conformance.broker import CONFIG, Broker
from warren.testing import Node

if TYPE_CHECKING:
    from tests.conformance.pages import Pages

TEST_SECONDS: Final = 240
FOREIGN_URL: Final = os.environ.get("WARREN_TEST_URL", "")
HERE: Final = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No conformance test may hang for long."""
    for item in items:
        if HERE not in item.path.parents:
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The broker that the client tests share."""
    if FOREIGN_URL:
        place = urlparse(FOREIGN_URL)
        yield Broker(place.hostname or "127.0.0.1", place.port or 5672, None)
        return
    with Node(name="conformance", config=CONFIG) as node:
        yield Broker(node.host, node.port, node)


@pytest.fixture
def own_broker(broker: Broker) -> Broker:
    """The shared broker, for what only holds of ours or needs its process."""
    if broker.node is None:
        pytest.skip("WARREN_TEST_URL: this broker is not ours")
    return broker


@pytest.fixture(scope="module")
def pages() -> "Iterator[Pages]":
    """A browser for the tests of the management page."""
    from tests.conformance.pages import open_browser

    with open_browser() as found:
        yield found


@pytest.fixture
def base(own_broker: Broker) -> str:
    """Where the management page of the shared broker is."""
    assert own_broker.node is not None
    return f"http://{own_broker.node.host}:{own_broker.node.management_port}/"


@pytest.fixture
def connect(broker: Broker, name: str) -> Iterator[Callable[..., Any]]:
    """Opens pika connections and closes them after the test, before `name` is cleaned up."""
    opened: list[Any] = []

    def open_one(*arguments: Any, **options: Any) -> Any:
        opened.append(broker.connect(*arguments, **options))
        return opened[-1]

    yield open_one
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def connection(connect: Callable[..., Any]) -> Any:
    """A connection as guest."""
    return connect()


@pytest.fixture
def channel(connection: Any) -> Any:
    """A channel as guest."""
    return connection.channel()


@pytest.fixture
def name(broker: Broker) -> Iterator[str]:
    """A name that no other test uses, for queues; a queue of that name is deleted afterwards."""
    unique = f"t-{secrets.token_hex(6)}"
    yield unique
    if broker.node is None or broker.node.is_running():
        connection = broker.connect()
        channel = connection.channel()
        channel.queue_delete(unique)
        channel.exchange_delete(unique)
        connection.close()


@pytest.fixture
def queue(channel: Any, name: str) -> str:
    """A durable classic queue of this test."""
    channel.queue_declare(name, durable=True)
    return name
