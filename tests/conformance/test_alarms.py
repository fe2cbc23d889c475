"""Resource alarms: publishers wait, and nothing else does."""

import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pika
import pytest

from tests.conformance.broker import drain, numbered, ready_count
from tests.conformance.raw import HEARTBEAT, RawClient, frame
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.http_api import HttpApi

QUEUE: Final = "orders"

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="alarms") as started:
        yield started


@pytest.fixture
def channel(node: Node) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.queue_purge(QUEUE)
    yield channel
    set_alarm(node, False)
    connection.close()


def set_alarm(node: Node, is_on: bool) -> None:
    """Raise or clear the memory alarm by its limit."""
    limits = {"vm_memory_high_watermark": {"absolute": 0 if is_on else 1 << 40}}
    HttpApi(node.management_url).put(f"/nodes/{node.name}/limits", limits)


def used_percent(path: str) -> float:
    found = os.statvfs(path)
    used = found.f_blocks - found.f_bfree
    return 100 * used / (used + found.f_bavail)


def test_max_disk_usage_blocks_publishers_with_its_own_reason(tmp_path: Path) -> None:
    if used_percent(str(tmp_path)) < 2:
        pytest.skip("the disk of the tests is nearly empty")
    with Node(name="usage", settings={"addresses.max_disk_usage": "1"}) as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.url))
        reasons: list[str] = []
        connection.add_on_connection_blocked_callback(
            lambda _, frame: reasons.append(frame.method.reason)
        )
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        channel.basic_publish("", QUEUE, b"held")
        eventually(lambda: connection.process_data_events(0) or reasons)
        assert reasons == ["max-disk-usage exceeded"]
        (row,) = HttpApi(node.management_url).get("/nodes")
        assert row["disk_free_alarm"] is True
        assert "addresses.max_disk_usage is 1 %" in row["alarm_details"][0]


def connection_state(node: Node) -> str:
    (row,) = HttpApi(node.management_url).get("/connections")
    return str(row["state"])


def test_a_publisher_goes_on_consuming_until_its_next_publish(node: Node, channel: Any) -> None:
    for body in numbered(50):
        channel.basic_publish("", QUEUE, body)
    eventually(lambda: ready_count(channel, QUEUE) == 50)
    set_alarm(node, True)
    assert drain(channel, QUEUE) == numbered(50)
    assert connection_state(node) == "blocking"
    channel.basic_publish("", QUEUE, b"held")
    channel.connection.process_data_events(0)
    eventually(lambda: connection_state(node) == "blocked")
    set_alarm(node, False)
    eventually(lambda: ready_count(channel, QUEUE) == 1)


def test_the_first_publish_of_a_new_connection_is_held(node: Node, channel: Any) -> None:
    set_alarm(node, True)
    blocked: list[Any] = []
    with pika.BlockingConnection(pika.URLParameters(node.url)) as other:
        other.add_on_connection_blocked_callback(lambda _, frame: blocked.append(frame))
        publisher = other.channel()
        publisher.basic_publish("", QUEUE, b"held")
        while not blocked:
            other.process_data_events(1)
        assert blocked[0].method.reason == "low on memory"
        assert ready_count(channel, QUEUE) == 0
        set_alarm(node, False)
    eventually(lambda: ready_count(channel, QUEUE) == 1)


def test_publishing_over_http_is_refused_with_the_reason(node: Node, channel: Any) -> None:
    set_alarm(node, True)
    body = {"properties": {}, "routing_key": QUEUE, "payload": "x", "payload_encoding": "string"}
    path = "/exchanges/%2F/amq.default/publish"
    api = HttpApi(node.management_url)
    reason = "publishing is blocked by a resource alarm: low on memory"
    assert api.refused("POST", path, body) == (503, reason)
    set_alarm(node, False)
    assert api.post(path, body) == {"routed": True}


def test_heartbeats_leave_at_half_their_interval(node: Node) -> None:
    with RawClient(node.host, node.port).begin(heartbeat=1) as client:
        client.read_heartbeat()
        gaps: list[float] = []
        while len(gaps) < 20 and (not gaps or min(gaps) > 0.7):
            begun = monotonic()
            client.send(frame(HEARTBEAT, 0, b""))
            client.read_heartbeat()
            gaps.append(monotonic() - begun)
        # A busy machine delays heartbeats; with a tick of one second no gap is as short as this.
        assert min(gaps) <= 0.7
