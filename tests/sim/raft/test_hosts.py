"""Groups by lots, as in `test_random`, with each member in a real host of many groups.

`WARREN_SIM_SEEDS=first:last` runs other seeds.
"""

import os

import pytest

from tests.sim.raft.host_world import HostWorld
from tests.sim.raft.life import live
from tests.sim.raft.script import lead
from tests.sim.raft.wal_world import WalWorld

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:25").partition(":")


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_a_group_lives_in_real_hosts_and_comes_to_rest(seed: int) -> None:
    live(HostWorld(seed))


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_a_group_lives_on_the_real_log_and_comes_to_rest(seed: int) -> None:
    live(WalWorld(seed))


def test_hosts_that_rest_wake_when_the_leaders_node_is_lost() -> None:
    world = HostWorld(1, 3)
    lead(world, 1)
    world.run(1000)
    world.crash(1)
    world.run_until(lambda: world.leader() is not None, 2000, "another leader")
    world.start(1)
    world.settle()
