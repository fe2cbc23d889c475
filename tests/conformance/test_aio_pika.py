"""aio-pika: the asyncio client of many services, with its robust connection that comes back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError

from tests.conformance.broker import Broker, numbered
from warren.testing import Node

SECONDS: Final = 60.0


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run an async scenario with a deadline."""

    async def limited() -> None:
        async with asyncio.timeout(SECONDS):
            await scenario()

    asyncio.run(limited())


def persistent(body: bytes) -> aio_pika.Message:
    return aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)


def test_publish_and_consume_with_the_queue_iterator(broker: Broker, queue: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=10)
            declared = await channel.declare_queue(queue, durable=True)
            for body in numbered(200):
                await channel.default_exchange.publish(persistent(body), queue)
            bodies = []
            async with declared.iterator() as messages:
                async for message in messages:
                    async with message.process():
                        bodies.append(message.body)
                    if len(bodies) == 200:
                        break
            assert bodies == numbered(200)

    run(scenario)


def test_many_publishes_are_confirmed_side_by_side(broker: Broker, queue: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel(publisher_confirms=True)
            publishes = [
                channel.default_exchange.publish(persistent(body), queue) for body in numbered(500)
            ]
            await asyncio.gather(*publishes)
            declared = await channel.declare_queue(queue, passive=True)
            assert declared.declaration_result.message_count == 500

    run(scenario)


def test_an_unroutable_mandatory_message_raises(broker: Broker, name: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel(on_return_raises=True)
            with pytest.raises(DeliveryError):
                await channel.default_exchange.publish(aio_pika.Message(b"lost"), f"{name}-none")

    run(scenario)


def test_a_refused_declare_raises_and_the_connection_lives_on(broker: Broker, queue: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel()
            with pytest.raises(ChannelPreconditionFailed):
                await channel.declare_queue(queue, durable=False)
            again = await connection.channel()
            await again.declare_queue(queue, durable=True)

    run(scenario)


def test_a_message_whose_handler_fails_is_rejected_and_requeued(broker: Broker, queue: str) -> None:
    async def scenario() -> None:
        seen: list[tuple[bytes, bool]] = []
        done = asyncio.Event()

        async def handle(message: AbstractIncomingMessage) -> None:
            seen.append((message.body, bool(message.redelivered)))
            async with message.process(requeue=True, ignore_processed=True):
                if not message.redelivered:
                    raise ValueError("first try fails")
                done.set()

        async def handle_quietly(message: AbstractIncomingMessage) -> None:
            try:
                await handle(message)
            except ValueError as expected:
                assert str(expected) == "first try fails"

        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel()
            declared = await channel.declare_queue(queue, durable=True)
            await declared.consume(handle_quietly)
            await channel.default_exchange.publish(persistent(b"job"), queue)
            await done.wait()
        assert seen == [(b"job", False), (b"job", True)]

    run(scenario)


def test_topic_and_exchange_bindings_route(broker: Broker, name: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url()) as connection:
            channel = await connection.channel()
            kind = aio_pika.ExchangeType
            outer = await channel.declare_exchange(name, kind.TOPIC, auto_delete=True)
            inner = await channel.declare_exchange(f"{name}-in", kind.FANOUT, auto_delete=True)
            await inner.bind(outer, "logs.#")
            queue = await channel.declare_queue(exclusive=True)
            await queue.bind(inner)
            for key in ("logs.a", "other", "logs"):
                await outer.publish(aio_pika.Message(key.encode()), key, mandatory=False)
            bodies = [(await queue.get(no_ack=True)).body for _ in range(2)]
            assert bodies == [b"logs.a", b"logs"]
            assert await queue.get(no_ack=True, fail=False) is None

    run(scenario)


def test_the_rpc_pattern_answers(broker: Broker) -> None:
    from aio_pika.patterns import RPC

    async def scenario() -> None:
        async with await aio_pika.connect_robust(broker.url()) as connection:
            channel = await connection.channel()
            rpc = await RPC.create(channel)

            async def multiply(*, x: int, y: int) -> int:
                return x * y

            await rpc.register("multiply", multiply, auto_delete=True)
            answers = await asyncio.gather(*(rpc.proxy.multiply(x=x, y=7) for x in range(50)))
            assert list(answers) == [x * 7 for x in range(50)]
            await rpc.close()

    run(scenario)


def test_a_robust_connection_finds_everything_again_after_a_crash(warren_node: Node) -> None:
    async def scenario() -> None:
        bodies: asyncio.Queue[bytes] = asyncio.Queue()

        async def handle(message: AbstractIncomingMessage) -> None:
            async with message.process():
                bodies.put_nowait(message.body)

        url = warren_node.url + "?reconnect_interval=0.1"
        async with await aio_pika.connect_robust(url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("jobs", durable=True)
            await queue.consume(handle)
            await channel.default_exchange.publish(persistent(b"before"), "jobs")
            assert await bodies.get() == b"before"
            await asyncio.to_thread(crash_and_start, warren_node)
            await connection.ready()
            while True:
                try:
                    await channel.default_exchange.publish(persistent(b"after"), "jobs")
                    break
                except (aio_pika.exceptions.AMQPError, ConnectionError, RuntimeError):
                    await asyncio.sleep(0.05)  # Not yet reconnected; the deadline is the test's.
            while await bodies.get() != b"after":
                continue  # A redelivery of the first message is allowed after a crash.

    run(scenario)


def crash_and_start(node: Node) -> None:
    node.kill9()
    node.start()
