"""What goes between members: bytes; lost, doubled, late, out of order, cut off one way or both."""

from collections.abc import Callable, Sequence
from random import Random

from tests.sim.raft.faults import Faults

DELAY_MAX = 3
REORDER_MAX = 30
LATE_MAX = 900
Receive = Callable[[int, int, int, bytes], None]  # source, target, when it was sent, content


class Network:
    """`blocked` has (source, target) of links that lose all."""

    def __init__(
        self, random: Random, later: Callable[[int, Callable[[], None]], None], receive: Receive
    ) -> None:
        self._random = random
        self._later = later
        self._receive = receive
        self.blocked: set[tuple[int, int]] = set()
        self.sent = 0

    def send(self, faults: Faults, now: int, source: int, target: int, content: bytes) -> None:
        self.sent += 1
        random = self._random
        if (source, target) in self.blocked or random.random() < faults.loss:
            return
        for _ in range(2 if random.random() < faults.double else 1):
            self._later(self._delay(faults), lambda: self._arrive(source, target, now, content))

    def _delay(self, faults: Faults) -> int:
        chance = self._random.random()
        if chance < faults.late:
            return self._random.randint(50, LATE_MAX)
        if chance < faults.late + faults.reorder:
            return self._random.randint(1, REORDER_MAX)
        return self._random.randint(1, DELAY_MAX)

    def _arrive(self, source: int, target: int, sent_at: int, content: bytes) -> None:
        if (source, target) not in self.blocked:
            self._receive(source, target, sent_at, content)

    # Partitions

    def cut(self, some: Sequence[int], others: Sequence[int], both_ways: bool) -> None:
        """What `some` send to `others` is lost, and perhaps the other way, too."""
        for one in some:
            for other in others:
                if one != other:
                    self.blocked.add((one, other))
                    if both_ways:
                        self.blocked.add((other, one))

    def cut_at_random(self, numbers: Sequence[int]) -> None:
        """One of them, or a part of them, is cut off: both ways, or unable to hear or to speak."""
        random = self._random
        count = random.choice((1, 1, random.randint(1, len(numbers))))
        some = random.sample(numbers, count)
        others = [number for number in numbers if number not in some]
        kind = random.random()
        if kind < 0.6:
            self.cut(some, others, True)
        elif kind < 0.8:
            self.cut(some, others, False)
        else:
            self.cut(others, some, False)

    def heal(self) -> None:
        self.blocked.clear()
