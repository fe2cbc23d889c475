"""RabbitMQ's stream protocol, with the client rstream from PyPI as it is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pika
import pytest
from rstream import (
    AMQPMessage,
    CompressionType,
    ConfirmationStatus,
    Consumer,
    ConsumerOffsetSpecification,
    FilterConfiguration,
    OffsetType,
    Producer,
    RawMessage,
    RouteType,
    SuperStreamConsumer,
    SuperStreamCreationOption,
    SuperStreamProducer,
    amqp_decoder,
    exceptions,
)
from rstream.schema import OffsetSpec, OffsetSpecification

from node.cli.warrenctl import main as warrenctl
from tests.conformance.broker import CONFIG
from tests.waiting import eventually, until
from warren.testing import free_port
from warren.testing.http_api import HttpApi
from warren.testing.node import Node

NAME = "log"
COUNT = 500
Received = list[tuple[int, bytes]]


class StreamNode(Node):
    """A node that listens for the stream protocol as well."""

    def __init__(self) -> None:
        self.stream_port = free_port()
        super().__init__(config=f'listeners.stream = "127.0.0.1:{self.stream_port}"\n{CONFIG}')

    def place(self, user: str = "guest") -> dict[str, Any]:
        return {
            "host": "127.0.0.1",
            "port": self.stream_port,
            "username": user,
            "password": user,
        }


@pytest.fixture(scope="module")
def node() -> Iterator[StreamNode]:
    with StreamNode() as started:
        yield started


def play(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(40):
            await test()

    asyncio.run(whole())


@asynccontextmanager
async def producing(node: StreamNode, user: str = "guest") -> AsyncIterator[Producer]:
    async with Producer(**node.place(user), default_batch_publishing_delay=0.01) as producer:
        yield producer


@asynccontextmanager
async def stream(node: StreamNode, name: str = NAME) -> AsyncIterator[Producer]:
    """A producer, and a stream that is there as long."""
    async with producing(node) as producer:
        await producer.create_stream(name)
        try:
            yield producer
        finally:
            await producer.delete_stream(name)


async def read(
    node: StreamNode,
    count: int,
    begin: ConsumerOffsetSpecification | None = None,
    name: str = NAME,
    **options: Any,
) -> Received:
    """Offset and body of the first messages from there on."""
    found: Received = []
    enough = asyncio.Event()

    async def take(message: AMQPMessage, context: Any) -> None:
        if len(found) < count:
            found.append((context.offset, body_of(message)))
        if len(found) == count:
            enough.set()

    consumer = Consumer(**node.place())
    await consumer.start()
    running = asyncio.create_task(consumer.run())
    await consumer.subscribe(
        name,
        take,
        decoder=amqp_decoder,
        offset_specification=begin or ConsumerOffsetSpecification(OffsetType.FIRST),
        **options,
    )
    async with asyncio.timeout(15):
        await enough.wait()
    await consumer.close()
    await running
    return found


def body_of(message: AMQPMessage) -> bytes:
    body = message.body
    return body if isinstance(body, bytes) else b"".join(body)


def bodies(count: int, first: int = 0) -> list[AMQPMessage]:
    return [AMQPMessage(body=b"%d" % n) for n in range(first, first + count)]


async def publish(producer: Producer, messages: list[AMQPMessage], name: str = NAME) -> list[int]:
    """Publish, and wait for the confirms; the publishing ids as they came."""
    confirmed: list[int] = []
    enough = asyncio.Event()

    async def decided(status: ConfirmationStatus) -> None:
        assert status.is_confirmed, status.response_code
        confirmed.append(status.message_id)
        if len(confirmed) == len(messages):
            enough.set()

    await producer.send_batch(name, messages, on_publish_confirm=decided)
    await enough.wait()
    return confirmed


def test_messages_are_confirmed_and_read_in_order(node: StreamNode) -> None:
    async def test() -> None:
        async with stream(node) as producer:
            confirmed = await publish(producer, bodies(COUNT))
            assert sorted(confirmed) == list(range(1, COUNT + 1))
            assert await read(node, COUNT) == [(n, b"%d" % n) for n in range(COUNT)]

    play(test)


@pytest.mark.parametrize("packing", [CompressionType.No, CompressionType.Gzip])
def test_batches_are_parted_into_messages(node: StreamNode, packing: CompressionType) -> None:
    async def test() -> None:
        async with stream(node) as producer:
            confirmed: list[int] = []
            done = asyncio.Event()

            async def decided(status: ConfirmationStatus) -> None:
                confirmed.append(status.message_id)
                done.set()

            await producer.send_sub_entry(
                NAME, bodies(50), compression_type=packing, on_publish_confirm=decided
            )
            await done.wait()
            assert len(confirmed) == 1
            assert await read(node, 50) == [(n, b"%d" % n) for n in range(50)]

    play(test)


@pytest.mark.parametrize(
    ("begin", "first"),
    [
        (ConsumerOffsetSpecification(OffsetType.OFFSET, 7), 7),
        (ConsumerOffsetSpecification(OffsetType.TIMESTAMP, 1), 0),
    ],
)
def test_a_subscription_begins_where_it_asks_to(
    node: StreamNode, begin: ConsumerOffsetSpecification, first: int
) -> None:
    async def test() -> None:
        async with stream(node) as producer:
            await publish(producer, bodies(20))
            assert await read(node, 3, begin) == [(n, b"%d" % n) for n in range(first, first + 3)]

    play(test)


def test_next_means_what_is_published_from_now_on(node: StreamNode) -> None:
    async def test() -> None:
        async with stream(node) as producer:
            await publish(producer, bodies(5))
            next_one = ConsumerOffsetSpecification(OffsetType.NEXT)
            reading = asyncio.create_task(read(node, 1, next_one))
            consumers = f"/api/queues/%2F/{NAME}"
            while node.api("GET", consumers)["consumers"] == 0:
                await asyncio.sleep(0.02)
            await publish(producer, bodies(1, first=5))
            assert await reading == [(5, b"5")]

    play(test)


def test_offsets_are_stored_by_name(node: StreamNode) -> None:
    async def test() -> None:
        async with stream(node):
            consumer = Consumer(**node.place())
            await consumer.start()
            with pytest.raises(exceptions.OffsetNotFound):
                await consumer.query_offset(NAME, "reader")
            await consumer.store_offset(NAME, "reader", 41)
            await consumer.store_offset(NAME, "reader", 42)
            assert await consumer.query_offset(NAME, "reader") == 42
            await consumer.close()

    play(test)


def test_what_a_named_publisher_sends_again_is_appended_once(node: StreamNode) -> None:
    async def test() -> None:
        async with stream(node) as producer:
            for number in (0, 1, 1, 0, 2, 1, 3):
                (message,) = bodies(1, first=number)
                message.publishing_id = number + 1
                await producer.send_wait(NAME, message, publisher_name="orders")
            assert [body for _, body in await read(node, 4)] == [b"0", b"1", b"2", b"3"]

    play(test)


def test_a_publisher_goes_on_behind_its_last_id(node: StreamNode) -> None:
    async def test() -> None:
        async with stream(node) as producer:
            (message,) = bodies(1)
            message.publishing_id = 77
            await producer.send_wait(NAME, message, publisher_name="orders")
            async with producing(node) as again:
                confirmed = await again.send_batch(NAME, bodies(1), publisher_name="orders")
                assert confirmed == [78]

    play(test)


def test_a_consumer_gets_what_its_filter_wants(node: StreamNode) -> None:
    async def value_of(message: AMQPMessage) -> str:
        return str(message.application_properties["region"])

    async def test() -> None:
        async with Producer(
            **node.place(), default_batch_publishing_delay=0.01, filter_value_extractor=value_of
        ) as producer:
            await producer.create_stream("filtered")
            for number in range(40):
                region = "west" if number % 4 == 0 else "east"
                message = AMQPMessage(
                    body=b"%d" % number, application_properties={"region": region}
                )
                await producer.send_wait("filtered", message)
            found = await read(
                node,
                10,
                name="filtered",
                filter_input=FilterConfiguration(values_to_filter=["west"], match_unfiltered=False),
            )
            assert found == [(n, b"%d" % n) for n in range(0, 40, 4)]
            await producer.delete_stream("filtered")

    play(test)


class Grouped:
    """A single active consumer with a connection of its own."""

    def __init__(self, node: StreamNode, name: str) -> None:
        self.found: Received = []
        self.updates: list[bool] = []
        self._name = name
        self._consumer = Consumer(**node.place())

    async def begin(self, group: str = "shop") -> None:
        await self._consumer.start()
        self._running = asyncio.create_task(self._consumer.run())
        await self._consumer.subscribe(
            self._name,
            self._take,
            decoder=amqp_decoder,
            offset_specification=ConsumerOffsetSpecification(OffsetType.FIRST),
            properties={"single-active-consumer": "true", "name": group},
            consumer_update_listener=self._updated,
            subscriber_name=group,
        )

    async def _take(self, message: AMQPMessage, context: Any) -> None:
        self.found.append((context.offset, body_of(message)))
        await self._consumer.store_offset(self._name, "shop", context.offset)

    async def _updated(self, is_active: bool, context: Any) -> OffsetSpecification:
        self.updates.append(is_active)
        if not is_active:
            return OffsetSpecification(OffsetType.NEXT, 0)
        try:
            stored = await self._consumer.query_offset(self._name, "shop")
        except exceptions.OffsetNotFound:
            return OffsetSpecification(OffsetType.FIRST, 0)
        return OffsetSpecification(OffsetType.OFFSET, stored + 1)

    async def close(self) -> None:
        await self._consumer.close()
        await self._running


def test_one_consumer_of_a_group_is_active_and_the_next_goes_on_where_it_ended(
    node: StreamNode,
) -> None:
    async def test() -> None:
        async with stream(node, "grouped") as producer:
            first, second = Grouped(node, "grouped"), Grouped(node, "grouped")
            await first.begin()
            await until(lambda: first.updates)
            await second.begin()
            await publish(producer, bodies(20), "grouped")
            await until(lambda: len(first.found) == 20)
            assert (first.updates, second.updates, second.found) == ([True], [], [])
            await first.close()
            await publish(producer, bodies(10, 20), "grouped")
            await until(lambda: len(second.found) == 10)
            assert second.found == [(n, b"%d" % n) for n in range(20, 30)]
            await second.close()

    play(test)


def test_consumers_of_a_super_stream_share_its_partitions(node: StreamNode) -> None:
    async def test() -> None:
        option = SuperStreamCreationOption(n_partitions=3)
        properties = {"single-active-consumer": "true", "name": "team", "super-stream": "work"}
        active: list[set[str]] = [set(), set()]
        consumers: list[SuperStreamConsumer] = []

        def listener(number: int) -> Callable[[bool, Any], Awaitable[OffsetSpecification]]:
            async def updated(is_active: bool, context: Any) -> OffsetSpecification:
                (active[number].add if is_active else active[number].discard)(context.stream)
                return OffsetSpecification(OffsetType.FIRST, 0)

            return updated

        for number in range(2):
            consumer = SuperStreamConsumer(
                **node.place(), super_stream="work", super_stream_creation_option=option
            )
            await consumer.start()
            await consumer.subscribe(
                lambda message, context: None,
                decoder=amqp_decoder,
                properties=properties,
                consumer_update_listener=listener(number),
            )
            consumers.append(consumer)
        await until(lambda: active == [{"work-0", "work-2"}, {"work-1"}])
        await consumers[0].close()
        await until(lambda: active[1] == {"work-0", "work-1", "work-2"})
        await consumers[1].close()

    play(test)


@pytest.mark.parametrize(
    "properties",
    [
        {"single-active-consumer": "true"},
        {"single-active-consumer": "true", "name": "x" * 256},
        {"single-active-consumer": "true", "name": "team", "super-stream": "none"},
    ],
)
def test_a_single_active_consumer_without_a_group_is_refused(
    node: StreamNode, properties: dict[str, str]
) -> None:
    async def test() -> None:
        async with stream(node):
            consumer = Consumer(**node.place())
            await consumer.start()
            client = await consumer.default_client
            with pytest.raises(exceptions.PreconditionFailed):
                await client.subscribe(NAME, 1, OffsetSpec(OffsetType.FIRST), 10, properties)
            await consumer.close()

    play(test)


def test_a_super_stream_parts_messages_among_its_partitions(node: StreamNode) -> None:
    async def key_of(message: AMQPMessage) -> str:
        return str(message.application_properties["key"])

    async def test() -> None:
        option = SuperStreamCreationOption(n_partitions=3)
        async with SuperStreamProducer(
            **node.place(),
            routing_extractor=key_of,
            routing=RouteType.Hash,
            super_stream="orders",
            super_stream_creation_option=option,
            default_batch_publishing_delay=0.01,
        ) as producer:
            for number in range(60):
                key = {"key": f"customer {number % 20}"}
                await producer.send(AMQPMessage(body=b"%d" % number, application_properties=key))
        names = [f"orders-{n}" for n in range(3)]
        counts = [eventually_count(node, name) for name in names if True]
        assert sum(counts) == 60 and min(counts) > 0

        found: list[bytes] = []
        enough = asyncio.Event()

        async def take(message: AMQPMessage, context: Any) -> None:
            found.append(body_of(message))
            if len(found) == 60:
                enough.set()

        consumer = SuperStreamConsumer(**node.place(), super_stream="orders")
        await consumer.start()
        first = ConsumerOffsetSpecification(OffsetType.FIRST)
        await consumer.subscribe(take, decoder=amqp_decoder, offset_specification=first)
        running = asyncio.create_task(consumer.run())
        async with asyncio.timeout(15):
            await enough.wait()
        assert sorted(found) == sorted(b"%d" % n for n in range(60))
        await consumer.close()
        await running
        async with SuperStreamProducer(
            **node.place(), routing_extractor=key_of, super_stream="orders"
        ) as producer:
            await producer.delete_super_stream("orders")
        listed = {each["name"] for each in node.api("GET", "/api/queues")}
        assert listed.isdisjoint(names)

    play(test)


def eventually_count(node: StreamNode, name: str) -> int:
    return int(eventually(lambda: node.api("GET", f"/api/queues/%2F/{name}")["messages"]))


def test_amqp_and_the_stream_protocol_share_a_stream(node: StreamNode) -> None:
    async def test() -> None:
        async with stream(node) as producer:
            with pika.BlockingConnection(pika.URLParameters(node.url)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                headers = pika.BasicProperties(headers={"n": 1})
                channel.basic_publish("", NAME, b"from pika", headers)
                await publish(producer, [AMQPMessage(body=b"from rstream")])
                assert await read(node, 2) == [(0, b"from pika"), (1, b"from rstream")]
                channel.basic_qos(prefetch_count=10)
                first = {"x-stream-offset": "first"}
                got = channel.consume(NAME, arguments=first, inactivity_timeout=10)
                assert [next(got)[2], next(got)[2]] == [b"from pika", b"from rstream"]

    play(test)


def test_a_deleted_stream_is_reported_to_its_consumers(node: StreamNode) -> None:
    async def test() -> None:
        closed = asyncio.Event()

        async def gone(info: Any) -> None:
            closed.set()

        async with producing(node) as producer:
            await producer.create_stream("gone")
            consumer = Consumer(**node.place(), on_close_handler=gone)
            await consumer.start()
            await consumer.subscribe("gone", lambda message, context: None)
            await producer.delete_stream("gone")
            async with asyncio.timeout(10):
                await closed.wait()
            await consumer.close()

    play(test)


def test_the_connection_is_listed(node: StreamNode) -> None:
    async def test() -> None:
        async with stream(node) as producer:
            await publish(producer, bodies(1))
            listed = node.api("GET", "/api/connections")
            assert {each["protocol"] for each in listed} == {"stream"}
            assert {(each["user"], each["vhost"]) for each in listed} == {("guest", "/")}
            assert sum(each["recv_oct"] for each in listed) > 0

    play(test)


@pytest.fixture
def shown(node: StreamNode, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """The rows that a command of `warrenctl` prints as CSV."""

    def run(*words: str) -> list[str]:
        command = ["--node-url", node.management_url, "--formatter", "csv", "-q", *words]
        assert warrenctl(command) == 0
        return capsys.readouterr().out.splitlines()[1:]

    return run


def test_groups_of_consumers_are_listed_and_their_offset_is_reset(
    node: StreamNode, shown: Callable[..., list[str]]
) -> None:
    api = HttpApi(node.management_url)
    group = ("--stream", "grouped", "--reference", "shop")
    reset = "/stream/%2F/grouped/tracking/reset-offset"

    async def test() -> None:
        async with stream(node, "grouped") as producer:
            for _ in range(10):
                await producer.send_wait("grouped", AMQPMessage(body=b"x"))
            consumer = Grouped(node, "grouped")
            await consumer.begin()
            tracking = "/stream/%2F/grouped/tracking"
            await until(lambda: api.get(tracking)["offsets"] == {"shop": 9})
            assert shown("list_stream_consumer_groups") == ["grouped,shop,-1,1"]
            (member,) = shown("list_stream_group_consumers", *group)
            assert member.endswith(",active")
            await consumer.close()
            await until(lambda: shown("list_stream_consumer_groups") == [])
            assert shown("reset_offset", *group) == []
            assert api.get(tracking)["offsets"] == {"shop": 0}
            check_refusals()

    def check_refusals() -> None:
        for reference, code in (("none", 404), ("", 400), ("x" * 256, 400), (5, 400)):
            assert api.refused("POST", reset, {"reference": reference})[0] == code
        other = reset.replace("grouped", "none")
        assert api.refused("POST", other, {"reference": "shop"})[0] == 404

    play(test)


def test_clients_of_streams_are_listed(node: StreamNode, shown: Callable[..., list[str]]) -> None:
    api = HttpApi(node.management_url)

    async def test() -> None:
        async with stream(node, "listed") as producer:
            for number in range(10):
                made = AMQPMessage(body=b"%d" % number)
                await producer.send_wait("listed", made, publisher_name="shop")
            consumer = Grouped(node, "listed")
            await consumer.begin()
            await until(lambda: len(consumer.found) == 10)
            await until(lambda: api.get("/stream/%2F/listed/tracking")["offsets"] == {"shop": 9})
            check()
            await consumer.close()
            await until(lambda: api.get("/stream/consumers/%2F") == [])

    def check() -> None:
        (row,) = api.get("/stream/consumers/%2F")
        assert (row["queue"]["name"], row["consumed"], row["offset"]) == ("listed", 10, 9)
        assert (row["offset_lag"], row["activity_status"]) == (0, "single_active")
        assert row["properties"]["name"] == "shop"
        (other,) = api.get("/consumers/%2F")
        assert other["consumer_tag"].startswith("stream.subid-")
        assert other["queue"] == row["queue"]
        assert (other["protocol"], other["delivered"], other["ack_required"]) == (
            *("stream", 10),
            False,
        )
        assert api.get("/overview")["message_stats"]["deliver_no_ack"] >= 10
        (row,) = api.get("/stream/publishers/%2F/listed")
        assert (row["reference"], row["published"], row["confirmed"]) == ("shop", 10, 10)
        connection = row["connection_details"]["name"]
        path = f"/stream/connections/%2F/{quote(connection)}"
        assert api.get(path)["protocol"] == "stream"
        assert api.get(f"{path}/publishers") == [row]
        assert api.get(f"{path}/consumers") == []
        names = {each["name"] for each in api.get("/stream/connections")}
        assert connection in names and len(names) >= 2
        assert api.get("/stream/%2F/listed/tracking") == {
            "offsets": {"shop": 9},
            "writers": {"shop": 10},
        }
        assert api.get("/stream/%2F/listed/tracking?type=writer") == {"writers": {"shop": 10}}
        assert api.refused("GET", "/stream/%2F/none/tracking")[0] == 404
        assert shown("list_stream_tracking", "listed") == ["offset,shop,9", "writer,shop,10"]
        assert shown("list_stream_tracking", "listed", "--offset") == ["offset,shop,9"]
        wanted = ("stream", "messages_consumed", "activity_status")
        assert shown("list_stream_consumers", *wanted) == ["listed,10,single_active"]
        wanted = ("stream", "reference", "messages_confirmed")
        assert shown("list_stream_publishers", *wanted) == ["listed,shop,10"]
        assert connection in shown("list_stream_connections")

    play(test)


def test_a_monitoring_user_cannot_close_connections_of_others(node: StreamNode) -> None:
    api = HttpApi(node.management_url)
    api.put("/users/watcher", {"password": "watcher", "tags": "monitoring"})
    api.put("/permissions/%2F/watcher", {"configure": "", "write": "", "read": ""})
    watcher = HttpApi(node.management_url, "watcher")

    async def test() -> None:
        async with stream(node, "closing") as producer:
            await producer.send_wait("closing", AMQPMessage(body=b"1"))
            (row,) = api.get("/stream/publishers/%2F/closing")
            path = f"/stream/connections/%2F/{quote(row['connection_details']['name'])}"
            assert watcher.get(path)["protocol"] == "stream"
            assert watcher.refused("DELETE", path)[0] == 401
            assert api.get(path)["name"] == row["connection_details"]["name"]

    try:
        play(test)
    finally:
        api.delete("/users/watcher")


def test_super_streams_are_made_over_http_and_by_warrenctl(
    node: StreamNode, capsys: pytest.CaptureFixture[str]
) -> None:
    api = HttpApi(node.management_url)
    where = "/stream/super-streams/%2F"

    def ctl(*words: str) -> int:
        return warrenctl(["--node-url", node.management_url, "-q", *words])

    def names() -> list[str]:
        found = (each["name"] for each in api.get("/queues/%2F"))
        return [each for each in found if each.startswith(("http", "shell", "part"))]

    body = {"partitions": 3, "arguments": {"max-length-bytes": 1_000_000}}
    assert [api.put(f"{where}/http", body) for _ in range(2)] == [201, 204]
    assert names() == ["http-0", "http-1", "http-2"]
    assert api.get("/queues/%2F/http-1")["arguments"]["x-max-length-bytes"] == 1_000_000
    assert ctl("add_super_stream", "shell", "--binding-keys", "north,south", "--max-age", "1D") == 0

    async def asked() -> list[str]:
        async with producing(node) as producer:
            client = await producer.default_client
            found: list[str] = await client.partitions("shell")
            return found

    assert asyncio.run(asked()) == ["shell-north", "shell-south"]
    for wrong, reason in (
        ({}, "one of partitions and binding-keys must be in the body"),
        ({"partitions": 1, "binding-keys": "a"}, "one of partitions and binding-keys"),
        ({"partitions": 0}, "partitions"),
        ({"partitions": 1, "arguments": {"colour": "red"}}, "unknown argument 'colour'"),
        ({"binding-keys": "a,a"}, "a name of its own"),
    ):
        status, answer = api.refused("PUT", f"{where}/wrong", wrong)
        assert status == 400 and reason in str(answer), answer
    api.put("/queues/%2F/part-1", {"durable": True})
    assert "there is a queue 'part-1'" in api.refused("PUT", f"{where}/part", {"partitions": 2})[1]
    assert "there is an exchange" in api.refused("PUT", f"{where}/amq.topic", {"partitions": 1})[1]
    assert ctl("add_super_stream", "none") == 64
    assert "--partitions and --binding-keys" in capsys.readouterr().err
    assert ctl("delete_super_stream", "shell") == 0
    assert api.delete(f"{where}/http") == 204
    assert api.refused("DELETE", f"{where}/http")[0] == 404
    assert names() == ["part-1"]
    api.delete("/queues/%2F/part-1")


def test_rights_are_those_of_the_user(node: StreamNode) -> None:
    async def test() -> None:
        async with stream(node), producing(node, "limited") as limited:
            with pytest.raises(exceptions.AccessRefused):
                await limited.create_stream("closed")
            reader = Consumer(**node.place("limited"))
            await reader.start()
            with pytest.raises(exceptions.AccessRefused):
                await reader.subscribe(NAME, lambda message, context: None)
            await reader.close()
            await limited.create_stream("open-log")
            await limited.send_wait("open-log", AMQPMessage(body=b"x"))
            await limited.delete_stream("open-log")

    play(test)


@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("unknown", "x")])
def test_a_wrong_login_is_refused(node: StreamNode, user: str, password: str) -> None:
    async def test() -> None:
        place = node.place() | {"username": user, "password": password}
        with pytest.raises(exceptions.AuthenticationFailure):
            async with Producer(**place):
                pass

    play(test)


def test_a_user_without_rights_in_the_vhost_cannot_open_it(node: StreamNode) -> None:
    async def test() -> None:
        with pytest.raises(exceptions.VirtualHostAccessFailure):
            async with producing(node, "stranger"):
                pass

    play(test)


def test_bytes_that_are_no_message_are_read_as_they_were_published(node: StreamNode) -> None:
    bodies_sent = [b"\x00\xffno message", b"", b"x" * 300]

    async def test() -> None:
        found: list[bytes] = []
        enough = asyncio.Event()

        async def take(message: bytes, context: Any) -> None:
            found.append(bytes(message))
            if len(found) == len(bodies_sent):
                enough.set()

        async with stream(node) as producer, Consumer(**node.place()) as consumer:
            for body in bodies_sent:
                await producer.send_wait(NAME, RawMessage(data=body))
            await consumer.subscribe(NAME, take)
            async with asyncio.timeout(10):
                await enough.wait()
            assert found == bodies_sent
            assert await asyncio.to_thread(first_over_amqp, node) == bodies_sent[0]

    play(test)


def first_over_amqp(node: StreamNode) -> bytes:
    """The body of the first message, as a consumer of AMQP 0-9-1 gets it."""
    with pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        _, _, body = next(channel.consume(NAME, arguments={"x-stream-offset": "first"}))
        assert isinstance(body, bytes)
        return body


def test_streams_that_are_there_or_not_are_told_apart(node: StreamNode) -> None:
    async def test() -> None:
        async with stream(node) as producer:
            with pytest.raises(exceptions.StreamAlreadyExists):
                await producer.create_stream(NAME)
            with pytest.raises(exceptions.StreamDoesNotExist):
                await producer.delete_stream("no such stream")
            with pytest.raises(exceptions.PreconditionFailed):
                await producer.create_stream("other", arguments={"max-age": "soon"})
            assert await producer.stream_exists(NAME)
            assert not await producer.stream_exists("no such stream")

    play(test)
