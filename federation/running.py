"""Runs a shovel or link: sessions one after the other, each with a source and a target.

runner = Runner(label, core, prefetch, make_sides)
await runner.run()       # returns when all that was to be moved has been moved
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import time
from typing import Final, Protocol

from federation.ends import AnyDelivery, SideFailed
from federation.forwarding import Forwarding
from federation.uris import BadUri
from warren.client.errors import ClientError
from warren.client.outcome import Outcome

log = logging.getLogger("warren.federation")

FAULTS: Final = (OSError, ClientError, SideFailed, BadUri)  # TimeoutError is an OSError
LOGGED_AGAIN: Final = 50  # of equal failures in a row, one line in so many


class Source(Protocol):
    """Where messages come from. What `take` gives is settled by `accept`, in any order."""

    async def open(self) -> int:
        """Connect and declare; how many messages are ready."""

    async def consume(self, prefetch: int) -> None: ...
    async def take(self) -> Sequence[AnyDelivery]: ...
    def accept(self, deliveries: Sequence[AnyDelivery]) -> None: ...
    async def watch(self) -> None:
        """What is to be done beside; returns or raises when the session is over."""

    async def close(self) -> None: ...


class Target(Protocol):
    """Where they go."""

    bytes: int

    async def open(self) -> None: ...
    async def publish(self, deliveries: Sequence[AnyDelivery]) -> "asyncio.Future[list[Outcome]]":
        """Send the messages; the future has the outcomes of those that are not passed over."""

    async def watch(self) -> None: ...
    async def close(self) -> None: ...


Sides = Callable[[Callable[[str | None], None]], tuple[Source, Target]]  # given `on_blocked`


class Completed(Exception):
    """All that was to be moved has been moved."""


class Runner:
    """See the module."""

    def __init__(self, label: str, core: Forwarding, prefetch: int, sides: Sides) -> None:
        self.core = core
        self.blocked = ""
        self.since_s = time()
        self.last_s = 0.0  # when a message was forwarded last; 0: none was
        self._label = label
        self._prefetch = prefetch
        self._sides = sides
        self._bytes = 0
        self._target: Target | None = None
        self._failed: asyncio.Future[None] | None = None  # of this session

    @property
    def bytes(self) -> int:
        return self._bytes + (0 if self._target is None else self._target.bytes)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            try:
                await self._session()
            except Completed:
                return
            except FAULTS as error:
                wait_s = self.core.failed(reason_of(error), random.random(), loop.time() - begun_s)
                self._note()
            await asyncio.sleep(wait_s)
            self.core.restarted()
            self.since_s = time()

    def _note(self) -> None:
        """Log the failure; one that repeats itself now and then."""
        self.since_s = time()
        if self.core.failures % LOGGED_AGAIN == 1:
            log.warning("%s failed and is restarted: %s", self._label, self.core.reason)

    async def _session(self) -> None:
        """Open both sides and forward until one of them fails, or all is done."""
        source, target = self._sides(self._note_blocked)
        self._target = target
        try:
            ready = await source.open()
            await target.open()
            self.core.declared(ready)
            if self.core.is_complete:
                raise Completed
            await source.consume(self.core.prefetch(self._prefetch))
            self.core.opened()
            self.since_s = time()
            await self._forward(source, target)
        finally:
            self._bytes += target.bytes
            self._target = None
            self.blocked = ""
            await asyncio.gather(source.close(), target.close())

    async def _forward(self, source: Source, target: Target) -> None:
        self._failed = asyncio.get_running_loop().create_future()
        work = [
            asyncio.ensure_future(each)
            for each in (self._pump(source, target), _lost(source.watch()), _lost(target.watch()))
        ]
        try:
            await asyncio.wait((*work, self._failed), return_when=asyncio.FIRST_COMPLETED)
            # A consumer or publisher knows better than the connection why it is over.
            for each in (self._failed, *work):
                if each.done():
                    each.result()
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            self._failed.cancel()

    async def _pump(self, source: Source, target: Target) -> None:
        core = self.core
        while True:
            deliveries = await source.take()
            count = core.arrived(len(deliveries))
            if count:
                taken = deliveries[:count]
                future = await target.publish(taken)
                future.add_done_callback(partial(self._settled, source, taken))

    def _settled(
        self,
        source: Source,
        taken: Sequence[AnyDelivery],
        future: "asyncio.Future[list[Outcome]]",
    ) -> None:
        """The target has answered for a batch."""
        if future.cancelled() or self._failed is None or self._failed.done():
            if not future.cancelled():
                future.exception()  # Known: the session is over.
            return
        error = future.exception()
        if error is not None:
            self._fail(error)
            return
        refused = next((each for each in future.result() if not each.is_accepted), None)
        if refused is not None:
            self._fail(SideFailed(f"the target did not take a message: {reason_in(refused)}"))
            return
        source.accept(taken)
        self.core.confirmed(len(taken))
        self.last_s = time()
        if self.core.is_complete:
            self._fail(Completed())

    def _fail(self, error: BaseException) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _note_blocked(self, reason: str | None) -> None:
        self.blocked = reason or ""


async def _lost(watch: Awaitable[None]) -> None:
    await watch
    raise SideFailed("the connection is lost")


def reason_in(outcome: Outcome) -> str:
    return str(outcome.error or outcome.kind)


def reason_of(error: BaseException) -> str:
    """One line for status and log."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:500]
