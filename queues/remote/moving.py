"""What a session takes along when it stops using a mirrored queue by way of the queue's old home.

The old home numbers the commands of such a session (`queues.remote.quorum_proxy`). Once all of them
are applied it hands the session over: the number of the last one, and how far its consumers are.
The session's own node goes on from there, straight to the leader. Compiled.
"""

from collections.abc import Sequence
from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.machine.commands import SessionId

COLUMNS_OF_CONSUMER: Final = 5
ATTACHED_BIT: Final = 1
GONE_BIT: Final = 2
ACTIVE_BIT: Final = 4


@final
class Taker:
    """A consumer of a session."""

    __slots__ = ("active", "attached", "gone", "next_seq", "timeout_ms")

    def __init__(self, timeout_ms: i64) -> None:
        self.timeout_ms: i64 = timeout_ms
        self.next_seq: i64 = 1  # the delivery_seq of the next delivery
        self.attached = False  # the session knows it
        self.gone = False  # and that it is no more
        self.active = False


@final
class Moved:
    """A session that was handed over. `number`: of its last command; 0: it has given none. A leader
    of `term` or a later one has applied that. `wanted`: by consumer, the delivery_seq of the first
    delivery whose body its node does not have, if there is one."""

    def __init__(self, number: i64, takers: dict[int, Taker], wanted: dict[int, int]) -> None:
        self.number: i64 = number
        self.term: i64 = 0
        self.takers = takers
        self.wanted = wanted

    def numbers(self) -> list[int]:
        """As the item MOVED has it."""
        found = [int(self.number), int(self.term)]
        for number, taker in self.takers.items():
            flags = ATTACHED_BIT if taker.attached else 0
            flags |= GONE_BIT if taker.gone else 0
            flags |= ACTIVE_BIT if taker.active else 0
            next_seq = int(taker.next_seq)
            wanted = self.wanted.get(number, next_seq)
            found += (number, wanted, next_seq, int(taker.timeout_ms), flags)
        return found


def moved_in(numbers: Sequence[int]) -> Moved:
    """The other way round. ValueError: it makes no sense."""
    if len(numbers) % COLUMNS_OF_CONSUMER != 2 or min(numbers[:2]) < 0:
        raise ValueError(f"a session that moves in {len(numbers)} numbers")
    takers: dict[int, Taker] = {}
    wanted: dict[int, int] = {}
    for at in range(2, len(numbers), COLUMNS_OF_CONSUMER):
        number, first, next_seq, timeout_ms, flags = numbers[at : at + COLUMNS_OF_CONSUMER]
        if not 0 < first <= next_seq:
            raise ValueError(f"a consumer that wants delivery {first} of {next_seq}")
        taker = Taker(timeout_ms)
        taker.next_seq = next_seq
        taker.attached = flags & ATTACHED_BIT != 0
        taker.gone = flags & GONE_BIT != 0
        taker.active = flags & ACTIVE_BIT != 0
        takers[number] = taker
        if first < next_seq:
            wanted[number] = first
    moved = Moved(numbers[0], takers, wanted)
    moved.term = numbers[1]
    return moved


class Mirrored(Protocol):
    """A mirrored queue, as sessions of its old home use it
    (`queues.remote.quorum_proxy.QuorumProxy`)."""

    def hand_over(self, session: SessionId) -> Moved | None:
        """Forget the session: its own node goes on. None: not yet, something is not applied."""


class Movers(Protocol):
    """Who knows which queues of this node have mirrors now."""

    def mirrored(self, uid: int) -> Mirrored | None:
        """The queue, once sessions of this node use it as a mirrored one; None: not yet, or no
        longer."""

    def is_plain_again(self, uid: int, epoch: int) -> bool:
        """Whether the queue has lost its mirrors since the view with that epoch."""


@final
class NoMovers:
    """Where no queue gets mirrors."""

    def mirrored(self, uid: int) -> Mirrored | None:
        return None

    def is_plain_again(self, uid: int, epoch: int) -> bool:
        return False
