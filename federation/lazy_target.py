"""The local side of a link: connected while messages come, so that an idle link has one connection.

It is opened with the first message, and closed again when none has come for IDLE_S.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from federation.ends import AnyDelivery, Target091
from warren.client.flag import Flag
from warren.client.outcome import Outcome

IDLE_S: Final = 30.0


class LazyTarget:
    """Keeps `federation.running.Target`. Invariant: `_target` is open, or None."""

    def __init__(self, make: Callable[[], Target091], idle_s: float = IDLE_S) -> None:
        self._make = make
        self._idle_s = idle_s
        self._target: Target091 | None = None
        self._opened = Flag()
        self._unanswered = 0  # batches without their outcomes
        self._batches = 0
        self._bytes = 0  # of targets that are closed

    @property
    def bytes(self) -> int:
        return self._bytes + (0 if self._target is None else self._target.bytes)

    async def open(self) -> None:
        return

    async def publish(self, deliveries: Sequence[AnyDelivery]) -> "asyncio.Future[list[Outcome]]":
        if self._target is None:
            target = self._make()
            try:
                await target.open()
            except BaseException:
                await target.close()
                raise
            self._target = target
            self._opened.set()
        self._batches += 1
        future = await self._target.publish(deliveries)
        self._unanswered += 1
        future.add_done_callback(self._answered)
        return future

    def _answered(self, future: "asyncio.Future[list[Outcome]]") -> None:
        self._unanswered -= 1

    async def watch(self) -> None:
        """Returns when the connection is lost; one that is idle is closed."""
        while True:
            await self._opened.wait()
            assert self._target is not None
            lost = asyncio.ensure_future(self._target.watch())
            try:
                if await self._is_lost(lost):
                    return
            finally:
                lost.cancel()
            await self.close()

    async def _is_lost(self, lost: "asyncio.Future[None]") -> bool:
        """False: it is idle."""
        while True:
            batches = self._batches
            done, _ = await asyncio.wait((lost,), timeout=self._idle_s)
            if done:
                return True
            if batches == self._batches and not self._unanswered:
                return False

    async def close(self) -> None:
        target, self._target = self._target, None
        self._opened.clear()
        if target is not None:
            self._bytes += target.bytes
            await target.close()
