"""Deliveries of one channel that wait for an acknowledgement. Pure, compiled.

Delivery tags are 1-based per channel and given in runs; a run names the queue, the consumer and
the message_seqs, so that acknowledging a thousand in order costs as much as one.

A *void* run is of messages that the queue has taken back: its tags may still be named,
without an error, and count no more.
"""

from bisect import bisect_right
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

HEAD_SLACK: Final = 256
VOID: Final = 0  # uid of void runs; no queue has it


@final
@mypyc_attr(acyclic=True)
class TagRun:
    """Tags tag..tag+count-1 are message_seqs first.. of queue `uid`, held by `number`."""

    def __init__(self, tag: i64, count: i64, uid: i64, number: i64, first: i64) -> None:
        self.tag: i64 = tag
        self.count: i64 = count
        self.uid: i64 = uid
        self.number: i64 = number  # the channel's consumer; 0: basic.get
        self.first: i64 = first


@final
class Unacked:
    """Outstanding tags in ascending runs."""

    def __init__(self) -> None:
        self._runs: list[TagRun] = []
        self._tags: list[int] = []
        self._head: i64 = 0
        self.count: i64 = 0

    def add(self, tag: i64, count: i64, uid: i64, number: i64, first: i64) -> None:
        """Tags come in ascending order; what continues the last run is joined to it."""
        self.count += count
        length: i64 = len(self._runs)
        if length > self._head:
            last = self._runs[length - 1]
            if (
                last.tag + last.count == tag
                and last.first + last.count == first
                and last.number == number
                and last.uid == uid
            ):
                last.count += count
                return
        self._runs.append(TagRun(tag, count, uid, number, first))
        self._tags.append(tag)

    def take_one(self, tag: i64) -> TagRun | None:
        """Take this tag out; None if it is not known."""
        place = self._find(tag)
        if place < 0:
            return None
        return self._cut(place, tag, 1)

    def take_each(self, first: i64, last: i64, into: list[TagRun]) -> i64:
        """Take the tags first..last into `into`; return the first that is unknown, or 0."""
        tag = first
        while tag <= last:
            place = self._find(tag)
            if place < 0:
                return tag
            run = self._runs[place]
            taken = self._cut(place, tag, min(last, run.tag + run.count - 1) - tag + 1)
            tag = taken.tag + taken.count
            into.append(taken)
        return 0

    def take_upto(self, tag: i64, into: list[TagRun]) -> bool:
        """Take everything up to and with `tag`; False if `tag` itself is not outstanding."""
        place = self._find(tag)
        if place < 0:
            return False
        while self._head < len(self._runs) and self._runs[self._head].tag <= tag:
            run = self._runs[self._head]
            into.append(self._cut(self._head, run.tag, min(run.count, tag - run.tag + 1)))
        return True

    def take_within(self, first: i64, last: i64, into: list[TagRun]) -> None:
        """Take of the tags first..last those that are outstanding."""
        tag = first
        while tag <= last:
            place = self._place_from(tag)
            if place == len(self._runs) or self._runs[place].tag > last:
                return
            run = self._runs[place]
            begin = max(tag, run.tag)
            taken = self._cut(place, begin, min(last + 1, run.tag + run.count) - begin)
            tag = taken.tag + taken.count
            into.append(taken)

    def forget(self, uid: i64) -> None:
        """Nothing of this queue, or link, is outstanding any more."""
        runs = self._runs[self._head :]
        self._clear()
        for run in runs:
            if run.uid != uid:
                self._append(run)

    def take_of(self, uid: i64) -> list[TagRun]:
        """Take all that is outstanding of this queue, or link."""
        taken = [run for run in self._runs[self._head :] if run.uid == uid]
        self.forget(uid)
        return taken

    def void(self, uid: i64, number: i64) -> list[tuple[int, int]]:
        """The queue has taken back what this consumer held; return those messages, in runs."""
        runs = self._runs[self._head :]
        self._clear()
        voided: list[tuple[int, int]] = []
        for run in runs:
            if run.uid == uid and run.number == number:
                run.uid = VOID
                voided.append((int(run.first), int(run.count)))
            self._append(run)
        return voided

    def restore(self, runs: list[TagRun]) -> None:
        """Runs that were taken are outstanding again."""
        every = self._runs[self._head :]
        every.extend(runs)
        every.sort(key=tag_of)
        self._clear()
        for run in every:
            self._append(run)

    def _clear(self) -> None:
        self._runs = []
        self._tags = []
        self._head = 0
        self.count = 0

    def _append(self, run: TagRun) -> None:
        """Add a run behind all others; void ones that meet are joined."""
        if run.uid != VOID:
            self.count += run.count
        elif len(self._runs) > 0:
            last = self._runs[-1]
            if last.uid == VOID and last.tag + last.count == run.tag:
                last.count += run.count
                return
        self._runs.append(run)
        self._tags.append(run.tag)

    def take_all(self) -> list[TagRun]:
        runs = self._runs[self._head :]
        self._clear()
        return runs

    def _find(self, tag: i64) -> i64:
        """Place of the run that holds `tag`, or -1."""
        head = self._head
        if head < len(self._runs):
            run = self._runs[head]
            if run.tag <= tag and tag < run.tag + run.count:
                return head
        place: i64 = bisect_right(self._tags, tag, head) - 1
        if place < head:
            return -1
        run = self._runs[place]
        return place if tag < run.tag + run.count else -1

    def _place_from(self, tag: i64) -> i64:
        """Place of the run that holds `tag`, else of the first behind it."""
        place: i64 = bisect_right(self._tags, tag, self._head) - 1
        if place < self._head:
            return self._head
        run = self._runs[place]
        return place if tag < run.tag + run.count else place + 1

    def _cut(self, place: i64, tag: i64, count: i64) -> TagRun:
        """Take tags tag..tag+count-1 out of the run at `place`."""
        run = self._runs[place]
        if run.uid != VOID:
            self.count -= count
        if count == run.count:
            self._remove(place)
            return run
        offset = tag - run.tag
        taken = TagRun(tag, count, run.uid, run.number, run.first + offset)
        rest = run.count - offset - count
        if rest > 0 and offset > 0:
            after = TagRun(tag + count, rest, run.uid, run.number, taken.first + count)
            self._runs.insert(place + 1, after)
            self._tags.insert(place + 1, tag + count)
            run.count = offset
        elif rest > 0:
            run.tag = tag + count
            run.first = taken.first + count
            run.count = rest
            self._tags[place] = run.tag
        else:
            run.count = offset
        return taken

    def _remove(self, place: i64) -> None:
        """Take the run at `place` out."""
        if place == self._head:
            self._step_head()
        else:
            del self._runs[place]
            del self._tags[place]

    def _step_head(self) -> None:
        self._head += 1
        if self._head == len(self._runs):
            self._runs = []
            self._tags = []
            self._head = 0
        elif self._head > HEAD_SLACK and self._head * 2 > len(self._runs):
            del self._runs[: self._head]
            del self._tags[: self._head]
            self._head = 0


def tag_of(run: TagRun) -> int:
    return int(run.tag)
