"""Leases of queues in a cluster: they are at the leader, and end when it is another node."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from tests.conformance.http_api import HttpApi
from tests.conformance.test_leases import Leased, bodies
from tests.waiting import eventually
from warren.client import RequestFailed, connect
from warren.testing import ClusterOfNodes

KINDS: Final = ("quorum", "mirrored", "classic")


def at(cluster: ClusterOfNodes, number: int, work: Callable[[Leased], Awaitable[None]]) -> None:
    async def one() -> None:
        async with await connect(cluster.urls[number - 1], follow=None) as connection:
            await work(Leased(connection, await connection.management()))

    asyncio.run(one())


def api_of(cluster: ClusterOfNodes, number: int) -> HttpApi:
    return HttpApi(cluster.node(number).management_url)


async def declare(leased: Leased, kind: str) -> None:
    arguments = {"x-queue-type": "quorum"} if kind == "quorum" else {}
    await leased.management.declare_queue("orders", arguments=arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lease_is_at_the_leader(shared_cluster: ClusterOfNodes, kind: str) -> None:
    cluster = shared_cluster
    api = api_of(cluster, 3)
    if kind == "mirrored":
        definition = {"ha-mode": "all", "ha-sync-mode": "automatic"}
        api.put("/policies/%2F/m", {"pattern": "^orders$", "definition": definition})

    async def begin(leased: Leased) -> None:
        await declare(leased, kind)
        await leased.publish(0, 1000)
        await leased.ask("PUT", "spark")
        assert await leased.fetch(1, max_messages=400) == 400
        assert await leased.bodies(1, 100, 300) == bodies(100, 400)

    async def elsewhere(leased: Leased) -> None:
        with pytest.raises(RequestFailed, match="is served by node n1: its leases are there"):
            await leased.ask("PUT", "spark")
        with pytest.raises(RequestFailed, match="has no lease 'spark' at node n2; queue 'orders'"):
            await leased.fetch(1)

    async def end(leased: Leased) -> None:
        await leased.ask("POST", "spark/commit", {"batch": 1})
        assert await leased.fetch(2) == 600
        assert await leased.bodies(2, 0, 600) == bodies(400, 1000)

    try:
        at(cluster, 1, begin)
        at(cluster, 2, elsewhere)
        (row,) = api.get("/leases")
        assert (row["node"], row["messages"]) == ("n1", 400)
        at(cluster, 1, end)
        api.delete("/leases/%2F/orders/spark")
        assert api.get("/leases/%2F") == []
        eventually(lambda: api.get("/queues/%2F/orders")["messages_ready"] == 600)
    finally:
        api.delete("/queues/%2F/orders")
        if kind == "mirrored":
            api.delete("/policies/%2F/m")


def test_a_lease_ends_when_another_node_leads(shared_cluster: ClusterOfNodes) -> None:
    cluster = shared_cluster
    api = api_of(cluster, 3)

    async def begin(leased: Leased) -> None:
        await declare(leased, "quorum")
        await leased.publish(0, 100)
        await leased.ask("PUT", "spark")
        assert await leased.fetch(5) == 100

    async def left(leased: Leased) -> None:
        with pytest.raises(RequestFailed, match="has no lease 'spark'"):
            await leased.fetch(5)

    async def again(leased: Leased) -> None:
        await leased.ask("PUT", "spark")
        while (await leased.ask("GET", "spark"))["ready"] < 100:
            await asyncio.sleep(0.02)
        assert await leased.fetch(5) == 100
        reading = await leased.read(5, 0, 100)
        assert reading.bodies == bodies(0, 100)
        assert not reading.messages[0].first_acquirer, "they are redelivered"

    try:
        at(cluster, 1, begin)
        api.post("/queues/quorum/%2F/orders/leader", {"node": "n2"})
        eventually(lambda: api_of(cluster, 1).get("/queues/%2F/orders")["leader"] == "n2")
        eventually(lambda: api_of(cluster, 2).get("/queues/%2F/orders")["leader"] == "n2")
        at(cluster, 1, left)
        at(cluster, 2, again)
        assert [each["node"] for each in api.get("/leases")] == ["n2"]
    finally:
        api.delete("/queues/%2F/orders")


def test_a_lease_of_a_lost_node_gives_its_messages_back(shared_cluster: ClusterOfNodes) -> None:
    cluster = shared_cluster
    api = api_of(cluster, 3)

    async def begin(leased: Leased) -> None:
        await declare(leased, "quorum")
        await leased.publish(0, 100)
        await leased.ask("PUT", "spark")
        assert await leased.fetch(5) == 100

    try:
        at(cluster, 1, begin)
        cluster.kill9([1])
        cluster.start([1])
        eventually(lambda: api.get("/queues/%2F/orders").get("messages_ready") == 100)
        assert api.get("/leases") == []
    finally:
        api.delete("/queues/%2F/orders")
