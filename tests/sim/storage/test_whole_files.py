"""The same world where rewriting reads files whole, for its owners have too many places in them.

Then it meets records that are dead, also at the index of an entry that is alive elsewhere. The
compiled code has the limit in it, so this is for the sources.

`WARREN_SIM_SEEDS=first:last` runs other seeds.
"""

import os

import pytest

from tests.sim.storage.world import World

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:4").partition(":")
CRASHES = 5
STEPS = 400
pytestmark = pytest.mark.source


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_what_is_dead_stays_dead_though_it_is_read_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.storage.compaction.PLACES_MAX", seed % 3)
    world = World(seed)
    for _ in range(CRASHES):
        world.run(world.random.randint(1, STEPS), world.random.randint(0, 300))
    world.load(STEPS)
    world.rest()
