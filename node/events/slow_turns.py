"""Tells the log of turns of the loop that took long, and what they went to.

Everything on a node happens in turns of one loop, so that a long one holds up all clients. One of
WARN_MS is worth a warning, at most once in REST_S, with how many there were since; at the level
debug (`warrenctl set_log_level debug turn`) each that took 20 ms or more is seen. What was on a CPU
for a small part of that time waited for a processor or the disk, and the node is not the cause.
"""

import gc
import logging
from collections import deque
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Final

from node.turn_stages import STAGES, SlowTurn

WARN_MS: Final = 200.0
REST_S: Final = 60.0  # between two warnings
KEPT: Final = 64  # collections that are remembered

log = logging.getLogger("warren.turn")


class SlowTurns:
    """Counts and tells; `note` is for `Stages.on_slow`."""

    def __init__(self, clock_s: Callable[[], float] = monotonic) -> None:
        self._clock_s = clock_s
        self._silent_until_s = 0.0
        self._unsaid = 0
        self._collections: deque[tuple[float, float]] = deque(maxlen=KEPT)  # begin, seconds
        self._collected_from_s = 0.0

    def watch_collections(self) -> None:
        """Tell also what part of a turn the garbage collector had."""
        gc.callbacks.append(self._on_collection)

    def end(self) -> None:
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, _: object) -> None:
        if phase == "start":
            self._collected_from_s = perf_counter()
        else:
            began_s = self._collected_from_s
            self._collections.append((began_s, perf_counter() - began_s))

    def collecting_ms(self, since_s: float) -> float:
        """What collections took that began since then, by `perf_counter`."""
        known = list(self._collections)  # Another one may begin at any allocation.
        return 1000.0 * sum(took for began, took in known if began >= since_s)

    def note(self, turn: SlowTurn) -> None:
        collecting_ms = self.collecting_ms(turn.began_s)
        if turn.took_ms < WARN_MS:
            if log.isEnabledFor(logging.DEBUG):
                log.debug("%s", words_of(turn, collecting_ms))
            return
        now_s = self._clock_s()
        if now_s < self._silent_until_s:
            self._unsaid += 1
            log.debug("%s", words_of(turn, collecting_ms))
            return
        self._silent_until_s = now_s + REST_S
        more = f"; {self._unsaid} more since the last warning" if self._unsaid else ""
        self._unsaid = 0
        log.warning("%s%s", words_of(turn, collecting_ms), more)


def words_of(turn: SlowTurn, collecting_ms: float) -> str:
    """What the turn went to, the most first."""
    stages = sorted(zip(turn.stages_ms, STAGES, strict=True), reverse=True)
    parts = [f"{name} {took_ms:.0f} ms" for took_ms, name in stages if took_ms >= 1.0]
    if collecting_ms >= 1.0:
        parts.append(f"of it garbage collection {collecting_ms:.0f} ms")
    cpu_ms = min(turn.cpu_ms, turn.took_ms)
    return f"a turn of {turn.took_ms:.0f} ms, {cpu_ms:.0f} ms on a CPU: {', '.join(parts)}"
