"""Both clients in one shape, for `warren bench`: queues, publishers and consumers by name of queue.

A `Side` is one connection of one protocol to one broker. Links of a side share that connection and
nothing else: sessions in AMQP 1.0, channels in AMQP 0-9-1.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import quote

from msgspec import Struct

from node.cli.bench.arguments import AMQP_091, AMQP_10
from warren.client import Connection as Connection10
from warren.client import Message as Message10
from warren.client import Outcome, amqp091
from warren.client import connect as connect10


class Place(Struct, frozen=True):
    """A broker, and who logs in."""

    host: str
    port: int
    user: str
    password: str
    vhost: str

    @property
    def url(self) -> str:
        who = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"amqp://{who}@{self.host}:{self.port}/{quote(self.vhost, safe='')}"


class Publisher(Protocol):
    """What both publishers have."""

    @property
    def accepted(self) -> int: ...
    async def ready(self) -> int: ...
    def send_encoded(self, messages: list[bytes]) -> "asyncio.Future[list[Outcome]]": ...


class Delivery(Protocol):
    def accept(self) -> None: ...


class Consumer(Protocol):
    """What both consumers have."""

    async def get_many(self, *, timeout_s: float | None = None) -> Sequence[Delivery]: ...


class Side(Protocol):
    """One connection."""

    protocol: str
    product: str  # of the broker
    description: str  # product, version, node and cluster

    async def declare(self, queue: str, type_: str) -> None:
        """A durable queue, empty."""

    async def delete(self, queue: str) -> None: ...
    async def publisher(
        self, queue: str, size: int, durable: bool = True
    ) -> tuple[Publisher, bytes]:
        """A publisher, and its message, encoded."""

    async def consumer(self, queue: str, credit: int) -> Consumer: ...
    async def close(self) -> None: ...


class Side091:
    """AMQP 0-9-1: a channel for each link, confirms."""

    protocol = AMQP_091

    def __init__(self, connection: amqp091.Connection) -> None:
        self._connection = connection
        self.product = product_of(connection.server_properties)
        self.description = description_of(connection.server_properties)

    async def declare(self, queue: str, type_: str) -> None:
        await replace(self._connection, queue, type_)

    async def delete(self, queue: str) -> None:
        await replace(self._connection, queue, None)

    async def publisher(
        self, queue: str, size: int, durable: bool = True
    ) -> tuple[Publisher, bytes]:
        publisher = await self._connection.publisher("", queue, mandatory=False)
        return publisher, publisher.encode(amqp091.Message(bytes(size), durable=durable))

    async def consumer(self, queue: str, credit: int) -> Consumer:
        return await self._connection.consumer(queue, credit=credit)

    async def close(self) -> None:
        await self._connection.close()


class Side10:
    """AMQP 1.0: a session for each link, as much credit as the broker grants."""

    protocol = AMQP_10

    def __init__(self, connection: Connection10) -> None:
        self._connection = connection
        self.product = product_of(connection.server_properties)
        self.description = description_of(connection.server_properties)

    async def declare(self, queue: str, type_: str) -> None:
        await replace(self._connection, queue, type_)

    async def delete(self, queue: str) -> None:
        await replace(self._connection, queue, None)

    async def publisher(
        self, queue: str, size: int, durable: bool = True
    ) -> tuple[Publisher, bytes]:
        publisher = await self._connection.publisher(address_of(queue))
        return publisher, Message10(bytes(size), durable=durable).encode()

    async def consumer(self, queue: str, credit: int) -> Consumer:
        return await self._connection.consumer(address_of(queue), credit=credit)

    async def close(self) -> None:
        await self._connection.close()


async def replace(
    connection: amqp091.Connection | Connection10, queue: str, type_: str | None
) -> None:
    """Delete the queue, and declare an empty one of that type, if there is to be one."""
    management = await connection.management()
    await management.delete_queue(queue)
    if type_ is not None:
        await management.declare_queue(queue, arguments={"x-queue-type": type_})
    await management.close()


async def dial(place: Place, protocol: str) -> Side:
    """OSError, TimeoutError or ClientError: it cannot be reached."""
    if protocol == AMQP_091:
        return Side091(await amqp091.connect(place.url, name="warren bench"))
    return Side10(await connect10(place.url, follow=None))  # at the node that was named


def address_of(queue: str) -> str:
    return f"/queues/{quote(queue, safe='')}"


def product_of(properties: dict[str, object]) -> str:
    return f"{properties.get('product', 'broker')} {properties.get('version', '')}".strip()


def description_of(properties: dict[str, object]) -> str:
    """Name a broker so that a user sees which one it is: `Warren 4.2.0, node n1, cluster c1`."""
    product = properties.get("implementation") or properties.get("product", "broker")
    parts = [f"{product} {properties.get('version', '')}".strip()]
    parts += [
        f"{what} {properties[key]}"
        for what, key in (("node", "node"), ("cluster", "cluster_name"))
        if properties.get(key)
    ]
    return ", ".join(parts)
