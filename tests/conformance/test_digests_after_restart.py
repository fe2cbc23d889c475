"""Classic queues know ids, last values, groups and redelivery delays again after a restart."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pika
import pytest

from tests.conformance.broker import Inbox, drain, numbered, settle_down
from warren.testing import Node

ID: Final = "_AMQ_DUPL_ID"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="digests", settings={"storage.wal_file_bytes": str(1 << 20)}) as running:
        yield running


@pytest.fixture
def open_one(node: Node) -> Iterator[Callable[[], Any]]:
    """Opens a channel with confirms on the node as it runs then."""
    opened: list[Any] = []

    def open_channel() -> Any:
        opened.append(pika.BlockingConnection(pika.URLParameters(node.url)))
        channel = opened[-1].channel()
        channel.confirm_delivery()
        return channel

    yield open_channel
    opened[-1].close()


def publish(channel: Any, queue: str, body: bytes, **headers: object) -> None:
    properties = pika.BasicProperties(delivery_mode=2, headers=dict(headers) or None)
    channel.basic_publish("", queue, body, properties)


def flush(channel: Any) -> None:
    """Have the acknowledgements so far durable: they are written with the next publish."""
    channel.queue_declare("flushed", durable=True)
    publish(channel, "flushed", b"")


@pytest.mark.parametrize("end", [Node.kill9, Node.stop])
def test_ids_of_consumed_and_of_waiting_messages_are_known_after_a_restart(
    node: Node, open_one: Callable[[], Any], end: Callable[[Node], None]
) -> None:
    channel = open_one()
    queue = f"ids-{end.__name__}"
    channel.queue_declare(queue, durable=True, arguments={"x-id-cache-size": 100})
    for number in range(1, 61):
        publish(channel, queue, b"%d" % number, **{ID: f"id-{number}"})
    for _ in range(50):
        channel.basic_get(queue, auto_ack=True)
    flush(channel)
    end(node)
    node.start()
    channel = open_one()
    for number in range(1, 63):
        publish(channel, queue, b"%d" % number, **{ID: f"id-{number}"})
    assert drain(channel, queue) == numbered(12, 51)


def test_ids_outlive_the_log_files_of_their_messages_and_the_oldest_are_forgotten(
    node: Node, open_one: Callable[[], Any]
) -> None:
    channel = open_one()
    channel.queue_declare("old", durable=True, arguments={"x-id-cache-size": 100})
    for number in range(1, 151):
        publish(channel, "old", b"%d" % number + bytes(50_000), **{ID: number})
        channel.basic_get("old", auto_ack=True)
    flush(channel)
    for again in (1, 2):  # What is written at the start is read at the next one.
        node.kill9()
        node.start()
        channel = open_one()
        publish(channel, "old", b"known", **{ID: 60})
        publish(channel, "old", b"known", **{ID: 150})
        publish(channel, "old", b"forgotten", **{ID: again})
        assert drain(channel, "old") == [b"forgotten"]
        flush(channel)


def test_deleted_queue_of_the_same_name_knows_no_ids(
    node: Node, open_one: Callable[[], Any]
) -> None:
    channel = open_one()
    arguments = {"x-id-cache-size": 100}
    channel.queue_declare("again", durable=True, arguments=arguments)
    publish(channel, "again", b"1", **{ID: "a"})
    channel.queue_delete("again")
    channel.queue_declare("again", durable=True, arguments=arguments)
    node.kill9()
    node.start()
    channel = open_one()
    publish(channel, "again", b"2", **{ID: "a"})
    assert drain(channel, "again") == [b"2"]


def test_last_values_from_before_a_restart_are_replaced(
    node: Node, open_one: Callable[[], Any]
) -> None:
    channel = open_one()
    channel.queue_declare("values", durable=True, arguments={"x-last-value-key": "symbol"})
    for number in range(300):
        publish(channel, "values", b"%d" % number, symbol=f"s{number % 150}")
    publish(channel, "values", b"without")
    node.kill9()
    node.start()
    channel = open_one()
    for number in range(100):
        publish(channel, "values", b"new-%d" % number, symbol=f"s{number}")
    expected = [b"%d" % number for number in range(250, 300)]
    assert drain(channel, "values") == [
        *expected,
        b"without",
        *(b"new-%d" % number for number in range(100)),
    ]


def test_message_that_waits_for_its_redelivery_waits_on_after_a_restart(
    node: Node, open_one: Callable[[], Any]
) -> None:
    channel = open_one()
    arguments = {"x-redelivery-delay": 600_000}
    channel.queue_declare("delayed", durable=True, arguments=arguments)
    publish(channel, "delayed", b"1")
    publish(channel, "delayed", b"2")
    channel.basic_nack(channel.basic_get("delayed")[0].delivery_tag, requeue=True)
    flush(channel)
    node.kill9()
    node.start()
    channel = open_one()
    assert drain(channel, "delayed") == [b"2"]
    assert channel.queue_purge("delayed").method.message_count == 1


def test_groups_of_messages_are_known_after_a_restart(
    node: Node, open_one: Callable[[], Any]
) -> None:
    channel = open_one()
    arguments = {"x-group-buckets": 64, "x-consumers-before-dispatch": 2}
    channel.queue_declare("groups", durable=True, arguments=arguments)
    for number in range(100):
        publish(channel, "groups", b"%d" % number, JMSXGroupID="one")
    node.kill9()
    node.start()
    channel = open_one()
    inboxes = [Inbox(channel.connection.channel(), "groups") for _ in range(2)]
    publish(channel, "groups", b"100", JMSXGroupID="one")
    settle_down(channel, lambda: max(len(inbox.messages) for inbox in inboxes) == 101)
    assert min(len(inbox.messages) for inbox in inboxes) == 0
