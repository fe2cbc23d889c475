"""Warm standbys over links that fail and nodes that crash: what is there after the promotion.

All that the primary had confirmed when the last whole pass began is there, once and in order, but
for what was settled; and nothing else but what the primary has had since. While the standby has a
resource alarm it copies nothing. Other seeds: `WARREN_SIM_SEEDS=first:last`.
"""

import os

import pytest

from tests.sim.federation.standby_world import World
from tests.sim.federation.virtual_time import played

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:8").partition(":")
STEPS = 600


async def lived(seed: int) -> None:
    world = World(seed)
    world.follow()
    dice = world.random
    for _ in range(STEPS):
        await world.step()
        if dice.random() < 0.15:
            world.traffic()
        if dice.random() < 0.006:
            await world.crash_primary()
        if seed % 3 == 2 and dice.random() < 0.03:
            world.standby.set_alarm(not world.standby.has_alarm)
        is_whole_now = world.pass_is_seen_whole()
        if dice.random() < (0.3 if is_whole_now else 0.006):
            await world.crash_standby()
    if dice.random() < 0.5:
        world.breaks = False
        world.standby.set_alarm(False)
        passes = world.passes.count
        for _ in range(10_000):
            await world.step()
            if world.passes.count > passes + 1:
                break
        assert world.passes.count > passes + 1, f"no whole pass: {world.replica.row()}"
    await world.promote()


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_promoted_standby_has_what_was_confirmed_and_not_settled(seed: int) -> None:
    played(lived(seed))
