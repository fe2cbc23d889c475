"""A quorum queue with three or five members, on real logs. A failing seed is in the test's name.

`WARREN_SIM_SEEDS=first:last` runs others.
"""

import os

import pytest

from tests.sim.queues.group_world import START_MS, GroupWorld

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:12").partition(":")
STEPS = 4000


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_what_is_confirmed_is_there_once_whatever_becomes_of_the_members(seed: int) -> None:
    world = GroupWorld(seed, 5 if seed % 4 == 3 else 3)
    world.run_until("a leader", world.has_leader)
    world.run(STEPS)
    world.drain()


def test_the_first_entry_of_a_leader_says_what_time_it_is() -> None:
    world = GroupWorld(0, 3)
    world.run_until("a leader", world.has_leader)
    leader = world.find_leader()
    assert leader is not None
    assert leader.member is not None
    world.run_until("its first entry", lambda: leader.member.core.machine.next_seq > 1)
    assert leader.member.core.machine.now_ms >= START_MS


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_whatever_dies_arrives_at_least_once_though_leaders_change(seed: int) -> None:
    world = GroupWorld(seed, 5 if seed % 4 == 3 else 3, buries=True)
    world.run_until("a leader", world.has_leader)
    world.run(STEPS)
    world.run_until("a letter", lambda: any(each.arrived for each in world.targets.values()))
    world.drain()
