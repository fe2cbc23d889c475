"""Mirror rings by lots: faults, healing, synchronisation, rest.

`WARREN_SIM_SEEDS=first:last` runs other seeds, `WARREN_SIM_TRACE=1` prints every message.
"""

import os

import pytest

from tests.sim.mirrors.world import World, live

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:30").partition(":")
SEEDS = range(int(FIRST), int(LAST))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ring_loses_nothing_confirmed_when_only_synchronised_mirrors_lead(seed: int) -> None:
    world = World(seed)
    live(world)
    assert world.truth.lossy_promotions == 0
    assert world.truth.lost_count == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ring_reports_what_it_loses_when_any_mirror_may_lead(seed: int) -> None:
    live(World(seed, promotes_always=True))
