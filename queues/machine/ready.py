"""Messages that wait in a queue, by level of priority, each level in order of arrival. Compiled.

Most queues have one level. A higher level is served before a lower one; what is dropped from a full
queue comes from the lowest. Memory: one run list per level (`queues.runs.seqset`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from queues.machine.consuming.selection import Selection
from queues.machine.message_groups import MessageGroups
from queues.runs.seqset import SeqSet

if TYPE_CHECKING:
    from queues.machine.consuming.consumers import Consumer


@final
class Ready:
    """Invariant: a message is in one lane at most, and every lane above `_top` is empty."""

    def __init__(self, levels: i64 = 1) -> None:
        self.lanes: list[SeqSet] = [SeqSet() for _ in range(levels)]
        self.count: i64 = 0
        self._top: i64 = 0
        self._top_lane = self.lanes[0]  # that of `_top`: most queues have no other (0009)
        self.selections: list[Selection] = []  # that hear what comes and goes
        self.groups: MessageGroups | None = None  # hears the same, in queues that heed groups

    def group(self, bucket_count: i64) -> MessageGroups | None:
        """Heed groups of messages from now on, in so many buckets; 0: heed none."""
        if bucket_count == 0:
            self.groups = None
        elif self.groups is None:
            self.groups = MessageGroups(bucket_count)
        else:
            self.groups.bucket_count = bucket_count
        return self.groups

    def add(self, first: i64, count: i64, level: i64) -> None:
        self.count += count
        for each in self.selections:
            each.add(first, count, level)
        if self.groups is not None:
            self.groups.add(first, count, level)
        if level == self._top:
            self._top_lane.add(first, count)
            return
        self.lanes[level].add(first, count)
        if level > self._top:
            self._set_top(level)

    def join(self, seqs: SeqSet) -> None:
        """Put all of a set into the lowest lane; the set is used up."""
        self.count += seqs.count
        for each in self.selections:
            for first, count in seqs.runs():
                each.add(first, count, 0)
        if self.groups is not None:
            for first, count in seqs.runs():
                self.groups.add(first, count, 0)
        self.lanes[0].join(seqs)

    def append_encoded(self, encoded: bytes, end: i64, level: i64) -> None:
        """Put messages in as `SeqSet.append_encoded` does."""
        added = self.lanes[level].append_encoded(encoded, end)
        self.count += added
        if added > 0 and level > self._top:
            self._set_top(level)

    def first(self) -> i64:
        """The message to be served next; there must be one."""
        return self._top_lane.first()

    def head_for(self, consumer: "Consumer", want: i64) -> tuple[i64, i64]:
        """The first of the ready messages that the consumer may get, and how many of those that
        follow; 0: there is none."""
        selection = consumer.selection
        if selection is not None:
            return selection.head(want)
        if self.count == 0:
            return 0, 0
        if self.groups is not None:
            return self.groups.head(consumer, want)
        return self.first(), min(want, self.head_run())

    def has_none_for(self, consumer: "Consumer") -> bool:
        """Whether nothing of what is ready, if anything, is for the consumer."""
        selection = consumer.selection
        if selection is not None:
            return selection.waiting_count == 0
        return self.groups is not None and self.groups.head(consumer, 1)[1] == 0

    def take(self, consumer: "Consumer", first: i64, count: i64) -> None:
        """Take out messages first.. for the consumer, which `head_for` has found."""
        if self.groups is not None and consumer.selection is None:
            self.groups.claim(consumer, first)
        if self.groups is None and consumer.selection is None:
            self.drop_head(count)
        else:
            self.remove(first, count)

    def head_run(self) -> i64:
        """How many messages from `first()` on are consecutive."""
        return self._top_lane.head_run()

    def drop_head(self, count: i64) -> None:
        """Take out the `count` messages from `first()` on, all of one run."""
        for each in self.selections:
            each.clear_below(self._top, self._top_lane.first() + count)
        if self.groups is not None:
            self.groups.remove(self._top_lane.first(), count)
        self._top_lane.drop_head(count)
        self.count -= count
        if self._top > 0:
            self._settle_top()

    def _settle_top(self) -> None:
        top = self._top
        while top > 0 and self.lanes[top].count == 0:
            top -= 1
        self._set_top(top)

    def _set_top(self, level: i64) -> None:
        self._top = level
        self._top_lane = self.lanes[level]

    def lowest_lane(self) -> SeqSet:
        """The lane that loses first; there must be a message."""
        for lane in self.lanes:
            if lane.count > 0:
                return lane
        raise AssertionError("no message is ready")

    def drop_lowest(self, count: i64) -> None:
        """Take out the first `count` messages of the lowest lane, all of one run."""
        lane = self.lowest_lane()
        for each in self.selections:
            each.remove(lane.first(), count)
        if self.groups is not None:
            self.groups.remove(lane.first(), count)
        lane.drop_head(count)
        self.count -= count
        self._settle_top()

    def take_lowest(self, limit: i64) -> SeqSet:
        """Take out the first messages of the lowest lane, `limit` of them at most."""
        taken = self.lowest_lane().take_head(limit)
        self._gone(taken)
        self.count -= taken.count
        self._settle_top()
        return taken

    def oldest(self) -> i64:
        """The lowest message_seq of all lanes; 0: nothing is ready."""
        found: i64 = 0
        for lane in self.lanes:
            if lane.count > 0 and (found == 0 or lane.first() < found):
                found = lane.first()
        return found

    def remove(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Take out what of first..first+count-1 is there; return that as (first, count) runs."""
        gone: list[tuple[int, int]] = []
        for lane in self.lanes:
            if lane.count > 0:
                gone.extend(lane.remove(first, count))
        for _, length in gone:
            self.count -= length
        if len(gone) > 0:
            for each in self.selections:
                each.remove(first, count)
            if self.groups is not None:
                for run_first, run_count in gone:
                    self.groups.remove(run_first, run_count)
        self._settle_top()
        return gone

    def _gone(self, taken: SeqSet) -> None:
        """These messages were taken out."""
        for each in self.selections:
            for first, count in taken.runs():
                each.remove(first, count)
        if self.groups is not None:
            for first, count in taken.runs():
                self.groups.remove(first, count)

    def split_below(self, seq: i64) -> list[SeqSet]:
        """Take out everything below `seq`, as one set per lane."""
        parts: list[SeqSet] = []
        for lane in self.lanes:
            if lane.count > 0 and lane.first() < seq:
                part = lane.split_below(seq)
                self.count -= part.count
                self._gone(part)
                parts.append(part)
        self._settle_top()
        return parts

    def take_all(self) -> list[SeqSet]:
        """Take out everything, as one set per lane that held something."""
        parts = [lane for lane in self.lanes if lane.count > 0]
        self.lanes = [SeqSet() for _ in self.lanes]
        self.count = 0
        self._set_top(0)
        for each in self.selections:
            each.clear()
        if self.groups is not None:
            self.groups.clear()
        return parts

    def within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """What of first..first+count-1 is there, as ascending (first, count) runs."""
        if len(self.lanes) == 1:
            return self.lanes[0].within(first, count)
        found: list[tuple[int, int]] = []
        for lane in self.lanes:
            found.extend(lane.within(first, count))
        found.sort()
        return found

    def runs(self) -> list[tuple[int, int]]:
        """Everything, as ascending (first, count) runs."""
        found: list[tuple[int, int]] = []
        for lane in self.lanes:
            found.extend(lane.runs())
        found.sort()
        return found


def alike(marks: SeqSet, first: i64, count: i64) -> tuple[i64, bool]:
    """How many of first.. are marked, or not marked, just as the first one; and which of it."""
    marked = marks.within(first, count)
    if len(marked) == 0:
        return count, False
    run_first: i64 = marked[0][0]
    if run_first == first:
        return i64(marked[0][1]), True
    return run_first - first, False
