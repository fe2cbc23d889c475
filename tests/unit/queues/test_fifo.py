"""The queue machine against the naive one, and the laws that need a long or special story."""

import pytest
from hypothesis import given, settings

from queues.machine.annotations import decode_words
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    RELEASE,
    RETURN_UNSEEN,
    Attach,
    Command,
    Configure,
    ConsumerKey,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Inspect,
    Purge,
    Restarted,
    Settle,
    consumer_key,
    decode,
    encode,
)
from queues.machine.effects import Attached, Delivers, Effect, Got, Inspected, Left, Purged
from queues.machine.expiry import FAR, ROWS_TO_PRUNE
from queues.machine.fifo import DEAD_SLICE, DUE_SLICE, LEAVE_SLICE, LONG_BACKLOG, LONG_TURN, Fifo
from queues.machine.fifo_snapshot import encode_fifo
from queues.machine.options import REJECT_PUBLISH, Options
from queues.runs.columns import Column
from tests.unit.queues.effect_rows import Row, spread
from tests.unit.queues.fifo_steps import (
    BATCHES,
    OPTIONS,
    PLAIN_BATCHES,
    SESSIONS,
    Batch,
    Script,
    story_of,
    traits_of,
)
from tests.unit.queues.naive_fifo import NaiveFifo
from tests.unit.queues.runs import seqs_of
from tests.unit.reachable import held

BOUNDED = settings(max_examples=250, deadline=None, database=None)
ONE = SESSIONS[0]
PLAIN = Options()
LEAVERS = ("left", "noted", "purged")


def applied(fifo: Fifo, commands: list[Command], now_ms: int) -> list[Row]:
    """The answers to a batch, and to the empty ones that the machine asks for."""
    rows = spread(fifo.apply(commands, now_ms))
    for _ in range(50):
        if not fifo.has_more():
            return rows
        rows += spread(fifo.apply([], now_ms))
    raise AssertionError("the machine never comes to rest")


def in_place(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[0] not in LEAVERS]


def leavers(rows: list[Row]) -> list[Row]:
    """Messages that leave for different reasons do so in no promised order."""
    return sorted((row for row in rows if row[0] in LEAVERS), key=repr)


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
    assert fifo.last_seqs.all() == naive.last_seqs
    assert fifo.next_seq == naive.next_seq
    tries = {seq: naive.attempts(message) for seq, message in naive.messages.items()}
    expected = sorted((seq, attempts) for seq, attempts in tries.items() if attempts)
    assert fifo.attempts.items() == expected
    noted = {seq: decode_words(words) for seq, words in fifo.annotations.words.items()}
    assert noted == {seq: each.words for seq, each in naive.messages.items() if each.words}
    for level, lane in enumerate(fifo.ready.lanes):
        assert all(naive.messages[seq].level == level for seq in seqs_of(lane.runs()))
    if naive.options.bytes_max >= 0:
        assert fifo.notes.ready_bytes == naive.ready_bytes()
        assert fifo.notes.beside_bytes == naive.waiting_bytes() - naive.ready_bytes()
    assert delayed_in(fifo) == sorted(naive.delayed())
    assert fifo.notes.beside_count == len(naive.delayed())
    for key, consumer in fifo.consumers.items():
        other = naive.consumers[key]
        assert not consumer.attached or consumer.barred == naive.is_closed(other)
        if consumer.limits is not None and naive.window(other) > 0 and consumer.attached:
            held_bytes = naive.held_bytes(other) if naive.options.counts_bytes else 0
            assert consumer.limits.held_bytes == held_bytes


def delayed_in(fifo: Fifo) -> list[int]:
    return [] if fifo.delays is None else seqs_of(fifo.delays.seqs.runs())


def check_laws(fifo: Fifo) -> None:
    """What the machine's docstrings promise after each batch that leaves nothing to be done."""
    ready = seqs_of(fifo.ready.runs())
    held = [seq for each in fifo.consumers.values() for seq in seqs_of(each.held.runs())]
    delayed = delayed_in(fifo)
    alive = set(ready) | set(held) | set(delayed)
    assert not fifo.leaving
    assert fifo.checked_out == len(held)
    assert fifo.ready.count == len(ready)
    assert len(alive) == len(held) + len(ready) + len(delayed) == fifo.length()
    assert set(seqs_of(fifo.redelivered.runs())) <= alive
    assert set(seqs_of(fifo.overdue.runs())) <= set(held)
    assert {seq for seq, _ in fifo.attempts.items()} <= alive
    assert set(fifo.annotations.words) <= alive
    assert all(0 < seq < fifo.next_seq for seq in alive)
    assert all(each.attached or each.held.count for each in fifo.consumers.values())
    assert fifo.due_ms > fifo.now_ms
    attached = [each for each in fifo.consumers.values() if each.attached]
    waiting = [each for each in attached if each.credit > 0 and not each.barred]
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


@pytest.mark.parametrize("start", range(0, 600, 50))
def test_long_stories_too_end_as_the_rules_say(start: int) -> None:
    for seed in range(start, start + 50):
        options, batches = story_of(seed)
        naive = NaiveFifo(options)
        try:
            run_both(options, batches, Script(naive), naive)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


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
    keys = [attached(fifo, number, 200, 0) for number in (1, 2)]
    found = deliveries(fifo.apply([Enqueue(ONE, 1, LONG_BACKLOG + 2 * LONG_TURN)], 0))
    assert found[:3] == [
        (keys[0], 1, LONG_TURN),
        (keys[1], 1 + LONG_TURN, LONG_TURN),
        (keys[0], 1 + 2 * LONG_TURN, LONG_TURN),
    ]
    for key in keys:
        assert sum(count for each, _, count in found if each == key) == 200


def test_a_get_behind_a_publish_takes_nothing_from_a_consumer_that_waits() -> None:
    fifo = Fifo()
    key = attached(fifo, 1, 1, 0)
    effects = fifo.apply([Enqueue(ONE, 1, 1), Get(ONE)], 0)
    assert deliveries(effects) == [(key, 1, 1)]
    assert [each.message for each in effects if isinstance(each, Got)] == [0]


def test_a_get_behind_a_requeue_sees_a_queue_within_its_limit() -> None:
    fifo = Fifo(Options(length_max=1))
    key = attached(fifo, 1, 1, 0)
    fifo.apply([Enqueue(ONE, 1, 2), Detach(key)], 0)
    effects = fifo.apply([Settle(key, RELEASE, [(1, 1)]), Get(ONE), Get(ONE)], 0)
    assert [each.message for each in effects if isinstance(each, Got)] == [2, 0]
    assert [each.first for each in effects if isinstance(each, Left)] == [1]


def test_a_count_behind_a_publish_knows_what_its_consumers_took() -> None:
    fifo = Fifo()
    attached(fifo, 1, 2, 0)
    effects = fifo.apply([Enqueue(ONE, 1, 3), Inspect(ONE)], 0)
    assert [each.ready for each in effects if isinstance(each, Inspected)] == [1]


def test_a_higher_priority_overtakes_no_message_that_a_consumer_waits_for() -> None:
    fifo = Fifo(Options(levels=3))
    key = attached(fifo, 1, 1, 0)
    high = traits_of([2], [-1], None)
    found = deliveries(fifo.apply([Enqueue(ONE, 1, 1), Enqueue(ONE, 2, 1, high)], 0))
    assert found == [(key, 1, 1)]


def test_who_attaches_first_in_a_batch_is_served_first() -> None:
    fifo = Fifo()
    fifo.apply([Enqueue(ONE, 1, 6)], 0)
    keys = [consumer_key(ONE, number) for number in (1, 2)]
    attach: list[Command] = [Attach(key, 4, True, False, 0) for key in keys]
    assert deliveries(fifo.apply(attach, 0)) == [(keys[0], 1, 4), (keys[1], 5, 2)]


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


# Options, one by one: what the naive machine cannot show


def publish(count: int, first: int = 1, ttl_ms: int = -1, size: int | None = None) -> Enqueue:
    sizes = None if size is None else [size] * count
    return Enqueue(ONE, first, count, traits_of([-1] * count, [ttl_ms] * count, sizes))


def scattered(count: int, ttl_ms: int, first: int = 1) -> Enqueue:
    """Every second message has an expiration: each is an entry of its own in the calendar."""
    ttls = [ttl_ms if place % 2 else -1 for place in range(count)]
    return Enqueue(ONE, first, count, traits_of([-1] * count, ttls, None))


def left(effects: list[Effect]) -> int:
    return sum(each.count for each in effects if isinstance(each, Left))


@pytest.mark.parametrize(("dead_letters", "slice_of"), [(False, LEAVE_SLICE), (True, DEAD_SLICE)])
def test_a_backlog_that_expires_leaves_slice_by_slice_and_is_never_delivered(
    dead_letters: bool, slice_of: int
) -> None:
    fifo = Fifo(Options(ttl_ms=1000, dead_letters=dead_letters))
    fifo.apply([Enqueue(ONE, 1, 2 * slice_of + 5)], 0)
    attach = Attach(consumer_key(ONE, 1), 10, True, False, 0)
    batches = [fifo.apply([attach], 1000), fifo.apply([], 1000), fifo.apply([], 1000)]
    assert [left(effects) for effects in batches] == [slice_of, slice_of, 5]
    assert not any(deliveries(effects) for effects in batches)
    assert not fifo.has_more()
    assert fifo.alive_within(1, fifo.next_seq) == []


def test_a_purge_is_answered_when_the_last_message_has_left() -> None:
    fifo = Fifo()
    total = LEAVE_SLICE + 7
    fifo.apply([Enqueue(ONE, 1, total)], 0)
    key = consumer_key(ONE, 1)
    first = fifo.apply([Purge(ONE), Attach(key, 5, True, False, 0), Enqueue(ONE, total + 1, 1)], 0)
    assert not any(isinstance(each, Purged) for each in first)
    assert deliveries(first) == [(key, total + 1, 1)]
    assert fifo.has_more()
    second = fifo.apply([], 0)
    assert left(first) + left(second) == total
    assert [each.count for each in second if isinstance(each, Purged)] == [total]
    assert not fifo.has_more()


def test_a_get_that_waits_is_called_off_by_a_restart() -> None:
    fifo = Fifo()
    fifo.apply([scattered(4 * DUE_SLICE + 20, 1000)], 0)
    due = fifo.due_ms
    fifo.apply([Get(SESSIONS[1])], due)
    rows = applied(fifo, [Restarted(1)], due)
    assert {row[0] for row in rows} == {"left"}
    assert list(fifo.consumers) == []


def test_while_more_is_due_than_was_looked_at_nobody_is_served() -> None:
    fifo = Fifo()
    count = 2 * DUE_SLICE + 20
    fifo.apply([scattered(count, 1000)], 0)
    due = fifo.due_ms
    assert due < 1010
    key = consumer_key(ONE, 1)
    session = SESSIONS[1]
    credit = Credit(key, 0, 3, True, False)
    first = fifo.apply([Attach(key, 0, False, False, 0), credit, Get(session)], due)
    assert fifo.has_more()
    assert {type(each) for each in first} == {Attached, Left}
    rows = applied(fifo, [], due)
    assert [row[2:4] for row in rows if row[0] == "got"] == [(1 + 6, False)]
    assert [row[3] for row in rows if row[0] == "delivers"] == [1, 3, 5]
    assert ("drained", key, 3) in rows
    assert fifo.ready.count == count // 2 - 4


def test_who_has_credit_while_more_is_due_gets_only_what_is_not() -> None:
    fifo = Fifo()
    fifo.apply([scattered(2 * DUE_SLICE + 22, 1000)], 0)
    due = fifo.due_ms
    rows = applied(fifo, [Attach(consumer_key(ONE, 1), 1 << 20, True, False, 0)], due)
    delivered = {row[3] for row in rows if row[0] == "delivers"}
    expired = {row[1] for row in rows if row[0] == "left"}
    assert len(expired) == DUE_SLICE + 11
    assert not delivered & expired
    assert len(delivered) + len(expired) == fifo.next_seq - 1


def test_who_has_gone_gets_nothing_of_what_it_waited_for() -> None:
    fifo = Fifo()
    fifo.apply([scattered(4 * DUE_SLICE + 20, 1000)], 0)
    due = fifo.due_ms
    gone, stays = SESSIONS[1], SESSIONS[2]
    fifo.apply([Get(gone), Get(stays)], due)
    rows = applied(fifo, [EndSession(gone)], due)
    assert [row[1] for row in rows if row[0] == "got"] == [stays]
    assert list(fifo.consumers) == [consumer_key(stays, 0)]


def test_due_times_of_messages_that_are_gone_do_not_pile_up() -> None:
    fifo = Fifo()
    key = attached(fifo, 1, 1 << 30)
    for round_ in range(10):
        fifo.apply([scattered(2000, 3_600_000, 1 + 2000 * round_)], 0)
        runs = fifo.consumers[key].held.runs()
        applied(fifo, [Settle(key, ACCEPT, runs)], 0)
    assert fifo.calendar.count < 5000
    assert fifo.due_ms > 3_600_000


def test_a_message_expires_wherever_it_stands_and_not_early() -> None:
    fifo = Fifo()
    ttls = [-1, 60_000, -1, 5, -1]
    fifo.apply([Enqueue(ONE, 1, 5, traits_of([-1] * 5, ttls, None))], 1000)
    for now_ms, ready in ((1004, 5), (1008, 4), (60_999, 4), (61_063, 3)):
        applied(fifo, [], now_ms)
        assert fifo.ready.count == ready, now_ms
    assert seqs_of(fifo.ready.runs()) == [1, 3, 5]


def test_a_full_queue_serves_who_waits_before_it_refuses() -> None:
    fifo = Fifo(Options(length_max=2, overflow=REJECT_PUBLISH))
    key = attached(fifo, 1, 3)
    rows = spread(fifo.apply([Enqueue(ONE, 1, 2), Enqueue(ONE, 3, 4)], 0))
    assert [row[3] for row in rows if row[0] == "delivers"] == [1, 2, 3]
    assert [row[2] for row in rows if row[0] == "refused publish"] == [6]
    assert fifo.consumers[key].credit == 0


def test_sizes_that_did_not_come_count_as_nothing() -> None:
    fifo = Fifo(Options(bytes_max=10))
    fifo.apply([publish(2, 1, 60_000), publish(1, 3, 60_000, 9), publish(1, 4, -1, 9)], 0)
    assert seqs_of(fifo.ready.runs()) == [4]


def test_an_unused_queue_expires_counted_from_its_first_batch() -> None:
    fifo = Fifo(Options(expires_ms=1000))
    assert fifo.due_ms <= 5000
    applied(fifo, [publish(1, 1, 3)], 5000)
    found = {now: applied(fifo, [], now) for now in (5900, 5999, 6000, 6999, 7000)}
    assert [now for now, rows in found.items() if ("queue expired",) in rows] == [6000, 7000]


@pytest.mark.parametrize("use", [Get(ONE), Inspect(ONE)])
def test_a_get_or_a_declaration_makes_an_unused_queue_live_longer(use: Command) -> None:
    fifo = Fifo(Options(expires_ms=1000))
    fifo.apply([], 5000)
    fifo.apply([use], 5900)
    assert applied(fifo, [], 6899) == []
    assert applied(fifo, [], 6900) == [("queue expired",)]


def test_a_queue_with_a_consumer_does_not_expire_until_it_has_gone() -> None:
    fifo = Fifo(Options(expires_ms=1000))
    key = consumer_key(ONE, 1)
    fifo.apply([Attach(key, 1, True, False, 0)], 5000)
    assert applied(fifo, [], 50_000) == []
    fifo.apply([Detach(key)], 60_000)
    assert applied(fifo, [], 60_999) == []
    assert applied(fifo, [], 61_000) == [("queue expired",)]


def test_the_time_to_be_unused_begins_when_it_is_set() -> None:
    fifo = Fifo()
    fifo.apply([Enqueue(ONE, 1, 1)], 5000)
    assert applied(fifo, [Configure(Options(expires_ms=1000))], 90_000) == []
    assert fifo.due_ms <= 91_000
    assert applied(fifo, [], 91_000) == [("queue expired",)]


def test_a_consumer_timeout_is_not_put_off_by_consumers_that_come_and_go() -> None:
    fifo = Fifo(Options(consumer_timeout_ms=8000))
    key = attached(fifo, 1, 1)
    fifo.apply([Enqueue(ONE, 1, 1)], 0)
    rows: list[Row] = []
    for number in range(2, 30):
        brief = consumer_key(SESSIONS[1], number)
        batch: list[Command] = [Attach(brief, 0, True, False, 0), Detach(brief)]
        rows += applied(fifo, batch, 500 * number)
    assert ("timed out", key, 8000) in rows


def test_a_timeout_that_is_set_later_holds_for_what_is_held_already() -> None:
    fifo = Fifo()
    key = attached(fifo, 1, 1)
    fifo.apply([Enqueue(ONE, 1, 1)], 0)
    fifo.apply([Configure(Options(consumer_timeout_ms=800))], 1000)
    rows: list[Row] = []
    for _ in range(20):
        if fifo.due_ms <= 3000:
            rows += applied(fifo, [], fifo.due_ms)
    assert ("timed out", key, 800) in rows
    assert fifo.now_ms <= 1000 + 800 + 2 * 100
    assert seqs_of(fifo.ready.runs()) == [1]
    assert seqs_of(fifo.redelivered.runs()) == [1]


def test_what_was_got_times_out_even_where_no_consumer_can() -> None:
    fifo = Fifo(Options(consumer_timeout_ms=800))
    forever = consumer_key(ONE, 1)
    attach = Attach(forever, 1, True, False, 0, 0)
    fifo.apply([attach, Enqueue(ONE, 1, 2)], 0)
    fifo.apply([Get(SESSIONS[1])], 50)
    rows: list[Row] = []
    for now_ms in (200, 1100):
        rows += applied(fifo, [], now_ms)
    assert rows == [("timed out", consumer_key(SESSIONS[1], 0), 800)]
    assert list(fifo.consumers) == [forever]


def test_without_timeouts_no_time_is_waited_for() -> None:
    fifo = Fifo()
    attached(fifo, 1, 1)
    fifo.apply([Enqueue(ONE, 1, 1)], 0)
    assert fifo.due_ms == FAR


def test_a_ttl_that_is_set_again_counts_from_then_on() -> None:
    fifo = Fifo()
    for number, now_ms, ttl_ms in ((1, 0, 1000), (2, 500, -1), (3, 700, -1), (4, 9000, 1000)):
        fifo.apply([Configure(Options(ttl_ms=ttl_ms)), Enqueue(ONE, number, 1)], now_ms)
    assert fifo.ready.count == 4
    assert not fifo.has_more()
    applied(fifo, [], 9999)
    assert fifo.ready.count == 4
    applied(fifo, [], 10_000)
    assert fifo.ready.count == 0
    assert fifo.due_ms == FAR


def test_what_is_due_under_another_ttl_is_not_delivered_in_the_same_batch() -> None:
    fifo = Fifo(Options(ttl_ms=60_000))
    fifo.apply([Enqueue(ONE, 1, 3)], 0)
    attach = Attach(consumer_key(ONE, 1), 10, True, False, 0)
    rows = applied(fifo, [Configure(Options(ttl_ms=1000)), attach], 5000)
    assert [row[0] for row in rows] == ["attached", "left", "left", "left"]


def test_another_handover_holds_at_once() -> None:
    fifo = Fifo(Options(single_active=True))
    drained = Options(single_active=True, drain_handover=True)
    one, two = attached(fifo, 1, 1), attached(fifo, 2, 1)
    fifo.apply([Enqueue(ONE, 1, 2), Configure(drained)], 0)
    rows = applied(fifo, [Detach(one)], 0)
    assert ("activated", two, True) not in rows
    rows = applied(fifo, [Configure(Options(single_active=True))], 0)
    assert rows == [("activated", two, True), ("delivers", two, 1, 2, False, 0)]


def test_priorities_of_consumers_that_used_their_credit_up_are_forgotten() -> None:
    fifo = Fifo()
    fifo.apply([Enqueue(ONE, 1, 300)], 0)
    for number in range(1, 200):
        key = attached(fifo, number, 1, number)
        fifo.apply([Detach(key), Settle(key, ACCEPT, [(number, 1)])], 0)
        assert len(fifo.roster.lines.levels) <= 1


def test_a_queue_that_is_recovered_is_as_it_was() -> None:
    options = Options(levels=3, ttl_ms=60_000, bytes_max=1000)
    traits = traits_of([0, 2, 9, 1], [-1, 5000, -1, 70_000], [10, 20, 30, 40])
    old = Fifo(options)
    old.apply([Enqueue(ONE, 1, 4, traits)], 3000)
    old.apply([Enqueue(ONE, 5, 1)], 7000)
    new = Fifo(options)
    new.restore_run(1, 2, traits, 0, 3000)
    new.restore_run(3, 2, traits, 2, 3000)
    new.restore_run(5, 1, None, 0, 7000)
    new.end_restore(6, 0)
    for fifo in (old, new):
        assert [seqs_of(lane.runs()) for lane in fifo.ready.lanes] == [[1, 5], [4], [2, 3]]
        assert fifo.notes.ready_bytes == 100
        applied(fifo, [], 9000)
        assert seqs_of(fifo.ready.runs()) == [1, 3, 4, 5]
        applied(fifo, [], 63_000 + 60)
        assert seqs_of(fifo.ready.runs()) == [5]
        assert fifo.notes.ready_bytes == 0


def test_nothing_is_noted_of_messages_that_are_gone() -> None:
    fifo = Fifo(Options(levels=9, bytes_max=1000, counts_deliveries=True, delivery_limit=1))
    key = attached(fifo, 1, 100)
    priorities = [place % 9 for place in range(20)]
    fifo.apply([Enqueue(ONE, 1, 20, traits_of(priorities, [-1] * 20, [5] * 20))], 0)
    applied(fifo, [Settle(key, FAIL, [(1, 10)])], 0)
    applied(fifo, [Settle(key, FAIL, [(1, 5)]), Settle(key, ACCEPT, [(6, 15)])], 0)
    assert fifo.alive_within(1, 100) == []
    assert fifo.attempts.items() == []
    assert fifo.redelivered.count == 0
    assert {each.block_count() for each in held(fifo.notes, Column)} == {0}


@pytest.mark.parametrize(
    "other",
    [
        Options(levels=2),
        Options(single_active=True),
        Options(counts_deliveries=True),
    ],
)
def test_what_is_fixed_for_the_life_of_a_queue_cannot_be_configured(other: Options) -> None:
    fifo = Fifo()
    fifo.apply([Enqueue(ONE, 1, 1)], 0)
    with pytest.raises(AssertionError):
        fifo.apply([Configure(other)], 0)


def test_what_many_consumers_hold_is_known_after_every_change() -> None:
    fifo = Fifo()
    keys = [consumer_key(ONE, number) for number in range(1, 8)]
    fifo.apply([Attach(key, 2, False, False, 0) for key in keys], 0)
    fifo.apply([Enqueue(ONE, 1, 14, traits_of([-1] * 14, [1000] * 14, None))], 0)
    everything = list(range(1, 15))
    assert seqs_of(sorted(fifo.alive_within(1, 14))) == everything  # 1 and 8 are with the first.
    fifo.apply([Settle(keys[0], ACCEPT, [(1, 1)])], 1)
    assert seqs_of(sorted(fifo.alive_within(1, 14))) == everything[1:]
    fifo.apply([Settle(keys[1], RELEASE, [(2, 1)])], 2_000)
    assert seqs_of(sorted(fifo.alive_within(1, 14))) == everything[2:]
    fifo.apply([EndSession(ONE)], 2_000)
    assert fifo.alive_within(1, 14) == []


def test_times_of_arrival_of_messages_that_are_gone_do_not_pile_up() -> None:
    week_ms = 7 * 24 * 3_600_000
    fifo = Fifo(Options(ttl_ms=week_ms))
    slow, fast = consumer_key(ONE, 1), consumer_key(ONE, 2)
    fifo.apply([Attach(slow, 1, False, False, 0)], 0)
    fifo.apply([Enqueue(ONE, 1, 1)], 0)
    fifo.apply([Attach(fast, 1, True, False, 0)], 0)
    for seq in range(2, 5_000):  # One a second, each settled at once.
        if seq == 2_500:
            assert len(fifo.arrivals.firsts) == 2_499  # for the first is still there
            fifo.apply([Settle(slow, ACCEPT, [(1, 1)])], 1_000 * seq)
        fifo.apply([Enqueue(ONE, seq, 1)], 1_000 * seq)
        fifo.apply([Settle(fast, ACCEPT, [(seq, 1)])], 1_000 * seq)
    assert len(fifo.arrivals.firsts) <= 2 * ROWS_TO_PRUNE
