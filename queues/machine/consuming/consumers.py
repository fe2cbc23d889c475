"""A consumer as the queue machine knows it, and the lines in which consumers wait. Compiled."""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from queues.machine.commands import QUEUE_LIMIT, ConsumerKey
from queues.machine.consuming.checked_out import Rows
from queues.machine.consuming.consumer_limits import Limits
from queues.machine.consuming.selection import Selection
from queues.runs.seqset import SeqSet

VOID_SLACK: Final = 16  # empty places that a short line may have


@final
class Generation:
    """Messages that a consumer was seen to hold for the first time at `at_ms`."""

    def __init__(self, at_ms: i64, seqs: SeqSet) -> None:
        self.at_ms: i64 = at_ms
        self.seqs = seqs


@final
class Consumer:
    """A consumer of this queue, or the holder of messages that a session got by basic.get."""

    def __init__(self, key: ConsumerKey, priority: i64) -> None:
        self.key = key
        self.priority: i64 = priority
        self.credit: i64 = 0
        self.delivery_count: i64 = 0  # deliveries so far; the last one's delivery_seq
        self.auto_return = False
        self.attached = False
        self.in_turn = False  # stands in the line of its priority
        self.void: i64 = 0  # of its places in that line so many, the first ones, do not count
        self.held = SeqSet()
        self.rows: Rows | None = None  # of what it holds, where it may have to be sent again
        self.suspended = False  # its process cannot be reached: it gets nothing new
        self.barred = False  # suspended, or its limits are reached: it stands in no line
        self.own_window_bytes: i64 = QUEUE_LIMIT
        self.own_rate_max: i64 = QUEUE_LIMIT
        self.limits: Limits | None = None  # None: it has neither a window nor a rate
        self.selection: Selection | None = None  # it gets what this matches; None: everything
        self.is_idle = False  # stands in the line of its selection, for nothing matches
        self.drain_upto: i64 = 0  # to be drained once its selector has seen these; 0: it is not
        self.timeout_ms: i64 = -1  # for settling a delivery; -1: the queue's own
        self.generations: list[Generation] = []  # of what it holds, oldest first
        self.returned: SeqSet | None = None  # given back since the last look at the generations

    def remove_held(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """It holds these no more; those that it held, as runs."""
        runs = self.held.remove(first, count)
        rows = self.rows
        if rows is not None:
            for run_first, run_count in runs:
                rows.remove(run_first, run_count)
        return runs

    def timeout_or(self, default_ms: i64) -> i64:
        return self.timeout_ms if self.timeout_ms >= 0 else default_ms

    def age(self, now_ms: i64) -> i64:
        """Look at what is held now; return since when the oldest of it has been seen, or -1.

        A delivery is counted from the first look after it, so that none is timed out early.
        """
        if self.held.count == 0:
            self.generations = []
            self.returned = None
            return -1
        returned = self.returned
        known: list[Generation] = []
        for generation in self.generations:
            seqs = SeqSet()
            for first, count in generation.seqs.runs():
                for run_first, run_count in self.held.within(first, count):
                    seqs.add(run_first, run_count)
            if returned is not None:
                for first, count in returned.runs():
                    seqs.remove(first, count)
            if seqs.count > 0:
                known.append(Generation(generation.at_ms, seqs))
        fresh = SeqSet()
        for first, count in self.held.runs():
            fresh.add(first, count)
        for generation in known:
            for first, count in generation.seqs.runs():
                fresh.remove(first, count)
        if fresh.count > 0:
            known.append(Generation(now_ms, fresh))
        self.generations = known
        self.returned = None
        return known[0].at_ms if len(known) > 0 else -1

    def note_returned(self, first: i64, count: i64) -> None:
        """It gave these back: if it gets them again, their time starts again."""
        if len(self.generations) == 0:
            return
        if self.returned is None:
            self.returned = SeqSet()
        self.returned.remove(first, count)
        self.returned.add(first, count)


@final
class Level:
    """The line of consumers of one priority that have credit.

    Who leaves keeps an empty place, to be stepped over, for a line may be long. Invariants:
    `count` consumers stand here; there are at most about as many empty places, and none if no
    consumer stands here. `_first` has the first place, `_line` the others.
    """

    def __init__(self, priority: i64) -> None:
        self.priority: i64 = priority
        self.count: i64 = 0
        self._places: i64 = 0
        self._first: Consumer | None = None  # alone it is not looked for in a line (0009)
        self._line: deque[Consumer] = deque()

    def standing(self) -> list[Consumer]:
        """Who stands here, in order."""
        passed: dict[ConsumerKey, int] = {}
        found: list[Consumer] = []
        for consumer in self._all():
            seen = passed.get(consumer.key, 0)
            passed[consumer.key] = seen + 1
            if seen >= consumer.void:
                found.append(consumer)
        return found

    def _all(self) -> list[Consumer]:
        """Who has the places, in order."""
        return [] if self._first is None else [self._first, *self._line]

    def put(self, consumer: Consumer) -> None:
        """To the end."""
        if self._first is None:
            self._first = consumer
        else:
            self._line.append(consumer)
        self._places += 1
        self.count += 1

    def take(self) -> Consumer:
        """The first one; there must be one."""
        self.count -= 1
        consumer = self._leave_first()
        while consumer.void > 0:
            consumer.void -= 1
            consumer = self._leave_first()
        if self.count == 0 and self._places > 0:
            self._tidy()
        return consumer

    def _leave_first(self) -> Consumer:
        """Who had the first place."""
        first = self._first
        assert first is not None
        self._places -= 1
        self._first = self._line.popleft() if self._places > 0 else None
        return first

    def leave(self, consumer: Consumer) -> None:
        """It stands here, and shall not."""
        self.count -= 1
        consumer.void += 1
        if self.count == 0 or self._places > 2 * self.count + VOID_SLACK:
            self._tidy()

    def _tidy(self) -> None:
        """Take the empty places out."""
        standing = self.standing()
        for each in self._all():
            each.void = 0
        self._places = len(standing)
        self._first = standing[0] if len(standing) > 0 else None
        self._line = deque(standing[1:])


@final
class Lines:
    """All consumers that may be served, the highest priority first."""

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self.only: Level | None = None  # if there is one: nearly always (0009)

    def join(self, consumer: Consumer) -> None:
        """Stand at the end of the line of its priority, unless it stands there already."""
        if not consumer.in_turn:
            consumer.in_turn = True
            self._level(consumer.priority).put(consumer)

    def leave(self, consumer: Consumer) -> None:
        if consumer.in_turn:
            consumer.in_turn = False
            self._level(consumer.priority).leave(consumer)
        if len(self.levels) > 1:
            self.levels = [level for level in self.levels if level.count > 0]
            self._note_only()

    def is_empty(self) -> bool:
        only = self.only
        if only is not None:
            return only.count <= 0
        return all(level.count <= 0 for level in self.levels)

    def _note_only(self) -> None:
        self.only = self.levels[0] if len(self.levels) == 1 else None

    def _level(self, priority: i64) -> Level:
        only = self.only
        if only is not None and only.priority == priority:
            return only
        place: i64 = 0
        for level in self.levels:
            if level.priority == priority:
                return level
            if level.priority < priority:
                break
            place += 1
        made = Level(priority)
        self.levels.insert(place, made)
        self._note_only()
        return made
