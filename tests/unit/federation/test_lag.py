"""How far a link is behind its source."""

from federation.lag import IDLE_LOOK_S, LOOK_S, LOOKS_MAX, Lag
from tests.unit.reachable import held


def test_idle_link_is_not_behind_and_is_looked_at_seldom() -> None:
    lag = Lag()
    assert lag.looked(0.0, 0, 0, 0) == LOOK_S
    assert lag.looked(1.0, 0, 0, 0) == IDLE_LOOK_S
    assert (lag.messages(0, 0), lag.seconds(99.0, 0)) == (0, 0.0)


def test_messages_are_those_ready_and_in_flight() -> None:
    lag = Lag()
    assert lag.looked(0.0, 90, 0, 10) == LOOK_S
    assert lag.messages(0, 10) == 100
    assert lag.messages(30, 10) == 70  # since the look
    assert lag.messages(100, 0) == 0


def test_seconds_are_the_age_of_the_oldest_message_that_is_not_forwarded() -> None:
    lag = Lag()
    lag.looked(0.0, 10, 0, 0)
    lag.looked(5.0, 30, 0, 0)
    assert lag.seconds(6.0, 0) == 6.0
    assert lag.seconds(6.0, 9) == 6.0
    assert lag.seconds(6.0, 10) == 1.0
    assert lag.seconds(6.0, 30) == 0.0


def test_looks_are_bounded_and_keep_the_oldest() -> None:
    lag = Lag()
    for number in range(1000):
        lag.looked(float(number), number + 1, 0, 0)
        assert len(held(lag, tuple)) <= LOOKS_MAX
    assert lag.seconds(1000.0, 0) == 1000.0
