"""When messages expire: by the queue's TTL, and by their own expiration. No clock. Compiled.

Both are coarse in proportion: a message expires late by at most 1/1000 of its lifetime or a few
milliseconds, and never early. That keeps what must be remembered small: for the queue's TTL one
row per 1/1000 of it, for expirations 3 bytes or so per run of messages with the same due time.
"""

from bisect import bisect_right
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from queues.machine.address_settings import AddressSettings
from queues.machine.traits import ABSENT, Traits
from queues.runs.packed_runs import PackedRuns
from queues.runs.seqset import SeqSet

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


def default_lifetime(address: AddressSettings | None) -> i64:
    """The lifetime of messages without an expiration; -1: they have none."""
    if address is None:
        return ABSENT
    return address.expiry_max_ms if address.expiry_ms < 0 else address.expiry_ms


def bounded_ttl(address: AddressSettings, ttl_ms: i64) -> i64:
    """The lifetime of a message that has this one, or none."""
    if ttl_ms < 0:
        return default_lifetime(address)
    if address.expiry_max_ms >= 0:
        ttl_ms = min(ttl_ms, address.expiry_max_ms)
    return max(ttl_ms, address.expiry_min_ms)


@final
class Days:
    """The entries of one bucket of a calendar as they were: `at` are read, of `stop`."""

    def __init__(self, due: i64, runs: PackedRuns) -> None:
        self.due: i64 = due
        self.at: i64 = 0
        self.stop: i64 = runs.run_count
        self._runs = runs

    def next(self) -> tuple[int, int, int]:
        """(due, first, count) of the next one; there is one."""
        first, count = self._runs.take(1)[0]
        self.at += 1
        return int(self.due), first, count


def width_of(ttl_ms: i64) -> i64:
    """Of the buckets of a calendar for messages with this lifetime."""
    width: i64 = WIDTH_MS_MIN
    while width < WIDTH_MS_MAX and width << (WIDTH_SHIFT + 1) <= ttl_ms:
        width += width
    return width


def ceiling(value: i64, width: i64) -> i64:
    """The least multiple of the width that is not below the value."""
    return (value + width - 1) // width * width


@final
class Calendar:
    """Due times of messages: by an expiration of their own, or by the queue's default lifetime.

    Invariant: `count` is the sum of the counts of all entries; `_dues` is a heap of the keys of
    `_buckets`. Due times by the default are odd, others that are to come are not. A message that is
    gone may stay until it is due or swept.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, PackedRuns] = {}  # by due time
        self._dues: list[int] = []
        self.count: i64 = 0
        self._sweep_above: i64 = SWEEP_SLACK
        self._sweeping: list[int] = []  # buckets to look through, the next one last
        self._sweep_left: i64 = -1  # runs of that one; -1: it was not begun

    def add(self, first: i64, count: i64, now_ms: i64, ttl_ms: i64) -> i64:
        """Messages first.. expire in `ttl_ms`; return when they will be taken out."""
        due = ceiling(now_ms + ttl_ms, width_of(ttl_ms)) if ttl_ms > 0 else now_ms
        self.restore(due, first, count)
        return due

    def restore(self, due: i64, first: i64, count: i64) -> None:
        """Messages first.. are due then, as an earlier calendar has said."""
        bucket = self._buckets.get(due)
        if bucket is None:
            bucket = PackedRuns()
            self._buckets[due] = bucket
            heappush(self._dues, due)
        bucket.add(first, count)
        self.count += count

    def add_default(self, first: i64, count: i64, now_ms: i64, ttl_ms: i64) -> i64:
        """The same by the default lifetime of the queue."""
        due = ceiling(now_ms + ttl_ms, width_of(ttl_ms)) + 1 if ttl_ms > 0 else now_ms
        self.restore(due, first, count)
        return due

    def note(
        self,
        first: i64,
        count: i64,
        now_ms: i64,
        traits: Traits | None,
        index: i64,
        address: AddressSettings | None = None,
    ) -> i64:
        """Messages first.. are `index`.. of the traits; return when the first of them is due.
        `address`: of a queue with bounds of lifetimes."""
        due: i64 = FAR
        at: i64 = 0
        while at < count:
            own = ABSENT if traits is None else traits.ttl_of(index + at)
            stop = count
            if traits is not None and traits.ttls is not None:
                stop = at + 1
                while stop < count and traits.ttl_of(index + stop) == own:
                    stop += 1
            ttl = own if address is None else bounded_ttl(address, own)
            if ttl >= 0 and own < 0:
                due = min(due, self.add_default(first + at, stop - at, now_ms, ttl))
            elif ttl >= 0:
                due = min(due, self.add(first + at, stop - at, now_ms, ttl))
            at = stop
        return due

    # Other bounds

    def change_default(self, now_ms: i64, old_ms: i64, ttl_ms: i64) -> None:
        """The default lifetime is another one; -1: there is none."""
        for due, bucket in self._take_later(now_ms, 1):
            wanted = due + ttl_ms - old_ms
            if ttl_ms < 0:
                for _, count in bucket.runs():
                    self.count -= count
            elif wanted <= now_ms:
                self._put_bucket(now_ms, -1, bucket)
            else:
                self._put_bucket(ceiling(wanted, WIDTH_MS_MIN) + 1, WIDTH_MS_MIN, bucket)

    def clamp(self, now_ms: i64, min_ms: i64, max_ms: i64) -> None:
        """Lifetimes by expirations of their own end `min_ms` from now at the earliest, and `max_ms`
        from now at the latest; -1: without such a bound."""
        for due, bucket in self._take_later(now_ms, 0):
            wanted: i64 = due if max_ms < 0 else min(due, now_ms + max_ms)
            wanted = ceiling(max(wanted, now_ms + min_ms), WIDTH_MS_MIN)
            self._put_bucket(wanted, WIDTH_MS_MIN, bucket)

    def _take_later(self, now_ms: i64, odd: i64) -> list[tuple[int, PackedRuns]]:
        """Take out the buckets that are due later than now, those by the default lifetime or the
        others, the earliest first. `count` stays. A sweep begins again when it is wanted."""
        self._sweeping = []
        self._sweep_left = -1
        found: list[tuple[int, PackedRuns]] = []
        for due in sorted(self._buckets):
            if due > now_ms and due % 2 == odd:
                found.append((due, self._buckets.pop(due)))
        self._dues = sorted(self._buckets)
        return found

    def _put_bucket(self, due: i64, step_ms: i64, bucket: PackedRuns) -> None:
        """Have it due at that time, or some steps from there, where there is no other bucket."""
        while due in self._buckets:
            due += step_ms
        self._buckets[due] = bucket
        heappush(self._dues, due)

    def messages(self) -> SeqSet:
        """Those that have a due time."""
        found = SeqSet()
        for bucket in self._buckets.values():
            for first, count in bucket.runs():
                found.remove(first, count)
                found.add(first, count)
        return found

    def next_due_ms(self) -> i64:
        return i64(self._dues[0]) if len(self._dues) > 0 else FAR

    def take_due(self, now_ms: i64, limit: i64) -> list[tuple[int, int]]:
        """Up to `limit` entries that are due, out of the calendar."""
        found: list[tuple[int, int]] = []
        while len(found) < limit and len(self._dues) > 0 and i64(self._dues[0]) <= now_ms:
            due = self._dues[0]
            if len(self._sweeping) > 0 and self._sweeping[len(self._sweeping) - 1] == due:
                self._end_sweep()  # All of it goes.
            bucket = self._buckets[due]
            for first, count in bucket.take(limit - len(found)):
                found.append((first, count))
                self.count -= count
            if bucket.run_count == 0:
                heappop(self._dues)
                del self._buckets[due]
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
        """Forget messages that `alive(first, count)` does not name; look at `limit` entries.

        What stays goes to the end of its bucket, behind what came meanwhile.
        """
        while limit > 0 and len(self._sweeping) > 0:
            bucket = self._buckets.get(self._sweeping[len(self._sweeping) - 1])
            if bucket is None:  # Taken already.
                self._end_sweep()
                continue
            if self._sweep_left < 0:
                self._sweep_left = bucket.run_count
            taken = bucket.take(min(limit, self._sweep_left))
            limit -= len(taken)
            self._sweep_left -= len(taken)
            for first, count in taken:
                self.count -= count
                for kept_first, kept in alive(first, count):
                    bucket.add(kept_first, kept)
                    self.count += kept
            if self._sweep_left == 0:
                bucket.trim()
                self._end_sweep()

    def _end_sweep(self) -> None:
        """Done with this bucket; one that is empty now goes when it is due."""
        self._sweeping.pop()
        self._sweep_left = -1
        if len(self._sweeping) == 0:
            self._sweep_above = max(2 * self.count, SWEEP_SLACK)

    def entries(self) -> list[tuple[int, int, int]]:
        """Everything, as (due, first, count), by due time."""
        found: list[tuple[int, int, int]] = []
        for due in sorted(self._buckets):
            found.extend([(due, first, count) for first, count in self._buckets[due].runs()])
        return found

    def entry_count(self) -> int:
        found: i64 = 0
        for bucket in self._buckets.values():
            found += bucket.run_count
        return found

    def copy(self) -> "list[Days]":
        """Everything that is here now, by due time."""
        found: list[Days] = []
        for due in sorted(self._buckets):
            bucket = self._buckets[due]
            if bucket.run_count > 0:
                found.append(Days(due, bucket.copy()))
        return found
