"""Numbers per message, against a dict."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.runs.columns import BLOCK, Column
from tests.unit.queues.runs import runs_of

BOUNDED = settings(max_examples=150, deadline=None, database=None)
FILLS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 900), st.integers(0, 2)), max_size=15)


def filled(column: Column, fills: list[tuple[int, int, int]]) -> dict[int, int]:
    """Runs of messages with gaps between them; what each has."""
    numbers: dict[int, int] = {}
    at = BLOCK - 3
    for gap, count, value in fills:
        at += gap
        column.fill(at, count, value)
        numbers.update(dict.fromkeys(range(at, at + count), value))
        at += count
    return numbers


@BOUNDED
@given(FILLS)
def test_each_message_has_the_number_that_it_came_with(fills: list[tuple[int, int, int]]) -> None:
    column = Column("i")
    numbers = filled(column, fills)
    assert {seq: column.get(seq) for seq in numbers} == numbers
    for first, count in runs_of(list(numbers)):
        assert column.sum(first, count) == sum(numbers[first + i] for i in range(count))
        for start in {first, first + count // 2, first + count - 1}:
            length = first + count - start
            alike = next((i for i in range(length) if numbers[start + i] != numbers[start]), length)
            assert column.alike(start, length) == alike


@BOUNDED
@given(FILLS, st.integers(2, 5))
def test_blocks_go_with_their_last_message_and_not_before(
    fills: list[tuple[int, int, int]], every: int
) -> None:
    column = Column("B")
    numbers = filled(column, fills)
    blocks = {seq // BLOCK for seq in numbers}
    assert column.block_count() == len(blocks)
    for seq in [seq for seq in numbers if seq % every == 0]:
        column.release(seq, 1)
        del numbers[seq]
    assert {seq: column.get(seq) for seq in numbers} == numbers
    for first, count in runs_of(list(numbers)):
        column.release(first, count)
    assert column.block_count() == 0


def test_numbers_that_are_all_the_same_take_a_block_without_an_array() -> None:
    column = Column("i")
    column.fill(1, 10 * BLOCK, 7)
    assert column.block_count() == 11
    assert column.alike(1, 10 * BLOCK) == 10 * BLOCK
    assert column.sum(5, 3 * BLOCK) == 21 * BLOCK


def test_a_block_keeps_what_it_had_when_another_number_comes_in() -> None:
    column = Column("B")
    column.fill(BLOCK, 3, 9)
    column.fill(BLOCK + 3, 2, 4)
    assert [column.get(BLOCK + i) for i in range(5)] == [9, 9, 9, 4, 4]
    column.fill(BLOCK + 5, 1, 9)
    assert column.alike(BLOCK + 5, 1) == 1


def test_the_extremes_of_each_kind_fit() -> None:
    levels, sizes = Column("B"), Column("i")
    for place, (column, most) in enumerate(((levels, 255), (sizes, (1 << 31) - 1))):
        column.fill(1, 1, 0)
        column.fill(2, 1, most)
        assert column.get(2) == most, place


def test_a_message_that_never_came_has_no_number() -> None:
    with pytest.raises(KeyError):
        Column("B").get(5)
