"""Sets of message_seqs as ascending runs: what is contiguous costs nothing per message.

A first-in first-out queue is one run however long it is. Holes (messages settled or taken out of
order) cost one run each. Compiled.
"""

from bisect import bisect_right
from typing import final

from mypy_extensions import i64, mypyc_attr

HEAD_SLACK = 1024  # removed heads that may wait in the lists before they are cut off


@final
@mypyc_attr(acyclic=True)
class SeqSet:
    """An ordered set of integers held as half-open runs [first, end).

    Invariant: runs ascend, none is empty, and between two there is a gap of at least one.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._head: i64 = 0  # runs before this place are gone
        self.count: i64 = 0

    def runs(self) -> list[tuple[int, int]]:
        """All runs as (first, count), ascending."""
        found: list[tuple[int, int]] = []
        for i in range(self._head, len(self._firsts)):
            found.append((self._firsts[i], self._ends[i] - self._firsts[i]))
        return found

    def run_count(self) -> int:
        return len(self._firsts) - self._head

    def first(self) -> i64:
        """The lowest member; the set must not be empty."""
        return self._firsts[self._head]

    def head_run(self) -> i64:
        """Length of the run that begins at `first()`."""
        return i64(self._ends[self._head]) - i64(self._firsts[self._head])

    def last(self) -> i64:
        """The highest member; the set must not be empty."""
        return i64(self._ends[len(self._ends) - 1]) - 1

    def clear(self) -> None:
        self._firsts = []
        self._ends = []
        self._head = 0
        self.count = 0

    def contains(self, seq: i64) -> bool:
        place = self._place(seq)
        return place >= self._head and i64(self._ends[place]) > seq

    def drop_head(self, count: i64) -> None:
        """Take the `count` lowest members away; they must be one run (see `head_run`)."""
        head = self._head
        first: i64 = self._firsts[head]
        end: i64 = self._ends[head]
        assert first + count <= end
        self.count -= count
        if first + count < end:
            self._firsts[head] = first + count
            return
        self._head = head + 1
        self._cut_off()

    def _cut_off(self) -> None:
        """Free the runs before the head once they are many, or all."""
        head = self._head
        if head == len(self._firsts):
            self.clear()
        elif head > HEAD_SLACK and head * 2 > len(self._firsts):
            del self._firsts[:head]
            del self._ends[:head]
            self._head = 0

    def add(self, first: i64, count: i64) -> None:
        """Put first..first+count-1 in; none of them may be a member already."""
        end = first + count
        self.count += count
        length: i64 = len(self._firsts)
        if length == self._head:
            self._firsts.append(first)
            self._ends.append(end)
            return
        tail_end: i64 = self._ends[length - 1]
        if first == tail_end:
            self._ends[length - 1] = end
        elif first > tail_end:
            self._firsts.append(first)
            self._ends.append(end)
        else:
            self._insert(first, end)

    def _insert(self, first: i64, end: i64) -> None:
        """Put a run in somewhere before the tail, joined with its neighbours where they touch."""
        place = self._place(first)
        joins_left = place >= self._head and i64(self._ends[place]) == first
        right = place + 1
        joins_right = right < len(self._firsts) and i64(self._firsts[right]) == end
        assert place < self._head or i64(self._ends[place]) <= first
        assert right >= len(self._firsts) or i64(self._firsts[right]) >= end
        if joins_left and joins_right:
            self._ends[place] = self._ends[right]
            del self._firsts[right]
            del self._ends[right]
        elif joins_left:
            self._ends[place] = end
        elif joins_right:
            self._firsts[right] = first
        elif right == self._head and self._head > 0:
            self._head -= 1
            self._firsts[self._head] = first
            self._ends[self._head] = end
        else:
            self._firsts.insert(right, first)
            self._ends.insert(right, end)

    def remove(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Take out what of first..first+count-1 is a member; return that as (first, count) runs."""
        end = first + count
        gone: list[tuple[int, int]] = []
        if len(self._firsts) == self._head or count <= 0:
            return gone
        head_first: i64 = self._firsts[self._head]
        if first == head_first and end <= i64(self._ends[self._head]):
            self.drop_head(count)
            gone.append((first, count))
            return gone
        place = self._place(first)
        if place < self._head or i64(self._ends[place]) <= first:
            place += 1
        while place < len(self._firsts):
            run_first: i64 = self._firsts[place]
            if run_first >= end:
                break
            run_end: i64 = self._ends[place]
            cut_first = max(first, run_first)
            cut_end = min(end, run_end)
            gone.append((cut_first, cut_end - cut_first))
            self.count -= cut_end - cut_first
            place += self._cut(place, run_first, run_end, cut_first, cut_end)
        if self._head == len(self._firsts):
            self.clear()
        return gone

    def _cut(self, place: i64, first: i64, end: i64, cut_first: i64, cut_end: i64) -> i64:
        """Cut [cut_first, cut_end) out of the run at `place`; return how many runs to step over."""
        if cut_first == first and cut_end == end:
            del self._firsts[place]
            del self._ends[place]
            return 0
        if cut_first == first:
            self._firsts[place] = cut_end
            return 1
        self._ends[place] = cut_first
        if cut_end < end:
            self._firsts.insert(place + 1, cut_end)
            self._ends.insert(place + 1, end)
            return 2
        return 1

    def within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """What of first..first+count-1 is a member, as (first, count) runs; nothing is changed."""
        end = first + count
        found: list[tuple[int, int]] = []
        if len(self._firsts) == self._head or count <= 0:
            return found
        place = self._place(first)
        if place < self._head or i64(self._ends[place]) <= first:
            place += 1
        while place < len(self._firsts) and i64(self._firsts[place]) < end:
            cut_first = max(first, i64(self._firsts[place]))
            cut_end = min(end, i64(self._ends[place]))
            found.append((cut_first, cut_end - cut_first))
            place += 1
        return found

    def first_from(self, seq: i64) -> i64:
        """The lowest member that is not below `seq`, or -1."""
        place = self._place(seq)
        if place >= self._head and i64(self._ends[place]) > seq:
            return seq
        if place + 1 < len(self._firsts):
            return self._firsts[place + 1]
        return -1

    def runs_from(self, seq: i64, limit: i64) -> list[tuple[int, int]]:
        """The first `limit` runs of what is not below `seq`, as (first, count).

        A run that `seq` stands in is given from `seq` on. The walk goes on after the end of the
        last run given; it is over when fewer than `limit` come.
        """
        found: list[tuple[int, int]] = []
        place = self._place(seq)
        if place < self._head or i64(self._ends[place]) <= seq:
            place += 1
        while place < len(self._firsts) and len(found) < limit:
            first = max(seq, i64(self._firsts[place]))
            found.append((first, i64(self._ends[place]) - first))
            place += 1
        return found

    def split_below(self, seq: i64) -> "SeqSet":
        """Take the members below `seq` out; they are returned as a set of their own."""
        taken = SeqSet()
        head = self._head
        upto = self._place(seq - 1) + 1
        if upto <= head:
            return taken
        taken._firsts = self._firsts[head:upto]
        taken._ends = self._ends[head:upto]
        if i64(taken._ends[upto - head - 1]) > seq:
            taken._ends[upto - head - 1] = seq
            upto -= 1
            self._firsts[upto] = seq
        taken.count = sum(taken._ends) - sum(taken._firsts)
        self.count -= taken.count
        self._head = upto
        self._cut_off()
        return taken

    def take_head(self, limit: i64) -> "SeqSet":
        """Take the `limit` lowest members out, or all when there are fewer; returned as a set."""
        if limit <= 0:
            return SeqSet()
        left = limit
        for place in range(self._head, len(self._firsts)):
            first: i64 = self._firsts[place]
            run = i64(self._ends[place]) - first
            if run >= left:
                return self.split_below(first + left)
            left -= run
        return self.split_below(self.last() + 1) if self.count > 0 else SeqSet()

    def _place(self, seq: i64) -> i64:
        """Index of the last run that begins at or before `seq`; below `_head` if there is none."""
        return bisect_right(self._firsts, seq, self._head) - 1
