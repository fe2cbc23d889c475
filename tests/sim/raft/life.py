"""One seed's life of a group: weather, healing, progress, rest, and waking from it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from tests.sim.raft.machine import publish
from tests.sim.raft.network import LATE_MAX
from tests.sim.raft.truth import Truth
from tests.sim.raft.weather import Weather
from tests.sim.raft.world import QUIET, SETTLE_MAX, World

WEATHERS = 2
DURATION = 2500
WAKE_MAX = 500


class Lively(Protocol):
    """A group that can be asked for something, and its world."""

    @property
    def truth(self) -> Truth: ...

    @property
    def steps(self) -> int: ...

    def run_until(self, is_so: Callable[[], bool], limit: int, wanted: str) -> None: ...

    def propose(self, parts: Sequence[bytes], attached: Sequence[bytes] = ()) -> bool: ...


def live(world: World, weathers: int = WEATHERS, duration: int = DURATION) -> None:
    """All of it; whatever fails says of which seed."""
    weather = Weather(world)
    try:
        for _ in range(weathers):
            weather.blow(duration)
            world.heal()
            get_on(world, 1)
            world.settle()
            rest(world)
            get_on(world, 2)
            world.settle()
    except AssertionError as failure:
        failure.add_note("\n".join([*world.trace, world.describe()]))
        raise


def get_on(world: Lively, count: int) -> None:
    """Something new is committed."""
    for _ in range(count):
        before = world.truth.commit_index
        parts, attached = publish([1 << 62 | world.steps])
        world.run_until(
            lambda parts=parts, attached=attached: world.propose(parts, attached),  # type: ignore[misc]
            SETTLE_MAX,
            "a leader that takes proposals",
        )
        world.run_until(
            lambda before=before: world.truth.commit_index > before,  # type: ignore[misc]
            SETTLE_MAX,
            "a commit",
        )


def rest(world: World) -> None:
    """Members that were removed are gone; the others say nothing as long as nothing is asked."""
    leader = world.leader()
    assert leader is not None and leader.core is not None
    for number in world.members:
        if number not in leader.core.config.members():
            world.remove(number)
    world.run(LATE_MAX + QUIET)  # What was sent before, and reports of those that are gone.
    sent = world.network.sent
    world.run(QUIET)
    assert world.network.sent == sent, f"messages go on\n{world.describe()}"
    assert world.is_settled(), world.describe()
