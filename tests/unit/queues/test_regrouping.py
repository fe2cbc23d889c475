"""Plans for members and leaders: what is refused, and that no plan costs a queue its majority."""

from random import Random
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.placement.queue_placement import Candidate
from queues.placement.regrouping import (
    DRAINING,
    IS_MEMBER,
    LAST_MEMBER,
    NO_MAJORITY,
    NOT_A_MEMBER,
    NOT_RUNNING,
    GroupView,
    Move,
    Refusal,
    Step,
    grown,
    is_critical,
    is_majority,
    moved_off,
    rebalance,
    reconciled,
    shrunk,
)
from tests.unit.queues.placed_nodes import clusters, group, groups_on, node

NO_NODES: frozenset[int] = frozenset()


def leaders_after(groups: list[GroupView], moves: list[Move]) -> dict[int, int]:
    """Where each queue is led; every move begins where its queue is led by then."""
    leaders = {each.uid: each.leader for each in groups}
    for move in moves:
        assert leaders[move.uid] == move.source
        leaders[move.uid] = move.target
    return leaders


def counts_of(leaders: dict[int, int], nodes: list[Candidate]) -> dict[int, int]:
    return {each.id: list(leaders.values()).count(each.id) for each in nodes}


# Members


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (node(2), IS_MEMBER),
        (node(4, running=False), NOT_RUNNING),
        (node(4, draining=True), DRAINING),
    ],
)
def test_a_member_is_added_neither_twice_nor_where_nobody_runs(
    target: Candidate, reason: str
) -> None:
    assert grown(group(16, (1, 2, 3)), target) == Refusal(reason)


def test_a_queue_grows_by_one_member() -> None:
    assert grown(group(16, (1, 2, 3)), node(4)) == Step(16, (1, 2, 3, 4))


def test_the_last_member_and_a_stranger_are_not_removed() -> None:
    assert shrunk(group(16, (1,)), 1) == Refusal(LAST_MEMBER)
    assert shrunk(group(16, (1, 2)), 3) == Refusal(NOT_A_MEMBER)


def test_no_member_is_removed_that_the_majority_needs() -> None:
    assert shrunk(group(16, (1, 2, 3), down=(3,)), 1) == Refusal(NO_MAJORITY)
    assert shrunk(group(16, (1, 2, 3), down=(3,)), 3) == Step(16, (1, 2))
    assert shrunk(group(16, (1, 2, 3)), 1) == Step(16, (2, 3))


def test_a_queue_without_a_majority_may_lose_a_member_that_is_down() -> None:
    assert shrunk(group(16, (1, 2, 3), down=(2, 3)), 3) == Step(16, (1, 2))


def test_a_node_is_critical_where_the_majority_hangs_on_it() -> None:
    assert is_critical(group(16, (1, 2, 3), down=(3,)), 1)
    assert not is_critical(group(16, (1, 2, 3)), 1)
    assert not is_critical(group(16, (1, 2, 3), down=(3,)), 3)
    assert not is_critical(group(16, (1, 2, 3), down=(2, 3)), 3)
    assert is_critical(group(16, (1,)), 1)
    assert not is_critical(group(16, (2, 3, 4), down=(4,)), 1)


def test_a_node_stays_critical_once_the_majority_is_lost() -> None:
    assert is_critical(group(16, (1, 2, 3), down=(2, 3)), 1)
    assert is_critical(group(16, (1, 2, 3, 4, 5), down=(3, 4, 5)), 1)
    assert not is_critical(group(16, (2, 3, 4), down=(2, 3)), 1)


# Reconciliation


def test_a_member_whose_node_was_forgotten_is_replaced_or_removed() -> None:
    nodes = [node(1), node(2), node(4), node(5, members=3)]
    before = group(16, (1, 2, 3), down=(3,))
    assert reconciled(before, 3, nodes, NO_NODES, Random(1)) == Step(16, (1, 2, 4))
    assert reconciled(before, 3, nodes[:2], NO_NODES, Random(1)) == Step(16, (1, 2))
    alone = group(16, (1, 2, 3), down=(2, 3))
    assert reconciled(alone, 3, nodes, NO_NODES, Random(1)) is None


def test_a_member_of_a_dead_node_stays_until_there_is_another_for_it() -> None:
    nodes = [node(1), node(2), node(3, running=False)]
    before = group(16, (1, 2, 3), down=(3,))
    assert reconciled(before, 3, nodes, frozenset((3,)), Random(1)) is None
    nodes.append(node(4))
    assert reconciled(before, 3, nodes, frozenset((3,)), Random(1)) == Step(16, (1, 2, 3, 4))
    after = group(16, (1, 2, 3, 4), down=(3,))
    assert reconciled(after, 3, nodes, frozenset((3,)), Random(1)) == Step(16, (1, 2, 4))


def test_a_queue_that_is_as_it_should_be_or_has_no_majority_is_left_alone() -> None:
    nodes = [node(number) for number in range(1, 6)]
    assert reconciled(group(16, (1, 2, 3)), 3, nodes, NO_NODES, Random(1)) is None
    assert reconciled(group(16, (1, 2, 3, 4)), 3, nodes, NO_NODES, Random(1)) is None
    lost = group(16, (1, 2, 3), down=(2, 3))
    assert reconciled(lost, 5, nodes, frozenset((2,)), Random(1)) is None


@given(data=st.data(), nodes=clusters(), target=st.integers(1, 5), seed=st.integers(0, 99))
def test_reconciling_ends_and_no_step_costs_the_majority(
    data: st.DataObject, nodes: list[Candidate], target: int, seed: int
) -> None:
    running = {each.id for each in nodes if each.is_running}
    gone = data.draw(st.frozensets(st.sampled_from([each.id for each in nodes])))
    for each in data.draw(groups_on(nodes, 3)):
        current = each
        for _ in range(20):
            step = reconciled(current, target, nodes, gone, Random(seed))
            if step is None:
                break
            assert len(set(step.members)) == len(step.members) > 0
            known = {each.id for each in nodes}
            before = [member for member in current.members if member in known]
            assert abs(len(step.members) - len(before)) <= 1
            assert set(step.members) <= known
            assert set(before) <= set(step.members) or set(step.members) <= set(before)
            online = frozenset(member for member in step.members if member in running)
            assert is_majority(online, step.members)
            current = GroupView(each.uid, "/", each.name, step.members, online, each.leader)
        else:
            raise AssertionError("it does not come to an end")
        assert current.members == each.members or current.has_majority


# Leaders


def test_leaders_are_balanced_within_one() -> None:
    nodes = [node(1), node(2), node(3)]
    groups = [group(uid, (1, 2, 3), leader=1) for uid in range(16, 26)]
    moves = rebalance(groups, nodes, 100)
    assert sorted(counts_of(leaders_after(groups, moves), nodes).values()) == [3, 3, 4]
    assert len(moves) == 6


def test_no_more_moves_are_planned_than_were_asked_for() -> None:
    nodes = [node(1), node(2), node(3)]
    groups = [group(uid, (1, 2, 3), leader=1) for uid in range(16, 26)]
    assert len(rebalance(groups, nodes, 2)) == 2
    assert rebalance(groups, nodes, 0) == []


def test_a_leader_moves_over_a_third_node_where_two_share_no_queue() -> None:
    nodes = [node(1), node(2), node(3)]
    groups = [group(uid, (1, 2), leader=1) for uid in (16, 17, 18)]
    groups.append(group(19, (2, 3), leader=2))
    moves = rebalance(groups, nodes, 100)
    leaders = leaders_after(groups, moves)
    assert sorted(counts_of(leaders, nodes).values()) == [1, 1, 2]


def test_no_leader_moves_to_a_node_that_is_down_or_drained() -> None:
    nodes = [node(1), node(2, running=False), node(3, draining=True)]
    groups = [group(uid, (1, 2, 3), leader=1, down=(2,)) for uid in range(16, 20)]
    assert rebalance(groups, nodes, 100) == []


@given(data=st.data(), nodes=clusters())
def test_after_rebalancing_no_leader_could_move_to_a_node_with_two_fewer(
    data: st.DataObject, nodes: list[Candidate]
) -> None:
    groups = data.draw(groups_on(nodes))
    moves = rebalance(groups, nodes, 1000)
    leaders = leaders_after(groups, moves)
    able = {each.id for each in nodes if each.is_eligible}
    by_uid = {each.uid: each for each in groups}
    for move in moves:
        assert move.target in able & by_uid[move.uid].online
    counts = counts_of(leaders, nodes)
    for each in groups:
        leader = leaders[each.uid]
        for member in each.online & able:
            if leader in counts and member != leader:
                assert counts[leader] - counts[member] < 2


def test_all_leaders_leave_a_node_that_is_drained_and_spread_over_the_others() -> None:
    nodes = [node(1, draining=True), node(2), node(3)]
    groups = [group(uid, (1, 2, 3), leader=1) for uid in range(16, 26)]
    groups.append(group(30, (1, 2, 3), leader=2))
    moves, stuck = moved_off(groups, nodes, 1)
    assert stuck == []
    counts = counts_of(leaders_after(groups, moves), nodes)
    assert counts[1] == 0
    assert abs(counts[2] - counts[3]) <= 1


def test_a_queue_that_nobody_else_could_lead_stays_on_the_drained_node() -> None:
    nodes = [node(1, draining=True), node(2, running=False), node(3)]
    groups = [group(16, (1, 2), leader=1, down=(2,)), group(17, (1, 3), leader=1)]
    assert moved_off(groups, nodes, 1) == ([Move(17, 1, 3)], [16])


def test_leaders_prefer_another_machine_than_the_drained_one() -> None:
    nodes = [node(1, "a", draining=True), node(2, "a"), node(3, "b")]
    assert moved_off([group(16, (1, 2, 3), leader=1)], nodes, 1) == ([Move(16, 1, 3)], [])


def test_ten_thousand_queues_are_planned_in_less_than_two_seconds() -> None:
    nodes = [node(number) for number in range(1, 6)]
    groups = [group(uid, (1, 2, 3), leader=1) for uid in range(16, 10_016)]
    began = perf_counter()
    moves = rebalance(groups, nodes, 10_000)
    assert perf_counter() - began < 2
    assert sorted(counts_of(leaders_after(groups, moves), nodes[:3]).values()) == [3333, 3333, 3334]
