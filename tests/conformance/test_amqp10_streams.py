"""Streams over AMQP 1.0: offsets by filter, the offset as annotation, `available`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pika
import pytest

from warren.client import Connection, Consumer, Message, PeerError, connect
from warren.testing.node import Node
from warren.wire.amqp10.codec.values import Described, Symbol, Timestamp, ULong

NAME = "log"
ADDRESS = "/queues/log"
FILTER = Symbol("rabbitmq:stream-offset-spec")
COUNT = 50


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


@asynccontextmanager
async def opened(node: Node, count: int = COUNT) -> AsyncIterator[Connection]:
    """A connection, and a stream with so many messages."""
    async with await connect(node.url) as connection:
        management = await connection.management()
        await management.declare_queue(NAME, arguments={"x-queue-type": "stream"})
        publisher = await connection.publisher(ADDRESS)
        sent = [Message(b"%d" % n, application_properties={"n": n}) for n in range(count)]
        assert all(each.is_accepted for each in await publisher.publish_many(sent))
        yield connection
        await management.delete_queue(NAME)


def play(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(40):
            await test()

    asyncio.run(whole())


def begin(value: object) -> dict[object, object]:
    return {FILTER: Described(FILTER, value)}


async def take(consumer: Consumer, count: int) -> list[tuple[object, bytes]]:
    """Offset and body of so many messages."""
    found: list[tuple[object, bytes]] = []
    while len(found) < count:
        delivery = await consumer.get(timeout_s=5)
        message = delivery.message
        assert isinstance(message.body, bytes)
        found.append((message.annotations["x-stream-offset"], message.body))
        delivery.accept()
    return found


def numbered(first: int, count: int = COUNT) -> list[tuple[object, bytes]]:
    return [(n, b"%d" % n) for n in range(first, count)]


@pytest.mark.parametrize(
    ("value", "first"),
    [("first", 0), (ULong(7), 7), ("1h", 0), (Timestamp(1000), 0), (ULong(0), 0)],
)
def test_a_link_begins_where_its_filter_says(node: Node, value: object, first: int) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            consumer = await connection.consumer(ADDRESS, credit=10, filters=begin(value))
            assert await take(consumer, COUNT - first) == numbered(first)

    play(test)


def test_without_a_filter_a_link_begins_with_the_next_message(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            consumer = await connection.consumer(ADDRESS)
            publisher = await connection.publisher(ADDRESS)
            await publisher.publish(Message(b"new"))
            assert await take(consumer, 1) == [(COUNT, b"new")]

    play(test)


def test_two_links_of_a_session_read_at_their_own_pace(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            fast = await connection.consumer(ADDRESS, credit=COUNT, filters=begin("first"))
            slow = await connection.consumer(ADDRESS, credit=2, filters=begin("first"))
            assert await take(fast, COUNT) == numbered(0)
            assert await take(slow, COUNT) == numbered(0)

    play(test)


def test_released_and_rejected_messages_do_not_come_again(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            consumer = await connection.consumer(ADDRESS, credit=4, filters=begin("first"))
            for number in range(COUNT):
                delivery = await consumer.get(timeout_s=5)
                assert delivery.message.body == b"%d" % number
                delivery.release() if number % 2 else delivery.reject()

    play(test)


def test_a_drain_ends_at_the_end_of_the_stream_and_available_is_exact(node: Node) -> None:
    async def test() -> None:
        async with opened(node) as connection:
            consumer = await connection.consumer(ADDRESS, credit=0, filters=begin(ULong(10)))
            assert len(await consumer.receive(1, timeout_s=5)) == 1
            # A flow says it, which the broker wrote before or after the delivery.
            assert consumer.available in (COUNT - 10, COUNT - 11)
            rest = await consumer.receive(COUNT, timeout_s=1)
            assert len(rest) == COUNT - 11
            assert await consumer.receive(5, timeout_s=0.1) == []
            assert consumer.available == 0

    play(test)


def test_messages_published_over_0_9_1_are_read_with_their_offsets(node: Node) -> None:
    async def test() -> None:
        async with opened(node, 0) as connection:
            old = pika.BlockingConnection(pika.URLParameters(node.url))
            channel = old.channel()
            channel.confirm_delivery()
            for number in range(COUNT):
                channel.basic_publish("", NAME, b"%d" % number, mandatory=True)
            old.close()
            consumer = await connection.consumer(ADDRESS, filters=begin("first"))
            assert await take(consumer, COUNT) == numbered(0)

    play(test)


@pytest.mark.parametrize(
    ("values", "unfiltered", "wanted"),
    [("eu", None, (0,)), (["eu", "us"], False, (0, 1)), ("us", True, (1, 2))],
)
def test_a_filter_leaves_out_other_messages(
    node: Node, values: object, unfiltered: object, wanted: tuple[int, ...]
) -> None:
    async def test() -> None:
        async with opened(node, 0) as connection:
            publisher = await connection.publisher(ADDRESS)
            for number in range(30):
                region = ("eu", "us", None)[number % 3]
                annotations: dict[str, object]
                annotations = {} if region is None else {"x-stream-filter-value": region}
                await publisher.publish(Message(b"%d" % number, annotations=annotations))
            filters = begin("first")
            key = Symbol("rabbitmq:stream-filter")
            filters[key] = Described(key, values)
            if unfiltered is not None:
                key = Symbol("rabbitmq:stream-match-unfiltered")
                filters[key] = Described(key, unfiltered)
            consumer = await connection.consumer(ADDRESS, filters=filters)
            expected = [number for number in range(30) if number % 3 in wanted]
            assert await take(consumer, len(expected)) == [(n, b"%d" % n) for n in expected]

    play(test)


def test_an_offset_that_is_none_refuses_the_link(node: Node) -> None:
    async def test() -> None:
        async with opened(node, 0) as connection:
            with pytest.raises(PeerError, match="invalid filter rabbitmq:stream-offset-spec"):
                await connection.consumer(ADDRESS, filters=begin("yesterday"))

    play(test)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("amqp:sql-filter", "n >= 10 AND n % 10 = 3", (13, 23, 33, 43)),
        ("apache.org:selector-filter:string", "n IN (1, 48) OR missing = 1", (1, 48)),
        ("amqp:application-properties-filter", {"n": 7}, (7,)),
        ("amqp:properties-filter", {Symbol("subject"): "&p:tens-2"}, tuple(range(20, 30))),
    ],
)
def test_a_link_gets_messages_by_their_fields(
    node: Node, name: str, value: object, wanted: tuple[int, ...]
) -> None:
    async def test() -> None:
        async with opened(node, 0) as connection:
            publisher = await connection.publisher(ADDRESS)
            for number in range(COUNT):
                subject = f"tens-{number // 10}"
                fields: dict[str, object] = {"n": number}
                message = Message(b"%d" % number, subject=subject, application_properties=fields)
                await publisher.publish(message)
            filters = begin("first")
            filters[Symbol("mine")] = Described(Symbol(name), value)
            consumer = await connection.consumer(ADDRESS, filters=filters)
            assert await take(consumer, len(wanted)) == [(n, b"%d" % n) for n in wanted]

    play(test)


def test_messages_of_amqp_091_are_selected_by_their_headers(node: Node) -> None:
    async def test() -> None:
        async with opened(node, 0) as connection:
            channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
            channel.confirm_delivery()
            for number in range(2000):
                properties = pika.BasicProperties(headers={"n": number}, priority=number % 3)
                channel.basic_publish("", NAME, b"%d" % number, properties)
            filters = begin("first")
            sql = Described(Symbol("amqp:sql-filter"), "n > 1990 AND header.priority = 2")
            filters[Symbol("sql-filter")] = sql
            consumer = await connection.consumer(ADDRESS, filters=filters)
            wanted = [n for n in range(1991, 2000) if n % 3 == 2]
            assert await take(consumer, len(wanted)) == [(n, b"%d" % n) for n in wanted]

    play(test)


def test_a_wrong_expression_refuses_the_link_with_position_and_reason(node: Node) -> None:
    async def test() -> None:
        async with opened(node, 0) as connection:
            filters = begin("first")
            filters[Symbol("s")] = Described(Symbol("amqp:sql-filter"), "n > ")
            with pytest.raises(PeerError, match=r"amqp:sql-filter.*position 3: found the end"):
                await connection.consumer(ADDRESS, filters=filters)

    play(test)
