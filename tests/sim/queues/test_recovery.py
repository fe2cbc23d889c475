"""Queues of all kinds under load, crashes and restarts. A failing seed stands in the test's name.

`WARREN_SIM_SEEDS=first:last` runs others, `WARREN_SIM_SEEDS=0:100000` a night long.
"""

import os

import pytest

from tests.sim.queues.world import World

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:35").partition(":")
RESTARTS = 4
STEPS = 500


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_what_was_confirmed_survives_once_and_what_was_settled_stays_away(seed: int) -> None:
    world = World(seed)
    world.boot()
    for _ in range(RESTARTS):
        if world.random.random() < 0.25:
            world.run(world.random.randint(1, STEPS), -1)
            world.stop_and_start()
        else:
            world.run(world.random.randint(1, STEPS), world.random.randint(0, 200))
    for _ in range(STEPS):
        world.act()
    world.drain()
