"""Messages that were given back and are not to be delivered again before their time.

Owned by the machine: what is here is in the queue, in its length and bytes, and neither ready nor
with a consumer. It becomes ready at its old place, late by at most 1/1000 of its delay or a few
milliseconds, and never early. What expires, is dropped or purged meanwhile leaves from here.

How long a message waits: until the delivery time that its consumer named (`x-opt-delivery-time`),
or else, if the queue delays that kind of return, its least delay times the failed deliveries that
it has had, at most the greatest delay. The functions are of `queues.machine.fifo.Fifo`; a queue
that has
delayed nothing yet has no `Delays`. Compiled.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from queues.machine.annotations import decode_words
from queues.machine.commands import FAIL
from queues.machine.effects import ACQUIRED_SHIFT, LEFT_MAXLEN
from queues.machine.expiry import Calendar
from queues.machine.leaving import begin_leave
from queues.machine.options import DELAY_FAILED, DELAY_MS_MAX, DELAY_NONE, DELAY_RETURNED
from queues.runs.seqset import SeqSet

if TYPE_CHECKING:
    from queues.machine.fifo import Fifo

DELIVERY_TIME: Final = b"x-opt-delivery-time"
DUE_SLICE: Final = 2048  # entries of the calendar looked at in one batch
FAILED_MASK: Final = (1 << ACQUIRED_SHIFT) - 1
FAILED_MAX: Final = 1 << 20  # more failures than these count as these
TIMESTAMP: Final = 0x83  # as AMQP 1.0 encodes them: 8 bytes follow
ULONG: Final = 0x80
LONG: Final = 0x81


@final
class Delays:
    """Invariant: each of `seqs` is in the calendar, once; what is there beside
    them is gone."""

    def __init__(self) -> None:
        self.seqs = SeqSet()
        self.calendar = Calendar()


def delivery_time(words: bytes) -> i64:
    """When the message is to be delivered, by what its consumer has noted; 0: whenever."""
    if DELIVERY_TIME not in words:
        return 0
    value = decode_words(words).get(DELIVERY_TIME, b"")
    if len(value) != 9 or value[0] not in (TIMESTAMP, ULONG, LONG):
        return 0
    time_ms = int.from_bytes(value[1:], "big", signed=True)
    return time_ms if 0 < time_ms < 1 << 62 else 0


def oldest_of(delays: Delays | None, than: i64) -> i64:
    """The lowest message_seq that waits, or `than` if that is lower; 0 there: none."""
    if delays is None or delays.seqs.count == 0:
        return than
    first = delays.seqs.first()
    return first if than == 0 else min(first, than)


def delays_it(machine: "Fifo", seq: i64, outcome: i64, tries: i64) -> bool:
    """A message is given back: have it wait, if it is to."""
    due_ms = due_of(machine, outcome, tries)
    if due_ms <= machine.now_ms:
        return False
    delay(machine, seq, due_ms)
    return True


def due_of(machine: "Fifo", outcome: i64, tries: i64) -> i64:
    """When a message that is given back now is to be ready; 0: at once."""
    options = machine.options
    now_ms = machine.now_ms
    if machine.deliver_at_ms > 0:
        return min(machine.deliver_at_ms, now_ms + DELAY_MS_MAX)
    kind = options.delay_type
    has_failed = outcome == FAIL
    if kind == DELAY_NONE or kind == (DELAY_RETURNED if has_failed else DELAY_FAILED):
        return 0
    wait_ms = options.delay_min_ms * min(max(tries & FAILED_MASK, 1), FAILED_MAX)
    if options.delay_max_ms >= 0:
        wait_ms = min(wait_ms, options.delay_max_ms)
    return now_ms + min(wait_ms, DELAY_MS_MAX)


def delay(machine: "Fifo", seq: i64, due_ms: i64) -> None:
    """A message that was given back waits until then."""
    delays = machine.delays
    if delays is None:
        delays = Delays()
        machine.delays = delays
    delays.seqs.add(seq, 1)
    machine.due_by(delays.calendar.add(seq, 1, machine.now_ms, due_ms - machine.now_ms))
    machine.notes.stands_beside(seq, 1)


def take_out(machine: "Fifo", delays: Delays, first: i64, count: i64) -> list[tuple[int, int]]:
    """Those of these messages that wait do so no more; their runs."""
    found = delays.seqs.remove(first, count)
    for run_first, run_count in found:
        machine.notes.stands_no_more(run_first, run_count)
    return found


def end_delays(machine: "Fifo", delays: Delays) -> None:
    """What is due is ready again; a slice of it."""
    for first, count in delays.calendar.take_due(machine.now_ms, DUE_SLICE):
        for run_first, run_count in take_out(machine, delays, first, count):
            at: i64 = run_first
            end = at + run_count
            while at < end:
                level, run = machine.notes.level_run(at, end - at)
                machine.notes.put_back(at, run, level)
                at += run
    if delays.calendar.wants_sweep(delays.seqs.count):
        delays.calendar.sweep(delays.seqs.within, DUE_SLICE)
        machine.due_by(machine.now_ms)
    machine.due_by(delays.calendar.next_due_ms())


def drops_delayed(machine: "Fifo") -> bool:
    """The queue is over its limits. The oldest that waits goes, if what is next to be dropped of
    what is ready came later."""
    delays = machine.delays
    if delays is None or delays.seqs.count == 0:
        return False
    first = delays.seqs.first()
    if machine.ready.count > 0 and machine.ready.lowest_lane().first() < first:
        return False
    take_out(machine, delays, first, 1)
    begin_leave(machine.leaving, first, 1, LEFT_MAXLEN)
    return True


def take_delayed(machine: "Fifo") -> list[SeqSet]:
    """All that waits, for a purge."""
    delays = machine.delays
    machine.delays = None
    if delays is None or delays.seqs.count == 0:
        return []
    machine.notes.count_beside(SeqSet())
    return [delays.seqs]


def expired_below(machine: "Fifo", delays: Delays, boundary: i64) -> SeqSet:
    """What waits and is below that number has lived for the queue's TTL."""
    parts = delays.seqs.split_below(boundary)
    for first, count in parts.runs():
        machine.notes.stands_no_more(first, count)
    return parts
