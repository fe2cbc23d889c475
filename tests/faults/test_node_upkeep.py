"""What a real node does when files that are made, moved or removed beside the log fail on it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pika
import pytest

from tests.faults.nodes import (
    PATIENCE_SECONDS,
    FaultyNode,
    Publisher,
    build_library,
    closed_with,
    connect,
    consume,
    long,
)
from tests.waiting import eventually

BODY_BYTES: Final = 50_000
BUDGET_BYTES: Final = 1024 * 1024
TRANSIENT: Final = pika.BasicProperties(delivery_mode=1)

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[FaultyNode]:
    """A running node with little memory for bodies, on a disk that fails on order."""
    budget = {"memory.body_budget_bytes": str(BUDGET_BYTES)}
    made = FaultyNode(tmp_path, build_library(tmp_path), **budget)
    with made.node as node:
        channel = connect(node).channel()
        for queue in ("kept", "spent"):
            channel.queue_declare(queue, durable=True)
        channel.connection.close()
        yield made
        node.stop()


def test_transient_messages_outlast_page_files_that_cannot_be_written_or_read(
    faulty: FaultyNode,
) -> None:
    node = faulty.node
    publisher = Publisher(node, "spent", BODY_BYTES, properties=TRANSIENT)
    eventually(lambda: node.metrics()["warren_page_live_bytes"] > 0)
    faulty.order("write page- 28 0 no")
    (detail,) = eventually(faulty.alarms)
    assert re.search(r"^page files: \[Errno 28\] .*/page-\d{12}\.tmp'$", detail)
    eventually(lambda: bool(publisher.blocked_reasons))
    faulty.order()
    eventually(lambda: publisher.unblocked > 0, faulty.alarms)
    publisher.stop()
    faulty.order("read page- 5 0 no")
    text = "INTERNAL_ERROR - messages of queue 'spent' in vhost '/' cannot be read"
    assert closed_with(node, "spent") == (541, text)
    faulty.order()
    count = publisher.confirmed
    assert consume(node, "spent", count) == list(range(1, count + 1))
    assert faulty.alarms() == []


@long
@pytest.mark.parametrize(
    "order",
    [
        "unlink wal- 5 0 no",
        "rename tmp- 28 0 no",
        "write tmp- 28 0 no",
        "write tmp- 5 0 half",
        "sync tmp- 5 0 all",
    ],
)
def test_files_that_cannot_be_rewritten_or_go_stop_publishers_and_lose_nothing(
    faulty: FaultyNode, order: str
) -> None:
    node = faulty.node
    files = 6
    for _ in range(files):  # Of each file one message stays.
        for queue, count in (("kept", 1), ("spent", BUDGET_BYTES // BODY_BYTES)):
            Publisher(node, queue, BODY_BYTES, count=count).join(PATIENCE_SECONDS)
    faulty.order(order)
    count = files * (BUDGET_BYTES // BODY_BYTES)
    assert len(consume(node, "spent", count)) == count
    eventually(lambda: any(each.startswith("upkeep") for each in faulty.alarms()), faulty.alarms)
    publisher = Publisher(node, "spent", BODY_BYTES)
    eventually(lambda: bool(publisher.blocked_reasons), lambda: publisher.confirmed)
    faulty.order()
    eventually(lambda: publisher.unblocked > 0, faulty.alarms)
    publisher.stop()
    eventually(lambda: node.metrics()["warren_wal_compactions_finished_total"] > 0)
    assert node.metrics()["warren_wal_rewritten_bytes_total"] >= BODY_BYTES
    node.kill9()
    node.start()
    assert consume(node, "kept", files) == [1] * files
    assert consume(node, "spent", publisher.confirmed) == list(range(1, publisher.confirmed + 1))
