"""When a queue link acknowledges at the upstream: its prefetch bounds what is ahead of demand.

A link forwards what it gets at once. While the queue here has messages or no consumer has credit,
the acknowledgements wait, so that the upstream sends no more than the prefetch. They go out when
there is demand again, or when the link has stopped consuming.

Invariant: between two moments with demand, the queue here gets at most one prefetch.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from federation.ends import AnyDelivery

TICK_S: Final = 0.005  # between two looks at the demand, while acknowledgements wait


class Withholding:
    """`has_demand` is asked for as of now; None: it is known to `look` alone, which is called with
    what another node has answered. `is_sure`: what is to be acknowledged is in the queue here;
    else it may be on its way, and the next tick asks."""

    def __init__(
        self,
        has_demand: Callable[[], bool | None],
        settle: Callable[[Sequence[AnyDelivery]], None],
        is_sure: bool,
    ) -> None:
        self._has_demand = has_demand
        self._settle = settle
        self._is_sure = is_sure
        self._waiting: list[AnyDelivery] = []
        self._timer: asyncio.TimerHandle | None = None
        self.is_open = False  # acknowledge all at once: the link does not consume

    @property
    def count(self) -> int:
        return len(self._waiting)

    def accept(self, deliveries: Sequence[AnyDelivery]) -> None:
        """These have been forwarded."""
        if self.is_open or (self._is_sure and not self._waiting and self._has_demand()):
            self._settle(deliveries)
            return
        self._waiting += deliveries
        self._begin()

    def look(self, has_demand: bool) -> None:
        """Acknowledge what waits, if there is demand."""
        if has_demand:
            self.release()

    def release(self) -> None:
        """Acknowledge all that waits."""
        waiting, self._waiting = self._waiting, []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waiting:
            self._settle(waiting)

    def _begin(self) -> None:
        if self._timer is None and self._waiting and self._has_demand() is not None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._has_demand():
            self.release()
        else:
            self._begin()
