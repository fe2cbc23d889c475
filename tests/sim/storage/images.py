"""A run of the log alone, crashed at all of its moments; recoveries too (`recording`)."""

from random import Random
from typing import Final

from tests.sim.storage.recording import Moment, Recording
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.world import World

CRASH_AGAIN: Final = 0.1
GO_ON: Final = 0.1


def examine(world: World, steps: int) -> int:
    """Run so many steps, crash at all moments of them, recover each image; how many there were."""
    random = world.random
    recording = Recording(world.disk, random, world.known, 0.1)
    world.load(steps)
    assert not world.failed
    recording.stop()
    count = 0
    for moment, image in recording.images(random):
        count += 1
        choice = random.random()
        if choice < CRASH_AGAIN:
            count += crash_again(random, moment, image)
            continue
        after = recover(random, moment.truth, image)
        if choice > 1 - GO_ON:
            after.load(random.randint(0, 60))
            after.crash()
            after.rest()
    return count


def recover(random: Random, truth: World, image: SimDisk) -> World:
    """The next life; what is found is checked. It is the `truth` itself."""
    truth.random = Random(random.getrandbits(32))
    truth.recover(image)
    return truth


def crash_again(random: Random, moment: Moment[World], image: SimDisk) -> int:
    """Crash at moments of the recovery, too, and recover from those; how many there were."""
    truth = moment.truth.copy()
    recording = Recording(image, random, truth.copy, 1.0)
    recover(random, moment.truth, image)
    recording.stop()
    count = 0
    for again, second in recording.images(random):
        if random.random() < 0.3:
            recover(random, again.truth, second)
            count += 1
    return count
