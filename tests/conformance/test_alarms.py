"""Resource alarms: publishers wait, and nothing else does."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pika
import pytest

from tests.conformance.broker import channel_closed, drain, numbered, ready_count
from tests.conformance.raw import HEARTBEAT, RawClient, frame
from tests.conformance.raw10 import Raw10
from tests.conformance.test_stream_frames import Client, number, text
from tests.waiting import eventually
from warren.testing import Node, free_port
from warren.testing.http_api import HttpApi
from warren.wire.stream import codes
from warren.wire.stream.frames import FrameWriter

QUEUE: Final = "orders"
STREAM_PORT: Final = free_port()

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="alarms", settings={"listeners.stream": f"127.0.0.1:{STREAM_PORT}"}) as started:
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


def test_a_redrive_is_refused_and_a_rehearsal_of_it_is_not(node: Node, channel: Any) -> None:
    channel.basic_publish("", QUEUE, b"stays")
    eventually(lambda: ready_count(channel, QUEUE) == 1)
    set_alarm(node, True)
    api = HttpApi(node.management_url)
    path, order = f"/queues/%2F/{QUEUE}/redrive", {"exchange": "amq.fanout"}
    reason = "publishing is blocked by a resource alarm: low on memory"
    assert api.refused("POST", path, order) == (503, reason)
    assert api.post(path, {**order, "dry_run": True})["kept"] == 1
    assert ready_count(channel, QUEUE) == 1


def test_a_retroactive_exchange_copies_nothing(node: Node, channel: Any) -> None:
    exchange, late = "keeps", "late"
    channel.exchange_declare(exchange, "fanout", arguments={"x-retroactive-message-count": 5})
    channel.queue_declare(late)
    api = HttpApi(node.management_url)

    def kept() -> list[int]:
        rings = [row for row in api.get("/queues") if row["name"].startswith("amq.retroactive.")]
        return [row["messages"] for row in rings]

    eventually(lambda: kept() == [0])
    channel.basic_publish(exchange, "", b"kept")
    eventually(lambda: kept() == [1])
    set_alarm(node, True)
    with pika.BlockingConnection(pika.URLParameters(node.url)) as other:
        reason = (
            "PRECONDITION_FAILED - queue 'late' in vhost '/' cannot get what exchange 'keeps' "
            "keeps: publishing is blocked by a resource alarm: low on memory"
        )
        with channel_closed(406, reason):
            other.channel().queue_bind(late, exchange)
        set_alarm(node, False)
        other.channel().queue_bind(late, exchange)
    eventually(lambda: ready_count(channel, late) == 1)
    channel.queue_delete(late)
    channel.exchange_delete(exchange)


def test_a_shovel_waits_until_the_alarm_is_over(node: Node, channel: Any) -> None:
    target, api = "shovelled", HttpApi(node.management_url)
    channel.queue_declare(target)
    for body in numbered(3):
        channel.basic_publish("", QUEUE, body)
    eventually(lambda: ready_count(channel, QUEUE) == 3)
    set_alarm(node, True)
    uris = {"src-uri": node.url, "dest-uri": node.url}
    ends = {**uris, "src-queue": QUEUE, "dest-queue": target}
    api.put("/parameters/shovel/%2F/held", {"value": ends})
    eventually(lambda: "blocked" in [row["state"] for row in api.get("/connections")])
    assert ready_count(channel, target) == 0
    set_alarm(node, False)
    eventually(lambda: ready_count(channel, target) == 3)
    api.delete("/parameters/shovel/%2F/held")
    channel.queue_delete(target)


def test_the_first_publish_of_the_stream_protocol_is_held(node: Node) -> None:
    set_alarm(node, True)
    client = Client(STREAM_PORT)
    client.open()
    assert client.ask(codes.CREATE, text("held"), number(0, 4)).u16() == codes.OK
    declare = number(1, 1) + text("") + text("held")
    assert client.ask(codes.DECLARE_PUBLISHER, declare).u16() == codes.OK
    client.send(FrameWriter(codes.PUBLISH).u8(1).u32(1).u64(7).blob(b"x"))
    client.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        client.receive()
    assert HttpApi(node.management_url).get("/queues/%2F/held")["messages"] == 0
    client.socket.settimeout(15)
    set_alarm(node, False)
    confirmed = client.receive()
    assert confirmed is not None and confirmed.key == codes.PUBLISH_CONFIRM
    assert client.ask(codes.DELETE, text("held")).u16() == codes.OK
    client.close()


def beats091(node: Node) -> Iterator[None]:
    """Read the heartbeats of a connection with an interval of 1 s, one at a time."""
    with RawClient(node.host, node.port).begin(heartbeat=1) as client:
        while True:
            client.send(frame(HEARTBEAT, 0, b"")).read_heartbeat()
            yield


def beats10(node: Node) -> Iterator[None]:
    with Raw10(node.host, node.port) as client:
        client.open(idle_ms=1000)
        while True:
            assert client.take(8) == b"\x00\x00\x00\x08\x02\x00\x00\x00"
            yield


def beats_of_streams(node: Node) -> Iterator[None]:
    client = Client(STREAM_PORT)
    assert client.log_in() == codes.OK
    client.send(FrameWriter(codes.TUNE).u32(0).u32(1))
    assert client.ask(codes.OPEN, text("/")).u16() == codes.OK
    while True:
        client.send(FrameWriter(codes.HEARTBEAT))
        beat = client.receive()
        assert beat is not None and beat.key == codes.HEARTBEAT
        yield


@pytest.mark.parametrize("beats", [beats091, beats10, beats_of_streams])
def test_heartbeats_leave_at_half_their_interval(
    node: Node, beats: Callable[[Node], Iterator[None]]
) -> None:
    beat = beats(node)
    next(beat)
    gaps: list[float] = []
    while len(gaps) < 20 and (not gaps or min(gaps) > 0.7):
        begun = monotonic()
        next(beat)
        gaps.append(monotonic() - begun)
    # A busy machine delays heartbeats; with a tick of one second no gap is as short as this.
    assert min(gaps) <= 0.7
