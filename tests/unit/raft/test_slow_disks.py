"""Disks that take long for a sync make everything slow, and no leader loses the leadership by
that.
"""

from raft.host import TICK_MS, host_settings
from tests.unit.raft.host_world import World

ELECTION_MS = host_settings().election_ticks * TICK_MS


def slow(sync_ms: int, leader: int = 1) -> World:
    """A group with a leader, on disks that are slow from now on."""
    world = World(3, host_settings())
    world.add_group()
    world.elect(leader)
    world.tick(5)
    world.sync_ms = sync_ms
    return world


def work(world: World, ticks: int, every: int = 1) -> None:
    """A client proposes, each so many ticks."""
    for tick in range(ticks):
        if tick % every == 0:
            world.leader().group().propose([b"x"])
        world.tick()


def commits(world: World, member: int) -> int:
    return len(world.nodes[member].owner().applied)


def test_a_leader_goes_on_while_a_sync_takes_longer_than_an_election_timeout() -> None:
    for every in (1, 20):
        world = slow(2 * ELECTION_MS)
        work(world, 1000, every)
        assert world.leader().group().raft.term == 1, every
        assert commits(world, 1) > 600 // every
        assert commits(world, 2) > 500 // every


def test_what_is_said_before_a_sync_is_no_more_than_what_is_durable() -> None:
    world = slow(2 * ELECTION_MS)
    work(world, 2 * ELECTION_MS // TICK_MS - 2)
    assert commits(world, 1) == 0
    leading = world.leader().group().raft.status()
    durable = world.nodes[2].group().raft.durable_index
    assert {each.match_index for each in leading.members} == {durable}
    world.tick(10)
    assert commits(world, 1) > 0


def test_on_quick_disks_everything_is_said_once() -> None:
    world = slow(0)
    work(world, 50)
    before = len(world.nodes[2].links.sends)
    world.leader().group().propose([b"x"])
    world.settle()
    assert len(world.nodes[2].links.sends) == before + 1


def test_who_stands_on_slow_disks_is_elected() -> None:
    for sync_ms in (ELECTION_MS // 2, ELECTION_MS, 2 * ELECTION_MS):
        world = slow(sync_ms)
        world.kill(1)
        world.tick(10 * sync_ms // TICK_MS + 200)
        assert world.leader().member in (2, 3), sync_ms
        work(world, 4 * sync_ms // TICK_MS)
        assert commits(world, world.leader().member) > 0


def test_after_a_moment_of_silence_of_all_followers_somebody_leads_again_at_once() -> None:
    world = slow(0)
    leading = world.nodes[1].group()
    world.deaf = {(2, 1), (3, 1)}  # Their answers are lost, and no connection is.
    leading.propose([b"x"])
    while leading.is_leader:
        world.tick()
    world.deaf.clear()
    world.tick(5)
    assert any(node.group().is_leader for node in world.living())
