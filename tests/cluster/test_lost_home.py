"""Classic queues whose home node dies: who is told what, and that they serve again (0036)."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.conformance.broker import Inbox, channel_closed, drain, publish_all, settle_down
from warren.client import Message, PeerError, RequestFailed, connect
from warren.testing import ClusterOfNodes

DOWN = "NOT_FOUND - home node 'n1' of durable queue 'q' in vhost '/' is down or inaccessible"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    with ClusterOfNodes(3, settings={"cluster.home_down_ms": "1000"}) as started:
        yield started


def channel_on(cluster: ClusterOfNodes, number: int) -> Any:
    return pika.BlockingConnection(pika.URLParameters(cluster.node(number).url)).channel()


def test_a_home_that_is_killed_is_said_to_be_down_and_serves_again_when_it_is_back(
    cluster: ClusterOfNodes,
) -> None:
    channel_on(cluster, 1).queue_declare("q", durable=True)
    using, publishing = channel_on(cluster, 2), channel_on(cluster, 3)
    publish_all(using, "q", [b"kept"], persistent=True)
    cancelled: list[Any] = []
    using.add_on_cancel_callback(cancelled.append)
    Inbox(using, "q")
    publishing.confirm_delivery()
    cluster.node(1).kill9()
    with pytest.raises(pika.exceptions.NackError):
        publishing.basic_publish("", "q", b"lost")
    settle_down(using, lambda: bool(cancelled))
    with channel_closed(404, DOWN):
        channel_on(cluster, 2).queue_declare("q", durable=True)
    with channel_closed(404, DOWN):
        channel_on(cluster, 2).queue_declare("q", passive=True)
    with channel_closed(404, DOWN):
        channel_on(cluster, 2).basic_consume("q", print)
    with channel_closed(404, DOWN):
        channel_on(cluster, 2).basic_get("q")
    cluster.node(1).start()
    publish_when_it_is_back(publishing, b"again")
    assert drain(using, "q") == [b"kept", b"again"]


def publish_when_it_is_back(channel: Any, body: bytes) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            channel.basic_publish("", "q", body)
            return
        except pika.exceptions.NackError:
            assert time.monotonic() < until
            channel.connection.sleep(0.05)


def test_links_to_a_queue_whose_home_is_killed_are_detached_and_publishes_rejected(
    cluster: ClusterOfNodes,
) -> None:
    async def test() -> None:
        async with await connect(cluster.urls[0], follow=None) as home:
            await (await home.management()).declare_queue("q")
        async with await connect(cluster.urls[1], follow=None) as away:
            publisher = await away.publisher("/queues/q")
            consumer = await away.consumer("/queues/q")
            cluster.node(1).kill9()
            with pytest.raises(PeerError) as detached:
                await consumer.get(timeout_s=20)
            assert detached.value.condition == "amqp:illegal-state"
            outcome = await publisher.publish(Message(b"lost"))
            assert outcome.error is not None
            assert outcome.error.condition == "amqp:precondition-failed"
            with pytest.raises(RequestFailed, match="is down or inaccessible"):
                await (await away.management()).queue("q")

    async def whole() -> None:
        async with asyncio.timeout(40):
            await test()

    asyncio.run(whole())


def test_a_queue_that_is_down_can_be_deleted_but_not_if_it_may_hold_messages(
    cluster: ClusterOfNodes,
) -> None:
    text = "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    with channel_closed(406, text):
        channel_on(cluster, 2).queue_delete("q", if_empty=True)
    channel_on(cluster, 2).queue_delete("q", if_unused=True)
    cluster.node(1).start()
    with channel_closed(404, "NOT_FOUND - no queue 'q' in vhost '/'"):
        channel_on(cluster, 1).queue_declare("q", passive=True)


def test_a_home_that_comes_back_without_its_disk_serves_its_queues_empty(
    cluster: ClusterOfNodes,
) -> None:
    channel_on(cluster, 1).queue_declare("q", durable=True)
    using = channel_on(cluster, 2)
    publish_all(using, "q", [b"lost with the disk"], persistent=True)
    cluster.node(1).kill9()
    cluster.node(1).wipe()
    cluster.node(1).start()
    publish_when_it_is_back(using, b"again")
    assert drain(channel_on(cluster, 3), "q") == [b"again"]
