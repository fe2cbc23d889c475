"""A machine whose leader may change: numbers, what a session resumes with, and who is gone."""

from random import Random

import msgspec
import pytest

from queues.machine.commands import (
    ACCEPT,
    FAIL,
    REJECT,
    RELEASE,
    Attach,
    Command,
    ConsumerKey,
    Credit,
    Detach,
    DropLost,
    EndProcess,
    EndSession,
    Enqueue,
    Get,
    Inspect,
    Leads,
    Numbered,
    Purge,
    ReleaseDeadLetters,
    Restarted,
    Retire,
    SessionId,
    Settle,
    Suspend,
    Tick,
    Unsuspend,
    consumer_key,
    session_named,
)
from queues.machine.consuming.numbered_sessions import Resume, Resumed
from queues.machine.effects import (
    LEFT_BURIED,
    LEFT_EXPIRED,
    LEFT_PURGED,
    LEFT_REFUSED,
    LEFT_REJECTED,
    Applied,
    DeadLettersPending,
    Effect,
    Unwanted,
)
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import SMALL, BadSnapshot, decode_fifo, encode_fifo, machine_state
from queues.machine.options import DROP_HEAD, REJECT_PUBLISH, Options
from queues.machine.traits import Traits
from tests.unit.queues.effect_rows import Row, spread
from tests.unit.queues.fifo_steps import SESSIONS, Batch, Script, story_of
from tests.unit.queues.naive_fifo import NaiveFifo
from tests.unit.queues.runs import seqs_of
from tests.unit.queues.test_fifo import check_alike, check_laws, in_place, leavers

ONE, TWO = SESSIONS[0], SESSIONS[1]
OTHER = SessionId(8 << 64 | 1)  # of another process
KEY = consumer_key(ONE, 1)


class Led:
    """A machine, and the numbers of its sessions' streams."""

    def __init__(self, options: Options | None = None) -> None:
        self.fifo = Fifo(options)
        self.fifo.begin_streams()
        self.numbers: dict[SessionId, int] = {}
        self.published: dict[SessionId, int] = {}
        self.now_ms = 1_000

    def wrap(self, command: Command, confirmed: int = 0) -> Numbered:
        """The next of its session."""
        session = session_named(command)
        self.numbers[session] = self.numbers.get(session, 0) + 1
        return Numbered(session, self.numbers[session], confirmed, command)

    def apply(self, *commands: Command) -> list[Row]:
        return spread(self.fifo.apply(list(commands), self.now_ms))

    def give(self, *commands: Command) -> list[Row]:
        """Numbered, in one batch; without what says that they are applied."""
        rows = self.apply(*[self.wrap(command) for command in commands])
        return [row for row in rows if row[0] != "applied"]

    def publish(self, count: int, session: SessionId = ONE) -> list[Row]:
        first = self.published.get(session, 0) + 1
        self.published[session] = first + count - 1
        return self.give(Enqueue(session, first, count))

    def resume(
        self,
        wanted: list[tuple[int, int]],
        session: SessionId = ONE,
        asked: int = 0,
        known: int = 0,
    ) -> tuple[int, int, list[Row]]:
        resumed = self.fifo.resume(Resume(session, asked, known, wanted))
        return resumed.number, resumed.published, spread(resumed.effects)


def attach(session: SessionId, number: int, credit: int) -> Attach:
    return Attach(consumer_key(session, number), credit, True, False, 0)


# Each number once


def test_a_number_that_is_too_high_is_answered_with_the_one_that_is_missing() -> None:
    led = Led()
    assert led.apply(Numbered(ONE, 2, 0, Inspect(ONE))) == [("resend", ONE, 1)]
    led.give(Inspect(ONE))
    assert led.apply(Numbered(ONE, 4, 0, Inspect(ONE))) == [("resend", ONE, 2)]
    assert led.fifo.streams is not None
    assert TWO not in led.fifo.streams.by_session


def test_a_number_that_came_before_changes_nothing_and_is_said_to_be_applied() -> None:
    led = Led()
    led.publish(3)
    led.give(attach(ONE, 1, 1))
    before = encode_fifo(led.fifo)
    assert led.apply(Numbered(ONE, 2, 0, attach(ONE, 1, 1))) == [("applied", ONE, 2)]
    assert encode_fifo(led.fifo) == before


def test_what_is_not_taken_of_an_enqueue_uses_its_numbers_up() -> None:
    """Bodies were written under them before the entry was."""
    led = Led()
    led.publish(3)
    assert led.fifo.next_seq == 4
    again = led.apply(Numbered(ONE, 1, 0, Enqueue(ONE, 1, 3)))
    assert again == [
        ("unwanted", ONE, 4),
        ("unwanted", ONE, 5),
        ("unwanted", ONE, 6),
        ("applied", ONE, 1),
    ]
    early = led.apply(Numbered(ONE, 3, 0, Enqueue(ONE, 5, 2)))
    assert early == [("unwanted", ONE, 7), ("unwanted", ONE, 8), ("resend", ONE, 2)]
    assert led.publish(1) == [("enqueued", ONE, 4, 9)]
    assert led.fifo.ready.count == 4


def test_an_enqueue_without_a_number_uses_its_numbers_up_too() -> None:
    led = Led()
    assert led.apply(Enqueue(TWO, 1, 2)) == [("enqueued", TWO, 1, 1), ("enqueued", TWO, 2, 2)]
    rows = led.apply(Enqueue(TWO, 2, 2))
    assert rows == [
        ("unwanted", TWO, 3),
        ("unwanted", TWO, 4),
        ("known", TWO, 2),
        ("known", TWO, 3),
    ]
    assert led.apply(Enqueue(TWO, 4, 1)) == [("unwanted", TWO, 5), ("resend", TWO, 3)]
    assert led.fifo.next_seq == 6


def test_a_leader_numbers_from_its_term_on() -> None:
    led = Led()
    led.publish(2)
    led.apply(Leads(3))
    assert led.publish(1) == [("enqueued", ONE, 3, 3 << 40 | 1)]
    led.apply(Leads(4))
    assert led.fifo.next_seq == 4 << 40 | 1


def test_a_session_that_ended_is_not_known_and_may_begin_anew() -> None:
    led = Led()
    led.publish(2)
    rows = led.apply(led.wrap(EndSession(ONE)))
    assert rows == [("applied", ONE, 2)]
    assert led.resume([]) == (0, 0, [])
    assert led.apply(Numbered(ONE, 3, 0, Inspect(ONE))) == [("resend", ONE, 1)]
    assert led.apply(Numbered(ONE, 1, 0, Enqueue(ONE, 9, 1)))[0] == ("enqueued", ONE, 9, 3)


# What a session resumes with


def test_deliveries_that_were_not_seen_are_told_again_as_they_were() -> None:
    led = Led()
    led.give(attach(ONE, 1, 2), attach(ONE, 2, 2))
    led.publish(5)
    told = led.resume([(1, 2), (2, 1)])[2]
    key, other = consumer_key(ONE, 1), consumer_key(ONE, 2)
    assert told == [
        ("delivers", other, 1, 2, False, 0),
        ("delivers", key, 2, 3, False, 0),
        ("delivers", other, 2, 4, False, 0),
    ]
    assert not led.fifo.redelivered.count


def test_deliveries_are_told_again_in_the_order_in_which_they_were_made() -> None:
    led = Led()
    led.give(attach(ONE, 1, 2), attach(ONE, 2, 2))
    for _ in range(4):
        led.publish(1)
    told = led.resume([(1, 1), (2, 1)])[2]
    assert [row[3] for row in told] == [1, 2, 3, 4]
    assert [row[1] for row in told] == [consumer_key(ONE, number) for number in (1, 2, 1, 2)]


def test_what_was_settled_in_the_meantime_is_not_told_again() -> None:
    led = Led()
    led.publish(5)
    led.give(attach(ONE, 1, 5))
    led.give(Settle(KEY, ACCEPT, [(2, 1), (4, 1)]))
    assert [row[2:4] for row in led.resume([(1, 1)])[2]] == [(1, 1), (3, 3), (5, 5)]


def test_a_message_that_comes_again_has_the_flag_and_the_number_of_that_time() -> None:
    led = Led(Options(counts_deliveries=True))
    led.publish(1)
    led.give(attach(ONE, 1, 1))
    led.give(Settle(KEY, FAIL, [(1, 1)]))
    (row,) = led.resume([(1, 2)])[2]
    assert row == ("delivers", KEY, 2, 1, True, 1 << 32 | 1)


def test_only_an_answer_that_is_waited_for_is_told_again() -> None:
    led = Led()
    led.publish(1)
    led.give(Get(ONE))
    assert led.resume([], asked=0)[2] == []
    assert led.resume([], asked=1)[2] == []
    assert led.resume([], asked=2)[2] == [("got", ONE, 1, False, 0, 0)]
    led.give(Inspect(ONE))
    assert led.resume([], asked=2)[2] == []
    assert led.resume([], asked=3)[2] == [("inspected", ONE, 0, 0)]


def test_a_message_that_was_got_and_taken_back_is_none() -> None:
    led = Led(Options(consumer_timeout_ms=100))
    led.publish(2)
    led.give(Get(ONE))
    for _ in range(3):
        led.now_ms += 100
        led.apply(Tick())
    assert led.resume([], asked=2)[2] == [("got", ONE, 0, False, 2, 0)]


def test_a_consumer_that_was_let_in_hears_of_it_before_its_deliveries() -> None:
    led = Led()
    led.publish(1)
    led.give(attach(ONE, 1, 1))
    told = led.resume([(1, 1)], asked=2)[2]
    assert [row[0] for row in told] == ["attached", "delivers"]


def test_a_consumer_that_left_hears_of_it_behind_its_deliveries() -> None:
    led = Led()
    led.publish(1)
    led.give(attach(ONE, 1, 1))
    led.give(Detach(KEY))
    told = led.resume([(1, 1)], asked=3)[2]
    assert [row[0] for row in told] == ["delivers", "detached"]


def test_a_consumer_that_nobody_knows_was_timed_out_unless_the_answer_says_why() -> None:
    led = Led()
    led.give(attach(ONE, 1, 1), Detach(KEY))
    assert led.resume([(1, 1)], asked=2)[2] == [("detached", KEY)]
    assert led.resume([(1, 1)])[2] == [("timed out", KEY, -1)]


def test_who_is_active_is_told_again() -> None:
    led = Led(Options(single_active=True))
    led.give(attach(ONE, 1, 1), attach(ONE, 2, 1))
    key, other = consumer_key(ONE, 1), consumer_key(ONE, 2)
    told = led.resume([(1, 1), (2, 1)])[2]
    assert told == [("activated", key, True), ("activated", other, False)]


def test_refused_publishes_are_refused_again_until_the_session_knows() -> None:
    led = Led(Options(length_max=2, overflow=REJECT_PUBLISH))
    led.publish(4)
    refused = [("refused publish", ONE, 3), ("refused publish", ONE, 4)]
    assert led.resume([]) == (1, 4, refused)
    assert led.resume([], known=3)[2] == [("refused publish", ONE, 4)]
    led.apply(led.wrap(Enqueue(ONE, 5, 1), confirmed=4))
    assert led.resume([], known=4)[2] == [("refused publish", ONE, 5)]
    assert led.resume([])[2] == [("refused publish", ONE, 5)]


def test_a_drain_of_a_consumer_that_is_gone_is_answered() -> None:
    led = Led()
    assert led.give(Credit(KEY, 0, 5, True, False)) == [("drained", KEY, 0)]


# A queue that is about to go


@pytest.mark.parametrize("led", [True, False])
def test_a_queue_that_is_not_empty_or_in_use_does_not_retire(led: bool) -> None:
    fifo = Fifo()
    if led:
        fifo.begin_streams()
    fifo.apply([Enqueue(ONE, 1, 1), attach(TWO, 1, 0)], 1)
    for if_empty, if_unused in ((True, False), (False, True), (True, True)):
        rows = spread(fifo.apply([Retire(ONE, False, if_empty, if_unused)], 1))
        assert rows == [("inspected", ONE, 1, 1)]
        assert not fifo.retired


@pytest.mark.parametrize("overflow", [DROP_HEAD, REJECT_PUBLISH])
def test_a_queue_that_has_retired_refuses_what_comes_until_it_is_called_off(overflow: int) -> None:
    led = Led(Options(overflow=overflow))
    assert led.give(Retire(ONE, False, True, True)) == [("inspected", ONE, 0, 0)]
    assert led.publish(1) == [
        ("refused publish", ONE, 1),
        ("enqueued", ONE, 1, 1),
        ("left", 1, LEFT_REFUSED),
    ]
    assert led.resume([])[2] == [("refused publish", ONE, 1)]
    led.give(Retire(ONE, True))
    assert led.publish(1) == [("enqueued", ONE, 2, 2)]
    assert led.fifo.ready.count == 1


def test_the_end_of_the_session_that_retired_a_queue_calls_it_off() -> None:
    led = Led()
    led.give(Retire(TWO))
    assert led.publish(1)[0] == ("refused publish", ONE, 1)
    copy = copy_of(led.fifo)
    assert copy.retired
    led.apply(led.wrap(EndSession(TWO)))
    assert led.publish(1) == [("enqueued", ONE, 2, 2)]


# Processes that cannot be reached, or are gone


def test_a_process_that_cannot_be_reached_gets_nothing_new_and_keeps_what_it_has() -> None:
    led = Led()
    led.give(attach(ONE, 1, 1), attach(OTHER, 1, 5))
    led.apply(Suspend(7, 60_000))
    led.publish(2, TWO)
    assert led.fifo.roster.consumers[KEY].held.count == 0
    assert led.fifo.roster.consumers[consumer_key(OTHER, 1)].held.count == 2
    led.publish(5, TWO)
    assert led.apply(Unsuspend(7)) == [("delivers", KEY, 1, 6, False, 0)]


def test_after_a_while_what_it_holds_is_ready_again_and_it_is_out() -> None:
    led = Led(Options(counts_deliveries=True))
    led.give(attach(ONE, 1, 2), attach(ONE, 2, 2))
    led.publish(2, TWO)
    led.apply(Suspend(7, 60_000))
    led.now_ms += 59_999
    assert led.apply(Tick()) == []
    assert led.fifo.due_ms <= led.now_ms + 1
    led.now_ms += 1
    assert led.apply(Tick()) == [
        ("timed out", KEY, -1),
        ("timed out", consumer_key(ONE, 2), -1),
        ("last consumer gone",),
    ]
    assert led.fifo.ready.count == 2
    assert seqs_of(led.fifo.redelivered.runs()) == [1, 2]
    assert led.resume([(1, 2)])[2] == [("timed out", KEY, -1)]


def tries_after(led: Led, *commands: Command) -> tuple[int, int]:
    """Acquired and failed deliveries of the one message, after those commands and 60 s."""
    led.give(attach(ONE, 1, 1))
    led.publish(1, OTHER)
    led.apply(*commands)
    led.now_ms += 60_000
    led.apply(Tick())
    assert led.fifo.ready.count == 1
    return led.fifo.attempts.get(1) >> 32, led.fifo.attempts.get(1) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("command", "failed"),
    [
        (Suspend(7, 60_000), 0),
        (EndProcess(7, is_cut_off=True), 0),
        (EndProcess(7), 1),
        (EndSession(ONE, is_cut_off=True), 0),
        (EndSession(ONE), 1),
    ],
    ids=["suspended", "process given up", "process ended", "session cut off", "session ended"],
)
@pytest.mark.parametrize("counts_returns", [False, True])
def test_what_a_node_held_that_cannot_be_reached_was_acquired_and_has_not_failed(
    command: Command, failed: int, counts_returns: bool
) -> None:
    led = Led(Options(counts_deliveries=True, delays=True, counts_returns=counts_returns))
    if isinstance(command, EndSession):
        led.numbers[ONE] = 0
    assert tries_after(led, command) == (1, failed)


def test_partitions_do_not_use_up_the_delivery_limit() -> None:
    led = Led(Options(counts_deliveries=True, delivery_limit=1))
    led.publish(1, OTHER)
    for number in range(1, 4):
        led.give(attach(ONE, number, 1))
        led.apply(Suspend(7, 100))
        led.now_ms += 100
        led.apply(Tick())
        led.apply(Unsuspend(7))
        assert led.fifo.ready.count == 1


def test_a_consumer_that_holds_nothing_waits_until_its_process_is_there_again() -> None:
    led = Led()
    led.give(attach(ONE, 1, 2))
    led.apply(Suspend(7, 60_000))
    led.now_ms += 60_000
    led.publish(1, OTHER)
    assert led.apply(Unsuspend(7)) == [("delivers", KEY, 1, 1, False, 0)]


def test_what_was_got_goes_back_as_well_and_its_holder_is_forgotten() -> None:
    led = Led()
    led.publish(1, OTHER)
    led.give(Get(ONE))
    led.apply(Suspend(7, 10))
    led.now_ms += 10
    led.apply(Tick())
    assert led.fifo.ready.count == 1
    assert not led.fifo.consumers


def test_another_consumer_is_active_when_the_active_one_cannot_be_reached() -> None:
    led = Led(Options(single_active=True))
    other = consumer_key(OTHER, 1)
    led.publish(1, OTHER)
    led.give(attach(ONE, 1, 1), attach(OTHER, 1, 1))
    assert led.apply(Suspend(7, 100)) == [("activated", KEY, False), ("activated", other, True)]
    assert led.apply(Unsuspend(7)) == []
    assert led.fifo.roster.active_key == other


def test_a_consumer_that_comes_while_its_process_is_suspended_gets_nothing_yet() -> None:
    led = Led()
    led.publish(1, OTHER)
    led.apply(Suspend(7, 100))
    assert led.give(attach(ONE, 1, 1)) == [("attached", KEY)]
    assert [row[0] for row in led.apply(Unsuspend(7))] == ["delivers"]


def test_the_end_of_a_process_ends_its_sessions_and_what_was_under_way_is_nothing() -> None:
    led = Led()
    led.publish(3, OTHER)
    led.give(attach(ONE, 1, 2), Get(TWO))
    over = [row for row in led.apply(EndProcess(7)) if row[0] == "session over"]
    assert over == [("session over", ONE), ("session over", TWO)]
    assert led.fifo.ready.count == 3
    assert led.fifo.redelivered.count == 3
    assert led.resume([]) == (0, 0, [])
    before = encode_fifo(led.fifo)
    assert led.apply(Numbered(SESSIONS[2], 1, 0, attach(SESSIONS[2], 1, 1))) == []
    assert encode_fifo(led.fifo) == before
    assert led.publish(1, OTHER)[0][0] == "enqueued"


# Dead letters that are kept until they are safe


def test_what_dies_is_kept_until_it_is_buried() -> None:
    led = Led(Options(keeps_dead=True, ttl_ms=1000))
    led.publish(4)
    led.give(attach(ONE, 1, 1))
    effects = led.fifo.apply([led.wrap(Settle(KEY, 2, [(1, 1)]))], led.now_ms)
    pending_dead_letters = [
        (each.first, each.count, each.reason)
        for each in effects
        if isinstance(each, DeadLettersPending)
    ]
    assert pending_dead_letters == [(1, 1, LEFT_REJECTED)]
    assert led.fifo.pending_dead_letters.runs() == [(1, 1, LEFT_REJECTED)]
    assert (1, 1) in led.fifo.alive_within(1, 10)
    assert (1, 1) not in led.fifo.queue_within(1, 10)
    assert led.apply(ReleaseDeadLetters([(1, 2), (9, 1)])) == [("left", 1, LEFT_BURIED)]
    assert led.apply(ReleaseDeadLetters([(1, 1)])) == []
    assert led.fifo.pending_dead_letters.count == 0


def test_messages_whose_bodies_are_lost_leave_without_being_dead_lettered() -> None:
    led = Led(Options(keeps_dead=True, dead_letters=True))
    led.publish(4)
    led.give(attach(ONE, 1, 1))
    led.give(EndSession(ONE))
    assert led.apply(DropLost([(1, 2), (9, 1)])) == [
        ("left", 1, LEFT_PURGED),
        ("left", 2, LEFT_PURGED),
    ]
    assert led.fifo.queue_within(1, 10) == [(3, 2)]
    assert led.apply(DropLost([(1, 2)])) == []


def test_messages_that_have_expired_and_whose_bodies_are_lost_are_not_dead_lettered() -> None:
    led = Led(Options(ttl_ms=1000, dead_letters=True))
    led.publish(4)
    led.now_ms += 1000
    assert led.apply(DropLost([(1, 3)])) == [
        ("left", 4, LEFT_EXPIRED),
        ("left", 1, LEFT_PURGED),
        ("left", 2, LEFT_PURGED),
        ("left", 3, LEFT_PURGED),
    ]


# Snapshots


def copy_of(fifo: Fifo, small: int = SMALL) -> Fifo:
    made = Fifo(fifo.options)
    made.begin_streams()
    decode_fifo(made, encode_fifo(fifo, small))
    return made


def test_a_snapshot_of_version_2_is_read_and_has_no_streams() -> None:
    plain = Fifo()
    plain.apply([Enqueue(ONE, 1, 3), attach(TWO, 1, 2)], 1)
    fields = msgspec.msgpack.decode(encode_fifo(plain))
    fields[0] = 2
    fields[9] = [each[:10] for each in fields[9]]
    made = Fifo()
    made.begin_streams()
    decode_fifo(made, msgspec.msgpack.encode(fields[:25]))
    assert made.streams is not None
    assert not made.streams.by_session
    assert made.checked_out == 2


def wrong_fields() -> list[tuple[str, int, object]]:
    """A part of the state, the place in it, and what no machine has there."""
    return [
        ("rows", 0, [(1, 1, 1, 1, False, 0)]),
        ("rows", 0, [(2, 1, 1, 2, False, 0), (1, 3, 3, 1, False, 0)]),
        ("rows", 0, [(99, 1, 1, 3, False, 0)]),
        ("rows", 0, [(1, 7, 1, 3, False, 0)]),
        ("led", 0, -1),
        ("led", 1, [(b"short", 1, 0, 0, (0, 0, 0, 0, 0), [])]),
        ("led", 1, [(bytes(16), 0, 1, 0, (0, 0, 0, 0, 0), [])]),
        ("led", 1, [(bytes(16), 2, 3, 0, (0, 0, 0, 0, 0), [])]),
        ("led", 1, [(bytes(16), 2, 1, 0, (9, 0, 0, 0, 0), [])]),
        ("led", 1, [(bytes(16), 2, 1, 0, (0, 0, 0, 0, 0), [(5, 1), (2, 1)])]),
        ("led", 2, [(b"short", 1)]),
        ("led", 3, [b"short"]),
        ("dying", 0, [(1, 1, 2)]),
        ("dying", 0, [(9, 1, 77)]),
        ("retired", 0, b"short"),
    ]


@pytest.mark.parametrize(("part", "place", "value"), wrong_fields())
def test_a_snapshot_that_no_machine_wrote_is_refused(part: str, place: int, value: object) -> None:
    led = Led()
    led.publish(9)
    led.give(attach(ONE, 1, 3))
    fields = msgspec.msgpack.decode(encode_fifo(led.fifo))
    if part == "rows":
        fields[9][0][11] = value
    elif part == "led":
        fields[27][place] = value
    elif part == "retired":
        fields[25] = value
    else:
        fields[26] = value
    with pytest.raises(BadSnapshot):
        decode_fifo(Fifo(), msgspec.msgpack.encode(fields))


# Against the naive machine


class Numbering:
    """Wraps what sessions give; at times something comes a second time, or too early."""

    def __init__(self, seed: int, naive: NaiveFifo) -> None:
        self._random = Random(seed)
        self._naive = naive
        self._numbers: dict[SessionId, int] = {}
        self._last: dict[SessionId, Numbered] = {}
        self.published: dict[SessionId, int] = {}

    def given(self, command: Command) -> tuple[list[Command], list[Command]]:
        """What the naive machine is given, and what the other one is."""
        session = session_named(command)
        if isinstance(command, Restarted):
            self._numbers.clear()
            self._last.clear()
            self.published.clear()
        if session == 0 or isinstance(command, Restarted):
            return [command], [command]
        if isinstance(command, Enqueue):
            first = self.published.get(session, 0) + 1
            self.published[session] = first + command.count - 1
            command = Enqueue(session, first, command.count, command.traits)
        number = self._numbers.get(session, 0) + 1
        numbered = Numbered(session, number, 0, command)
        sent: list[Command] = [numbered]
        draw = self._random.random()
        if draw < 0.15 and not isinstance(command, Enqueue):
            sent.insert(0, Numbered(session, number + 1, 0, Detach(consumer_key(session, 1))))
        elif draw < 0.3 and session in self._last:
            if not isinstance(self._last[session].command, Enqueue):
                sent.insert(0, self._last[session])
        elif draw < 0.4 and not isinstance(command, Enqueue | EndSession):
            sent.append(numbered)
        self._numbers[session] = number
        self._last[session] = numbered
        if isinstance(command, EndSession):
            for table in (self._numbers, self._last, self.published):
                table.pop(session, None)
        return [command], sent


EXTRA = ("applied", "resend", "unwanted")


def settled_rows(fifo: Fifo, commands: list[Command], now_ms: int) -> list[Row]:
    rows = spread(fifo.apply(commands, now_ms))
    for _ in range(50):
        if not fifo.has_more():
            return [row for row in rows if row[0] not in EXTRA]
        rows += spread(fifo.apply([], now_ms))
    raise AssertionError("the machine never comes to rest")


def check_rows(fifo: Fifo) -> None:
    """Rows are what is held, in the order of their numbers."""
    for key, consumer in fifo.consumers.items():
        if key & 0xFFFFFFFF == 0:
            continue
        assert consumer.rows is not None
        rows = consumer.rows.rows
        named = sorted(seq for row in rows for seq in range(row.first, row.first + row.count))
        assert named == seqs_of(consumer.held.runs())
        numbers = [
            number
            for row in rows
            for number in range(row.delivery_seq, row.delivery_seq + row.count)
        ]
        assert numbers == sorted(set(numbers))
        assert all(number <= consumer.delivery_count for number in numbers)
        orders = [row.order for row in rows]
        assert orders == sorted(orders)


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_with_numbers_and_snapshots_on_the_way_it_does_what_the_rules_say(start: int) -> None:
    for seed in range(start, start + 40):
        options, batches = story_of(seed)
        try:
            run_led(seed, options, batches)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def run_led(seed: int, options: Options, batches: list[Batch]) -> None:
    fifo, naive = Fifo(options), NaiveFifo(options)
    fifo.begin_streams()
    script = Script(naive)
    numbering = Numbering(seed, naive)
    lots = Random(seed)
    now_ms = 1_000_000
    for leap, steps in batches:
        now_ms += leap
        plain: list[Command] = []
        sent: list[Command] = []
        for step in steps:
            one, other = numbering.given(script.command(step))
            plain += one
            sent += other
        rows, expected = settled_rows(fifo, sent, now_ms), naive.apply(plain, now_ms)
        expected = [row for row in expected if row[0] != "drained"]
        rows = [row for row in rows if row[0] != "drained"]
        assert in_place(rows) == in_place(expected)
        assert leavers(rows) == leavers(expected)
        check_alike(fifo, naive)
        check_laws(fifo)
        check_rows(fifo)
        if lots.random() < 0.1:
            copy = copy_of(fifo, lots.choice((0, SMALL)))
            assert machine_state(copy) == machine_state(fifo)
            fifo = copy


def test_a_copy_answers_whoever_resumes_as_the_machine_does() -> None:
    for seed in range(30):
        options, batches = story_of(seed)
        fifo, naive = Fifo(options), NaiveFifo(options)
        fifo.begin_streams()
        script, numbering = Script(naive), Numbering(seed, naive)
        for place, (leap, steps) in enumerate(batches):
            for step in steps:
                one, other = numbering.given(script.command(step))
                naive.apply(one, 1_000 * place + leap)
                fifo.apply(other, 1_000 * place + leap)
        for session in SESSIONS:
            keys = [key for key in fifo.consumers if key >> 32 == session and key & 0xFFFFFFFF]
            wanted = [(key & 0xFFFFFFFF, 1 + key % 3) for key in keys]
            told = [resumed_rows(each, session, wanted) for each in (fifo, copy_of(fifo))]
            assert told[0] == told[1]


def resumed_rows(
    fifo: Fifo, session: SessionId, wanted: list[tuple[int, int]]
) -> tuple[int, int, list[Row]]:
    streams = fifo.streams
    assert streams is not None
    stream = streams.by_session.get(session)
    asked = 0 if stream is None else stream.asked
    resumed: Resumed = fifo.resume(Resume(session, asked, 0, wanted))
    return resumed.number, resumed.published, spread(resumed.effects)


def test_what_is_said_to_be_applied_is_said_once_for_each_session_and_last() -> None:
    led = Led()
    commands: list[Command] = [led.wrap(Inspect(ONE)), led.wrap(Get(TWO)), led.wrap(Purge(ONE))]
    effects: list[Effect] = led.fifo.apply(commands, 1)
    last = [(each.session, each.number) for each in effects[-2:] if isinstance(each, Applied)]
    assert last == [(ONE, 2), (TWO, 1)]
    assert not any(isinstance(each, Unwanted) for each in effects)


def test_released_messages_get_rows_anew() -> None:
    led = Led()
    led.publish(2)
    led.give(attach(ONE, 1, 1), attach(ONE, 2, 1))
    led.give(Settle(consumer_key(ONE, 2), RELEASE, [(1, 1)]))
    keys: list[ConsumerKey] = [consumer_key(ONE, number) for number in (1, 2)]
    assert [seqs_of(led.fifo.consumers[key].held.runs()) for key in keys] == [[1], [2]]
    check_rows(led.fifo)


def test_what_is_dying_counts_for_the_limit_on_bytes_and_not_for_the_length() -> None:
    options = Options(keeps_dead=True, bytes_max=100, length_max=5, overflow=REJECT_PUBLISH)
    led = Led(options)
    sizes = (40).to_bytes(4, "little")
    led.give(attach(ONE, 1, 9))
    led.give(Enqueue(ONE, 1, 2, Traits(-1, -1, None, None, 2 * sizes)))
    led.give(Settle(KEY, REJECT, [(1, 2)]))
    assert (led.fifo.pending_dead_letters.count, led.fifo.pending_dead_letters.bytes) == (2, 80)
    told = led.give(Enqueue(ONE, 3, 1, Traits(-1, -1, None, None, sizes)))
    assert ("refused publish", ONE, 3) in told
    copy = Fifo(options)
    decode_fifo(copy, encode_fifo(led.fifo))
    assert encode_fifo(copy) == encode_fifo(led.fifo)
    assert copy.notes.pending_dead_letter_bytes == 80
    led.apply(ReleaseDeadLetters([(1, 1)]))
    told = led.give(Enqueue(ONE, 4, 1, Traits(-1, -1, None, None, sizes)))
    assert ("refused publish", ONE, 4) not in told
