"""A few messages that stay unacknowledged do not keep the log of what came and went beside them.

In the small (`bench/liveness.py` does it with millions): files of 1 MiB, 1 KB messages, every
500th stays with its consumer; looked at after each batch, and once more after a `kill -9`.
A disk that other tests keep busy delays compaction and the writing of acknowledgements, so both are
waited for.
"""

from collections.abc import Iterator
from typing import Any, Final

import pika
import pytest

from tests.waiting import eventually
from warren.testing import Node

FILE_BYTES: Final = 1024 * 1024
BATCH: Final = 500
BATCHES: Final = 14
SLACK_FILES: Final = 3  # two of the bound, and what is in flight


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(name="liveness", settings={"storage.wal_file_bytes": str(FILE_BYTES)}) as started:
        yield started


def connect(node: Node) -> Any:
    return pika.BlockingConnection(pika.URLParameters(node.url))


def excess_files(node: Node) -> float:
    """Full files on disk beyond three times the live records."""
    values = node.metrics()
    on_disk = values['warren_wal_bytes{kind="log"}'] + values['warren_wal_bytes{kind="segment"}']
    live = values["warren_wal_live_record_bytes"]
    return (on_disk - FILE_BYTES - 3 * live) / FILE_BYTES


def write_what_is_settled(connection: Any) -> None:
    """Publish to another queue with confirms: the log is synced in the order of its appends."""
    channel = connection.channel()
    channel.queue_declare("beside", durable=True)
    channel.confirm_delivery()
    for _ in range(10):  # Settlements alone are gathered for up to 5 ms before they are written.
        channel.basic_publish("", "beside", b"x", pika.BasicProperties(delivery_mode=2))


@pytest.mark.parametrize(
    "arguments",
    [{}, {"x-queue-mode": "lazy"}, {"x-queue-type": "quorum"}],
    ids=["classic", "lazy", "quorum"],
)
def test_what_stays_unacknowledged_keeps_little_else_on_disk(
    node: Node, arguments: dict[str, Any]
) -> None:
    connection = connect(node)
    channel = connection.channel()
    channel.queue_declare("q", durable=True, arguments=arguments)
    persistent = pika.BasicProperties(delivery_mode=2)
    publisher = connection.channel()
    for batch in range(BATCHES):
        for number in range(BATCH):
            body = b"%08d" % (batch * BATCH + number)
            publisher.basic_publish("", "q", body.ljust(1024, b"."), persistent)
        deliveries = channel.consume("q", inactivity_timeout=30)
        for taken in range(BATCH):
            method, _, _ = next(deliveries)
            assert method is not None, "nothing came for 30 s"
            if taken:
                channel.basic_ack(method.delivery_tag)
        eventually(lambda: excess_files(node) <= SLACK_FILES, lambda: excess_files(node))
    eventually(lambda: node.api("GET", "/api/queues/%2F/q")["messages"] == BATCHES)
    write_what_is_settled(connection)
    node.kill9()
    node.start()
    channel = connect(node).channel()
    bodies = [body[:8] for _, _, body in (channel.basic_get("q") for _ in range(BATCHES))]
    assert bodies == [b"%08d" % (batch * BATCH) for batch in range(BATCHES)]
