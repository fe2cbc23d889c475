"""How fast a shovel or link may forward: messages and bytes per second. Rules without I/O."""

from typing import Final

from msgspec import Struct

SLICE_S: Final = 0.1  # a batch holds no more than what may be sent in this time
MESSAGE_BYTES: Final = 1024.0  # assumed before the first batch


class Rates(Struct, frozen=True):
    """0: no limit."""

    messages_per_s: float = 0.0
    bytes_per_s: float = 0.0


NO_RATES: Final = Rates()


class Pacing:
    """Invariant: at `_free_s` all that was sent so far is within the rates."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._free_s = 0.0
        self._mean_bytes = MESSAGE_BYTES

    def batch(self, count_max: int) -> int:
        """How many messages the next batch may have."""
        rates, count = self._rates, count_max
        if rates.messages_per_s:
            count = min(count, int(rates.messages_per_s * SLICE_S))
        if rates.bytes_per_s:
            count = min(count, int(rates.bytes_per_s * SLICE_S / self._mean_bytes))
        return max(1, count)

    def sent(self, count: int, size_bytes: int, now_s: float) -> float:
        """A batch was sent. How many seconds to wait before the next one."""
        rates, cost_s = self._rates, 0.0
        if rates.messages_per_s:
            cost_s = count / rates.messages_per_s
        if rates.bytes_per_s:
            cost_s = max(cost_s, size_bytes / rates.bytes_per_s)
        self._mean_bytes = max(1.0, size_bytes / max(1, count))
        self._free_s = max(self._free_s, now_s) + cost_s
        return self._free_s - now_s
