"""Dead letters that multiply or travel far: the node stays in service, and comes back."""

from collections.abc import Iterator
from typing import Any, Final

import pika
import pytest

from tests.conformance.broker import ready_count
from tests.waiting import eventually
from warren.testing import Node

MIB: Final = 1024 * 1024
RSS_BYTES_MAX: Final = 320 * MIB  # 1.8 GB before the limits
QUEUES: Final = [f"q{number}" for number in range(12)]

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    with Node(name="letters", settings=request.param) as started:
        yield started


def channel_of(node: Node) -> Any:
    """A channel of a client that waits for long: the machine may be busy."""
    parameters = pika.URLParameters(node.url)
    parameters.socket_timeout = parameters.stack_timeout = 60
    return pika.BlockingConnection(parameters).channel()


def has_memory_alarm(node: Node) -> bool:
    return bool(node.api("GET", "/api/nodes")[0]["mem_alarm"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "node",
    [{"vm_memory_high_watermark.absolute": "100MB", "limits.handshake_timeout_ms": "60000"}],
    indirect=True,
    ids=["100MB"],
)
def test_letters_that_multiply_neither_hang_nor_exhaust_the_node(node: Node) -> None:
    """Twelve queues that expire into one fanout exchange bound to all of them: 12! copies."""
    channel = channel_of(node)
    channel.exchange_declare("dlx", "fanout", durable=True)
    arguments = {"x-message-ttl": 10, "x-dead-letter-exchange": "dlx"}
    for name in QUEUES:
        channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_bind(name, "dlx")
    channel.confirm_delivery()
    channel.basic_publish("dlx", "", b"x" * 20, pika.BasicProperties(delivery_mode=2))
    eventually(lambda: has_memory_alarm(node), seconds=90)
    looking = channel_of(node)  # An alarm holds connections that have published.
    for name in QUEUES:
        ready_count(looking, name)
    assert node.rss_bytes() < RSS_BYTES_MAX

    node.kill9()
    node.start()
    channel = channel_of(node)
    for name in QUEUES:
        channel.queue_delete(name)
    assert node.rss_bytes() < RSS_BYTES_MAX


@pytest.mark.parametrize(
    "node", [{"limits.dead_letter_hops_max": "2"}], indirect=True, ids=["two-hops"]
)
def test_a_letter_over_the_limit_of_hops_is_dropped_logged_and_counted(node: Node) -> None:
    channel = channel_of(node)
    for number in range(4):
        arguments = {
            "x-message-ttl": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"q{number + 1}",
        }
        channel.queue_declare(f"q{number}", arguments=arguments)
    channel.queue_declare("q4")
    channel.basic_publish("", "q0", b"too far")
    channel.basic_publish("", "q2", b"near enough")

    def found() -> list[bytes]:
        _, _, body = channel.basic_get("q4", auto_ack=True)
        return [] if body is None else [body]

    assert eventually(found) == [b"near enough"]

    def dropped() -> bool:
        return node.metrics().get('warren_dead_letters_dropped_total{rule="hops"}') == 1

    eventually(dropped)
    assert "dead-lettered more than 2 times in a row; messages are dropped" in node.log()
    assert ready_count(channel, "q4") == 0
