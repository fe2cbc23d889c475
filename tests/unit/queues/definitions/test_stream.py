"""The state of a metadata machine on its way: slices, the machine made of them, what differs."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.definitions.broker_objects import Binding, Definition, Exchange, Queue
from queues.definitions.members import Member, Process
from queues.definitions.metadata import commands
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Added, Change, Removed, Replaced
from queues.definitions.metadata.snapshot import BadSnapshot
from queues.definitions.metadata.stream import StateBuilder, StateStream, become
from queues.routing.router import Router
from tests.unit.queues.definitions.histories import histories
from tests.unit.queues.definitions.steps import Steps, bind, declare_queue
from tests.unit.queues.definitions.test_cluster import cluster_commands


def slices_of(machine: Metadata, slice_bytes: int = 60_000) -> list[bytes]:
    stream = StateStream(machine, slice_bytes)
    found: list[bytes] = []
    while True:
        piece = stream.slice(len(found))
        assert piece is not None
        found.append(piece[0])
        if piece[1]:
            return found


def built(slices: list[bytes]) -> Metadata:
    builder = StateBuilder()
    for each in slices:
        builder.add(each)
    return builder.finish()


def after(history: list[Command]) -> Metadata:
    machine = Metadata()
    for index, command in enumerate(history, 1):
        machine.apply(index, command)
    return machine


both = st.lists(histories | cluster_commands, max_size=30)


@settings(max_examples=50)
@given(both, st.integers(1, 500))
def test_a_machine_is_made_again_of_its_slices(history: list[Command], slice_bytes: int) -> None:
    machine = after(history)
    slices = slices_of(machine, slice_bytes)
    assert all(0 < len(each) <= slice_bytes for each in slices)
    assert built(slices).snapshot() == machine.snapshot()


def test_slices_are_those_of_the_moment_whatever_comes_later() -> None:
    steps = Steps()
    for number in range(50):
        steps.queue(f"q{number}")
        steps.bind("amq.direct", f"q{number}", b"k")
    before = steps.machine.snapshot()
    stream = StateStream(steps.machine, 500)
    steps.do(commands.DeleteQueue("/", "q7"))
    steps.do(commands.PutUser("u", "h", "s"))
    found: list[bytes] = []
    while (piece := stream.slice(len(found))) is not None:
        found.append(piece[0])
    assert built(found).snapshot() == before
    assert stream.slice(3) == (found[3], False), "it can be asked for again"
    assert stream.slice(len(found) - 1) == (found[-1], True)


@pytest.mark.parametrize("cut", [0, 1, 3, 40])
def test_slices_that_end_too_early_are_no_state(cut: int) -> None:
    whole = b"".join(slices_of(Steps().machine))
    with pytest.raises(BadSnapshot):
        built([whole[:cut]])
    with pytest.raises(BadSnapshot):
        built([whole[:-1]])


@pytest.mark.parametrize("wrong", [b"\0\0\0\x01\xc1", b"\0\0\0\x05\x91\x92\xc4\0\xc4", b"\0" * 9])
def test_bytes_of_something_else_are_no_state(wrong: bytes) -> None:
    with pytest.raises(BadSnapshot):
        built([wrong])


# What has changed


class Kept:
    """The followers of a machine: routers, and all that there is by uid."""

    def __init__(self, machine: Metadata) -> None:
        self.known: dict[int, Definition] = {}
        self.routers: dict[str, Router] = {}
        for vhost in machine.vhosts.values():
            for subject in vhost.definitions():
                self.take(Added(subject))

    def take(self, change: Change) -> None:
        subject = change.subject
        if not isinstance(subject, Exchange | Queue | Binding):
            return
        if isinstance(change, Removed):
            del self.known[subject.uid]
        else:
            assert (subject.uid in self.known) is isinstance(change, Replaced)
            self.known[subject.uid] = subject
        self.routers.setdefault(subject.vhost, Router(subject.vhost)).apply((change,))


@settings(max_examples=60)
@given(both, both)
def test_whoever_follows_what_differs_is_where_the_new_machine_is(
    history: list[Command], more: list[Command]
) -> None:
    old, new = after(history), after(history + more)
    kept = Kept(old)
    old.take_unsaved()
    version = old.version
    for changes in become(old, built(slices_of(new))):
        for change in changes:
            kept.take(change)
    assert old.snapshot() == new.snapshot() and old.version >= version
    expected = {each.uid: each for vhost in new.vhosts.values() for each in vhost.definitions()}
    assert kept.known == expected
    for index, command in enumerate(more, new.applied_index + 1):
        assert old.apply(index, command).changes == new.apply(index, command).changes
    assert old.snapshot() == new.snapshot()


def test_what_differs_is_unsaved_and_nothing_else() -> None:
    steps = Steps()
    for name in ("stays", "goes", "changes"):
        steps.queue(name)
    steps.bind("amq.direct", "goes", b"k")
    old = built(slices_of(steps.machine))
    steps.do(commands.DeleteQueue("/", "goes"))
    new_queue = steps.queue("comes")
    old.take_unsaved()
    gone = old.vhosts["/"].queues["goes"].uid
    for _ in become(old, built(slices_of(steps.machine))):
        pass
    unsaved = list(old.take_unsaved().changes)
    assert {type(each) for each in unsaved} == {Added, Removed}
    queues = [each for each in unsaved if isinstance(each.subject, Queue)]
    assert {each.subject.uid for each in queues} == {gone, new_queue.uid}


def test_members_and_processes_that_differ_are_told_at_last() -> None:
    steps = Steps()
    members = (Member(1, "n1", 1, "h", 1), Member(2, "n2", 2, "h", 2))
    steps.do(commands.Found(5, members))
    steps.do(commands.NodeUp("n1", 1, 100))
    old = built(slices_of(steps.machine))
    steps.do(commands.NodeUp("n1", 1, 101))
    steps.do(commands.RemoveMember(2))
    steps.do(commands.AddMember("n3", 3, "h", 3))
    steps.do(commands.PutMember(Member(1, "n1", 1, "h", 9)))
    changes = [each for some in become(old, steps.machine) for each in some]
    assert changes == [
        Removed(Process("n1", 1, 100)),
        Removed(members[1]),
        Replaced(Member(1, "n1", 1, "h", 9)),
        Added(Member(3, "n3", 3, "h", 3)),
        Added(Process("n1", 1, 101)),
    ]


def test_a_great_state_is_compared_some_at_once() -> None:
    random = Random(1)
    machine = Metadata()
    index = 0
    for number in range(3000):
        for command in (declare_queue(f"q{number}"), bind("amq.direct", f"q{number}", b"k")):
            index += 1
            machine.apply(index, command)
    old = built(slices_of(machine))
    for number in random.sample(range(3000), 100):
        index += 1
        machine.apply(index, commands.DeleteQueue("/", f"q{number}"))
    counts = [len(some) for some in become(old, built(slices_of(machine)))]
    assert sum(counts) == 200 and max(counts) < 60 and len(counts) > 20
