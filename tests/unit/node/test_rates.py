"""Rates of samples: by hand, and by lots."""

from hypothesis import given
from hypothesis import strategies as st

from node.management.rows.rates import (
    COLUMNS,
    LONG_SPANS,
    QUEUE,
    SAMPLES_MAX,
    SPANS,
    Column,
    History,
    Ring,
    Track,
    put_details,
    summed,
    unknown,
    with_samples,
)

COUNTER = Column("publish")
GAUGE = Column("messages", "", "lengths", True)
BOTH = (COUNTER, GAUGE)
START = 1_700_000_000_000


def test_one_sample_makes_no_rate() -> None:
    track = Track(START, [7, 3])
    assert track.details(BOTH, {}) == [None, None]


def test_the_rate_is_that_of_the_last_interval() -> None:
    track = Track(START, [7, 3])
    track.observe(START + 5_000, [107, 13], 2_500)
    track.observe(START + 10_000, [117, 3], 2_500)
    assert track.details(BOTH, {}) == [2.0, -2.0]


def test_a_counter_that_fell_began_anew_and_a_gauge_may_fall() -> None:
    track = Track(START, [700, 700])
    track.observe(START + 5_000, [10, 10], 0)
    assert track.details(BOTH, {}) == [0.0, -138.0]


def test_a_sample_that_comes_too_soon_is_left_out() -> None:
    track = Track(START, [0, 0])
    track.observe(START + 10, [100, 100], 2_500)
    assert track.details(BOTH, {}) == [None, None]
    track.observe(START - 5, [100, 100], 2_500)
    track.observe(START + 5_000, [100, 100], 2_500)
    assert track.details(BOTH, {}) == [20.0, 20.0]


def test_a_range_needs_a_history_and_is_of_its_family_alone() -> None:
    track = Track(START, [0, 0])
    assert track.details(BOTH, {"lengths": (60, 5)}) == [None, None]
    track.keep_history()
    rate, detail = track.details(BOTH, {"lengths": (60, 5)})
    assert rate is None
    assert detail == {"samples": [{"sample": 0, "timestamp": START}], "avg": 0.0}


def test_samples_come_newest_first_with_their_average() -> None:
    track = Track(START, [0, 0])
    track.keep_history()
    for step in range(1, 5):
        track.observe(START + 5_000 * step, [10 * step, step], 2_500)
    (detail,) = track.details((COUNTER,), {"msg_rates": (10, 5)})
    assert detail == {
        "rate": 2.0,
        "samples": [
            {"sample": 40, "timestamp": START + 20_000},
            {"sample": 30, "timestamp": START + 15_000},
            {"sample": 20, "timestamp": START + 10_000},
        ],
        "avg": 30.0,
        "avg_rate": 2.0,
    }


def test_a_step_between_two_samples_has_the_value_before_it() -> None:
    ring = Ring(5_000, 10, 1)
    ring.add(10_000, [1])
    ring.add(15_000, [2])
    assert ring.samples(0, 5_000, 1_000) == [
        (15_000, 2),
        (14_000, 1),
        (13_000, 1),
        (12_000, 1),
        (11_000, 1),
        (10_000, 1),
    ]


def test_a_ring_forgets_the_oldest_and_what_is_too_close() -> None:
    ring = Ring(5_000, 3, 2)
    for step in range(1, 8):
        ring.add(5_000 * step, [step, 10 * step])
        ring.add(5_000 * step + 100, [0, 0])
    assert ring.samples(1, 60_000, 5_000) == [(35_000, 70), (30_000, 60), (25_000, 50)]


def test_a_long_age_is_answered_by_a_coarser_ring() -> None:
    history = History(LONG_SPANS, 1)
    for step in range(2_000):
        history.add(START + 5_000 * step, [step])
    assert len(history.samples(0, 600, 5)) == 121
    hour = history.samples(0, 3_600, 60)
    assert len(hour) == 61
    assert hour[0][0] - hour[-1][0] == 3_600_000
    day = history.samples(0, 86_400, 1_800)
    assert day[0][1] > day[-1][1]


def test_however_fine_the_step_the_answer_is_bounded() -> None:
    history = History(SPANS, 1)
    for step in range(1_000):
        history.add(START + 5_000 * step, [step])
    assert len(history.samples(0, 3_600, 1)) == SAMPLES_MAX
    assert history.samples(0, 1, 3_600)


def test_details_of_nodes_are_added_up_by_time() -> None:
    one = with_samples(1.5, [(20, 4), (10, 2)])
    other = with_samples(2.0, [(20, 1)])
    assert summed([one, other]) == {
        "rate": 3.5,
        "samples": [{"sample": 5, "timestamp": 20}, {"sample": 2, "timestamp": 10}],
        "avg": 3.5,
        "avg_rate": 300.0,
    }
    assert summed([1.5, 2.0]) == 3.5
    assert summed([1.5, {"rate": 2.0, "samples": []}]) == {"rate": 3.5, "samples": []}
    assert summed([1.5, None]) == 1.5
    assert summed([None, {"samples": []}]) == {"samples": []}
    assert summed([None, None]) is None


def test_details_stand_beside_what_they_are_of() -> None:
    row = put_details(
        {"messages": 3, "message_stats": {"publish": 3}}, QUEUE, (0.0, None, None, 2.0)
    )
    assert row["messages_details"] == {"rate": 0.0}
    assert row["message_stats"] == {"publish": 3, "publish_details": {"rate": 2.0}}
    assert "messages_ready_details" not in row
    row = {"messages": 3, "message_stats": {"publish": 3}}
    assert put_details(dict(row), QUEUE, unknown(QUEUE)) == row
    assert len(unknown(QUEUE)) == len(COLUMNS[QUEUE])


@given(
    st.lists(st.tuples(st.integers(1, 30_000), st.integers(0, 1000)), max_size=300),
    st.sampled_from([(60, 5), (600, 5), (3_600, 60), (60, 7), (5, 60)]),
)
def test_whatever_is_sampled_the_answer_is_true(
    steps: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    """Times ascend; each sample is a value that was there at that time or shortly before it, and
    counters never fall."""
    track = Track(START, [0])
    track.keep_history()
    seen = {START: 0}
    now, value = START, 0
    for gap_ms, grown in steps:
        now, value = now + gap_ms, value + grown
        track.observe(now, [value], 0)
        seen[now] = value
    (detail,) = track.details((COUNTER,), {"msg_rates": asked})
    assert isinstance(detail, dict)
    assert ("rate" in detail) == (track.before_ms > 0)
    assert detail.get("rate", 0) >= 0
    samples = detail["samples"]
    times = [each["timestamp"] for each in samples]
    values = [each["sample"] for each in samples]
    assert times == sorted(set(times), reverse=True)
    assert values == sorted(values, reverse=True)
    assert all(each % (asked[1] * 1000) == 0 for each in times)
    assert set(values) <= set(seen.values())
    for at, sample in zip(times, values, strict=True):
        assert sample <= max(known for when, known in seen.items() if when <= at)
