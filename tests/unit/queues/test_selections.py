"""Consumers with selectors at the queue machine, against a list of what is ready.

A selector here is one byte: it matches the messages whose number is a multiple of it. `evaluate`
stands for the host, which reads bodies.
"""

import pytest
from hypothesis import given, settings

from queues.machine.commands import (
    ACCEPT,
    QUEUE_LIMIT,
    RELEASE,
    Attach,
    Command,
    ConsumerKey,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Purge,
    Selected,
    Settle,
    consumer_key,
    decode,
    encode,
)
from queues.machine.consuming.selections import SELECTIONS_MAX, UNUSED_MAX
from queues.machine.effects import (
    TOO_MANY_SELECTORS,
    Attached,
    AttachRefused,
    Delivers,
    Drained,
    Effect,
    Got,
    Left,
)
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import decode_fifo, encode_fifo
from queues.machine.options import Options
from queues.machine.traits import Traits
from queues.runs.seqset import SeqSet
from tests.unit.queues.effect_rows import spread
from tests.unit.queues.fifo_steps import BATCHES, OPTIONS, SESSIONS, Batch, Script, story_of
from tests.unit.queues.runs import seqs_of

BOUNDED = settings(max_examples=250, deadline=None, database=None)
ONE = SESSIONS[0]
PLAIN = Options()
SELECTORS = (b"", b"\x01", b"\x02", b"\x03", b"\x63")  # the last one matches nothing here
TWO = b"\x02"
THREE = b"\x03"


def matches(selector: bytes, seq: int) -> bool:
    return seq % selector[0] == 0


def evaluate(fifo: Fifo, most: int = 1_000_000) -> list[Command]:
    """What a host reports: for each selection up to `most` messages."""
    found: list[Command] = []
    for each in fifo.ready.selections:
        upto = min(int(each.seen) + most, int(fifo.next_seq) - 1)
        if each.consumer_count > 0 and upto > each.seen:
            matching = SeqSet()
            for seq in range(int(each.seen) + 1, upto + 1):
                if matches(each.selector, seq):
                    matching.add(seq, 1)
            found.append(Selected(each.number, each.seen, upto, matching))
    return found


class Seen:
    """The machine as `Script` looks at it."""

    def __init__(self, fifo: Fifo) -> None:
        self._fifo = fifo

    @property
    def options(self) -> Options:
        return self._fifo.options

    @property
    def next_seq(self) -> int:
        return int(self._fifo.next_seq)

    @property
    def consumers(self) -> dict[int, "SeenConsumer"]:
        return {
            int(key): SeenConsumer(seqs_of(each.held.runs()))
            for key, each in self._fifo.consumers.items()
        }


class SeenConsumer:
    def __init__(self, held: list[int]) -> None:
        self.held = held


def check_selections(fifo: Fifo) -> None:
    """What is known is what matches, what waits is what of it is ready, and no consumer waits for a
    message that it may have."""
    in_queue = {
        seq
        for first, count in fifo.queue_within(1, fifo.next_seq)
        for seq in seqs_of([(first, count)])
    }
    for each in fifo.ready.selections:
        known = {s for s in in_queue if s <= each.seen and matches(each.selector, s)}
        assert set(seqs_of(each.known.runs())) == known
        for lane, waiting in zip(fifo.ready.lanes, each.waiting, strict=True):
            assert set(seqs_of(waiting.runs())) == set(seqs_of(lane.runs())) & known
        assert each.waiting_count == sum(lane.count for lane in each.waiting)
    for consumer in fifo.consumers.values():
        idle = consumer.attached and consumer.credit > 0 and not consumer.barred
        selection = consumer.selection
        if idle and selection is not None and not fifo.options.single_active:
            assert selection.waiting_count == 0 or fifo.options.copies


def check_deliveries(
    ready: dict[int, int], selectors: dict[int, tuple[bytes, int]], effects: list[Effect]
) -> None:
    """Each delivery is the first ready message that the consumer matches. `ready`: the level of
    each ready message; it follows. `selectors` of consumers, and what these have seen."""
    for effect in effects:
        if isinstance(effect, Delivers):
            selector, seen = selectors[int(effect.key)]
            for seq in range(effect.first, effect.first + effect.count):
                wanted = [s for s in ready if not selector or (s <= seen and matches(selector, s))]
                assert seq == min(wanted, key=lambda s: (-ready[s], s))
                del ready[seq]


def levels_of(fifo: Fifo) -> dict[int, int]:
    return {
        seq: level for level, lane in enumerate(fifo.ready.lanes) for seq in seqs_of(lane.runs())
    }


def run(options: Options, batches: list[Batch], lots: int = 0) -> None:
    fifo, copy = Fifo(options), Fifo(options)
    script = Script(Seen(fifo), True, SELECTORS)
    now_ms = 1_000_000
    for place, (leap, steps) in enumerate(batches):
        now_ms += leap
        for step in steps:
            command = script.command(step)
            effects = fifo.apply([command], now_ms)
            again = copy.apply([decode(encode(command))], now_ms)
            assert spread(effects) == spread(again)
            for _ in range(20):
                if not fifo.has_more():
                    break
                assert spread(fifo.apply([], now_ms)) == spread(copy.apply([], now_ms))
        selected = evaluate(fifo, 1 + (place + lots) % 7)
        if selected:
            ready = levels_of(fifo)
            used = {int(key): each.selection for key, each in fifo.consumers.items()}
            effects = fifo.apply(selected, now_ms)
            selectors = {
                key: (b"", 0) if each is None else (each.selector, int(each.seen))
                for key, each in used.items()
            }
            copy.apply([decode(encode(command)) for command in selected], now_ms)
            if fifo.limiter.due_ms > now_ms and not any(isinstance(e, Left) for e in effects):
                check_deliveries(ready, selectors, effects)
        check_selections(fifo)
        assert encode_fifo(fifo) == encode_fifo(copy)
        if place % 3 == 0:
            small = 1 if place % 2 else 1024
            restored = Fifo(options)
            decode_fifo(restored, encode_fifo(copy, small))
            check_selections(restored)
            copy = restored  # It goes on as the other one does.


@BOUNDED
@given(OPTIONS, BATCHES)
def test_consumers_get_what_they_select_in_order(options: Options, batches: list[Batch]) -> None:
    run(options, batches)


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_long_stories_with_selectors_keep_the_laws(start: int) -> None:
    for seed in range(start, start + 50):
        options, batches = story_of(seed)
        try:
            run(options, batches, seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def attach(
    fifo: Fifo, number: int, credit: int, selector: bytes = b"", priority: int = 0
) -> ConsumerKey:
    key = consumer_key(ONE, number)
    command = Attach(key, credit, True, False, priority, -1, QUEUE_LIMIT, QUEUE_LIMIT, selector)
    fifo.apply([command], 0)
    return key


def publish(fifo: Fifo, first: int, count: int, traits: Traits | None = None) -> list[Effect]:
    """Publish and have the host evaluate."""
    effects = fifo.apply([Enqueue(ONE, first, count, traits)], 0)
    return effects + fifo.apply(evaluate(fifo), 0)


def deliveries(effects: list[Effect]) -> list[tuple[ConsumerKey, int, int]]:
    return [(each.key, each.first, each.count) for each in effects if isinstance(each, Delivers)]


def test_what_matches_nobody_stays_in_order_for_a_consumer_of_everything() -> None:
    fifo = Fifo()
    even = attach(fifo, 1, 10, TWO)
    assert deliveries(publish(fifo, 1, 5)) == [(even, 2, 1), (even, 4, 1)]
    assert seqs_of(fifo.ready.runs()) == [1, 3, 5]
    every = consumer_key(ONE, 2)
    effects = fifo.apply([Attach(every, 10, True, False, 0)], 0)
    assert deliveries(effects) == [(every, 1, 1), (every, 3, 1), (every, 5, 1)]


def test_a_consumer_gets_the_backlog_once_it_is_evaluated() -> None:
    fifo = Fifo()
    publish(fifo, 1, 9)
    third = attach(fifo, 1, 10, THREE)
    assert deliveries(fifo.apply(evaluate(fifo, 4), 0)) == [(third, 3, 1)]
    assert deliveries(fifo.apply(evaluate(fifo, 4), 0)) == [(third, 6, 1)]
    assert deliveries(fifo.apply(evaluate(fifo), 0)) == [(third, 9, 1)]


def test_a_message_that_comes_back_is_served_before_later_ones() -> None:
    fifo = Fifo()
    even = attach(fifo, 1, 1, TWO)
    publish(fifo, 1, 9)
    effects = fifo.apply([Settle(even, RELEASE, [(2, 1)])], 0)
    found = [each for each in effects if isinstance(each, Delivers)]
    assert [(each.first, each.redelivered) for each in found] == [(2, True)]


def test_a_selector_of_higher_priority_is_served_first() -> None:
    fifo = Fifo()
    attach(fifo, 1, 10)
    high = attach(fifo, 2, 10, THREE, priority=5)
    fifo.apply([Enqueue(ONE, 1, 1)], 0)
    low = consumer_key(ONE, 1)
    fifo.apply([Credit(low, 0, 0, False, False)], 0)
    assert deliveries(publish(fifo, 2, 5)) == [(high, 3, 1), (high, 6, 1)]


def test_messages_of_higher_levels_are_selected_first() -> None:
    fifo = Fifo(Options(levels=3))
    even = attach(fifo, 1, 0, TWO)
    levels = Traits(0, -1, b"".join(level.to_bytes(4, "little") for level in (0, 1, 2, 2, 0, 2)))
    publish(fifo, 1, 6, levels)
    effects = fifo.apply([Credit(even, 0, 10, False, True)], 0)
    assert [first for _, first, _ in deliveries(effects)] == [4, 6, 2]


def test_idle_consumers_of_one_selector_take_turns() -> None:
    fifo = Fifo()
    keys = [attach(fifo, number, 10, TWO) for number in (1, 2, 3)]
    found = [deliveries(publish(fifo, seq, 1)) for seq in range(1, 11)]
    assert [each[0][0] for each in found if each] == [*keys, keys[0], keys[1]]


def test_a_message_for_one_of_many_idle_consumers_wakes_one() -> None:
    fifo = Fifo()
    for number in range(1, 101):
        attach(fifo, number, 10, TWO)
    publish(fifo, 1, 2)
    selections = fifo.roster.selections
    assert selections is not None
    idle = list(selections.group(fifo.ready.selections[0]).idle)
    assert [int(key) & 0xFFFF for key in idle] == [*range(2, 101), 1]


def test_a_drain_waits_until_the_selector_has_seen_all_messages() -> None:
    fifo = Fifo()
    publish(fifo, 1, 9)
    third = attach(fifo, 1, 0, THREE)
    effects = fifo.apply([Credit(third, 0, 5, True, False)], 0)
    assert not effects
    effects = fifo.apply(evaluate(fifo, 6), 0)
    assert deliveries(effects) == [(third, 3, 1), (third, 6, 1)]
    assert not any(isinstance(each, Drained) for each in effects)
    effects = fifo.apply(evaluate(fifo, 6), 0)
    assert deliveries(effects) == [(third, 9, 1)]
    assert [each.delivery_count for each in effects if isinstance(each, Drained)] == [5]


def test_a_drain_ends_with_its_consumer() -> None:
    fifo = Fifo()
    publish(fifo, 1, 9)
    third = attach(fifo, 1, 0, THREE)
    fifo.apply([Credit(third, 0, 5, True, False)], 0)
    effects = fifo.apply([Detach(third)], 0)
    assert [type(each).__name__ for each in effects] == ["Drained", "LastConsumerGone", "Detached"]


def test_what_was_evaluated_is_known_to_a_consumer_that_comes_back() -> None:
    fifo = Fifo()
    even = attach(fifo, 1, 0, TWO)
    publish(fifo, 1, 9)
    fifo.apply([Detach(even)], 0)
    attach(fifo, 2, 0, TWO)
    assert not evaluate(fifo)
    effects = fifo.apply([Credit(consumer_key(ONE, 2), 0, 10, False, True)], 0)
    assert [first for _, first, _ in deliveries(effects)] == [2, 4, 6, 8]


def test_unused_selections_beyond_the_limit_are_forgotten_oldest_first() -> None:
    fifo = Fifo()
    for number in range(1, UNUSED_MAX + 4):
        fifo.apply([Detach(attach(fifo, number, 0, bytes((number,))))], 0)
    kept = [each.selector[0] for each in fifo.ready.selections]
    assert kept == list(range(4, UNUSED_MAX + 4))


def test_consumers_with_too_many_selectors_are_refused_and_known_ones_let_in() -> None:
    fifo = Fifo()
    for number in range(1, SELECTIONS_MAX + 1):
        attach(fifo, number, 0, bytes((number,)))
    key = consumer_key(ONE, 200)
    limits = -1, QUEUE_LIMIT, QUEUE_LIMIT
    (refused,) = fifo.apply([Attach(key, 0, True, False, 0, *limits, b"\xff")], 0)
    assert isinstance(refused, AttachRefused)
    assert refused.reason == TOO_MANY_SELECTORS
    (let_in,) = fifo.apply([Attach(key, 0, True, False, 0, *limits, TWO)], 0)
    assert isinstance(let_in, Attached)


def test_an_evaluation_that_was_overtaken_changes_nothing() -> None:
    fifo = Fifo()
    even = attach(fifo, 1, 1, TWO)
    fifo.apply([Enqueue(ONE, 1, 4)], 0)
    first, second = evaluate(fifo), evaluate(fifo)
    assert deliveries(fifo.apply(first, 0)) == [(even, 2, 1)]
    assert not fifo.apply(second, 0)
    check_selections(fifo)


def test_a_get_a_purge_and_an_end_leave_selections_right() -> None:
    fifo = Fifo()
    attach(fifo, 1, 1, TWO)
    publish(fifo, 1, 9)
    check_selections(fifo)
    (got,) = [each for each in fifo.apply([Get(ONE)], 0) if isinstance(each, Got)]
    assert got.message == 1
    check_selections(fifo)
    fifo.apply([Purge(ONE)], 0)
    check_selections(fifo)
    fifo.apply([EndSession(ONE)], 0)
    check_selections(fifo)
    assert seqs_of(fifo.ready.runs()) == [1, 2]


def test_publishes_and_settlements_of_others_do_not_look_at_what_does_not_match() -> None:
    """The cost of a delivery is the same behind 10 and behind 100,000 messages for others."""
    fifo = Fifo()
    even = attach(fifo, 1, 1, TWO)
    publish(fifo, 1, 100_000)
    (selection,) = fifo.ready.selections
    assert selection.waiting_count == 49_999
    effects = fifo.apply([Settle(even, ACCEPT, [(2, 1)])], 0)
    assert deliveries(effects) == [(even, 4, 1)]
    assert isinstance(effects[0], Left)


def test_of_idle_consumers_the_highest_priority_is_served() -> None:
    fifo = Fifo()
    attach(fifo, 1, 10, TWO)
    high = attach(fifo, 2, 10, TWO, priority=5)
    for seq in (1, 3, 5):  # Later on, the consumer that was served is the last to become idle.
        assert deliveries(publish(fifo, seq, 2)) == [(high, seq + 1, 1)]
