"""The same world with extents of a few slots, so that small queues have them, too.

`WARREN_SIM_SEEDS=first:last` runs other seeds.
"""

import os
from functools import partial

import pytest

from queues.bodies.store import BodyBudget
from tests.sim.queues.world import World

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:20").partition(":")
RESTARTS = 3
STEPS = 500


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_messages_survive_in_extents_as_they_do_in_slots(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = partial(BodyBudget, extent_slots=2 + seed % 3)
    monkeypatch.setattr("tests.sim.queues.node.BodyBudget", small)
    world = World(seed)
    world.boot()
    for _ in range(RESTARTS):
        crash_chance = world.random.randint(0, 200)
        world.run(world.random.randint(1, STEPS), crash_chance)
    for _ in range(STEPS):
        world.act()
    world.drain()
