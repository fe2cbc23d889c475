"""Batches of a lease: which numbers may be filled, and which messages a part of a batch has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.leases.batches import Batch, Batches, HeldRun, OutOfOrder, Room


def batch(number: int, count: int = 1, size: int = 10) -> Batch:
    made = Batch(number)
    made.add([HeldRun(100 * number, count, False, 0)], size)
    return made


@given(
    st.lists(st.integers(1, 5), max_size=6),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_a_part_has_the_messages_at_its_places(counts: list[int], first: int, count: int) -> None:
    made, at = Batch(1), 1
    for length in counts:
        made.add([HeldRun(at, length, length % 2 == 0, length)], 0)
        at += length + 3
    every = [(run.first + n, run.attempts) for run in made.runs for n in range(run.count)]
    found = made.part(first, count)
    assert [(run.first + n, run.attempts) for run in found for n in range(run.count)] == (
        every[first : first + count]
    )
    assert all(run.count > 0 and run.is_redelivered == (run.attempts % 2 == 0) for run in found)


def test_the_numbers_of_batches_rise() -> None:
    batches = Batches(Room(100, 1000))
    assert batches.find(7) is None
    batches.add(batch(7))
    batches.add(batch(9))
    seven = batches.find(7)
    assert seven is not None and seven.number == 7
    for number in (1, 8):
        with pytest.raises(OutOfOrder, match="the newest one is 9, and held are 7, 9; allowed"):
            batches.find(number)
    assert [each.number for each in batches.take_upto(8)] == [7]
    with pytest.raises(OutOfOrder):
        batches.find(7)
    assert batches.take_upto(20) != [] and batches.take_upto(20) == []
    with pytest.raises(OutOfOrder, match=r"batch 15 is out of order: .* held are none"):
        batches.find(15)
    assert batches.find(21) is None


def test_a_batch_has_half_of_the_room() -> None:
    batches = Batches(Room(11, 1000))
    assert batches.room() == Room(6, 500)
    batches.add(batch(1, 6, 600))
    assert batches.room() == Room(5, 400)
    batches.add(batch(2, 5, 500))
    assert batches.room() == Room(0, 0)
    batches.take_upto(1)
    assert (batches.count, batches.size_bytes) == (5, 500)
    assert batches.room() == Room(6, 500)
