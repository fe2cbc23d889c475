"""Crash images: the disk as a power failure at any moment of a run would have left it.

While a `Recording` is on, the disk logs every change, and at every sync (right before it, and right
after it) and at random steps between what must be true is kept: a `Moment`. Afterwards the log is
played once more, and at each moment images are drawn: what was synced, with any part of the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.sim.queues.truth import Truth
from tests.sim.queues.world import World
from tests.sim.storage.sim_disk import SYNCED, Change, SimDisk

CRASH_AGAIN: Final = 0.1
GO_ON: Final = 0.03
SYNCS: Final = ("dsync", "fsync", "fsync_directory", SYNCED)


@dataclass(frozen=True, slots=True)
class Moment:
    """`truth` holds once the first `position` changes of the log were made, before the next."""

    position: int
    step: str  # what the disk is about to do, or has done
    truth: Truth


class Recording:
    """What the disk of a world is told from now on, until `stop`."""

    def __init__(self, world: World, chance: float) -> None:
        self._world = world
        self._chance = chance  # of a moment at a step that is no sync
        self._base = world.disk.copy()
        self._log: list[Change] = []
        self.moments: list[Moment] = []
        world.disk.log = self._log
        world.disk.watch = self._watch

    def _watch(self, step: str) -> None:
        if step in SYNCS or self._world.random.random() < self._chance:
            self.moments.append(Moment(len(self._log), step, self._world.known()))

    def stop(self) -> None:
        self._world.disk.log = None
        self._world.disk.watch = None

    def images(self, random: Random) -> Iterator[tuple[Moment, SimDisk]]:
        """One image for each moment, in order; to be called once. They use the truths up."""
        done = 0
        for moment in self.moments:
            for change in self._log[done : moment.position]:
                self._base.apply(change)
            done = moment.position
            yield moment, self._base.crash(random)


def examine(world: World, steps: int) -> int:
    """Run so many steps, crash the node at all moments of them, and recover each image.

    Some recoveries are crashed at their own moments, and some images go on for a while and are
    emptied, so that the books of what is alive are seen to be right. The number of images.
    """
    recording = Recording(world, 0.1)
    for _ in range(steps):
        world.act()
        world.node.check()
    recording.stop()
    count = 0
    random = world.random
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
            after.drain()
    return count


def recover(random: Random, moment: Moment, image: SimDisk) -> World:
    """The next life of the node; what it finds is checked."""
    after = World(random.getrandbits(32), moment.truth, image)
    after.boot(clean=False)
    return after


def crash_again(random: Random, moment: Moment, image: SimDisk) -> int:
    """Crash at moments of the recovery, too, and recover from those; how many there were."""
    after = World(random.getrandbits(32), moment.truth, image)
    recording = Recording(after, 1.0)
    after.boot(clean=False)
    recording.stop()
    count = 0
    for again, second in recording.images(random):
        if random.random() < 0.3:
            recover(random, again, second)
            count += 1
    return count
