"""Packed runs against a list of runs."""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.runs.packed_runs import PackedRuns

BOUNDED = settings(max_examples=300, deadline=None, database=None)
SEQS = st.one_of(st.integers(0, 200), st.integers(0, 1 << 40), st.integers(0, (1 << 62) - 1))
COUNTS = st.one_of(st.just(1), st.integers(1, 300), st.integers(1, 1 << 61))
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), SEQS, COUNTS),
        st.tuples(st.just("go on"), st.integers(0, 3), COUNTS),
        st.tuples(st.just("take"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("trim"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@BOUNDED
@given(ACTIONS)
def test_runs_come_out_as_they_went_in(actions: list[tuple[str, int, int]]) -> None:
    packed = PackedRuns()
    naive: deque[tuple[int, int]] = deque()
    end = 0
    for kind, number, count in actions:
        if kind in ("add", "go on"):
            first = number if kind == "add" else min(end + number, (1 << 62) - 1)
            packed.add(first, count)
            if naive and sum(naive[-1]) == first:
                naive[-1] = (naive[-1][0], naive[-1][1] + count)
            else:
                naive.append((first, count))
            end = first + count
        elif kind == "take":
            wanted = [naive.popleft() for _ in range(min(number, len(naive)))]
            assert packed.take(number) == wanted
        else:
            packed.trim()
        assert packed.run_count == len(naive)
        assert packed.runs() == list(naive)
    assert packed.take(1 << 30) == list(naive)
    assert packed.runs() == []


def test_many_single_messages_that_lie_apart_are_still_in_order_after_growing_and_trimming() -> (
    None
):
    packed = PackedRuns()
    wanted = [(41 * number, 1) for number in range(5000)]
    for first, count in wanted:
        packed.add(first, count)
    assert packed.take(4900) == wanted[:4900]
    packed.trim()
    packed.add(7, 2)
    assert packed.runs() == [*wanted[4900:], (7, 2)]


def test_a_copy_stays_as_it_is() -> None:
    packed = PackedRuns()
    for number in range(50):
        packed.add(9 * number, 1)
    packed.take(10)
    wanted = packed.runs()
    copy = packed.copy()
    packed.take(20)
    for number in range(50, 200):
        packed.add(9 * number, 2)
    packed.trim()
    assert copy.run_count == len(wanted)
    assert copy.take(1000) == wanted
