"""The queue machine against the naive one, and the laws that need a long or special story."""

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.commands import (
    ACCEPT,
    RELEASE,
    RETURN_UNSEEN,
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
    decode,
    encode,
)
from queues.effects import Delivers, Effect
from queues.fifo import LONG_BACKLOG, LONG_TURN, Fifo
from tests.unit.queues.naive_fifo import NaiveFifo, Row, spread
from tests.unit.queues.runs import runs_of, seqs_of

BOUNDED = settings(max_examples=400, deadline=None, database=None)
SESSIONS = [SessionId(7 << 64 | counter) for counter in (1, 2, 3)]
ONE = SESSIONS[0]

# Kind of command, which session or consumer, and three numbers that the kind makes something of.
Step = tuple[str, int, int, int, int]
STEPS = st.tuples(
    st.sampled_from(
        ["enqueue"] * 5
        + ["settle"] * 6
        + ["attach"] * 3
        + ["credit"] * 3
        + ["get", "get", "detach", "purge", "inspect", "end"]
    ),
    st.integers(0, 5),
    st.integers(0, 9),
    st.integers(1, 5),
    st.integers(0, 11),
)
BATCHES = st.lists(st.lists(STEPS, min_size=1, max_size=4), max_size=25)


class Script:
    """Makes commands of steps: ones that sessions could send in the state that there is."""

    def __init__(self, naive: NaiveFifo) -> None:
        self._naive = naive
        self._keys: list[ConsumerKey] = [consumer_key(session, 0) for session in SESSIONS]
        self._next_number = 1
        self._sent: dict[SessionId, int] = {}

    def command(self, step: Step) -> Command:
        kind, who, a, b, c = step
        session = SESSIONS[who % len(SESSIONS)]
        key = self._keys[-1 - who % len(self._keys)]
        if kind == "enqueue":
            return self._enqueue(session, a, b)
        if kind == "attach":
            return self._attach(session, a, b, c)
        if kind == "settle":
            return self._settle(key, a, b, c)
        if kind == "credit":
            return Credit(key, a, b * (c > 1), c % 4 == 0, c % 3 == 0)
        if kind == "detach":
            return Detach(key)
        if kind == "get":
            return Get(session)
        if kind == "purge":
            return Purge(session)
        if kind == "inspect":
            return Inspect(session)
        self._sent.pop(session, None)
        return EndSession(session)

    def _enqueue(self, session: SessionId, a: int, count: int) -> Enqueue:
        """Mostly what comes next; at times something again, or something after a gap."""
        following = self._sent.get(session, 0) + 1
        first = following
        if a == 0:
            first = following + 1
        elif a in (1, 2):
            first = max(following - a, 1)
        if a != 0:
            self._sent[session] = max(following - 1, first + count - 1)
        return Enqueue(session, first, count)

    def _attach(self, session: SessionId, a: int, b: int, c: int) -> Attach:
        key = consumer_key(session, self._next_number)
        self._next_number += 1
        self._keys.append(key)
        return Attach(key, a % 4, c % 3 != 0, c == 1, b % 3 - 1)

    def _settle(self, key: ConsumerKey, a: int, b: int, c: int) -> Settle:
        """Of what it holds, from some place on; at times also what it does not hold."""
        consumer = self._naive.consumers.get(key)
        held = [] if consumer is None else consumer.held
        if c >= 10 or not held:
            return Settle(key, b % 4 + 1, [(a + 1, b), (max(a - 1, 1), 3)])
        return Settle(key, b % 4 + 1, runs_of(held[a % len(held) :][:b]))


def in_place(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[0] != "left"]


def leavers(rows: list[Row]) -> list[Row]:
    """Messages that leave for different reasons do so in no promised order."""
    return sorted((row for row in rows if row[0] == "left"), key=repr)


def check_alike(fifo: Fifo, naive: NaiveFifo) -> None:
    """Both are in the same state, and each message is in one place."""
    assert seqs_of(fifo.ready.runs()) == naive.ready
    assert seqs_of(fifo.redelivered.runs()) == sorted(naive.redelivered)
    assert list(fifo.consumers) == list(naive.consumers)
    held: list[int] = []
    for key, consumer in fifo.consumers.items():
        other = naive.consumers[key]
        mine = seqs_of(consumer.held.runs())
        assert mine == sorted(other.held)
        assert consumer.attached == other.attached
        assert not consumer.attached or consumer.credit == other.credit
        assert consumer.delivery_count == other.delivery_count
        held += mine
    assert fifo.checked_out == len(held)
    assert len(set(held) | set(naive.ready)) == len(held) + len(naive.ready)
    assert naive.redelivered <= set(held) | set(naive.ready)
    assert fifo.attached_count == len(naive.attached())
    assert fifo.last_seqs == naive.last_seqs
    assert fifo.next_seq == naive.next_seq


@BOUNDED
@given(BATCHES)
def test_it_does_what_the_rules_say_one_message_at_a_time(batches: list[list[Step]]) -> None:
    fifo = Fifo()
    naive = NaiveFifo()
    script = Script(naive)
    for place, batch in enumerate(batches):
        commands = [script.command(step) for step in batch]
        rows, expected = spread(fifo.apply(commands, place)), naive.apply(commands)
        assert in_place(rows) == in_place(expected)
        assert leavers(rows) == leavers(expected)
        check_alike(fifo, naive)


@BOUNDED
@given(BATCHES)
def test_the_same_bytes_make_the_same_effects_and_state(batches: list[list[Step]]) -> None:
    naive = NaiveFifo()
    script = Script(naive)
    one, other = Fifo(), Fifo()
    for place, batch in enumerate(batches):
        commands = [script.command(step) for step in batch]
        copies = [decode(encode(command)) for command in commands]
        assert spread(one.apply(commands, place)) == spread(other.apply(copies, place))
        naive.apply(commands)
    check_alike(one, naive)
    check_alike(other, naive)


@BOUNDED
@given(BATCHES)
def test_a_message_leaves_once_and_a_consumer_counts_its_deliveries(
    batches: list[list[Step]],
) -> None:
    fifo, naive = Fifo(), NaiveFifo()
    script = Script(naive)
    rows: list[Row] = []
    for batch in batches:
        commands = [script.command(step) for step in batch]
        rows += spread(fifo.apply(commands, 0))
        naive.apply(commands)
    left = [row[1] for row in rows if row[0] == "left"]
    assert len(left) == len(set(left))
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
