"""The log of one group as its core sees it: terms of all of it, contents of the newest part.

Below `memory_first` the contents are on disk only and are asked for (`ready.Load`); their terms
stay here, as runs. Nothing is linear in the length of the log: terms are found by bisection, bytes
are counted as running totals. Compiled.

    snapshot.index ... base_index | base_index + 1 ... | memory_first ... last_index
                        term known, released above: on disk           in memory

`base_index` <= `snapshot.index`: some entries that the snapshot covers are kept for a while, for
members that are only a little behind.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from raft.entries import Entry, SnapshotPoint

# Contents are let go of when they are at least 1/16 of what is in memory: moving what stays is then
# O(1) for each entry.
LET_GO_SHARE: Final = 16


@final
class Log:
    """Invariant: runs are ascending by index, term and appended term; the first begins at base."""

    __slots__ = (
        "_appended",
        "_ends",
        "_entries",
        "_firsts",
        "_forgotten_bytes",
        "_last_appended",
        "_last_first",
        "_slice",
        "_slice_first",
        "_terms",
        "base_index",
        "last_index",
        "last_term",
        "memory_first",
        "snapshot",
    )

    def __init__(
        self, snapshot: SnapshotPoint, runs: Sequence[tuple[int, int, int]], last_index: i64
    ) -> None:
        """`runs`: (first index, term, appended term), from `snapshot.index` + 1 on."""
        self._entries: list[Entry] = []
        self._ends: list[int] = []  # running total of bytes at the end of each of `_entries`
        self._forgotten_bytes: i64 = 0  # the total in front of `_entries`
        # The newest one given out, for other peers that want the same.
        self._slice: list[Entry] = []
        self._slice_first: i64 = 0
        self.snapshot = snapshot
        self.base_index: i64 = snapshot.index
        self._firsts: list[int] = [snapshot.index]
        self._terms: list[int] = [snapshot.term]
        self._appended: list[int] = [snapshot.appended_term]
        self.last_index: i64 = last_index
        self.last_term: i64 = snapshot.term
        self._last_first: i64 = snapshot.index
        self._last_appended: i64 = snapshot.appended_term
        for first, term, appended_term in runs:
            assert snapshot.index < first <= last_index
            self._begin_run(first, term, appended_term)
        self.memory_first: i64 = last_index + 1

    def reset(self, snapshot: SnapshotPoint) -> None:
        """Nothing is left but the snapshot."""
        self.snapshot = snapshot
        self.base_index = snapshot.index
        self.last_index = snapshot.index
        self.memory_first = snapshot.index + 1
        self._entries = []
        self._ends = []
        self._slice = []
        self._firsts = [snapshot.index]
        self._terms = [snapshot.term]
        self._appended = [snapshot.appended_term]
        self._take_last_run()

    def term(self, index: i64) -> i64:
        """-1: not in the log, or below what is known of it."""
        if index > self.last_index or index < self.base_index:
            return -1
        if index >= self._last_first:
            return self.last_term
        return self._terms[bisect_right(self._firsts, index) - 1]

    def appended_term(self, index: i64) -> i64:
        assert self.base_index <= index <= self.last_index
        if index >= self._last_first:
            return self._last_appended
        return self._appended[bisect_right(self._firsts, index) - 1]

    def last_at_most(self, index: i64, term: i64) -> i64:
        """The last place up to `index` whose term is `term` or lower; below base: `index`."""
        if index > self.last_index:
            index = self.last_index
        if index <= self.base_index or self.term(index) <= term:
            return index
        place = bisect_right(self._terms, term)
        if place == 0:
            return self.base_index - 1
        return min(index, self._firsts[place] - 1)

    def append(self, entry: Entry) -> None:
        assert entry.index == self.last_index + 1
        if entry.term != self.last_term or entry.appended_term != self._last_appended:
            self._begin_run(entry.index, entry.term, entry.appended_term)
        self._ends.append(self.total_bytes() + entry.byte_count)
        self._entries.append(entry)
        self.last_index = entry.index

    def extend(self, entries: Sequence[Entry]) -> None:
        ends = self._ends
        total = self.total_bytes()
        index = self.last_index
        for entry in entries:
            index += 1
            assert entry.index == index
            if entry.term != self.last_term or entry.appended_term != self._last_appended:
                self._begin_run(index, entry.term, entry.appended_term)
            total += entry.byte_count
            ends.append(total)
        self._entries.extend(entries)
        self.last_index = index

    def truncate(self, index: i64) -> None:
        """The entry at `index` and all behind it are gone."""
        assert self.base_index < index <= self.last_index
        self.last_index = index - 1
        self._slice = []
        if index < self.memory_first:
            self.memory_first = index
            self._forgotten_bytes = self.total_bytes()
            self._entries = []
            self._ends = []
        else:
            del self._entries[index - self.memory_first :]
            del self._ends[index - self.memory_first :]
        while self._firsts[-1] >= index:
            self._firsts.pop()
            self._terms.pop()
            self._appended.pop()
        self._take_last_run()

    def take_snapshot(self, snapshot: SnapshotPoint, release_index: i64) -> None:
        """It covers the log up to its index; entries up to `release_index` are of no use."""
        assert release_index <= snapshot.index <= self.last_index
        self.snapshot = snapshot
        if release_index <= self.base_index:
            return
        place = bisect_right(self._firsts, release_index) - 1
        del self._firsts[:place]
        del self._terms[:place]
        del self._appended[:place]
        self._firsts[0] = release_index
        self.base_index = release_index
        self._take_last_run()
        self.forget(release_index)

    def forget(self, index: i64) -> None:
        """Contents up to `index` may leave memory."""
        count = min(index, self.last_index) - self.memory_first + 1
        if count > 0 and count * LET_GO_SHARE >= len(self._entries):
            self.forget_all(index)

    def forget_all(self, index: i64) -> None:
        """Contents up to `index` leave memory now, however few they are."""
        count = min(index, self.last_index) - self.memory_first + 1
        if count <= 0:
            return
        self._forgotten_bytes = self._ends[count - 1]
        del self._entries[:count]
        del self._ends[:count]
        self._slice = []
        self.memory_first += count

    def slice(self, first: i64, last: i64) -> Sequence[Entry]:
        """Entries that are in memory. Not to be changed: others may have got the same list."""
        assert self.memory_first <= first <= last <= self.last_index
        if self._slice and self._slice_first == first and len(self._slice) == last - first + 1:
            return self._slice
        offset = first - self.memory_first
        self._slice = self._entries[offset : last - self.memory_first + 1]
        self._slice_first = first
        return self._slice

    def last_within(self, first: i64, last: i64, bytes_max: i64) -> i64:
        """How far entries from `first` on, in memory, go with `bytes_max`: `first` at least."""
        offset = first - self.memory_first
        limit = self._end(first - 1) + bytes_max
        end = last - self.memory_first + 1
        if self._ends[end - 1] <= limit:
            return last
        found = bisect_right(self._ends, limit, offset, end)
        return max(first, self.memory_first + found - 1)

    def bytes_behind(self, index: i64) -> i64:
        """Bytes of the entries behind `index`, as far as they are in memory."""
        return self.total_bytes() - self._end(index)

    def bytes_between(self, first: i64, last: i64) -> i64:
        return self._end(last) - self._end(first - 1)

    def total_bytes(self) -> i64:
        """Running total at the end of the log."""
        return self._ends[-1] if self._ends else self._forgotten_bytes

    def _end(self, index: i64) -> i64:
        if index < self.memory_first:
            return self._forgotten_bytes
        return self._ends[index - self.memory_first]

    def _begin_run(self, first: i64, term: i64, appended_term: i64) -> None:
        assert term >= self.last_term
        assert appended_term >= self._last_appended
        self._firsts.append(first)
        self._terms.append(term)
        self._appended.append(appended_term)
        self._take_last_run()

    def _take_last_run(self) -> None:
        self._last_first = self._firsts[-1]
        self.last_term = self._terms[-1]
        self._last_appended = self._appended[-1]
