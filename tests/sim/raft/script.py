"""Words for scenarios: a calm world in which one thing after the other goes wrong, by name."""

from collections.abc import Callable, Sequence

from raft.core import Raft
from raft.settings import Settings
from raft.status import LEADER
from tests.sim.raft.machine import publish
from tests.sim.raft.member import Member
from tests.sim.raft.world import SETTLE_MAX, World

SOON = 400  # within this an election is over


def calm(voters: int, seed: int = 1, **settings: int) -> World:
    """A group in which nothing is drawn but delays and lots."""
    chosen = Settings(election_ticks=10, heartbeat_ticks=2, suspicion_ticks=3)
    for name, value in settings.items():
        setattr(chosen, name, value)
    return World(seed, voters, chosen)


def core_of(world: World, number: int) -> Raft:
    core = world.members[number].core
    assert core is not None, f"{number} is down"
    return core


def wait(world: World, is_so: Callable[[], bool], wanted: str, limit: int = SETTLE_MAX) -> None:
    """At the very step at which it comes true."""
    end = world.now + limit
    while not is_so():
        assert world.now < end, f"{wanted}: not within {limit}\n{world.describe()}"
        world.step()


def is_leader(world: World, number: int) -> bool:
    core = world.members[number].core
    return core is not None and core.role == LEADER


def lead(world: World, number: int) -> Member:
    """It leads, whichever member did before; all are at rest."""
    world.settle()
    leader = world.leader()
    assert leader is not None and leader.core is not None
    if leader.number != number:
        world.run_until(lambda: leader.transfer(number), SOON, "a transfer")
        leader.act()
        wait(world, lambda: is_leader(world, number), f"{number} leads")
        world.settle()
    return world.members[number]


def propose(world: World, number: int, count: int = 1) -> list[int]:
    """Entries of one message each; their indexes."""
    member, core = world.members[number], core_of(world, number)
    indexes: list[int] = []
    for _ in range(count):
        taken = member.propose(*publish([core.term << 40 | world.steps << 8 | len(indexes)]))
        assert taken is not None, f"{number} takes nothing"
        indexes.append(taken[0])
    member.act()
    member.turn()
    return indexes


def isolate(world: World, numbers: Sequence[int]) -> None:
    """Nothing goes between these and the others."""
    others = [number for number in world.members if number not in numbers]
    world.network.cut(numbers, others, True)


def campaign(world: World, number: int) -> None:
    world.members[number].campaign()
    world.members[number].act()
