"""What operators set on this node while it runs (`node.management.operations.NodeControls`)."""

import logging
from typing import TYPE_CHECKING

from node.resources.memory import memory_total_bytes

if TYPE_CHECKING:
    from node.connections.amqp_listeners import AmqpListeners
    from node.resources.alarms import Alarms

log = logging.getLogger("warren.broker")


class LiveControls:
    """Of a running broker."""

    def __init__(self, alarms: "Alarms", listeners: "AmqpListeners") -> None:
        self._alarms = alarms
        self._listeners = listeners

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
