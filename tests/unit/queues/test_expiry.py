"""Due times against the exact ones: never early, late by a thousandth at most; none forgotten."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.machine.expiry import FAR, SWEEP_SLACK, WIDTH_MS_MIN, Arrivals, Calendar, step_of
from tests.unit.queues.fifo_steps import traits_of
from tests.unit.queues.runs import seqs_of

BOUNDED = settings(max_examples=200, deadline=None, database=None)
TTLS = st.one_of(st.integers(0, 50), st.integers(0, 100_000), st.integers(0, 10_000_000_000))
GAPS = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 5)), min_size=1, max_size=60)


def late_most(ttl_ms: int) -> int:
    """How much later than its lifetime says a message may expire."""
    return max(ttl_ms // 1000, WIDTH_MS_MIN - 1)


def arrived(arrivals: Arrivals, gaps: list[tuple[int, int]], ttl_ms: int) -> dict[int, int]:
    """When each message came."""
    times: dict[int, int] = {}
    now_ms = 1000
    for gap, count in gaps:
        now_ms += gap
        first = len(times) + 1
        arrivals.note(first, now_ms, ttl_ms)
        times.update(dict.fromkeys(range(first, first + count), now_ms))
    return times


@BOUNDED
@given(TTLS, GAPS, st.integers(0, 200_000), st.floats(0, 2))
def test_under_a_ttl_messages_expire_in_order_never_early_and_hardly_late(
    ttl_ms: int, gaps: list[tuple[int, int]], later: int, share: float
) -> None:
    arrivals = Arrivals()
    times = arrived(arrivals, gaps, ttl_ms)
    due = {seq: arrivals.due_ms(seq, ttl_ms) for seq in times}
    now_ms = 1000 + int(ttl_ms * share) + later
    boundary = arrivals.boundary(now_ms, ttl_ms, len(times) + 1)
    for seq, came_ms in times.items():
        exact = came_ms + ttl_ms
        assert exact <= due[seq] <= exact + late_most(ttl_ms)
        assert (seq < boundary) == (due[seq] <= now_ms)


@BOUNDED
@given(TTLS, TTLS, GAPS)
def test_a_shorter_ttl_expires_nothing_early_either(
    old_ms: int, ttl_ms: int, gaps: list[tuple[int, int]]
) -> None:
    arrivals = Arrivals()
    times = arrived(arrivals, gaps, old_ms)
    now_ms = max(times.values())
    arrivals.change(now_ms, old_ms, ttl_ms)
    assert arrivals.times == sorted(arrivals.times)
    arrivals.note(len(times) + 1, now_ms + 5, ttl_ms)
    times[len(times) + 1] = now_ms + 5
    for seq, came_ms in times.items():
        exact = came_ms + ttl_ms
        worst = max(late_most(old_ms), late_most(ttl_ms))
        assert exact <= arrivals.due_ms(seq, ttl_ms) <= exact + min(worst, 1000) + 1


def test_rows_of_the_past_go() -> None:
    arrivals = Arrivals()
    for seq in range(1, 1001):
        arrivals.note(seq, seq * 10, 1000)
    assert arrivals.boundary(6000, 1000, 1001) == 501
    assert len(arrivals.firsts) == len(arrivals.times) == 501
    assert arrivals.boundary(6000, 1000, 1001) == 501
    assert arrivals.due_ms(501, 1000) == 6010


def test_what_came_before_all_rows_is_due_since_long_ago() -> None:
    arrivals = Arrivals()
    assert arrivals.due_ms(7, 1000) == 0
    arrivals.note(5, 100, 1000)
    assert (arrivals.due_ms(4, 1000), arrivals.due_ms(5, 1000)) == (0, 1100)


def test_a_row_lasts_a_thousandth_of_the_ttl_but_a_second_at_most() -> None:
    for ttl_ms, step in ((0, 1), (1999, 1), (2000, 2), (60_000, 60), (10**12, 1000)):
        assert step_of(ttl_ms) == step


# The calendar

ENTRIES = st.lists(st.tuples(TTLS, st.integers(1, 4), st.integers(0, 500)), max_size=60)


def filled(entries: list[tuple[int, int, int]]) -> tuple[Calendar, dict[int, tuple[int, int]], int]:
    """A calendar; when each message is due at the earliest and at the latest; the time then."""
    calendar = Calendar()
    due: dict[int, tuple[int, int]] = {}
    now_ms = 10_000
    for ttl_ms, count, gap in entries:
        now_ms += gap
        first = len(due) + 1
        told = calendar.add(first, count, now_ms, ttl_ms)
        exact = now_ms + ttl_ms
        assert exact <= told <= exact + late_most(ttl_ms)
        due.update(dict.fromkeys(range(first, first + count), (exact, told)))
    return calendar, due, now_ms


@BOUNDED
@given(ENTRIES, st.lists(st.integers(0, 40_000), max_size=8), st.integers(1, 7))
def test_each_message_is_taken_when_it_is_due_and_not_again(
    entries: list[tuple[int, int, int]], leaps: list[int], limit: int
) -> None:
    calendar, due, now_ms = filled(entries)
    left = dict(due)
    for leap in [*leaps, FAR // 2]:
        now_ms += leap
        while calendar.next_due_ms() <= now_ms:
            taken = calendar.take_due(now_ms, limit)
            assert 1 <= len(taken) <= limit
            for seq in seqs_of(taken):
                assert left.pop(seq)[1] <= now_ms
            assert calendar.count == len(left)
        assert all(told > now_ms for _, told in left.values())
    assert not left
    assert calendar.next_due_ms() == FAR


def test_a_message_of_no_lifetime_is_due_at_once() -> None:
    calendar = Calendar()
    assert calendar.add(1, 3, 1001, 0) == 1001
    assert calendar.take_due(1001, 10) == [(1, 3)]


def test_messages_of_one_due_time_that_follow_each_other_are_one_entry() -> None:
    calendar = Calendar()
    for first in (1, 2, 3, 5):
        calendar.add(first, 1, 1000, 60_000)
    (due,) = {row[0] for row in calendar.entries()}
    assert calendar.entries() == [(due, 1, 3), (due, 5, 1)]
    assert calendar.count == 4


@BOUNDED
@given(st.lists(st.integers(-1, 3), min_size=1, max_size=30), st.integers(0, 5))
def test_a_run_of_messages_is_noted_with_the_lifetime_of_each(
    lifetimes: list[int], before: int
) -> None:
    ttls = [-1 if each < 0 else each * 1000 for each in lifetimes]
    traits = traits_of([-1] * (before + len(ttls)), [7] * before + ttls, None)
    calendar = Calendar()
    first_due = calendar.note(100, len(ttls), 5000, traits, before)
    wanted = {100 + place: ttl for place, ttl in enumerate(ttls) if ttl >= 0}
    found = {
        seq: due for due, first, count in calendar.entries() for seq in seqs_of([(first, count)])
    }
    assert found.keys() == wanted.keys()
    for seq, ttl in wanted.items():
        assert 5000 + ttl <= found[seq] <= 5000 + ttl + WIDTH_MS_MIN
    assert first_due == min(found.values(), default=FAR)


def test_a_new_message_joins_a_bucket_that_is_being_taken() -> None:
    calendar = Calendar()
    for first in (1, 3, 5):
        calendar.add(first, 1, 1000, 0)
    assert calendar.take_due(1000, 2) == [(1, 1), (3, 1)]
    calendar.add(6, 1, 1000, 0)
    calendar.add(8, 1, 1000, 0)
    assert [row[1:] for row in calendar.entries()] == [(5, 2), (8, 1)]
    assert calendar.take_due(1000, 9) == [(5, 2), (8, 1)]
    assert calendar.count == 0


def all_but(kept: set[int]) -> Callable[[int, int], list[tuple[int, int]]]:
    """A queue in which `kept` alone is alive."""
    return lambda first, count: [(seq, 1) for seq in range(first, first + count) if seq in kept]


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_messages_that_are_gone_are_swept_out_bucket_by_bucket(limit: int) -> None:
    calendar = Calendar()
    total = SWEEP_SLACK + 100
    for seq in range(1, total + 1):
        calendar.add(seq, 1, 1000 + seq % 7 * 1000, 60_000)
    assert not calendar.wants_sweep(total)
    assert calendar.wants_sweep(100)
    kept = set(range(50, 150))
    rounds = 0
    while calendar.wants_sweep(100):
        calendar.sweep(all_but(kept), limit)
        rounds += 1
    assert calendar.count == 100
    assert rounds >= total // limit
    assert {row[1] for row in calendar.entries()} == kept
    assert sorted(seqs_of(calendar.take_due(FAR, 10_000))) == sorted(kept)


def test_a_bucket_that_falls_due_while_it_is_swept_loses_nothing_alive() -> None:
    calendar = Calendar()
    total = SWEEP_SLACK + 100
    for seq in range(1, 2 * total, 2):
        calendar.add(seq, 1, 1000, 60_000)
    due = calendar.next_due_ms()
    kept = {1, 3, 2 * total - 1}
    assert calendar.wants_sweep(3)
    calendar.sweep(all_but(kept), 10)
    assert calendar.count == total - 8
    taken = seqs_of(calendar.take_due(due, 2 * total))
    assert kept <= set(taken)
    assert len(taken) == total - 8
    assert calendar.count == 0
    calendar.sweep(all_but(kept), 10)
    assert not calendar.wants_sweep(3)


def test_what_is_added_to_a_bucket_while_it_is_swept_stays() -> None:
    calendar = Calendar()
    total = SWEEP_SLACK + 100
    for seq in range(1, 2 * total, 2):
        calendar.add(seq, 1, 1000, 60_000)
    added = 2 * total + 5
    kept = {3, added}
    assert calendar.wants_sweep(2)
    calendar.sweep(all_but(kept), 10)
    calendar.add(added, 1, 1000, 60_000)
    while calendar.wants_sweep(2):
        calendar.sweep(all_but(kept), 1000)
    assert {row[1] for row in calendar.entries()} == {3, added}
    assert calendar.count == 2


def test_an_expiration_takes_a_few_bytes() -> None:
    calendar = Calendar()
    total = 20_000
    tracemalloc.start()
    try:
        for number in range(total):
            calendar.add(20_000 * number, 1, 1000 + number // 10, 60_000)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert total < used < 6 * total


def test_a_calendar_can_be_made_of_its_entries() -> None:
    calendar, due, now_ms = filled([(ttl * 900, 1 + ttl % 3, 40) for ttl in range(50)])
    calendar.take_due(now_ms, 3)
    copy = Calendar()
    for entry in calendar.entries():
        copy.restore(*entry)
    assert copy.entries() == calendar.entries()
    assert copy.count == calendar.count
    assert copy.take_due(FAR, len(due)) == calendar.take_due(FAR, len(due))
