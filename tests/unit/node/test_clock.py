"""The node's clock: never back, never more than 1 % off the pace, and it says when time stepped."""

from hypothesis import given
from hypothesis import strategies as st

from node.clock import ClockCore, NodeClock

S = 1_000_000_000
BOOT = 1_700_000_000 * S


def test_without_corrections_the_clock_is_wall_time_at_boot_plus_monotonic() -> None:
    clock = ClockCore(BOOT, 50 * S)
    assert clock.now_ns(50 * S) == BOOT
    assert clock.now_ns(53 * S) == BOOT + 3 * S
    assert not clock.step_alarm


def test_a_small_difference_is_taken_in_at_one_percent() -> None:
    clock = ClockCore(BOOT, 0)
    clock.observe(BOOT + S, 0)  # The wall clock is 1 s ahead.
    assert clock.now_ns(10 * S) == BOOT + 10 * S + S // 10
    assert clock.now_ns(100 * S) == BOOT + 101 * S
    assert clock.now_ns(200 * S) == BOOT + 201 * S  # Caught up; no overshoot.
    assert not clock.step_alarm


def test_a_wall_clock_set_back_slows_the_clock_and_never_turns_it() -> None:
    clock = ClockCore(BOOT, 0)
    clock.observe(BOOT - 3600 * S, 0)
    assert clock.now_ns(S) == BOOT + S - S // 100
    assert clock.step_alarm


def test_a_step_over_five_seconds_raises_the_alarm_and_is_not_taken_in_at_once() -> None:
    clock = ClockCore(BOOT, 0)
    clock.observe(BOOT + 5 * S, 0)
    assert not clock.step_alarm
    clock.observe(BOOT + 5 * S + 1, 0)
    assert clock.step_alarm
    assert clock.now_ns(0) == BOOT


def test_the_alarm_ends_when_the_wall_clock_comes_back() -> None:
    clock = ClockCore(BOOT, 0)
    clock.observe(BOOT + 60 * S, 0)
    assert clock.step_alarm
    clock.observe(BOOT + S, S)
    assert not clock.step_alarm


@given(
    st.lists(st.tuples(st.integers(0, 100 * S), st.integers(-(10**6) * S, 10**6 * S)), max_size=30)
)
def test_time_only_goes_forward_and_within_one_percent(steps: list[tuple[int, int]]) -> None:
    clock = ClockCore(BOOT, 0)
    monotonic = 0
    before = BOOT
    for elapsed, offset in steps:
        monotonic += elapsed
        now = clock.now_ns(monotonic)
        assert abs(now - before - elapsed) <= elapsed // 100
        clock.observe(BOOT + monotonic + offset, monotonic)
        assert clock.now_ns(monotonic) == now
        before = now


def test_the_clock_of_this_machine_goes_forward() -> None:
    clock = NodeClock()
    first = clock.now_ms()
    clock.observe()
    assert clock.now_ms() >= first
    assert not clock.step_alarm
    assert abs(clock.behind_ms) < 5_000


def test_a_clock_that_was_advanced_stays_so() -> None:
    clock = NodeClock()
    first = clock.now_ms()
    clock.advance(3_600_000)
    clock.observe()
    assert 0 <= clock.now_ms() - first - 3_600_000 < 60_000
    assert not clock.step_alarm
