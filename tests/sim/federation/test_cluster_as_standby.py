"""A standby of several nodes: its leaders move and its nodes die while it copies and is promoted.

What it says is its recovery point is true: all that the primary had confirmed by then is there
after the promotion, once and in order, but for what was accepted; nothing is there that had been
settled by then. Other seeds: `WARREN_SIM_SEEDS=first:last`.
"""

import asyncio
import os
from random import Random
from typing import cast

import pytest

from node.standby.primary_client import PrimaryClient
from tests.sim.federation.cluster_primary import STEP_S, ClusterPrimary, Link, body_of
from tests.sim.federation.cluster_standby import ClusterStandby
from tests.sim.federation.virtual_time import played

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:8").partition(":")
CALM_STEPS = 20_000


class World:
    """Both clusters, and when messages of the primary were confirmed and settled."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.breaks = True
        self.primary = ClusterPrimary(seed, self.random)
        self.standby = ClusterStandby(seed, self.random, lambda: cast(PrimaryClient, Link(self)))
        self._confirmed_s: dict[bytes, float] = {}
        self._settled_s: dict[bytes, float] = {}

    def pass_begins(self) -> None:
        """The recovery point tells."""

    async def step(self) -> None:
        self.primary.group.run(self.random.randint(1, 8))
        now_s = asyncio.get_running_loop().time()
        for body in self.primary.confirmed():
            self._confirmed_s.setdefault(body, now_s)
        for body in self.primary.settled():
            self._settled_s.setdefault(body, now_s)
        await self.standby.step()
        await asyncio.sleep(STEP_S)

    async def promote(self) -> None:
        synced_s = self.standby.synced_s()
        await self.standby.promote()
        found = [body_of(each) for each in await self.standby.contents()]
        assert len(found) == len(set(found)), "twice"
        known = self.primary.numbers()
        numbers = [known[each] for each in found if each in known]
        assert numbers == sorted(numbers), "out of order"
        if synced_s is None:
            return
        confirmed = {body for body, at_s in self._confirmed_s.items() if at_s < synced_s}
        lost = confirmed - self.primary.accepted() - set(found)
        assert not lost, f"lost beyond the recovery point: {sorted(lost)[:9]}"
        back = {body for body in found if self._settled_s.get(body, synced_s) < synced_s}
        assert not back, f"settled before the recovery point: {sorted(back)[:9]}"


async def lived(seed: int) -> None:
    world = World(seed)
    for _ in range(world.random.randint(200, 1_500)):
        await world.step()
    if world.random.random() < 0.3:
        world.breaks = False
        world.primary.group.calm_down()
        world.standby.group.calm_down()
        begun_s = asyncio.get_running_loop().time()
        for _ in range(CALM_STEPS):
            await world.step()
            if (world.standby.synced_s() or 0.0) > begun_s:
                break
        assert (world.standby.synced_s() or 0.0) > begun_s, world.standby.row()
    await world.promote()


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_promoted_cluster_has_what_was_confirmed_by_its_recovery_point(seed: int) -> None:
    played(lived(seed))
