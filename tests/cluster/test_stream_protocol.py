"""The stream protocol on three nodes: clients learn where a stream is, any node takes publishes,
and a publisher that goes on after its leader was killed appends nothing twice."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from rstream import (
    AMQPMessage,
    Consumer,
    ConsumerOffsetSpecification,
    OffsetType,
    Producer,
    amqp_decoder,
)
from rstream.schema import ConsumerUpdateResponse, OffsetSpec, OffsetSpecification

from tests.cluster.leaders import leader_number, without_leader
from tests.waiting import eventually, until
from warren.testing import ClusterOfNodes, free_port

NAME = "orders"
COUNT = 200
PORTS = {number: free_port() for number in (1, 2, 3)}
pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    places = {number: {"listeners.stream": f"127.0.0.1:{port}"} for number, port in PORTS.items()}
    with ClusterOfNodes(3, node_settings=places) as found:
        yield found


def producer_of(number: int) -> Producer:
    return Producer(
        "127.0.0.1",
        PORTS[number],
        username="guest",
        password="guest",
        default_batch_publishing_delay=0.01,
    )


def message(number: int) -> AMQPMessage:
    made = AMQPMessage(body=b"%d" % number)
    made.publishing_id = number + 1
    return made


async def read(number: int, count: int) -> list[tuple[int, bytes]]:
    """Offset and body of the first messages, by a client that knows this node."""
    found: list[tuple[int, bytes]] = []
    enough = asyncio.Event()

    async def take(received: AMQPMessage, context: Any) -> None:
        if len(found) < count:
            found.append((context.offset, bytes(received.body)))
        if len(found) == count:
            enough.set()

    consumer = Consumer("127.0.0.1", PORTS[number], username="guest", password="guest")
    await consumer.start()
    running = asyncio.create_task(consumer.run())
    first = ConsumerOffsetSpecification(OffsetType.FIRST)
    await consumer.subscribe(NAME, take, decoder=amqp_decoder, offset_specification=first)
    async with asyncio.timeout(20):
        await enough.wait()
    await consumer.close()
    await running
    return found


def test_a_named_publisher_goes_on_after_its_leader_was_killed(cluster: ClusterOfNodes) -> None:
    async def begin() -> None:
        async with producer_of(1) as producer:
            await producer.create_stream(NAME)
            for number in range(COUNT):
                await producer.send_wait(NAME, message(number), publisher_name="shop")

    async def go_on(number: int) -> None:
        async with producer_of(number) as producer:
            for again in range(COUNT - 20, COUNT + 20):
                await producer.send_wait(NAME, message(again), publisher_name="shop", timeout=20)

    asyncio.run(asyncio.wait_for(begin(), 40))
    with without_leader(cluster, NAME) as lost:
        assert leader_number(cluster, NAME) != lost  # The client gives up if there is none.
        asyncio.run(asyncio.wait_for(go_on(lost % 3 + 1), 60))
    expected = [(number, b"%d" % number) for number in range(COUNT + 20)]
    for number in PORTS:
        assert asyncio.run(read(number, COUNT + 20)) == expected


def test_metadata_names_every_node_of_the_stream(cluster: ClusterOfNodes) -> None:
    async def asked() -> set[tuple[str, int]]:
        async with producer_of(2) as producer:
            client = await producer.default_client
            leader, replicas = await client.query_leader_and_replicas(NAME)
            return {(each.host, each.port) for each in (leader, *replicas)}

    every = {("127.0.0.1", port) for port in PORTS.values()}
    eventually(lambda: asyncio.run(asked()) == every)


def test_a_group_of_consumers_has_one_active_on_all_nodes(cluster: ClusterOfNodes) -> None:
    properties = {"single-active-consumer": "true", "name": "team"}

    async def joined(number: int, told: list[bool]) -> Consumer:
        """A consumer at that node, whichever leads the stream."""
        consumer = Consumer("127.0.0.1", PORTS[number], username="guest", password="guest")
        await consumer.start()
        client = await consumer.default_client

        async def updated(frame: ConsumerUpdateResponse) -> None:
            told.append(bool(frame.active))
            await client.consumer_update(
                frame.correlation_id, OffsetSpecification(OffsetType.FIRST, 0)
            )

        client.add_handler(ConsumerUpdateResponse, updated)
        await client.subscribe("grouped", 1, OffsetSpec(OffsetType.FIRST), 10, properties)
        return consumer

    async def test() -> None:
        async with producer_of(1) as producer:
            await producer.create_stream("grouped")
        told: dict[int, list[bool]] = {2: [], 3: [], 1: []}
        consumers = {}
        for number, each in told.items():
            consumers[number] = await joined(number, each)
            if number == 2:
                await until(lambda: told[2] == [True])
        cluster.node(2).kill9()
        await asyncio.to_thread(cluster.node(2).start)
        await until(lambda: told[3] == [True])
        await consumers[3].close()
        await until(lambda: told[1] == [True])
        assert told == {2: [True], 3: [True], 1: [True]}
        await consumers[1].close()

    asyncio.run(asyncio.wait_for(test(), 180))
