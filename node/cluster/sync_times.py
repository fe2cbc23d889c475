"""How long syncs of the log take, looked at once in a while.

`SyncTimes` compares the counts of the log's histogram with those of its last look, so that the
writer thread does nothing for it. A time is the upper bound of its bucket. No I/O; takes a clock.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

from warren.storage.writing.log_writer import SYNC_BOUNDS_S

BOUNDS_MS: Final = tuple(int(bound * 1000 + 0.999) for bound in SYNC_BOUNDS_S)


class Syncs(Protocol):
    """The log (`warren.storage.wal.Wal`), written by its writer thread."""

    @property
    def sync_counts(self) -> Sequence[int]:
        """By the bounds of SYNC_BOUNDS_S."""

    @property
    def sync_begun_s(self) -> float:
        """Of the one that runs; 0: none does."""


@final
class SyncTimes:
    """See the module."""

    def __init__(self, syncs: Syncs, clock_s: Callable[[], float]) -> None:
        self._syncs = syncs
        self._clock_s = clock_s
        self._seen = list(syncs.sync_counts)

    def longest_ms(self) -> int:
        """Of the syncs since the last look, one that runs included; 0: none."""
        begun_s = self._syncs.sync_begun_s
        running_ms = int((self._clock_s() - begun_s) * 1000) if begun_s > 0 else 0
        counts = list(self._syncs.sync_counts)
        longest_ms = 0
        for bucket, count in enumerate(counts):
            if count > self._seen[bucket]:
                longest_ms = BOUNDS_MS[min(bucket, len(BOUNDS_MS) - 1)]
        self._seen = counts
        return max(longest_ms, running_ms)
