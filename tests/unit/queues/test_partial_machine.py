"""The machine of a mirror that was promoted without what came before the entries that it has."""

from queues.machine.commands import (
    ACCEPT,
    FAIL,
    REJECT,
    Attach,
    Command,
    DropLost,
    EndSession,
    Enqueue,
    Get,
    Leads,
    Numbered,
    Settle,
    Tick,
    consumer_key,
)
from queues.machine.effects import LEFT_PURGED
from queues.machine.fifo import Fifo
from queues.machine.options import REJECT_PUBLISH, Options
from tests.unit.queues.effect_rows import Row, spread
from tests.unit.queues.fifo_steps import SESSIONS
from tests.unit.queues.runs import seqs_of

ONE, TWO = SESSIONS[0], SESSIONS[1]
KEY = consumer_key(ONE, 1)  # attached before: the machine does not know it
FIRST = 1001  # number of the first message that it has


class Partial:
    """Session ONE has given 56 commands and published 100 messages before."""

    def __init__(self, options: Options | None = None) -> None:
        self.fifo = Fifo(options)
        self.fifo.begin_streams()
        self.fifo.next_seq = FIRST
        self.fifo.is_partial = True
        self.number = 56
        self.published = 100

    def give(self, command: Command) -> list[Row]:
        self.number += 1
        return spread(self.fifo.apply([Numbered(ONE, self.number, 0, command)], 1))

    def publish(self, count: int) -> None:
        self.give(Enqueue(ONE, self.published + 1, count))
        self.published += count

    def ready(self) -> list[int]:
        return seqs_of(self.fifo.ready.runs())

    def lead(self) -> list[Row]:
        commands = [Leads(3), EndSession(ONE), DropLost([])]
        return spread(self.fifo.apply(commands, 2))


def test_messages_of_a_session_that_began_before_are_taken() -> None:
    partial = Partial()
    partial.publish(2)
    partial.publish(1)
    partial.lead()
    assert partial.ready() == [FIRST, FIRST + 1, FIRST + 2]


def test_what_came_twice_is_taken_once() -> None:
    partial = Partial()
    partial.publish(2)
    again = Numbered(ONE, partial.number, 0, Enqueue(ONE, 101, 2))
    partial.fifo.apply([again], 1)
    partial.publish(1)
    assert partial.ready() == [FIRST, FIRST + 1, FIRST + 4]


def test_what_unknown_consumers_have_settled_does_not_come_again() -> None:
    partial = Partial()
    partial.publish(4)
    partial.give(Settle(KEY, ACCEPT, [(FIRST - 5, 2), (FIRST, 1)]))
    rows = partial.give(Settle(KEY, REJECT, [(FIRST + 1, 1)]))
    assert ("left", FIRST + 1, LEFT_PURGED) in rows, "its leader has dead-lettered it"
    partial.give(Settle(KEY, FAIL, [(FIRST + 2, 1)]))
    partial.lead()
    assert partial.ready() == [FIRST + 2, FIRST + 3]
    assert seqs_of(partial.fifo.redelivered.runs()) == [FIRST + 2, FIRST + 3]


def test_nobody_is_served_before_it_leads() -> None:
    """The leader of that time may have given the same messages to others."""
    partial = Partial()
    partial.publish(2)
    partial.give(Attach(consumer_key(ONE, 2), 5, True, False, 0))
    partial.give(Get(ONE))
    partial.give(Settle(consumer_key(ONE, 2), ACCEPT, [(FIRST + 1, 1)]))
    assert partial.ready() == [FIRST]
    assert partial.fifo.checked_out == 0
    partial.lead()
    assert partial.fifo.consumers == {}
    assert not partial.fifo.put_off
    commands = [
        Numbered(TWO, 1, 0, Attach(consumer_key(TWO, 1), 5, True, False, 0)),
        Tick(),
    ]
    rows = spread(partial.fifo.apply(commands, 3))
    assert [row for row in rows if row[0] == "delivers"]


def test_no_confirmed_message_is_refused() -> None:
    """Messages that consumers hold count as ready: it may seem fuller than the queue was."""
    partial = Partial(Options(length_max=2, overflow=REJECT_PUBLISH))
    partial.publish(3)
    assert partial.ready() == [FIRST, FIRST + 1, FIRST + 2]
