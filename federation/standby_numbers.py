"""Which messages of a primary's queue the standby has, and their numbers in its own queue.

Rules without I/O. A message has a number at the primary, which is never used again, and another one
here. Both grow in the order of arrival, so that a few segments map most queues.
"""

from bisect import bisect_right
from collections.abc import Iterable

from queues.runs.seqset import SeqSet

Runs = list[tuple[int, int]]  # (first, count), ascending


class Numbers:
    """Invariant: each number in `held` is in one segment (first there, first here, count), and
    segments ascend by `first there`."""

    def __init__(self) -> None:
        self.held = SeqSet()  # numbers of the primary
        self._starts: list[int] = []
        self._segments: list[tuple[int, int, int]] = []

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    def note(self, there: int, here: int) -> bool:
        """A message is in both queues. False: one with that number was there already."""
        if self.held.contains(there):
            return False
        self.held.add(there, 1)
        place = bisect_right(self._starts, there)
        if place:
            first, local, count = self._segments[place - 1]
            if there == first + count and here == local + count:
                self._segments[place - 1] = (first, local, count + 1)
                return True
            if there < first + count:
                self._replace(place - 1, there, here)
                return True
        self._starts.insert(place, there)
        self._segments.insert(place, (there, here, 1))
        return True

    def _replace(self, place: int, there: int, here: int) -> None:
        """A number within a segment that was dropped, and has come again."""
        first, local, count = self._segments[place]
        at = there - first
        pieces = [(first, local, at), (there, here, 1), (there + 1, local + at + 1, count - at - 1)]
        found = [each for each in pieces if each[2]]
        self._segments[place : place + 1] = found
        self._starts[place : place + 1] = [each[0] for each in found]

    def drop(self, runs: Iterable[tuple[int, int]]) -> Runs:
        """Forget these messages of the primary; those that were held, by their numbers here."""
        found: Runs = []
        for first, count in runs:
            for start, length in self.held.remove(first, count):
                found += self._here(start, length)
        self._prune()
        return found

    def _here(self, first: int, count: int) -> Runs:
        found: Runs = []
        end = first + count
        place = bisect_right(self._starts, first) - 1
        while first < end:
            start, local, length = self._segments[place]
            stop = min(end, start + length)
            found.append((local + first - start, stop - first))
            first = stop
            place += 1
        return found

    def _prune(self) -> None:
        """Segments of which nothing is held go."""
        kept = [each for each in self._segments if self.held.within(each[0], each[2])]
        if len(kept) < len(self._segments):
            self._segments = kept
            self._starts = [each[0] for each in kept]

    def missing(self, runs: Runs) -> Runs:
        """Those of these messages that are not held."""
        return without(runs, self.held)

    def surplus(self, runs: Runs) -> Runs:
        """What is held and not among these messages."""
        wanted = SeqSet()
        for first, count in runs:
            wanted.add(first, count)
        return without(self.held.runs(), wanted)


def without(runs: Runs, taken: SeqSet) -> Runs:
    """The runs less what is in the set."""
    found: Runs = []
    for first, count in runs:
        at = first
        for start, length in taken.within(first, count):
            if start > at:
                found.append((at, start - at))
            at = start + length
        if at < first + count:
            found.append((at, first + count - at))
    return found


def slices(runs: Runs, count_max: int) -> Iterable[Runs]:
    """The runs in parts of `count_max` messages."""
    part: Runs = []
    room = count_max
    for first, count in runs:
        while count:
            taken = min(count, room)
            part.append((first, taken))
            first, count, room = first + taken, count - taken, room - taken
            if not room:
                yield part
                part, room = [], count_max
    if part:
        yield part
