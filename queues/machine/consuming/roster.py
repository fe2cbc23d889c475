"""The consumers of one queue: who is there, who may be served, who is the active one. Compiled.

With a single active consumer only that one stands in line. A consumer of a higher
priority takes over once the active one holds nothing; until then no consumer is served. After a
cancel the next one is active at once, or, with `drain_handover`, once the cancelled one holds
nothing.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.machine.commands import ConsumerKey, SessionId, session_of
from queues.machine.consuming.consumers import Consumer, Lines
from queues.machine.consuming.selections import Selections
from queues.machine.effects import (
    IN_EXCLUSIVE_USE,
    NOT_REFUSED,
    TOO_MANY_SELECTORS,
    Activated,
    Effect,
)
from queues.machine.message_groups import MessageGroups
from queues.machine.ready import Ready
from queues.runs.seqset import SeqSet

CHECK_MS_MIN: Final = 20  # between looks at how long deliveries have been held
CHECK_MS_MAX: Final = 60_000
FEW: Final = 4  # consumers that are asked one by one for what they hold


@final
class Roster:
    """Invariant: a consumer is here while it is attached or holds a message."""

    def __init__(self, single_active: bool, drain_handover: bool) -> None:
        self.single_active = single_active
        self.drain_handover = drain_handover
        self.consumers: dict[ConsumerKey, Consumer] = {}
        self._last: Consumer | None = None  # among them, who was looked for last
        self._by_session: dict[SessionId, list[ConsumerKey]] = {}
        self.lines = Lines()
        self.selections: Selections | None = None  # once a consumer has had a selector
        self.groups: MessageGroups | None = None  # where messages of a group go to one consumer
        self.attached_count: i64 = 0
        self.exclusive_key: ConsumerKey | None = None
        self.active_key: ConsumerKey | None = None
        self.gives_way = False  # the active one gets nothing more, and is replaced when it is done
        self._held: SeqSet | None = None  # what all hold together, if that was asked for

    def add(self, consumer: Consumer) -> None:
        """It is here from now on: attached, or about to hold a message."""
        self.consumers[consumer.key] = consumer
        session = session_of(consumer.key)
        keys = self._by_session.get(session)
        if keys is None:
            self._by_session[session] = [consumer.key]
        else:
            keys.append(consumer.key)

    def remove(self, key: ConsumerKey) -> Consumer:
        """It is neither attached nor holds anything, or that is about to be settled."""
        session = session_of(key)
        keys = self._by_session[session]
        keys.remove(key)
        if len(keys) == 0:
            del self._by_session[session]
        self._last = None
        return self.consumers.pop(key)

    def find(self, key: ConsumerKey) -> Consumer | None:
        last = self._last
        if last is None or last.key != key:
            last = self.consumers.get(key)
            self._last = last
        return last

    def of_session(self, session: SessionId) -> list[ConsumerKey]:
        """Its consumers, in the order in which they came."""
        return list(self._by_session.get(session, ()))

    def sessions(self) -> list[SessionId]:
        """All that have a consumer here."""
        return list(self._by_session)

    def attach(self, consumer: Consumer, exclusive: bool) -> None:
        consumer.attached = True
        self.add(consumer)
        self.attached_count += 1
        if exclusive:
            self.exclusive_key = consumer.key

    def refusal_of(self, exclusive: bool, selector: bytes) -> i64:
        """Why a consumer is not let in (`queues.machine.effects`), or NOT_REFUSED."""
        if self.exclusive_key is not None:
            return IN_EXCLUSIVE_USE
        if exclusive and (self.attached_count > 0 or self.single_active):
            return IN_EXCLUSIVE_USE
        selections = self.selections
        if len(selector) == 0 or selections is None or selections.has_room(selector):
            return NOT_REFUSED
        return TOO_MANY_SELECTORS

    def select(self, consumer: Consumer, selector: bytes, seen: i64, ready: Ready) -> None:
        """The consumer is let in, and gets what the selector matches. `seen`: no message up to this
        one is in the queue."""
        self.begin_selections(ready).join(consumer, selector, seen)

    def begin_selections(self, ready: Ready) -> Selections:
        """Those of the queue, which `ready` reports to from now on."""
        selections = self.selections
        if selections is None:
            selections = Selections(ready.selections, len(ready.lanes))
            self.selections = selections
        return selections

    def detach(self, consumer: Consumer) -> None:
        """It gets nothing more; what it holds stays its own."""
        consumer.attached = False
        consumer.credit = 0
        self.leave_line(consumer)
        if self.selections is not None and consumer.selection is not None:
            self.selections.leave(consumer)
        if self.groups is not None:
            self.groups.leave(consumer)
        if self.exclusive_key == consumer.key:
            self.exclusive_key = None
        self.attached_count -= 1

    def give(self, consumer: Consumer, credit: i64) -> None:
        consumer.credit = credit if credit > 0 else 0
        if consumer.barred or consumer.is_idle:
            return
        if consumer.credit > 0 and not consumer.in_turn and consumer.attached:
            if self.single_active and (self.gives_way or self.active_key != consumer.key):
                return
            self.lines.join(consumer)

    def leave_line(self, consumer: Consumer) -> None:
        """It is not to be served."""
        self.lines.leave(consumer)
        if not consumer.is_idle:
            return
        if consumer.selection is None and self.groups is not None:
            self.groups.end_rest(consumer)
        elif self.selections is not None:
            self.selections.end_rest(consumer)

    def rest(self, consumer: Consumer) -> None:
        """It has left its line, for nothing that is ready matches its selector, or all is of groups
        of other consumers."""
        consumer.in_turn = False
        if consumer.selection is None and self.groups is not None:
            self.groups.rest(consumer)
            return
        assert self.selections is not None
        self.selections.rest(consumer)

    def wake(self) -> bool:
        """Have consumers with selectors stand in line for whom messages have come; whether there
        are any."""
        woken = self.selections is not None and self.selections.wake(self.lines)
        return (self.groups is not None and self.groups.wake(self.lines)) or woken

    def end_groups(self) -> None:
        """Messages of all groups are for all consumers from now on."""
        if self.groups is not None:
            for consumer in list(self.groups.idle.values()):
                self.groups.end_rest(consumer)
                self.lines.join(consumer)

    def is_able(self) -> bool:
        """Whether a consumer waits for messages."""
        if not self.lines.is_empty():
            return True
        if self.groups is not None and len(self.groups.idle) > 0:
            return True
        return self.selections is not None and self.selections.is_able()

    def servable(self, ready_count: i64) -> i64:
        """How many of the ready messages consumers may get."""
        selections = self.selections
        if selections is None or selections.consumer_count() < self.attached_count:
            return ready_count
        return min(selections.servable(), ready_count)

    def held_changes(self) -> None:
        """A consumer gets messages, or settles some."""
        self._held = None

    def held_within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Which of these messages are with a consumer, in no order."""
        if len(self.consumers) > FEW:
            held = self._held
            if held is None:
                held = self._all_held()
                self._held = held
            return held.within(first, count)
        found: list[tuple[int, int]] = []
        for consumer in self.consumers.values():
            found.extend(consumer.held.within(first, count))
        return found

    def oldest_held(self, than: i64) -> i64:
        """The lowest message_seq that a consumer holds, or `than` if that is lower."""
        for consumer in self.consumers.values():
            if consumer.held.count > 0:
                than = min(than, consumer.held.first())
        return than

    def _all_held(self) -> SeqSet:
        runs: list[tuple[int, int]] = []
        for consumer in self.consumers.values():
            if consumer.held.count > 0:
                runs.extend(consumer.held.runs())
        runs.sort()
        held = SeqSet()
        for first, count in runs:
            held.add(first, count)
        return held

    def waits_for(self, consumer: Consumer) -> bool:
        """Whether something happens when this consumer holds nothing any more."""
        return self.active_key == consumer.key and (self.gives_way or not consumer.attached)

    def may_change(self, consumer: Consumer) -> bool:
        """Whether the coming or going of this consumer can change who is active."""
        current = None if self.active_key is None else self.consumers.get(self.active_key)
        if current is None or current is consumer or self.gives_way or not current.attached:
            return True
        return consumer.attached and consumer.priority > current.priority

    def best(self) -> Consumer | None:
        """Who is to be active: the highest priority, of those the active one, else the first."""
        best: Consumer | None = None
        for consumer in self.consumers.values():
            if not consumer.attached or consumer.suspended:
                continue
            better = best is None or consumer.priority > best.priority
            if best is not None and consumer.priority == best.priority:
                better = consumer.key == self.active_key
            if better:
                best = consumer
        return best

    def _waits_to_empty(self, current: Consumer) -> bool:
        if current.suspended:
            return False
        return current.held.count > 0 and (current.attached or self.drain_handover)

    def activate(self, effects: list[Effect]) -> None:
        """See who is active now, and tell."""
        best = self.best()
        current: Consumer | None = None
        if self.active_key is not None:
            current = self.consumers.get(self.active_key)
        if current is not None and current is not best and self._waits_to_empty(current):
            self.gives_way = True
            self.leave_line(current)
            return
        self.gives_way = False
        if current is None or current is not best:
            if current is not None and current.attached:
                self.leave_line(current)
                effects.append(Activated(current.key, False))
            self.active_key = None
            if best is not None:
                self.active_key = best.key
                effects.append(Activated(best.key, True))
        if best is not None:
            self.give(best, best.credit)

    def check_step_ms(self, default_ms: i64) -> i64:
        """How long to wait before the next look for late consumers; -1: for ever."""
        shortest: i64 = -1
        for consumer in self.consumers.values():
            timeout = consumer.timeout_or(default_ms)
            if timeout > 0 and (shortest < 0 or timeout < shortest):
                shortest = timeout
        return -1 if shortest < 0 else min(max(shortest // 8, CHECK_MS_MIN), CHECK_MS_MAX)

    def late(self, now_ms: i64, default_ms: i64) -> list[Consumer]:
        """Consumers that have kept a delivery for longer than their timeout."""
        found: list[Consumer] = []
        for consumer in self.consumers.values():
            timeout = consumer.timeout_or(default_ms)
            since: i64 = consumer.age(now_ms) if timeout > 0 else -1
            if since >= 0 and since + timeout <= now_ms:
                found.append(consumer)
        return found
