"""aio-pika with options of queues: calls that expire, transactions, priorities, quorum queues."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import DeliveryError
from aio_pika.patterns import RPC

from tests.conformance.broker import Broker, numbered

SECONDS: Final = 60.0
PERSISTENT: Final = aio_pika.DeliveryMode.PERSISTENT


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run an async scenario with a deadline."""

    async def limited() -> None:
        async with asyncio.timeout(SECONDS):
            await scenario()

    asyncio.run(limited())


def test_a_call_that_nobody_answers_in_time_comes_back_by_the_dead_letter_exchange(
    broker: Broker, name: str
) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel()
            rpc = await RPC.create(channel)
            busy = await channel.declare_queue(
                name, arguments={"x-dead-letter-exchange": RPC.DLX_NAME}
            )
            with pytest.raises(TimeoutError, match="Message timed-out"):
                await rpc.call(name, expiration=1)
            assert (await busy.get(fail=False)) is None
            await rpc.close()

    run(scenario)


def test_a_call_whose_server_rejects_it_comes_back(broker: Broker, name: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel()
            rpc = await RPC.create(channel)
            server = await channel.declare_queue(
                name, arguments={"x-dead-letter-exchange": RPC.DLX_NAME}
            )

            async def reject(message: AbstractIncomingMessage) -> None:
                await message.reject(requeue=False)

            await server.consume(reject)
            with pytest.raises(TimeoutError, match="Message timed-out"):
                await rpc.call(name)
            await rpc.close()

    run(scenario)


def test_a_transaction_commits_and_rolls_back(broker: Broker, queue: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel(publisher_confirms=False)
            declared = await channel.declare_queue(queue, durable=True)
            async with channel.transaction():
                for body in numbered(10):
                    await channel.default_exchange.publish(aio_pika.Message(body), queue)
            with pytest.raises(ValueError, match="rolled back"):
                async with channel.transaction():
                    await channel.default_exchange.publish(aio_pika.Message(b"never"), queue)
                    raise ValueError("rolled back")
            bodies = [(await declared.get(no_ack=True, timeout=5)).body for _ in range(10)]
            assert bodies == numbered(10)
            assert await declared.get(no_ack=True, fail=False) is None

    run(scenario)


def test_priorities_and_expirations_go_with_each_message(broker: Broker, name: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel()
            declared = await channel.declare_queue(
                name, durable=True, arguments={"x-max-priority": 10}
            )
            for priority in (1, 9, 5):
                message = aio_pika.Message(b"%d" % priority, priority=priority, expiration=60)
                await channel.default_exchange.publish(message, name)
            bodies = [(await declared.get(no_ack=True)).body for _ in range(3)]
            assert bodies == [b"9", b"5", b"1"]

    run(scenario)


def test_a_refused_publish_raises_and_the_next_one_may_be_taken(broker: Broker, name: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel()
            declared = await channel.declare_queue(
                name, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
            )
            publish = channel.default_exchange.publish
            await publish(aio_pika.Message(b"1"), name)
            with pytest.raises(DeliveryError):
                await publish(aio_pika.Message(b"2"), name)
            assert (await declared.get(no_ack=True)).body == b"1"
            await publish(aio_pika.Message(b"3"), name)

    run(scenario)


def test_a_quorum_queue_serves_publishers_and_consumers_side_by_side(
    broker: Broker, name: str
) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=50)
            declared = await channel.declare_queue(
                name, durable=True, arguments={"x-queue-type": "quorum"}
            )
            publishes = [
                channel.default_exchange.publish(
                    aio_pika.Message(body, delivery_mode=PERSISTENT), name
                )
                for body in numbered(300)
            ]
            await asyncio.gather(*publishes)
            bodies = []
            async with declared.iterator() as messages:
                async for message in messages:
                    await message.ack()
                    bodies.append(message.body)
                    if len(bodies) == 300:
                        break
            assert bodies == numbered(300)

    run(scenario)
