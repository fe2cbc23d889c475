"""Proposals of one member whose place in the log is undecided, as runs of places. No I/O.

Places come in ascending order: by term, and by index within one; those that follow each other in a
term are one run, however many they are. They leave from the front: what is taken is a run, with the
term it was proposed in. Not bounded here: `Raft.is_full` bounds what is proposed. Compiled.
"""

from collections import deque
from typing import final

from mypy_extensions import i64


@final
class PlaceRun:
    """The indexes `first`..`last` in `term`; at least one."""

    __slots__ = ("first", "last", "term")

    def __init__(self, first: i64, last: i64, term: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.term: i64 = term


@final
class Proposals:
    """Invariant: the runs ascend by term, and by index within one."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: deque[PlaceRun] = deque()

    def open(self, index: i64, term: i64) -> None:
        """One more, behind all the others."""
        runs = self._runs
        if len(runs) > 0:
            last = runs[-1]
            if last.term == term and last.last + 1 == index:
                last.last = index
                return
        runs.append(PlaceRun(index, index, term))

    def count(self) -> int:
        """How many there are."""
        found: i64 = 0
        for run in self._runs:
            found += run.last - run.first + 1
        return found

    def head(self) -> PlaceRun | None:
        """The first run, which is not to be changed. None: nothing is open."""
        return self._runs[0] if len(self._runs) > 0 else None

    def are_all_of(self, term: i64) -> bool:
        """Whether those that there are were all proposed in that term."""
        runs = self._runs
        return len(runs) == 0 or (runs[0].term == term and runs[-1].term == term)

    def take(self, index: i64) -> PlaceRun:
        """Take those of the first run up to `index`, which is not before the run."""
        head = self._runs[0]
        assert head.first <= index
        if index >= head.last:
            return self._runs.popleft()
        taken = PlaceRun(head.first, index, head.term)
        head.first = index + 1
        return taken

    def clear(self) -> None:
        self._runs.clear()
