"""The queue machine: one for classic, lazy, mirrored and quorum queues. No I/O, no clock.

Takes batches of commands (`queues.commands`) in log order, answers with effects
(`queues.effects`). Same commands in, same state and effects out: nothing here reads the time,
draws lots or walks a set. What differs between queue types is the host around it.

Messages are numbers: a message_seq is 1-based, given in the order of arrival, never used twice.
What a message is made of is the host's business. Compiled.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from queues.commands import (
    ACCEPT,
    ATTACH,
    CREDIT,
    DETACH,
    END_SESSION,
    ENQUEUE,
    GET,
    INSPECT,
    PURGE,
    REJECT,
    RETURN_UNSEEN,
    SETTLE,
    Attach,
    Command,
    ConsumerKey,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Inspect,
    Purge,
    SessionId,
    Settle,
    consumer_key,
    session_of,
)
from queues.effects import (
    LEFT_ACCEPTED,
    LEFT_PURGED,
    LEFT_REJECTED,
    Attached,
    AttachRefused,
    Delivers,
    Detached,
    Drained,
    Effect,
    Enqueued,
    Got,
    Inspected,
    KnownAlready,
    LastConsumerGone,
    Left,
    Purged,
    ResendFrom,
)
from queues.seqset import SeqSet

# Consumers take turns message by message; in a long backlog a turn is longer, which no client can
# tell from an uneven start but which keeps runs of message_seqs together.
LONG_BACKLOG: Final = 1024
LONG_TURN: Final = 32


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
        self.held = SeqSet()


@final
class Level:
    """The line of consumers of one priority that have credit."""

    def __init__(self, priority: i64) -> None:
        self.priority: i64 = priority
        self.line: deque[Consumer] = deque()


@final
class Fifo:
    """State of one queue.

    Invariant: each message in the queue is either in `ready` or held by exactly one consumer, and
    `redelivered` is a subset of both together.
    """

    def __init__(self) -> None:
        self.next_seq: i64 = 1
        self.ready = SeqSet()
        self.redelivered = SeqSet()
        self.checked_out: i64 = 0
        self.consumers: dict[ConsumerKey, Consumer] = {}
        self.attached_count: i64 = 0
        self.exclusive_key: ConsumerKey | None = None
        self.last_seqs: dict[SessionId, int] = {}  # highest publish of each session
        self.levels: list[Level] = []  # highest priority first
        self.delivered_high: i64 = 0  # highest message_seq ever checked out
        self.now_ms: i64 = 0
        self._effects: list[Effect] = []

    def restore(self, runs: list[tuple[int, int]], next_seq: i64, redelivered_upto: i64) -> None:
        """Start from what a recovery found: alive messages, the next number, the delivered mark."""
        assert self.next_seq == 1
        for first, count in runs:
            self.ready.add(first, count)
            if first <= redelivered_upto:
                self.redelivered.add(first, min(i64(count), redelivered_upto - first + 1))
        self.next_seq = next_seq
        self.delivered_high = min(redelivered_upto, next_seq - 1)

    def apply(self, commands: list[Command], now_ms: i64) -> list[Effect]:
        """Change the state by a batch of commands; return what the host must do, in order."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms
        effects: list[Effect] = []
        self._effects = effects
        for command in commands:
            kind = command.kind
            if kind == ENQUEUE:
                assert isinstance(command, Enqueue)
                self._enqueue(command)
            elif kind == SETTLE:
                assert isinstance(command, Settle)
                self._settle(command)
            elif kind == CREDIT:
                assert isinstance(command, Credit)
                self._credit(command)
            elif kind == GET:
                assert isinstance(command, Get)
                self._get(command.session)
            else:
                self._seldom(command, kind)
        self._check_out()
        self._effects = []
        return effects

    def _seldom(self, command: Command, kind: i64) -> None:
        if kind == ATTACH:
            assert isinstance(command, Attach)
            self._attach(command)
        elif kind == DETACH:
            assert isinstance(command, Detach)
            self._detach(command.key)
        elif kind == PURGE:
            assert isinstance(command, Purge)
            self._purge(command.session)
        elif kind == INSPECT:
            assert isinstance(command, Inspect)
            answer = Inspected(command.session, self.ready.count, self.attached_count)
            self._effects.append(answer)
        else:
            assert kind == END_SESSION
            assert isinstance(command, EndSession)
            self._end_session(command.session)

    # Publishing

    def _enqueue(self, command: Enqueue) -> None:
        session = command.session
        first = command.first_seq
        count = command.count
        last_seen: i64 = self.last_seqs.get(session, 0)
        if first > last_seen + 1:
            self._effects.append(ResendFrom(session, last_seen + 1))
            return
        if first <= last_seen:
            known = min(count, last_seen + 1 - first)
            self._effects.append(KnownAlready(session, first, known))
            first += known
            count -= known
            if count == 0:
                return
        self.last_seqs[session] = first + count - 1
        message_first = self.next_seq
        self.next_seq = message_first + count
        self.ready.add(message_first, count)
        self._effects.append(Enqueued(session, first, count, message_first))

    # Settling

    def _settle(self, command: Settle) -> None:
        consumer = self.consumers.get(command.key)
        if consumer is None:
            return  # It went while this was under way; its messages are back in `ready`.
        outcome = command.outcome
        for first, count in command.runs:
            for run_first, run_count in consumer.held.remove(first, count):
                self.checked_out -= run_count
                if outcome == ACCEPT:
                    self._leave(run_first, run_count, LEFT_ACCEPTED)
                elif outcome == REJECT:
                    self._leave(run_first, run_count, LEFT_REJECTED)
                else:
                    self._return(run_first, run_count, outcome != RETURN_UNSEEN)
                if consumer.auto_return:
                    self._give(consumer, consumer.credit + run_count)
        if not consumer.attached and consumer.held.count == 0:
            del self.consumers[command.key]

    def _leave(self, first: i64, count: i64, reason: i64) -> None:
        if self.redelivered.count > 0:
            self.redelivered.remove(first, count)
        self._effects.append(Left(first, count, reason))

    def _return(self, first: i64, count: i64, seen: bool) -> None:
        """Back to where they stood; `seen` messages are redelivered the next time."""
        self.ready.add(first, count)
        if not seen:
            return
        if self.redelivered.count > 0:
            self.redelivered.remove(first, count)
        self.redelivered.add(first, count)

    # Consumers

    def _attach(self, command: Attach) -> None:
        refused = self.exclusive_key is not None or (command.exclusive and self.attached_count > 0)
        if refused:
            self._effects.append(AttachRefused(command.key))
            return
        assert command.key not in self.consumers
        consumer = Consumer(command.key, command.priority)
        consumer.attached = True
        consumer.auto_return = command.auto_return
        self.consumers[command.key] = consumer
        self.attached_count += 1
        if command.exclusive:
            self.exclusive_key = command.key
        self._effects.append(Attached(command.key))
        self._give(consumer, command.credit)

    def _credit(self, command: Credit) -> None:
        """Absolute credit, counted from the delivery count that its giver knew (B-12)."""
        consumer = self.consumers.get(command.key)
        if consumer is None or not consumer.attached:
            return
        consumer.auto_return = command.auto_return
        self._give(consumer, command.delivery_count + command.credit - consumer.delivery_count)
        if command.drain:
            self._check_out()
            consumer.delivery_count += max(consumer.credit, 0)
            consumer.credit = 0
            self._effects.append(Drained(command.key, consumer.delivery_count))

    def _give(self, consumer: Consumer, credit: i64) -> None:
        consumer.credit = credit if credit > 0 else 0
        if consumer.credit > 0 and not consumer.in_turn and consumer.attached:
            consumer.in_turn = True
            self._level(consumer.priority).line.append(consumer)

    def _level(self, priority: i64) -> Level:
        place: i64 = 0
        for level in self.levels:
            if level.priority == priority:
                return level
            if level.priority < priority:
                break
            place += 1
        made = Level(priority)
        self.levels.insert(place, made)
        return made

    def _detach(self, key: ConsumerKey) -> None:
        consumer = self.consumers.get(key)
        if consumer is not None and consumer.attached:
            self._leave_line(consumer)
            if consumer.held.count == 0:
                del self.consumers[key]
        self._effects.append(Detached(key))

    def _leave_line(self, consumer: Consumer) -> None:
        consumer.attached = False
        consumer.credit = 0
        if consumer.in_turn:
            consumer.in_turn = False
            self._level(consumer.priority).line.remove(consumer)
        self.levels = [level for level in self.levels if len(level.line) > 0]
        if self.exclusive_key == consumer.key:
            self.exclusive_key = None
        self.attached_count -= 1
        if self.attached_count == 0:
            self._effects.append(LastConsumerGone())

    def _end_session(self, session: SessionId) -> None:
        self.last_seqs.pop(session, None)
        ended = [key for key in self.consumers if session_of(key) == session]
        for key in ended:
            consumer = self.consumers.pop(key)
            if consumer.attached:
                self._leave_line(consumer)
            self.checked_out -= consumer.held.count
            for first, count in consumer.held.runs():
                self._return(first, count, True)

    # Taking messages

    def is_able(self) -> bool:
        """Whether a consumer waits for messages (after a batch: there is none ready then)."""
        return any(len(level.line) > 0 for level in self.levels)

    def _get(self, session: SessionId) -> None:
        if self.ready.count == 0:
            self._effects.append(Got(session, 0, False, 0))
            return
        key = consumer_key(session, 0)
        consumer = self.consumers.get(key)
        if consumer is None:
            consumer = Consumer(key, 0)
            self.consumers[key] = consumer
        seq = self.ready.first()
        self._take(consumer, seq, 1)
        redelivered = self.redelivered.count > 0 and self.redelivered.contains(seq)
        self._effects.append(Got(session, seq, redelivered, self.ready.count))

    def _purge(self, session: SessionId) -> None:
        count = self.ready.count
        for first, run_count in self.ready.runs():
            self._leave(first, run_count, LEFT_PURGED)
        self.ready.clear()
        self._effects.append(Purged(session, count))

    def _check_out(self) -> None:
        """Hand ready messages to consumers with credit, the highest priority first, in turns."""
        for level in self.levels:
            line = level.line
            while self.ready.count > 0 and len(line) > 0:
                consumer = line.popleft()
                want = consumer.credit
                if len(line) > 0:
                    want = min(want, LONG_TURN if self.ready.count >= LONG_BACKLOG else 1)
                self._deliver(consumer, min(want, self.ready.count))
                if consumer.credit > 0:
                    line.append(consumer)
                else:
                    consumer.in_turn = False

    def _deliver(self, consumer: Consumer, want: i64) -> None:
        while want > 0:
            first = self.ready.first()
            count = min(want, self.ready.head_run())
            redelivered = False
            if self.redelivered.count > 0:
                count, redelivered = self._alike(first, count)
            self._take(consumer, first, count)
            delivery_seq = consumer.delivery_count + 1
            consumer.delivery_count += count
            consumer.credit -= count
            want -= count
            self._effects.append(Delivers(consumer.key, delivery_seq, first, count, redelivered))

    def _alike(self, first: i64, count: i64) -> tuple[i64, bool]:
        """How many of first.. have the same redelivered flag as the first one, and that flag."""
        marked = self.redelivered.within(first, count)
        if len(marked) == 0:
            return count, False
        run_first: i64 = marked[0][0]
        if run_first == first:
            return i64(marked[0][1]), True
        return run_first - first, False

    def _take(self, consumer: Consumer, first: i64, count: i64) -> None:
        self.ready.drop_head(count)
        consumer.held.add(first, count)
        self.checked_out += count
        if first + count - 1 > self.delivered_high:
            self.delivered_high = first + count - 1
