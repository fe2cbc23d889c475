"""Single active consumers of a stream: one of a group at a time, under any leader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.machine.commands import EndProcess, EndSession, JoinGroup, Numbered, SessionId
from queues.machine.consuming.numbered_sessions import Resume
from queues.machine.effects import Activated
from queues.streams.group_consumer import GroupConsumer
from queues.streams.groups import NO_PARTITION, Groups, GroupState, restored_groups
from queues.streams.machine import StreamMachine, restored_machine
from queues.streams.storage import decode_state, encode_state
from tests.unit.queues.test_stream_tracker import World

NAME = b"shop"
A, B, C = (SessionId(process << 64 | 1) for process in (7, 8, 9))


def joined(*sessions: SessionId, partition: int = NO_PARTITION) -> Groups:
    groups = Groups()
    for session in sessions:
        groups.join(session, NAME, partition)
    return groups


def test_the_first_member_is_active_and_the_next_one_follows_it() -> None:
    groups = Groups()
    assert groups.join(A, NAME, NO_PARTITION) == [(A, True)]
    assert groups.join(B, NAME, NO_PARTITION) == []
    assert groups.join(C, NAME, NO_PARTITION) == []
    assert groups.end(B) == []
    assert groups.end(A) == [(C, True)]
    assert groups.end(C) == [] and not groups.by_name


def test_groups_of_other_names_have_active_members_of_their_own() -> None:
    groups = joined(A)
    assert groups.join(B, b"other", NO_PARTITION) == [(B, True)]


def test_a_member_that_joins_takes_its_partition_when_the_active_one_has_stopped() -> None:
    groups = Groups()
    assert groups.join(A, NAME, 1) == [(A, True)]
    assert groups.join(B, NAME, 1) == [(A, False)]
    assert groups.join(C, NAME, 1) == []
    assert groups.is_active(A) is False and groups.is_active(B) is False
    assert groups.join(A, NAME, 1) == [(B, True)]


def test_a_member_that_ends_instead_of_stopping_is_followed_as_well() -> None:
    groups = joined(A, B, partition=1)
    assert groups.end(A) == [(B, True)]


def test_partitions_are_shared_by_the_members() -> None:
    active: list[SessionId] = []
    for partition in range(3):
        groups = joined(A, B, partition=partition)
        groups.join(A, NAME, partition) if partition % 2 else None
        active.append(next(each for each in (A, B) if groups.is_active(each)))
    assert active == [A, B, A]


@given(st.lists(st.tuples(st.sampled_from((A, B, C)), st.booleans())), st.integers(-1, 3))
def test_at_most_one_is_active_and_none_only_while_one_stops(
    steps: list[tuple[SessionId, bool]], partition: int
) -> None:
    groups = Groups()
    told: dict[SessionId, bool] = {}
    for session, is_joining in steps:
        told.pop(session, None)
        if is_joining:
            told[session] = False
        told.update(groups.join(session, NAME, partition) if is_joining else groups.end(session))
        assert sum(told.values()) <= 1
        group = groups.by_name.get(NAME)
        assert group is None or group.stopping or sum(told.values()) == 1
        again = restored_groups(groups.state())
        for each in (A, B, C):
            assert groups.is_active(each) == again.is_active(each) == told.get(each)


@pytest.mark.parametrize(
    "state",
    [
        GroupState(NAME, -1, [], -1, False),
        GroupState(NAME, -1, [b"short"], 0, False),
        GroupState(NAME, -1, [bytes(16), bytes(16)], 0, False),
        GroupState(NAME, -1, [bytes(16)], 1, False),
    ],
)
def test_a_group_that_cannot_be_is_refused(state: GroupState) -> None:
    with pytest.raises(ValueError, match="group"):
        restored_groups([state])


def test_a_process_that_ends_leaves_its_groups() -> None:
    machine = StreamMachine()
    commands = [Numbered(each, 1, 0, JoinGroup(each, NAME, NO_PARTITION)) for each in (A, B)]
    assert machine.apply(5, commands, ()).activated == [(A, True)]
    again = restored_machine(decode_state(encode_state(1, machine.state(), ()))[1])
    assert again.apply(6, [EndProcess(7)], ()).activated == [(B, True)]
    outcome = again.apply(7, [Numbered(B, 2, 0, EndSession(B))], ())
    assert outcome.activated == [] and not again.groups.by_name


def test_a_session_that_resumes_hears_whether_it_is_active() -> None:
    machine = StreamMachine()
    machine.apply(5, [Numbered(each, 1, 0, JoinGroup(each, NAME, 1)) for each in (A, B)], ())
    machine.apply(6, [Numbered(A, 2, 0, JoinGroup(A, NAME, 1))], ())
    for session, is_active in ((A, False), (B, True)):
        (effect,) = machine.resume(Resume(session, 0, 0, [])).effects
        assert isinstance(effect, Activated) and effect.active == is_active


class Consumer:
    """One of a node, and what it heard."""

    def __init__(self, world: World) -> None:
        self.told: list[bool] = []
        self.member = GroupConsumer(
            world.proxy, world.draw_session, NAME, NO_PARTITION, self.told.append
        )


def test_consumers_hear_of_changes_under_any_leader() -> None:
    world = World()
    first, second = Consumer(world), Consumer(world)
    world.lead()
    world.commit_all()
    assert (first.told, second.told) == ([True], [])
    world.next_leader(restored_machine(world.end.machine.state()))
    assert (first.told, second.told) == ([True], [])
    first.member.end()
    world.next_leader(restored_machine(world.end.machine.state()))  # What was sent is lost.
    world.commit_all()
    assert (first.told, second.told) == ([True], [True])


def test_a_consumer_whose_session_was_ended_stops_before_it_joins_again() -> None:
    world = World()
    consumer = Consumer(world)
    world.lead()
    world.commit_all()
    world.next_leader(StreamMachine())
    assert consumer.told == [True, False]
    world.commit_all()
    assert consumer.told == [True, False]
    consumer.member.stopped()
    world.commit_all()
    assert consumer.told == [True, False, True]
