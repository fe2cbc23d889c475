"""SeqSet against a Python set: members, runs, bytes, and the room its docstring promises."""

import random
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.runs.seqset import BLOCK_RUNS, SEQ_MAX, SeqSet
from tests.unit.queues.runs import runs_of

BOUNDED = settings(max_examples=250, deadline=None, database=None)
HIGHEST = 40
BYTES_PER_RUN = 24
BYTES_PER_RUN_LEFT = 30

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


def test_a_set_of_many_blocks_is_emptied_from_its_head() -> None:
    found = SeqSet()
    expected: set[int] = set()
    for seq in range(1, 9 * BLOCK_RUNS, 2):
        found.add(seq, 1)
        expected.add(seq)
    for seq in range(1, 7 * BLOCK_RUNS, 2):
        found.drop_head(1)
        expected.discard(seq)
        if seq % 31 == 0:
            check(found, expected)
    check(found, expected)
    assert found.remove(1, 10 * BLOCK_RUNS) == runs_of(expected)
    check(found, set())


@pytest.mark.parametrize("width", [1, 3, 5, 17, 40, BLOCK_RUNS, 3 * BLOCK_RUNS])
def test_a_window_of_runs_moves_on_for_long(width: int) -> None:
    found = SeqSet()
    for seq in range(2, 2 * width, 2):
        found.add(seq, 1)
    for seq in range(2 * width, 2 * width + 12 * BLOCK_RUNS, 2):
        found.add(seq, 1)
        found.drop_head(1)
        assert found.first() == seq - 2 * width + 4 if width > 1 else found.count == 0
        if seq % 14 == 0:
            assert found.runs() == [(left, 1) for left in range(seq - 2 * width + 4, seq + 2, 2)]


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


def test_an_empty_run_is_not_put_in() -> None:
    found = SeqSet()
    for count in (0, -1):
        with pytest.raises(AssertionError):
            found.add(3, count)
    assert found.runs() == []


def test_more_than_the_head_run_cannot_be_dropped_at_once() -> None:
    found = SeqSet()
    found.add(1, 2)
    found.add(4, 2)
    with pytest.raises(AssertionError):
        found.drop_head(3)


def test_an_emptied_set_has_no_first_no_last_and_no_head_to_drop() -> None:
    found = SeqSet()
    found.add(5, 2)
    found.drop_head(2)
    for ask in (found.first, found.last, found.head_run, lambda: found.drop_head(1)):
        with pytest.raises(AssertionError):
            ask()
    assert not found.contains(5)
    assert found.first_from(1) == -1
    assert found.runs_from(1, 9) == []
    assert found.within(1, 9) == []
    assert found.remove(1, 9) == []


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


# Sets of many blocks


def scattered(chosen: Iterable[int], count: int = 1) -> SeqSet:
    found = SeqSet()
    for seq in chosen:
        found.add(seq, count)
    return found


def shuffled(numbers: range, seed: int) -> list[int]:
    order = list(numbers)
    random.Random(seed).shuffle(order)
    return order


def in_gap(order: Iterable[int]) -> list[int]:
    """Numbers to be put in between a low and a high one."""
    return [1, 1_000_000, *order]


PATTERNS = {
    "ascending": range(3, 6_003, 2),
    "descending": range(6_003, 3, -2),
    "ascending in a gap": in_gap(range(3, 6_003, 2)),
    "descending in a gap": in_gap(range(6_003, 3, -2)),
    "from both sides of a gap": in_gap(
        seq for low in range(3, 3_003, 2) for seq in (low, 6_005 - low)
    ),
    "descending above full blocks": [
        *range(1, 8 * BLOCK_RUNS, 2),
        100_000,
        *range(16 * BLOCK_RUNS, 8 * BLOCK_RUNS, -2),
    ],
    "at random": shuffled(range(3, 6_003, 2), 1),
    "a far one between": [seq for low in range(3, 3_003, 2) for seq in (low, 100_000 - low)],
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_in_any_order_of_coming_a_run_takes_few_bytes(pattern: str) -> None:
    order = PATTERNS[pattern]
    tracemalloc.start()
    found = scattered(order)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert found.runs() == [(seq, 1) for seq in sorted(order)]
    assert used <= BYTES_PER_RUN * found.run_count() + 1_000


@pytest.mark.parametrize("kept", [2, 10, 100])
def test_what_is_left_of_a_large_set_takes_few_bytes_a_run_too(kept: int) -> None:
    order = shuffled(range(1, 12_001, 2), 2)
    tracemalloc.start()
    found = scattered(sorted(order))
    for seq in order[len(order) // kept :]:
        assert found.remove(seq, 1) == [(seq, 1)]
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert found.runs() == [(seq, 1) for seq in sorted(order[: len(order) // kept])]
    assert used <= BYTES_PER_RUN_LEFT * found.run_count() + 2_000


def kept_by_an_emptied_set(way: str) -> int:
    """Bytes."""
    tracemalloc.start()
    found = scattered(range(1, 8 * BLOCK_RUNS, 2))
    if way == "drop_head":
        while found.count > 0:
            found.drop_head(1)
    elif way == "remove":
        found.remove(1, 8 * BLOCK_RUNS)
    else:
        found.clear()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used


@pytest.mark.parametrize("way", ["drop_head", "remove", "clear"])
def test_an_emptied_set_keeps_no_room(way: str) -> None:
    # What other threads of the test runner allocate meanwhile is counted, too.
    assert min(kept_by_an_emptied_set(way) for _ in range(3)) <= 2_000


def test_a_quarter_of_a_million_single_messages_take_at_most_six_megabytes() -> None:
    tracemalloc.start()
    found = SeqSet()
    for seq in range(2, 500_002, 2):
        found.add(seq, 1)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert found.run_count() == 250_000
    assert used <= 6_000_000


@pytest.mark.parametrize("seed", range(4))
def test_a_set_that_grows_past_its_blocks_and_shrinks_again_holds_what_a_set_would(
    seed: int,
) -> None:
    chance = random.Random(seed)
    highest = 9 * BLOCK_RUNS
    found = SeqSet()
    expected: set[int] = set()
    for seq in shuffled(range(1, highest, 3), seed):
        found.add(seq, 1)
        expected.add(seq)
    check(found, expected)
    kinds = ["add", "remove", "add", "remove", "look", "walk", "drop_head", "split", "take"]
    for _ in range(250):
        kind = chance.choice(kinds)
        first = chance.randrange(1, highest if kind != "split" else 60)
        step(found, expected, (kind, first, chance.choice((1, 1, 2, 5, 40, 600))))
        check(found, expected)
    for seq in shuffled(range(1, highest + 600), seed):
        assert found.remove(seq, 1) == ([(seq, 1)] if seq in expected else [])
        expected.discard(seq)
        if seq % 32 == 0:
            check(found, expected)
    check(found, set())


def test_runs_that_come_to_touch_are_one_whatever_blocks_they_were_in() -> None:
    highest = 8 * BLOCK_RUNS
    found = scattered(range(1, highest + 1, 2))
    expected = set(range(1, highest + 1, 2))
    for seq in shuffled(range(2, highest + 1, 2), 3):
        found.add(seq, 1)
        expected.add(seq)
        if seq % 8 == 0:
            check(found, expected)
    assert found.runs() == [(1, highest)]


def test_runs_that_are_cut_in_two_stay_in_order_in_full_blocks() -> None:
    found = scattered(range(1, 30 * BLOCK_RUNS, 10), 9)
    expected = {seq for first in range(1, 30 * BLOCK_RUNS, 10) for seq in range(first, first + 9)}
    for first in shuffled(range(1, 30 * BLOCK_RUNS, 10), 4):
        assert found.remove(first + 3, 2) == [(first + 3, 2)]
        expected -= {first + 3, first + 4}
        if first % 40 == 1:
            check(found, expected)
    check(found, expected)


EDGES = [
    seq + by
    for seq in (1, 4 * BLOCK_RUNS + 1, 8 * BLOCK_RUNS + 1, 12 * BLOCK_RUNS + 1)
    for by in (-3, -1, 0, 1, 2)
]


@pytest.mark.parametrize("first", EDGES)
def test_wide_ranges_go_at_the_edges_of_blocks(first: int) -> None:
    whole = {seq + by for seq in range(1, 12 * BLOCK_RUNS, 4) for by in (0, 1)}
    encoded = scattered(range(1, 12 * BLOCK_RUNS, 4), 2).encode()
    for end in (edge for edge in EDGES if edge >= first):
        found = SeqSet.decode(encoded)
        named = set(range(first, end))
        assert found.within(first, end - first) == runs_of(whole & named)
        assert found.remove(first, end - first) == runs_of(whole & named)
        check(found, whole - named)
        if first + 2 < end:
            found.add(first, end - first)
            check(found, whole | named)


def test_a_large_set_may_be_split_anywhere() -> None:
    whole = {seq + by for seq in range(1, 12 * BLOCK_RUNS, 4) for by in (0, 1)}
    encoded = scattered(range(1, 12 * BLOCK_RUNS, 4), 2).encode()
    for seq in [*EDGES, *range(0, 13 * BLOCK_RUNS, 61)]:
        found = SeqSet.decode(encoded)
        lower = found.split_below(seq)
        check(lower, {member for member in whole if member < seq})
        check(found, {member for member in whole if member >= seq})
        lower.add(20 * BLOCK_RUNS, 1)
        found.add(20 * BLOCK_RUNS, 1)
        assert lower.last() == found.last()


def test_a_cleared_large_set_may_be_used_again() -> None:
    found = scattered(range(1, 8 * BLOCK_RUNS, 2))
    found.clear()
    check(found, set())
    for seq in (9, 1, 5):
        found.add(seq, 1)
    check(found, {1, 5, 9})


def test_adding_a_member_again_is_an_error_at_the_edges_of_blocks_too() -> None:
    edge = 2 * BLOCK_RUNS + 1
    for first, count in ((edge - 2, 1), (edge, 1), (edge - 1, 2), (edge + 1, 2), (edge + 1, 99)):
        found = scattered(range(1, 8 * BLOCK_RUNS, 2))
        with pytest.raises(AssertionError):
            found.add(first, count)


# As bytes


def test_the_encoding_is_what_it_was() -> None:
    found = SeqSet()
    assert found.encode() == b"\x00"
    for first, count in ((1, 1), (3, 127), (258, 128), (100_000, 3)):
        found.add(first, count)
    assert found.encode().hex(" ") == "04 01 01 01 7f 80 01 80 01 9e 8a 06 03"
    assert SeqSet.decode(found.encode()).runs() == found.runs()


@BOUNDED
@given(st.sets(st.integers(1, 400)))
def test_what_is_decoded_is_what_was_encoded(members: set[int]) -> None:
    found = SeqSet()
    for first, count in runs_of(members):
        found.add(first, count)
    check(SeqSet.decode(found.encode()), members)


@BOUNDED
@given(st.binary(max_size=14))
def test_any_bytes_are_refused_or_are_the_encoding_of_what_they_give(encoded: bytes) -> None:
    try:
        found = SeqSet.decode(encoded)
    except ValueError:
        return
    assert found.encode() == encoded


def test_the_highest_numbers_are_encoded_too() -> None:
    found = SeqSet()
    found.add(1, 1)
    found.add(SEQ_MAX - 2, 2)
    assert SeqSet.decode(found.encode()).runs() == [(1, 1), (SEQ_MAX - 2, 2)]


def test_a_cut_encoding_is_refused_wherever_it_is_cut() -> None:
    encoded = scattered(range(5, 100_000, 5_003), 200).encode()
    for length in range(len(encoded)):
        with pytest.raises(ValueError, match="cut off"):
            SeqSet.decode(encoded[:length])


MALFORMED = {
    "more than was announced": "01 01 01 01",
    "a gap of nothing": "02 01 01 00 01",
    "zero as a member": "01 00 01",
    "a run of nothing": "01 01 00",
    "a number that is longer than need be": "01 81 00 01",
    "zero in two bytes": "80 00",
    "a number of ten bytes": "01 ff ff ff ff ff ff ff ff ff 01 01",
    "a run past the highest number": "01 02 ff ff ff ff ff ff ff ff 7f",
    "a gap past the highest number": "02 01 01 ff ff ff ff ff ff ff ff 7f 01",
    "more runs than any bytes hold": "ff ff ff ff ff ff ff ff 7f",
}


@pytest.mark.parametrize("wrong", MALFORMED)
def test_malformed_bytes_are_refused(wrong: str) -> None:
    with pytest.raises(ValueError):
        SeqSet.decode(bytes.fromhex(MALFORMED[wrong]))


def set_of(members: set[int]) -> SeqSet:
    made = SeqSet()
    for member in sorted(members):
        made.add(member, 1)
    return made


MEMBERS = st.sets(st.integers(1, 400), max_size=200)


@BOUNDED
@given(MEMBERS, MEMBERS, st.booleans(), st.integers(500, 600))
def test_two_sets_become_one_whichever_has_more_runs(
    some: set[int], others: set[int], shared: bool, more: int
) -> None:
    joined, united = set_of(some - others), set_of(some)
    used = set_of(others)
    kept = used.copy() if shared else SeqSet()
    united.unite(used.copy())
    joined.join(used)
    for made in (joined, united):
        made.add(more, 1)  # It goes on as any other.
        members = sorted((some | others) | {more})
        assert [seq for first, count in made.runs() for seq in range(first, first + count)] == (
            members
        )
        assert made.count == len(members)
        assert made.encode() == set_of(set(members)).encode()
    if shared:
        assert kept.encode() == set_of(others).encode()


def test_of_two_sets_only_the_runs_of_the_smaller_are_gone_through() -> None:
    few, many = SeqSet(), SeqSet()
    few.add(10_000_000, 1_000_000)
    for seq in range(1, 400_000, 2):
        many.add(seq, 1)
    blocks = many.copy()
    few.join(many)
    assert (few.count, few.run_count()) == (1_200_000, 200_001)
    assert many.count == 1_000_000  # It was the one that was gone through.
    assert blocks.count == 200_000
