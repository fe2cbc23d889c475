"""Numbers of a primary's messages and those of their copies, against a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from federation.standby_numbers import Numbers, Runs, slices

RUNS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 9)), max_size=6)
STEPS = st.lists(st.tuples(st.sampled_from(["note", "drop", "follow"]), RUNS), max_size=12)


def numbers_in(runs: Runs) -> list[int]:
    return [number for first, count in runs for number in range(first, first + count)]


def disjoint(runs: Runs) -> Runs:
    """The same numbers as ascending runs that do not touch."""
    found: Runs = []
    for number in sorted(set(numbers_in(runs))):
        if found and sum(found[-1]) == number:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found


@given(STEPS)
def test_it_is_a_map_from_numbers_there_to_numbers_here(steps: list[tuple[str, Runs]]) -> None:
    numbers, naive, here = Numbers(), dict[int, int](), 100
    for what, given_runs in steps:
        runs = disjoint(given_runs)
        if what == "note":
            for there in numbers_in(runs):
                here += 1
                assert numbers.note(there, here) is (there not in naive)
                naive.setdefault(there, here)
        elif what == "drop":
            dropped = numbers.drop(runs)
            assert numbers.segment_count <= numbers.held.count
            assert sorted(numbers_in(dropped)) == sorted(
                naive.pop(each) for each in numbers_in(runs) if each in naive
            )
        else:
            wanted = set(numbers_in(runs))
            assert numbers_in(numbers.missing(runs)) == sorted(wanted - naive.keys())
            assert numbers_in(numbers.surplus(runs)) == sorted(naive.keys() - wanted)
        assert numbers_in(numbers.held.runs()) == sorted(naive)


def test_messages_that_come_in_order_are_one_segment() -> None:
    numbers = Numbers()
    for number in range(1, 1001):
        numbers.note(number, 5000 + number)
    numbers.drop([(1, 10), (500, 2)])
    assert numbers.segment_count == 1
    assert numbers.drop([(499, 4)]) == [(5499, 1), (5502, 1)]


@given(RUNS, st.integers(1, 7))
def test_slices_have_all_messages_in_order_and_no_more_than_asked(runs: Runs, most: int) -> None:
    parts = list(slices(runs, most))
    assert [each for part in parts for each in numbers_in(part)] == numbers_in(runs)
    assert all(0 < len(numbers_in(part)) <= most for part in parts)
