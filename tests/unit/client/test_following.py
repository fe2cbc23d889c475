"""Links that follow the leaders of their queues, over in-memory pipes to several nodes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.client.pipe import Server
from tests.unit.wire.amqp10.peers import data_section
from tests.waiting import until
from warren.client import Connection, ConnectionLost, Message, connect
from warren.client.dialling import Backoff
from warren.client.following import Follow
from warren.client.sockets import Socket
from warren.client.url import BrokerUrl
from warren.wire.amqp10.codec.values import ULong
from warren.wire.amqp10.settling import ACCEPTED

Q = "/queues/q"
QUICK = Backoff(0.001, 0.002)


class Nodes:
    """Three nodes with the same queues; `leads` says who leads them."""

    def __init__(self) -> None:
        self.servers = {name: Server() for name in ("n1", "n2", "n3")}
        for name, server in self.servers.items():
            server.node = name
            server.queues = self.servers["n1"].queues
        self.epoch = 0
        self.endpoints = {name: f"amqp://{name}:5672" for name in self.servers}

    def __getitem__(self, name: str) -> Server:
        return self.servers[name]

    def leads(self, leader: str) -> None:
        self.epoch += 1
        for name, server in self.servers.items():
            server.tell(
                {
                    "local": name == leader,
                    "leader": leader,
                    "leader-endpoints": [self.endpoints[leader]],
                    "leader-epoch": ULong(self.epoch),
                }
            )

    def dial(self, url: BrokerUrl) -> Callable[[Socket], Awaitable[None]]:
        assert (url.user, url.vhost) == ("guest", "/")
        return self.servers[url.host].dial

    def received(self) -> list[int]:
        return [server.received for server in self.servers.values()]


def play(
    test: Callable[[Nodes, Connection], Awaitable[None]],
    follow: dict[str, Any] | None = None,
    **options: Any,
) -> Nodes:
    """Run a test that has a connection to n1."""
    nodes = Nodes()
    wanted = {"steady_s": 0.0, "pause_s": 0.0, "dial": nodes.dial, **(follow or {})}

    async def whole() -> None:
        async with asyncio.timeout(10):
            connection = await connect(
                "amqp://guest:guest@n1/%2F",
                dial=nodes["n1"].dial,
                follow=Follow(**wanted),
                timeout_s=2.0,
                **options,
            )
            async with connection:
                await test(nodes, connection)

    asyncio.run(whole())
    return nodes


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def moves(connection: Connection) -> int:
    assert connection.following is not None
    return connection.following.moves


async def publish(publisher: Any, count: int = 1) -> None:
    for outcome in await publisher.publish_many([Message(b"m")] * count):
        assert outcome.is_accepted


def test_a_publisher_goes_where_the_leader_is_and_back() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        await publish(publisher, 2)
        nodes.leads("n2")
        await until(lambda: moves(connection) == 1)
        await publish(publisher, 3)
        assert nodes.received() == [2, 3, 0]
        assert (publisher.state.leader, publisher.state.local) == ("n2", True)
        await until(lambda: len(nodes["n1"].peers[0].core.sessions) == 0)
        nodes.leads("n1")
        await until(lambda: moves(connection) == 2)
        await publish(publisher, 5)
        assert nodes.received() == [7, 3, 0]

    play(test)


def test_a_link_that_is_made_elsewhere_moves_at_once_and_others_stay() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        nodes["n1"].properties = None
        stays = await connection.publisher("/queues/other")
        nodes["n1"].properties = {
            "local": False,
            "leader": "n3",
            "leader-endpoints": [nodes.endpoints["n3"]],
        }
        publisher = await connection.publisher(Q)
        await until(lambda: moves(connection) == 1)
        await publish(publisher)
        await publish(stays)
        assert nodes.received() == [1, 0, 1]

    play(test)


def test_messages_without_an_outcome_hold_up_the_move_and_their_order_stays() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        nodes["n1"].answers = False
        first = publisher.send(Message(b"1"))
        await turns()
        nodes.leads("n2")
        await until(lambda: publisher.state.leader == "n2")
        await turns()
        second = publisher.send(Message(b"2"))
        await turns()
        assert moves(connection) == 0 and nodes.received() == [1, 0, 0]
        nodes["n1"].peers[0].confirm_all()
        assert (await first).is_accepted and (await second).is_accepted
        assert nodes.received() == [1, 1, 0]

    play(test)


def test_a_move_that_takes_too_long_is_given_up_and_tried_again() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        nodes["n1"].answers = False
        first = publisher.send(Message(b"1"))
        await turns()
        nodes.leads("n2")
        await until(lambda: len(nodes["n2"].peers) == 1)
        await asyncio.sleep(0.05)
        second = publisher.send(Message(b"2"))
        await until(lambda: nodes.received() == [2, 0, 0])
        nodes["n1"].answers = True
        nodes["n1"].peers[0].confirm_all()
        await asyncio.gather(first, second)
        await until(lambda: moves(connection) == 1)
        await publish(publisher)
        assert nodes.received() == [2, 1, 0] and len(nodes["n2"].peers) == 1

    play(test, {"rest_s": 0.02, "pause_s": 0.1})


def test_a_consumer_settles_where_it_got_and_gets_each_message_once() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        consumer = await connection.consumer(Q, credit=4)
        nodes["n1"].put(Q, *[data_section(b"%d" % number) for number in range(10)])
        held = [await consumer.get() for _ in range(3)]
        nodes.leads("n2")
        await until(lambda: moves(connection) == 1)
        late: list[Any] = []
        while len(held) + len(late) < 10:
            late.append(await consumer.get())
        bodies = [each.message.body for each in held + late]
        assert bodies == [b"%d" % number for number in range(10)]
        assert len(nodes["n1"].peers[0].core.sessions) == 1  # Something is held of it.
        for each in late:
            each.accept()
        for each in held:
            each.accept()
            each.accept()
        await until(lambda: len(nodes["n1"].peers[0].core.sessions) == 0)
        settled = nodes["n1"].settled + nodes["n2"].settled
        assert settled == [ACCEPTED] * 10 and nodes["n2"].settled
        assert consumer.unsettled == 0

    play(test)


def test_a_consumer_that_is_paused_or_receives_by_drain_moves_too() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        paused = await connection.consumer(Q, credit=4)
        await paused.pause()
        receiving = await connection.consumer("/queues/r", credit=0)
        nodes.leads("n3")
        await until(lambda: moves(connection) == 2)
        nodes["n3"].put(Q, data_section(b"1"))
        nodes["n3"].put("/queues/r", data_section(b"2"))
        await turns()
        assert paused.waiting == 0
        (delivery,) = await receiving.receive(1)
        assert delivery.message.body == b"2"
        paused.resume()
        assert (await paused.get()).message.body == b"1"
        assert await receiving.receive(1, timeout_s=0.01) == []

    play(test)


def test_closing_a_consumer_gives_back_what_it_holds_on_both_links() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        consumer = await connection.consumer(Q, credit=4)
        nodes["n1"].put(Q, data_section(b"1"))
        await consumer.get()
        nodes.leads("n2")
        await until(lambda: moves(connection) == 1)
        await consumer.close()
        await until(lambda: not nodes["n1"].peers[0].core.sessions)
        await until(lambda: not nodes["n2"].peers[0].core.sessions)
        assert consumer.unsettled == 0

    play(test)


def test_who_cannot_be_reached_is_tried_again_later_and_the_link_stays() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        nodes["n2"].reachable = False
        nodes.leads("n2")
        await turns()
        await publish(publisher)
        nodes["n2"].reachable = True
        await publish(publisher)
        assert nodes.received() == [2, 0, 0]
        await until(lambda: moves(connection) == 1)
        await publish(publisher)
        assert nodes.received() == [2, 1, 0]

    play(test, {"retry_s": 0.05})


@pytest.mark.parametrize("endpoint", ["amqps://n2:5671", "http://n2", "amqp://n2:port"])
def test_endpoints_that_are_of_no_use_are_passed_over(endpoint: str) -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        nodes.endpoints["n2"] = endpoint
        nodes.leads("n2")
        await turns()
        await publish(publisher)
        assert nodes.received() == [1, 0, 0] and nodes["n2"].peers == []

    play(test)


def test_another_node_than_the_leader_at_its_address_is_left_again() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        nodes.endpoints["n2"] = nodes.endpoints["n3"]
        nodes.leads("n2")
        await until(lambda: len(nodes["n3"].peers) == 1)
        await asyncio.sleep(0.02)
        await publish(publisher)
        assert nodes.received() == [1, 0, 0]
        assert connection.following is not None and connection.following.others == {}

    play(test)


def test_a_leader_that_refuses_the_link_does_not_harm_it() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        consumer = await connection.consumer(Q)
        nodes["n2"].refused.add(Q)
        nodes.leads("n2")
        await until(lambda: len(nodes["n2"].peers) == 1)
        await asyncio.sleep(0.02)
        nodes["n1"].put(Q, data_section(b"1"))
        assert (await consumer.get()).message.body == b"1"
        assert moves(connection) == 0

    play(test, {"pause_s": 0.05})


def test_when_the_leader_is_lost_its_links_come_home_and_go_on() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        consumer = await connection.consumer("/queues/r")
        nodes.leads("n2")
        await until(lambda: moves(connection) == 2)
        nodes["n2"].answers = False
        lost = publisher.send(Message(b"1"))
        await turns()
        nodes["n2"].reachable = False
        nodes["n2"].cut()
        with pytest.raises(ConnectionLost):
            await lost
        await publish(publisher)
        nodes["n1"].put("/queues/r", data_section(b"1"))
        assert (await consumer.get()).message.body == b"1"
        assert nodes.received() == [1, 1, 0]
        nodes.leads("n3")
        await until(lambda: moves(connection) == 4)
        await publish(publisher)
        assert nodes.received() == [1, 1, 1]

    play(test)


def test_when_the_home_is_lost_the_links_elsewhere_go_on_if_it_may_come_back() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        nodes.leads("n2")
        await until(lambda: moves(connection) == 1)
        nodes["n1"].cut()
        await turns()
        await publish(publisher)
        await until(lambda: len(nodes["n1"].peers) == 2)
        assert nodes.received() == [0, 1, 0]

    play(test, reconnect=True, backoff=QUICK)


def test_when_the_home_is_lost_for_good_so_is_everything() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        nodes.leads("n2")
        await until(lambda: moves(connection) == 1)
        nodes["n1"].cut()
        await turns()
        with pytest.raises(ConnectionLost):
            publisher.send(Message(b"1"))

    play(test)


def test_a_leader_that_changes_often_is_not_followed_each_time() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        for leader in ("n2", "n3", "n1", "n2", "n3"):
            nodes.leads(leader)
            await turns()
        assert moves(connection) == 0
        await until(lambda: moves(connection) == 1)
        nodes.leads("n2")
        await asyncio.sleep(0.1)
        assert moves(connection) == 1
        await publish(publisher)
        assert nodes.received() == [0, 0, 1] and nodes["n2"].peers == []

    play(test, {"steady_s": 0.05, "pause_s": 5.0})


def test_connections_to_leaders_that_nobody_needs_are_closed() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        await connection.publisher(Q)
        nodes.leads("n2")
        await until(lambda: moves(connection) == 1)
        nodes.leads("n3")
        await until(lambda: moves(connection) == 2)
        assert connection.following is not None
        others = connection.following.others
        await until(lambda: set(others) == {"n3"})

    play(test, {"idle_s": 0.02})


def test_closing_ends_all_of_it() -> None:
    async def test(nodes: Nodes, connection: Connection) -> None:
        await connection.publisher(Q)
        nodes.leads("n2")
        await until(lambda: moves(connection) == 1)
        nodes.leads("n3")
        await connection.close()
        assert connection.following is not None and connection.following.others == {}
        before = asyncio.current_task()
        await turns()
        assert asyncio.all_tasks() == {before}

    play(test)


def test_a_connection_may_be_told_not_to_follow() -> None:
    async def test() -> None:
        nodes = Nodes()
        connection = await connect(
            "amqp://guest:guest@n1/%2F", dial=nodes["n1"].dial, follow=None, timeout_s=2.0
        )
        async with connection:
            publisher = await connection.publisher(Q)
            nodes.leads("n2")
            await asyncio.sleep(0.02)
            await publish(publisher)
        assert nodes.received() == [1, 0, 0] and connection.following is None

    asyncio.run(test())
