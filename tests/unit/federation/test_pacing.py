"""Limits of messages and bytes per second."""

import pytest

from federation.pacing import Pacing, Rates


def test_without_limits_batches_are_whole_and_nothing_waits() -> None:
    pacing = Pacing(Rates())
    assert pacing.batch(512) == 512
    assert pacing.sent(512, 10_000_000, 1.0) == 0


@pytest.mark.parametrize(
    ("rates", "size", "per_s"),
    [
        (Rates(100.0), 10, 100),
        (Rates(0, 50_000.0), 1_000, 50),
        (Rates(100.0, 50_000.0), 1_000, 50),
        (Rates(3.0), 10, 3),
    ],
)
def test_rate_over_ten_seconds_is_the_limit(rates: Rates, size: int, per_s: int) -> None:
    pacing, now_s, count = Pacing(rates), 100.0, 0
    while now_s < 110.0:
        batch = pacing.batch(512)
        count += batch
        now_s += pacing.sent(batch, batch * size, now_s)
    assert per_s * 10 <= count <= per_s * 10 * 1.15 + 1


def test_time_without_messages_is_not_saved_up() -> None:
    pacing = Pacing(Rates(10.0))
    pacing.sent(1, 1, 0.0)
    assert pacing.sent(1, 1, 1000.0) == pytest.approx(0.1)
