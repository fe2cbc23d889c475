"""Deliveries of one consumer that have come and were not taken yet, and who waits for more.

Both consumers (AMQP 1.0 and 0-9-1) put in what comes and say so by `tell`; the consumer waits
by `until` and takes. What may be in it is bounded by the credit that its consumer grants. When the
consumer is over, those who wait are raised what its `check` raises. Not compiled: it waits.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from warren.client.errors import ClientError
from warren.client.flag import Flag

Delivery = TypeVar("Delivery")


class Inbox(Generic[Delivery]):
    """`check` raises a ClientError once the consumer is over: nothing more will come."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.arrived: deque[Delivery] = deque()
        self._check = check
        self._news = Flag()

    def __len__(self) -> int:
        return len(self.arrived)

    def tell(self) -> None:
        """Something has arrived or changed, or the inbox is closed: wake the waiting consumer."""
        self._news.set()

    async def wait(self) -> None:
        """Until `tell`."""
        self._news.clear()
        await self._news.wait()

    async def until(self, count: int, timeout_s: float | None = None) -> None:
        """Until so many are here. TimeoutError; ClientError: it is over."""
        async with asyncio.timeout(timeout_s):
            while len(self.arrived) < count:
                self._check()
                await self.wait()

    def take(self) -> Delivery:
        """The oldest one; there must be one."""
        return self.arrived.popleft()

    def take_all(self) -> list[Delivery]:
        """All of them, the oldest first."""
        taken = list(self.arrived)
        self.arrived.clear()
        return taken

    def keep(self, is_wanted: Callable[[Delivery], bool]) -> None:
        """Forget the others."""
        self.arrived = deque(each for each in self.arrived if is_wanted(each))


class Deliveries(Generic[Delivery]):
    """The half of a consumer that hands on what has come."""

    _inbox: Inbox[Delivery]

    def _taken(self) -> None:
        """There is room for more."""
        raise NotImplementedError

    @property
    def waiting(self) -> int:
        """Deliveries that have come and were not taken yet."""
        return len(self._inbox)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        try:
            await self._inbox.until(1)
        except ClientError:
            raise StopAsyncIteration from None
        return self._take()

    async def get(self, *, timeout_s: float | None = None) -> Delivery:
        """The next delivery. TimeoutError; ClientError: the link or channel is over."""
        await self._inbox.until(1, timeout_s)
        return self._take()

    async def get_many(self, *, timeout_s: float | None = None) -> list[Delivery]:
        """All deliveries that are here, one at least. TimeoutError; ClientError."""
        await self._inbox.until(1, timeout_s)
        taken = self._inbox.take_all()
        self._taken()
        return taken

    def _take(self) -> Delivery:
        delivery = self._inbox.take()
        self._taken()
        return delivery
