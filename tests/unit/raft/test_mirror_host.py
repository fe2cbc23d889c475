"""Mirror rings under the host that drives the groups of a node."""

from raft.copy_pace import SLOW_MS
from raft.entries import Config
from raft.group import Group
from raft.host import SLOW_TICKS
from raft.log_group import COMMITTED, LOST
from raft.recovery import founded
from raft.ring import Ring
from raft.ring_view import RingView
from raft.settings import Settings
from tests.unit.raft.host_world import GROUP, INCARNATION, Recorder, World

VIEW = RingView(1, 1, [1, 2, 3], [1, 1, 1], [1, 2, 3])


def join(world: World, member: int, joined: int) -> Group:
    node = world.nodes[member]
    owner = Recorder(node.log, GROUP)
    node.owners[GROUP] = owner
    owner.group = node.host.add_mirror(GROUP, INCARNATION, joined, founded(Config(())), owner)
    return owner.group


def take(world: World, view: RingView, *members: int) -> None:
    for member in members or view.members:
        world.nodes[member].group().change_view(view)
    world.settle()


def mirrored(count: int = 3, settings: Settings | None = None) -> World:
    world = World(count, settings)
    members = list(world.members)
    for member in members:
        join(world, member, 1)
    take(world, RingView(1, 1, members, [1] * count, members))
    return world


def ring(world: World, member: int) -> Ring:
    found = world.nodes[member].group().raft
    assert isinstance(found, Ring)
    return found


def commands(world: World, member: int) -> list[bytes]:
    return [content for _, content in world.nodes[member].owner().applied]


def publish(world: World, member: int, *contents: bytes) -> None:
    for content in contents:
        assert world.nodes[member].group().propose([content], [b"body of " + content]) is not None
    world.settle()


def test_a_proposal_is_committed_everywhere_and_its_proposer_hears_it_once() -> None:
    world = mirrored()
    owner = world.nodes[1].owner()
    assert owner.leads[-1].is_ready
    publish(world, 1, b"x", b"y")
    assert [outcome for _, _, outcome in owner.outcomes] == [COMMITTED, COMMITTED]
    world.rest()
    assert [commands(world, member) for member in (1, 2, 3)] == [[b"x", b"y"]] * 3
    assert world.nodes[3].owner().bodies[2] == (b"body of x",)


def test_the_bytes_that_a_leader_sends_do_not_grow_with_the_mirrors() -> None:
    sent = []
    for mirrors in (2, 4, 6):
        world = mirrored(mirrors + 1)
        before = world.nodes[1].links.bulk_bytes
        for _ in range(20):
            publish(world, 1, b"x" * 1000)
        sent.append(world.nodes[1].links.bulk_bytes - before)
    assert max(sent) <= 1.1 * min(sent)


def test_sessions_of_a_leader_survive_a_mirror_that_leaves() -> None:
    world = mirrored()
    leads = len(world.nodes[1].owner().leads)
    world.kill(2)
    assert world.nodes[1].group().propose([b"x"]) is not None
    world.tick(5)
    assert commands(world, 1) == []
    take(world, VIEW.without(2, 2))
    assert commands(world, 1) == [b"x"]
    assert len(world.nodes[1].owner().leads) == leads


def test_a_mirror_takes_over_and_the_old_leader_hears_what_it_lost() -> None:
    world = mirrored()
    world.cut(1, 2)
    world.cut(1, 3)
    assert world.nodes[1].group().propose([b"lost"]) is not None
    world.settle()
    view = VIEW.led_by(2, (), 2)
    take(world, view, 2, 3)
    world.heal()
    publish(world, 2, b"kept")
    assert commands(world, 1) == commands(world, 2) == []
    take(world, view, 1)
    world.tick(5)
    assert [commands(world, member) for member in (1, 2, 3)] == [[b"kept"]] * 3
    assert [outcome for _, _, outcome in world.nodes[1].owner().outcomes] == [LOST]


def test_a_new_mirror_takes_part_and_is_synchronised_by_its_left_neighbour() -> None:
    world = mirrored()
    publish(world, 1, b"x", b"y")
    left = world.nodes[3]
    take(world, VIEW.without(2, 2), 1, 3)
    world.nodes[2].host.remove(GROUP)
    join(world, 2, 3)
    view = VIEW.without(2, 2).with_mirror(2, 3)
    take(world, view)
    publish(world, 1, b"z")
    world.tick(3)
    assert commands(world, 1) == [b"x", b"y", b"z"], "the queue goes on"
    assert ring(world, 2).is_hollow and ring(world, 1).next_partial == 2
    assert ring(world, 3).wanted_snapshot_index > 0
    left.owner().take_snapshot()
    world.tick(3)
    assert commands(world, 2) == [b"x", b"y", b"z"]
    assert ring(world, 1).next_synchronised == 2
    take(world, view.with_synchronised(2, 4))
    publish(world, 1, b"last")
    world.rest()
    assert commands(world, 2)[-1] == b"last"


def copying(world: World, count: int) -> World:
    """n2 is empty, and n3 copies it so many messages of 64 KB."""
    for number in range(count):
        publish(world, 1, b"%d" % number * 65_536)
    take(world, VIEW.without(2, 2), 1, 3)
    world.nodes[2].host.remove(GROUP)
    join(world, 2, 3)
    take(world, VIEW.without(2, 2).with_mirror(2, 3))
    publish(world, 1, b"last")
    world.tick()
    world.nodes[3].owner().take_snapshot(65_536)
    return world


def ticks_to_copy(world: World) -> int:
    ticks = 0
    while ring(world, 2).is_hollow:
        world.tick()
        ticks += 1
        assert ticks < 1000, "the copy does not end"
    return ticks


def test_a_copy_is_paced_by_the_disk_of_the_mirror_that_sends_it() -> None:
    quick = ticks_to_copy(copying(mirrored(), 100))
    slow = copying(mirrored(), 100)
    slow.slow_disks = {3: SLOW_MS + 1}
    assert ticks_to_copy(slow) > 2 * quick
    assert commands(slow, 2) == commands(slow, 1)


def test_a_copy_is_paced_by_the_disk_of_the_mirror_that_takes_it() -> None:
    quick = ticks_to_copy(copying(mirrored(), 100))
    slow = copying(mirrored(), 100)
    slow.slow_disks = {2: SLOW_MS + 1}
    assert ticks_to_copy(slow) > 2 * quick
    assert commands(slow, 2) == commands(slow, 1)


def test_a_paced_copy_sends_no_slice_twice() -> None:
    world = copying(mirrored(), 100)
    world.slow_disks = {2: SLOW_MS + 1}
    slices = len(world.nodes[3].owner().snapshot_slices)
    ticks_to_copy(world)
    assert world.nodes[3].owner().slices_read == slices


def test_a_mirror_whose_disk_is_slow_does_not_say_that_it_has_everything() -> None:
    world = mirrored(2)
    publish(world, 1, b"x")
    join_again = RingView(1, 1, [1, 2], [1, 1], [1, 2]).without(2, 2).with_mirror(2, 3)
    world.nodes[2].host.remove(GROUP)
    join(world, 2, 3)
    take(world, join_again)
    world.tick(2)
    assert ring(world, 2).is_hollow
    world.sync_ms = 10_000
    for _ in range(3 * SLOW_TICKS):
        assert world.nodes[1].group().propose([b"more"]) is not None
        world.tick()
    assert ring(world, 1).next_synchronised == 0
    assert ring(world, 1).next_partial == 2


def test_a_stop_of_the_node_does_not_wait_for_rings() -> None:
    world = mirrored()
    assert world.nodes[1].group().is_leader
    assert world.nodes[1].host.hand_over() == 0
