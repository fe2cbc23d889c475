"""When messages expire: by the queue's TTL, and by their own expiration. No clock. Compiled.

Both are coarse in proportion: a message expires late by at most 1/1000 of its lifetime or a few
milliseconds, and never early. That keeps what must be remembered small: for the queue's TTL one
row per 1/1000 of it, for expirations 16 bytes per run of messages with the same due time.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from queues.traits import Traits

FAR: Final = 1 << 62  # a time that never comes
STEP_MS_MIN: Final = 1
STEP_MS_MAX: Final = 1000
WIDTH_SHIFT: Final = 10  # a bucket is at most as wide as 1/1024 of the lifetime,
WIDTH_MS_MIN: Final = 4  # but not narrower than this
WIDTH_MS_MAX: Final = 1 << 16
SWEEP_SLACK: Final = 4096
ROWS_TO_PRUNE: Final = 1024  # of `Arrivals`, between two looks at what may go


@final
class Arrivals:
    """When messages arrived, as rows (first message_seq, time): for the queue's own TTL.

    Invariant: both columns ascend; a message came less than `step_of(ttl_ms)` after its row's time.
    """

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.times: list[int] = []

    def note(self, first: i64, now_ms: i64, ttl_ms: i64) -> None:
        """Messages from `first` on arrive now."""
        length = len(self.times)
        if length == 0 or now_ms - i64(self.times[length - 1]) >= step_of(ttl_ms):
            self.firsts.append(first)
            self.times.append(now_ms)

    def wants_prune(self) -> bool:
        length = len(self.firsts)
        return length > 0 and length % ROWS_TO_PRUNE == 0

    def prune(self, oldest: i64) -> None:
        """Forget rows of messages below `oldest` alone: none of them is in the queue."""
        place = bisect_right(self.firsts, oldest) - 1
        if place > 0:
            del self.firsts[:place]
            del self.times[:place]

    def change(self, now_ms: i64, old_ttl_ms: i64, ttl_ms: i64) -> None:
        """The TTL is another one; a row that is too long now counts from its end."""
        shorter = step_of(old_ttl_ms) - step_of(ttl_ms)
        if shorter > 0:
            self.times = [min(i64(time) + shorter, now_ms) for time in self.times]

    def boundary(self, now_ms: i64, ttl_ms: i64, next_seq: i64) -> i64:
        """Every message below this is at the end of its time."""
        latest = now_ms - ttl_ms - step_of(ttl_ms) + 1
        place = bisect_right(self.times, latest)
        if place == 0:
            return 0
        if place > 64:  # All of them are past: the last one says so for all.
            del self.firsts[: place - 1]
            del self.times[: place - 1]
            place = 1
        return next_seq if place == len(self.firsts) else i64(self.firsts[place])

    def due_ms(self, seq: i64, ttl_ms: i64) -> i64:
        """When this message is at the end of its time; 0: long ago."""
        place = bisect_right(self.firsts, seq) - 1
        if place < 0:
            return 0
        return i64(self.times[place]) + ttl_ms + step_of(ttl_ms) - 1


def step_of(ttl_ms: i64) -> i64:
    """How long one row of `Arrivals` lasts."""
    step = ttl_ms // 1000
    return min(max(step, STEP_MS_MIN), STEP_MS_MAX)


@final
class Days:
    """The entries of one bucket of a calendar, to be read from `at` on. A bucket is either given up
    as a whole or grows at its end, where the count of its last entry may, too."""

    def __init__(self, due: i64, bucket: "array[int]", start: i64) -> None:
        self.due: i64 = due
        self.at: i64 = start
        self.stop: i64 = len(bucket)
        self._bucket = bucket
        self._last: i64 = bucket[len(bucket) - 1]

    def next(self) -> tuple[int, int, int]:
        """(due, first, count) of the next one; there is one."""
        at = self.at
        self.at = at + 2
        count = self._last if at + 2 == self.stop else i64(self._bucket[at + 1])
        return int(self.due), self._bucket[at], int(count)


@final
class Calendar:
    """Due times of messages with an expiration of their own.

    Invariant: `count` is the sum of the counts of all entries; `_dues` is a heap of the keys of
    `_buckets`. A message that is gone may stay until it is due or swept.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}  # (first, count) pairs by due time
        self._dues: list[int] = []
        self._taken: i64 = 0  # entries of the earliest bucket that were taken
        self.count: i64 = 0
        self._sweep_above: i64 = SWEEP_SLACK
        self._sweeping: list[int] = []  # buckets to look through, the next one last
        self._swept: array[int] = array("q")
        self._sweep_at: i64 = 0

    def add(self, first: i64, count: i64, now_ms: i64, ttl_ms: i64) -> i64:
        """Messages first.. expire in `ttl_ms`; return when they will be taken out."""
        width: i64 = WIDTH_MS_MIN
        while width < WIDTH_MS_MAX and width << (WIDTH_SHIFT + 1) <= ttl_ms:
            width += width
        due = (now_ms + ttl_ms + width - 1) // width * width if ttl_ms > 0 else now_ms
        bucket = self._buckets.get(due)
        if bucket is None:
            bucket = array("q")
            self._buckets[due] = bucket
            heappush(self._dues, due)
        length = len(bucket)
        if length > 0 and i64(bucket[length - 2]) + i64(bucket[length - 1]) == first:
            bucket[length - 1] += count
        else:
            bucket.append(first)
            bucket.append(count)
        self.count += count
        return due

    def note(self, first: i64, count: i64, now_ms: i64, traits: Traits, index: i64) -> i64:
        """Messages first.. are `index`.. of the traits; return when the first of them is due."""
        due: i64 = FAR
        at: i64 = 0
        while at < count:
            ttl = traits.ttl_of(index + at)
            stop = count if traits.ttls is None else at + 1
            while stop < count and traits.ttl_of(index + stop) == ttl:
                stop += 1
            if ttl >= 0:
                due = min(due, self.add(first + at, stop - at, now_ms, ttl))
            at = stop
        return due

    def next_due_ms(self) -> i64:
        return i64(self._dues[0]) if len(self._dues) > 0 else FAR

    def take_due(self, now_ms: i64, limit: i64) -> list[tuple[int, int]]:
        """Up to `limit` entries that are due, out of the calendar."""
        found: list[tuple[int, int]] = []
        while len(found) < limit and len(self._dues) > 0 and i64(self._dues[0]) <= now_ms:
            due = self._dues[0]
            self._stop_sweep(due)
            bucket = self._buckets[due]
            at = self._taken
            stop = min(len(bucket) // 2, at + limit - len(found))
            while at < stop:
                count = bucket[2 * at + 1]
                found.append((bucket[2 * at], count))
                self.count -= count
                at += 1
            self._taken = at
            if at == len(bucket) // 2:
                heappop(self._dues)
                del self._buckets[due]
                self._taken = 0
        return found

    def wants_sweep(self, alive: i64) -> bool:
        """Whether most of what is here belongs to messages that are gone."""
        if len(self._sweeping) > 0:
            return True
        if self.count <= self._sweep_above or self.count <= 2 * alive:
            return False
        self._sweeping = sorted(self._buckets, reverse=True)
        return True

    def sweep(self, alive: Callable[[int, int], list[tuple[int, int]]], limit: i64) -> None:
        """Forget messages that `alive(first, count)` does not name; look at `limit` entries."""
        while limit > 0 and len(self._sweeping) > 0:
            due = self._sweeping[len(self._sweeping) - 1]
            bucket = self._buckets.get(due)
            if bucket is None or (self._taken > 0 and due == self._dues[0]):
                self._end_sweep(due, None)  # being taken, or taken already
                continue
            at = self._sweep_at
            stop = min(len(bucket) // 2, at + limit)
            limit -= stop - at
            while at < stop:
                self.count -= i64(bucket[2 * at + 1])
                for first, count in alive(bucket[2 * at], bucket[2 * at + 1]):
                    self._swept.append(first)
                    self._swept.append(count)
                    self.count += count
                at += 1
            self._sweep_at = at
            if at == len(bucket) // 2:
                self._end_sweep(due, self._swept)

    def _stop_sweep(self, due: int) -> None:
        """The bucket is due: what was swept of it so far counts, the rest is taken as it is."""
        if self._sweep_at > 0 and self._sweeping[len(self._sweeping) - 1] == due:
            self._swept.extend(self._buckets[due][2 * self._sweep_at :])
            self._end_sweep(due, self._swept)

    def _end_sweep(self, due: int, kept: "array[int] | None") -> None:
        self._sweeping.pop()
        if kept is not None:
            self._buckets[due] = kept  # An empty one goes when it is due.
        self._swept = array("q")
        self._sweep_at = 0
        if len(self._sweeping) == 0:
            self._sweep_above = max(2 * self.count, SWEEP_SLACK)

    def entries(self) -> list[tuple[int, int, int]]:
        """Everything, as (due, first, count), by due time."""
        found: list[tuple[int, int, int]] = []
        for days in self.copy():
            while days.at < days.stop:
                found.append(days.next())
        return found

    def entry_count(self) -> int:
        found: i64 = -self._taken
        for bucket in self._buckets.values():
            found += len(bucket) // 2
        return found

    def copy(self) -> "list[Days]":
        """Everything that is here now, by due time."""
        found: list[Days] = []
        start = 2 * self._taken  # in the earliest bucket
        for due in sorted(self._buckets):
            bucket = self._buckets[due]
            if len(bucket) > start:
                found.append(Days(due, bucket, start))
            start = 0
        return found

    def restore(self, due: i64, first: i64, count: i64) -> None:
        """An entry of an earlier calendar."""
        bucket = self._buckets.get(due)
        if bucket is None:
            bucket = array("q")
            self._buckets[due] = bucket
            heappush(self._dues, due)
        bucket.append(first)
        bucket.append(count)
        self.count += count
