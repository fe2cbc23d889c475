"""Sets of message numbers as ranges: what recovery and compaction calculate with."""

from bisect import bisect_right
from itertools import pairwise
from typing import final


@final
class RangeSet:
    """A set of integers, kept as disjoint half-open ranges.

    `add` at the end is done at once; any other is only noted, and the notes are merged when the
    set is next asked, so that adding n ranges in any order costs n log n in all.
    """

    __slots__ = ("_ends", "_noted", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._noted: list[tuple[int, int]] = []

    def add(self, first: int, count: int) -> None:
        if count <= 0:
            return
        if not self._noted:
            if not self._ends or first > self._ends[-1]:
                self._starts.append(first)
                self._ends.append(first + count)
                return
            if first == self._ends[-1]:
                self._ends[-1] = first + count
                return
        self._noted.append((first, first + count))

    def unite(self, other: "RangeSet") -> None:
        """Add all that is in the other set."""
        for start, end in (*zip(other._starts, other._ends, strict=True), *other._noted):
            self.add(start, end - start)

    def missing(self, first: int, count: int) -> list[tuple[int, int]]:
        """What of `first`..`first + count - 1` is not in the set, as (first, count)."""
        if self._noted:
            self._merge()
        found: list[tuple[int, int]] = []
        at = first
        end = first + count
        place = bisect_right(self._ends, at)
        while at < end and place < len(self._starts):
            start = self._starts[place]
            if start >= end:
                break
            if start > at:
                found.append((at, start - at))
            at = self._ends[place]
            place += 1
        if at < end:
            found.append((at, end - at))
        return found

    def _merge(self) -> None:
        spans = sorted([*zip(self._starts, self._ends, strict=True), *self._noted])
        self._noted = []
        starts: list[int] = []
        ends: list[int] = []
        for start, end in spans:
            if ends and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        self._starts = starts
        self._ends = ends


def gaps_between(ranges: list[tuple[int, int]], first: int, end: int) -> list[tuple[int, int]]:
    """What of first..end-1 is in none of the ascending ranges (first, count)."""
    gaps: list[tuple[int, int]] = []
    at = first
    for start, count in ranges:
        if start > at:
            gaps.append((at, min(start, end) - at))
        at = max(at, start + count)
        if at >= end:
            return gaps
    if at < end:
        gaps.append((at, end - at))
    return gaps


def runs_by_owners(
    count: int, live: list[tuple[int, list[tuple[int, int]]]]
) -> list[tuple[int, int, list[int]]]:
    """Cut the places 0..count-1 into runs that the same holders need: (place, count, holders).

    `live` has, for each holder (any number that stands for it), the (place, count) it still needs.
    Places that no holder needs are left out.
    """
    if len(live) == 1:
        holder, spans = live[0]
        return [(place, length, [holder]) for place, length in spans]
    edges = {0, count}
    for _, spans in live:
        for place, length in spans:
            edges.add(place)
            edges.add(place + length)
    cuts = sorted(edges)
    cursors = [0] * len(live)
    runs: list[tuple[int, int, list[int]]] = []
    for start, end in pairwise(cuts):
        holders: list[int] = []
        for number, (holder, spans) in enumerate(live):
            at = cursors[number]
            while at < len(spans) and spans[at][0] + spans[at][1] <= start:
                at += 1
            cursors[number] = at
            if at < len(spans) and spans[at][0] <= start:
                holders.append(holder)
        if not holders:
            continue
        if runs and runs[-1][0] + runs[-1][1] == start and runs[-1][2] == holders:
            runs[-1] = (runs[-1][0], end - runs[-1][0], holders)
        else:
            runs.append((start, end - start, holders))
    return runs
