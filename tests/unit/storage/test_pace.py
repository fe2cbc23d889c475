"""How fast publishers may go on while there is much to be rewritten."""

from warren.storage.pace import NEAR_EIGHTHS, QUARTERS, STEPS, Pace

FILE = 1600
STEP = FILE // STEPS
LIMIT = 2 * FILE


def test_nobody_waits_while_there_is_little_to_be_done() -> None:
    pace = Pace(FILE, LIMIT)
    pace.see(LIMIT // 2, LIMIT // 2, 0)
    assert not pace.is_on
    assert not pace.holds(100 * FILE)


def test_the_log_may_be_a_step_ahead_and_waits_then() -> None:
    pace = Pace(FILE, LIMIT)
    pace.see(LIMIT // 2 + 1, LIMIT // 2 + 1, 5000)
    assert not pace.holds(5000 + STEP - 1)
    assert pace.holds(5000 + STEP)


def test_it_may_grow_by_a_part_of_what_rewriting_has_got_through() -> None:
    pace = Pace(FILE, LIMIT)
    pace.see(LIMIT, LIMIT, 0)
    pace.moved(40, STEP)
    assert not pace.holds(STEP + 40 * QUARTERS // 4 - 1)
    assert pace.holds(STEP + 40 * QUARTERS // 4)


def test_who_waits_goes_on_with_half_a_step() -> None:
    pace = Pace(FILE, LIMIT)
    pace.see(LIMIT, LIMIT, 0)
    assert pace.holds(STEP)
    pace.moved(STEP // 2 * 4 // QUARTERS - 4, STEP)
    assert pace.holds(STEP)
    pace.moved(4 * 4, STEP)
    assert not pace.holds(STEP)
    assert not pace.holds(STEP + STEP // 2 - 1)


def test_it_may_grow_by_less_where_the_files_take_more_than_they_should() -> None:
    pace = Pace(FILE, LIMIT)
    pace.see(LIMIT + 1, LIMIT + 1, 0)
    pace.moved(40, STEP)
    assert not pace.holds(STEP + 9)
    assert pace.holds(STEP + 10)


def test_the_file_that_is_being_filled_counts_before_it_is_full() -> None:
    pace = Pace(FILE, LIMIT)
    pace.see(LIMIT // 2, LIMIT * NEAR_EIGHTHS // 8, 0)
    assert not pace.is_on
    pace.see(LIMIT // 2, LIMIT * NEAR_EIGHTHS // 8 + 1, 0)
    assert pace.is_on
    pace.see(LIMIT, LIMIT + 1, 0)
    pace.moved(40, STEP)
    assert not pace.holds(STEP + 9)
    assert pace.holds(STEP + 10)


def test_what_publishers_did_not_use_is_not_saved_up() -> None:
    pace = Pace(FILE, LIMIT)
    pace.see(LIMIT, LIMIT, 0)
    for _ in range(10):
        pace.moved(FILE, 7)
    assert not pace.holds(7 + STEP - 1)
    assert pace.holds(7 + STEP)


def test_who_waits_goes_on_when_enough_has_been_done() -> None:
    pace = Pace(FILE, LIMIT)
    pace.see(LIMIT, LIMIT, 0)
    assert pace.holds(STEP)
    pace.see(LIMIT // 2, LIMIT // 2, STEP)
    assert not pace.holds(STEP)
    pace.see(LIMIT, LIMIT, STEP)
    assert not pace.holds(STEP), "it begins a step ahead again"
    pace.end()
    assert not pace.holds(100 * FILE)


def test_without_any_slack_there_is_a_pace_as_soon_as_there_is_a_debt() -> None:
    pace = Pace(FILE, 0)
    pace.see(0, 0, 0)
    assert not pace.holds(FILE)
    pace.see(1, 1, 0)
    assert pace.holds(FILE)
