"""Copies of a machine's parts: each stays as it was, whatever becomes of the others."""

from random import Random

import pytest

from queues.machine.consuming.checked_out import Row, Rows
from queues.machine.expiry import Calendar
from queues.runs.columns import BLOCK, Column, Sparse
from queues.runs.seqset import BLOCK_RUNS, SeqSet
from tests.unit.queues.runs import runs_of

HIGHEST = 12 * BLOCK_RUNS


def change(lots: Random, seqs: SeqSet, expected: set[int]) -> None:
    """One of the ways in which a set becomes another one."""
    first = lots.randrange(1, HIGHEST)
    count = lots.choice((1, 1, 1, 2, 40, HIGHEST // 3))
    named = set(range(first, first + count))
    lot = lots.random()
    if lot < 0.35:
        for run_first, run_count in runs_of(named - expected):
            seqs.add(run_first, run_count)
        expected |= named
    elif lot < 0.4:
        last = max(expected, default=0)
        seqs.add(last + 2, 1)
        expected.add(last + 2)
    elif lot < 0.7:
        assert seqs.remove(first, count) == runs_of(named & expected)
        expected -= named
    elif lot < 0.8 and expected:
        lowest = min(expected)
        seqs.drop_head(1)
        expected.discard(lowest)
    elif lot < 0.87:
        lower = {seq for seq in expected if seq < first}
        assert seqs.split_below(first).runs() == runs_of(lower)
        expected -= lower
    elif lot < 0.94:
        lower = set(sorted(expected)[:count])
        assert seqs.take_head(count).runs() == runs_of(lower)
        expected -= lower
    elif lot < 0.96:
        seqs.clear()
        expected.clear()


def scattered(lots: Random) -> tuple[SeqSet, set[int]]:
    """A set of several blocks."""
    seqs = SeqSet()
    expected = set(lots.sample(range(1, HIGHEST), lots.choice((0, 5, HIGHEST // 3))))
    for first, count in runs_of(expected):
        seqs.add(first, count)
    return seqs, expected


@pytest.mark.parametrize("seed", range(30))
def test_a_set_and_its_copies_change_without_each_other(seed: int) -> None:
    lots = Random(seed)
    sets = [scattered(lots)]
    for _ in range(60):
        seqs, expected = lots.choice(sets)
        if lots.random() < 0.3 and len(sets) < 5:
            sets.append((seqs.copy(), set(expected)))
        else:
            change(lots, seqs, expected)
        for seqs, expected in sets:
            assert seqs.runs() == runs_of(expected)
            assert seqs.count == len(expected)
            if expected:
                assert (seqs.first(), seqs.last()) == (min(expected), max(expected))


@pytest.mark.parametrize("limit", [1, 3, BLOCK_RUNS, 10_000])
def test_a_set_is_encoded_part_by_part_and_put_together_again(limit: int) -> None:
    seqs, _ = scattered(Random(5))
    for wanted in (seqs, SeqSet()):
        made = SeqSet()
        at = 1
        while at >= 0:
            encoded, at = wanted.encode_from(at, limit)
            part = SeqSet.decode(encoded)
            assert part.run_count() <= limit
            assert made.append_encoded(encoded, HIGHEST + 10) == part.count
        assert made.runs() == wanted.runs()


def test_what_comes_before_the_end_of_a_set_or_reaches_too_far_is_not_put_in() -> None:
    whole = SeqSet()
    whole.add(5, 3)
    encoded = whole.encode()
    seqs = SeqSet()
    seqs.add(5, 1)
    with pytest.raises(ValueError, match="early"):
        seqs.append_encoded(encoded, 100)
    with pytest.raises(ValueError, match="highest"):
        SeqSet().append_encoded(encoded, 7)
    assert SeqSet().append_encoded(encoded, 8) == 3


def test_a_column_s_copy_knows_messages_that_are_gone_and_none_that_are_new() -> None:
    column = Column("i")
    column.fill(1, BLOCK, 7)
    column.fill(BLOCK + 1, 3, 8)
    copy = column.copy()
    column.fill(BLOCK + 4, 9, 1)
    column.release(1, BLOCK)
    assert [copy.get(seq) for seq in (1, BLOCK, BLOCK + 1, BLOCK + 3)] == [7, 7, 8, 8]
    assert copy.alike(1, BLOCK + 3) == BLOCK


@pytest.mark.parametrize("seed", range(10))
def test_numbers_of_some_messages_change_without_their_copies(seed: int) -> None:
    lots = Random(seed)
    known: list[tuple[Sparse, dict[int, int]]] = [(Sparse(), {})]
    for _ in range(300):
        numbers, expected = lots.choice(known)
        seq = lots.choice((1, 5, BLOCK - 1, BLOCK, 3 * BLOCK + 7)) + lots.randrange(3)
        lot = lots.random()
        if lot < 0.5:
            number = lots.randrange(1, 99)
            numbers.put(seq, number)
            expected[seq] = number
        elif lot < 0.7:
            assert numbers.take(seq) == expected.pop(seq, 0)
        elif lot < 0.8:
            count = lots.choice((1, 5, 3 * BLOCK))
            numbers.forget(seq, count)
            for each in [each for each in expected if seq <= each < seq + count]:
                del expected[each]
        elif lot < 0.9 and len(known) < 5:
            known.append((numbers.copy(), dict(expected)))
        assert numbers.get(seq) == expected.get(seq, 0)
        for numbers, expected in known:
            assert numbers.items() == sorted(expected.items())
            assert numbers.count == len(expected)


def test_numbers_of_a_part_that_went_and_came_again_are_no_longer_those_of_the_copy() -> None:
    numbers = Sparse()
    numbers.put(3, 1)
    copy = numbers.copy()
    numbers.take(3)
    numbers.put(4, 9)
    numbers.put(5, 9)
    assert copy.items() == [(3, 1)]


def row_of(row: Row) -> tuple[int, ...]:
    return (row.order, row.delivery_seq, row.first, row.count, row.redelivered, row.attempts)


def test_rows_that_somebody_reads_stay_as_they_are() -> None:
    rows = Rows()
    rows.add(Row(1, 1, 10, 5, False, 0))
    rows.add(Row(3, 6, 20, 5, True, 0))
    copy = rows.copy()
    before = [row_of(row) for row in copy]
    rows.add(Row(4, 11, 25, 1, True, 0))  # joins the last one
    rows.remove(12, 1)
    rows.remove(20, 2)
    rows.remove(14, 1)
    assert [row_of(row) for row in copy] == before
    assert [row_of(row)[2:4] for row in rows.rows] == [(10, 2), (13, 1), (22, 4)]
    rows.end_copy()
    row = rows.rows[0]
    rows.remove(10, 1)
    assert rows.rows[0] is row


def test_a_calendar_s_copy_has_what_was_there_though_its_last_entry_grows() -> None:
    calendar = Calendar()
    due = calendar.add(1, 2, 0, 5000)
    calendar.add(7, 1, 0, 90_000)
    before = calendar.entries()
    days = calendar.copy()
    assert calendar.add(3, 4, 0, 5000) == due
    calendar.add(20, 1, 0, 5000)
    calendar.add(8, 1, 0, 90_000)
    found = []
    for each in days:
        while each.at < each.stop:
            found.append(each.next())
    assert found == before
    calendar.take_due(due, 1)
    assert calendar.entry_count() == len(calendar.entries()) == 2
