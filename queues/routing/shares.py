"""How consistent hashing parts keys among weighted destinations: `Ring` and `Jump`. Compiled.

Both answer from the set of (name, weight) alone, whatever the order in which it came together, and
both are lazy: a change costs little, and the first key after it sorts the names again.

`Ring` has PLACES places, and a key belongs to one of them. At each place every destination has a
distance, drawn from its name and the place and divided by its weight; the nearest has the place
(weighted rendezvous hashing). So a destination that comes takes places from all others by weight
and no key moves but to it, and one that goes leaves its keys to all others. An owner is found by
asking all destinations once, and is remembered: 8 bytes a place. A destination whose part of all
weight is under 1 / PLACES may get nothing.

`Jump` numbers buckets, as many as there is weight, and takes a key's by jump hash: shares are
exact. Destinations have their buckets in the order of their names, shorter names first (`q9` before
`q10`), so no more keys than needed move if what comes or goes is last in that order; anywhere else
the buckets behind it get other numbers, and most keys move.
"""

from bisect import bisect_right
from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.routing.hashing import distance, jump, mix, name_hash, share

PLACES: Final = 65536
UNKNOWN: Final = 0  # no uid, and no minus uid either


class Shares(Protocol):
    """Destinations with their weights, to be parted among."""

    def put(self, target: int, name: bytes, weight: int) -> None:
        """Have the target take part with this weight, or change its weight."""

    def drop(self, target: int) -> None: ...

    def pick(self, value: i64) -> int:
        """The target for a hash of 32 bits. There must be one."""


@final
class Member:
    """One destination."""

    def __init__(self, target: int, name: bytes, weight: int) -> None:
        self.target = target
        self.name = name
        self.weight = weight


@final
class Ring:
    """Invariant: `_owners` is empty, or holds for each place its owner or UNKNOWN; the lists of
    members are sorted, by weight and then by name, if `_owners` is not empty.
    """

    def __init__(self) -> None:
        self._members: dict[int, Member] = {}
        self._owners: list[int] = []
        self._targets: list[int] = []
        self._highs: list[int] = []
        self._lows: list[int] = []
        self._weights: list[int] = []  # each weight that there is, ascending
        self._ends: list[int] = []  # and where in the lists its members end

    def put(self, target: int, name: bytes, weight: int) -> None:
        self._members[target] = Member(target, name, weight)
        self._owners = []

    def drop(self, target: int) -> None:
        del self._members[target]
        self._owners = []

    def pick(self, value: i64) -> int:
        if len(self._owners) == 0:
            self._sort()
        place = share(value, PLACES)
        owner = self._owners[place]
        if owner == UNKNOWN:
            owner = self._nearest(place)
            self._owners[place] = owner
        return owner

    def _sort(self) -> None:
        members = sorted(self._members.values(), key=lambda each: (each.weight, each.name))
        hashes = [name_hash(each.name) for each in members]
        self._targets = [each.target for each in members]
        self._highs = [high for high, _ in hashes]
        self._lows = [low for _, low in hashes]
        ends: dict[int, int] = {}
        for number, member in enumerate(members):
            ends[member.weight] = number + 1
        self._weights = list(ends)
        self._ends = list(ends.values())
        self._owners = [UNKNOWN] * PLACES

    def _nearest(self, place: i64) -> int:
        """Among members of one weight the highest draw is the nearest; no logarithm is needed."""
        seed = mix(place + 1)
        owner = UNKNOWN
        owner_distance: i64 = 0
        owner_weight: i64 = 1
        at: i64 = 0
        for number in range(len(self._weights)):
            weight: i64 = self._weights[number]
            end: i64 = self._ends[number]
            highest: i64 = -1
            best: i64 = at
            while at < end:
                drawn = mix(mix(seed ^ i64(self._highs[at])) ^ i64(self._lows[at]))
                if drawn > highest:
                    highest = drawn
                    best = at
                at += 1
            far = distance(highest) if len(self._weights) > 1 else 0
            if owner == UNKNOWN or far * owner_weight < owner_distance * weight:
                owner = self._targets[best]
                owner_distance = far
                owner_weight = weight
        return owner


@final
class Jump:
    """Invariant: `_ends` is empty, or holds where the buckets of each of `_targets` end."""

    def __init__(self) -> None:
        self._members: dict[int, Member] = {}
        self._targets: list[int] = []
        self._ends: list[int] = []

    def put(self, target: int, name: bytes, weight: int) -> None:
        self._members[target] = Member(target, name, weight)
        self._ends = []

    def drop(self, target: int) -> None:
        del self._members[target]
        self._ends = []

    def pick(self, value: i64) -> int:
        if len(self._ends) == 0:
            self._sort()
        bucket = jump(value, self._ends[-1])
        return self._targets[bisect_right(self._ends, bucket)]

    def _sort(self) -> None:
        members = sorted(self._members.values(), key=lambda each: (len(each.name), each.name))
        self._targets = [each.target for each in members]
        total = 0
        for member in members:
            total += member.weight
            self._ends.append(total)
