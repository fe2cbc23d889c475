"""A run of a node, crashed at all of its moments; recoveries too (`recording`)."""

from random import Random
from typing import Final

from tests.sim.queues.truth import Truth
from tests.sim.queues.world import World
from tests.sim.storage.recording import Moment, Recording
from tests.sim.storage.sim_disk import SimDisk

CRASH_AGAIN: Final = 0.1
GO_ON: Final = 0.03


def examine(world: World, steps: int) -> int:
    """Run so many steps, crash the node at all moments of them, and recover each image.

    Some recoveries are crashed at their own moments, and some images go on for a while, crash and
    are emptied, so that the books of what is alive are seen to be right. The number of images.
    """
    random = world.random
    recording = Recording(world.disk, random, world.known, 0.1)
    for _ in range(steps):
        world.act()
        world.node.check()
    recording.stop()
    count = 0
    for moment, image in recording.images(random):
        count += 1
        choice = random.random()
        if choice < CRASH_AGAIN:
            count += crash_again(random, moment, image)
            continue
        after = recover(random, moment, image)
        if choice > 1 - GO_ON:
            for _ in range(random.randint(0, 60)):
                after.act()
            after.crash()
            after.boot(clean=False)
            after.drain()
    return count


def recover(random: Random, moment: Moment[Truth], image: SimDisk) -> World:
    """The next life of the node; what it finds is checked. It uses the truth up."""
    after = World(random.getrandbits(32), moment.truth, image)
    after.boot(clean=False)
    return after


def crash_again(random: Random, moment: Moment[Truth], image: SimDisk) -> int:
    """Crash at moments of the recovery, too, and recover from those; how many there were."""
    after = World(random.getrandbits(32), moment.truth, image)
    recording = Recording(image, random, after.known, 1.0)
    after.boot(clean=False)
    recording.stop()
    count = 0
    for again, second in recording.images(random):
        if random.random() < 0.3:
            recover(random, again, second)
            count += 1
    return count
