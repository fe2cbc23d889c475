"""Evaluates the messages of a queue for the selectors of its consumers (0121). Compiled.

Each message is evaluated once for each selector that has consumers, in the order of arrival, as
soon as its host has the body; `work` gives what was found as `Selected` commands, a bounded number
of messages at a time. Bodies that are on disk alone are read first, some ahead. A message whose
body cannot be read matches nothing. Messages that are promised (a quorum queue's, proposed and not
applied yet) are evaluated too, so that their result can be in the same entry.
"""

import logging
from typing import Final, final

from mypy_extensions import i64

from queues.bodies.store import BodyBudget, Slot, Store, is_safe
from queues.hosts.host_interfaces import BodyOwner, Steps, Waking
from queues.machine.commands import Command, Selected
from queues.machine.consuming.selection import Selection
from queues.machine.fifo import Fifo
from queues.message import Chunk
from queues.runs.seqset import SeqSet
from queues.selectors.message_fields import BadFilter, Selector
from queues.selectors.sql import BadExpression
from queues.selectors.terms import decode_terms, selector_in

log = logging.getLogger("warren.broker")

EVALUATED_MAX: Final = 1024  # messages for each call
AHEAD_BYTES: Final = 1 << 20  # of bodies that are read ahead
NO_COMMANDS: Final[list[Command]] = []


@final
class Evaluating:
    """The selectors of one queue, where its host decides."""

    def __init__(
        self, owner: BodyOwner, store: Store, budget: BodyBudget, turn: Steps, host: Waking
    ) -> None:
        self._owner = owner
        self._store = store
        self._budget = budget
        self._turn = turn
        self._host = host
        self._now_ms: i64 = 0
        self._selectors: dict[int, Selector] = {}  # by number of the selection
        self._upto: dict[int, int] = {}  # evaluated, by that number; perhaps not applied yet
        self._unreadable: set[Chunk] = set()
        self.waits = False  # for a body that is being read

    def wants(self, machine: Fifo, end: i64) -> bool:
        """Whether messages up to `end` are still to be evaluated, and can be."""
        if self.waits:
            return False
        for each in machine.ready.selections:
            if each.consumer_count > 0 and self._seen(each) < end:
                return True
        return False

    def work(self, machine: Fifo, end: i64) -> list[Command]:
        """Evaluate some of the messages up to `end`, which need not be applied yet."""
        found: list[Command] = []
        self._forget(machine.ready.selections)
        self._now_ms = machine.now_ms
        self.waits = False
        left: i64 = EVALUATED_MAX
        for each in machine.ready.selections:
            if each.consumer_count == 0:
                continue
            seen = self._seen(each)
            if seen < end and left > 0:
                matching = SeqSet()
                upto, count = self._evaluate(machine, each, end, left, matching)
                left -= count
                if upto > seen:
                    found.append(Selected(each.number, seen, upto, matching))
                    self._upto[int(each.number)] = int(upto)
        return found

    def _seen(self, selection: Selection) -> i64:
        return max(selection.seen, i64(self._upto.get(int(selection.number), 0)))

    def _forget(self, alive: list[Selection]) -> None:
        """Selections that are no more."""
        if len(self._selectors) > len(alive):
            numbers = {int(each.number) for each in alive}
            self._selectors = {n: each for n, each in self._selectors.items() if n in numbers}
            self._upto = {n: upto for n, upto in self._upto.items() if n in numbers}

    def _selector(self, selection: Selection) -> Selector:
        found = self._selectors.get(int(selection.number))
        if found is None:
            found = self._made(selection.selector)
            self._selectors[int(selection.number)] = found
        return found

    def _made(self, selector: bytes) -> Selector:
        try:
            made = selector_in(decode_terms(selector), self._utc_ms)
        except (BadFilter, BadExpression) as error:
            log.error(
                "queue '%s' in vhost '%s': a selector of a node with another version is not "
                "understood, so its consumers get nothing: %s",
                *(self._owner.name, self._owner.vhost, error),
            )
            return _nothing
        assert made is not None
        return made

    def _utc_ms(self) -> int:
        return int(self._now_ms)

    def _evaluate(
        self, machine: Fifo, selection: Selection, end: i64, limit: i64, matching: SeqSet
    ) -> tuple[i64, i64]:
        """Put messages that match and were not evaluated yet into `matching`; return up to which
        one all are, and how many that were."""
        store = self._store
        selector = self._selector(selection)
        seen = self._seen(selection)
        count: i64 = 0
        while seen < end:
            slot = store.next_slot(seen + 1)
            if slot is None or slot.first > end:
                return end, count
            first = max(slot.first, seen + 1)
            if count >= limit:
                return first - 1, count
            stop = min(min(slot.first + slot.count, end + 1), first + limit - count)
            chunk = slot.chunk
            if chunk.data is None and chunk not in self._unreadable:
                self._read(slot)
                return first - 1, count
            if chunk.data is not None:
                self._look(machine, selector, slot, first, stop, matching)
                self._leave(chunk)
            count += stop - first
            seen = stop - 1
        return seen, count

    def _look(
        self,
        machine: Fifo,
        selector: Selector,
        slot: Slot,
        first: i64,
        stop: i64,
        matching: SeqSet,
    ) -> None:
        runs: list[tuple[int, int]] = [(int(first), int(stop - first))]
        if stop <= machine.next_seq:
            runs = machine.queue_within(first, stop - first)
            runs.sort()
        shift = slot.index - slot.first
        for run_first, run_count in runs:
            for seq in range(run_first, run_first + run_count):
                if selector(slot.chunk, int(seq + shift)):
                    matching.add(seq, 1)

    def _leave(self, chunk: Chunk) -> None:
        """The bytes were read for this alone, perhaps: then they need not stay."""
        budget = self._budget
        if (chunk.lazy or budget.is_over()) and is_safe(chunk):
            budget.evict(chunk)

    def _read(self, slot: Slot) -> None:
        """Have the bodies read, and some that follow."""
        store = self._store
        self.waits = True
        size: i64 = 0
        at: Slot | None = slot
        while at is not None and size < AHEAD_BYTES:
            chunk = at.chunk
            if chunk.data is None and chunk not in store.loading:
                store.loading.add(chunk)
                self._turn.load(self._owner, chunk)
            size += chunk.size()
            at = store.after(at)

    def loaded(self) -> None:
        """Bytes that were asked for, here or elsewhere, are in memory."""
        if self.waits:
            self.waits = False
            self._host.on_timer()

    def load_failed(self, chunk: Chunk) -> None:
        """The bytes cannot be read."""
        self._unreadable.add(chunk)
        self.loaded()


def _nothing(chunk: Chunk, index: int) -> bool:
    return False
