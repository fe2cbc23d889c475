"""Range sets against plain sets."""

from hypothesis import given
from hypothesis import strategies as st

from warren.storage.ranges import RangeSet, runs_by_owners

pairs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)), max_size=12)


@given(pairs, pairs)
def test_missing_is_what_a_plain_set_lacks(
    added: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    ranges = RangeSet()
    plain: set[int] = set()
    for (first, count), (start, length) in zip(added, asked, strict=False):
        ranges.add(first, count)
        plain.update(range(first, first + count))
        found = ranges.missing(start, length)
        assert all(count > 0 for _, count in found)
        numbers = [seq for first, count in found for seq in range(first, first + count)]
        assert numbers == [seq for seq in range(start, start + length) if seq not in plain]


@given(pairs, pairs)
def test_a_union_has_what_either_set_has(
    ours: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    ranges, others, both = RangeSet(), RangeSet(), RangeSet()
    for target, added in ((ranges, ours), (others, theirs), (both, [*ours, *theirs])):
        for first, count in added:
            target.add(first, count)
    ranges.unite(others)
    assert ranges.missing(0, 70) == both.missing(0, 70)


@given(st.lists(st.sets(st.integers(0, 11)), min_size=1, max_size=3))
def test_runs_are_cut_where_the_holders_change(wanted: list[set[int]]) -> None:
    live = [
        (holder, [(place, 1) for place in sorted(places)])
        for holder, places in enumerate(wanted)
        if places
    ]
    seen: dict[int, list[int]] = {}
    for place, count, holders in runs_by_owners(12, live) if live else []:
        for at in range(place, place + count):
            assert at not in seen
            seen[at] = holders
    expected = {
        place: [holder for holder, places in enumerate(wanted) if place in places]
        for place in sorted(set().union(*wanted))
    }
    assert seen == expected


def test_neighbours_with_the_same_holders_are_one_run() -> None:
    live = [(0, [(0, 6)]), (1, [(2, 2)])]
    assert runs_by_owners(6, live) == [(0, 2, [0]), (2, 2, [0, 1]), (4, 2, [0])]
