"""The rate of one publisher: a token bucket that its session asks before it publishes. Pure.

The bucket holds BURST_S seconds' worth at most, so a pause gives no burst. Times are seconds of a
clock that does not jump.
"""

from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from queues.sessions.publishing import Gate

BURST_S: Final = 0.05


@final
class ProducerRate:
    """Invariant: `_tokens` is at most BURST_S seconds' worth; below zero, the publisher has sent
    messages before its rate was known."""

    def __init__(self, per_second: int, now_s: float) -> None:
        self.per_second = per_second
        self._burst = max(1.0, per_second * BURST_S)
        self._tokens = self._burst
        self._filled_s = now_s

    def allowed(self, now_s: float) -> int:
        """How many messages may be published now."""
        passed_s = max(0.0, now_s - self._filled_s)
        self._filled_s = now_s
        self._tokens = min(self._burst, self._tokens + passed_s * self.per_second)
        return max(0, int(self._tokens))

    def take(self, count: int) -> None:
        """So many are published."""
        self._tokens -= count

    def wait_ms(self) -> int:
        """How long it takes until messages are allowed again: a few of them together."""
        wanted = min(self._burst, max(1.0, self.per_second * 0.01))
        return max(1, int((wanted - self._tokens) / self.per_second * 1000) + 1)


def rate_after(
    gate: "Gate", rate: ProducerRate | None, count: int, now_s: float
) -> ProducerRate | None:
    """The publisher's rate after it has published so many messages to an address with limits."""
    if gate.rate_max <= 0:
        return None
    if rate is None or rate.per_second != gate.rate_max:
        rate = ProducerRate(gate.rate_max, now_s)
    rate.take(count)
    return rate
