"""What address settings cost messages of queues that have none: calls are counted, not time."""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Final

import pytest

from node.addresses import address_keeper
from node.in_process import LoopBroker
from queues.addresses import account, producer_window, rate, share
from queues.machine import delays, known_ids, last_values, message_groups
from queues.machine.consuming import consumer_limits, limiter
from warren.client import Message as Message10
from warren.client import connect as connect10
from warren.client.amqp091 import Message as Message091
from warren.client.amqp091 import connect as connect091
from warren.testing.http_api import HttpApi

SETTINGS_CODE: Final[tuple[ModuleType, ...]] = (
    *(address_keeper, account, producer_window, rate, share),
    *(delays, known_ids, last_values, message_groups, consumer_limits, limiter),
)
OTHERS: Final = {
    "max-size-bytes": 1 << 30,
    "address-full-policy": "BLOCK",
    "consumer-window-size": 1 << 20,
    "redelivery-delay": 100,
    "id-cache-size": 1000,
}
COUNT: Final = 2000

pytestmark = pytest.mark.skipif(
    not str(limiter.__file__).endswith(".py"), reason="calls of compiled code cannot be counted"
)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Calls of the functions that carry out address settings."""
    calls: Counter[str] = Counter()
    files = {module.__file__ for module in SETTINGS_CODE}

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename in files:
            place = Path(frame.f_code.co_filename).stem
            calls[f"{place}.{frame.f_code.co_qualname}"] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


async def pass_through_091(url: str, queue: str) -> None:
    async with await connect091(url) as connection:
        publisher = await connection.publisher("", queue, window=100)
        outcomes = await publisher.publish_many([Message091(b"x")] * COUNT)
        assert all(each.is_accepted for each in outcomes)
        consumer = await connection.consumer(queue, credit=100)
        for _ in range(COUNT):
            (await consumer.get(timeout_s=20)).accept()


async def pass_through_10(url: str, queue: str) -> None:
    async with await connect10(url) as connection:
        publisher = await connection.publisher(f"/queues/{queue}")
        outcomes = await publisher.publish_many([Message10(b"x")] * COUNT)
        assert all(each.is_accepted for each in outcomes)
        consumer = await connection.consumer(f"/queues/{queue}", credit=100)
        for _ in range(COUNT):
            (await consumer.get(timeout_s=20)).accept()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("pass_through", [pass_through_091, pass_through_10])
def test_messages_of_a_queue_without_settings_enter_no_code_of_address_settings(
    pass_through: Callable[[str, str], Awaitable[None]], kind: str
) -> None:
    """Beside policies for other queues. Limits are looked up for each turn, not each message."""

    async def story() -> None:
        async with LoopBroker() as broker:
            api = HttpApi(broker.management_url)
            policy = {"pattern": "^other$", "apply-to": "all", "definition": OTHERS}
            await asyncio.to_thread(api.put, "/policies/%2F/others", policy)
            for queue in ("plain", "other"):
                async with await connect091(broker.url) as connection:
                    management = await connection.management()
                    await management.declare_queue(queue, arguments={"x-queue-type": kind})
            with counted() as calls:
                await pass_through(broker.url, "plain")
            assert calls.total() < COUNT // 20, calls.most_common(5)
            with counted() as calls:
                await pass_through(broker.url, "other")
            assert calls.total() > COUNT // 20

    asyncio.run(story())
