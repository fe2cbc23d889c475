"""How fast a node copies snapshots to mirrors and takes them, by how long syncs of its log take.

Publishers of a mirrored queue wait until all its members have synced a message. A copy reads and
writes the same disks, so it takes what they do not need: the rate grows while no sync is slow, and
is halved in each tick with a slow one. It never falls below LEAST, so that a copy ends on any disk.
`CopyPace` is the rate of a node, for all its mirrors; `CopyLimit` that of one mirror on the sending
side, with the limit that is configured. Both count in ticks. No clock. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64

SLOW_MS: Final = 10  # publishers wait for two syncs at most: the one under way and their own
BEGIN: Final = 640 << 10  # bytes in a tick of 20 ms: 32 MiB/s
LEAST: Final = 160 << 10  # 8 MiB/s
MOST: Final = 3840 << 10  # 192 MiB/s
GROWTH: Final = 64 << 10  # in a tick without a slow sync: from BEGIN to MOST in a second
REST_TICKS: Final = 50  # without a copy: the next one begins at BEGIN


@final
class CopyPace:
    """See the module."""

    __slots__ = ("_debt", "_longest_ms", "_rested_ticks", "bytes_per_tick", "copied_bytes")

    def __init__(self) -> None:
        self.bytes_per_tick: i64 = BEGIN
        self.copied_bytes: i64 = 0  # in this tick
        self._debt: i64 = 0
        self._longest_ms: i64 = 0
        self._rested_ticks: i64 = 0

    @property
    def may_copy(self) -> bool:
        """Whether there is something left of this tick."""
        return self._debt < self.bytes_per_tick

    def copied(self, byte_count: i64) -> None:
        """So much was read for a mirror, or written for one."""
        self.copied_bytes += byte_count
        self._debt += byte_count

    def note_sync(self, longest_ms: i64) -> None:
        """How long the longest sync has taken, of those that ran since the last call."""
        self._longest_ms = max(self._longest_ms, longest_ms)

    def tick(self) -> None:
        if self._longest_ms > SLOW_MS:
            self.bytes_per_tick = max(LEAST, self.bytes_per_tick // 2)
        elif self.copied_bytes > 0:
            self.bytes_per_tick = min(MOST, self.bytes_per_tick + GROWTH)
        self._rested_ticks = 0 if self.copied_bytes > 0 else self._rested_ticks + 1
        if self._rested_ticks >= REST_TICKS:
            self.bytes_per_tick = BEGIN
        self._debt = max(0, self._debt - self.bytes_per_tick)
        self.copied_bytes = 0
        self._longest_ms = 0


@final
class CopyLimit:
    """Of one mirror: the rate that is configured, and that of the node."""

    __slots__ = ("_debt", "bytes_per_tick", "pace")

    def __init__(self) -> None:
        self.bytes_per_tick: i64 = 0  # as configured; 0: no limit
        self.pace: CopyPace | None = None
        self._debt: i64 = 0

    @property
    def may_copy(self) -> bool:
        if self.pace is not None and not self.pace.may_copy:
            return False
        return self.bytes_per_tick == 0 or self._debt < self.bytes_per_tick

    def copied(self, byte_count: i64) -> None:
        self._debt += byte_count
        if self.pace is not None:
            self.pace.copied(byte_count)

    def tick(self) -> None:
        self._debt = max(0, self._debt - self.bytes_per_tick)
