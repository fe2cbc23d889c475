"""A change of the members that is refused for now is tried again."""

import pytest

from tests.sim.queues.group_world import GroupWorld
from tests.sim.queues.stream_world import StreamWorld


@pytest.mark.parametrize("world_of", [GroupWorld, StreamWorld])
def test_members_change_behind_a_transfer_that_comes_to_nothing(
    world_of: type[GroupWorld] | type[StreamWorld],
) -> None:
    world = world_of(1, 3)
    world.is_calm = True
    world.run_until("a leader", lambda: world.find_leader() is not None)
    leader = world.find_leader()
    assert leader is not None and leader.member is not None
    gone = next(number for number in world.wanted if number != leader.number)
    world.crash(gone)
    leader.turn.begin()
    assert leader.member.transfer(gone)
    world.want([number for number in world.wanted if number != gone])
    status = leader.member.status()
    assert status is not None and gone in status.config.members(), "nothing was refused"

    def is_removed() -> bool:
        node = world.find_leader()
        found = None if node is None or node.member is None else node.member.status()
        return found is not None and gone not in found.config.members()

    world.run_until("the removal", is_removed)
    assert world.find_leader() is leader, "a new leader would have begun the change"
