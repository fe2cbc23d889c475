"""The queue machine against the naive one, and the laws that need a long or special story."""

from hypothesis import given, settings

from queues.commands import (
    ACCEPT,
    RELEASE,
    RETURN_UNSEEN,
    Attach,
    Command,
    ConsumerKey,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Inspect,
    Settle,
    consumer_key,
    decode,
    encode,
)
from queues.effects import Delivers, Effect
from queues.fifo import LONG_BACKLOG, LONG_TURN, Fifo
from queues.fifo_snapshot import encode_fifo
from queues.options import Options
from tests.unit.queues.effect_rows import Row, spread
from tests.unit.queues.fifo_steps import BATCHES, OPTIONS, PLAIN_BATCHES, SESSIONS, Batch, Script
from tests.unit.queues.naive_fifo import NaiveFifo
from tests.unit.queues.runs import seqs_of

BOUNDED = settings(max_examples=250, deadline=None, database=None)
ONE = SESSIONS[0]
PLAIN = Options()


def applied(fifo: Fifo, commands: list[Command], now_ms: int) -> list[Row]:
    """The answers to a batch, and to the empty ones that the machine asks for."""
    rows = spread(fifo.apply(commands, now_ms))
    for _ in range(50):
        if not fifo.has_more():
            return rows
        rows += spread(fifo.apply([], now_ms))
    raise AssertionError("the machine never comes to rest")


def in_place(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[0] not in ("left", "purged")]


def leavers(rows: list[Row]) -> list[Row]:
    """Messages that leave for different reasons do so in no promised order."""
    return sorted((row for row in rows if row[0] in ("left", "purged")), key=repr)


def check_alike(fifo: Fifo, naive: NaiveFifo) -> None:
    """Both are in the same state."""
    assert seqs_of(fifo.ready.runs()) == sorted(naive.ready)
    assert seqs_of(fifo.redelivered.runs()) == sorted(naive.redelivered())
    assert list(fifo.consumers) == list(naive.consumers)
    for key, consumer in fifo.consumers.items():
        other = naive.consumers[key]
        assert seqs_of(consumer.held.runs()) == sorted(other.held)
        assert consumer.attached == other.attached
        assert not consumer.attached or consumer.credit == other.credit
        assert consumer.delivery_count == other.delivery_count
    assert fifo.attached_count == len(naive.attached())
    assert fifo.roster.active_key == naive.active
    assert fifo.last_seqs == naive.last_seqs
    assert fifo.next_seq == naive.next_seq
    tries = {seq: naive._attempts(message) for seq, message in naive.messages.items()}
    assert fifo.attempts == {seq: attempts for seq, attempts in tries.items() if attempts}
    for level, lane in enumerate(fifo.ready.lanes):
        assert all(naive.messages[seq].level == level for seq in seqs_of(lane.runs()))
    if naive.options.bytes_max >= 0:
        assert fifo.notes.ready_bytes == naive.ready_bytes()


def check_laws(fifo: Fifo) -> None:
    """What the machine's docstrings promise after each batch that leaves nothing to be done."""
    ready = seqs_of(fifo.ready.runs())
    held = [seq for each in fifo.consumers.values() for seq in seqs_of(each.held.runs())]
    alive = set(ready) | set(held)
    assert not fifo.leaving
    assert fifo.checked_out == len(held)
    assert fifo.ready.count == len(ready)
    assert len(alive) == len(held) + len(ready)
    assert set(seqs_of(fifo.redelivered.runs())) <= alive
    assert set(seqs_of(fifo.overdue.runs())) <= set(held)
    assert set(fifo.attempts) <= alive
    assert all(0 < seq < fifo.next_seq for seq in alive)
    assert all(each.attached or each.held.count for each in fifo.consumers.values())
    assert fifo.due_ms > fifo.now_ms
    waiting = [each for each in fifo.consumers.values() if each.attached and each.credit > 0]
    if not fifo.options.single_active:
        assert not ready or not waiting


@BOUNDED
@given(PLAIN_BATCHES)
def test_it_does_what_the_rules_say_one_message_at_a_time(batches: list[Batch]) -> None:
    run_both(PLAIN, batches, Script(naive := NaiveFifo(), with_traits=False), naive)


@BOUNDED
@given(OPTIONS, BATCHES)
def test_with_options_too_it_does_what_the_rules_say(
    options: Options, batches: list[Batch]
) -> None:
    run_both(options, batches, Script(naive := NaiveFifo(options)), naive)


def run_both(options: Options, batches: list[Batch], script: Script, naive: NaiveFifo) -> None:
    fifo = Fifo(options)
    now_ms = 1_000_000
    for leap, steps in batches:
        now_ms += leap
        commands = [script.command(step) for step in steps]
        rows, expected = applied(fifo, commands, now_ms), naive.apply(commands, now_ms)
        assert in_place(rows) == in_place(expected)
        assert leavers(rows) == leavers(expected)
        check_alike(fifo, naive)
        check_laws(fifo)


@BOUNDED
@given(OPTIONS, BATCHES)
def test_the_same_bytes_make_the_same_effects_and_state(
    options: Options, batches: list[Batch]
) -> None:
    naive = NaiveFifo(options)
    script = Script(naive)
    one, other = Fifo(options), Fifo(options)
    for place, (leap, steps) in enumerate(batches):
        now_ms = 1_000 * place + leap
        commands = [script.command(step) for step in steps]
        copies = [decode(encode(command)) for command in commands]
        assert spread(one.apply(commands, now_ms)) == spread(other.apply(copies, now_ms))
        assert (one.due_ms, one.has_more()) == (other.due_ms, other.has_more())
        naive.apply(commands, now_ms)
    assert encode_fifo(one) == encode_fifo(other)


@BOUNDED
@given(OPTIONS, BATCHES)
def test_a_message_leaves_once_and_a_consumer_counts_its_deliveries(
    options: Options, batches: list[Batch]
) -> None:
    fifo, naive = Fifo(options), NaiveFifo(options)
    script = Script(naive)
    rows: list[Row] = []
    now_ms = 0
    for leap, steps in batches:
        now_ms += leap
        commands = [script.command(step) for step in steps]
        rows += applied(fifo, commands, now_ms)
        naive.apply(commands, now_ms)
    left = [row[1] for row in rows if row[0] == "left"]
    assert len(left) == len(set(left))
    entered = [row[3] for row in rows if row[0] == "enqueued"]
    alive = {
        seq for first, count in fifo.alive_within(1, 1000) for seq in seqs_of([(first, count)])
    }
    assert sorted([*left, *alive], key=repr) == sorted(entered, key=repr)
    counts: dict[object, int] = {}
    for row in rows:
        if row[0] == "drained":
            assert isinstance(row[2], int)
            counts[row[1]] = row[2]
        elif row[0] == "delivers":
            counts[row[1]] = counts.get(row[1], 0) + 1
            assert row[2] == counts[row[1]]


def attached(fifo: Fifo, number: int, credit: int, priority: int = 0) -> ConsumerKey:
    key = consumer_key(ONE, number)
    fifo.apply([Attach(key, credit, True, False, priority)], 0)
    return key


def deliveries(effects: list[Effect]) -> list[tuple[ConsumerKey, int, int]]:
    return [(each.key, each.first, each.count) for each in effects if isinstance(each, Delivers)]


def test_a_run_to_one_consumer_is_one_effect() -> None:
    fifo = Fifo()
    key = attached(fifo, 1, 10_000)
    assert deliveries(fifo.apply([Enqueue(ONE, 1, 9_000)], 0)) == [(key, 1, 9_000)]


def test_consumers_take_turns_message_by_message() -> None:
    fifo = Fifo()
    one, two = attached(fifo, 1, 3), attached(fifo, 2, 3)
    found = deliveries(fifo.apply([Enqueue(ONE, 1, 4)], 0))
    assert found == [(one, 1, 1), (two, 2, 1), (one, 3, 1), (two, 4, 1)]


def test_in_a_long_backlog_a_turn_is_longer_and_everybody_still_gets_one() -> None:
    fifo = Fifo()
    fifo.apply([Enqueue(ONE, 1, LONG_BACKLOG + 2 * LONG_TURN)], 0)
    keys = [consumer_key(ONE, number) for number in (1, 2)]
    attach: list[Command] = [Attach(key, 200, True, False, 0) for key in keys]
    found = deliveries(fifo.apply(attach, 0))
    assert found[:3] == [
        (keys[0], 1, LONG_TURN),
        (keys[1], 1 + LONG_TURN, LONG_TURN),
        (keys[0], 1 + 2 * LONG_TURN, LONG_TURN),
    ]
    for key in keys:
        assert sum(count for each, _, count in found if each == key) == 200


def test_a_lower_priority_is_served_when_the_higher_ones_have_no_credit() -> None:
    fifo = Fifo()
    low, high = attached(fifo, 1, 5, -1), attached(fifo, 2, 2, 7)
    assert deliveries(fifo.apply([Enqueue(ONE, 1, 4)], 0)) == [(high, 1, 2), (low, 3, 2)]
    settled = Settle(high, ACCEPT, [(1, 1)])
    assert deliveries(fifo.apply([settled, Enqueue(ONE, 5, 2)], 0)) == [(high, 5, 1), (low, 6, 1)]


def test_consumer_priorities_that_nobody_has_any_more_are_forgotten() -> None:
    fifo = Fifo()
    for number in range(1, 200):
        key = attached(fifo, number, 5, number)
        fifo.apply([Detach(key)], 0)
    assert len(fifo.roster.lines.levels) <= 1


def test_a_requeued_message_stands_where_it_stood_and_is_marked() -> None:
    fifo = Fifo()
    key = attached(fifo, 1, 5)
    fifo.apply([Enqueue(ONE, 1, 8)], 0)
    fifo.apply([Detach(key), Settle(key, RELEASE, [(2, 1), (4, 1)])], 0)
    fifo.apply([Settle(key, RETURN_UNSEEN, [(3, 1)])], 0)
    assert seqs_of(fifo.ready.runs()) == [2, 3, 4, 6, 7, 8]
    found = [fifo.apply([Get(ONE)], 0) for _ in range(6)]
    assert [(row[2], row[3]) for row in spread([each for one in found for each in one])] == [
        (2, True),
        (3, False),
        (4, True),
        (6, False),
        (7, False),
        (8, False),
    ]


def test_a_run_is_delivered_in_pieces_where_the_redelivered_mark_changes() -> None:
    fifo = Fifo()
    first = attached(fifo, 1, 4)
    fifo.apply([Enqueue(ONE, 1, 6), Detach(first)], 0)
    key = consumer_key(ONE, 2)
    back: list[Command] = [
        Attach(key, 4, False, False, 0),
        Detach(key),
        Get(ONE),
        Get(ONE),
        Get(ONE),
        Settle(consumer_key(ONE, 0), RETURN_UNSEEN, [(1, 1), (3, 1)]),
        Settle(consumer_key(ONE, 0), RELEASE, [(2, 1)]),
        Attach(consumer_key(ONE, 3), 10, False, False, 0),
    ]
    rows = [row for row in fifo.apply(back, 0) if isinstance(row, Delivers)]
    assert [(row.first, row.count, row.redelivered) for row in rows] == [
        (1, 1, False),
        (2, 1, True),
        (3, 4, False),
    ]


def test_after_a_recovery_the_order_is_kept_and_the_marks_go_up_to_the_bound() -> None:
    fifo = Fifo()
    for first, count in ((2, 3), (8, 4)):
        fifo.restore_run(first, count, None, 0, 0)
    fifo.end_restore(20, 9)
    key = consumer_key(ONE, 1)
    rows = spread(fifo.apply([Attach(key, 100, True, False, 0), Enqueue(ONE, 1, 2)], 0))
    assert [(row[3], row[4]) for row in rows if row[0] == "delivers"] == [
        *((seq, True) for seq in (2, 3, 4, 8, 9)),
        *((seq, False) for seq in (10, 11, 20, 21)),
    ]


def test_time_never_goes_back() -> None:
    fifo = Fifo()
    for told, kept in ((5, 5), (3, 5), (9, 9)):
        fifo.apply([Inspect(ONE)], told)
        assert fifo.now_ms == kept


def test_what_was_ever_delivered_is_remembered_when_it_comes_back() -> None:
    fifo = Fifo()
    key = attached(fifo, 1, 3)
    fifo.apply([Enqueue(ONE, 1, 9)], 0)
    fifo.apply([EndSession(ONE)], 0)
    assert fifo.delivered_high == 3
    assert key not in fifo.consumers


def test_a_recovered_queue_knows_what_may_have_been_delivered_before() -> None:
    for redelivered_upto, expected in ((0, 0), (5, 5), (500, 19)):
        fifo = Fifo()
        fifo.restore_run(2, 3, None, 0, 0)
        fifo.end_restore(20, redelivered_upto)
        assert fifo.delivered_high == expected
