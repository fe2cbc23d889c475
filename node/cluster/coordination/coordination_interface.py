"""Coordination as its users see it: jobs that one node does at a time, and the load of all nodes.

Nothing that a client waits for may depend on it: it has no disk, forgets everything when the
membership of the cluster changes, and may be off. Its users work without it: with `is_running`
False, or while no node holds a job, the leader of the definitions may do what must be done.

A holder is one who believes so: for a moment two nodes may. What a job changes carries its fencing
number, and its receiver refuses a number below the highest that it has seen. No number
is ever given to two holders.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

OnHeld = Callable[[int | None], None]  # the fencing number of this node's hold; None: it is over


class Holding(Struct, frozen=True):
    """Who has a job."""

    member: int
    fencing: int  # higher with each new holder


class Load(Struct, frozen=True):
    """Of one node, as it told with its last beat."""

    leaders: int = 0  # groups and classic queues that it leads
    connections: int = 0
    messages_per_s: int = 0  # published and delivered
    is_draining: bool = False


class Coordination(Protocol):
    """What a node has. Callbacks come on the loop thread, outside of the call that led to them."""

    @property
    def is_running(self) -> bool:
        """Whether jobs are given out: False where it is off, and without a quorum."""

    def claim(self, job: str, told: OnHeld) -> None:
        """Have the job when no other node has it, now or later, until `release`.

        `told` hears the fencing number each time that this node gets the job, and None when it has
        lost it: another node may have it from then on. One claim for each job.
        """

    def release(self, job: str) -> None:
        """Give the job up, or wait for it no more; `told` is not called again."""

    def holder(self, job: str) -> Holding | None:
        """Who has the job as far as this node knows."""

    def loads(self) -> dict[int, Load]:
        """By member; only of nodes that have told it lately."""


class NoCoordination:
    """Where it is off: no node ever holds a job."""

    @property
    def is_running(self) -> bool:
        return False

    def claim(self, job: str, told: OnHeld) -> None:
        """No node gets it."""

    def release(self, job: str) -> None:
        """No node had it."""

    def holder(self, job: str) -> Holding | None:
        return None

    def loads(self) -> dict[int, Load]:
        return {}
