"""`node.in_process`: a broker on the loop of a test."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aio_pika
import aiohttp
import pytest
import uvloop

from node.config.settings import ConfigError
from node.in_process import BrokerFailed, LoopBroker
from warren.storage.disk import DirectoryInUse

QUORUM = {"x-queue-type": "quorum"}

pytestmark = pytest.mark.timeout(60)


async def put(url: str, body: bytes, arguments: dict[str, Any] = QUORUM) -> None:
    """Publish a durable message to queue `q`, and wait for its confirm."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("q", durable=True, arguments=arguments)
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, "q")


async def taken(url: str) -> list[bytes]:
    """What is ready in queue `q`."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue("q")
        found = []
        while message := await queue.get(fail=False):
            found.append(message.body)
            await message.ack()
        return found


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_test_and_its_broker_share_a_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story() -> None:
        handler = signal.getsignal(signal.SIGTERM)
        async with LoopBroker() as broker, LoopBroker("other") as other:
            await put(broker.url, b"one")
            await put(other.url, b"two")
            assert await taken(broker.url) == [b"one"]
            assert await taken(other.url) == [b"two"]
            login = {"Authorization": aiohttp.encode_basic_auth("guest", "guest")}
            async with aiohttp.ClientSession(broker.management_url, headers=login) as session:
                answer = await session.get("/api/overview")
                assert (await answer.json())["node"] == "broker"
        assert signal.getsignal(signal.SIGTERM) is handler
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())


def run(story: Coroutine[object, object, None]) -> None:
    asyncio.run(story)


def test_its_clock_is_the_tests() -> None:
    async def story() -> None:
        async with LoopBroker() as broker:
            await put(broker.url, b"one", QUORUM | {"x-message-ttl": 60_000})
            broker.advance(59)
            await put(broker.url, b"two", QUORUM | {"x-message-ttl": 60_000})
            broker.advance(2)
            assert await taken(broker.url) == [b"two"]

    run(story())


def test_data_that_is_kept_is_there_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with LoopBroker(data_dir=tmp_path) as broker:
            await put(broker.url, b"one")
            with pytest.raises(DirectoryInUse):
                await LoopBroker(data_dir=tmp_path).__aenter__()
        async with LoopBroker(data_dir=tmp_path) as broker:
            assert await taken(broker.url) == [b"one"]

    run(story())


def test_what_keeps_it_from_starting_is_raised() -> None:
    async def story() -> None:
        with pytest.raises(ConfigError, match=r"no\.such\.key"):
            await LoopBroker(settings={"no.such.key": "1"}).__aenter__()
        broker = LoopBroker()
        with (
            socket.create_server((broker.host, broker.port)),
            pytest.raises(OSError, match="in use"),
        ):
            await broker.__aenter__()
        async with broker:
            await put(broker.url, b"one")

    run(story())


def test_a_fault_of_its_disk_ends_the_block(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with LoopBroker(data_dir=tmp_path) as broker:
            await put(broker.url, b"one")
            break_files(tmp_path / "log")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(put(broker.url, b"two"), 1.0)

    with pytest.raises(BrokerFailed, match="status 1"):
        run(story())
    assert "the write-ahead log failed" in caplog.text


def break_files(folder: Path) -> None:
    """The files there that this process has open cannot be written or synced any more."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for each in os.listdir("/proc/self/fd"):
        path = Path(f"/proc/self/fd/{each}")
        if path.exists() and path.resolve().is_relative_to(folder):
            os.dup2(nothing, int(each))
    os.close(nothing)
