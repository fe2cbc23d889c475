"""Backlogs far larger than the memory for bodies: transient messages leave it and come back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pika
import pytest

from tests.conformance.broker import Inbox, drain, publish_all, ready_count, settle_down, take
from warren.testing import Node

COUNT: Final = 1500
SIZE: Final = 8000

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that keeps 1 MiB of bodies in memory."""
    place = tmp_path_factory.mktemp("paging")
    settings = {"memory.body_budget_bytes": str(1024 * 1024)}
    with Node(name="paging", data_dir=place, settings=settings) as started:
        yield started


@pytest.fixture
def channel(node: Node) -> Iterator[Any]:
    with pika.BlockingConnection(pika.URLParameters(node.url)) as connection:
        yield connection.channel()


def message(number: int) -> bytes:
    return b"%d:" % number + bytes([number % 251]) * (SIZE + number % 7)


def publish(channel: Any, queue: str, count: int = COUNT, **others: Any) -> None:
    """Transient messages with numbers from 0 on, but for every fourth, which is persistent."""
    for number in range(count):
        mode = 2 if number % 4 == 0 else 1
        properties = pika.BasicProperties(delivery_mode=mode, **others)
        channel.basic_publish("", queue, message(number), properties)
    settle_down(channel, lambda: ready_count(channel, queue) == count)


@pytest.mark.parametrize("arguments", [{}, {"x-queue-mode": "lazy"}], ids=["default", "lazy"])
def test_a_backlog_over_the_budget_comes_back_in_order_and_whole(
    node: Node, channel: Any, arguments: dict[str, Any]
) -> None:
    name = f"backlog-{len(arguments)}"
    channel.queue_declare(name, durable=True, arguments=arguments)
    publish(channel, name)

    def is_paged_out() -> bool:
        """Bodies leave as fast as the disk takes them."""
        seen = node.api("GET", f"/api/queues/%2F/{name}")
        assert seen["messages_ram"] + seen["messages_paged_out"] == COUNT
        assert seen["messages_persistent"] == COUNT // 4
        assert 0 < seen["memory"] - seen["message_bytes_ram"] < 20_000  # Bodies, and the queue.
        is_most = seen["message_bytes_paged_out"] > seen["message_bytes_ram"]
        return bool(is_most and seen["messages_paged_out"] > COUNT // 4)

    settle_down(channel, is_paged_out)
    assert take(channel, name).body == message(0)
    inbox = Inbox(channel, name)
    inbox.wait(COUNT - 1)
    assert inbox.bodies == [message(number) for number in range(1, COUNT)]
    channel.basic_nack(0, multiple=True, requeue=True)  # All of them go back, to be had once more.
    inbox.wait(2 * COUNT - 1)
    assert inbox.bodies[COUNT - 1 :] == [message(number) for number in range(COUNT)]
    channel.queue_delete(name)


def test_paged_messages_expire_and_are_dead_lettered_whole(channel: Any) -> None:
    channel.queue_declare("grave", exclusive=True)
    to_grave = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
    channel.queue_declare("dying", arguments={"x-message-ttl": 1500, **to_grave})
    for number in range(COUNT):
        channel.basic_publish("", "dying", message(number))
    settle_down(channel, lambda: ready_count(channel, "grave") == COUNT)
    assert drain(channel, "grave") == [message(number) for number in range(COUNT)]
    channel.queue_delete("dying")


def test_purged_deleted_and_prioritized_backlogs(channel: Any) -> None:
    channel.queue_declare("levels", exclusive=True, arguments={"x-max-priority": 3})
    for number in range(COUNT):
        properties = pika.BasicProperties(priority=number % 3)
        channel.basic_publish("", "levels", message(number), properties)
    channel.queue_declare("purged", exclusive=True)
    publish(channel, "purged")
    assert channel.queue_purge("purged").method.message_count == COUNT
    numbers = [int(body.partition(b":")[0]) for body in drain(channel, "levels")]
    assert numbers == [n for level in (2, 1, 0) for n in range(COUNT) if n % 3 == level]


def test_a_restart_keeps_what_is_persistent_and_empties_the_page_files(node: Node) -> None:
    with pika.BlockingConnection(pika.URLParameters(node.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("kept", durable=True)
        publish(channel, "kept")
        channel.queue_declare("last", durable=True)
        publish_all(channel, "last", [b"its sync is that of all before"], persistent=True)
    pages = Path(node.data_dir) / "pages"
    before = {path.name for path in pages.iterdir()}
    assert before
    node.kill9()
    node.restart()
    with pika.BlockingConnection(pika.URLParameters(node.url)) as connection:
        channel = connection.channel()
        settle_down(channel, lambda: not before & {path.name for path in pages.iterdir()})
        kept = drain(channel, "kept")
        assert kept == [message(number) for number in range(0, COUNT, 4)]
        channel.queue_delete("kept")


def test_at_half_of_the_memory_watermark_bodies_leave_memory_whatever_the_budget() -> None:
    settings = {
        "memory.body_budget_bytes": str(1 << 32),
        "vm_memory_high_watermark.absolute": str(300_000_000),
    }
    body = bytes(100_000)
    with Node(name="pressed", settings=settings) as node:
        with pika.BlockingConnection(pika.URLParameters(node.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("pressed", exclusive=True)
            for number in range(1000):
                channel.basic_publish("", "pressed", b"%d:" % number + body)
            settle_down(channel, lambda: ready_count(channel, "pressed") == 1000)
            settle_down(channel, lambda: paged_out(node, "pressed") > 0)
            assert node.rss_bytes() < 300_000_000
            inbox = Inbox(channel, "pressed", auto_ack=True)
            inbox.wait(1000)
        assert inbox.bodies == [b"%d:" % number + body for number in range(1000)]


def paged_out(node: Node, queue: str) -> int:
    found = node.api("GET", f"/api/queues/%2F/{queue}")["messages_paged_out"]
    assert isinstance(found, int)
    return found
