"""Resource alarms of this node: memory in use and free disk (FEATURES G-01, G-02).

Told the readings once a second; while an alarm is set, connections that publish are not read.
Consumers go on, so that queues can be emptied.
"""

from collections.abc import Callable
from typing import Final

LOW_MEMORY: Final = "low on memory"
LOW_DISK: Final = "low on disk"


class Alarms:
    """Which alarms are set. `on_change` is called when that changes."""

    def __init__(
        self, memory_limit_bytes: int, disk_limit_bytes: int, on_change: Callable[[], None]
    ) -> None:
        self.memory_limit_bytes = memory_limit_bytes
        self.disk_limit_bytes = disk_limit_bytes
        self.memory_used_bytes = 0
        self.disk_free_bytes = 0
        self.memory = False
        self.disk = False
        self._on_change = on_change

    def observe(self, memory_used_bytes: int, disk_free_bytes: int) -> None:
        """Judge fresh readings."""
        self.memory_used_bytes = memory_used_bytes
        self.disk_free_bytes = disk_free_bytes
        memory = memory_used_bytes >= self.memory_limit_bytes
        disk = disk_free_bytes < self.disk_limit_bytes
        if (memory, disk) != (self.memory, self.disk):
            self.memory = memory
            self.disk = disk
            self._on_change()

    def is_set(self) -> bool:
        return self.memory or self.disk

    def reason(self) -> str:
        """The reason of connection.blocked (A-12)."""
        reasons = ((self.memory, LOW_MEMORY), (self.disk, LOW_DISK))
        return " & ".join(text for is_set, text in reasons if is_set)
