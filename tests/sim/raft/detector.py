"""Which member trusts which node to be alive: what a failure detector tells, now and then wrongly.

It hears beats as long as the other is up and its link is not cut, and notices within some beats
that there are none. For a while it may be told to suspect who is well (`suspect`) or to trust who
is not (`trust`). A node that comes back after a restart is noticed: its connections are new.
"""

from collections.abc import Callable
from random import Random

from raft.host import RaftHost


class Detector:
    """`hears(one, other)`: beats of `other` reach `one`. `on_change(one, other, alive)`."""

    def __init__(
        self,
        random: Random,
        hears: Callable[[int, int], bool],
        on_change: Callable[[int, int, bool], None],
    ) -> None:
        self._random = random
        self._hears = hears
        self._on_change = on_change
        self._suspected: dict[tuple[int, int], bool] = {}
        self._forced: dict[tuple[int, int], tuple[bool, int]] = {}  # alive, until when
        self._restarted: set[tuple[int, int]] = set()

    def trusts(self, one: int, other: int) -> bool:
        return (one, other) not in self._suspected

    def force(self, one: int, other: int, alive: bool, until: int) -> None:
        """It is of this opinion for a while, whatever it hears."""
        self._forced[one, other] = (alive, until)

    def forget_all_errors(self) -> None:
        self._forced.clear()

    def restarted(self, number: int, others: list[int]) -> None:
        """A process begins: it trusts all peers, and its old connections are gone."""
        for other in others:
            self._suspected.pop((number, other), None)
            self._restarted.discard((number, other))
            self._restarted.add((other, number))

    def beat(self, now: int, up: list[int], peers: list[int]) -> None:
        """Those that are `up` look at all. Opinions change with some delay."""
        for one in up:
            for other in peers:
                if one != other and self._random.random() < 0.5:
                    self._look(now, one, other)

    def _look(self, now: int, one: int, other: int) -> None:
        pair = (one, other)
        alive = self._hears(one, other)
        forced = self._forced.get(pair)
        if forced is not None and forced[1] > now:
            alive = forced[0]
        if alive and pair in self._restarted:
            self._restarted.discard(pair)
            if self.trusts(one, other):
                self._set(one, other, False)
        if alive != self.trusts(one, other):
            self._set(one, other, alive)

    def _set(self, one: int, other: int, alive: bool) -> None:
        if alive:
            del self._suspected[one, other]
        else:
            self._suspected[one, other] = True
        self._on_change(one, other, alive)


def tell_host(detector: Detector, number: int, other: int, host: RaftHost) -> None:
    """What a host hears of its links: they stand as long as the other is trusted."""
    host.add_peer(other)
    trusts = detector.trusts(number, other)
    if trusts and not host.detector.is_trusted(other):
        host.connected(other)
    elif trusts:
        host.heard(other)
    elif host.detector.is_trusted(other):
        host.lost(other)
