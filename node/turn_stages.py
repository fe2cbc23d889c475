"""What the time of one turn went to: told apart by stage, for the log. No I/O. Compiled.

Takes the readings of a clock at the end of each stage, gives their sums once a turn has ended. A
turn that took long is reported to `on_slow` with all of them (`node.events.slow_turns`). Beside the
clock,
which counts every second by the wall, it reads the CPU time of the thread, but only a hundred times
a second, for that is a call of the kernel: what a long turn has used is known to 10 ms.
"""

from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Final, final

from mypy_extensions import i64

READING: Final = 0  # sockets, syncs that came back, timers: until the turn is run
QUEUES: Final = 1  # hosts step
JOURNAL: Final = 2
GROUPS: Final = 3  # log groups, and what they bring about
SOCKETS: Final = 4  # endpoints are flushed
ELSEWHERE: Final = 5  # to queues of other nodes, and to page files
STAGES: Final = ("reading", "queues", "journal", "groups", "sockets", "elsewhere")
SLOW_MS: Final = 20.0  # a turn that takes longer is logged
LOOK_S: Final = 0.01  # between two looks at the CPU time


@final
class SlowTurn:
    """One that took long."""

    def __init__(
        self, began_s: float, took_ms: float, cpu_ms: float, stages_ms: list[float]
    ) -> None:
        self.began_s = began_s
        self.took_ms = took_ms
        self.cpu_ms = cpu_ms  # of the loop's thread, with up to LOOK_S before the turn
        self.stages_ms = stages_ms  # by the wall, in the order of STAGES


@final
class Stages:
    """The clock of one turn after the other."""

    def __init__(
        self,
        clock_s: Callable[[], float] = perf_counter,
        cpu_s: Callable[[], float] = thread_time,
    ) -> None:
        self._clock_s = clock_s
        self._cpu_s = cpu_s
        self.on_slow: Callable[[SlowTurn], None] | None = None
        self.began_s = 0.0
        self._at_s = 0.0
        self._reading_s = 0.0
        self._queues_s = 0.0
        self._journal_s = 0.0
        self._groups_s = 0.0
        self._sockets_s = 0.0
        self._elsewhere_s = 0.0
        self._looked_s = -1.0  # when the CPU time was read,
        self._cpu_then_s = 0.0  # and what it was

    def begin(self) -> None:
        """A turn is under way."""
        now_s = self._clock_s()
        self.began_s = now_s
        self._at_s = now_s
        self._reading_s = 0.0
        self._queues_s = 0.0
        self._journal_s = 0.0
        self._groups_s = 0.0
        self._sockets_s = 0.0
        self._elsewhere_s = 0.0

    def so_far_ms(self) -> float:
        """Of this turn."""
        return (self._clock_s() - self.began_s) * 1000.0

    def end_of(self, stage: i64) -> None:
        """What happened since the last call, or since `begin`, was this stage."""
        now_s = self._clock_s()
        took_s = now_s - self._at_s
        self._at_s = now_s
        if stage == QUEUES:
            self._queues_s += took_s
        elif stage == JOURNAL:
            self._journal_s += took_s
        elif stage == SOCKETS:
            self._sockets_s += took_s
        elif stage == READING:
            self._reading_s += took_s
        elif stage == GROUPS:
            self._groups_s += took_s
        else:
            self._elsewhere_s += took_s

    def end(self) -> float:
        """The turn has ended with its last stage; return how many ms it took."""
        took_ms = (self._at_s - self.began_s) * 1000.0
        if self._at_s - self._looked_s > LOOK_S:
            cpu_s = self._cpu_s()
            if took_ms > SLOW_MS and self.on_slow is not None:
                self.on_slow(self._slow(took_ms, cpu_s - self._cpu_then_s))
            self._looked_s = self._at_s
            self._cpu_then_s = cpu_s
        return took_ms

    def _slow(self, took_ms: float, cpu_s: float) -> SlowTurn:
        seconds = (
            self._reading_s,
            self._queues_s,
            self._journal_s,
            self._groups_s,
            self._sockets_s,
            self._elsewhere_s,
        )
        stages_ms = [1000.0 * each for each in seconds]
        return SlowTurn(self.began_s, took_ms, cpu_s * 1000.0, stages_ms)
