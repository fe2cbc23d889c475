"""Groups by lots: weather, healing, progress, rest.

`WARREN_SIM_SEEDS=first:last` runs other seeds, `WARREN_SIM_TRACE=1` prints every message. A failing
seed fails again: nothing but the seed decides what happens.
"""

import os
import subprocess
import sys
from zlib import crc32

import pytest

from tests.sim.raft.life import live
from tests.sim.raft.weather import Weather
from tests.sim.raft.world import World

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:75").partition(":")


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_a_group_lives_through_all_weathers_and_comes_to_rest(seed: int) -> None:
    live(World(seed))


def summary(seed: int) -> str:
    """What has happened in a stretch of a seed's life."""
    world = World(seed)
    Weather(world).blow(1500)
    committed = crc32(repr(world.truth.committed).encode())
    told = crc32(repr(list(world.trace)).encode())
    return f"{world.steps} {world.network.sent} {committed} {told}"


def test_a_seed_does_the_same_each_time_whatever_the_hashes() -> None:
    code = "from tests.sim.raft.test_random import summary; print(summary(11))"
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    other = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == summary(11) == summary(11)
