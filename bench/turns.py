"""The turns of a node's loop while something is measured, and which the machine itself has stalled.

A turn is what every other connection waits for. Takes the buckets of `warren_loop_turn_ms`, what
the node's log tells of each turn of 20 ms or more (`node.events.slow_turns`; the node must log at
debug,
`LOG_TURNS`), and the moments at which `stall` (stall.c), which runs beside, saw the machine stand
still. Gives the longest turn of all, and the longest that no such moment coincides with.
"""

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from bench.run import HERE
from warren.testing.http_api import HttpApi

LOG_TURNS: Final = "log.level=debug"  # a setting of the node: its log tells of its slow turns
HISTOGRAM: Final = "warren_loop_turn_ms_bucket"
TURN: Final = re.compile(r"^(\S+ \S+),(\d{3}) .* a turn of (\d+) ms, (\d+) ms on a CPU")
LOG_TIME: Final = "%Y-%m-%d %H:%M:%S"
NEAR_S: Final = 0.01  # what begins and ends so near to each other coincides
TOLD_MS: Final = 20.0  # of turns that the log tells; shorter ones it does not


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that took time: from `begin_s` to `end_s`, seconds of the epoch."""

    begin_s: float
    end_s: float
    cpu_ms: float

    def coincides(self, other: "Moment") -> bool:
        return self.begin_s < other.end_s + NEAR_S and other.begin_s < self.end_s + NEAR_S

    @property
    def ms(self) -> float:
        return round(1000 * (self.end_s - self.begin_s), 1)


class Turns:
    """From `begin` to `end`; may begin again."""

    def __init__(self, management_port: int, log: Path) -> None:
        self._port = management_port
        self._log = log
        self._before: dict[float, int] = {}
        self._log_at = 0
        self._stall: subprocess.Popen[str] | None = None

    def begin(self) -> None:
        self._before = buckets(self._port)
        self._log_at = self._log.stat().st_size
        self._stall = subprocess.Popen([str(HERE / "stall")], stdout=subprocess.PIPE, text=True)

    def end(self) -> dict[str, Any]:
        """What to print of them."""
        longest = longest_turn_ms(self._before, buckets(self._port))
        stalls = self._end_stall()
        with self._log.open(encoding="utf-8") as log:
            log.seek(self._log_at)
            turns = turns_of(log)
        own = [turn for turn in turns if not any(turn.coincides(stall) for stall in stalls)]
        longest_own = max(own, key=lambda turn: turn.ms, default=None)
        return {
            "longest_turn_ms": longest,
            "turns_in_stalls": len(turns) - len(own),
            "longest_stall_cpu_ms": max((stall.cpu_ms for stall in stalls), default=0.0),
            "longest_own_turn_ms": longest_own.ms if longest_own else min(longest, TOLD_MS),
            "its_cpu_ms": longest_own.cpu_ms if longest_own else 0.0,
        }

    def _end_stall(self) -> list[Moment]:
        stall = self._stall
        assert stall is not None, "end before begin"
        self._stall = None
        stall.terminate()
        told, _ = stall.communicate(timeout=10)
        return [stall_of(line) for line in told.splitlines()]


def stall_of(line: str) -> Moment:
    """A line of stall.c."""
    end_s, wall_ms, cpu_ms = map(float, line.split())
    return Moment(end_s - wall_ms / 1000, end_s, cpu_ms)


def turns_of(log: IO[str]) -> list[Moment]:
    """The turns that the log tells of."""
    found = []
    for line in log:
        match = TURN.match(line)
        if match is not None:
            when, thousandths, took_ms, cpu_ms = match.groups()
            end_s = time.mktime(time.strptime(when, LOG_TIME)) + int(thousandths) / 1000
            found.append(Moment(end_s - int(took_ms) / 1000, end_s, float(cpu_ms)))
    return found


def buckets(management_port: int) -> dict[float, int]:
    """Turns of the loop so far that took at most so many milliseconds."""
    text = HttpApi(f"http://127.0.0.1:{management_port}").text("/metrics")
    found: dict[float, int] = {}
    for line in text.splitlines():
        if line.startswith(HISTOGRAM):
            label, value = line.rsplit(" ", 1)
            bound = float(label.split('le="')[1].split('"')[0])
            found[bound] = found.get(bound, 0) + int(float(value))
    assert found, f"no {HISTOGRAM} in /metrics"
    return found


def longest_turn_ms(before: dict[float, int], after: dict[float, int]) -> float:
    """Upper bound of the bucket of the longest turn between the two readings."""
    longest, seen = 0.0, 0
    for bound in sorted(after):
        count = after[bound] - before.get(bound, 0)
        if count > seen:
            longest, seen = bound, count
    return longest
