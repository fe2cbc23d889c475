"""Links that read a stream in runs of messages, with a real node: the filter `warren:packed`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import pika
import pytest

from tests.unit.wire.amqp10.test_rows import (
    annotations_of,
    bodies_of,
    offsets_of,
    run_of,
    sampled,
)
from warren.client import ClientError, Connection, Message, connect
from warren.client.links import LinkHandle, Quiet, Terms
from warren.testing import Broker
from warren.testing.broker import VirtualHost
from warren.wire.amqp10.codec.performatives import Attach, Flow, Source, Target
from warren.wire.amqp10.codec.values import Described, Symbol, ULong
from warren.wire.amqp10.link import SENDER_SETTLED
from warren.wire.amqp10.packed import PACKED_FILTER
from warren.wire.amqp10.rows import StreamRows
from warren.wire.amqp10.transfers import Transfers

START: Final = Symbol("rabbitmq:stream-offset-spec")
SQL: Final = Symbol("amqp:sql-filter")


@pytest.fixture
def url(warren_broker: Broker) -> Iterator[str]:
    with warren_broker.vhost() as found:
        yield found.url


class Packed(Quiet):
    """What a link gives, by one grant of credit after the other."""

    def __init__(
        self,
        connection: Connection,
        first: int,
        settled: int = SENDER_SETTLED,
        sql: str = "",
    ) -> None:
        asked: dict[object, object] = {
            START: Described(START, ULong(first)),
            PACKED_FILTER: Described(PACKED_FILTER, True),
        }
        if sql:
            asked[SQL] = Described(SQL, sql)
        terms = Terms(
            name="packed",
            as_receiver=True,
            source=Source(address="/queues/log", filter=asked),
            target=Target(),
            snd_settle_mode=settled,
        )
        self.handle = LinkHandle(connection, terms, self)
        self.rows = StreamRows(lambda message: b"odd")
        self.deliveries = 0
        self.applied: set[object] = set()
        self.error: ClientError | None = None
        self.is_drained = False
        self._changed = asyncio.Event()
        self._connection = connection

    def grant(self, credit: int, drain: bool = False) -> None:
        assert self.handle.link is not None and self.handle.session is not None
        self.handle.session.grant(self.handle.link, credit, drain)
        self._connection.mark()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while self.rows.count < count and self.error is None:
                self._changed.clear()
                await self._changed.wait()

    async def drained(self) -> None:
        async with asyncio.timeout(20):
            while not self.is_drained:
                self._changed.clear()
                await self._changed.wait()

    def on_up(self, attach: Attach) -> None:
        assert attach.source is not None
        self.applied = set(attach.source.filter or {})

    def on_received(self, run: Transfers) -> None:
        self.deliveries += int(run.count)
        link = self.handle.link
        assert link is not None and link.receiver is not None
        link.receiver.unconfirmed = 0
        self.rows.add_packed(run, 1 << 40)
        self._changed.set()

    def on_flow(self, flow: Flow) -> None:
        link = self.handle.link
        assert link is not None and link.receiver is not None
        self.is_drained = link.receiver.credit == 0
        self._changed.set()

    def on_down(self, error: ClientError, for_good: bool) -> None:
        self.error = error
        self._changed.set()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[Connection, Any]]:
    async with await connect(url, follow=None) as connection:
        management = await connection.management()
        await management.declare_queue("log", arguments={"x-queue-type": "stream"})
        yield connection, management


async def publish(connection: Connection, *messages: Message) -> None:
    publisher = await connection.publisher("/queues/log")
    assert all(each.is_accepted for each in await publisher.publish_many(messages))
    await publisher.close()


async def attached(connection: Connection, first: int, sql: str = "") -> Packed:
    packed = Packed(connection, first, sql=sql)
    await connection.attach([packed.handle])
    return packed


def test_many_messages_come_in_one_delivery_in_their_order(url: str) -> None:
    """Also large ones, and those that are published while the link waits."""

    async def test() -> None:
        async with opened(url) as (connection, management):
            small = [Message(b"%d" % n, message_id=f"m{n % 2}") for n in range(3000)]
            large = [Message(bytes(300_000)), Message(b"x" * 1000)]
            await publish(connection, *small, *large)
            packed = await attached(connection, 500)
            packed.grant(100)
            await packed.until(2502)
            assert packed.deliveries < 30
            await publish(connection, Message(b"late"))
            await packed.until(2503)
            assert packed.rows.runs == [(500, 2503)]
            assert offsets_of(packed.rows) == list(range(500, 3003))
            sent = [each.body for each in [*small[500:], *large]] + [b"late"]
            assert bodies_of(packed.rows) == sent
            (first, *_) = sampled(packed.rows.annotations)
            assert annotations_of(first) == {"x-exchange": "", "x-routing-key": "log"}
            await management.delete_queue("log")
            await packed.until(1 << 40)
            assert packed.error is not None and "was deleted" in str(packed.error)

    asyncio.run(test())


def test_the_link_is_listed_as_a_consumer_of_its_stream(warren_broker: Broker) -> None:
    async def test(vhost: VirtualHost) -> None:
        path = f"/api/consumers/{quote(vhost.name, safe='')}"

        async def listed() -> Any:
            return await asyncio.to_thread(vhost.broker.api, "GET", path)

        async with opened(vhost.url) as (connection, management):
            await publish(connection, *[Message(b"%d" % n) for n in range(10)])
            packed = await attached(connection, 0)
            packed.grant(10)
            await packed.until(10)
            (row,) = await listed()
            assert row["queue"]["name"] == "log"
            assert (row["ack_required"], row["active"]) == (False, True)
            await packed.handle.close(10)
            assert await listed() == []
            await management.delete_queue("log")

    with warren_broker.vhost() as found:
        asyncio.run(test(found))


def test_messages_of_amqp_0_9_1_are_as_other_links_give_them(url: str) -> None:
    async def test() -> None:
        async with opened(url) as (connection, _):
            with pika.BlockingConnection(pika.URLParameters(url)) as other:
                channel = other.channel()
                channel.confirm_delivery()
                for number in range(20):
                    headers = {"n": number} if number % 3 else None
                    named = pika.BasicProperties(message_id=f"m{number}", headers=headers)
                    channel.basic_publish("", "log", b"%d" % number, named)
            packed = await attached(connection, 0)
            packed.grant(10)
            await packed.until(20)
            assert bodies_of(packed.rows) == [b"%d" % number for number in range(20)]
            filters: dict[object, object] = {START: Described(START, ULong(0))}
            plain = await connection.consumer("/queues/log", filters=filters)
            found = [(await plain.get(timeout_s=20)).message for _ in range(20)]
            single = StreamRows(lambda message: b"odd")
            for each in found:
                single.add(run_of([each.encode()]), 1 << 40)
            for name in ("properties", "application_properties"):
                assert sampled(getattr(packed.rows, name)) == sampled(getattr(single, name))
            one, others = packed.rows.annotations, single.annotations
            assert [*map(annotations_of, sampled(one))] == [*map(annotations_of, sampled(others))]

    asyncio.run(test())


def test_credit_counts_deliveries_and_can_be_taken_back(url: str) -> None:
    async def test() -> None:
        async with opened(url) as (connection, _):
            await publish(connection, *[Message(bytes(50_000))] * 40)
            packed = await attached(connection, 0)
            packed.grant(1)
            await packed.until(1)
            assert packed.deliveries == 1
            before = int(packed.rows.count)
            assert before < 40
            packed.grant(5)
            packed.grant(0)  # What was not sent is read again with the next grant.
            packed.grant(100, drain=True)
            await packed.until(40)
            await packed.drained()
            assert packed.rows.runs == [(0, 40)]

    asyncio.run(test())


def test_a_filter_that_leaves_out_messages_is_served_one_by_one(url: str) -> None:
    async def test() -> None:
        async with opened(url) as (connection, _):
            packed = await attached(connection, 0, sql="n = 1")
            assert packed.applied == {START, SQL}
            await packed.handle.close(20)

    asyncio.run(test())


def test_a_link_that_is_not_settled_is_refused(url: str) -> None:
    async def test() -> None:
        async with opened(url) as (connection, _):
            packed = Packed(connection, 0, settled=0)
            with pytest.raises(ClientError, match="must be settled"):
                await connection.attach([packed.handle])

    asyncio.run(test())
