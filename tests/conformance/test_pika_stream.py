"""Streams on one node with pika: read as often as one likes, from any offset."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pika
import pytest

from tests.conformance.broker import (
    GUEST,
    Broker,
    Inbox,
    channel_closed,
    connection_closed,
    numbered,
    publish_all,
    ready_count,
    settle_down,
    wait_until_ready,
)
from tests.conformance.options import declare
from warren.testing import Node
from warren.testing.http_api import HttpApi

Connect = Callable[..., Any]
STREAM = {"x-queue-type": "stream"}
COUNT = 300


@pytest.fixture
def stream(channel: Any, name: str) -> str:
    """A stream of this test."""
    return declare(channel, name, "stream")


def read(connect: Connect, stream: str, offset: Any, **arguments: Any) -> Inbox:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=COUNT)
    wanted = {"x-stream-offset": offset, **arguments}
    return Inbox(channel, stream, arguments=wanted)


def offsets(inbox: Inbox) -> list[int]:
    return [message.properties.headers["x-stream-offset"] for message in inbox.messages]


@pytest.mark.parametrize(
    ("attributes", "property_name"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
    ],
)
def test_a_stream_must_be_durable_shared_and_lasting(
    channel: Any, name: str, attributes: dict[str, bool], property_name: str
) -> None:
    text = f"PRECONDITION_FAILED - invalid property '{property_name}' for queue '{name}'"
    with channel_closed(406, f"{text} in vhost '/'"):
        channel.queue_declare(name, arguments=STREAM, **attributes)


def test_each_consumer_reads_all_messages_with_their_offsets(
    channel: Any, connect: Connect, stream: str
) -> None:
    publish_all(channel, stream, numbered(COUNT))
    for _ in range(2):
        inbox = read(connect, stream, "first")
        inbox.wait(COUNT)
        assert inbox.bodies == numbered(COUNT)
        assert offsets(inbox) == list(range(COUNT))


def test_properties_and_headers_of_messages_are_kept(
    channel: Any, connect: Connect, stream: str
) -> None:
    channel.confirm_delivery()
    properties = pika.BasicProperties(
        headers={"a": 1, "x-stream-offset": "mine"}, message_id="m", content_type="text/plain"
    )
    channel.basic_publish("", stream, b"body", properties, mandatory=True)
    message = read(connect, stream, 0).wait(1)[0]
    assert message.properties.headers == {"a": 1, "x-stream-offset": 0}
    assert (message.properties.message_id, message.routing_key) == ("m", stream)


@pytest.mark.parametrize(("wanted", "first"), [(0, 0), (7, 7), (299, 299)])
def test_a_consumer_begins_at_the_offset_that_it_names(
    channel: Any, connect: Connect, stream: str, wanted: int, first: int
) -> None:
    publish_all(channel, stream, numbered(COUNT))
    inbox = read(connect, stream, wanted)
    inbox.wait(COUNT - first)
    assert offsets(inbox) == list(range(first, COUNT))


def test_last_begins_with_the_last_chunk(channel: Any, connect: Connect, stream: str) -> None:
    publish_all(channel, stream, numbered(3))
    inbox = read(connect, stream, "last")
    assert inbox.wait(1)[0].body == b"3"


@pytest.mark.parametrize("wanted", ["next", None])
def test_next_and_no_offset_begin_with_what_is_published_later(
    channel: Any, connect: Connect, stream: str, wanted: Any
) -> None:
    publish_all(channel, stream, [b"old"])
    arguments = {} if wanted is None else {"x-stream-offset": wanted}
    consumer = connect().channel()
    consumer.basic_qos(prefetch_count=10)
    inbox = Inbox(consumer, stream, arguments=arguments)
    channel.basic_publish("", stream, b"new")
    inbox.wait(1)
    assert inbox.bodies == [b"new"]


def test_an_interval_and_a_timestamp_begin_with_chunks_that_are_not_older(
    channel: Any, connect: Connect, stream: str
) -> None:
    publish_all(channel, stream, numbered(10))
    assert read(connect, stream, "1h").wait(10)[0].body == b"1"
    early = datetime.fromtimestamp(time.time() - 60, UTC).replace(tzinfo=None)
    assert read(connect, stream, early).wait(10)[0].body == b"1"
    late = datetime.fromtimestamp(time.time() + 60, UTC).replace(tzinfo=None)
    inbox = read(connect, stream, late)
    publish_all(channel, stream, [b"behind"])
    inbox.wait(1)
    assert inbox.bodies == [b"behind"]


def publish_by_region(channel: Any, stream: str, count: int) -> None:
    """Messages of two regions and without one, in turns."""
    channel.confirm_delivery()
    for number in range(count):
        region = ("eu", "us", None)[number % 3]
        headers = {} if region is None else {"x-stream-filter-value": region}
        properties = pika.BasicProperties(headers=headers)
        channel.basic_publish("", stream, b"%d" % number, properties, mandatory=True)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"x-stream-filter": "eu"}, (0,)),
        ({"x-stream-filter": ["eu", "us"]}, (0, 1)),
        ({"x-stream-filter": "eu", "x-stream-match-unfiltered": True}, (0, 2)),
        ({"x-stream-filter": "asia"}, ()),
    ],
)
def test_a_filter_leaves_out_other_messages(
    channel: Any, connect: Connect, stream: str, arguments: dict[str, Any], wanted: tuple[int, ...]
) -> None:
    publish_by_region(channel, stream, 60)
    expected = [number for number in range(60) if number % 3 in wanted]
    inbox = read(connect, stream, "first", **arguments)
    channel.basic_publish(
        "", stream, b"end", pika.BasicProperties(headers={"x-stream-filter-value": "eu"})
    )
    at_end = 0 in wanted
    inbox.wait(len(expected) + at_end)
    assert offsets(inbox) == [*expected, *([60] if at_end else [])]


def test_a_filter_that_is_none_is_refused(connect: Connect, stream: str) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=1)
    with pytest.raises(
        pika.exceptions.ChannelClosedByBroker, match="invalid arg 'x-stream-filter'"
    ):
        Inbox(channel, stream, arguments={"x-stream-filter": 7})


def test_a_filter_skips_chunks_that_are_on_disk_alone(node: Node) -> None:
    broker = Broker("127.0.0.1", node.port, node)
    channel = broker.connect().channel()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    publish_by_region(channel, "s", 5000)
    node.kill9()
    node.start()
    inbox = read(broker.connect, "s", "first", **{"x-stream-filter": "us"})
    inbox.wait(COUNT)
    assert offsets(inbox) == [3 * number + 1 for number in range(COUNT)]


def test_prefetch_holds_deliveries_back_until_they_are_acknowledged(
    channel: Any, connect: Connect, stream: str
) -> None:
    publish_all(channel, stream, numbered(20))
    consumer = connect().channel()
    consumer.basic_qos(prefetch_count=5)
    inbox = Inbox(consumer, stream, arguments={"x-stream-offset": "first"})
    inbox.wait(5)
    consumer.connection.process_data_events(time_limit=0.1)
    assert len(inbox.messages) == 5
    consumer.basic_ack(inbox.tags[1], multiple=True)
    inbox.wait(7)
    for tag in inbox.tags[2:]:
        consumer.basic_nack(tag, requeue=True)
    inbox.wait(12)
    assert inbox.bodies == numbered(12)


@pytest.mark.parametrize("settle", ["nack", "reject", "recover"])
def test_messages_that_are_nacked_or_requeued_do_not_come_again(
    channel: Any, connect: Connect, stream: str, settle: str
) -> None:
    publish_all(channel, stream, numbered(20))
    reading = connect().channel()
    reading.basic_qos(prefetch_count=10)
    inbox = Inbox(reading, stream, arguments={"x-stream-offset": "first"})
    inbox.wait(10)
    if settle == "nack":
        reading.basic_nack(inbox.tags[9], multiple=True, requeue=True)
    elif settle == "reject":
        for tag in inbox.tags[:10]:
            reading.basic_reject(tag, requeue=True)
    else:
        reading.basic_recover(requeue=True)
    inbox.wait(20)
    assert inbox.bodies == numbered(20)
    assert read_all(connect, stream) == numbered(20)


def read_all(connect: Connect, stream: str) -> list[bytes]:
    inbox = read(connect, stream, "first")
    inbox.wait(20)
    return inbox.bodies


def test_a_consumer_at_the_end_gets_each_message_as_it_is_published(
    channel: Any, connect: Connect, stream: str
) -> None:
    inboxes = [read(connect, stream, "next") for _ in range(3)]
    publish_all(channel, stream, numbered(50))
    for inbox in inboxes:
        inbox.wait(50)
        assert inbox.bodies == numbered(50)


def test_what_a_stream_does_not_do_is_refused_as_in_rabbitmq(connect: Connect, stream: str) -> None:
    place = f"queue '{stream}' in vhost '/'"
    channel = connect().channel()
    text = f"NOT_IMPLEMENTED - basic.get not supported by stream queues {place}"
    with connection_closed(540, text):
        channel.basic_get(stream)
    channel = connect().channel()
    with connection_closed(
        540, f"NOT_IMPLEMENTED - queue.purge not supported by stream queues {place}"
    ):
        channel.queue_purge(stream)
    channel = connect().channel()
    text = f"PRECONDITION_FAILED - consumer prefetch count is not set for stream {place}"
    with channel_closed(406, text):
        Inbox(channel, stream)
    channel = connect().channel()
    channel.basic_qos(prefetch_count=1)
    text = f"NOT_IMPLEMENTED - automatic acknowledgement not supported by stream {place}"
    with connection_closed(540, text):
        Inbox(channel, stream, auto_ack=True)
    channel = connect().channel()
    channel.basic_qos(prefetch_count=1)
    with pytest.raises(
        pika.exceptions.ChannelClosedByBroker, match="invalid arg 'x-stream-offset'"
    ):
        Inbox(channel, stream, arguments={"x-stream-offset": "yesterday"})


def test_deleting_a_stream_cancels_its_consumers(
    channel: Any, connect: Connect, stream: str
) -> None:
    publish_all(channel, stream, [b"1"])
    consumer = connect().channel()
    consumer.basic_qos(prefetch_count=5)
    inbox = Inbox(consumer, stream, arguments={"x-stream-offset": "first"})
    inbox.wait(1)
    cancelled: list[Any] = []
    consumer.add_on_cancel_callback(cancelled.append)
    channel.queue_delete(stream)
    settle_down(consumer, lambda: bool(cancelled))


def test_a_listing_shows_counts_members_and_type(node: Node) -> None:
    broker = Broker("127.0.0.1", node.port, node)
    channel = broker.connect().channel()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    publish_all(channel, "s", numbered(30))
    read(broker.connect, "s", "first").wait(30)
    api = HttpApi(f"http://127.0.0.1:{node.management_port}")
    found = api.get("/queues/%2F/s")
    assert {key: found[key] for key in ("type", "messages", "consumers", "state")} == {
        "type": "stream",
        "messages": 30,
        "consumers": 1,
        "state": "running",
    }
    assert found["leader"] == found["node"] and found["members"] == [found["node"]]
    assert found["message_bytes"] > 0
    status, _ = api.refused("DELETE", "/queues/%2F/s/contents")
    assert status == 400
    asked = {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto"}
    status, answer = api.refused("POST", "/queues/%2F/s/get", asked)
    assert status == 400 and "540" in str(answer) and "basic.get not supported" in str(answer)


def test_totals_and_rates_cover_streams(node: Node) -> None:
    broker = Broker("127.0.0.1", node.port, node)
    channel = broker.connect().channel()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    publish_all(channel, "s", numbered(30))
    read(broker.connect, "s", "first").wait(30)
    api = HttpApi(f"http://127.0.0.1:{node.management_port}")
    overview, vhost = api.get("/overview"), api.get("/vhosts/%2F")
    assert overview["queue_totals"]["messages_ready"] == vhost["messages_ready"] == 30
    assert overview["object_totals"]["consumers"] == 1
    assert (vhost["message_stats"]["publish"], vhost["message_stats"]["deliver"]) == (30, 30)
    assert overview["message_stats"]["publish"] == 30
    stats = api.get("/queues/%2F/s")["message_stats"]
    assert (stats["publish"], stats["deliver"]) == (30, 30)


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(config=GUEST) as found:
        yield found


def test_a_stream_is_there_after_kill_9_and_goes_on(node: Node) -> None:
    broker = Broker("127.0.0.1", node.port, node)
    arguments = {**STREAM, "x-stream-max-segment-size-bytes": 20_000}
    channel = broker.connect().channel()
    channel.queue_declare("s", durable=True, arguments=arguments)
    publish_all(channel, "s", [b"%d" % number * 20 for number in range(COUNT)])
    node.kill9()
    node.start()
    channel = broker.connect().channel()
    publish_all(channel, "s", [b"behind"])
    inbox = read(broker.connect, "s", "first")
    settle_down(inbox.channel, lambda: len(inbox.messages) >= COUNT)
    inbox.channel.basic_ack(0, multiple=True)
    inbox.wait(COUNT + 1)
    assert offsets(inbox) == list(range(COUNT + 1))
    assert inbox.bodies == [*(b"%d" % number * 20 for number in range(COUNT)), b"behind"]


def test_a_policy_replaces_the_limits_of_a_stream_at_once(node: Node) -> None:
    broker = Broker("127.0.0.1", node.port, node)
    arguments = {
        **STREAM,
        "x-stream-max-segment-size-bytes": 10_000,
        "x-max-length-bytes": 50_000,
    }
    channel = broker.connect().channel()
    channel.queue_declare("s", durable=True, arguments=arguments)
    api = HttpApi(f"http://127.0.0.1:{node.management_port}")
    policy = {"pattern": "s", "apply-to": "streams", "definition": {"max-length-bytes": 200_000}}
    api.put("/policies/%2F/more", policy)
    publish_all(channel, "s", [b"x" * 1000] * COUNT)
    kept = ready_count(channel, "s")
    assert 150 < kept < 200
    policy["definition"] = {"max-length-bytes": 20_000, "max-age": "1h"}
    api.put("/policies/%2F/more", policy)
    settle_down(channel, lambda: ready_count(channel, "s") < 30)


def test_retention_by_size_cuts_the_oldest_segments(node: Node) -> None:
    broker = Broker("127.0.0.1", node.port, node)
    arguments = {
        **STREAM,
        "x-stream-max-segment-size-bytes": 10_000,
        "x-max-length-bytes": 50_000,
    }
    channel = broker.connect().channel()
    channel.queue_declare("s", durable=True, arguments=arguments)
    publish_all(channel, "s", [b"x" * 1000] * COUNT)
    inbox = read(broker.connect, "s", "first")
    settle_down(inbox.channel, lambda: bool(inbox.messages) and offsets(inbox)[-1] == COUNT - 1)
    assert COUNT - 60 < offsets(inbox)[0] < COUNT - 20
    assert offsets(inbox) == list(range(offsets(inbox)[0], COUNT))
    wait_until_ready(channel, "s", len(inbox.messages))


def test_the_last_segment_stays_whatever_the_limit(node: Node) -> None:
    broker = Broker("127.0.0.1", node.port, node)
    arguments = {**STREAM, "x-stream-max-segment-size-bytes": 10_000, "x-max-length-bytes": 100}
    channel = broker.connect().channel()
    channel.queue_declare("s", durable=True, arguments=arguments)
    publish_all(channel, "s", [b"x" * 1000] * 5)
    assert ready_count(channel, "s") == 5, "less than a segment"
    publish_all(channel, "s", [b"x" * 1000] * 40)
    settle_down(channel, lambda: 0 < ready_count(channel, "s") <= 10)
    inbox = read(broker.connect, "s", "first")
    settle_down(inbox.channel, lambda: bool(inbox.messages) and offsets(inbox)[-1] == 44)
    assert offsets(inbox) == list(range(45 - len(inbox.messages), 45))


def test_retention_by_age_cuts_segments_of_an_idle_stream(node: Node) -> None:
    broker = Broker("127.0.0.1", node.port, node)
    arguments = {**STREAM, "x-stream-max-segment-size-bytes": 10_000, "x-max-age": "1s"}
    channel = broker.connect().channel()
    channel.queue_declare("s", durable=True, arguments=arguments)
    publish_all(channel, "s", [b"x" * 1000] * 60)
    settle_down(channel, lambda: ready_count(channel, "s") <= 10)
    inbox = read(broker.connect, "s", "first")
    settle_down(inbox.channel, lambda: bool(inbox.messages) and offsets(inbox)[-1] == 59)
    assert offsets(inbox) == list(range(60 - len(inbox.messages), 60))
