"""How far a shovel or link is behind its source, in messages and seconds. Rules without I/O.

The messages are those that are ready at the source or in flight. The seconds are the age of the
oldest of them: each look notes how many messages have ever been at the source (forwarded, in flight
and ready), and the first look that counted more than have been forwarded by now dates the oldest.
"""

from typing import Final

LOOKS_MAX: Final = 64
LOOK_S: Final = 1.0
IDLE_LOOK_S: Final = 30.0  # nothing is behind, and nothing was forwarded since the last look


class Lag:
    """Invariant: `_looks` are in order of time, at most LOOKS_MAX."""

    def __init__(self) -> None:
        self._looks: list[tuple[float, int]] = []  # time; messages that have been at the source
        self._ready = 0
        self._forwarded = -1  # at the last look
        self._taken = 0  # at the last look: forwarded and in flight

    def looked(self, now_s: float, ready: int, forwarded: int, in_flight: int) -> float:
        """Note how many messages are ready at the source. Seconds until the next look."""
        is_idle = ready == in_flight == 0 and forwarded == self._forwarded
        self._ready, self._forwarded, self._taken = ready, forwarded, forwarded + in_flight
        self._looks = [each for each in self._looks if each[1] > forwarded]
        if ready + in_flight:
            self._looks.append((now_s, forwarded + in_flight + ready))
        if len(self._looks) > LOOKS_MAX:
            self._looks = [self._looks[0], *self._looks[1::2]]
        return IDLE_LOOK_S if is_idle else LOOK_S

    def messages(self, forwarded: int, in_flight: int) -> int:
        """Behind now; between looks an estimate."""
        taken = max(0, forwarded + in_flight - self._taken)
        return max(0, self._ready - taken) + in_flight

    def seconds(self, now_s: float, forwarded: int) -> float:
        """Age of the oldest message that is not forwarded; 0: there is none."""
        for time_s, total in self._looks:
            if total > forwarded:
                return max(0.0, now_s - time_s)
        return 0.0
