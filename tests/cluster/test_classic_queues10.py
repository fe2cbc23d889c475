"""Classic queues of other nodes over AMQP 1.0: links, outcomes, management, a home that is down."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tests.conformance.raw10 import Raw10, attach_browser, browse
from warren.client import Message, connect
from warren.client.errors import RequestFailed
from warren.client.management import Management
from warren.testing import ClusterOfNodes


def play(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(40):
            await test()

    asyncio.run(whole())


@pytest.fixture
def name() -> str:
    return f"t-{uuid4().hex[:12]}"


def test_links_use_a_queue_of_another_node_like_one_of_their_own(
    shared_cluster: ClusterOfNodes, name: str
) -> None:
    async def test() -> None:
        urls = shared_cluster.urls
        async with (
            await connect(urls[0], follow=None) as home,
            await connect(urls[1], follow=None) as away,
        ):
            await (await home.management()).declare_queue(name)
            publisher = await away.publisher(f"/queues/{name}")
            sent = [Message(b"%d" % number) for number in range(500)]
            outcomes = await publisher.publish_many(sent)
            assert all(each.is_accepted for each in outcomes)
            management = await away.management()
            assert (await management.queue(name))["message_count"] == 500
            consumer = await away.consumer(f"/queues/{name}", credit=50)
            for message in sent[:-1]:
                delivery = await consumer.get(timeout_s=5)
                assert delivery.message.body == message.body
                delivery.accept()
            (await consumer.get(timeout_s=5)).release()
            again = await consumer.get(timeout_s=5)
            assert again.message.body == b"499"
            await consumer.close()
            assert await management.delete_queue(name) == 1

    play(test)


def test_messages_cross_between_the_protocols_and_between_nodes(
    shared_cluster: ClusterOfNodes, name: str
) -> None:
    async def test() -> None:
        urls = shared_cluster.urls
        async with (
            await connect(urls[2], follow=None) as home,
            await connect(urls[0], follow=None) as away,
        ):
            management = await home.management()
            await management.declare_queue(name)
            publisher = await away.publisher(f"/queues/{name}")
            body = bytes(range(256)) * 4096
            assert (await publisher.publish(Message(body))).is_accepted
            consumer = await away.consumer(f"/queues/{name}", credit=0)
            [delivery] = await consumer.receive(timeout_s=5)
            assert delivery.message.body == body
            delivery.modify(annotations={"x-note": "seen"})
            [again] = await consumer.receive(timeout_s=5)
            assert again.message.annotations["x-note"] == "seen"
            again.accept()
            assert await management.purge_queue(name) == 0

    play(test)


async def is_unknown(management: Management, queue: str) -> bool:
    try:
        await management.queue(queue)
    except RequestFailed as error:
        assert error.status == 404
        return True
    return False


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_queue_of_another_node_is_browsed_in_order(
    shared_cluster: ClusterOfNodes, name: str, kind: str
) -> None:
    urls = shared_cluster.urls
    bodies = [b"%d" % number for number in range(100)]

    async def fill() -> None:
        async with await connect(urls[0], follow=None) as home:
            await (await home.management()).declare_queue(name, arguments={"x-queue-type": kind})
            publisher = await home.publisher(f"/queues/{name}")
            outcomes = await publisher.publish_many([Message(body) for body in bodies])
            assert all(each.is_accepted for each in outcomes)
        for url in urls:  # Each node knows of the queue.
            async with await connect(url, follow=None) as connection:
                management = await connection.management()
                while await is_unknown(management, name):
                    await asyncio.sleep(0.05)

    play(fill)
    for url in urls:
        place = urlsplit(url)
        assert place.hostname is not None
        assert place.port is not None
        with Raw10(place.hostname, place.port) as raw:
            raw.open()
            raw.begin()
            attach_browser(raw, name)
            assert browse(raw, 200) == (bodies, 200)
