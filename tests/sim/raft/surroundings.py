"""What the parts of a simulated world need of it."""

from collections.abc import Callable
from random import Random
from typing import Protocol

from tests.sim.raft.faults import Faults


class Surroundings(Protocol):
    @property
    def random(self) -> Random: ...

    @property
    def now(self) -> int: ...

    @property
    def faults(self) -> Faults: ...

    def later(self, delay: int, action: Callable[[], None]) -> None: ...

    def tells(self, text: str) -> None: ...


class Pausing(Protocol):
    """A world whose processes stop for a while."""

    def later(self, delay: int, action: Callable[[], None]) -> None: ...

    def paused_for(self, number: int) -> int: ...


class Living(Protocol):
    """A process; `epoch` counts its lives."""

    number: int
    epoch: int


def later_in_life(world: Pausing, who: Living, delay: int, action: Callable[[], None]) -> None:
    """Only if the process still lives then, and when it is not paused."""
    epoch = who.epoch

    def run() -> None:
        if who.epoch != epoch:
            return
        if world.paused_for(who.number):
            world.later(world.paused_for(who.number), run)
        else:
            action()

    world.later(delay, run)
