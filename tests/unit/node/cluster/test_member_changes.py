"""Members of quorum queues and of the cluster: what is refused, what is done, what a node says."""

from collections.abc import Coroutine
from typing import Any

import pytest

from node.cluster.membership import member_changes as membership
from node.cluster.membership.member_changes import Membership, QueueResult, Refused, every_queue
from node.cluster.services.status_channel import NoAnswer
from queues.definitions.metadata.commands import PutMember, RemoveMember, SetQueueMembers
from queues.placement.regrouping import IS_MEMBER, LAST_MEMBER, NO_MAJORITY, NOT_RUNNING
from tests.unit.node.cluster.operating_world import OperatingWorld


def first(world: OperatingWorld) -> Membership:
    return world.nodes[1].membership


def refusal(world: OperatingWorld, work: Coroutine[Any, Any, Any]) -> tuple[str, bool]:
    with pytest.raises(Refused) as caught:
        world.run(work)
    return str(caught.value), caught.value.missing


# One queue


def test_a_node_that_is_no_member_of_the_cluster_takes_none_of_a_queue() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2), leader=1)
    text = "node 'n9' is not a member of the cluster"
    assert refusal(world, first(world).add_member(queue, "n9")) == (text, True)
    assert refusal(world, first(world).delete_member(queue, "n9")) == (text, True)
    assert refusal(world, first(world).transfer(queue, "n9")) == (text, True)
    assert refusal(world, first(world).grow("n9", every_queue, False)) == (text, True)
    assert refusal(world, first(world).forget("n9")) == (text, True)


def test_a_member_is_refused_where_it_is_already_or_where_nobody_runs() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2), leader=1)
    world.stop(3)
    assert refusal(world, first(world).add_member(queue, "n2")) == (IS_MEMBER, False)
    assert refusal(world, first(world).add_member(queue, "n3")) == (NOT_RUNNING, False)
    assert refusal(world, first(world).delete_member(queue, "n3"))[0].endswith("of the queue")
    assert world.members_of(queue) == (1, 2)


def test_a_member_is_added_and_removed() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2), leader=1)
    world.run(first(world).add_member(queue, "n3"))
    assert world.members_of(queue) == (1, 2, 3)
    grown = world.machine.queue(queue.uid)
    assert grown is not None
    world.run(first(world).delete_member(grown, "n2"))
    assert world.members_of(queue) == (1, 3)


def test_the_last_member_and_one_that_the_majority_needs_stay() -> None:
    world = OperatingWorld()
    alone = world.queue("alone", (1,), leader=1)
    tight = world.queue("tight", (1, 2, 3), leader=1)
    world.stop(3)
    assert refusal(world, first(world).delete_member(alone, "n1")) == (LAST_MEMBER, False)
    assert refusal(world, first(world).delete_member(tight, "n2")) == (NO_MAJORITY, False)
    world.run(first(world).delete_member(tight, "n3"))
    assert world.members_of(tight) == (1, 2)


# Many queues


def test_all_queues_grow_to_a_node_or_those_with_an_even_number() -> None:
    world = OperatingWorld(4)
    even = world.queue("even", (1, 2), leader=1)
    odd = world.queue("odd", (1, 2, 3), leader=2)
    world.queue("has it", (1, 4), leader=1)
    world.queue("classic", ())
    assert world.run(first(world).grow("n4", every_queue, True)) == [QueueResult("/", "even", 3)]
    assert world.run(first(world).grow("n4", every_queue, False)) == [QueueResult("/", "odd", 4)]
    assert world.members_of(even) == (1, 2, 4)
    assert world.members_of(odd) == (1, 2, 3, 4)


def test_only_the_chosen_queues_grow() -> None:
    world = OperatingWorld(4)
    world.queue("a", (1, 2, 3), leader=1)
    world.queue("b", (1, 2, 3), leader=1)
    results = world.run(first(world).grow("n4", lambda queue: queue.name == "b", False))
    assert [each.name for each in results] == ["b"]


def test_a_node_is_cleared_of_members_but_for_those_that_are_needed() -> None:
    world = OperatingWorld()
    world.queue("last", (3,), leader=3)
    good = world.queue("good", (1, 2, 3), leader=1)
    results = world.run(first(world).shrink("n3"))
    assert sorted(results, key=lambda each: each.name) == [
        QueueResult("/", "good", 2),
        QueueResult("/", "last", 1, LAST_MEMBER),
    ]
    assert world.members_of(good) == (1, 2)
    assert [each.name for each in world.run(first(world).shrink("n3", errors_only=True))] == [
        "last"
    ]


def test_queues_grow_to_a_number_of_members_as_far_as_there_are_nodes() -> None:
    world = OperatingWorld(4)
    world.stop(4)
    one = world.queue("one", (1,), leader=1)
    full = world.queue("full", (1, 2, 3), leader=1)
    results = world.run(first(world).grow_to_count(5, every_queue, False))
    assert [(each.name, each.size, bool(each.error)) for each in results] == [
        ("one", 3, False),
        ("full", 3, True),
    ]
    assert sorted(world.members_of(one)) == [1, 2, 3]
    assert world.members_of(full) == (1, 2, 3)


# Leaders


def test_a_leader_moves_only_to_a_member_that_runs() -> None:
    world = OperatingWorld(4)
    queue = world.queue("q", (1, 2, 3), leader=2)
    world.stop(3)
    assert "has no member" in refusal(world, first(world).transfer(queue, "n4"))[0]
    assert "is not running" in refusal(world, first(world).transfer(queue, "n3"))[0]
    world.run(first(world).transfer(queue, "n1"))
    assert world.leader_of(queue) == 1
    world.run(first(world).transfer(queue, "n1"))
    assert world.leader_of(queue) == 1


def test_a_leader_that_does_not_move_and_one_that_is_not_there_are_told() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2, 3), leader=2)
    world.nodes[2].groups.stubborn.add(queue.uid)
    assert "did not move" in refusal(world, first(world).transfer(queue, "n1"))[0]
    del world.leaders.table[queue.uid]
    assert refusal(world, first(world).transfer(queue, "n1"))[0] == "the queue has no leader"


def test_leaders_are_spread_over_the_nodes_and_counted() -> None:
    world = OperatingWorld()
    for number in range(6):
        world.queue(f"q{number}", (1, 2, 3), leader=2)
    world.queue("classic", (), node="n3")
    rows = world.run(first(world).rebalance("all", every_queue))
    assert rows == [
        {
            "node": f"n{number}",
            "number of classic queues": number // 3,
            "number of quorum queues": 2,
        }
        for number in (1, 2, 3)
    ]


def test_classic_queues_alone_are_counted_and_nothing_moves() -> None:
    world = OperatingWorld()
    queue = world.queue("q0", (1, 2, 3), leader=2)
    world.queue("q1", (1, 2, 3), leader=2)
    world.run(first(world).rebalance("classic", every_queue))
    assert world.leader_of(queue) == 2


# How it stands


def test_each_member_of_a_queue_says_how_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    world = OperatingWorld(4)
    queue = world.queue("q", (1, 2, 3), leader=2)
    world.stop(3)
    rows = world.run(first(world).quorum_status(queue))
    assert [(row["Node Name"], row["Raft State"], row["Last Log Index"]) for row in rows] == [
        ("n1", "follower", 9),
        ("n2", "leader", 9),
        ("n3", "nodedown", ""),
    ]


def test_a_member_without_a_group_is_told_as_that() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2), leader=1)
    outdated = queue
    world.run(first(world).delete_member(queue, "n2"))
    rows = world.run(first(world).quorum_status(outdated))
    assert [(row["Node Name"], row["Raft State"]) for row in rows] == [
        ("n1", "leader"),
        ("n2", "noproc"),
    ]


def test_a_node_is_critical_when_others_are_down_and_never_alone() -> None:
    world = OperatingWorld()
    world.queue("q", (1, 2, 3), leader=2)
    assert first(world).critical(1) == []
    assert not first(world).is_definitions_critical(1)
    world.stop(3)
    assert [each.name for each in first(world).critical(1)] == ["q"]
    assert first(world).critical(3) == []
    assert first(world).is_definitions_critical(1)
    world.stop(2)
    assert [each.name for each in first(world).critical(1)] == ["q"]
    assert first(world).is_definitions_critical(1)
    lone = OperatingWorld(1)
    lone.queue("q", (1,), leader=1)
    assert first(lone).critical(1) == []
    assert not first(lone).is_definitions_critical(1)


def test_a_member_that_does_not_vote_yet_replaces_nobody() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2, 3), leader=1)
    world.nodes[1].groups.settled[queue.uid] = (1, 2)
    assert [each.name for each in first(world).critical(1)] == ["q"]
    world.nodes[1].groups.settled[queue.uid] = (1, 2, 3)
    assert first(world).critical(1) == []


def test_queues_without_a_leader_are_found() -> None:
    world = OperatingWorld()
    world.queue("led", (1, 2, 3), leader=2)
    world.queue("lost", (1, 2, 3))
    world.queue("classic", ())
    assert [each.name for each in first(world).leaderless(every_queue)] == ["lost"]


# Members of the cluster


def test_a_node_that_runs_is_not_forgotten_unless_it_must_be() -> None:
    world = OperatingWorld()
    assert "is running" in refusal(world, first(world).forget("n2"))[0]
    assert "is this node" in refusal(world, first(world).forget("n1"))[0]
    world.run(first(world).forget("n2", force=True))
    assert [each.name for each in first(world).cluster_snapshot.members()] == ["n1", "n3"]


def test_second_node_that_is_down_is_not_forgotten() -> None:
    world = OperatingWorld(2)
    world.stop(2)
    text, _ = refusal(world, first(world).forget("n2"))
    assert text.startswith("1 of 2 nodes run, which is no majority")
    assert "start 'n2'" in text
    assert "recover_cluster --unsafe" in text
    assert world.nodes[1].definitions.proposed == []


def test_one_of_two_nodes_moves_its_queues_to_the_other_before_it_leaves() -> None:
    world = OperatingWorld(2)
    both = world.queue("both", (1, 2), leader=2)
    single = world.queue("single", (2,), leader=2)
    assert world.run(world.nodes[2].membership.forget("n2", force=True)) == []
    assert (world.members_of(both), world.members_of(single)) == ((1,), (1,))
    proposed = world.nodes[2].definitions.proposed
    grown = [each.members for each in proposed if isinstance(each, SetQueueMembers)]
    assert grown == [(2, 1), (1,), (1,)]
    assert isinstance(proposed[0], PutMember)
    assert isinstance(proposed[-1], RemoveMember)


@pytest.mark.parametrize(
    "still", [{"voters": (1, 2)}, {"learners": (2,)}, {"is_config_committed": False}]
)
def test_one_of_two_nodes_stays_while_a_queue_needs_it(
    monkeypatch: pytest.MonkeyPatch, still: dict[str, object]
) -> None:
    monkeypatch.setattr(membership, "SETTLED_S", 0.2)
    world = OperatingWorld(2)
    world.queue("both", (1, 2), leader=2)
    world.nodes[1].groups.changed = still
    text, _ = refusal(world, world.nodes[2].membership.forget("n2", force=True))
    assert "queue 'both' in vhost '/'" in text
    assert [(each.name, each.draining) for each in first(world).cluster_snapshot.members()] == [
        ("n1", False),
        ("n2", False),
    ]


def test_one_of_two_nodes_stays_while_it_leads_the_definitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "SETTLED_S", 0.2)
    world = OperatingWorld(2)
    world.nodes[2].definitions.leader = 2
    text, _ = refusal(world, world.nodes[2].membership.forget("n2", force=True))
    assert "the definitions" in text
    assert [each.name for each in first(world).cluster_snapshot.members()] == ["n1", "n2"]


def test_a_node_does_not_forget_itself_where_it_is_the_only_one() -> None:
    lone = OperatingWorld(1)
    assert "by itself" in refusal(lone, first(lone).forget("n1", force=True))[0]


def test_a_forgotten_node_leaves_its_queues_first() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2, 3), leader=1)
    last = world.queue("last", (3,), leader=3)
    world.stop(3)
    assert world.run(first(world).forget("n3")) == [QueueResult("/", "last", 1, LAST_MEMBER)]
    kinds = [type(each) for each in world.nodes[1].definitions.proposed]
    assert kinds == [SetQueueMembers, RemoveMember]
    assert world.members_of(queue) == (1, 2)
    assert world.members_of(last) == (3,)
    assert first(world).cluster_snapshot.name_of(3) == "gone@3"


def test_a_member_on_a_forgotten_node_is_named_by_its_number() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2, 3), leader=1)
    world.stop(3)
    world.do(RemoveMember(3))
    world.run(first(world).delete_member(queue, "gone@3"))
    assert world.members_of(queue) == (1, 2)


def test_a_node_is_marked_once() -> None:
    world = OperatingWorld()
    world.run(first(world).set_draining(2, True))
    world.run(first(world).set_draining(2, True))
    assert [type(each) for each in world.nodes[1].definitions.proposed] == [PutMember]
    assert first(world).cluster_snapshot.members()[1].draining
    assert "is not a member" in refusal(world, first(world).set_draining(9, True))[0]


def test_a_question_that_is_about_nothing_is_not_answered() -> None:
    world = OperatingWorld()
    for about in (None, [], [1], ["a", 1], [1, 2, 3]):
        with pytest.raises(NoAnswer, match="numbers"):
            world.run(world.nodes[1].status.ask(2, membership.TRANSFER, about))
