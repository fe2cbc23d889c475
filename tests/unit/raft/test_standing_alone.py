"""A member that goes on without the others, which are lost for ever (0054)."""

import pytest

from raft.entries import Config
from raft.log_group import COMMITTED
from raft.status import LEADER
from tests.unit.raft.cores import THREE, follower, leader, restored, turn, turns
from tests.unit.raft.host_world import GROUP, INCARNATION, World

TERM = 70_000


def commands(world: World, member: int) -> list[bytes]:
    return [command for _, command in world.nodes[member].owner().applied]


@pytest.mark.parametrize("term", [TERM, 1])
def test_a_follower_leads_alone_and_commits_all_that_its_log_has(term: int) -> None:
    raft = follower((1, 1, 2), 3)
    raft.stand_alone(term)
    assert not raft.commit_index
    turns(raft)
    assert (raft.role, raft.config, raft.term) == (LEADER, Config((1,)), max(term, 3) + 1)
    assert raft.commit_index == raft.last_index == 5


def test_nothing_counts_before_it_is_on_the_disk() -> None:
    raft = restored((1, 1), 1, config=THREE)
    raft.stand_alone(TERM)
    ready = raft.ready()
    assert ready.hard_state is not None and ready.hard_state.term == TERM + 1
    assert [each.term for each in ready.entries] == [TERM, TERM + 1]
    assert not ready.messages and not ready.messages_after_sync and raft.commit_index == 0
    raft.durable(3, TERM)
    assert raft.commit_index == 0
    raft.durable(4, TERM + 1)
    assert raft.commit_index == 4


def test_a_leader_without_its_majority_goes_on_as_well() -> None:
    raft = leader()
    raft.propose([b"x"])
    turn(raft)
    assert raft.commit_index == 1
    raft.stand_alone(TERM)
    turns(raft)
    assert (raft.role, raft.term, raft.commit_index) == (LEADER, TERM + 1, raft.last_index)


def test_it_can_be_done_again_after_a_crash_in_the_midst_of_it() -> None:
    """The term was on the disk, and the entry behind it was not."""
    raft = restored((1, 1), TERM, config=THREE)
    raft.stand_alone(TERM)
    turns(raft)
    assert (raft.role, raft.term, raft.config) == (LEADER, TERM + 1, Config((1,)))


def test_a_majority_of_before_is_not_heard_and_hears_nothing() -> None:
    world = World()
    world.add_group()
    world.elect(1)
    world.nodes[1].group().propose([b"kept"])
    world.settle()
    world.cut(1, 2)
    world.cut(1, 3)
    lost = world.nodes[1].group().propose([b"in flight"])
    world.tick(100)
    assert lost is not None
    (other,) = [each for each in world.nodes.values() if each.group().is_leader]
    assert other.member != 1
    other.group().propose([b"confirmed by the others"])
    world.settle()
    assert world.nodes[1].host.renew(GROUP, TERM, TERM)
    world.settle()
    node = world.nodes[1]
    assert node.group().is_leader and node.group().incarnation == TERM
    assert commands(world, 1) == [b"kept", b"in flight"]
    assert node.owner().outcomes[-1] == (*lost, COMMITTED)
    world.heal()
    world.tick(100)
    assert node.group().is_leader and node.group().raft.term == TERM + 1
    assert commands(world, 1) == [b"kept", b"in flight"]
    assert other.group().is_leader and other.group().raft.term < TERM
    assert node.host.counters.strays > 0


def proposed(world: World) -> World:
    """The leader has sent an entry, which has arrived at the others, who have not looked at it."""
    world.add_group()
    world.elect(1)
    world.nodes[1].group().propose([b"x"])
    world.nodes[1].turn()
    world.deliver()
    return world


def test_what_has_arrived_of_the_others_is_dropped() -> None:
    world = proposed(World())
    assert world.nodes[2].host.renew(GROUP, TERM, TERM)
    world.kill(1)
    world.kill(3)
    world.settle()
    assert world.nodes[2].group().is_leader
    assert commands(world, 2) == []


def test_what_waits_for_the_disk_is_not_said_to_the_others() -> None:
    world = proposed(World())
    node = world.nodes[2]
    node.turn()
    world.wire.clear()
    assert node.host.renew(GROUP, TERM, TERM)
    for _ in range(4):
        node.sync()
        node.turn()
    assert world.wire == []
    assert commands(world, 2) == [b"x"]
    assert node.group().is_leader and node.group().incarnation > INCARNATION
