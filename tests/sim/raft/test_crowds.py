"""Many groups by lots, on few nodes that share host, log and link; and what a full disk does.

`WARREN_SIM_SEEDS=first:last` runs other seeds.
"""

import os

import pytest

from raft.codec import encode
from raft.links import ENVELOPE
from raft.messages import AppendResponse
from tests.sim.raft import gathering
from tests.sim.raft.crowd_life import live_together
from tests.sim.raft.crowd_world import CrowdWorld
from tests.sim.raft.life import get_on
from tests.sim.raft.machine import settle

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:5").partition(":")
ROUNDS_MAX = 1000


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_many_groups_live_on_few_nodes_and_come_to_rest(seed: int) -> None:
    live_together(CrowdWorld(seed))


def write_much(world: CrowdWorld) -> None:
    """Until the first node has used up what its log had in reserve."""
    for _ in range(ROUNDS_MAX):
        for group in world.groups.values():
            group.propose(settle([0] * 200))
        world.run(10)
        if world.nodes[1].stop_count:
            return
    raise AssertionError("a full disk stops no member")


def test_a_node_with_a_full_disk_stops_and_its_groups_go_on_without_it() -> None:
    world = CrowdWorld(1, 3, 0)
    for _ in range(3):
        world.found(voters=(1, 2, 3))
    world.asks(lambda: all(group.is_settled() for group in world.groups.values()), "a beginning")
    world.fill_disk(1, 0)
    write_much(world)
    for group in world.groups.values():
        get_on(group, 3)
    assert world.nodes[1].host is None, "it starts on a full disk"
    world.free_disk(1)
    world.settle()
    world.rest()
    assert world.nodes[1].host is not None


def test_a_disk_that_is_full_for_a_while_holds_up_nothing_but_the_reserve_of_its_log() -> None:
    world = CrowdWorld(2, 3, 0)
    group = world.found(voters=(1, 2, 3))
    world.asks(group.is_settled, "a beginning")
    world.fill_disk(1, 0)
    get_on(group, 3)
    world.free_disk(1)
    world.settle()
    world.rest()
    assert world.nodes[1].stop_count == 0


def test_acknowledgements_for_a_group_that_had_the_number_before_count_for_nothing() -> None:
    world = CrowdWorld(3, 3, 0)
    group = world.found(voters=(1, 2, 3))
    world.asks(group.is_settled, "a beginning")
    leader = gathering.leader(group.members.values())
    assert leader is not None
    others = [number for number in world.nodes if number != leader.number]
    world.network.cut([leader.number], others, True)
    place = leader.propose(settle([1]))
    assert place is not None
    world.run(20)  # It is on the leader's own disk, and on no other.
    index, term = place
    for other in others:
        content = b"".join(encode(AppendResponse(term, True, index, index - 1, 0, 0, 0)))
        head = ENVELOPE.pack(group.uid, group.incarnation - 1, other, len(content))
        world.nodes[leader.number].receive(other, head + content)
    world.run(20)
    assert group.truth.commit_index < index, "committed by what another group has"
    world.heal()
    world.settle()
