"""The definitions of clusters by lots: `WARREN_SIM_SEEDS=first:last` runs other seeds."""

import os

import pytest

from tests.sim.definitions.world import World, live

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:16").partition(":")


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_definitions_of_a_cluster_are_neither_lost_nor_doubled(seed: int) -> None:
    live(World(seed))
