"""The node's clock: wall time at boot plus monotonic time, drawn slowly towards the wall clock.

`ClockCore` gets both readings and decides; `NodeClock` reads them. The clock never goes back
and never runs more than 1 % fast or slow. A wall clock that is off by more than 5 s raises an
alarm, and is followed no faster than that: time to live, schedules and replicated `now_ms` see no
step. Elections, leases and beats use monotonic time only.
"""

import time
from typing import Final

SLEW_DIVISOR: Final = 100  # the clock runs at most 1/100 fast or slow
STEP_NS: Final = 5_000_000_000  # from here on a difference is a step of the wall clock
NS_PER_MS: Final = 1_000_000


class ClockCore:
    """Time as a function of monotonic time, corrected by what `observe` got.

    Invariant: at `anchor_monotonic_ns` the clock showed `anchor_ns` and was `behind_ns` behind the
    wall clock (negative: ahead).
    """

    def __init__(self, wall_ns: int, monotonic_ns: int) -> None:
        self.anchor_ns = wall_ns
        self.anchor_monotonic_ns = monotonic_ns
        self.behind_ns = 0

    def now_ns(self, monotonic_ns: int) -> int:
        """The time at this monotonic reading, which is at or after the last observation."""
        elapsed = monotonic_ns - self.anchor_monotonic_ns
        assert elapsed >= 0
        most = elapsed // SLEW_DIVISOR
        return self.anchor_ns + elapsed + max(-most, min(most, self.behind_ns))

    def observe(self, wall_ns: int, monotonic_ns: int) -> None:
        """Take in a reading of the wall clock; to be told every second or so."""
        now = self.now_ns(monotonic_ns)
        self.anchor_ns = now
        self.anchor_monotonic_ns = monotonic_ns
        self.behind_ns = wall_ns - now

    @property
    def step_alarm(self) -> bool:
        """Whether the wall clock was off by more than a step when it was last looked at."""
        return abs(self.behind_ns) > STEP_NS


class NodeClock:
    """The core with the clocks of this machine."""

    def __init__(self) -> None:
        self._core = ClockCore(time.time_ns(), time.monotonic_ns())
        self._advanced_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970; never less than before."""
        return self._core.now_ns(time.monotonic_ns()) // NS_PER_MS + self._advanced_ms

    def advance(self, ms: int) -> None:
        """Move the clock forward for a test; `Timers.clock_advanced` must be called after it."""
        assert ms >= 0
        self._advanced_ms += ms

    def observe(self) -> None:
        """Compare with the wall clock; the owner calls it once a second."""
        self._core.observe(time.time_ns(), time.monotonic_ns())

    @property
    def step_alarm(self) -> bool:
        return self._core.step_alarm

    @property
    def behind_ms(self) -> int:
        """How far this clock was behind the wall clock at the last observation."""
        return self._core.behind_ns // NS_PER_MS


def monotonic_ms() -> int:
    """Milliseconds that only go forward, for timeouts, heartbeats and elections."""
    return time.monotonic_ns() // NS_PER_MS


def utc_ms() -> int:
    """Milliseconds since 1970, for UTC() in selectors."""
    return time.time_ns() // 1_000_000
