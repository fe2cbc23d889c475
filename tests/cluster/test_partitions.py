"""What clients see on both sides of a partition: a minority confirms nothing, and says so."""

import asyncio
import os
from typing import Final

import pytest

from warren.client import ClientError, amqp091, connect
from warren.testing import ClusterOfNodes

QUIET_S: Final = 2.5
PATIENCE_S: Final = 60.0
LONG: Final = os.environ.get("WARREN_LONG") == "1"
long = pytest.mark.skipif(not LONG, reason="takes long: `make chaos` runs it")
pytestmark = pytest.mark.timeout(240)


async def declare(url: str, queue: str, type_: str = "quorum") -> None:
    async with await amqp091.connect(url) as connection:
        management = await connection.management()
        await management.declare_queue(queue, arguments={"x-queue-type": type_})


async def leadership(url: str, queue: str) -> tuple[object, object]:
    """Who leads the queue, and the number of that leadership: each election has a higher one."""
    async with await connect(url, follow=None) as connection:
        management = await connection.management()
        topology = await management.topology(queue)
    return topology["leader"], topology["leader_epoch"]


def test_a_minority_confirms_nothing_and_the_majority_goes_on(
    proxied_cluster: ClusterOfNodes,
) -> None:
    async def story() -> None:
        await declare(proxied_cluster.node(1).url, "split")
        async with (
            await amqp091.connect(proxied_cluster.node(1).url) as alone,
            await amqp091.connect(proxied_cluster.node(2).url) as together,
        ):
            lonely = await alone.publisher("", "split")
            lucky = await together.publisher("", "split")
            assert (await lonely.publish(amqp091.Message(b"before"))).is_accepted
            await asyncio.to_thread(proxied_cluster.links.isolate, 1)
            waiting = lonely.send(amqp091.Message(b"alone"))
            async with asyncio.timeout(PATIENCE_S):
                assert (await lucky.publish(amqp091.Message(b"together"))).is_accepted
            await asyncio.wait([waiting], timeout=QUIET_S)
            assert not waiting.done() or not waiting.result().is_accepted
            await asyncio.to_thread(proxied_cluster.links.heal)
            async with asyncio.timeout(PATIENCE_S):
                await waiting  # Confirmed or refused, now that there is a majority.
                assert (await lonely.publish(amqp091.Message(b"after"))).is_accepted

    try:
        asyncio.run(story())
    finally:
        proxied_cluster.links.heal()


def test_definitions_cannot_change_in_a_minority_and_can_again_when_it_is_whole(
    proxied_cluster: ClusterOfNodes,
) -> None:
    async def story() -> None:
        await asyncio.to_thread(proxied_cluster.links.isolate, 3)
        with pytest.raises((ClientError, TimeoutError)):
            async with asyncio.timeout(QUIET_S):
                await declare(proxied_cluster.node(3).url, "never")
        await declare(proxied_cluster.node(1).url, "always")
        await asyncio.to_thread(proxied_cluster.links.heal)
        async with asyncio.timeout(PATIENCE_S):
            await declare(proxied_cluster.node(3).url, "later")

    try:
        asyncio.run(story())
    finally:
        proxied_cluster.links.heal()


@long
def test_a_narrow_link_under_full_load_makes_no_election(proxied_cluster: ClusterOfNodes) -> None:
    """1 MB/s to one follower, as much load as two nodes can take, for a minute."""

    async def story() -> None:
        await declare(proxied_cluster.node(1).url, "narrow")
        await asyncio.to_thread(proxied_cluster.links.narrow, 1, 3, 1000)
        async with await amqp091.connect(proxied_cluster.node(1).url) as connection:
            publisher = await connection.publisher("", "narrow")
            loop = asyncio.get_running_loop()
            messages = [publisher.encode(amqp091.Message(bytes(1000)))] * 500
            before: tuple[object, object] | None = None
            until = loop.time() + 60
            while loop.time() < until:
                async with asyncio.timeout(PATIENCE_S):
                    outcomes = await publisher.send_encoded(messages)
                assert all(each.is_accepted for each in outcomes)
                before = before or await leadership(proxied_cluster.node(2).url, "narrow")
        assert await leadership(proxied_cluster.node(2).url, "narrow") == before

    try:
        asyncio.run(story())
    finally:
        proxied_cluster.links.heal()
