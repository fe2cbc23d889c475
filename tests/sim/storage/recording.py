"""Crash images: the disk as a power failure at any moment of a run would have left it.

While a `Recording` is on, the disk logs every change, and at every sync (right before it, and right
after it) and at random steps between what must be true is kept: a `Moment`. Afterwards the log is
played once more, and at each moment images are drawn: what was synced, with any part of the rest.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, Protocol, TypeVar

from tests.sim.storage.sim_disk import SYNCED, Change, SimDisk


class Copied(Protocol):
    def copy(self: "Truth") -> "Truth": ...


Truth = TypeVar("Truth", bound=Copied)
NAMES_AT_ONCE: Final = 4  # images where names are in doubt: some changes of them, without others
SYNCS: Final = ("dsync", "fsync", "fsync_directory", "keyed_sync", SYNCED)


@dataclass(frozen=True, slots=True)
class Moment(Generic[Truth]):
    """`truth` holds when the first `position` changes of the log were made, and not the next."""

    position: int
    step: str  # what the disk is about to do, or has done
    truth: Truth


class Recording(Generic[Truth]):
    """The calls of the disk from now on, until `stop`; `known` gives what must be true then."""

    def __init__(
        self, disk: SimDisk, random: Random, known: Callable[[], Truth], chance: float
    ) -> None:
        self._disk = disk
        self._random = random
        self._known = known
        self._chance = chance  # of a moment at a step that is no sync
        self._base = disk.copy()
        self._log: list[Change] = []
        self._moments: list[Moment[Truth]] = []
        disk.log = self._log
        disk.watch = self._watch

    def _watch(self, step: str) -> None:
        if step in SYNCS or self._random.random() < self._chance:
            self._moments.append(Moment(len(self._log), step, self._known()))

    def stop(self) -> None:
        """The last moment is now."""
        self._disk.log = None
        self._disk.watch = None
        self._moments.append(Moment(len(self._log), "the end", self._known()))

    def images(self, random: Random) -> Iterator[tuple[Moment[Truth], SimDisk]]:
        """One image for each moment, in order, and some where names wait for a sync; to be called
        once. Each has a truth of its own."""
        done = 0
        for moment in self._moments:
            for change in self._log[done : moment.position]:
                self._base.apply(change)
            done = moment.position
            if moment.step == "fsync_directory" and len(self._base.changes) > 1:
                for _ in range(NAMES_AT_ONCE - 1):
                    twin = Moment(moment.position, moment.step, moment.truth.copy())
                    yield twin, self._base.crash(random)
            yield moment, self._base.crash(random)
