"""The rules of forwarding: what is taken, when it is done, how long to wait after a failure."""

import pytest

from federation.forwarding import RUNNING, STARTING, TERMINATED, Forwarding


def opened(core: Forwarding, ready: int = 0) -> Forwarding:
    core.declared(ready)
    core.opened()
    return core


def test_a_shovel_without_limit_takes_all_and_never_ends() -> None:
    core = opened(Forwarding(1.0))
    assert (core.arrived(100), core.state, core.prefetch(10)) == (100, RUNNING, 10)
    core.confirmed(100)
    assert (core.is_complete, core.forwarded, core.in_flight) == (False, 100, 0)


def test_a_counted_shovel_takes_no_more_than_its_number() -> None:
    core = opened(Forwarding(1.0, 5))
    assert core.prefetch(100) == 5
    assert (core.arrived(3), core.arrived(3), core.arrived(3)) == (3, 2, 0)
    core.confirmed(3)
    assert not core.is_complete
    core.confirmed(2)
    assert core.is_complete


def test_what_was_in_flight_when_a_side_failed_counts_again() -> None:
    core = opened(Forwarding(1.0, 5))
    core.arrived(5)
    core.confirmed(2)
    core.failed("gone", 0.5)
    assert (core.state, core.reason, core.in_flight) == (TERMINATED, "gone", 0)
    core.restarted()
    assert core.state == STARTING
    opened(core)
    assert core.arrived(9) == 3


def test_the_length_of_the_queue_counts_once() -> None:
    core = opened(Forwarding(1.0, "queue-length"), ready=4)
    assert core.arrived(2) == 2
    core.confirmed(2)
    core.failed("gone", 0.5)
    opened(core, ready=90)
    assert core.arrived(10) == 2


@pytest.mark.parametrize("limit", [0, "queue-length"])
def test_a_shovel_with_nothing_to_move_is_complete_at_once(limit: int | str) -> None:
    assert opened(Forwarding(1.0, limit)).is_complete


def test_waits_grow_with_failures_in_a_row_and_spread_by_the_roll() -> None:
    core = Forwarding(2.0)
    waits = [core.failed("f", 0.5) for _ in range(5)]
    assert waits == [2.0, 4.0, 8.0, 16.0, 16.0]
    assert (core.failed("f", 0.0), core.failed("f", 1.0)) == (12.0, 20.0)
    assert core.failed("f", 0.5, lasted_s=30.0) == 2.0
    assert Forwarding(0.0).failed("f", 0.5) > 0
    assert Forwarding(300.0).failed("f", 0.5) == 300.0
