"""Leases of queues with a real node: requests over AMQP 1.0, batches over links, the HTTP API."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest

from tests.waiting import eventually
from warren.client import ClientError, Connection, Message, RequestFailed, connect
from warren.client.links import LinkHandle, Quiet, Terms
from warren.testing import Broker, VirtualHost
from warren.testing.http_api import HttpApi
from warren.wire.amqp10.codec.performatives import Attach, Source, Target
from warren.wire.amqp10.link import SENDER_SETTLED
from warren.wire.amqp10.transfers import Transfers

KINDS: Final = ("classic", "quorum")


@pytest.fixture
def vhost(warren_broker: Broker) -> Iterator[VirtualHost]:
    with warren_broker.vhost() as found:
        yield found


@pytest.fixture
def api(warren_broker: Broker) -> HttpApi:
    return HttpApi(warren_broker.management_url)


class Reading(Quiet):
    """Messages of a batch, as a link gives them."""

    def __init__(self, connection: Connection, queue: str, properties: dict[str, object]) -> None:
        terms = Terms(
            name="reading",
            as_receiver=True,
            source=Source(address=f"/queues/{queue}"),
            target=Target(),
            snd_settle_mode=SENDER_SETTLED,
            properties=properties,
        )
        self.handle = LinkHandle(connection, terms, self)
        self.bodies: list[bytes] = []
        self.messages: list[Message] = []
        self.error: ClientError | None = None
        self.changed = asyncio.Event()
        self._connection = connection

    def on_up(self, attach: Attach) -> None:
        assert self.handle.link is not None and self.handle.session is not None
        self.handle.session.grant(self.handle.link, 10_000)
        self._connection.mark()

    def on_received(self, run: Transfers) -> None:
        from warren.client.message import try_decode
        from warren.wire.amqp10.transfers import payload_at
        from warren.wire.buffer import read_i32_le

        for place in range(int(run.count)):
            start = int(read_i32_le(run.offsets, 4 * place))
            end = int(read_i32_le(run.offsets, 4 * place + 4))
            message = try_decode(run.data, int(payload_at(run.data, start)), end)
            self.messages.append(message)
            assert isinstance(message.body, bytes)
            self.bodies.append(message.body)
        self.changed.set()

    def on_down(self, error: ClientError, for_good: bool) -> None:
        self.error = error
        self.changed.set()


class Leased:
    """One connection that uses leases of the queue `orders`."""

    def __init__(self, connection: Connection, management: Any) -> None:
        self.connection = connection
        self.management = management

    async def declare(self, kind: str, **arguments: object) -> None:
        given = {"x-queue-type": kind, **arguments}
        await self.management.declare_queue("orders", arguments=given)

    async def publish(self, first: int, count: int, size: int = 0) -> None:
        publisher = await self.connection.publisher("/queues/orders")
        sent = [
            Message(b"%d" % n + bytes(size), message_id=f"m{n}")
            for n in range(first, first + count)
        ]
        assert all(each.is_accepted for each in await publisher.publish_many(sent))
        await publisher.close()

    async def ask(self, method: str, path: str, body: object = None, of: str = "orders") -> Any:
        return await self.management.request(method, f"/leases/{of}/{path}", body)

    async def fetch(self, number: int, name: str = "spark", **limits: int) -> int:
        answer = await self.ask("PUT", f"{name}/batches/{number}", limits)
        return int(answer["messages"])

    async def read(self, number: int, first: int, count: int, **other: object) -> Reading:
        properties = {
            "warren:lease": "spark",
            "warren:lease-batch": number,
            "warren:lease-first": first,
            "warren:lease-count": count,
        }
        reading = Reading(self.connection, "orders", properties | other)
        async with asyncio.timeout(20):
            await self.connection.attach([reading.handle])
            while len(reading.bodies) < count and reading.error is None:
                reading.changed.clear()
                await reading.changed.wait()
        return reading

    async def bodies(self, number: int, first: int, count: int) -> list[bytes]:
        reading = await self.read(number, first, count)
        assert reading.error is None, reading.error
        await reading.handle.close(20)
        return reading.bodies


Work = Callable[[Leased], Awaitable[None]]


def run(url: str, *works: Work) -> None:
    """Each on a connection of its own, one after the other."""

    async def one(work: Work) -> None:
        async with await connect(url, follow=None) as connection:
            await work(Leased(connection, await connection.management()))

    async def every() -> None:
        for work in works:
            await one(work)

    asyncio.run(every())


def bodies(first: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, end)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_stays_the_same_until_it_is_committed(vhost: VirtualHost, kind: str) -> None:
    async def begin(leased: Leased) -> None:
        await leased.declare(kind)
        await leased.publish(0, 1000)
        opened = await leased.ask("PUT", "spark", {"timeout_ms": 60_000})
        assert (opened["messages"], opened["batches"], opened["ready"]) == (0, [], 1000)
        assert await leased.fetch(5, max_messages=600) == 600
        assert await leased.bodies(5, 0, 600) == bodies(0, 600)

    async def again(leased: Leased) -> None:
        assert await leased.fetch(5, max_messages=10) == 600
        halves = await asyncio.gather(leased.bodies(5, 300, 300), leased.bodies(5, 0, 300))
        assert list(halves) == [bodies(300, 600), bodies(0, 300)]
        assert await leased.fetch(9) == 400
        assert await leased.bodies(9, 399, 1) == [b"999"]
        assert await leased.fetch(10) == 0
        held = (await leased.ask("GET", "spark"))["batches"]
        assert [(each["batch"], each["messages"]) for each in held] == [(5, 600), (9, 400)]
        assert (await leased.ask("POST", "spark/commit", {"batch": 5}))["messages"] == 600
        with pytest.raises(RequestFailed, match="batch 5 is out of order: the newest one is 9"):
            await leased.fetch(5)
        with pytest.raises(ClientError, match="holds no batch 5"):
            await leased.read(5, 0, 600)
        await leased.ask("DELETE", "spark")
        with pytest.raises(RequestFailed, match="has no lease 'spark'"):
            await leased.fetch(11)

    async def others(leased: Leased) -> None:
        consumer = await leased.connection.consumer("/queues/orders", credit=0)
        found = await consumer.receive(400, timeout_s=20)
        assert [each.message.body for each in found] == bodies(600, 1000)
        assert all(not each.message.first_acquirer for each in found)

    run(vhost.url, begin, again, others)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lease_that_is_not_used_ends(vhost: VirtualHost, api: HttpApi, kind: str) -> None:
    async def begin(leased: Leased) -> None:
        await leased.declare(kind)
        await leased.publish(0, 10)
        await leased.ask("PUT", "spark", {"timeout_ms": 1500})
        assert await leased.fetch(1) == 10

    async def later(leased: Leased) -> None:
        deadline = time.monotonic() + 30
        with pytest.raises(RequestFailed, match="has no lease 'spark'"):
            while time.monotonic() < deadline:
                await leased.ask("GET", "spark")  # Which does not renew it.
                await asyncio.sleep(0.1)
        await leased.ask("PUT", "spark", {"timeout_ms": 60_000})
        assert await leased.fetch(2) == 10
        assert await leased.bodies(2, 0, 10) == bodies(0, 10)
        (reading,) = [await leased.read(2, 0, 1)]
        assert reading.messages[0].first_acquirer is False, "they are redelivered"

    run(vhost.url, begin, later)


def test_sizes_limit_a_batch(vhost: VirtualHost) -> None:
    async def work(leased: Leased) -> None:
        await leased.declare("classic")
        await leased.publish(0, 3000, 1000)
        await leased.ask("PUT", "spark")
        count = await leased.fetch(1, max_bytes=600_000)
        assert 500 <= count <= 640, count
        assert await leased.fetch(2, max_bytes=1) in range(1, 257)

    run(vhost.url, work)


@pytest.mark.parametrize(
    ("queue", "text"),
    [
        ("absent", "no queue 'absent'"),
        ("log", "is a stream, which keeps its messages"),
        ("own", "is exclusive to a connection"),
    ],
)
def test_what_cannot_be_leased_is_refused(vhost: VirtualHost, queue: str, text: str) -> None:
    async def work(leased: Leased) -> None:
        await leased.management.declare_queue("log", arguments={"x-queue-type": "stream"})
        await leased.management.declare_queue("own", exclusive=True)
        with pytest.raises(RequestFailed, match=text):
            await leased.ask("PUT", "spark", of=queue)

    run(vhost.url, work)


@pytest.mark.parametrize(
    ("method", "path", "body", "text"),
    [
        ("PUT", "spark", {"timeout_ms": 5}, "timeout_ms is 5; allowed: 1000 to"),
        ("PUT", "spark", {"timeout": 5}, "bad property 'timeout'"),
        ("PUT", "spark", [1], "the body must be a map"),
        ("PUT", "x" * 256, None, "longer than 255 bytes"),
        ("PUT", "", None, "must have 1 to 255 bytes"),
        ("POST", "spark", None, "no method POST"),
        ("PUT", "spark/batches/x", None, "batch 'x': allowed: a whole number from 1 on"),
        ("PUT", "spark/batches/0", None, "batch '0': allowed: a whole number from 1 on"),
        ("PUT", "spark/batches/1", {"max_messages": -1}, "bad property 'max_messages'"),
        ("PUT", "other/batches/1", None, "has no lease 'other'"),
        ("POST", "spark/commit", None, "property 'batch' is missing"),
        ("POST", "other/commit", {"batch": 1}, "has no lease 'other'"),
        ("DELETE", "other", None, "has no lease 'other'"),
    ],
)
def test_bad_requests_are_refused(
    vhost: VirtualHost, method: str, path: str, body: object, text: str
) -> None:
    async def work(leased: Leased) -> None:
        await leased.declare("classic")
        await leased.ask("PUT", "spark")
        with pytest.raises(RequestFailed, match=text):
            await leased.ask(method, path, body)

    run(vhost.url, work)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"warren:lease": "other"}, "has no lease 'other'"),
        ({"warren:lease-batch": 2}, "holds no batch 2"),
        ({"warren:lease-count": 11}, "batch 1 has 10 messages"),
        ({"warren:lease-first": -1}, "warren:lease-first is -1; allowed: a whole number"),
        ({"warren:lease-count": "10"}, "warren:lease-count is '10'; allowed: a whole number"),
    ],
)
def test_bad_reads_are_refused(
    vhost: VirtualHost, properties: dict[str, object], text: str
) -> None:
    async def work(leased: Leased) -> None:
        await leased.declare("classic")
        await leased.publish(0, 10)
        await leased.ask("PUT", "spark")
        await leased.fetch(1)
        with pytest.raises(ClientError, match=text):
            await leased.read(1, 0, 10, **properties)

    run(vhost.url, work)


def test_a_lease_needs_the_right_to_read_the_queue(
    vhost: VirtualHost, api: HttpApi, warren_broker: Broker
) -> None:
    place = vhost.url.rpartition("/")[2]
    rights = {"configure": "", "write": "", "read": ""}
    urls = {}
    for user, read in (("reader", "^orders$"), ("stranger", "^other$")):
        name = f"{user}-{place}"
        api.put(f"/users/{name}", {"password": "secret", "tags": "management"})
        api.put(f"/permissions/{place}/{name}", {**rights, "read": read})
        urls[user] = vhost.url.replace("guest:guest", f"{name}:secret")

    async def begin(leased: Leased) -> None:
        await leased.declare("classic")
        await leased.publish(0, 10)
        await leased.ask("PUT", "spark")
        await leased.fetch(1)

    async def refused(leased: Leased) -> None:
        for method, path in (("PUT", "spark"), ("GET", "spark"), ("DELETE", "spark")):
            with pytest.raises(RequestFailed, match="403 read access to queue 'orders'"):
                await leased.ask(method, path)
        with pytest.raises(ClientError, match="read access to queue 'orders'"):
            await leased.read(1, 0, 10)

    async def shared(leased: Leased) -> None:
        assert await leased.bodies(1, 0, 10) == bodies(0, 10)
        assert (await leased.ask("POST", "spark/commit", {"batch": 1}))["messages"] == 10

    try:
        run(vhost.url, begin)
        run(urls["stranger"], refused)
        stranger = HttpApi(warren_broker.management_url, f"stranger-{place}", "secret")
        assert stranger.ask("DELETE", f"/leases/{place}/orders/spark")[0] == 401
        run(urls["reader"], shared)
    finally:
        for user in urls:
            api.delete(f"/users/{user}-{place}")


def test_a_reader_is_told_when_its_batch_goes(vhost: VirtualHost) -> None:
    async def work(leased: Leased) -> None:
        await leased.declare("classic")
        await leased.publish(0, 10)
        await leased.ask("PUT", "spark")
        await leased.fetch(1)
        reading = await leased.read(1, 0, 10)
        await leased.ask("POST", "spark/commit", {"batch": 1})
        eventually_set = asyncio.timeout(20)
        async with eventually_set:
            while reading.error is None:
                reading.changed.clear()
                await reading.changed.wait()
        assert "batch 1 was committed" in str(reading.error)

    run(vhost.url, work)


def test_leases_are_listed_and_count_as_unacknowledged(vhost: VirtualHost, api: HttpApi) -> None:
    async def work(leased: Leased) -> None:
        await leased.declare("quorum")
        await leased.publish(0, 10)
        await leased.ask("PUT", "spark")
        await leased.fetch(3, max_messages=4)

    run(vhost.url, work)
    place = vhost.url.rpartition("/")[2]
    (row,) = api.get(f"/leases/{place}")
    assert (row["queue"], row["name"], row["user"], row["messages"]) == (
        ("orders", "spark", "guest", 4)
    )
    assert row["newest_batch"] == 3 and row["batches"] == 1 and row["message_bytes"] > 0
    assert api.get(f"/leases/{place}/orders/spark").keys() == row.keys()
    assert api.ask("GET", f"/leases/{place}/orders/other")[0] == 404
    eventually(lambda: api.get(f"/queues/{place}/orders")["messages_unacknowledged"] == 4)
    api.delete(f"/leases/{place}/orders/spark")
    assert api.get(f"/leases/{place}/orders") == []
    eventually(lambda: api.get(f"/queues/{place}/orders")["messages_ready"] == 10)
