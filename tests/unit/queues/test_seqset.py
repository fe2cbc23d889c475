"""SeqSet against a Python set: members, runs, and the shape that its docstring promises."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.seqset import HEAD_SLACK, SeqSet
from tests.unit.queues.runs import runs_of

BOUNDED = settings(max_examples=250, deadline=None, database=None)
HIGHEST = 40

Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "add", "remove", "drop_head", "look", "walk", "split", "take", "clear"]
        ),
        st.integers(1, HIGHEST),
        st.integers(0, 12),
    ),
    max_size=40,
)


def check(found: SeqSet, expected: set[int]) -> None:
    assert found.runs() == runs_of(expected)
    assert found.count == len(expected)
    assert found.run_count() == len(runs_of(expected))
    if expected:
        assert found.first() == min(expected)
        assert found.last() == max(expected)
        assert found.head_run() == runs_of(expected)[0][1]


def step(found: SeqSet, expected: set[int], action: Action) -> None:
    kind, first, count = action
    named = set(range(first, first + count))
    if kind == "add":
        for run_first, run_count in runs_of(named - expected):
            found.add(run_first, run_count)
        expected |= named
    elif kind == "remove":
        assert found.remove(first, count) == runs_of(named & expected)
        expected -= named
    elif kind == "drop_head" and expected:
        length = runs_of(expected)[0][1]
        dropped = 1 + count % length
        lowest = min(expected)
        found.drop_head(dropped)
        expected -= set(range(lowest, lowest + dropped))
    elif kind == "look":
        assert found.within(first, count) == runs_of(named & expected)
        assert found.contains(first) == (first in expected)
    elif kind == "walk":
        higher = {seq for seq in expected if seq >= first}
        assert found.runs_from(first, count) == runs_of(higher)[:count]
        assert found.first_from(first) == min(higher, default=-1)
    elif kind == "split":
        lower = {seq for seq in expected if seq < first}
        check(found.split_below(first), lower)
        expected -= lower
    elif kind == "take":
        lowest_ones = set(sorted(expected)[:count])
        check(found.take_head(count), lowest_ones)
        expected -= lowest_ones
    elif kind == "clear" and count == 0:
        found.clear()
        expected.clear()


@BOUNDED
@given(ACTIONS)
def test_it_holds_what_a_set_would_hold(actions: list[Action]) -> None:
    found = SeqSet()
    expected: set[int] = set()
    for action in actions:
        step(found, expected, action)
        check(found, expected)


def test_a_first_in_first_out_queue_is_one_run_however_long() -> None:
    found = SeqSet()
    for seq in range(1, 5_001, 10):
        found.add(seq, 10)
    assert found.runs() == [(1, 5_000)]
    found.drop_head(4_999)
    assert found.runs() == [(5_000, 1)]


def test_removed_heads_are_cut_off_and_the_rest_stays_right() -> None:
    found = SeqSet()
    expected: set[int] = set()
    for seq in range(1, 4 * HEAD_SLACK, 2):
        found.add(seq, 1)
        expected.add(seq)
    for seq in range(1, 3 * HEAD_SLACK, 2):
        found.drop_head(1)
        expected.discard(seq)
        if seq % 101 == 0:
            check(found, expected)
    check(found, expected)
    assert found.remove(1, 5 * HEAD_SLACK) == runs_of(expected)
    assert found.runs() == []


def test_what_is_returned_before_a_moved_head_comes_first_again() -> None:
    found = SeqSet()
    for seq in (1, 3, 5, 7):
        found.add(seq, 1)
    for _ in range(3):
        found.drop_head(1)
    found.add(5, 1)
    found.add(1, 1)
    assert found.runs() == [(1, 1), (5, 1), (7, 1)]
    assert found.remove(5, 1) == [(5, 1)]
    found.add(2, 5)
    assert found.runs() == [(1, 7)]


def test_adding_a_member_again_is_an_error_and_not_a_double() -> None:
    for first, count in ((3, 1), (1, 3), (4, 4)):
        found = SeqSet()
        found.add(3, 2)
        found.add(9, 1)
        with pytest.raises(AssertionError):
            found.add(first, count)


def test_more_than_the_head_run_cannot_be_dropped_at_once() -> None:
    found = SeqSet()
    found.add(1, 2)
    found.add(4, 2)
    with pytest.raises(AssertionError):
        found.drop_head(3)


def test_what_is_split_off_and_what_stays_are_both_whole_sets() -> None:
    found = SeqSet()
    for seq in range(1, 40, 4):
        found.add(seq, 2)
    lower = found.split_below(18)
    assert lower.runs() == [(1, 2), (5, 2), (9, 2), (13, 2), (17, 1)]
    assert found.runs() == [(18, 1), (21, 2), (25, 2), (29, 2), (33, 2), (37, 2)]
    lower.add(18, 3)
    found.add(17, 1)
    assert lower.last() == 20
    assert found.first() == 17


def test_a_split_below_the_first_member_or_of_nothing_takes_nothing() -> None:
    found = SeqSet()
    assert found.split_below(7).runs() == []
    assert found.take_head(7).runs() == []
    found.add(7, 3)
    assert found.split_below(7).runs() == []
    assert found.take_head(0).runs() == []
    assert found.take_head(-1).runs() == []
    assert found.runs() == [(7, 3)]
    assert found.split_below(100).runs() == [(7, 3)]
    assert found.count == 0


def test_a_walk_in_slices_meets_every_member_once() -> None:
    found = SeqSet()
    for seq in range(3, 3_000, 3):
        found.add(seq, 1 + seq % 2)
    met: list[tuple[int, int]] = []
    place = 0
    while True:
        part = found.runs_from(place, 7)
        met += part
        if len(part) < 7:
            break
        place = part[-1][0] + part[-1][1]
    assert met == found.runs()


def test_a_walk_may_begin_inside_a_run_in_a_gap_or_past_the_end() -> None:
    found = SeqSet()
    found.add(4, 3)
    found.add(10, 2)
    assert found.runs_from(5, 9) == [(5, 2), (10, 2)]
    assert found.runs_from(7, 9) == [(10, 2)]
    assert found.runs_from(12, 9) == []
    assert [found.first_from(seq) for seq in (1, 5, 7, 12)] == [4, 5, 10, -1]


def test_a_slice_of_the_head_may_end_inside_a_run() -> None:
    found = SeqSet()
    found.add(1, 2)
    found.add(10, 5)
    assert found.take_head(4).runs() == [(1, 2), (10, 2)]
    assert found.runs() == [(12, 3)]
    assert found.take_head(99).runs() == [(12, 3)]
    assert found.count == 0
