"""Plays seeds in a process whose clocks, random numbers and garbage collector are strange.

`python -m tests.sim.federation.strange_process standby 3` prints the trace of a run. The simulation
is imported once all of that is in place.
"""

import gc
import importlib
import os
import sys
import time
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final

CLOCKS: Final = ("monotonic", "perf_counter", "process_time", "thread_time", "time")
STEPS_S: Final = (0.0, 0.000_001, 0.002, 0.05, 0.5)


def leaping_clock(start_s: float) -> Callable[[], float]:
    """Each look finds it at a standstill or up to half a second further."""
    dice, now_s = Random(1), start_s

    def look() -> float:
        nonlocal now_s
        now_s += dice.choice(STEPS_S)
        return now_s

    return look


def make_strange() -> None:
    for name in CLOCKS:
        clock = leaping_clock(time.time())
        setattr(time, name, clock)
        setattr(time, f"{name}_ns", lambda clock=clock: int(clock() * 1e9))
    numbers = count(1)
    os.urandom = lambda size: next(numbers).to_bytes(size, "big")  # Short ones take less room.
    gc.set_threshold(1)


if __name__ == "__main__":
    make_strange()
    trace_of = importlib.import_module("tests.sim.federation.test_repeated_seeds").trace_of
    for number in sys.argv[2:]:
        print(trace_of(sys.argv[1], int(number)))
