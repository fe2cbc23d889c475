"""The metadata machine about its cluster: members, processes of nodes, numbered batches."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.definitions.broker_objects import Queue, Uid
from queues.definitions.members import Member, Process, RemovedMember, process_of_connection
from queues.definitions.metadata import commands
from queues.definitions.metadata.commands import BadCommand, Command, Numbered, encode
from queues.definitions.metadata.entries import decode_entry, encode_entry
from queues.definitions.metadata.machine import NOT_IN_TURN, Metadata
from queues.definitions.metadata.outcomes import (
    Added,
    Batched,
    Created,
    Deleted,
    Exists,
    Outcome,
    Refused,
    Removed,
    Replaced,
)
from queues.definitions.metadata.rows import batches_of
from tests.unit.queues.definitions.steps import Steps, declare_queue

CLUSTER = 0xABC
FOUND = commands.Found(
    CLUSTER,
    (Member(1, "n1", 11, "h1", 1), Member(2, "n2", 22, "h2", 2), Member(3, "", 0, "h3", 3)),
)
P1, P2 = 0x100, 0x200


def founded() -> Steps:
    steps = Steps()
    steps.do(FOUND)
    return steps


def joining(name: str, incarnation: int, port: int, **more: Any) -> commands.AddMember:
    return commands.AddMember(name, incarnation, f"h{port}", port, **more)


def added(steps: Steps, command: commands.AddMember) -> Member:
    outcome = steps.do(command)
    assert isinstance(outcome, Created) and isinstance(outcome.subject, Member)
    return outcome.subject


# Members


def test_a_machine_knows_of_no_cluster_at_first() -> None:
    steps = Steps()
    assert steps.machine.roster.cluster_id == 0 and not steps.machine.roster.members
    assert "no cluster" in steps.refused(joining("n9", 9, 9))[1]
    assert steps.do(commands.RemoveMember(1)) == Deleted((), ())


@pytest.mark.parametrize(
    "command",
    [
        commands.Found(0, FOUND.members),
        commands.Found(CLUSTER, ()),
        commands.Found(CLUSTER, FOUND.members[1:]),
        commands.Found(CLUSTER, FOUND.members[:1] * 2),
    ],
)
def test_a_cluster_is_founded_by_the_places_of_a_list_alone(command: commands.Found) -> None:
    assert "founded" in Steps().refused(command)[1]


def test_a_cluster_is_founded_once() -> None:
    steps = founded()
    assert steps.machine.roster.cluster_id == CLUSTER
    assert [each.subject for each in steps.changes] == list(FOUND.members)
    assert "before" in steps.refused(commands.Found(CLUSTER + 1, FOUND.members))[1]
    assert "before" in steps.refused(FOUND)[1]


def test_a_founding_place_is_taken_by_who_comes_from_its_address() -> None:
    steps = founded()
    assert added(steps, joining("n4", 44, 4)).id == 4, "another address: a new member"
    taken = added(steps, joining("n3", 33, 3))
    assert taken.id == 3 and isinstance(steps.changes[-1], Replaced)
    assert "address of 'n3'" in steps.refused(joining("n5", 55, 3))[1]


def test_asking_again_changes_addresses_and_nothing_else() -> None:
    steps = founded()
    assert isinstance(steps.do(joining("n1", 11, 1)), Exists)
    moved = commands.AddMember("n1", 11, "other", 7, "host", "zone", "a:1", "b:2")
    member = added(steps, moved)
    assert member == Member(1, "n1", 11, "other", 7, "host", "zone", "a:1", "b:2")
    assert steps.machine.roster.next_member == 4


def test_a_known_name_with_another_data_directory_is_another_member() -> None:
    steps = founded()
    steps.do(commands.NodeUp("n2", 2, P2))
    outcome = steps.do(joining("n2", 23, 2))
    assert isinstance(outcome, Created) and isinstance(outcome.subject, Member)
    assert outcome.subject.id == 4
    assert outcome.changes == (
        Removed(Process("n2", 2, P2)),
        Removed(FOUND.members[1]),
        Added(outcome.subject),
    )
    assert steps.machine.roster.removed == {2: RemovedMember(2, "n2", 22)}
    assert "was removed" in steps.refused(joining("n2", 22, 2))[1], "the old disk is back"


def test_a_removed_member_never_returns_and_its_id_is_never_given_again() -> None:
    steps = founded()
    outcome = steps.do(commands.RemoveMember(2))
    assert isinstance(outcome, Deleted) and outcome.subjects == (FOUND.members[1],)
    assert "was removed" in steps.refused(joining("n2", 22, 2))[1]
    assert "was removed" in steps.refused(joining("other", 22, 9))[1]
    assert added(steps, joining("n2", 24, 2)).id == 4
    steps.do(commands.RemoveMember(4))
    assert added(steps, joining("n2", 25, 2)).id == 5


def test_a_data_directory_has_one_name() -> None:
    assert "is that of 'n1'" in founded().refused(joining("n7", 11, 7))[1]


@pytest.mark.parametrize("command", [joining("", 5, 5), joining("n5", 0, 5)])
def test_a_nameless_node_is_no_member(command: commands.AddMember) -> None:
    assert "needs a name" in founded().refused(command)[1]


def test_the_last_member_stays() -> None:
    steps = founded()
    steps.do(commands.RemoveMember(1))
    steps.do(commands.RemoveMember(3))
    assert "last member" in steps.refused(commands.RemoveMember(2))[1]


def test_a_member_is_changed_as_a_whole_but_for_who_it_is() -> None:
    steps = founded()
    drained = Member(1, "n1", 11, "h1", 1, draining=True)
    assert isinstance(steps.do(commands.PutMember(drained)), Created)
    assert isinstance(steps.do(commands.PutMember(drained)), Exists)
    for wrong in (
        Member(9, "n1", 11, "h1", 1),
        Member(1, "nn", 11, "h1", 1),
        Member(1, "n1", 12, "h1", 1),
    ):
        assert steps.refused(commands.PutMember(wrong))[0] == 404
    steps.do(joining("n1", 11, 8))
    assert steps.machine.roster.members[1].draining, "a restart does not end maintenance"


def test_tags_of_a_node_come_with_it_and_rows_of_before_have_none() -> None:
    steps = founded()
    tags = (("power", "a"), ("rack", "r1"))
    steps.do(joining("n1", 11, 8, tags=tags))
    found = steps.machine.roster.members[1]
    assert found.tags == tags
    row = msgspec.msgpack.decode(msgspec.msgpack.encode(found))
    before = msgspec.msgpack.encode(row[: Member.__struct_fields__.index("tags")])
    assert msgspec.msgpack.decode(before, type=Member) == msgspec.structs.replace(found, tags=())


def test_the_membership_index_is_that_of_the_last_change() -> None:
    steps = founded()
    machine = steps.machine
    assert machine.roster.changed_index == 1
    steps.queue("q")
    assert machine.roster.changed_index == 1
    steps.do(commands.NodeUp("n1", 1, P1))
    assert machine.roster.changed_index == machine.applied_index == 3


# Queues of a cluster


def quorum(name: str, members: tuple[int, ...]) -> commands.DeclareQueue:
    return commands.DeclareQueue("/", name, True, members=members)


def test_a_queue_has_those_members_that_there_are() -> None:
    steps = founded()
    outcome = steps.do(quorum("q", (3, 9, 1, 3)))
    assert isinstance(outcome, Created) and isinstance(outcome.subject, Queue)
    assert outcome.subject.members == (3, 1)


def test_members_of_a_queue_are_set_whole_or_not_at_all() -> None:
    steps = founded()
    queue = steps.queue("q", durable=True)
    for wrong in ((), (1, 1), (1, 9)):
        assert "members" in steps.refused(commands.SetQueueMembers(queue.uid, wrong))[1]
    assert steps.refused(commands.SetQueueMembers(Uid(queue.uid + 1), (1,)))[0] == 404
    outcome = steps.do(commands.SetQueueMembers(queue.uid, (2, 1)))
    assert isinstance(outcome, Created) and isinstance(outcome.changes[0], Replaced)
    assert isinstance(steps.do(commands.SetQueueMembers(queue.uid, (2, 1))), Exists)
    found = steps.machine.queue(queue.uid)
    assert found is steps.vhost.queues["q"] and found is not None and found.members == (2, 1)
    steps.do(commands.DeleteQueue("/", "q"))
    assert steps.machine.queue(queue.uid) is None


def test_a_queue_whose_group_begins_anew_has_that_one_member() -> None:
    steps = founded()
    steps.do(quorum("q", (1, 2, 3)))
    uid = steps.vhost.queues["q"].uid
    assert "no part" in steps.refused(commands.RecoverQueue(uid, 9, 70_000))[1]
    assert steps.refused(commands.RecoverQueue(Uid(uid + 1), 2, 70_000))[0] == 404
    outcome = steps.do(commands.RecoverQueue(uid, 2, 70_000))
    assert isinstance(outcome, Created) and isinstance(outcome.changes[0], Replaced)
    found = steps.vhost.queues["q"]
    assert (found.members, found.reborn_term, found.reborn_on) == ((2,), 70_000, 2)
    for term in (70_000, 69_999):
        assert "another request" in steps.refused(commands.RecoverQueue(uid, 2, term))[1]
    steps.do(commands.SetQueueMembers(uid, (2, 1)))
    assert steps.vhost.queues["q"].reborn_term == 70_000
    assert Metadata.restore(steps.machine.snapshot()).queue(uid) == steps.vhost.queues["q"]


def test_queues_of_a_removed_node_go_in_slices_and_those_of_others_do_not() -> None:
    steps = founded()
    for number in range(5):
        steps.queue(f"q{number}", node="n2", durable=True)
    kept = steps.queue("kept", node="n1", durable=True)
    steps.do(quorum("quorum", (1, 2)))
    assert "was not removed" in steps.refused(commands.DeleteByNode("n2", 3))[1]
    steps.do(commands.RemoveMember(2))
    counts = []
    for _ in range(3):
        outcome = steps.do(commands.DeleteByNode("n2", 3))
        assert isinstance(outcome, Deleted)
        counts.append(len(outcome.subjects))
    assert counts == [3, 2, 0]
    assert set(steps.vhost.queues) == {kept.name, "quorum"}


# Processes


def up(steps: Steps, node: int, process: int) -> Outcome:
    return steps.do(commands.NodeUp(f"n{node}", node, process))


def test_a_new_process_of_a_node_ends_the_one_before() -> None:
    steps = founded()
    assert up(steps, 1, P1).changes == (Added(Process("n1", 1, P1)),)
    assert isinstance(up(steps, 1, P1), Exists)
    outcome = up(steps, 1, P2)
    assert outcome.changes == (Removed(Process("n1", 1, P1)), Added(Process("n1", 1, P2)))
    assert steps.machine.processes.incarnation_at("n1") == P2
    assert "has ended" in steps.refused(commands.NodeUp("n1", 1, P1))[1]
    assert "has ended" in steps.refused(commands.NodeUp("n1", 1, 0))[1]


def of_process(steps: Steps) -> None:
    """Queues that go with process P1 of n1, and others."""
    up(steps, 1, P1)
    up(steps, 2, P2)
    for number in range(3):
        steps.queue(f"exclusive{number}", owner=f"{P1:016x}.{number}", node="n1", durable=True)
    steps.queue("transient", node="n1")
    steps.queue("durable", node="n1", durable=True)
    steps.queue("of another", owner=f"{P2:016x}.1", node="n2")
    steps.queue("of no node", node="n9")


def test_a_process_that_is_down_takes_what_was_its_own_in_slices() -> None:
    steps = founded()
    of_process(steps)
    steps.bind("amq.fanout", "exclusive2")
    assert steps.machine.ended_with_queues() == []
    first = steps.do(commands.NodeDown("n1", P1, 3))
    assert isinstance(first, Deleted) and len(first.subjects) == 3
    assert first.changes[0] == Removed(Process("n1", 1, P1))
    assert steps.machine.ended_with_queues() == [P1]
    second = steps.do(commands.NodeDown("", P1, 3))
    assert isinstance(second, Deleted) and len(second.subjects) == 1
    assert steps.machine.ended_with_queues() == []
    assert set(steps.vhost.queues) == {"durable", "of another", "of no node"}
    assert not steps.vhost.bindings()
    assert steps.do(commands.NodeDown("n1", P1, 3)) == Deleted((), ())


def test_a_process_is_not_taken_down_by_the_name_of_another_node() -> None:
    steps = founded()
    of_process(steps)
    assert "is not one of" in steps.refused(commands.NodeDown("n2", P1, 9))[1]


def test_a_queue_of_a_process_that_has_ended_is_declared_anew() -> None:
    steps = founded()
    of_process(steps)
    old = steps.vhost.queues["transient"]
    steps.bind("amq.fanout", "transient")
    assert isinstance(steps.do(declare_queue("transient")), Exists)
    up(steps, 1, 0x101)
    outcome = steps.do(declare_queue("transient", {"x-expires": 5}))
    assert isinstance(outcome, Created) and isinstance(outcome.subject, Queue)
    assert outcome.subject.uid != old.uid and outcome.subject.process == 0x101
    assert [type(each) for each in outcome.changes] == [Removed, Removed, Added]
    steps.do(commands.NodeDown("", P1, 100))
    assert "transient" in steps.vhost.queues


def test_a_doomed_queue_goes_though_the_new_one_is_refused() -> None:
    steps = founded()
    of_process(steps)
    up(steps, 1, 0x101)
    outcome = steps.do(declare_queue("transient", {"x-expires": "soon"}))
    assert isinstance(outcome, Refused) and len(outcome.changes) == 1
    assert "transient" not in steps.vhost.queues


@pytest.mark.parametrize(
    ("connection", "process"),
    [("", 0), ("c1", 0), ("0" * 16, 0), (f"{P1:016x}.7", P1), ("x" * 16 + ".1", 0)],
)
def test_the_process_of_a_connection_is_in_its_id(connection: str, process: int) -> None:
    assert process_of_connection(connection) == process


# Numbered batches


def batch(process: int, number: int, *inner: Command, answered: int = 0) -> Numbered:
    return Numbered(process, number, answered, inner)


def begun() -> Steps:
    steps = founded()
    steps.do(batch(P1, 1, commands.NodeUp("n1", 1, P1), declare_queue("a")))
    return steps


def test_the_first_batch_of_a_process_tells_that_it_is_up() -> None:
    steps = founded()
    assert "has ended" in steps.refused(batch(P1, 1, declare_queue("a")))[1]
    assert "has ended" in steps.refused(batch(P1, 2, commands.NodeUp("n1", 1, P1)))[1]
    assert "has ended" in steps.refused(batch(P1, 1, commands.NodeUp("n1", 1, P2)))[1]
    assert steps.do(batch(P1, 1)) == NOT_IN_TURN
    outcome = steps.do(batch(P1, 1, commands.NodeUp("n1", 1, P1), declare_queue("a")))
    assert isinstance(outcome, Batched) and len(outcome.outcomes) == 2
    assert "a" in steps.vhost.queues


def test_a_batch_is_applied_once_and_in_its_turn() -> None:
    steps = begun()
    deletes = batch(P1, 2, commands.DeleteQueue("/", "a"))
    assert steps.do(batch(P1, 3, declare_queue("b"))) == NOT_IN_TURN, "a gap"
    assert isinstance(steps.do(deletes), Batched)
    steps.queue("a")
    assert steps.do(deletes) == NOT_IN_TURN, "it comes again"
    assert set(steps.vhost.queues) == {"a"}
    steps.do(batch(P1, 3, declare_queue("b")))
    assert set(steps.vhost.queues) == {"a", "b"}


def test_a_batch_of_a_process_that_has_ended_changes_nothing() -> None:
    steps = begun()
    steps.do(commands.NodeDown("n1", P1, 9))
    assert "has ended" in steps.refused(batch(P1, 2, declare_queue("b")))[1]
    assert "has ended" in steps.refused(batch(P1, 1, commands.NodeUp("n1", 1, P1)))[1]


def test_outcomes_are_kept_until_they_are_known_to_be_answered() -> None:
    steps = begun()
    for number in range(2, 6):
        steps.do(batch(P1, number, declare_queue(f"q{number}"), answered=max(0, number - 2)))
    kept = steps.machine.processes.batches[P1]
    assert list(kept.outcomes) == [4, 5] and (kept.last, kept.answered) == (5, 3)
    outcome = kept.outcomes[4][0]
    assert isinstance(outcome, Created) and isinstance(outcome.subject, Queue)


def test_outcomes_survive_a_snapshot_without_their_changes() -> None:
    steps = begun()
    inner = (
        declare_queue("a"),
        declare_queue("b"),
        commands.DeleteQueue("/", "b"),
        commands.DeleteExchange("/", ""),
        commands.Batch((commands.DeclareVhost("v"), commands.RemoveMember(2))),
        joining("n4", 44, 4),
    )
    outcome = steps.do(batch(P1, 2, *inner, answered=1))
    assert isinstance(outcome, Batched)
    restored = Metadata.restore(steps.machine.snapshot())
    found = restored.processes.batches[P1]
    assert found.last == 2 and list(found.outcomes) == [2]
    for before, after in zip(outcome.outcomes, found.outcomes[2], strict=True):
        assert type(before) is type(after) and after.changes == ()
        if isinstance(before, Created | Exists):
            assert isinstance(after, Created | Exists) and after.subject == before.subject
        if isinstance(before, Deleted):
            assert isinstance(after, Deleted) and after.subjects == before.subjects
        if isinstance(before, Refused):
            assert isinstance(after, Refused) and after.text == before.text
    assert restored.snapshot() == steps.machine.snapshot()


# Entries


def test_an_entry_is_batches_one_behind_the_other() -> None:
    batches = [batch(P1, 1, commands.NodeUp("n1", 1, P1)), batch(P2, 7, declare_queue("a"))]
    content = b"".join(encode_entry([encode(each) for each in batches]))
    assert decode_entry(content).commands == tuple(batches)
    assert decode_entry(encode(batches[0])).commands == (batches[0],), "of version 1"
    for end in range(2, len(content)):
        if end != 1 + 4 + len(encode(batches[0])):
            with pytest.raises(BadCommand):
                decode_entry(content[:end])


nodes = st.sampled_from(["n1", "n2", "n3", "n4"])
processes = st.sampled_from([P1, P2, 0x300])
numbers = st.integers(1, 4)
cluster_commands: st.SearchStrategy[Command] = st.one_of(
    st.just(FOUND),
    st.builds(joining, nodes, st.integers(10, 16), st.integers(1, 5)),
    st.builds(commands.RemoveMember, st.integers(1, 6)),
    st.builds(commands.NodeUp, nodes, st.integers(1, 4), processes),
    st.builds(commands.NodeDown, nodes | st.just(""), processes, st.integers(1, 2)),
    st.builds(commands.DeleteByNode, nodes, st.integers(1, 2)),
    st.builds(
        lambda name, node, process: declare_queue(name, owner=f"{process:016x}.1", node=node),
        st.sampled_from("abc"),
        nodes,
        processes,
    ),
    st.builds(lambda name, node: declare_queue(name, node=node), st.sampled_from("abc"), nodes),
    st.builds(quorum, st.sampled_from("xyz"), st.tuples(st.integers(1, 5), st.integers(1, 5))),
    st.builds(
        lambda process, number, name, answered: batch(
            process,
            number,
            commands.NodeUp("n1", 1, process),
            declare_queue(name),
            answered=answered,
        ),
        processes,
        numbers,
        st.sampled_from("abc"),
        st.integers(0, 4),
    ),
)


@settings(max_examples=60)
@given(st.lists(cluster_commands, max_size=25), st.integers(0, 25))
def test_the_same_commands_make_the_same_machine_whatever_was_saved_between(
    history: list[Command], saved_at: int
) -> None:
    one, other = Metadata(), Metadata()
    ids: set[int] = set()
    for index, command in enumerate(history, 1):
        if index == saved_at:
            other = Metadata.restore(other.snapshot())
        first, second = one.apply(index, command), other.apply(index, command)
        assert type(first) is type(second) and first.changes == second.changes
        for change in first.changes:
            if isinstance(change, Added) and isinstance(change.subject, Member):
                assert change.subject.id not in ids, "an id is given twice"
                ids.add(change.subject.id)
    assert one.snapshot() == other.snapshot()
    incarnations = [each.incarnation for each in one.roster.members.values() if each.name]
    names = [each.name for each in one.roster.members.values() if each.name]
    assert len(set(incarnations)) == len(incarnations) and len(set(names)) == len(names)
    gone = {each.incarnation for each in one.roster.removed.values()}
    assert not gone & set(incarnations)


@pytest.mark.parametrize("process", [1, (1 << 63), (1 << 64) - 1])
def test_a_process_of_any_incarnation_is_among_the_rows(process: int) -> None:
    steps = founded()
    steps.do(batch(process, 1, commands.NodeUp("n1", 1, process)))
    saved: dict[bytes, bytes] = {}
    for rows in batches_of(steps.machine.take_unsaved(b"point")):
        saved.update({key: value for key, value in rows if value is not None})
    loaded = Metadata.load(
        lambda first, end: ((key, saved[key]) for key in sorted(saved) if first <= key < end)
    )
    assert loaded is not None and list(loaded.processes.batches) == [process]
    assert loaded.snapshot() == steps.machine.snapshot()
