"""The log alone, crashed at all moments of a run.

`WARREN_SIM_SEEDS=first:last` runs other seeds; one takes about a second.
"""

import os

import pytest

from tests.sim.storage.images import examine
from tests.sim.storage.world import World

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "3:10").partition(":")
LOAD_STEPS = 500  # before the first image, so that files have been recycled and compacted
STEPS = 60
WINDOWS = 2


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_what_the_log_has_called_durable_is_in_every_crash_image(seed: int) -> None:
    world = World(seed)
    images = 0
    for _ in range(WINDOWS):
        world.load(world.random.randint(0, LOAD_STEPS))
        images += examine(world, STEPS)
    assert images > 0
