"""The bytes of all queues of a node against `addresses.global_max_size`. Pure.

Measured by the timer of the accounts, not per publish: summing all queues takes time that grows
with their number. What addresses with limits were charged since is added, so publishers to them
cannot exceed the limit between two measurements.
"""

from collections.abc import Callable
from typing import Final, final

NO_LIMIT: Final = -1
UNLIMITED_ROOM: Final = 1 << 62


@final
class NodeSize:
    """Invariant: `_fresh_bytes` is the part of `_charged_bytes` that queues take in this turn."""

    def __init__(self, bytes_max: int = NO_LIMIT, turn: Callable[[], int] = lambda: 0) -> None:
        self.bytes_max = bytes_max
        self._turn = turn
        self._held_bytes = 0
        self._charged_bytes = 0
        self._fresh_bytes = 0
        self._fresh_in = -1

    @property
    def size_bytes(self) -> int:
        return self._held_bytes + self._charged_bytes

    @property
    def room_bytes(self) -> int:
        if self.bytes_max < 0:
            return UNLIMITED_ROOM
        return max(self.bytes_max - self.size_bytes, 0)

    def is_full(self) -> bool:
        return 0 <= self.bytes_max <= self.size_bytes

    def charge(self, size: int) -> None:
        """Queues get so many bytes at the end of this turn, or later."""
        if self.bytes_max < 0:
            return
        turn = self._turn()
        if turn != self._fresh_in:
            self._fresh_in = turn
            self._fresh_bytes = 0
        self._fresh_bytes += size
        self._charged_bytes += size

    def measured(self, held_bytes: int) -> None:
        """All queues of the node hold so many bytes now."""
        self._held_bytes = held_bytes
        self._charged_bytes = self._fresh_bytes if self._fresh_in == self._turn() else 0
