"""Messages by level, against a dict of level by message."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.machine.ready import Ready, alike
from queues.runs.seqset import SeqSet
from tests.unit.queues.runs import seqs_of

BOUNDED = settings(max_examples=200, deadline=None, database=None)
LEVELS = 4
ADDS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, LEVELS - 1)), max_size=12)
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["head", "lowest", "remove", "split", "all", "back"]),
        st.integers(1, 30),
        st.integers(1, 9),
    ),
    max_size=25,
)


def check(ready: Ready, levels: dict[int, int]) -> None:
    assert ready.count == len(levels)
    assert seqs_of(ready.runs()) == sorted(levels)
    for level, lane in enumerate(ready.lanes):
        assert seqs_of(lane.runs()) == sorted(seq for seq in levels if levels[seq] == level)
    assert ready.oldest() == min(levels, default=0)
    assert seqs_of(ready.within(3, 9)) == sorted(seq for seq in levels if 3 <= seq < 12)
    if levels:
        first = min(levels, key=lambda seq: (-levels[seq], seq))
        assert ready.first() == first
        run = ready.head_run()
        assert all(levels.get(first + i) == levels[first] for i in range(run))
        assert levels.get(first + run) != levels[first]
        lowest = min(levels.values())
        assert ready.lowest_lane().first() == min(s for s in levels if levels[s] == lowest)


def act(ready: Ready, levels: dict[int, int], kind: str, first: int, count: int) -> set[int]:
    """One change; what it took out, which both must agree on."""
    if kind == "head":
        start, run = ready.first(), min(count, ready.head_run())
        ready.drop_head(run)
        return set(range(start, start + run))
    if kind == "lowest":
        lane = ready.lowest_lane()
        start, run = lane.first(), min(count, lane.head_run())
        ready.drop_lowest(run)
        return set(range(start, start + run))
    if kind == "remove":
        taken = set(seqs_of(ready.remove(first, count)))
        assert taken == {seq for seq in levels if first <= seq < first + count}
        return taken
    if kind == "split":
        parts = ready.split_below(first)
        taken = {seq for part in parts for seq in seqs_of(part.runs())}
        assert taken == {seq for seq in levels if seq < first}
        assert len(parts) == len({levels[seq] for seq in taken})
        return taken
    parts = ready.take_all()
    taken = {seq for part in parts for seq in seqs_of(part.runs())}
    assert taken == set(levels)
    return taken


@BOUNDED
@given(ADDS, ACTS)
def test_it_does_what_a_dict_of_levels_does(
    adds: list[tuple[int, int]], acts: list[tuple[str, int, int]]
) -> None:
    ready, levels, known = Ready(LEVELS), dict[int, int](), dict[int, int]()
    for count, level in adds:
        first = len(known) + 1
        ready.add(first, count, level)
        known.update(dict.fromkeys(range(first, first + count), level))
    levels.update(known)
    check(ready, levels)
    for kind, first, count in acts:
        if kind == "back":
            for seq in range(first, first + count):
                if seq in known and seq not in levels:
                    ready.add(seq, 1, known[seq])
                    levels[seq] = known[seq]
        elif levels:
            for seq in act(ready, levels, kind, first, count):
                del levels[seq]
        check(ready, levels)


def test_an_empty_one_has_nothing_to_lose() -> None:
    ready = Ready(3)
    assert (ready.oldest(), ready.runs(), ready.take_all(), ready.split_below(9)) == (0, [], [], [])
    with pytest.raises(AssertionError):
        ready.lowest_lane()


def test_marks_say_how_far_messages_are_alike() -> None:
    marks = SeqSet()
    marks.add(3, 2)
    marks.add(7, 1)
    assert alike(marks, 1, 10) == (2, False)
    assert alike(marks, 3, 10) == (2, True)
    assert alike(marks, 4, 1) == (1, True)
    assert alike(marks, 5, 1) == (1, False)
    assert alike(marks, 8, 5) == (5, False)
