"""Open proposals: runs of places against a list of them."""

from hypothesis import given
from hypothesis import strategies as st

from raft.proposals import Proposals


def test_nothing_is_open_at_first() -> None:
    proposals = Proposals()
    assert proposals.head() is None
    assert proposals.count() == 0
    assert proposals.are_all_of(7)


def test_a_proposal_that_is_opened_while_a_part_is_taken_is_behind_what_is_left() -> None:
    proposals = Proposals()
    for index in (4, 5, 6):
        proposals.open(index, 2)
    taken = proposals.take(5)
    proposals.open(7, 2)
    head = proposals.head()
    assert head is not None
    assert (taken.first, taken.last, taken.term) == (4, 5, 2)
    assert (head.first, head.last, head.term) == (6, 7, 2)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=20),
    st.lists(st.integers(0, 9), max_size=20),
)
def test_places_leave_as_they_came_in_runs_of_one_term_without_holes(
    steps: list[tuple[int, int]], takes: list[int]
) -> None:
    proposals = Proposals()
    places: list[tuple[int, int]] = []
    index, term = 1, 1
    for skipped, newer in steps:
        index += 1 + skipped
        term += newer
        proposals.open(index, term)
        places.append((index, term))
    for ahead in takes:
        assert proposals.count() == len(places)
        assert proposals.are_all_of(term) == all(place[1] == term for place in places)
        head = proposals.head()
        if head is None:
            break
        taken = proposals.take(head.first + ahead)
        found = [(each, taken.term) for each in range(taken.first, taken.last + 1)]
        assert found == places[: len(found)]
        places = places[len(found) :]
        is_cut = taken.last == taken.first + ahead
        goes_on = bool(places) and places[0] == (taken.last + 1, taken.term)
        assert is_cut or not goes_on
