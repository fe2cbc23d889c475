"""What a queue knows of its messages beside their numbers: levels and sizes; how full it is.

Takes the traits of new messages, and gets the messages that stop being ready or leave; gives their
levels, and says whether the queue is over its limits and what there is room for. It
owns a column of levels and one of sizes; what the options do not ask for is not kept. A message
that it was never told of has no level to be asked for: that is a fault of ours. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.machine.options import Options
from queues.machine.ready import Ready
from queues.machine.traits import Traits
from queues.runs.columns import Column
from queues.runs.seqset import SeqSet

Noted = list[tuple[int, int, int]]  # (first, count, number of each of them)

# How messages are counted for the limits
ELSEWHERE: Final = 0  # not
READY: Final = 1
BESIDE: Final = 2

MANY: Final = 4096  # messages that are too many


@final
class Notes:
    """Invariant: with several levels the level of every message in the queue is known, with a limit
    on bytes its size; `ready_bytes` is the sum of the sizes of what is in `ready`,
    `beside_bytes` of what waits for its time (`queues.machine.delays`).
    """

    def __init__(self, ready: Ready, options: Options) -> None:
        self.ready = ready
        self.options = options
        self.ready_bytes: i64 = 0  # of bodies; 0 where there is no limit on bytes
        self.beside_count: i64 = 0  # not ready, and counted for the limits as if it were
        self.beside_bytes: i64 = 0
        self.pending_dead_letter_bytes: i64 = (
            0  # out of the queue, and counted for its limit on bytes
        )
        self._levels = Column("B")
        self._sizes = Column("i")

    def configure(self, options: Options) -> None:
        """Limits may change. Where one on bytes begins, `begin_sizes` is next."""
        if not options.counts_bytes:
            self._sizes = Column("i")
            self.ready_bytes = 0
            self.beside_bytes = 0
        self.options = options

    def begin_sizes(self, alive: list[tuple[int, int]], sizes: Noted) -> None:
        """There is a limit on bytes from now on: `alive` is in the queue, and of these sizes. What
        they do not name counts nothing.
        """
        place: i64 = 0
        for first, count in sorted(alive):
            seq: i64 = first
            end = seq + count
            while seq < end:
                while place < len(sizes) and sizes[place][0] + sizes[place][1] <= seq:
                    place += 1
                stop = end
                size: i64 = 0
                if place < len(sizes) and sizes[place][0] <= seq:
                    stop = min(end, i64(sizes[place][0] + sizes[place][1]))
                    size = sizes[place][2]
                elif place < len(sizes):
                    stop = min(end, i64(sizes[place][0]))
                self._sizes.fill(seq, stop - seq, size)
                seq = stop
        self._sum_ready()

    def _sum_ready(self) -> None:
        for first, count in self.ready.runs():
            self.ready_bytes += self._sizes.sum(first, count)

    # Messages come, wait, and go

    def put(self, first: i64, count: i64, traits: Traits | None, index: i64) -> None:
        """New messages first.. are ready; they are `index`.. of the traits."""
        if self.options.levels == 1:
            self.ready.add(first, count, 0)
        else:
            self._put_by_level(first, count, traits, index)
        if self.options.counts_bytes:
            at: i64 = 0
            while at < count:
                size = size_of(traits, index + at)
                self._sizes.fill(first + at, 1, size)
                self.ready_bytes += size
                at += 1

    def _put_by_level(self, first: i64, count: i64, traits: Traits | None, index: i64) -> None:
        at: i64 = 0
        while at < count:
            level = self._level_of(traits, index + at)
            stop = at + 1
            if traits is None or traits.priorities is None:
                stop = count
            while stop < count and self._level_of(traits, index + stop) == level:
                stop += 1
            self.ready.add(first + at, stop - at, level)
            self._levels.fill(first + at, stop - at, level)
            at = stop

    def _level_of(self, traits: Traits | None, index: i64) -> i64:
        priority: i64 = -1 if traits is None else traits.priority_of(index)
        if priority < 0:
            return self.options.default_level
        return min(priority, self.options.levels - 1)

    def level_run(self, first: i64, count: i64) -> tuple[i64, i64]:
        """The level of message `first`, and how many of first.. have the same."""
        if self.options.levels == 1:
            return 0, count
        return self._levels.get(first), self._levels.alike(first, count)

    def put_back(self, first: i64, count: i64, level: i64) -> None:
        """Messages first.., which are of this level, are ready again."""
        self.ready.add(first, count, level)
        if self.options.counts_bytes:
            self.ready_bytes += self._sizes.sum(first, count)

    def taken(self, first: i64, count: i64) -> None:
        """Messages first.. are no longer ready."""
        if self.options.counts_bytes:
            self.ready_bytes -= self._sizes.sum(first, count)

    def forget(self, first: i64, count: i64) -> None:
        """Messages first.. are no longer in the queue."""
        if self.options.levels > 1:
            self._levels.release(first, count)
        if self.options.counts_bytes:
            self._sizes.release(first, count)

    def bytes_of(self, first: i64, count: i64) -> i64:
        """Of the bodies of messages first..; 0 where there is no limit on bytes."""
        return self._sizes.sum(first, count) if self.options.counts_bytes else 0

    def fitting(self, first: i64, count: i64, room: i64) -> i64:
        """How many of the messages first.. begin within `room` bytes of bodies."""
        at: i64 = 0
        while at < count and room > 0:
            room -= self._sizes.get(first + at)
            at += 1
        return at

    def stands_beside(self, first: i64, count: i64) -> None:
        """Messages first.. are not ready, and count as if they were."""
        self.beside_count += count
        self.beside_bytes += self.bytes_of(first, count)

    def stands_no_more(self, first: i64, count: i64) -> None:
        """The same is over."""
        self.beside_count -= count
        self.beside_bytes -= self.bytes_of(first, count)

    def count_beside(self, beside: SeqSet) -> None:
        """All that stands beside is this, after a restart or a change of limits."""
        self.beside_count = 0
        self.beside_bytes = 0
        for first, count in beside.runs():
            self.stands_beside(first, count)

    # Limits

    def is_over(self) -> bool:
        if 0 <= self.options.length_max < self.ready.count + self.beside_count:
            return True
        return 0 <= self.options.bytes_max < self.ready_bytes + self.beside_bytes

    def is_far_over(self) -> bool:
        """Whether there are so many too many that they are to go at once, by `drop_many`."""
        if self.options.length_max < 0 or self.options.counts_bytes:
            return False
        return self.ready.count + self.beside_count - self.options.length_max >= MANY

    def drop_many(self) -> SeqSet:
        """As `drop_lowest`, of the lowest level as many as there are too many."""
        length = self.ready.count + self.beside_count
        return self.ready.take_lowest(length - self.options.length_max)

    def drop_lowest(self) -> tuple[i64, i64]:
        """Take messages out of an overfull `ready`, the oldest of the lowest level, as a run.

        There may still be too many after it.
        """
        lane = self.ready.lowest_lane()
        first = lane.first()
        count: i64 = 1
        length = self.ready.count + self.beside_count
        if 0 <= self.options.length_max < length:
            count = min(lane.head_run(), length - self.options.length_max)
        self.taken(first, count)
        self.ready.drop_lowest(count)
        return first, count

    def room(self, traits: Traits | None, at: i64, count: i64) -> i64:
        """How many of the messages `at`..count-1 of the traits fit in."""
        options = self.options
        room = count - at
        if options.length_max >= 0:
            room = max(min(room, options.length_max - self.ready.count - self.beside_count), 0)
        if options.bytes_max >= 0:
            left = (
                options.bytes_max
                - self.ready_bytes
                - self.beside_bytes
                - self.pending_dead_letter_bytes
            )
            fit: i64 = 0
            while fit < room:
                left -= size_of(traits, at + fit)
                if left < 0:
                    break
                fit += 1
            room = fit
        return room

    # Snapshots

    def level_runs(self, alive: list[tuple[int, int]]) -> Noted:
        """Levels of these messages, where there are several."""
        return noted_runs(self._levels, alive) if self.options.levels > 1 else []

    def size_runs(self, alive: list[tuple[int, int]]) -> Noted:
        """Sizes of these messages, where they are counted."""
        return noted_runs(self._sizes, alive) if self.options.counts_bytes else []

    def level_column(self) -> Column | None:
        """Levels as they are now, where there are several."""
        return self._levels.copy() if self.options.levels > 1 else None

    def size_column(self) -> Column | None:
        """Sizes as they are now, where they are counted."""
        return self._sizes.copy() if self.options.counts_bytes else None

    def restore_level(self, first: i64, count: i64, level: i64) -> None:
        """Messages first.. are in the queue."""
        self._levels.fill(first, count, level)

    def restore_size(self, first: i64, count: i64, size: i64, stands: i64) -> None:
        """The same; `stands`: READY, BESIDE, or neither."""
        self._sizes.fill(first, count, size)
        if stands == READY:
            self.ready_bytes += count * size
        elif stands == BESIDE:
            self.beside_bytes += count * size

    def restore(self, levels: Noted, sizes: Noted) -> None:
        """All that is ready is in `ready` already, with no bytes counted."""
        for first, count, level in levels:
            self._levels.fill(first, count, level)
        for first, count, size in sizes:
            self._sizes.fill(first, count, size)
        if self.options.counts_bytes:
            self._sum_ready()


def size_of(traits: Traits | None, index: i64) -> i64:
    """0 where sizes were not asked for when the message came."""
    if traits is None or traits.sizes is None:
        return 0
    return traits.size_of(index)


def noted_runs(column: Column, alive: list[tuple[int, int]]) -> Noted:
    found: Noted = []
    for first, count in sorted(alive):
        at: i64 = first
        end = at + count
        while at < end:
            run = column.alike(at, end - at)
            found.append((at, run, column.get(at)))
            at += run
    return found
