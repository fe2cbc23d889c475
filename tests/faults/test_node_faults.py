"""What a real node does when its disk fails, hangs or cannot be read, as its clients see it."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from node.cli.warrenctl import main as warrenctl
from tests.conformance import raw
from tests.conformance.raw import RawClient
from tests.faults.nodes import (
    PATIENCE_SECONDS,
    FaultyNode,
    Publisher,
    build_library,
    closed_with,
    connect,
    consume,
    end_of,
    long,
)
from tests.waiting import eventually, within
from warren.testing import Node, NodeFailed

PROMPT_SECONDS: Final = 1.5  # less than the sync takes, however busy the machine is
QUEUE_DECLARE: Final = (50, 10)
QUEUE_DECLARE_OK: Final = (50, 11)
DURABLE: Final = 2  # flags of queue.declare
DURABLE_NO_WAIT: Final = 18
MIB: Final = 1024 * 1024
MANY_SECONDS: Final = 100.0  # for thousands of definitions, on a busy machine

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a disk fail."""
    return build_library(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def faulty(tmp_path: Path, library: Path) -> Iterator[FaultyNode]:
    """A running node on a disk that fails on order."""
    made = FaultyNode(tmp_path, library)
    with made.node:
        yield made


@pytest.fixture(scope="module")
def sturdy(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[FaultyNode]:
    """The same, for tests after which it is well again; it ends as it should."""
    made = FaultyNode(tmp_path_factory.mktemp("enduring"), library)
    with made.node as node:
        yield made
        made.order()
        node.stop()


@pytest.fixture
def enduring(sturdy: FaultyNode) -> Iterator[FaultyNode]:
    """That one, on a disk that is well again after the test, also after one that fails."""
    yield sturdy
    sturdy.order()


def declare(node: Node, *queues: str, **arguments: object) -> None:
    connection = connect(node)
    channel = connection.channel()
    for queue in queues:
        channel.queue_declare(queue, durable=True, arguments=arguments)
    connection.close()


@pytest.mark.parametrize(
    ("order", "text"),
    [
        pytest.param(
            "write wal- 28 0 half",
            r"\[Errno 28\] No space left on device: '.*/wal-\d{20}\.log'",
            marks=long,
        ),
        ("sync wal- 5 0 all", r"\[Errno 5\] Input/output error: '.*/wal-\d{20}\.log'"),
    ],
    ids=["a short write", "a failed sync"],
)
def test_a_log_that_fails_ends_the_node_and_what_was_confirmed_is_there_after_it(
    faulty: FaultyNode, order: str, text: str
) -> None:
    node = faulty.node
    declare(node, "q")
    publisher = Publisher(node, "q", 1000)
    eventually(lambda: publisher.confirmed >= 50, lambda: publisher.confirmed)
    faulty.order(order)
    assert end_of(node) == 1
    last = node.log().strip().splitlines()[-1]
    assert re.search(f"the write-ahead log failed, the node stops: {text}$", last), last
    publisher.stop()
    faulty.order()
    node.start()
    count = node.api("GET", "/api/queues/%2F/q")["messages"]
    found = consume(node, "q", count)
    assert found[: publisher.confirmed] == list(range(1, publisher.confirmed + 1))
    assert set(found[publisher.confirmed :]) <= {publisher.confirmed + 1}
    node.stop()


def longest_wait(node: Node, seconds: float) -> float:
    """Transient messages through a queue, and the API, for so long: the longest that one took."""
    connection = connect(node)
    channel = connection.channel()
    longest = 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        channel.basic_publish("", "quick", b"x")
        while channel.basic_get("quick", auto_ack=True)[0] is None:
            assert time.monotonic() - begun < PATIENCE_SECONDS
        assert node.api("GET", "/api/nodes/faults")["running"]
        longest = max(longest, time.monotonic() - begun)
    connection.close()
    return longest


def send_until_stuck(node: Node, queue: str, limit: int) -> int:
    """Publish persistent messages without reading a thing until the node reads no more."""
    flood = RawClient(node.host, node.port).begin_channel()
    flood.socket.settimeout(0.5)
    header = raw.content_header(1, 65_000, b"\x10\x00\x02")
    message = raw.publish_method(1, "", queue) + header + raw.body(1, bytes(65_000))
    sent = 0
    try:
        while sent < limit:
            sent += flood.socket.send(message[sent % len(message) :])
    except TimeoutError:
        return sent
    finally:
        flood.socket.close()
    return sent


def test_while_a_sync_takes_two_seconds_only_confirms_wait(enduring: FaultyNode) -> None:
    node = enduring.node
    declare(node, "slow", "quick")
    publisher = Publisher(node, "slow", 1000, count=1)
    publisher.join(PATIENCE_SECONDS)
    before_bytes = node.rss_bytes()
    enduring.order("sync wal- 0 2000 no")

    def wait_beside_a_sync() -> float:
        begun = time.monotonic()
        waiting = Publisher(node, "slow", 1000, count=1)
        longest = longest_wait(node, 1.5)
        waiting.join(PATIENCE_SECONDS)
        assert waiting.confirmed == 1
        assert time.monotonic() - begun >= 2.0
        return longest

    within(PROMPT_SECONDS, wait_beside_a_sync)
    assert send_until_stuck(node, "slow", 100 * MIB) < 40 * MIB
    within(PROMPT_SECONDS, lambda: longest_wait(node, 0.5))
    assert node.rss_bytes() - before_bytes < 64 * MIB
    shown = node.metrics()
    within_a_second = shown['warren_loop_turn_ms_bucket{le="1000.0"}']
    assert within_a_second == shown["warren_loop_turn_ms_count"], "a turn waited for the sync"
    assert (
        shown['warren_wal_sync_seconds_bucket{le="0.5"}'] < shown["warren_wal_sync_seconds_count"]
    )
    enduring.order()


def test_without_space_for_the_reserve_publishers_wait_and_consumers_go_on(
    enduring: FaultyNode,
) -> None:
    node = enduring.node
    declare(node, "many")
    publisher = Publisher(node, "many", 20_000)
    eventually(lambda: publisher.confirmed >= 10, lambda: publisher.confirmed)
    enduring.order("create tmp- 28 0 no")
    eventually(lambda: bool(publisher.blocked_reasons), lambda: publisher.confirmed)
    assert publisher.blocked_reasons == ["low on disk"]
    shown = node.api("GET", "/api/nodes/faults")
    assert (shown["disk_free_alarm"], shown["mem_alarm"]) == (True, False)
    (detail,) = shown["alarm_details"]
    assert re.search(r"^reserve of the log: \[Errno 28\] .*/tmp-\d{20}\.log'$", detail)
    with pytest.raises(NodeFailed, match=": 503 "):
        node.api("GET", "/api/health/checks/local-alarms")
    count = publisher.confirmed
    assert consume(node, "many", count) == list(range(1, count + 1))
    hits = enduring.hits()
    eventually(lambda: enduring.hits() > hits, enduring.hits)  # It is tried again by itself.
    enduring.order()
    eventually(lambda: publisher.unblocked > 0, lambda: node.api("GET", "/api/nodes/faults"))
    eventually(lambda: publisher.confirmed >= count + 10, lambda: publisher.confirmed)
    publisher.stop()
    eventually(
        lambda: node.api("GET", "/api/nodes/faults")["alarm_details"] == [],
        lambda: node.api("GET", "/api/nodes/faults"),
    )
    lines = [line for line in node.log().splitlines() if "alarms: reserve of the log" in line]
    # Once, or more often where a file of what was consumed was the reserve for a while.
    over = [line.endswith("the fault is over") for line in lines]
    assert over, "nothing was said"
    assert over == [False, True] * (len(lines) // 2), lines


@pytest.mark.parametrize("size", [1000, 100_000], ids=["cached", "past the cache"])
def test_bodies_that_cannot_be_read_close_the_channel_that_waits_and_nothing_else(
    enduring: FaultyNode, size: int
) -> None:
    node = enduring.node
    said = len(node.log())
    declare(node, "lazy", **{"x-queue-mode": "lazy"})
    declare(node, "quick")
    for queue in ("lazy", "quick"):
        publisher = Publisher(node, queue, size, count=5)
        publisher.join(PATIENCE_SECONDS)
        assert publisher.confirmed == 5
    enduring.order("read wal- 5 0 no")
    text = "INTERNAL_ERROR - messages of queue 'lazy' in vhost '/' cannot be read"
    for attempt in range(6):
        assert closed_with(node, "lazy", by_get=attempt % 2 == 1) == (541, text)
    shown = node.api("GET", "/api/queues/%2F/lazy")
    assert (shown["state"], shown["messages_ready"]) == ("down", 5)
    assert "[Errno 5] Input/output error" in shown["reason"]
    assert consume(node, "quick", 5) == [1, 2, 3, 4, 5]
    assert node.api("GET", "/api/queues/%2F/quick")["state"] == "running"
    lines = [line for line in node.log()[said:].splitlines() if "a message at offset" in line]
    assert 1 <= len(lines) == len(set(lines)) <= 5, lines
    assert not node.api("GET", "/api/nodes/faults")["disk_free_alarm"]
    enduring.order()
    connection = connect(node)
    method, _, _ = connection.channel().basic_get("lazy")
    assert not method.redelivered, "it was never delivered"
    connection.close()
    assert consume(node, "lazy", 5) == [1, 2, 3, 4, 5]
    assert node.api("GET", "/api/queues/%2F/lazy")["state"] == "running"


def publish_together(node: Node, queue: str, bodies: list[bytes]) -> None:
    """Persistent messages that come in one piece, and so are one for the log."""
    persistent = b"\x10\x00\x02"
    client = RawClient(node.host, node.port, PATIENCE_SECONDS).begin_channel()
    sent = b"".join(
        raw.publish_method(1, "", queue) + raw.content_header(1, len(body), persistent)
        + raw.body(1, body)
        for body in bodies
    )  # fmt: skip
    client.send(sent)
    eventually(
        lambda: node.api("GET", f"/api/queues/%2F/{queue}")["messages_ready"] == len(bodies),
        lambda: node.api("GET", f"/api/queues/%2F/{queue}"),
    )
    client.socket.close()


def place_of(node: Node, text: bytes) -> int:
    """Where it is in the one file of the log that has it."""
    found = [path.read_bytes().find(text) for path in (node.data_dir / "log").glob("wal-*.log")]
    (place,) = [place for place in found if place >= 0]
    return place


def bodies_of(node: Node, queue: str, count: int) -> list[bytes]:
    connection = connect(node)
    channel = connection.channel()
    found: list[bytes] = []
    while len(found) < count:
        _, _, body = channel.basic_get(queue, auto_ack=True)
        assert body is not None
        found.append(body)
    connection.close()
    return found


def test_messages_of_a_quorum_queue_that_cannot_be_read_are_passed_over(
    faulty: FaultyNode,
) -> None:
    node = faulty.node
    skip = "/api/queues/%2F/held/skip_unreadable"
    declare(node, "held", **{"x-queue-type": "quorum"})
    bodies = [b"held-%d." % number * 1000 for number in range(5)]
    publish_together(node, "held", bodies)
    node.kill9()
    node.start()  # Now they are on disk alone.
    faulty.order(f"read wal- 5 0 {place_of(node, bodies[2][:60])}")
    text = "INTERNAL_ERROR - messages of queue 'held' in vhost '/' cannot be read"
    assert closed_with(node, "held", by_get=True) == (541, text)
    assert node.api("POST", skip, {})["skipped"] == 1
    assert bodies_of(node, "held", 4) == [bodies[each] for each in (0, 1, 3, 4)]
    node.stop()
    faulty.order()
    node.start()
    assert node.api("GET", "/api/queues/%2F/held")["messages"] == 0


def test_messages_that_cannot_be_read_are_passed_over_and_no_others(
    faulty: FaultyNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node = faulty.node
    skip = "/api/queues/%2F/held/skip_unreadable"
    declare(node, "grave")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
    declare(node, "held", **{"x-queue-mode": "lazy"}, **dead)
    bodies = [b"held-%d." % number * 1000 for number in range(7)]
    publish_together(node, "held", bodies)
    assert node.api("POST", skip, {}) == {"skipped": 0, "messages": []}
    places = [place_of(node, body[:60]) for body in (bodies[2], bodies[5])]
    faulty.order(f"read wal- 5 0 {places[0]}")
    text = "INTERNAL_ERROR - messages of queue 'held' in vhost '/' cannot be read"
    assert closed_with(node, "held") == (541, text)
    assert node.api("GET", "/api/queues/%2F/held")["state"] == "down"
    assert node.api("POST", skip, {}) == {"skipped": 1, "messages": [3]}
    assert node.api("GET", "/api/queues/%2F/held")["state"] == "running"
    faulty.order(f"read wal- 5 0 {places[1]}")
    command = ["--node-url", node.management_url, "--formatter", "json", "skip_unreadable"]
    assert warrenctl([*command, "held"]) == 0
    assert json.loads(capsys.readouterr().out) == {"skipped": 1, "messages": "6"}
    assert bodies_of(node, "held", 5) == [bodies[each] for each in (0, 1, 3, 4, 6)]
    shown = node.api("GET", "/api/queues/%2F/held")
    assert (shown["state"], shown["messages"]) == ("running", 0)
    assert node.api("GET", "/api/queues/%2F/grave")["messages"] == 0
    lines = [line for line in node.log().splitlines() if "were taken out" in line]
    assert [line.rpartition(": ")[2] for line in lines] == ["3", "6"]
    audited = [line for line in node.log().splitlines() if "skip_unreadable" in line]
    outcomes = [line.rpartition("200: ")[2] for line in audited]
    assert outcomes == ["no message", "messages 3", "messages 6"]


def declare_many(node: Node, first: int, end: int) -> None:
    """Durable queues, without waiting for each; all are there on return."""
    client = RawClient(node.host, node.port, MANY_SECONDS).begin_channel()
    for number in range(first, end - 1):
        name = b"many-%d" % number
        arguments = bytes([0, 0, len(name)]) + name + bytes([DURABLE_NO_WAIT, 0, 0, 0, 0])
        client.send(raw.method(1, QUEUE_DECLARE, arguments))
    last = b"many-%d" % (end - 1)
    arguments = bytes([0, 0, len(last)]) + last + bytes([DURABLE, 0, 0, 0, 0])
    client.send(raw.method(1, QUEUE_DECLARE, arguments)).expect(QUEUE_DECLARE_OK)
    client.socket.close()


@long
@pytest.mark.timeout(300)
def test_a_keyed_store_that_cannot_be_synced_is_made_up_for_and_nothing_is_lost(
    faulty: FaultyNode,
) -> None:
    node = faulty.node
    faulty.order("sync /keyed/ 5 0 no")
    declare_many(node, 0, 4_500)  # More than the entries after which the definitions are saved.
    eventually(lambda: bool(node.api("GET", "/api/nodes/faults")["alarm_details"]), faulty.hits)
    (detail,) = node.api("GET", "/api/nodes/faults")["alarm_details"]
    assert detail.startswith("keyed state: ")
    hits = faulty.hits()
    eventually(lambda: faulty.hits() > hits, faulty.hits)
    node.kill9()
    faulty.order()
    node.start()
    assert node.api("GET", "/api/overview")["object_totals"]["queues"] == 4_500
    faulty.order("sync /keyed/ 28 0 no")
    declare_many(node, 4_500, 9_000)
    eventually(lambda: bool(node.api("GET", "/api/nodes/faults")["alarm_details"]), faulty.hits)
    faulty.order()
    eventually(lambda: not node.api("GET", "/api/nodes/faults")["alarm_details"], faulty.hits)
    node.kill9()
    node.start()
    assert node.api("GET", "/api/overview")["object_totals"]["queues"] == 9_000
    node.stop()


@long
def test_a_body_that_cannot_be_read_uses_up_no_deliveries_of_a_quorum_queue(
    faulty: FaultyNode,
) -> None:
    node = faulty.node
    declare(node, "quorum", **{"x-queue-type": "quorum", "x-delivery-limit": 1})
    publisher = Publisher(node, "quorum", 1000, count=3)
    publisher.join(PATIENCE_SECONDS)
    assert publisher.confirmed == 3
    node.restart()  # Its bodies are on disk alone now.
    faulty.order("read wal- 5 0 no")
    for attempt in range(6):
        assert closed_with(node, "quorum", by_get=attempt % 2 == 1)[0] == 541
    faulty.order()
    assert consume(node, "quorum", 3) == [1, 2, 3]
    node.stop()
