"""What exchange kinds get from outside: random numbers, and which queues are local.

The core draws no lots of its own and knows no nodes. `random.Random` keeps `Lots`; the defaults
are for where neither matters: lots that are even and the same every time, and one node alone.
"""

from typing import Protocol, final

from queues.routing.hashing import mix, share


class Lots(Protocol):
    def randrange(self, stop: int, /) -> int:
        """A number from 0 up to `stop`, all of them equally likely."""


class Locality(Protocol):
    def is_local(self, uid: int, /) -> bool:
        """Whether the queue of this uid has its leader on this node."""


@final
class CountedRandom:
    """The same lots in the same order every time."""

    def __init__(self) -> None:
        self._drawn = 0

    def randrange(self, stop: int, /) -> int:
        self._drawn = self._drawn + 1 & 0xFFFFFFFF
        return share(mix(mix(self._drawn)), stop)


@final
class OneNode:
    """Every queue is here."""

    def is_local(self, uid: int, /) -> bool:
        return True


@final
class Outside:
    """Both, as kinds are handed them."""

    def __init__(self, lots: Lots, locality: Locality) -> None:
        self.lots = lots
        self.locality = locality
