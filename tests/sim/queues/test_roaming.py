"""Sessions of a quorum queue by lots: leaders change, links break, processes come and go.

Nothing is lost, doubled, stranded with a live consumer or flagged without cause; each publish is
confirmed once, each question answered once. `WARREN_SIM_SEEDS=first:last` runs other seeds.
"""

import os

import pytest

from tests.sim.queues.roaming_world import World

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:40").partition(":")


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_whoever_leads_sessions_get_what_is_theirs_once(seed: int) -> None:
    world = World(seed)
    for node in world.nodes.values():
        world.add_client(node)
    for _ in range(600):
        world.step()
    world.heal()
    world.settle()
    world.check()
