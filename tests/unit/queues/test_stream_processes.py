"""Processes that the leader of a stream knows, so that their sessions end with them."""

from queues.machine.commands import Numbered, StoreOffsets
from tests.sim.queues.stream_world import Line, Publisher, StreamWorld


def test_a_process_is_known_before_its_first_command_is_applied() -> None:
    world = StreamWorld(0)
    world.is_calm = True
    world.run_until("a leader", lambda: world.find_leader() is not None)
    leader = world.find_leader()
    assert leader is not None
    process = 999
    publisher = Publisher(process, b"app", world)
    command = Numbered(publisher.session, 1, 0, StoreOffsets(publisher.session, [(b"app", 7)]))
    member = leader.member
    leader.turn.begin()
    assert member.hand_down(Line(publisher, leader), command, None)
    assert process not in member.machine.processes()

    def is_applied() -> bool:
        assert process in member.processes()
        return process in member.machine.processes()

    world.run_until("the command to be applied", is_applied)
