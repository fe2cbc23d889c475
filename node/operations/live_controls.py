"""What operators set on this node while it runs (`node.management.operations.NodeControls`)."""

import logging
from typing import TYPE_CHECKING

from node.management.operations import NOT_ADJUSTABLE
from node.resources.memory import memory_total_bytes

if TYPE_CHECKING:
    from node.clock import NodeClock
    from node.connections.amqp_listeners import AmqpListeners
    from node.resources.alarms import Alarms
    from node.timers import Timers

log = logging.getLogger("warren.broker")


class LiveControls:
    """Of a running broker. `clock` is None unless `testing.adjustable_clock` is set."""

    def __init__(
        self,
        alarms: "Alarms",
        listeners: "AmqpListeners",
        clock: "NodeClock | None",
        timers: "Timers",
    ) -> None:
        self._alarms = alarms
        self._listeners = listeners
        self._clock = clock
        self._timers = timers

    @property
    def memory_total_bytes(self) -> int:
        return memory_total_bytes()

    def set_limits(self, memory_bytes: int | None, disk_bytes: int | None) -> None:
        alarms = self._alarms
        alarms.set_limits(memory_bytes, disk_bytes)
        log.warning(
            "limits were set: memory %d bytes, free disk %d bytes",
            alarms.memory_limit_bytes,
            alarms.disk_limit_bytes,
        )

    async def set_listening(self, is_open: bool) -> None:
        if is_open:
            await self._listeners.open()
        else:
            self._listeners.close()
        log.warning("the listener for clients was %s", "resumed" if is_open else "suspended")

    def advance_clock(self, ms: int) -> None:
        if self._clock is None:
            raise OSError(NOT_ADJUSTABLE)
        self._clock.advance(ms)
        self._timers.clock_advanced()
        log.warning("the clock of this node was advanced by %d ms", ms)
