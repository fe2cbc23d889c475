"""The simulation must be able to see what it is there for: a disk that lies is found out."""

import pytest

from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.world import World

SEEDS = range(30)


def survives(seed: int, fault: str) -> bool:
    """Whether a run on a disk with this fault goes unnoticed."""
    world = World(seed)
    try:
        for _ in range(3):
            lie(world.disk, fault)
            world.run(300, 10_000)
    except AssertionError:
        return False
    return True


def lie(disk: SimDisk, fault: str) -> None:
    if fault == "syncs":
        disk.syncs_ignored = True
    else:
        disk.directory_syncs_ignored = True


@pytest.mark.parametrize("fault", ["syncs", "directory syncs"])
def test_a_disk_that_ignores_syncs_is_found_out(fault: str) -> None:
    assert not all(survives(seed, fault) for seed in SEEDS)
