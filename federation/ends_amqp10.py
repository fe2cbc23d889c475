"""The two sides of a shovel over AMQP 1.0, on `warren.client`: see `federation.ends`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from federation.ends import (
    WINDOW,
    AnyDelivery,
    Rewrite,
    SideFailed,
    closed,
    dial_of,
    timeout_of,
)
from federation.shovel_parameters import SourceEnd, TargetEnd
from federation.uris import Uri
from warren import client
from warren.client.outcome import Outcome
from warren.client.sockets import Dial
from warren.wire.amqp10.limits import Limits

Connect = Callable[[], Awaitable[client.Connection]]


async def connect(
    uri: Uri, vhost: str, name: str, local: Callable[[bool], Dial], prefetch: int = 0
) -> client.Connection:
    """Connect to the broker of the URI, to consume with that prefetch. SideFailed: the node itself,
    without a user."""
    if uri.is_local and not uri.user:
        text = "a URI without a host needs a user over AMQP 1.0; use the protocol 'local'"
        raise SideFailed(text)
    return await client.connect(
        uri.dialled(vhost),
        container_id=name,
        timeout_s=timeout_of(uri),
        limits=limits_of(prefetch),
        dial=local(False) if uri.is_local else dial_of(uri),
        follow=None,
        mechanisms=() if uri.is_local else uri.mechanisms,
    )


def limits_of(prefetch: int) -> Limits:
    """The window of a session is opened again when half of it is used: it has room for two
    prefetches, so that it never stops what the credit allows."""
    plain = Limits(max_link_credit=0, max_queue_credit=0)
    plain.max_incoming_window = max(plain.max_incoming_window, 2 * prefetch)
    return plain


class Source10:
    """Invariant: `_connection` from `open` to `close`, `_consumer` from `consume`. At most
    `_prefetch` deliveries are taken and not accepted: credit alone does not bound them."""

    def __init__(self, dial: Connect, end: SourceEnd, settled: bool) -> None:
        self._dial = dial
        self._end = end
        self._settled = settled
        self._connection: client.Connection | None = None
        self._consumer: client.Consumer | None = None
        self._rest: list[client.Delivery] = []  # received, and not taken yet
        self._prefetch = 0
        self._unaccepted = 0
        self._accepted = asyncio.Event()

    async def open(self) -> int:
        """Connect. AMQP 1.0 does not tell how many messages are ready: 0."""
        self._connection = await self._dial()
        return 0

    async def consume(self, prefetch: int) -> None:
        assert self._connection is not None
        self._prefetch = prefetch
        self._consumer = await self._connection.consumer(
            self._end.queue, credit=prefetch, settled=self._settled
        )

    async def take(self, limit: int) -> list[client.Delivery]:
        assert self._consumer is not None
        if not self._rest:
            self._rest = await self._consumer.get_many()
        while self._unaccepted >= self._prefetch:
            self._accepted.clear()
            await self._accepted.wait()
        count = min(limit, self._prefetch - self._unaccepted)
        taken, self._rest = self._rest[:count], self._rest[count:]
        if not self._settled:
            self._unaccepted += len(taken)
        return taken

    async def ready(self) -> int:
        """As the broker told last, with the credit."""
        return 0 if self._consumer is None else self._consumer.available

    def accept(self, deliveries: Sequence[AnyDelivery]) -> None:
        for each in deliveries:
            each.accept()
        if not self._settled:
            self._unaccepted -= len(deliveries)
        self._accepted.set()

    async def watch(self) -> None:
        assert self._connection is not None
        await self._connection.wait_lost()

    async def close(self) -> None:
        await closed(self._connection)


class Target10:
    """Publishes with outcomes, or without (`settled`)."""

    def __init__(self, dial: Connect, end: TargetEnd, rewrite: Rewrite, settled: bool) -> None:
        self._dial = dial
        self._end = end
        self._rewrite = rewrite
        self._settled = settled
        self._connection: client.Connection | None = None
        self._publisher: client.Publisher | None = None
        self.bytes = 0

    async def open(self) -> None:
        connection = self._connection = await self._dial()
        self._publisher = await connection.publisher(
            self._end.queue, settled=self._settled, waiting_max=WINDOW
        )

    async def publish(self, deliveries: Sequence[AnyDelivery]) -> "asyncio.Future[list[Outcome]]":
        publisher = self._publisher
        assert publisher is not None
        await publisher.ready(len(deliveries))
        made = [self._rewrite(each) for each in deliveries]
        messages = [each for each in made if each is not None]
        self.bytes += sum(map(len, messages))
        return publisher.send_encoded(messages)

    async def watch(self) -> None:
        assert self._connection is not None
        await self._connection.wait_lost()

    async def close(self) -> None:
        await closed(self._connection)
