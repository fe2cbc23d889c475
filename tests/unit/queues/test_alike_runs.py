"""Values by message as runs."""

from queues.runs.columns import alike_runs


def test_neighbours_with_the_same_value_are_one_run() -> None:
    assert alike_runs({7: b"x", 5: b"x", 6: b"x"}) == [(5, 3, b"x")]


def test_another_value_or_a_gap_begins_a_run() -> None:
    values = {1: 10, 2: 10, 3: 11, 5: 11, 6: 11}
    assert alike_runs(values) == [(1, 2, 10), (3, 1, 11), (5, 2, 11)]


def test_nothing_is_no_run() -> None:
    empty: dict[int, int] = {}
    assert alike_runs(empty) == []
