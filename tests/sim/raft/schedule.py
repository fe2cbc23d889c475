"""What happens when, in one simulated world: one schedule, one clock, one `Random`, one seed.

A seed does the same each time. Times are in units of about a millisecond.
"""

import os
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

TICK = 10
TRACE_LENGTH = 80
TRACED = os.environ.get("WARREN_SIM_TRACE") == "1"


class Schedule:
    """Actions by time; those of one moment in the order in which they were asked for."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = 0
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=TRACE_LENGTH)
        self._schedule: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def later(self, delay: int, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._schedule, (self.now + delay, self._order, action))

    def run(self, duration: int) -> None:
        """Let so much time pass."""
        end = self.now + duration
        while self._schedule and self._schedule[0][0] <= end:
            self.step()
        self.now = end

    def run_until(self, is_so: Callable[[], bool], limit: int, wanted: str) -> None:
        """Until it is so; it has so much time."""
        end = self.now + limit
        while not is_so():
            assert self.now < end, f"{wanted}: not within {limit}\n{self.describe()}"
            self.run(TICK)

    def step(self) -> None:
        self.now, _, action = heappop(self._schedule)
        self.steps += 1
        action()

    def tells(self, text: str) -> None:
        """For the trace of a failure."""
        self.trace.append(f"{self.now} {text}")
        if TRACED:
            print(self.now, text)

    def describe(self) -> str:
        """How all stand now."""
        return f"seed {self.seed} at {self.now}"
