"""Holes against a list of sizes and a set of what is gone."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.bodies.extents import encode_table
from queues.bodies.holes import KINDS_MAX, SHORT_MAX, Holes, Sizes
from queues.message import FORMAT_091, Chunk
from tests.unit.queues.messages import table

BOUNDED = settings(max_examples=200, deadline=None, database=None)
FEW = st.integers(1, 16).flatmap(
    lambda kinds: st.lists(st.sampled_from([100 * kind + 7 for kind in range(kinds)]), min_size=1)
)
MANY = st.lists(st.integers(1, 1 << 30), min_size=1, max_size=60)
SHORT = st.lists(st.integers(1, SHORT_MAX + 1), min_size=1, max_size=60)


def packed(sizes: list[int]) -> bytes:
    return struct.pack(f"<{len(sizes)}I", *sizes)


@BOUNDED
@given(st.one_of(FEW, SHORT, MANY), st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20))))
def test_sizes_and_what_is_gone_are_those_of_a_plain_list(
    sizes: list[int], cuts: list[tuple[int, int]]
) -> None:
    told = Sizes(packed(sizes))
    holes = Holes(len(sizes))
    gone: set[int] = set()
    for first, count in cuts:
        for index in range(first, min(first + count, len(sizes))):
            if index not in gone:
                holes.dig(index, index + 1)
                gone.add(index)
    assert [told.size_of(index) for index in range(len(sizes))] == sizes
    for first in range(0, len(sizes) + 1, 5):
        for last in range(first, len(sizes) + 1, 3):
            assert told.bytes_between(first, last) == sum(sizes[first:last])
            left = set(range(first, last)) - gone
            assert holes.live_between(first, last) == len(left)


@pytest.mark.parametrize("kinds", [1, 2, 3, 4, 5, KINDS_MAX, KINDS_MAX + 1])
def test_any_number_of_different_sizes_is_told_exactly(kinds: int) -> None:
    sizes = [1000 + place * place % kinds for place in range(3 * kinds)]
    sizes += [1000 + place for place in range(kinds)]
    told = Sizes(packed(sizes))
    assert [told.size_of(index) for index in range(len(sizes))] == sizes


def test_a_run_goes_at_once_and_none_of_it_goes_again() -> None:
    holes = Holes(20)
    holes.dig(3, 18)
    assert holes.live_between(0, 20) == 5
    with pytest.raises(AssertionError, match="twice"):
        holes.dig(17, 19)


@BOUNDED
@given(st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=5), min_size=1, max_size=20))
def test_the_sizes_in_a_table_are_those_of_its_chunks(rows: list[list[int]]) -> None:
    chunks = []
    for number, sizes in enumerate(rows):
        chunk = Chunk(FORMAT_091, None, 0, table([bytes(size) for size in sizes], 9), 1)
        chunk.file_id = 1
        chunk.file_offset = 10_000 * number
        chunks.append(chunk)
    made = encode_table(chunks, [0] * len(rows), [len(sizes) for sizes in rows], False)
    wanted = [size for sizes in rows for size in sizes]
    told = [made.sizes.size_of(index) for index in range(len(wanted))]
    assert (told, made.sizes.bytes_between(0, len(wanted))) == (wanted, sum(wanted))


@pytest.mark.parametrize(
    ("sizes", "bits"),
    [
        ([300] * 40, 0),
        ([300, 301] * 20, 1),
        (list(range(5, 45)), 16),
        (list(range(SHORT_MAX - 39, SHORT_MAX + 1)), 16),
        (list(range(SHORT_MAX - 38, SHORT_MAX + 2)), 32),
    ],
)
def test_sizes_take_as_few_bits_as_they_differ(sizes: list[int], bits: int) -> None:
    told = Sizes(packed(sizes))
    assert told.bits == bits
    assert [told.size_of(index) for index in range(len(sizes))] == sizes
