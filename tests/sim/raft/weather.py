"""What befalls the machines of a world, at random, for a while, and what their groups do meanwhile.

Machines crash, stall and come back; parts of the network are cut off; the failure detector errs.
"""

from typing import Protocol

from tests.sim.raft.detector import Detector
from tests.sim.raft.network import Network
from tests.sim.raft.surroundings import Surroundings
from tests.sim.raft.work import Work
from tests.sim.raft.world import World

FAULT_EVERY = 60


class Exposed(Surroundings, Protocol):
    """Machines and what is between them."""

    @property
    def network(self) -> Network: ...

    @property
    def detector(self) -> Detector: ...

    def numbers(self) -> list[int]: ...

    def crash(self, number: int, down_for: int = 0) -> None: ...

    def pause(self, number: int, duration: int) -> None: ...


class Harm:
    """To the machines of one world."""

    def __init__(self, world: Exposed) -> None:
        self.world = world
        self.random = world.random
        self._end = 0

    def go_on(self, end: int) -> None:
        """Until then. May be called again."""
        self._end = end
        self.world.later(1, self._harm)

    def _harm(self) -> None:
        world, random, faults = self.world, self.random, self.world.faults
        if world.now >= self._end:
            return
        world.later(random.randint(1, 2 * FAULT_EVERY), self._harm)
        numbers = world.numbers()
        if random.random() < faults.partition:
            world.network.cut_at_random(numbers)
            world.tells(f"cut: {sorted(world.network.blocked)}")
        elif random.random() < 0.2:
            world.network.heal()
        if random.random() < faults.crash:
            world.crash(random.choice(numbers), random.choice((1, 50, random.randint(5, 900))))
        if random.random() < faults.crash / 10:
            for number in numbers:
                world.crash(number, random.randint(5, 300))
        if random.random() < faults.pause:
            world.pause(random.choice(numbers), random.randint(10, 500))
        self._mislead(numbers)

    def _mislead(self, numbers: list[int]) -> None:
        """The failure detector errs."""
        world, random, faults = self.world, self.random, self.world.faults
        one, other = random.choice(numbers), random.choice(numbers)
        if one == other:
            return
        if random.random() < faults.wrong_suspicion:
            world.detector.force(one, other, False, world.now + random.randint(10, 300))
        if random.random() < faults.wrong_trust:
            world.detector.force(one, other, True, world.now + random.randint(50, 800))


class Weather:
    """Of a world of one group. `blow` may be called again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.work = Work(world)
        self.harm = Harm(world)

    def blow(self, duration: int) -> None:
        """All of it for so long. What is not mended stays for `World.heal`."""
        world = self.world
        world.faults = world.draw_faults()
        world.tells(f"weather: {world.faults}")
        self.work.go_on(world.now + duration)
        self.harm.go_on(world.now + duration)
        world.run(duration)
