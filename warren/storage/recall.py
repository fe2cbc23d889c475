"""Whether the page cache should keep what is written. No I/O, no clock. Compiled.

Takes how many bytes were written, and of each read that went to the disk how many bytes, how long
ago they were written (in bytes written since) and how long it took. Says whether writes should go
through the page cache: only while a good part of what is written is read back before much more is
written, from a disk so slow that this delays a reader. A quick disk gives a byte back for less
than a page of the cache costs that holds it meanwhile, and which others may need.
"""

from typing import Final, final

from mypy_extensions import i64

SOON_BYTES: Final = 1 << 30  # written after it, at most, when it is read: a cache may have it yet
SPAN_BYTES: Final = 64 << 20  # of writes, between two decisions
SOON_PART: Final = 8  # of a span, read soon, makes the cache worth its cost
QUICK_BYTES_PER_S: Final = 300 << 20  # a disk that reads so fast needs no cache
FORGET_SPANS: Final = 64  # after so many the disk is tried again


@final
class Recall:
    """Invariant: `keeps` changes in `wrote` alone, at most once in a span."""

    def __init__(self, span_bytes: i64 = SPAN_BYTES, soon_bytes: i64 = SOON_BYTES) -> None:
        self._span_bytes: i64 = span_bytes
        self._soon_bytes: i64 = soon_bytes
        self.keeps = False
        self.written_bytes: i64 = 0  # ever
        self._next_bytes: i64 = span_bytes  # of these, at the next decision
        self._soon_read: i64 = 0  # of late
        self._best_per_s = 0.0  # of the reads of this span; 0: there were none
        self._slow_spans = 0  # so many more it counts as slow

    def wrote(self, byte_count: i64) -> None:
        self.written_bytes += byte_count
        if self.written_bytes < self._next_bytes:
            return
        self._next_bytes = self.written_bytes + self._span_bytes
        if self._best_per_s > 0:
            self._slow_spans = FORGET_SPANS if self._best_per_s < QUICK_BYTES_PER_S else 0
        elif self._slow_spans > 0:
            self._slow_spans -= 1
        self.keeps = self._slow_spans > 0 and self._soon_read * SOON_PART >= self._span_bytes
        self._soon_read //= 2
        self._best_per_s = 0.0

    def is_soon(self, age_bytes: i64) -> bool:
        """Whether what was written so long ago may be in a cache that keeps it."""
        return age_bytes <= self._soon_bytes

    def read(self, byte_count: i64, age_bytes: i64) -> None:
        """So much was asked for."""
        if age_bytes <= self._soon_bytes:
            self._soon_read += byte_count

    def took(self, byte_count: i64, seconds: float) -> None:
        """A read past the cache took so long, or less: the best of some tells of the disk, for a
        thread may have waited for a processor, too."""
        if seconds > 0:
            self._best_per_s = max(self._best_per_s, int(byte_count) / seconds)
