"""Histograms and the capacity of consumers."""

from queues.sessions.counts import WINDOW_MS, Capacity, Histogram


def test_a_value_is_counted_at_the_lowest_bound_that_holds_it() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe(1.0, 3)
    histogram.observe(1.5, 1)
    histogram.observe(9.0, 2)
    assert histogram.counts == [3, 1, 2]
    assert histogram.total == 3.0 + 1.5 + 18.0


def test_a_queue_whose_consumer_always_waits_has_full_capacity() -> None:
    capacity = Capacity()
    capacity.observe(True, 1000)
    assert capacity.share(2000) == 1.0


def test_a_queue_without_a_waiting_consumer_has_none() -> None:
    capacity = Capacity()
    assert capacity.share(500) == 0.0
    capacity.observe(False, 1000)
    assert capacity.share(2000) == 0.0


def test_capacity_is_the_share_of_the_time_in_which_a_consumer_waited() -> None:
    capacity = Capacity()
    capacity.observe(True, 1000)
    capacity.observe(False, 2000)
    assert capacity.share(5000) == 0.25


def test_capacity_forgets_what_is_two_windows_old() -> None:
    capacity = Capacity()
    capacity.observe(False, 1000)
    for turn in range(1, 4):
        capacity.observe(True, 1000 + turn * WINDOW_MS)
    assert capacity.share(1000 + 3 * WINDOW_MS) == 1.0
