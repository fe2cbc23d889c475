"""A quorum queue with three or five members, on real logs. A failing seed is in the test's name.

`WARREN_SIM_SEEDS=first:last` runs others.
"""

import os

import pytest

from queues.machine.address_settings import AddressSettings
from queues.machine.options import Options
from raft.ready import Lead
from tests.sim.queues.group_world import START_MS, GroupWorld

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:12").partition(":")
STEPS = 4000
POWER_CUTS = 40


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
    world.start_all()
    world.run_until("a letter", lambda: any(each.arrived for each in world.targets.values()))
    world.drain()


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_group_of_one_member_loses_nothing_that_it_confirmed(seed: int) -> None:
    """Its node loses power and what is not synced, restarts, and its disk runs full."""
    world = GroupWorld(seed, 1, buries=seed % 3 == 2)
    for _ in range(POWER_CUTS):
        world.run_until("a leader", world.has_leader)
        world.run(world.random.randint(1, 2 * STEPS // POWER_CUTS))
        world.crash(1)
        world.start(1)
    world.drain()


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_group_grows_from_one_member_to_three_and_shrinks_to_one(seed: int) -> None:
    """It may shrink while it still grows; any of the three may be the one that stays."""
    world = GroupWorld(seed, 3, founders=1)
    world.is_steady = True
    world.run_until("a leader", world.has_leader)
    world.run(STEPS // 4)
    world.want([1, 2, 3])
    if seed % 3 > 0:
        world.calm_down()
        world.run_until("three members", world.is_as_wanted)
        world.is_calm = False
    world.run(STEPS // 4)
    world.want([world.random.choice(world.wanted)])
    world.run(STEPS // 4)
    world.drain()


def test_a_leader_decides_on_its_options_when_it_is_stepped_first() -> None:
    """At a start it may lead before its node knows the policies: members forget no ids by that."""
    world = GroupWorld(0, 1)
    world.is_steady = True
    world.run_until("a leader", world.has_leader)
    leader = world.find_leader()
    assert leader is not None and leader.member is not None
    member, machine = leader.member, leader.member.core.machine
    stale = machine.options
    limit = AddressSettings(id_cache_size=10)
    wanted = Options(stale.levels, counts_deliveries=stale.counts_deliveries, address=limit)
    member.configure(wanted, None)
    world.run_until("it remembers ids", lambda: machine.known_ids is not None)
    known, term = machine.known_ids, int(member.term)
    index = member.applied_index
    member.lead(Lead(term, 0, False))
    member.configure(stale, None)
    member.lead(Lead(term, leader.number, True))
    for options in (wanted, stale, wanted):
        member.configure(options, None)
    world.run_until("the first entry of the term", lambda: member.applied_index > index)
    assert machine.known_ids is known
