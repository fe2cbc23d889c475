"""A mirrored queue with two to five members, on real logs. A failing seed is in the test's name.

`WARREN_SIM_SEEDS=first:last` runs others.
"""

import os

import pytest

from tests.sim.queues.group_world import GroupWorld

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:12").partition(":")
STEPS = 4000


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_what_is_confirmed_is_there_once_whatever_becomes_of_the_mirrors(seed: int) -> None:
    world = GroupWorld(seed, (3, 2, 3, 5)[seed % 4], mirrored=True)
    world.run_until("a leader", world.has_leader)
    world.run(STEPS)
    world.drain()
