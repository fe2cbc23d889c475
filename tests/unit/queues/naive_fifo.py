"""The rules of a queue written a second time: one message at a time, lists and dicts, no runs.

Effects are tuples, one per message, so that they compare with those of `queues.fifo` spread out
(`spread`). Slow on purpose.
"""

from queues.commands import (
    ACCEPT,
    REJECT,
    RELEASE,
    Attach,
    Command,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Inspect,
    Purge,
    Settle,
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

Row = tuple[object, ...]


class NaiveConsumer:
    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.credit = 0
        self.delivery_count = 0
        self.auto_return = False
        self.exclusive = False
        self.attached = True
        self.held: list[int] = []


class NaiveFifo:
    """`ready` ascends; the first of `line` with the highest priority is served next."""

    def __init__(self) -> None:
        self.ready: list[int] = []
        self.redelivered: set[int] = set()
        self.consumers: dict[int, NaiveConsumer] = {}
        self.line: list[int] = []
        self.last_seqs: dict[int, int] = {}
        self.next_seq = 1
        self.effects: list[Row] = []

    def apply(self, commands: list[Command]) -> list[Row]:
        self.effects = []
        for command in commands:
            self._apply(command)
        self._serve()
        return self.effects

    def _apply(self, command: Command) -> None:
        match command:
            case Enqueue():
                self._enqueue(command)
            case Settle():
                self._settle(command)
            case Attach():
                self._attach(command)
            case Credit():
                self._credit(command)
            case Detach():
                self._go(command.key)
                self.effects.append(("detached", command.key))
            case Get():
                self._get(command.session)
            case Purge():
                for seq in self.ready:
                    self._leave(seq, LEFT_PURGED)
                self.effects.append(("purged", command.session, len(self.ready)))
                self.ready = []
            case Inspect():
                counts = len(self.ready), len(self.attached())
                self.effects.append(("inspected", command.session, *counts))
            case EndSession():
                self._end(command.session)
            case _:
                raise AssertionError(type(command).__name__)

    def attached(self) -> list[int]:
        return [key for key, consumer in self.consumers.items() if consumer.attached]

    def _enqueue(self, command: Enqueue) -> None:
        """Each number is either the next, or known, or after a gap that ends the command."""
        for number in range(command.first_seq, command.first_seq + command.count):
            last = self.last_seqs.get(command.session, 0)
            if number <= last:
                self.effects.append(("known", command.session, number))
            elif number == last + 1:
                self.last_seqs[command.session] = number
                self.effects.append(("enqueued", command.session, number, self.next_seq))
                self.ready.append(self.next_seq)
                self.next_seq += 1
            else:
                self.effects.append(("resend", command.session, last + 1))
                return

    def _settle(self, command: Settle) -> None:
        consumer = self.consumers.get(command.key)
        if consumer is None:
            return
        named = [seq for first, count in command.runs for seq in range(first, first + count)]
        for seq in named:
            if seq not in consumer.held:
                continue
            consumer.held.remove(seq)
            if command.outcome == ACCEPT:
                self._leave(seq, LEFT_ACCEPTED)
            elif command.outcome == REJECT:
                self._leave(seq, LEFT_REJECTED)
            else:
                self._requeue(seq, command.outcome == RELEASE)
            if consumer.auto_return and consumer.attached:
                self._give(command.key, consumer.credit + 1)
        if not consumer.attached and not consumer.held:
            del self.consumers[command.key]

    def _leave(self, seq: int, reason: int) -> None:
        self.redelivered.discard(seq)
        self.effects.append(("left", seq, reason))

    def _requeue(self, seq: int, seen: bool) -> None:
        self.ready = sorted([*self.ready, seq])
        if seen:
            self.redelivered.add(seq)

    def _attach(self, command: Attach) -> None:
        others = [self.consumers[key] for key in self.attached()]
        if any(other.exclusive for other in others) or (command.exclusive and others):
            self.effects.append(("refused", command.key))
            return
        consumer = self.consumers[command.key] = NaiveConsumer(command.priority)
        consumer.auto_return = command.auto_return
        consumer.exclusive = command.exclusive
        self.effects.append(("attached", command.key))
        self._give(command.key, command.credit)

    def _credit(self, command: Credit) -> None:
        consumer = self.consumers.get(command.key)
        if consumer is None or not consumer.attached:
            return
        consumer.auto_return = command.auto_return
        limit = command.delivery_count + command.credit
        self._give(command.key, limit - consumer.delivery_count)
        if command.drain:
            self._serve()
            consumer.delivery_count += consumer.credit
            consumer.credit = 0
            self.effects.append(("drained", command.key, consumer.delivery_count))

    def _give(self, key: int, credit: int) -> None:
        self.consumers[key].credit = max(credit, 0)
        if credit > 0 and key not in self.line:
            self.line.append(key)

    def _go(self, key: int) -> None:
        consumer = self.consumers.get(key)
        if consumer is None or not consumer.attached:
            return
        consumer.attached = False
        consumer.credit = 0
        if key in self.line:
            self.line.remove(key)
        if not consumer.held:
            del self.consumers[key]
        if not self.attached():
            self.effects.append(("last consumer gone",))

    def _end(self, session: int) -> None:
        self.last_seqs.pop(session, None)
        for key in [key for key in self.consumers if key >> 32 == session]:
            held = self.consumers[key].held
            self._go(key)
            self.consumers.pop(key, None)
            for seq in held:
                self._requeue(seq, True)

    def _get(self, session: int) -> None:
        if not self.ready:
            self.effects.append(("got", session, 0, False, 0))
            return
        seq = self.ready.pop(0)
        key = session << 32
        if key not in self.consumers:
            self.consumers[key] = NaiveConsumer(0)
            self.consumers[key].attached = False
        self.consumers[key].held.append(seq)
        self.effects.append(("got", session, seq, seq in self.redelivered, len(self.ready)))

    def _serve(self) -> None:
        """One message at a time to the first in line of the highest priority; then to its end."""
        while self.ready and self.line:
            highest = max(self.consumers[key].priority for key in self.line)
            key = next(key for key in self.line if self.consumers[key].priority == highest)
            self.line.remove(key)
            consumer = self.consumers[key]
            if consumer.credit == 0:
                continue
            seq = self.ready.pop(0)
            consumer.held.append(seq)
            consumer.credit -= 1
            consumer.delivery_count += 1
            row = (key, consumer.delivery_count, seq, seq in self.redelivered)
            self.effects.append(("delivers", *row))
            if consumer.credit > 0:
                self.line.append(key)


def spread(effects: list[Effect]) -> list[Row]:
    """The machine's effects in the form of `NaiveFifo`."""
    return [row for effect in effects for row in rows_of(effect)]


def rows_of(effect: Effect) -> list[Row]:
    match effect:
        case Enqueued():
            return [
                ("enqueued", effect.session, effect.first_seq + i, effect.message_first + i)
                for i in range(effect.count)
            ]
        case KnownAlready():
            return [("known", effect.session, effect.first_seq + i) for i in range(effect.count)]
        case ResendFrom():
            return [("resend", effect.session, effect.seq)]
        case Delivers():
            return [
                ("delivers", effect.key, effect.delivery_seq + i, effect.first + i, bool(flag))
                for flag in (effect.redelivered,)
                for i in range(effect.count)
            ]
        case Left():
            return [("left", effect.first + i, effect.reason) for i in range(effect.count)]
        case Got():
            answer = effect.message, effect.redelivered, effect.ready
            return [("got", effect.session, *answer)]
        case Attached():
            return [("attached", effect.key)]
        case AttachRefused():
            return [("refused", effect.key)]
        case Detached():
            return [("detached", effect.key)]
        case Drained():
            return [("drained", effect.key, effect.delivery_count)]
        case Purged():
            return [("purged", effect.session, effect.count)]
        case Inspected():
            return [("inspected", effect.session, effect.ready, effect.consumer_count)]
        case LastConsumerGone():
            return [("last consumer gone",)]
        case _:
            raise AssertionError(type(effect).__name__)
