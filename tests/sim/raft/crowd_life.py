"""One seed's life of many groups: weather, healing, progress, rest, and one that works alone."""

from tests.sim.raft.crowd_world import CrowdWorld
from tests.sim.raft.life import get_on
from tests.sim.raft.weather import FAULT_EVERY, Harm

WEATHERS = 2
DURATION = 1500


class Strain:
    """What only such worlds have: disks run full, groups are deleted and created again."""

    def __init__(self, world: CrowdWorld) -> None:
        self.world = world
        self.random = world.random
        self._end = 0

    def go_on(self, end: int) -> None:
        self._end = end
        self.world.later(1, self._strain)

    def _strain(self) -> None:
        world, random, faults = self.world, self.random, self.world.faults
        if world.now >= self._end:
            return
        world.later(random.randint(1, 2 * FAULT_EVERY), self._strain)
        if random.random() < faults.full_disk:
            self._fill(random.choice(world.numbers()))
        if random.random() < faults.renewal:
            certain = [uid for uid in world.groups if world.is_certain(uid)]
            if certain:
                world.delete(random.choice(certain), random.random() < 0.2)

    def _fill(self, number: int) -> None:
        world = self.world
        file_bytes = world.nodes[number].drive.file_bytes
        world.fill_disk(number, self.random.choice((0, self.random.randint(0, 3 * file_bytes))))
        world.later(self.random.randint(50, 1000), lambda: world.free_disk(number))


def live_together(world: CrowdWorld, weathers: int = WEATHERS, duration: int = DURATION) -> None:
    """All of it; whatever fails says of which seed."""
    try:
        for _ in range(weathers):
            settle(world)
            blow(world, duration)
            world.heal()
            settle(world)
            world.rest()
            work_alone(world)
    except AssertionError as failure:
        failure.add_note("\n".join([*world.trace, world.describe()]))
        raise


def settle(world: CrowdWorld) -> None:
    """All groups get on, and come to rest."""
    world.asks(lambda: all(map(world.is_certain, world.groups)), "all know all groups")
    for group in world.groups.values():
        get_on(group, 1)
    world.settle()


def blow(world: CrowdWorld, duration: int) -> None:
    """Weather, in which groups that come later have work, too."""
    world.faults = world.draw_faults()
    world.tells(f"weather: {world.faults}")
    end = world.now + duration
    Harm(world).go_on(end)
    Strain(world).go_on(end)
    world.works_until(end)
    world.run(duration)


def work_alone(world: CrowdWorld) -> None:
    """One group gets on while the others sleep."""
    group = world.random.choice(list(world.groups.values()))
    world.spoken.clear()
    get_on(group, 2)
    world.settle()
    assert world.spoken <= {group.uid}, f"{group.uid} works, and {world.spoken} speak"
