"""Where leaders are, as real nodes tell it, and the client that follows it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

from tests.waiting import until
from warren.client import (
    ConnectionLost,
    Follow,
    LinkState,
    Message,
    Publisher,
    amqp091,
    connect,
)
from warren.testing import ClusterOfNodes

QUICK = Follow(steady_s=0.0, pause_s=0.1)


def play(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(50):
            await test()

    asyncio.run(whole())


async def declare(url: str, queue: str, arguments: dict[str, object] | None = None) -> None:
    """A queue; a classic one has its home at that address."""
    async with await connect(url, follow=None) as connection:
        await (await connection.management()).declare_queue(queue, arguments=arguments)


def test_links_hear_where_the_home_of_their_queue_is_and_follow_it(
    shared_cluster: ClusterOfNodes,
) -> None:
    cluster = shared_cluster

    async def test() -> None:
        await declare(cluster.node(2).url, "hints")
        async with await connect(cluster.node(1).url, follow=QUICK) as connection:
            consumer = await connection.consumer("/queues/hints", credit=10)
            publisher = await connection.publisher("/queues/hints")
            await until(lambda: publisher.state.leader == "n2")
            following = connection.following
            assert following is not None
            for number in range(50):
                assert (await publisher.publish(Message(b"%d" % number))).is_accepted
            await until(lambda: following.moves == 2)
            for number in range(50, 100):
                assert (await publisher.publish(Message(b"%d" % number))).is_accepted
            bodies = []
            for _ in range(100):
                delivery = await consumer.get()
                bodies.append(delivery.message.body)
                delivery.accept()
            assert bodies == [b"%d" % number for number in range(100)]
            assert (publisher.state.local, consumer.state.local) == (True, True)
            assert list(following.others) == ["n2"]

    play(test)


def test_every_node_tells_the_same_topology(shared_cluster: ClusterOfNodes) -> None:
    cluster = shared_cluster

    async def test() -> None:
        await declare(cluster.node(3).url, "topology")
        for number in (1, 2, 3):
            node = cluster.node(number)
            async with await connect(node.url, follow=None) as connection:
                management = await connection.management()
                topology = await management.topology("topology")
                described = await management.queue("topology")
                nodes = await management.nodes()
            assert (topology["leader"], topology["local"]) == ("n3", number == 3)
            members = cast(list[dict[str, Any]], topology["members"])
            assert [each["node"] for each in members] == ["n3"]
            where = [f"amqp://127.0.0.1:{cluster.node(3).port}"]
            assert members[0]["endpoints"] == where
            assert topology["suggestions"] == ([] if number == 3 else where)
            assert described["leader"] == "n3"
            assert [each["name"] for each in nodes] == ["n1", "n2", "n3"]
            assert node.api("GET", "/api/queues/%2F/topology/topology")["leader"] == "n3"

    play(test)


def test_nodes_know_each_others_load(shared_cluster: ClusterOfNodes) -> None:
    cluster = shared_cluster

    async def test() -> None:
        async with await connect(cluster.node(1).url, follow=None) as connection:
            management = await connection.management()
            while True:
                loads = [each["load"] for each in await management.nodes()]
                assert len(loads) == 3
                if None not in loads:
                    break
                await asyncio.sleep(0.1)

    play(test)


def test_clients_of_0_9_1_are_told_where_to_look_leaders_up(
    shared_cluster: ClusterOfNodes,
) -> None:
    node = shared_cluster.node(2)

    async def test() -> None:
        async with await amqp091.connect(node.url) as connection:
            url = str(connection.server_properties["leader_lookup_url"])
        assert url == f"{node.management_url}/api/queues/{{vhost}}/{{queue}}/topology"

    play(test)


async def publish_on(publisher: Publisher, name: str, count: int, sure: set[bytes]) -> None:
    """Messages that are accepted are in `sure`; those that were lost with a connection are not."""
    for number in range(count):
        body = f"{name} {number} {len(sure)}".encode()
        with suppress(ConnectionLost):
            if (await publisher.publish(Message(body), timeout_s=15)).is_accepted:
                sure.add(body)


def test_another_leader_is_pushed_links_stay_or_follow_and_nothing_is_lost(
    shared_cluster: ClusterOfNodes,
) -> None:
    cluster = shared_cluster
    queue = "/queues/pushed"

    async def test() -> None:
        url = cluster.node(1).url
        await declare(url, "pushed", {"x-queue-type": "quorum"})
        told: list[LinkState] = []
        sure: set[bytes] = set()
        async with await connect(url, follow=None) as connection:
            first = await connection.publisher(queue)
            await until(lambda: first.state.leader is not None)
        lost = str(first.state.leader)
        home = next(each for each in cluster.nodes if each.name != lost)
        async with (
            await connect(home.url, follow=None) as staying,
            await connect(home.url, follow=QUICK) as following,
        ):
            stays = await staying.publisher(queue, on_link_state=told.append)
            moves = await following.publisher(queue)
            await until(lambda: following.following is not None and following.following.moves > 0)
            await publish_on(stays, "stays", 20, sure)
            await publish_on(moves, "moves", 20, sure)
            epoch = stays.state.leader_epoch
            killed.append(int(lost[1:]))
            cluster.node(killed[0]).kill9()
            await until(lambda: stays.state.leader_epoch > epoch)
            assert stays.state.leader not in (lost, None)
            await publish_on(stays, "later", 20, sure)
            await publish_on(moves, "later moves", 20, sure)
            assert len(sure) >= 79  # One may have been under way.
            consumer = await following.consumer(queue)
            while sure:
                delivery = await consumer.get()
                sure.discard(bytes(cast(bytes, delivery.message.body)))
                delivery.accept()
            epochs = [state.leader_epoch for state in told]
            assert epochs == sorted(epochs)

    killed: list[int] = []
    try:
        play(test)
    finally:
        for number in killed:
            cluster.node(number).start()
