"""Every confirm against every crash image: whole runs of a node, crashed at all of their moments.

`WARREN_SIM_SEEDS=first:last` runs other seeds; one takes about a second.
"""

import os

import pytest

from tests.sim.queues.images import examine
from tests.sim.queues.world import World

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:6").partition(":")
LOAD_STEPS = 400  # before the first image, so that files have been recycled and compacted
STEPS = 60
WINDOWS = 2
READY_MAX = 100


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_what_was_confirmed_is_in_every_crash_image_and_what_was_settled_in_none(
    seed: int,
) -> None:
    world = World(seed)
    world.ready_max = READY_MAX
    world.boot()
    images = 0
    for _ in range(WINDOWS):
        for _ in range(world.random.randint(0, LOAD_STEPS)):
            world.act()
        images += examine(world, STEPS)
    assert images > 0
