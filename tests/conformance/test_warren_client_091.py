"""warren.client.amqp091 against a real node: what it declares, sends and takes; a restart in
between."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from warren.client import Message as Message10
from warren.client import amqp091
from warren.client import connect as connect10
from warren.client.amqp091 import (
    Connection,
    ConnectionLost,
    LoginFailed,
    Message,
    ReplyError,
    RequestFailed,
    connect,
)
from warren.testing.node import Node
from warren.wire.amqp091.client import ClientLimits

Q = "wc 091"
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
        async with asyncio.timeout(25):
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
            publisher = await connection.publisher("", Q, window=300)
            sent = [Message(b"%d" % n, headers={"n": n}, priority=0) for n in range(1000)]
            outcomes = await publisher.publish_many(sent)
            assert all(each.is_accepted for each in outcomes)
            assert (await management.queue(Q)).message_count == 1000
            consumer = await connection.consumer(Q, credit=100)
            for message in sent:
                delivery = await consumer.get(timeout_s=5)
                assert delivery.message == message
                delivery.accept()
            await consumer.close()
            assert await management.delete_queue(Q) == 0

    play(test)


def test_all_properties_survive_and_bodies_of_many_frames(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            await management.declare_queue(Q)
            publisher = await connection.publisher("", Q)
            whole = Message(
                bytes(range(256)) * 8192,
                durable=False,
                priority=3,
                ttl_ms=60_000,
                headers={"a": [1, {"b": None}], "ü": "ö"},
                message_id="m",
                correlation_id="c",
                reply_to="r",
                content_type="t",
                content_encoding="e",
                timestamp=1,
                type="y",
                user_id="guest",
                app_id="p",
            )
            assert (await publisher.publish(whole)).is_accepted
            consumer = await connection.consumer(Q, credit=0)
            [delivery] = await consumer.receive(timeout_s=5)
            assert delivery.message == whole
            assert (delivery.routing_key, delivery.redelivered) == (Q, False)
            delivery.release()
            [again] = await consumer.receive(timeout_s=5)
            assert again.redelivered
            again.reject()
            assert await consumer.receive(timeout_s=0.1) == []
            assert await consumer.fetch() is None

    play(test)


def test_exchanges_bindings_and_returns(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            named = await management.declare_queue("", exclusive=True)
            assert named.name.startswith("amq.gen-")
            await management.declare_queue(Q)
            await management.declare_exchange("wc.y", "topic", auto_delete=True)
            await management.bind("wc.y", queue=Q, key="a.#", arguments={"n": 1})
            publisher = await connection.publisher("wc.y", "a.b")
            assert (await publisher.publish(Message(b"in"))).is_accepted
            out = await publisher.publish(Message(b"out"), routing_key="b")
            assert out.kind == "released" and isinstance(out.error, ReplyError)
            assert (out.error.code, out.error.condition) == (312, "312 NO_ROUTE")
            await publisher.close()
            assert await management.purge_queue(Q) == 1
            await management.unbind("wc.y", queue=Q, key="a.#", arguments={"n": 1})
            with pytest.raises(RequestFailed, match=r"404 no exchange 'wc\.y'"):
                await management.bind("wc.y", queue=Q)

    play(test)


def test_what_is_refused_says_why_with_its_code(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            with pytest.raises(RequestFailed, match="no queue 'none' in vhost '/'") as caught:
                await management.queue("none")
            assert caught.value.status == 404
            await management.declare_queue(Q)
            with pytest.raises(RequestFailed) as caught:
                await management.declare_queue(Q, durable=False)
            assert caught.value.status == 406
            with pytest.raises(ReplyError, match="404 NOT_FOUND: no queue 'none'"):
                await connection.consumer("none")
            publisher = await connection.publisher("none")
            with pytest.raises(ReplyError, match="no exchange 'none'"):
                await publisher.publish(Message(b""), timeout_s=5)
            url = f"amqp://guest:guest@{node.host}:{node.port}"
            with pytest.raises(ReplyError, match="530 NOT_ALLOWED"):
                await connect(f"{url}/none")
            with pytest.raises(LoginFailed):
                await connect(url.replace("guest@", "wrong@"))

    play(test)


def test_a_full_queue_rejects(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            limits: dict[str, object] = {"x-max-length": 1, "x-overflow": "reject-publish"}
            await management.declare_queue(Q, arguments=limits)
            publisher = await connection.publisher("", Q)
            outcomes = await publisher.publish_many([Message(b"a"), Message(b"b")])
            assert [each.kind for each in outcomes] == ["accepted", "rejected"]

    play(test)


def test_pause_stops_and_resume_goes_on_and_acknowledgements_count(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            management = await connection.management()
            await management.declare_queue(Q)
            publisher = await connection.publisher("", Q)
            consumer = await connection.consumer(Q, credit=10)
            await publisher.publish_many([Message(b"%d" % n) for n in range(30)])
            await consumer.pause()
            seen = []
            while consumer.waiting:
                delivery = await consumer.get()
                seen.append(delivery.message.body)
                delivery.accept()
            assert len(seen) <= 10
            consumer.resume()
            while len(seen) < 30:
                for delivery in await consumer.get_many(timeout_s=5):
                    seen.append(delivery.message.body)
                    delivery.accept()
            assert seen == [b"%d" % n for n in range(30)]
            await consumer.close()
            assert (await management.queue(Q)).message_count == 0

    play(test)


def test_messages_pass_between_both_clients(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection, await connect10(node.url) as other:
            management = await connection.management()
            await management.declare_queue(Q)
            publisher = await connection.publisher("", Q)
            await publisher.publish(Message(b"from 0-9-1", headers={"n": 1}))
            consumer10 = await other.consumer("/queues/wc%20091", credit=1)
            came = await consumer10.get(timeout_s=5)
            assert came.message.body == b"from 0-9-1"
            assert came.message.application_properties == {"n": 1}
            came.accept()
            await consumer10.close()
            publisher10 = await other.publisher("/queues/wc%20091")
            await publisher10.publish(Message10(b"from 1.0", application_properties={"n": 2}))
            consumer = await connection.consumer(Q, credit=0)
            [delivery] = await consumer.receive(timeout_s=5)
            assert delivery.message.body == b"from 1.0" and delivery.message.headers["n"] == 2

    play(test)


def test_publishing_and_consuming_go_on_after_a_restart(node: Node) -> None:
    async def test() -> None:
        async with opened(node, reconnect=True) as connection:
            management = await connection.management()
            await management.declare_queue(Q, arguments=QUORUM)
            publisher = await connection.publisher("", Q)
            consumer = await connection.consumer(Q)
            await publisher.publish(Message(b"before"))
            held = await consumer.get(timeout_s=5)
            await asyncio.to_thread(node.kill9)
            with pytest.raises((TimeoutError, ConnectionLost)):
                async with asyncio.timeout(0.2):
                    await management.queue(Q)
            later = publisher.send(Message(b"after"))
            await asyncio.to_thread(node.start)
            assert (await later).is_accepted
            came = [await consumer.get(timeout_s=10) for _ in range(2)]
            assert [each.message.body for each in came] == [b"before", b"after"]
            held.accept()  # Of the connection that was lost: says nothing.
            for each in came:
                each.accept()

    play(test)


def test_a_blocked_connection_holds_messages_until_it_is_not() -> None:
    async def test() -> None:
        with Node(settings={"disk_free_limit.absolute": "1000000GB"}) as low:
            told: list[str | None] = []
            connection = await amqp091.connect(low.url, on_blocked=told.append, timeout_s=2)
            async with connection:
                management = await connection.management()
                await management.declare_queue(Q)
                publisher = await connection.publisher("", Q)
                publisher.send(Message(b"x"))  # Who has not published yet is not blocked.
                while connection.blocked is None:
                    await asyncio.sleep(0.01)
                assert told == ["low on disk"]
                with pytest.raises(TimeoutError):
                    await publisher.publish(Message(b"y"), timeout_s=0.1)
                assert publisher.waiting == 1
                connection.timeout_s = 0.1  # The broker does not read, so it does not answer.

    play(test)


def test_heartbeats_keep_an_idle_connection_and_tell_of_a_halted_node() -> None:
    """The client looks at its deadlines by the interval: too seldom would lose the connection."""

    async def test() -> None:
        with Node() as node:
            async with await connect(node.url, limits=ClientLimits(heartbeat_s=1)) as connection:
                lost = asyncio.ensure_future(connection.wait_lost())
                await asyncio.wait((lost,), timeout=3.5)
                assert not lost.done()
                node.pause()
                begun_s = time.monotonic()
                await asyncio.wait_for(lost, 10)
                assert time.monotonic() - begun_s > 1
                node.resume()

    play(test)
