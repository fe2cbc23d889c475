"""Both protocols of `warren.client` in one shape: a line to one node, senders and takers on it.

Takes URLs, names of queues and bodies; gives outcomes and deliveries, each with whether the broker
says that it was delivered before. A line that is lost ends what is on it with `ClientError`; no
line reconnects here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

from warren.client import Connection as Connection10
from warren.client import Consumer as Consumer10
from warren.client import LinkState, Outcome, amqp091
from warren.client import Message as Message10
from warren.client import Publisher as Publisher10
from warren.client import connect as connect10

AMQP_091: Final = "amqp091"
AMQP_10: Final = "amqp10"
PROTOCOLS: Final = (AMQP_091, AMQP_10)

OnLeader = Callable[[str, int], None]  # name of the leader's node, epoch


class Settling(Protocol):
    """What is said of a delivery; only the first word counts."""

    def accept(self) -> None: ...
    def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Taken:
    """One delivery."""

    body: bytes
    redelivered: bool
    settling: Settling


class Sender(Protocol):
    def send(self, body: bytes) -> "asyncio.Future[Outcome]":
        """The future has the outcome, or `ClientError`: unknown."""


class Taker(Protocol):
    async def take(self, timeout_s: float) -> list[Taken]:
        """What is here; [] if nothing came within the time. ClientError: the line is lost."""


class Line(Protocol):
    """One connection."""

    async def declare(self, queue: str, arguments: dict[str, object]) -> None: ...
    async def sender(self, queue: str) -> Sender: ...
    async def taker(self, queue: str, credit: int, on_leader: OnLeader | None) -> Taker: ...
    async def close(self) -> None: ...


class Sender091:
    def __init__(self, publisher: amqp091.Publisher) -> None:
        self._publisher = publisher

    def send(self, body: bytes) -> "asyncio.Future[Outcome]":
        return self._publisher.send(amqp091.Message(body))


class Taker091:
    def __init__(self, consumer: amqp091.Consumer) -> None:
        self._consumer = consumer

    async def take(self, timeout_s: float) -> list[Taken]:
        try:
            deliveries = await self._consumer.get_many(timeout_s=timeout_s)
        except TimeoutError:
            return []
        return [Taken(each.message.body, each.redelivered, each) for each in deliveries]


class Line091:
    """AMQP 0-9-1: a channel for each sender and taker, confirms, mandatory messages."""

    def __init__(self, connection: amqp091.Connection) -> None:
        self._connection = connection

    async def declare(self, queue: str, arguments: dict[str, object]) -> None:
        management = await self._connection.management()
        await management.declare_queue(queue, arguments=arguments)
        await management.close()

    async def sender(self, queue: str) -> Sender:
        return Sender091(await self._connection.publisher("", queue))

    async def taker(self, queue: str, credit: int, on_leader: OnLeader | None) -> Taker:
        del on_leader  # The protocol has no word for it.
        return Taker091(await self._connection.consumer(queue, credit=credit))

    async def close(self) -> None:
        await self._connection.close()


class Sender10:
    def __init__(self, publisher: Publisher10) -> None:
        self._publisher = publisher

    def send(self, body: bytes) -> "asyncio.Future[Outcome]":
        return self._publisher.send(Message10(body))


class Taker10:
    def __init__(self, consumer: Consumer10) -> None:
        self._consumer = consumer

    async def take(self, timeout_s: float) -> list[Taken]:
        try:
            deliveries = await self._consumer.get_many(timeout_s=timeout_s)
        except TimeoutError:
            return []
        return [
            Taken(bytes_of(each.message.body), not each.message.first_acquirer, each)
            for each in deliveries
        ]


class Line10:
    """AMQP 1.0: a session for each sender and taker."""

    def __init__(self, connection: Connection10) -> None:
        self._connection = connection

    async def declare(self, queue: str, arguments: dict[str, object]) -> None:
        management = await self._connection.management()
        await management.declare_queue(queue, arguments=arguments)
        await management.close()

    async def sender(self, queue: str) -> Sender:
        return Sender10(await self._connection.publisher(_address(queue)))

    async def taker(self, queue: str, credit: int, on_leader: OnLeader | None) -> Taker:
        def told(state: LinkState) -> None:
            if on_leader is not None and state.leader is not None:
                on_leader(state.leader, state.leader_epoch)

        return Taker10(
            await self._connection.consumer(_address(queue), credit=credit, on_link_state=told)
        )

    async def close(self) -> None:
        await self._connection.close()


async def dial(url: str, protocol: str, timeout_s: float) -> Line:
    """OSError, TimeoutError or ClientError: there is no way to that node."""
    assert protocol in PROTOCOLS
    if protocol == AMQP_091:
        return Line091(await amqp091.connect(url, name="warren chaos", timeout_s=timeout_s))
    # On the node that was asked for: that any node serves any queue is what is tested.
    return Line10(await connect10(url, timeout_s=timeout_s, follow=None))


async def closed(close: Awaitable[None], timeout_s: float) -> None:
    """Close something that may be dead already, within a time."""
    try:
        async with asyncio.timeout(timeout_s):
            await close
    except (OSError, amqp091.ClientError):
        return  # TimeoutError is an OSError. It is gone, or not worth waiting for.


def bytes_of(body: object) -> bytes:
    """A body as bytes; what is no bytes is no message of ours, and has none."""
    return bytes(body) if isinstance(body, (bytes, bytearray, memoryview)) else b""


def _address(queue: str) -> str:
    return f"/queues/{quote(queue, safe='')}"
