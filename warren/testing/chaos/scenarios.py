"""Scenarios: which faults a run has, for how long each, and how long the cluster rests between.

The name of each fault is a scenario of that fault alone; the others mix several. Faults come in an
order drawn at random, each as often as any other, so that a run that is long enough has them all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from warren.testing.chaos.faults import CLIENT, MAKERS, TOXIC_KINDS


@dataclass(frozen=True, slots=True)
class Scenario:
    """Faults by name; durations in seconds, drawn between two bounds."""

    name: str
    faults: tuple[str, ...]
    lasts_s: tuple[float, float] = (3.0, 10.0)
    rests_s: tuple[float, float] = (3.0, 6.0)

    @property
    def needs_links(self) -> bool:
        """Whether it breaks links, so that there must be something before them."""
        return bool(set(self.faults) - PROCESS_FAULTS)

    @property
    def breaks_clients(self) -> bool:
        """Whether some of them are those of clients."""
        return bool(set(self.faults).intersection(CLIENT_FAULTS))

    def at_pace(self, seconds: float) -> "Scenario":
        """The same with faults that last about so long, and half of that in between."""
        return replace(
            self,
            lasts_s=(seconds, LONGER * seconds),
            rests_s=(seconds / 2, LONGER * seconds / 2),
        )

    def each_s(self) -> float:
        """How long it takes to have each fault once, if healing took no time."""
        return len(self.faults) * (sum(self.lasts_s) + sum(self.rests_s)) / 2

    def order(self, drawn: Random) -> Iterator[str]:
        """Names of faults without end: all of them in some order, then in another; none if there
        are none."""
        while self.faults:
            yield from drawn.sample(self.faults, len(self.faults))

    def lasts(self, drawn: Random) -> float:
        return drawn.uniform(*self.lasts_s)

    def rests(self, drawn: Random) -> float:
        return drawn.uniform(*self.rests_s)


PROCESS_FAULTS: Final = frozenset(
    {"kill", "kill-all", "restart", "restart-all", "pause", "pause-all", "wipe"}
)
PARTITIONS: Final = ("isolate", "halves", "swallow", "one-way", "deaf")
TOXICS: Final = ("down", *TOXIC_KINDS)
CLIENT_FAULTS: Final = tuple(CLIENT + name for name in TOXICS)
LONGER: Final = 1.3  # how much the longest fault of a pace is longer than the shortest

MIXED: Final[Mapping[str, tuple[str, ...]]] = {
    "processes": tuple(name for name in MAKERS if name in PROCESS_FAULTS),
    "partitions": PARTITIONS,
    "network": TOXICS,
    "clients": CLIENT_FAULTS,
    "all": tuple(MAKERS),
}


def scenario(name: str) -> Scenario:
    """KeyError: there is none of that name."""
    if name in MIXED:
        return Scenario(name, MIXED[name])
    if name in MAKERS:
        return Scenario(name, (name,))
    raise KeyError(name)


def names() -> list[str]:
    """All scenarios, the mixed ones first."""
    return [*MIXED, *MAKERS]
