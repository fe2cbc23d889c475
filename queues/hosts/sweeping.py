"""Messages that are let go of in slices, because there may be millions of them (0009). Compiled.

`Sweep`: a snapshot has taken the place of a machine, and what that had and the snapshot has not is
dead; or the machine has passed over bodies that were here. Until they are let go of they count as
alive for the log, or their bytes would be moved without them.
`Remains`: a queue is gone, and its bodies follow. Both walk through the store, a bounded part at a
time; neither is kept on disk, for the next start finds what is left by itself.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from queues.bodies.store import Store
from queues.machine.fifo import Fifo
from queues.runs.seqset import SeqSet

if TYPE_CHECKING:
    from queues.hosts.host_interfaces import Steps
    from queues.hosts.queue_core import QueueCore

Runs = list[tuple[int, int]]


@final
class Sweep:
    """What is to go: in `old`, which has no other holder, or in `passed`, and not in `kept`.

    What is kept may be settled meanwhile; that is let go of by the core.
    """

    def __init__(
        self, old: Fifo | None, passed: SeqSet, kept: list[SeqSet], end: i64, slots: i64
    ) -> None:
        self._slots: i64 = slots  # of the store, in one part
        self._old = old
        self._passed = passed  # bodies that were here before their entries
        self._kept = kept
        self._at: i64 = 1  # what is below has gone
        self._end: i64 = end  # and above there is nothing to go

    def within(self, first: i64, count: i64) -> Runs:
        """Which of these messages are still to go, ascending."""
        begin = max(first, self._at)
        some = min(first + count, self._end) - begin
        if some <= 0:
            return []
        runs = self._passed.within(begin, some)
        if self._old is not None:
            runs.extend(self._old.alive_within(begin, some))
        kept: Runs = []
        for seqs in self._kept:
            kept.extend(seqs.within(begin, some))
        runs.sort()
        kept.sort()
        return runs_without(runs, kept)

    def go_on(self, core: "QueueCore") -> bool:
        """Let go of a part; whether that was all."""
        spans, following = core.store.spans_from(self._at, self._slots)
        dead: Runs = []
        for first, count in spans:
            dead.extend(self.within(first, count))
        self._at = self._end if following == 0 else min(i64(following), self._end)
        for first, count in dead:
            core.release_found(first, count)
        return self._at >= self._end


@final
class Remains:
    """A queue that is gone: all that its store has goes."""

    def __init__(self, core: "QueueCore", turn: "Steps") -> None:
        self._core = core
        self._turn = turn
        self._at: i64 = 1

    def step(self, now_ms: i64) -> None:
        core = self._core
        has_begun = self._at > 1
        spans, following = core.store.spans_from(self._at)
        for first, count in spans:
            for run_first, run_count in core.live_ranges(first, count):
                core.release_found(run_first, run_count)
        self._at = following
        if following > 0:
            if not has_begun:
                core.journal.freeing(1)
            self._turn.mark_host_later(self)
        else:
            core.store.clear()
            if has_begun:
                core.journal.freeing(-1)


def stored_runs(store: Store, runs: Runs) -> Runs:
    """What of these is in the store: until it has caught up, a member of a group may know messages
    of which it has settled the bodies before a restart."""
    found: Runs = []
    for first, count in runs:
        found.extend(store.spans_within(first, count))
    return found


def sets_alive(machine: Fifo) -> list[SeqSet]:
    """All messages of which bodies are needed, whatever becomes of the machine."""
    found = [lane.copy() for lane in machine.ready.lanes]
    for consumer in machine.roster.consumers.values():
        if consumer.held.count > 0:
            found.append(consumer.held.copy())
    for leaving in machine.leaving:
        found.append(leaving.seqs.copy())
    if machine.delays is not None:
        found.append(machine.delays.seqs.copy())
    for reason in machine.pending_dead_letters.reasons():
        found.append(machine.pending_dead_letters.seqs_of(reason).copy())
    return found


def runs_without(runs: Runs, others: Runs) -> Runs:
    """What is in the first of two lists of ascending runs and not in the second."""
    found: Runs = []
    place = 0
    for first, count in runs:
        at: i64 = first
        end = at + count
        while at < end:
            while place < len(others) and others[place][0] + others[place][1] <= at:
                place += 1
            if place == len(others) or others[place][0] >= end:
                found.append((at, end - at))
                break
            begin: i64 = others[place][0]
            if begin > at:
                found.append((at, begin - at))
            at = begin + others[place][1]
    return found


def runs_both(runs: Runs, others: Runs) -> Runs:
    """What is in both of two lists of ascending runs; of `others` they may follow each other."""
    found: Runs = []
    end = -1  # of the last one that was found
    place = 0
    for first, count in runs:
        stop = first + count
        while place < len(others) and others[place][0] + others[place][1] <= first:
            place += 1
        at = place
        while at < len(others) and others[at][0] < stop:
            begin = max(first, others[at][0])
            limit = min(stop, others[at][0] + others[at][1])
            if begin == end and begin > first:
                found[-1] = (found[-1][0], limit - found[-1][0])
            else:
                found.append((begin, limit - begin))
            end = limit
            at += 1
    return found
