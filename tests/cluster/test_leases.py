"""Leases of queues in a cluster: any node takes requests, and the next leader goes on with them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from typing import Final, TypeVar

import pytest

from tests.cluster.leaders import leader_and_others, leader_number, without_leader
from tests.conformance.test_leases import Leased, bodies
from tests.waiting import eventually
from warren.client import ClientError, RequestFailed, connect
from warren.testing import ClusterOfNodes
from warren.testing.http_api import HttpApi

T = TypeVar("T")

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
        await leased.publish(0, 1000)
        await leased.ask("PUT", "spark")
        assert await leased.fetch(1, max_messages=400) == 400
        assert await leased.bodies(1, 100, 300) == bodies(100, 400)

    async def elsewhere(leased: Leased) -> None:
        assert (await leased.ask("PUT", "spark"))["node"] == name
        assert await leased.fetch(1) == 400
        with pytest.raises(RequestFailed, match="batch '0': allowed"):
            await leased.fetch(0)
        with pytest.raises(RequestFailed, match=f"has no lease 'other' at node {name}"):
            await leased.fetch(1, "other")
        with pytest.raises(ClientError, match=f"is served by node {name}: its leases are there"):
            await leased.read(1, 0, 1)

    async def end(leased: Leased) -> None:
        await leased.ask("POST", "spark/commit", {"batch": 1})
        assert await leased.fetch(2) == 600
        assert await leased.bodies(2, 0, 600) == bodies(400, 1000)

    try:
        at(cluster, 1, partial(declare, kind=kind))
        leader, second, _ = leader_and_others(cluster, "orders")
        name = f"n{leader}"
        at(cluster, leader, begin)
        at(cluster, second, elsewhere)
        (row,) = api.get("/leases")
        assert (row["node"], row["messages"]) == (name, 400)
        at(cluster, leader, end)
        api.delete("/leases/%2F/orders/spark")
        assert api.get("/leases/%2F") == []
        eventually(lambda: api.get("/queues/%2F/orders")["messages_ready"] == 600)
    finally:
        api.delete("/queues/%2F/orders")
        if kind == "mirrored":
            api.delete("/policies/%2F/m")


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """What a client does while no node leads the queue."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await ask()
            except RequestFailed as error:
                assert error.status == 503, error
                await asyncio.sleep(0.05)


async def read_on(leased: Leased) -> None:
    """What another node has fetched: messages 100 to 599 in batches 5 and 6; then the rest."""
    for number, first, end in ((6, 400, 600), (5, 100, 400)):
        reading = await leased.read(number, 0, end - first)
        assert reading.bodies == bodies(first, end)
        assert not reading.messages[0].first_acquirer, "they are redelivered"
    assert (await leased.ask("POST", "spark/commit", {"batch": 6}))["messages"] == 500
    assert await leased.fetch(7) == 400
    assert await leased.bodies(7, 0, 400) == bodies(600, 1000)
    assert (await leased.ask("POST", "spark/commit", {"batch": 7}))["messages"] == 400


@pytest.mark.parametrize(
    ("kind", "is_killed"), [("quorum", False), ("quorum", True), ("mirrored", True)]
)
def test_the_next_leader_goes_on_with_the_same_batches(
    shared_cluster: ClusterOfNodes, kind: str, is_killed: bool
) -> None:
    """Any node takes requests; what was fetched, committed and released at the old one holds."""
    cluster = shared_cluster
    api = api_of(cluster, 3)
    if kind == "mirrored":
        definition = {"ha-mode": "all", "ha-sync-mode": "automatic"}
        api.put("/policies/%2F/m", {"pattern": "^orders$", "definition": definition})

    async def begin(leased: Leased) -> None:
        await declare(leased, kind)
        await leased.publish(0, 1000)
        await leased.ask("PUT", "spark")
        await leased.ask("PUT", "gone")
        for number, count in ((4, 100), (5, 300), (6, 200)):
            assert await leased.fetch(number, max_messages=count) == count
        assert (await leased.ask("POST", "spark/commit", {"batch": 4}))["messages"] == 100
        await leased.ask("DELETE", "gone")

    async def again(leased: Leased) -> None:
        found = await patiently(lambda: leased.ask("PUT", "spark"))
        assert found["node"] == f"n{leader_number(cluster, 'orders')}"
        assert [(each["batch"], each["messages"]) for each in found["batches"]] == [
            (5, 300),
            (6, 200),
        ]
        with pytest.raises(RequestFailed, match="batch 4 is out of order"):
            await leased.fetch(4)

    def moved() -> int:
        """Have another node lead the queue; the one that led it before."""
        leader, second, _ = leader_and_others(cluster, "orders")
        api.post("/queues/quorum/%2F/orders/leader", {"node": f"n{second}"})
        eventually(lambda: leader_number(cluster, "orders") != leader)
        return leader

    try:
        at(cluster, 1, begin)
        if kind == "mirrored":
            eventually(lambda: len(api.get("/queues/%2F/orders")["synchronised_slave_nodes"]) == 2)
        changed = without_leader(cluster, "orders") if is_killed else nullcontext(moved())
        with changed as old:
            at(cluster, old % 3 + 1, again)
            at(cluster, leader_number(cluster, "orders"), read_on)
        held = [("spark", f"n{leader_number(cluster, 'orders')}", 0)]
        eventually(
            lambda: [(r["name"], r["node"], r["messages"]) for r in api.get("/leases")] == held
        )
        eventually(lambda: api.get("/queues/%2F/orders").get("messages") == 0)
    finally:
        api.delete("/queues/%2F/orders")
        if kind == "mirrored":
            api.delete("/policies/%2F/m")
