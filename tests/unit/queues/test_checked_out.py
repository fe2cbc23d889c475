"""Rows of what a consumer holds: they say what a set of numbered deliveries would."""

from random import Random

import pytest

from queues.machine.consuming.checked_out import Row, Rows


def test_assignments_that_follow_each_other_are_one_row() -> None:
    rows = Rows()
    rows.add(Row(1, 1, 10, 2, False, 0))
    rows.add(Row(2, 3, 12, 3, False, 0))
    assert [(each.order, each.delivery_seq, each.first, each.count) for each in rows.rows] == [
        (2, 1, 10, 5)
    ]


@pytest.mark.parametrize(
    "other",
    [
        Row(3, 3, 12, 1, False, 0),  # another consumer got something in between
        Row(2, 4, 12, 1, False, 0),
        Row(2, 3, 13, 1, False, 0),
        Row(2, 3, 12, 1, True, 0),
        Row(2, 3, 12, 1, False, 7),
    ],
)
def test_assignments_that_differ_are_rows_of_their_own(other: Row) -> None:
    rows = Rows()
    rows.add(Row(1, 1, 10, 2, False, 0))
    rows.add(other)
    assert len(rows.rows) == 2


@pytest.mark.parametrize("seed", range(40))
def test_rows_say_what_a_dictionary_of_deliveries_says(seed: int) -> None:
    lots = Random(seed)
    rows = Rows()
    held: dict[int, tuple[int, bool]] = {}  # message_seq by delivery_seq, and its flag
    number, order, seq = 1, 1, 1
    for _ in range(60):
        if lots.random() < 0.5:
            count = lots.randrange(1, 5)
            order += lots.randrange(1, 3)
            seq += lots.choice((0, 0, 3))
            flag = lots.random() < 0.3
            rows.add(Row(order, number, seq, count, flag, 0))
            held.update({number + at: (seq + at, flag) for at in range(count)})
            number += count
            seq += count
        elif held:
            first = lots.choice([message for message, _ in held.values()])
            count = 1
            there = {message for message, _ in held.values()}
            while first + count in there and count < 4:
                count += 1
            rows.remove(first, count)
            gone = range(first, first + count)
            held = {key: each for key, each in held.items() if each[0] not in gone}
        assert spread(rows.rows) == held
        wanted = lots.randrange(1, number + 1)
        later = {key: each for key, each in held.items() if key >= wanted}
        assert spread(rows.from_number(wanted)) == later


def spread(rows: list[Row]) -> dict[int, tuple[int, bool]]:
    return {
        int(row.delivery_seq) + at: (int(row.first) + at, row.redelivered)
        for row in rows
        for at in range(row.count)
    }


def test_rows_are_found_wherever_they_are_and_whatever_was_settled_before() -> None:
    rows = Rows()
    for place in range(50):
        rows.add(Row(2 * place + 1, 1 + 10 * place, 1000 - 20 * place, 10, False, 0))
    held = {seq for place in range(50) for seq in range(1000 - 20 * place, 1010 - 20 * place)}
    lots = Random(1)
    while held:
        first = lots.choice(sorted(held))
        count = 1 if first + 1 not in held or lots.random() < 0.5 else 2
        rows.remove(first, count)
        held -= {first, first + count - 1}
        left = [seq for row in rows.rows for seq in range(row.first, row.first + row.count)]
        assert sorted(left) == sorted(held)
        assert [row.delivery_seq for row in rows.rows] == sorted(
            row.delivery_seq for row in rows.rows
        )
    rows.add(Row(200, 600, 5, 1, False, 0))
    with pytest.raises(AssertionError, match="does not hold"):
        rows.remove(7, 1)
