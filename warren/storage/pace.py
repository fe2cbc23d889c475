"""How fast publishers may go on while there is much to be rewritten. No I/O, no clock. Compiled.

Takes how much thin files take beyond three times what is alive in them (the debt), the same with
the file that is being filled, how far the log is appended, and how far rewriting has come; says
whether publishers have to wait. Below half of the limit, or five eighths with that file, they never
do. Above it the log may grow by a part of each byte that rewriting has got through, and by one step
ahead of that: by three quarters up to the limit, so that the debt shrinks, by one quarter above it.
So they wait often and never for long, as long as rewriting goes on at all, instead of once until
all is done. Who waits goes on when there is half a step again, for each time costs a little for
each connection.
"""

from typing import Final, final

STEPS: Final = 16  # of a file: the log may be so far ahead
NEAR_EIGHTHS: Final = 5  # of the limit: with the file that is being filled it would soon be there
QUARTERS: Final = 3  # of what was got through may be appended, below the limit


@final
class Pace:
    """Invariant: while it is on, `allowed_lsn` is at most a step above what was appended then."""

    def __init__(self, file_bytes: int, limit_bytes: int) -> None:
        self._step_bytes = max(file_bytes // STEPS, 1)
        self._limit_bytes = limit_bytes
        self._quarters = QUARTERS
        self.is_on = False
        self._allowed_lsn = 0
        self._holding = False

    def see(self, debt_bytes: int, coming_bytes: int, appended_lsn: int) -> None:
        """So much is to be rewritten by the compaction that runs; `coming_bytes` with the
        file that is being filled.
        """
        self._quarters = QUARTERS if coming_bytes <= self._limit_bytes else 1
        was_on = self.is_on
        is_near = coming_bytes > self._limit_bytes * NEAR_EIGHTHS // 8
        self.is_on = debt_bytes > self._limit_bytes // 2 or is_near
        if self.is_on and not was_on:
            self._allowed_lsn = appended_lsn + self._step_bytes

    def end(self) -> None:
        """There is nothing to wait for."""
        self.is_on = False

    def moved(self, byte_count: int, appended_lsn: int) -> None:
        """Rewriting has got through so many more bytes of its sources."""
        allowed = self._allowed_lsn + byte_count * self._quarters // 4
        self._allowed_lsn = min(allowed, appended_lsn + self._step_bytes)

    def holds(self, appended_lsn: int) -> bool:
        """Whether publishers have to wait."""
        least = self._step_bytes // 2 if self._holding else 1
        self._holding = self.is_on and self._allowed_lsn - appended_lsn < least
        return self._holding
