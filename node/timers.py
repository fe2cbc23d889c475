"""Wakes queue hosts when something of theirs is due: one timer of the loop for all of them.

A host is woken once, at the earliest time that it has asked for; if by then nothing is due any
more, or something later is, it asks again. At most WAKES_MAX are woken in one go, so that many
queues with the same time are spread.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

WAKES_MAX: Final = 512
EARLY_PART: Final = 4  # a timer may fire early by this part of its interval, at most
SWEEP_MIN: Final = 1024


class Sleeper(Protocol):
    def on_timer(self) -> None: ...

    @property
    def is_gone(self) -> bool:
        """It needs no waking any more."""


class Handle(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Handle]  # seconds, as the loop has it


def until_next(seconds: float, now_s: float) -> float:
    """Seconds from `now_s` to the next multiple of the interval, by a monotonic clock.

    All that is done in intervals is done at such times, so that an idle process wakes once for what
    is due together.
    """
    rest = seconds - now_s % seconds
    return rest if rest * EARLY_PART > seconds else rest + seconds


class Timers:
    """Invariant: a timer of the loop is set for the earliest time, or none and there is none.

    `_dues` has the time of each that waits; entries of the heap that say otherwise mean nothing.
    """

    def __init__(
        self,
        call_later: CallLater,
        now_ms: Callable[[], int],
        begin_turn: Callable[[], None],
    ) -> None:
        self._call_later = call_later
        self._now_ms = now_ms
        self._begin_turn = begin_turn
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._dues: dict[Sleeper, int] = {}
        self._count = 0
        self._sweep_above = SWEEP_MIN
        self._handle: Handle | None = None
        self._set_for_ms = 0

    def wake(self, sleeper: Sleeper, due_ms: int) -> None:
        """Wake it at that time, or soon after; earlier if it has asked for that."""
        if self._dues.get(sleeper, due_ms + 1) <= due_ms:
            return
        self._dues[sleeper] = due_ms
        self._count += 1
        heappush(self._heap, (due_ms, self._count, sleeper))
        if len(self._heap) > self._sweep_above:
            self._sweep()
        self._set()

    def clock_advanced(self) -> None:
        """Set the timer of the loop again: `now_ms` went forward by more than the time passed."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._set()

    def _sweep(self) -> None:
        """Let go of who is gone, and of what means nothing any more."""
        self._dues = {each: due_ms for each, due_ms in self._dues.items() if not each.is_gone}
        self._heap = [
            (due_ms, place, each) for place, (each, due_ms) in enumerate(self._dues.items())
        ]
        heapify(self._heap)
        self._sweep_above = max(2 * len(self._heap), SWEEP_MIN)

    def _set(self) -> None:
        if not self._heap:
            return
        due_ms = self._heap[0][0]
        if self._handle is not None:
            if self._set_for_ms <= due_ms:
                return
            self._handle.cancel()
        self._set_for_ms = due_ms
        delay_s = max(due_ms - self._now_ms(), 0) / 1000
        self._handle = self._call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self._begin_turn()
        now_ms = self._now_ms()
        woken = 0
        try:
            while self._heap and self._heap[0][0] <= now_ms and woken < WAKES_MAX:
                due_ms, _, sleeper = heappop(self._heap)
                if self._dues.get(sleeper) == due_ms:
                    del self._dues[sleeper]
                    sleeper.on_timer()
                    woken += 1
        finally:  # One that raises is logged by the loop; the others are woken.
            self._set()
