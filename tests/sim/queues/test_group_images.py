"""No confirm that the crash images of a majority of the members do not hold.

`WARREN_SIM_SEEDS=first:last` runs other seeds.
"""

import os

import pytest

from tests.sim.queues.group_images import ImageWatch
from tests.sim.queues.group_world import GroupWorld

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:6").partition(":")
STEPS = 2500
CHANCE = 0.2


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_what_is_confirmed_is_on_the_disks_of_a_majority_at_that_moment(seed: int) -> None:
    world = GroupWorld(seed, 5 if seed % 3 == 2 else 3)
    world.is_steady = True
    watch = ImageWatch(world, CHANCE)
    world.run_until("a leader", world.has_leader)
    world.run(STEPS)
    world.run_until("confirms that were looked at", lambda: watch.count > 5)
