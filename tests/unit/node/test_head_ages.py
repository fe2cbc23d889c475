"""How old the oldest message is, by what was seen at earlier looks."""

from node.management.metrics.ages import LOOKS_MAX, HeadAges
from tests.unit.reachable import held


def test_the_age_is_the_time_since_the_first_look_that_found_the_message() -> None:
    ages = HeadAges()
    assert ages.see(1, 5, 8, 100.0) == 0.0
    assert ages.see(1, 5, 9, 110.0) == 10.0
    assert ages.see(1, 7, 9, 115.0) == 15.0, "it was there at the first look, too"
    assert ages.see(1, 8, 9, 120.0) == 10.0
    assert ages.see(1, 0, 9, 130.0) == 0.0
    assert ages.see(1, 9, 10, 131.0) == 0.0


def test_queues_do_not_mix_and_are_forgotten() -> None:
    ages = HeadAges()
    ages.see(1, 1, 2, 0.0)
    ages.see(2, 1, 2, 5.0)
    assert (ages.see(1, 1, 2, 6.0), ages.see(2, 1, 2, 6.0)) == (6.0, 1.0)
    ages.keep({2})
    assert (ages.see(1, 1, 2, 9.0), ages.see(2, 1, 2, 9.0)) == (0.0, 4.0)


def test_numbers_that_begin_anew_begin_a_new_age() -> None:
    ages = HeadAges()
    ages.see(1, 50, 60, 0.0)
    assert ages.see(1, 1, 2, 100.0) == 0.0


def test_what_is_kept_is_bounded_and_never_tells_too_much() -> None:
    ages = HeadAges()
    came_at = {}
    for second in range(10 * LOOKS_MAX):
        came_at[second + 1] = float(second)
        ages.see(1, 1, second + 2, float(second))
        assert len(held(ages, tuple)) <= LOOKS_MAX + 1
    now_s = 1000.0
    for head in range(1, 10 * LOOKS_MAX):
        age_s = ages.see(1, head, 10 * LOOKS_MAX + 1, now_s)
        assert 0 <= age_s <= now_s - came_at[head]
    assert ages.see(1, 10 * LOOKS_MAX, 10 * LOOKS_MAX + 1, now_s) > 0
