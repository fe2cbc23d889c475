"""Messages of one group go to one consumer, in their order. Compiled.

The group ids of messages are spread over a fixed number of buckets, so that a queue remembers no
more than these. The first consumer that gets a message of a bucket owns the bucket until it leaves;
then the next one that takes of it does. Bucket 0 has the messages without a group, for all. A
consumer with credit that may have nothing of what is ready stands in the `idle` line. `Ready`
reports what comes and goes.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from queues.machine.commands import ConsumerKey
from queues.machine.traits import Traits
from queues.runs.columns import Column
from queues.runs.seqset import SeqSet
from warren.wire.buffer import read_i32_le

if TYPE_CHECKING:
    from queues.machine.consuming.consumers import Consumer, Lines

BUCKETS_MAX: Final = 1024
END: Final = 1 << 62  # behind all messages
Waiting = dict[int, SeqSet]  # ready messages of one bucket, by level; no set is empty


@final
class MessageGroups:
    """Invariant: the bucket of every message in the queue is known; `_waiting` has those that are
    ready, by bucket."""

    def __init__(self, bucket_count: i64) -> None:
        self.bucket_count: i64 = bucket_count
        self.count: i64 = 0  # messages whose bucket is known
        self.owners: dict[int, Consumer] = {}
        self.idle: dict[ConsumerKey, Consumer] = {}
        self.buckets = Column("H")
        self._waiting: dict[int, Waiting] = {}

    # Messages

    def bucket_of(self, number: i64) -> i64:
        """Of the group with this number; 0: of no group."""
        return 0 if number == 0 else 1 + number % self.bucket_count

    def note(self, first: i64, count: i64, traits: Traits | None, index: i64) -> None:
        """New messages first.., which are `index`.. of the traits, are about to be ready."""
        column = None if traits is None else traits.groups
        if column is None:
            self.restore(first, count, 0)
            return
        at: i64 = 0
        while at < count:
            self.restore(first + at, 1, self.bucket_of(i64(read_i32_le(column, 4 * (index + at)))))
            at += 1

    def restore(self, first: i64, count: i64, bucket: i64) -> None:
        """Messages first.. are in the queue, and of this bucket."""
        self.buckets.fill(first, count, bucket)
        self.count += count

    def forget(self, first: i64, count: i64) -> None:
        """Messages first.. are no longer in the queue."""
        self.buckets.release(first, count)
        self.count -= count

    def begin(self, alive: list[tuple[int, int]], lanes: list[SeqSet]) -> None:
        """These messages, of which no group is known, are in the queue, and `lanes` are ready."""
        for first, count in alive:
            self.restore(first, count, 0)
        self.rebuild(lanes)

    def rebuild(self, lanes: list[SeqSet]) -> None:
        """These are the ready messages, by level."""
        self.clear()
        for level, lane in enumerate(lanes):
            if lane.count > 0:
                for first, count in lane.runs():
                    self.add(first, count, level)

    def found(self, seq: i64, number: i64) -> None:
        """A restart has found that message `seq`, of which no group was known, has this one."""
        bucket = self.bucket_of(number)
        if bucket == 0 or self.buckets.get(seq) > 0:
            return
        waiting = self._waiting.get(0, {})
        levels = [level for level, lane in waiting.items() if lane.contains(seq)]
        self.remove(seq, 1)
        self.buckets.release(seq, 1)
        self.buckets.fill(seq, 1, bucket)
        for level in levels:
            self.add(seq, 1, level)

    def add(self, first: i64, count: i64, level: i64) -> None:
        """These messages are ready."""
        end = first + count
        while first < end:
            run = self.buckets.alike(first, end - first)
            bucket = self.buckets.get(first)
            waiting = self._waiting.get(bucket)
            if waiting is None:
                waiting = {}
                self._waiting[bucket] = waiting
            lane = waiting.get(level)
            if lane is None:
                lane = SeqSet()
                waiting[level] = lane
            lane.add(first, run)
            first += run

    def remove(self, first: i64, count: i64) -> None:
        """These messages are not ready any more; some may not have been."""
        if len(self._waiting) == 0:
            return
        end = first + count
        while first < end:
            run = self.buckets.alike(first, end - first)
            self._remove_of(self.buckets.get(first), first, run)
            first += run

    def _remove_of(self, bucket: i64, first: i64, count: i64) -> None:
        waiting = self._waiting.get(bucket)
        if waiting is None:
            return
        for level in list(waiting):
            lane = waiting[level]
            lane.remove(first, count)
            if lane.count == 0:
                del waiting[level]
        if len(waiting) == 0:
            del self._waiting[bucket]

    def clear(self) -> None:
        """No message is ready any more."""
        self._waiting = {}

    # Serving

    def head(self, consumer: "Consumer", want: i64) -> tuple[i64, i64]:
        """The first of the ready messages that the consumer may get, and how many of those that
        follow, `want` at most; 0: there is none."""
        best: SeqSet | None = None
        best_level: i64 = -1
        first: i64 = END
        for bucket, waiting in self._waiting.items():
            owner = self.owners.get(bucket)
            if owner is not None and owner is not consumer:
                continue
            level = i64(max(waiting))
            lane = waiting[level]
            seq = lane.first()
            if level > best_level or (level == best_level and seq < first):
                best = lane
                best_level = level
                first = seq
        if best is None:
            return 0, 0
        return first, min(want, best.head_run())

    def claim(self, consumer: "Consumer", seq: i64) -> None:
        """The consumer takes this message: from now on all of its bucket are for it."""
        bucket = self.buckets.get(seq)
        if bucket > 0 and consumer.attached and bucket not in self.owners:
            self.owners[bucket] = consumer

    def leave(self, consumer: "Consumer") -> None:
        """The consumer gets nothing more: others may have its buckets."""
        for bucket in [each for each, owner in self.owners.items() if owner is consumer]:
            del self.owners[bucket]

    def rest(self, consumer: "Consumer") -> None:
        """The consumer has credit, and nothing that is ready is for it. It stands in no line."""
        consumer.is_idle = True
        self.idle[consumer.key] = consumer

    def end_rest(self, consumer: "Consumer") -> None:
        consumer.is_idle = False
        del self.idle[consumer.key]

    def wake(self, lines: "Lines") -> bool:
        """Have idle consumers stand in line for which there is something; whether there are any."""
        if len(self.idle) == 0:
            return False
        woken = False
        for bucket in sorted(self._waiting):
            owner = self.owners.get(bucket)
            if owner is not None:
                if owner.is_idle:
                    self.end_rest(owner)
                    lines.join(owner)
                    woken = True
                continue
            wanted: i64 = 1
            if bucket == 0:
                wanted = sum([int(lane.count) for lane in self._waiting[0].values()])
            while wanted > 0 and len(self.idle) > 0:
                lines.join(self._take_idle())
                woken = True
                wanted -= 1
        return woken

    def _take_idle(self) -> "Consumer":
        """Take out the idle consumer that is served next; there must be one."""
        found: Consumer | None = None
        for each in self.idle.values():
            if found is None or each.priority > found.priority:
                found = each
        assert found is not None
        self.end_rest(found)
        return found
