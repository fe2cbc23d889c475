"""Which consumers of a queue have byte windows or rates, and when these let them be served.

The limits of a consumer are its own, or else those of the queue. A consumer without any has no
`Limits` and costs one test per turn. A consumer whose limits are reached stands in no line: it is
`barred`, until it settles something or its time has come. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.machine.commands import QUEUE_LIMIT
from queues.machine.consuming.consumer_limits import TOKENS, Limits
from queues.machine.consuming.consumers import Consumer
from queues.machine.consuming.roster import Roster
from queues.machine.effects import Delivers, Effect, SlowConsumer
from queues.machine.expiry import FAR
from queues.machine.notes import Notes

COPY_LOOK: Final = 4096  # message_seqs that are looked at together for the next copy


@final
class Limiter:
    """Invariant: no consumer waits for its rate longer than until `due_ms`."""

    def __init__(self, roster: Roster, notes: Notes) -> None:
        self._roster = roster
        self._notes = notes
        self.due_ms: i64 = FAR  # when a consumer may get messages again
        self.look_ms: i64 = FAR  # when to look for slow consumers
        self.holds_all = False  # no consumer is served until there are enough, or long enough
        self.first_ms: i64 = -1  # when the first consumer came that is held so

    def restore(self, consumer: Consumer, now_ms: i64) -> Limits | None:
        """Give the consumer the limits that are its own or the queue's, or none."""
        address = self._notes.options.address
        window: i64 = consumer.own_window_bytes
        if window == QUEUE_LIMIT:
            window = -1 if address is None else address.window_bytes
        rate: i64 = consumer.own_rate_max
        if rate == QUEUE_LIMIT:
            rate = -1 if address is None else address.rate_max
        watches = address is not None and (address.slow_threshold > 0 or address.copies > 0)
        if consumer.limits is not None and consumer.limits.copies_held > 0:
            watches = True  # They are still to be settled.
        if window < 0 and rate <= 0 and not watches:
            consumer.limits = None
            return None
        limits = consumer.limits
        if limits is None:
            limits = Limits(now_ms)
            consumer.limits = limits
        if rate != limits.rate_max:
            limits.next_ms = FAR
            limits.tokens = TOKENS
            limits.filled_ms = now_ms
        limits.window_bytes = window
        limits.rate_max = rate
        return limits

    def begin(self, consumer: Consumer, now_ms: i64) -> bool:
        """The consumer is new, or the options have changed. Return whether it wants sizes of
        messages that the queue does not count."""
        had_limits = consumer.limits is not None
        if self.holds_all:
            self.configure_dispatch(now_ms)
            consumer.barred = consumer.barred or self.holds_all
        limits = self.restore(consumer, now_ms)
        if limits is None:
            if had_limits:
                self.open_or_close(consumer)
            return False
        limits.held_bytes = 0
        limits.at_end = False
        limits.settled_count = 0
        limits.waiting_count = 0
        address = self._notes.options.address
        if address is not None and address.slow_threshold > 0:
            self.look_ms = min(self.look_ms, now_ms + address.slow_period_ms)
        if limits.window_bytes > 0:
            for first, count in consumer.held.runs():
                limits.held_bytes += self._notes.bytes_of(first, count)
            for size in limits.copy_sizes.values():
                limits.held_bytes += size
        self.open_or_close(consumer)
        return limits.window_bytes > 0 and not self._notes.options.counts_bytes

    def configured(self, now_ms: i64) -> bool:
        """The options have changed. Return as `begin`."""
        self.configure_dispatch(now_ms)
        wants_sizes = False
        for consumer in self._roster.consumers.values():
            if consumer.attached and self.begin(consumer, now_ms):
                wants_sizes = True
        return wants_sizes

    def wants_sizes(self) -> bool:
        """Whether a consumer has a byte window of its own."""
        for consumer in self._roster.consumers.values():
            if consumer.own_window_bytes > 0 and consumer.attached:
                return True
        return False

    def open_or_close(self, consumer: Consumer) -> None:
        """Have the consumer stand in line, or leave it, as its limits ask."""
        limits = consumer.limits
        copies_held: i64 = 0 if limits is None else limits.copies_held
        self._bar(consumer, consumer.held.count + copies_held)
        if consumer.barred:
            self._roster.leave_line(consumer)
        else:
            self._roster.give(consumer, consumer.credit)

    def _bar(self, consumer: Consumer, held_count: i64) -> None:
        limits = consumer.limits
        counts_bytes = self._notes.options.counts_bytes
        is_closed = limits is not None and limits.is_closed(counts_bytes, held_count)
        consumer.barred = consumer.suspended or is_closed or self.holds_all

    # Consumers before dispatch

    def configure_dispatch(self, now_ms: i64) -> None:
        """The options have changed, or consumers have come or gone."""
        address = self._notes.options.address
        wanted: i64 = 0 if address is None else address.dispatch_consumers
        delay_ms: i64 = -1 if address is None else address.dispatch_delay_ms
        attached = self._roster.attached_count
        if wanted == 0 and delay_ms <= 0:
            self._hold_all(False)
        elif attached == 0:
            self.first_ms = -1
            self._hold_all(True)
        elif self.holds_all:
            if self.first_ms < 0:
                self.first_ms = now_ms
            if 0 < wanted <= attached or (delay_ms >= 0 and now_ms >= self.first_ms + delay_ms):
                self._hold_all(False)
            elif delay_ms >= 0:
                self.due_ms = min(self.due_ms, self.first_ms + delay_ms)

    def _hold_all(self, holds: bool) -> None:
        if self.holds_all != holds:
            self.holds_all = holds
            for consumer in self._roster.consumers.values():
                if consumer.attached:
                    self.open_or_close(consumer)

    # Serving and settling

    def allowed(self, consumer: Consumer, first: i64, count: i64, now_ms: i64) -> i64:
        """How many of the ready messages first.. to deliver to it now; they count as delivered. 0:
        none, and the consumer, which has left its line, stays out of it."""
        limits = consumer.limits
        assert limits is not None
        notes = self._notes
        count = limits.allows(notes, consumer.held.count, first, count, now_ms)
        if limits.window_bytes > 0:
            limits.held_bytes += notes.bytes_of(first, count)
        if limits.rate_max > 0:
            limits.tokens -= count * TOKENS
        self.due_ms = min(self.due_ms, limits.next_ms)
        self._bar(consumer, consumer.held.count + count)
        return count

    def settled(self, consumer: Consumer, limits: Limits, first: i64, count: i64) -> None:
        """The consumer held these messages until now."""
        limits.settled_count += count
        if limits.window_bytes > 0:
            limits.held_bytes -= self._notes.bytes_of(first, count)
        self._bar(consumer, consumer.held.count)
        self._roster.give(consumer, consumer.credit)

    # Non-destructive queues

    def copy(
        self, consumer: Consumer, want: i64, end: i64, now_ms: i64, effects: list[Effect]
    ) -> None:
        """Deliver copies of ready messages below `end`, `want` of them at most. If there are none,
        the consumer, which has left its line, stays out of it."""
        limits = consumer.limits
        assert limits is not None
        ready = self._notes.ready
        selection = consumer.selection
        if selection is not None:
            end = min(end, selection.seen + 1)
        limits.next_copy = max(limits.next_copy, ready.oldest())
        while limits.next_copy < end:
            looked = min(COPY_LOOK, end - limits.next_copy)
            if selection is None:
                runs = ready.within(limits.next_copy, looked)
            else:
                runs = selection.within(limits.next_copy, looked)
            if len(runs) > 0:
                first: i64 = runs[0][0]
                count = min(want, i64(runs[0][1]))
                count = limits.allows_copies(self._notes, first, count, now_ms)
                self.due_ms = min(self.due_ms, limits.next_ms)
                self._bar(consumer, limits.copies_held)
                if count > 0:
                    limits.next_copy = first + count
                    number = consumer.delivery_count + 1
                    consumer.delivery_count += count
                    consumer.credit -= count
                    effects.append(Delivers(consumer.key, number, first, count, False, 0))
                return
            limits.next_copy += COPY_LOOK
        limits.next_copy = max(limits.next_copy, end)
        limits.at_end = True
        consumer.barred = True

    def settle_copies(
        self, consumer: Consumer, limits: Limits, runs: list[tuple[int, int]]
    ) -> None:
        """The consumer settles these messages: copies are those that it does not hold."""
        if limits.copies_held == 0:
            return
        settled: i64 = 0
        for first, count in runs:
            settled += count
            limits.settle_copies(first, count)
            for _, held in consumer.held.within(first, count):
                settled -= held
        settled = min(settled, limits.copies_held)
        limits.copies_held -= settled
        self._bar(consumer, limits.copies_held)
        self._roster.give(consumer, consumer.credit + (settled if consumer.auto_return else 0))

    def new_messages(self) -> None:
        """Consumers of a non-destructive queue that had had all messages are served again."""
        for consumer in self._roster.consumers.values():
            limits = consumer.limits
            if limits is not None and limits.at_end:
                limits.at_end = False
                self._bar(consumer, limits.copies_held)
                self._roster.give(consumer, consumer.credit)

    def end_waits(self, now_ms: i64) -> i64:
        """Have consumers stand in line that have waited long enough for their rates; return when
        to call this next."""
        self.due_ms = FAR
        if self.holds_all:
            self.configure_dispatch(now_ms)
        for consumer in self._roster.consumers.values():
            limits = consumer.limits
            if limits is None or limits.next_ms == FAR:
                continue
            if limits.next_ms <= now_ms:
                limits.fill(now_ms)
                self.open_or_close(consumer)
            else:
                self.due_ms = min(self.due_ms, limits.next_ms)
        return self.due_ms

    # Slow consumers

    def take_slow(self, now_ms: i64) -> list[SlowConsumer]:
        """Look, because it is time: which consumers are slow?"""
        self.look_ms = FAR
        address = self._notes.options.address
        found: list[SlowConsumer] = []
        if address is None or address.slow_threshold <= 0 or self._roster.attached_count == 0:
            return found
        self.look_ms = now_ms + address.slow_period_ms
        wanted = address.slow_threshold * address.slow_period_ms // 1000
        ready_count = self._notes.ready.count
        for consumer in self._roster.consumers.values():
            limits = consumer.limits
            if limits is None or not consumer.attached:
                continue
            waiting = consumer.held.count + (ready_count if consumer.credit > 0 else 0)
            settled = limits.settled_count
            if limits.look(waiting, max(wanted, 1)):
                kills = address.slow_kills > 0
                found.append(SlowConsumer(consumer.key, settled, address.slow_period_ms, kills))
        return found
