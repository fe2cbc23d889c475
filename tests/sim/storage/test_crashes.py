"""The log under random load and crashes. A failing seed stands in the name of the test.

`WARREN_SIM_SEEDS=first:last` runs others, `WARREN_SIM_SEEDS=0:100000` a night long.
"""

import os

import pytest

from tests.sim.storage.world import World

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:60").partition(":")
CRASHES = 5
STEPS = 400


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_what_was_reported_durable_survives_and_what_was_settled_stays_away(seed: int) -> None:
    world = World(seed)
    for _ in range(CRASHES):
        world.run(world.random.randint(1, STEPS), world.random.randint(0, 300))
    world.load(STEPS)
    world.rest()
