"""warren.client against a real node: what it declares, sends and takes; a restart in between."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.waiting import until
from warren.client import Connection, ConnectionLost, Message, PeerError, RequestFailed, connect
from warren.testing.node import Node

Q = "wc q/1"
ADDRESS = "/queues/wc%20q%2F1"
QUORUM: dict[str, object] = {"x-queue-type": "quorum"}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


@asynccontextmanager
async def opened(node: Node, reconnect: bool = False) -> AsyncIterator[Connection]:
    """A connection, and afterwards no queue."""
    async with await connect(node.url, reconnect=reconnect) as connection:
        yield connection
        management = await connection.management()
        await management.delete_queue(Q)


def play(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(40):
            await test()

    asyncio.run(whole())


@pytest.mark.parametrize("arguments", [{}, QUORUM])
def test_messages_are_confirmed_and_consumed_in_order(
    node: Node, arguments: dict[str, object]
) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            await management.declare_queue(Q, arguments=arguments)
            publisher = await connection.publisher(ADDRESS)
            sent = [Message(b"%d" % n, application_properties={"n": n}) for n in range(1000)]
            outcomes = await publisher.publish_many(sent)
            assert all(each.is_accepted for each in outcomes)
            assert (await management.queue(Q))["message_count"] == 1000
            consumer = await connection.consumer(ADDRESS, credit=100)
            for message in sent:
                delivery = await consumer.get(timeout_s=5)
                assert delivery.message.body == message.body
                assert delivery.message.application_properties == message.application_properties
                delivery.accept()
            await consumer.close()
            assert await management.delete_queue(Q) == 0

    play(test)


def test_large_messages_travel_in_pieces(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            await management.declare_queue(Q)
            publisher = await connection.publisher(ADDRESS)
            body = bytes(range(256)) * 8192
            assert (await publisher.publish(Message(body))).is_accepted
            consumer = await connection.consumer(ADDRESS, credit=0)
            [delivery] = await consumer.receive(timeout_s=5)
            assert delivery.message.body == body
            delivery.release()
            [again] = await consumer.receive(timeout_s=5)
            again.accept()
            assert await consumer.receive(timeout_s=0.1) == []

    play(test)


@pytest.mark.parametrize("arguments", [{}, QUORUM])
def test_what_a_consumer_notes_on_a_message_is_seen_by_the_next_one(
    node: Node, arguments: dict[str, object]
) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            await management.declare_queue(Q, arguments=arguments)
            publisher = await connection.publisher(ADDRESS)
            await publisher.publish(Message(b"m", annotations={"x-own": 1, "x-why": "none"}))
            consumer = await connection.consumer(ADDRESS, credit=1)
            delivery = await consumer.get(timeout_s=5)
            delivery.modify(annotations={"x-why": "bad", "x-list": [1, "two"]})
            again = await consumer.get(timeout_s=5)
            route = {"x-exchange": "", "x-routing-key": Q}
            noted = {"x-own": 1, "x-why": "bad", "x-list": [1, "two"]}
            assert again.message.annotations == noted | route
            assert again.message.body == b"m"
            again.accept()

    play(test)


def test_exchanges_and_bindings_lead_where_they_should(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            await management.declare_queue(Q)
            await management.declare_exchange("wc.x", "topic", auto_delete=True)
            await management.bind("wc.x", queue=Q, key="a.#", arguments={"n": 1})
            publisher = await connection.publisher("/exchanges/wc.x/a.b")
            assert (await publisher.publish(Message(b"in"))).is_accepted
            nowhere = await connection.publisher("/exchanges/wc.x/b")
            assert (await nowhere.publish(Message(b"out"))).kind == "released"
            anywhere = await connection.publisher(None)
            assert (await anywhere.publish(Message(b"too", to=ADDRESS))).is_accepted
            await publisher.close()
            await nowhere.close()
            await management.unbind("wc.x", queue=Q, key="a.#", arguments={"n": 1})
            assert await management.purge_queue(Q) == 2

    play(test)


def test_what_is_refused_says_why(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            with pytest.raises(RequestFailed, match="404 queue 'none' in vhost '/' not found"):
                await management.queue("none")
            with pytest.raises(PeerError, match="amqp:not-found: no queue 'none'"):
                await connection.consumer("/queues/none")
            await management.declare_queue(Q, exclusive=True)
            async with await connect(node.url) as other:
                with pytest.raises(PeerError, match="resource-locked"):
                    await other.consumer(ADDRESS)

    play(test)


def test_a_full_queue_rejects_with_its_name(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            limits: dict[str, object] = {"x-max-length": 1, "x-overflow": "reject-publish"}
            await management.declare_queue(Q, arguments=limits)
            publisher = await connection.publisher(ADDRESS)
            outcomes = await publisher.publish_many([Message(b"a"), Message(b"b")])
            assert [each.kind for each in outcomes] == ["accepted", "rejected"]
            assert outcomes[1].error is not None
            assert outcomes[1].error.condition == "amqp:resource-limit-exceeded"

    play(test)


def test_links_with_a_queue_are_told_where_it_is(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            await management.declare_queue(Q, arguments=QUORUM)
            publisher = await connection.publisher(ADDRESS)
            consumer = await connection.consumer(ADDRESS)
            exchange = await connection.publisher("/exchanges/amq.topic/k")
            await until(lambda: publisher.state.leader is not None)
            await until(lambda: consumer.state.leader is not None)
            for state in (publisher.state, consumer.state):
                assert state.local is True and state.state == "running"
                assert state.leader == connection.server_properties["node"]
                assert state.replicas == (state.leader,)
                assert state.leader_endpoints == (f"amqp://{node.host}:{node.port}",)
                assert state.leader_epoch > 0 and state.active is None
            await publisher.publish_many([Message(b"") for _ in range(200)])
            assert publisher.state.properties is not None
            assert sorted(publisher.state.properties) == ["leader-epoch", "local"]
            assert exchange.credit > 0 and exchange.state.properties is None

    play(test)


def test_the_single_active_consumer_is_told_when_it_is(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            await management.declare_queue(Q, arguments={"x-single-active-consumer": True})
            first = await connection.consumer(ADDRESS)
            await until(lambda: first.state.active is True)
            second = await connection.consumer(ADDRESS)
            await until(lambda: second.state.active is False)
            await first.close()
            await until(lambda: second.state.active is True)
            assert second.state.local is True

    play(test)


def test_hints_can_be_switched_off() -> None:
    async def test() -> None:
        with Node(settings={"amqp10.locality_hints": "off"}) as other:
            async with opened(other) as connection:
                management = await connection.management()
                await management.declare_queue(Q)
                publisher = await connection.publisher(ADDRESS)
                assert (await publisher.publish(Message(b"a"))).is_accepted
                assert publisher.state.properties is None

    play(test)


def test_publishing_and_consuming_go_on_after_a_restart(node: Node) -> None:
    async def test() -> None:
        async with opened(node, reconnect=True) as connection:
            management = await connection.management()
            await management.declare_queue(Q, arguments=QUORUM)
            publisher = await connection.publisher(ADDRESS)
            consumer = await connection.consumer(ADDRESS)
            await publisher.publish(Message(b"before"))
            held = await consumer.get(timeout_s=5)
            await asyncio.to_thread(node.kill9)
            with pytest.raises((TimeoutError, ConnectionLost)):
                await management.request("DELETE", ADDRESS, timeout_s=0.2)
            later = publisher.send(Message(b"after"))
            await asyncio.to_thread(node.start)
            assert (await later).is_accepted
            came = [await consumer.get(timeout_s=10) for _ in range(2)]
            assert [each.message.body for each in came] == [b"before", b"after"]
            held.accept()  # Of the connection that was lost: says nothing.
            for each in came:
                each.accept()

    play(test)
