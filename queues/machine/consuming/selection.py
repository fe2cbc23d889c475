"""A selector of consumers, and which messages of the queue it matches (0121). Compiled.

The machine reads no message. The host that leads evaluates each message once for each distinct
selector and reports the matches by the command `Selected`, so that all members of a group know the
same. A `Selection` keeps what is known: the matching messages of the queue, and those of them that
are ready, by level. A consumer with a selector is served from the latter, so messages that do not
match cost it nothing. Messages behind `seen` are not evaluated yet: no consumer gets them by it.
`Ready` reports what comes and goes.
"""

from typing import final

from mypy_extensions import i64

from queues.runs.seqset import SeqSet


@final
class Selection:
    """One selector. Invariant: `waiting`, by level, is what of `known` is ready."""

    def __init__(self, number: i64, selector: bytes, levels: i64) -> None:
        self.number: i64 = number  # never used twice in a queue
        self.selector = selector
        self.seen: i64 = 0  # messages up to this one were evaluated
        self.known = SeqSet()  # those of them that are in the queue and match
        self.waiting: list[SeqSet] = [SeqSet() for _ in range(levels)]
        self.waiting_count: i64 = 0
        self.consumer_count: i64 = 0  # attached ones

    def top(self) -> i64:
        """The highest level at which a message waits; there must be one."""
        level: i64 = len(self.waiting) - 1
        while self.waiting[level].count == 0:
            level -= 1
        return level

    def head(self, want: i64) -> tuple[i64, i64]:
        """The message to be served next, and how many of the `want` from it on are consecutive; 0:
        none waits."""
        if self.waiting_count == 0:
            return 0, 0
        lane = self.waiting[self.top()]
        return lane.first(), min(want, lane.head_run())

    def within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Which of these messages wait, as ascending runs."""
        if len(self.waiting) == 1:
            return self.waiting[0].within(first, count)
        found: list[tuple[int, int]] = []
        for lane in self.waiting:
            found.extend(lane.within(first, count))
        found.sort()
        return found

    def add(self, first: i64, count: i64, level: i64) -> None:
        """These messages are ready."""
        for run_first, run_count in self.known.within(first, count):
            self.waiting[level].add(run_first, run_count)
            self.waiting_count += run_count

    def remove(self, first: i64, count: i64) -> None:
        """These messages are not ready any more."""
        if self.waiting_count == 0:
            return
        for lane in self.waiting:
            if lane.count > 0:
                for _, gone in lane.remove(first, count):
                    self.waiting_count -= gone

    def clear_below(self, level: i64, end: i64) -> None:
        """No message of that level below `end` is ready any more."""
        lane = self.waiting[level]
        if lane.count > 0 and lane.first() < end:
            self.waiting_count -= lane.split_below(end).count

    def clear(self) -> None:
        """No message is ready any more."""
        if self.waiting_count > 0:
            self.waiting = [SeqSet() for _ in self.waiting]
            self.waiting_count = 0

    def rebuild(self, lanes: list[SeqSet]) -> None:
        """These are the ready messages, by level."""
        self.clear()
        for level, lane in enumerate(lanes):
            if lane.count > 0:
                for first, count in self.known.runs():
                    for run_first, run_count in lane.within(first, count):
                        self.waiting[level].add(run_first, run_count)
                        self.waiting_count += run_count
