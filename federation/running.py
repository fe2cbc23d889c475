"""Runs a shovel or link: sessions one after the other, each with a source and a target.

runner = Runner(label, core, prefetch, make_sides)
await runner.run()       # returns when all that was to be moved has been moved
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from socket import gaierror
from time import monotonic, time
from typing import Final, Protocol

from msgspec import Struct

from federation.ends import BATCH_MAX, FAULTS, AnyDelivery, SideFailed
from federation.forwarding import PAUSED, Forwarding
from federation.lag import LOOK_S, Lag
from federation.pacing import Pacing, Rates
from warren.client.flag import Flag
from warren.client.outcome import Outcome

log = logging.getLogger("warren.federation")

DRAIN_S: Final = 5.0  # a pause waits so long for confirms of what was sent
LOGGED_AGAIN: Final = 50  # of equal failures in a row, one line in so many


class Source(Protocol):
    """Where messages come from. What `take` gives is settled by `accept`, in any order."""

    async def open(self) -> int:
        """Connect and declare; how many messages are ready."""

    async def consume(self, prefetch: int) -> None: ...
    async def take(self, limit: int) -> Sequence[AnyDelivery]:
        """The next deliveries, one at least and `limit` at most."""

    async def ready(self) -> int:
        """How many messages are ready now."""

    def accept(self, deliveries: Sequence[AnyDelivery]) -> None: ...
    async def watch(self) -> None:
        """What is to be done beside; returns or raises when the session is over."""

    async def close(self) -> None: ...


class Target(Protocol):
    """Where they go."""

    @property
    def bytes(self) -> int:
        """Of all that was published in this session."""

    async def open(self) -> None: ...
    async def publish(self, deliveries: Sequence[AnyDelivery]) -> "asyncio.Future[list[Outcome]]":
        """Send the messages; the future has the outcomes of those that are not passed over."""

    async def watch(self) -> None: ...
    async def close(self) -> None: ...


OnState = Callable[[str, str], None]  # a new state, and the reason of `terminated`
Sides = Callable[[Callable[[str | None], None]], tuple[Source, Target]]  # given `on_blocked`


class Completed(Exception):
    """All that was to be moved has been moved."""


class Paused(Exception):
    """An operator has paused it, and nothing is in flight."""


class Facts(Struct):
    """What listings show of a shovel or link, whatever it moves."""

    state: str
    reason: str  # of the state `terminated`
    last_error: str
    since_s: float
    blocked: str
    forwarded: int
    in_flight: int
    bytes: int
    last_s: float
    lag_messages: int
    lag_s: float


class Runner:
    """See the module."""

    def __init__(
        self,
        label: str,
        core: Forwarding,
        prefetch: int,
        sides: Sides,
        rates: Rates,
        on_state: OnState,
    ) -> None:
        self.core = core
        self.blocked = ""
        self.last_error = ""  # of the last session that failed, also when another one runs
        self._lag = Lag()
        self._pacing = Pacing(rates)
        self._on_state = on_state
        self._pausing = Flag()
        self._moved = Flag()  # a message has come since the last look at the lag
        self._has_room = Flag()  # something was settled
        self._going = Flag()  # not paused
        self._going.set()
        self.since_s = time()
        self.last_s = 0.0  # when a message was forwarded last; 0: none was
        self._label = label
        self._prefetch = prefetch
        self._sides = sides
        self._bytes = 0
        self._target: Target | None = None
        self._failed: asyncio.Future[None] | None = None  # of this session
        self._is_ending = False  # this session: it was paused, and waits for confirms

    @property
    def bytes(self) -> int:
        return self._bytes + (0 if self._target is None else self._target.bytes)

    def facts(self) -> Facts:
        core = self.core
        return Facts(
            self.state,
            core.reason,
            self.last_error,
            self.since_s,
            self.blocked,
            core.forwarded,
            core.in_flight,
            self.bytes,
            self.last_s,
            self.lag_messages,
            self.lag_s,
        )

    @property
    def state(self) -> str:
        return PAUSED if self._pausing.is_set() else self.core.state

    @property
    def lag_messages(self) -> int:
        return self._lag.messages(self.core.forwarded, self.core.in_flight)

    @property
    def lag_s(self) -> float:
        return self._lag.seconds(monotonic(), self.core.forwarded)

    def pause(self, is_paused: bool) -> None:
        """Stop after what is in flight, or go on. Counters stay."""
        if is_paused == self._pausing.is_set():
            return
        self.since_s = time()
        if is_paused:
            self._going.clear()
            self._pausing.set()
            self._is_ending = True
            self._end_when_settled()
            asyncio.get_running_loop().call_later(DRAIN_S, self._end_unsettled, self._failed)
        else:
            self._pausing.clear()
            self._going.set()
        self._on_state(self.state, "")

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._going.wait()
            begun_s = loop.time()
            try:
                await self._session()
            except Completed:
                return
            except Paused:
                self.core.restarted()
                continue
            except FAULTS as error:
                wait_s = self.core.failed(reason_of(error), random.random(), loop.time() - begun_s)
                self._note()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._pausing.wait()
            self.core.restarted()
            self.since_s = time()

    def _note(self) -> None:
        """Log the failure; one that repeats itself now and then."""
        self.since_s = time()
        self.last_error = self.core.reason
        self._on_state(self.state, self.core.reason)
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
            self._on_state(self.state, "")
            await self._forward(source, target)
        finally:
            self._bytes += target.bytes
            self._target = None
            self.blocked = ""
            await asyncio.gather(source.close(), target.close())

    async def _forward(self, source: Source, target: Target) -> None:
        self._failed = asyncio.get_running_loop().create_future()
        self._is_ending = self._pausing.is_set()
        self._end_when_settled()
        work = [
            asyncio.ensure_future(each)
            for each in (
                self._pump(source, target),
                _lost(source.watch()),
                _lost(target.watch()),
                self._watch_lag(source),
            )
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
        core, pacing = self.core, self._pacing
        while True:
            deliveries = await source.take(min(pacing.batch(BATCH_MAX), await self._room()))
            if self._is_ending:
                return await _for_ever()  # The end of the session returns them to the source.
            self._moved.set()
            count = core.arrived(len(deliveries))
            if count:
                taken = deliveries[:count]
                before = target.bytes
                future = await target.publish(taken)
                future.add_done_callback(partial(self._settled, self._failed, source, taken))
                wait_s = pacing.sent(count, target.bytes - before, monotonic())
                if wait_s > 0:
                    await asyncio.sleep(wait_s)

    async def _room(self) -> int:
        """How many messages may be taken. A source that asks for no acknowledgements does not hold
        to the prefetch by itself: it gets two of them ahead of its target, and no further."""
        while (room := 2 * self._prefetch - self.core.in_flight) <= 0:
            self._has_room.clear()
            await self._has_room.wait()
        return room

    async def _watch_lag(self, source: Source) -> None:
        core = self.core
        while True:
            ready = await source.ready()
            wait_s = self._lag.looked(monotonic(), ready, core.forwarded, core.in_flight)
            self._moved.clear()
            if wait_s > LOOK_S:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._moved.wait()
            await asyncio.sleep(LOOK_S)

    def _end_when_settled(self) -> None:
        """End a session that was paused once the confirms of what was sent are here."""
        if self._is_ending and not self.core.in_flight:
            self._fail(Paused())

    def _end_unsettled(self, session: "asyncio.Future[None] | None") -> None:
        """The confirms have not come in time."""
        if session is self._failed:
            self._fail(Paused())

    def _settled(
        self,
        session: "asyncio.Future[None] | None",
        source: Source,
        taken: Sequence[AnyDelivery],
        future: "asyncio.Future[list[Outcome]]",
    ) -> None:
        """The target has answered for a batch; `session` is the `_failed` of its session."""
        if future.cancelled() or session is not self._failed or session is None or session.done():
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
        self._has_room.set()
        self.last_s = time()
        if self.core.is_complete:
            self._fail(Completed())
        self._end_when_settled()

    def _fail(self, error: BaseException) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _note_blocked(self, reason: str | None) -> None:
        self.blocked = reason or ""


async def _for_ever() -> None:
    await Flag().wait()


async def _lost(watch: Awaitable[None]) -> None:
    await watch
    raise SideFailed("the connection is lost")


def reason_in(outcome: Outcome) -> str:
    return str(outcome.error or outcome.kind)


def reason_of(error: BaseException) -> str:
    """One line for status and log; links show the address beside it."""
    if isinstance(error, ConnectionRefusedError):
        return "cannot connect: the port refuses connections"
    if isinstance(error, gaierror):
        return "cannot connect: the host name is not known"
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:500]
