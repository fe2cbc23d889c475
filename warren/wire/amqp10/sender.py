"""One link as its sender: credit from the receiver, credit for the queue, what waits. Compiled.

The broker is the sender of a consumer's link. Three numbers are kept apart:

- `credit`: what the receiver still allows, absolute and counted from `delivery_count`.
- `waiting`: messages that the queue has handed over and that were not begun to be sent. They wait
  here by name (`Run`), not with their bytes.
- what the queue may still hand over: `granted - arrived`, counted from the beginning of the link.
  It is at most `queue_credit_max` together with `waiting`, and is topped up when half is used, so
  that a receiver with much credit and a small session window does not fill this side with messages.

`waiting` never exceeds `credit`: when the receiver takes credit back, what is too much is given up
(`withdraw`), and what the queue hands over too late is not taken (`offer`).

Drain: the queue is asked for what it has, in batches of `queue_credit_max`; when it has no more
and nothing waits, the credit that is left is used up at once (`finish_drain`). What the receiver
asks for meanwhile is stashed, the latest replacing the one before. With `queue_credit_max` 0 there
is no queue behind the link, as in a publishing client: a drain is then over when nothing waits.
"""

from collections import deque
from typing import final

from mypy_extensions import i64, mypyc_attr

from warren.wire.amqp10.codec.serial import UINT_MAX, ahead, plus
from warren.wire.amqp10.deliver import Heads


@final
@mypyc_attr(acyclic=True)
class Run:
    """Messages first.. of the host's own numbering that wait to be sent.

    `number` and `attempts` are the host's, and mean nothing here. `heads` says what stands before
    the bare message of a delivery (None: what came). The bytes of the first `ready`
    messages are there once the host has put them in (`put`): message `i` of these is
    `data[offsets[index + i] - base : offsets[index + i + 1] - base]`, in stored form 2
    (`transfers`).
    """

    def __init__(
        self, number: i64, first: i64, count: i64, settled: bool, attempts: i64 = 0
    ) -> None:
        self.number: i64 = number
        self.first: i64 = first
        self.count: i64 = count
        self.settled = settled
        self.attempts: i64 = attempts
        self.heads: Heads | None = None
        self.delivery_count: i64 = 0  # of failed deliveries, for the header
        self.acquired = False  # a consumer had these messages before
        self.ready: i64 = 0
        self.cost: i64 = 0  # of the bytes that were put, beside sending them
        self.kept = False  # the bytes were there from the beginning, and stay
        self.data = b""
        self.base: i64 = 0
        self.offsets = b""
        self.index: i64 = 0

    def put(self, data: bytes, base: i64, offsets: bytes, index: i64, ready: i64) -> None:
        """The bytes of the first `ready` messages of the run."""
        assert 0 < ready <= self.count
        self.data = data
        self.base = base
        self.offsets = offsets
        self.index = index
        self.ready = ready

    def advance(self, count: i64) -> None:
        """The first `count` messages are on their way."""
        self.first += count
        self.count -= count
        self.index += count
        self.ready -= count
        if self.ready <= 0:
            self.release()

    def release(self) -> None:
        """Let go of the bytes; they are asked for again when their turn comes."""
        self.ready = 0
        self.data = b""
        self.offsets = b""


@final
class QueueCredit:
    """For the queue: it may hand over `credit` messages after the `arrived`th of this link."""

    def __init__(self, arrived: i64, credit: i64, drain: bool) -> None:
        self.arrived: i64 = arrived
        self.credit: i64 = credit
        self.drain = drain


@final
class Sender:
    """Invariants: 0 <= waiting <= credit; arrived <= granted, unless the queue is late."""

    def __init__(self, initial_delivery_count: i64, queue_credit_max: i64) -> None:
        self.initial_delivery_count: i64 = initial_delivery_count
        self.queue_credit_max: i64 = queue_credit_max  # 0: no queue hands anything over
        self.delivery_count: i64 = initial_delivery_count
        self.credit: i64 = 0
        self.available: i64 = 0  # what the queue has ready; the host keeps it true enough
        self.flow_due = False
        self.drain = False  # the receiver's last word, repeated in flows
        self.draining = False  # credit is to be used up, and is not yet
        self.runs: deque[Run] = deque()
        self.waiting: i64 = 0
        self.arrived: i64 = 0
        self.granted: i64 = 0
        self.in_line = False  # stands in the session's line of links that have something to send
        self.loading = False  # the bytes of its first run are being loaded
        # The message that is under way in frames: all but its first `sent_bytes` are to follow.
        self.torn = False
        self.torn_id: i64 = 0
        self.torn_tag: i64 = 0
        self.sent_bytes: i64 = 0
        self._asked_drain = False  # the queue knows of the drain, and has not answered
        self._dry = False  # the queue has answered that it has no more
        self._stashed = False
        self._stashed_count: int | None = None
        self._stashed_credit: i64 = 0
        self._stashed_drain = False

    # From the receiver

    def update(self, delivery_count: int | None, credit: i64, drain: bool) -> bool:
        """A flow of the receiver; False: it is stashed until the drain is over.

        Without a delivery count the receiver has not seen our attach: it counts from its beginning.
        """
        if self.draining:
            self._stashed = True
            self._stashed_count = delivery_count
            self._stashed_credit = credit
            self._stashed_drain = drain
            return False
        seen: i64 = self.initial_delivery_count if delivery_count is None else delivery_count
        allowed = credit + ahead(seen, self.delivery_count)
        self.credit = min(allowed, UINT_MAX) if allowed > 0 else 0
        self.drain = drain
        if drain:
            self.draining = True
            self._dry = self.queue_credit_max == 0
        return True

    def withdraw(self) -> list[tuple[int, int, int]]:
        """Give up what waits beyond the credit, the last first: (number, first, count) each."""
        given_up: list[tuple[int, int, int]] = []
        while self.waiting > self.credit:
            run = self.runs[len(self.runs) - 1]
            count = min(self.waiting - self.credit, run.count)
            given_up.append((run.number, run.first + run.count - count, count))
            self._shorten(run, count)
        return given_up

    def _shorten(self, run: Run, count: i64) -> None:
        """Take the last `count` messages off the last run."""
        run.count -= count
        self.waiting -= count
        if run.ready > run.count:
            run.ready = run.count
        if run.count == 0:  # A torn message is counted in its run, but does not wait.
            self.runs.pop()

    # To and from the queue

    def queue_credit(self) -> QueueCredit | None:
        """What to tell the queue now; None: nothing new."""
        if self.queue_credit_max == 0:
            return None
        outstanding = self.granted - self.arrived
        if outstanding < 0:
            outstanding = 0
        target = min(self.credit, self.queue_credit_max) - self.waiting
        if target < 0:
            target = 0
        half_used = (outstanding + self.waiting) * 2 <= self.queue_credit_max
        drain = False
        if self.draining:
            if self._asked_drain or self._dry or target + outstanding == 0:
                return None
            drain = target > 0
            self._asked_drain = drain
        elif target == outstanding or (target > outstanding and not half_used):
            return None
        self.granted = self.arrived + target
        return QueueCredit(self.arrived, target, drain)

    def offer(self, run: Run) -> i64:
        """The queue hands over a run; return how many are taken: the rest must go back unseen."""
        self.arrived += run.count
        if self.granted < self.arrived:
            self.granted = self.arrived
        room = self.credit - self.waiting
        if room < run.count:
            run.count = room
        if run.count > 0:
            run.kept = run.ready > 0
            if run.ready > run.count:
                run.ready = run.count
            self.waiting += run.count
            self.runs.append(run)
        return run.count

    def take_waiting(self) -> list[tuple[int, int, int]]:
        """Give up all that waits, as `withdraw` does: the link is over."""
        self.credit = 0
        given_up = self.withdraw()
        self.runs.clear()
        self.torn = False
        return given_up

    def renew(self) -> None:
        """The queue has taken back what it handed over, and knows nothing of the link any more."""
        self.waiting = 0
        self.runs.clear()
        self.loading = False
        self.granted = self.arrived
        self._asked_drain = False
        self._dry = self.queue_credit_max == 0

    def drained(self, arrived: i64) -> None:
        """The queue's answer to a drain: `arrived` counts the credit that it could not use."""
        if arrived > self.arrived:
            self._dry = True
            self.arrived = arrived
        self.granted = self.arrived
        self._asked_drain = False

    # To the receiver

    def begin(self, count: i64) -> None:
        """So many of the messages that wait are sent now, or begun to be."""
        assert count <= self.waiting
        self.waiting -= count
        self.credit -= count
        self.delivery_count = plus(self.delivery_count, count)

    def may_finish_drain(self) -> bool:
        """Whether nothing is left to do for a drain but to use up the credit that is left."""
        if not self.draining or self.torn or self.waiting > 0 or self._asked_drain:
            return False
        return self._dry or self.credit == 0

    def finish_drain(self) -> None:
        """Use up the credit. A flow must go out now, before `unstash`."""
        self.delivery_count = plus(self.delivery_count, self.credit)
        self.credit = 0
        self.granted = self.arrived
        self.draining = False
        self._dry = False

    def unstash(self) -> bool:
        """Apply what the receiver asked for last during the drain; False: it asked for nothing."""
        if not self._stashed:
            return False
        self._stashed = False
        self.update(self._stashed_count, self._stashed_credit, self._stashed_drain)
        return True
