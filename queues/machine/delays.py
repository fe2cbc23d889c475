"""Messages that were given back and are not to be delivered again before their time.

Owned by the machine: what is here is in the queue, in its length and bytes, and neither ready nor
with a consumer. It becomes ready at its old place, late by at most 1/1000 of its delay or a few
milliseconds, and never early. What expires, is dropped or purged meanwhile leaves from here.

How long a message waits: until the delivery time that its consumer named (`x-opt-delivery-time`),
or else, if the queue delays that kind of return, its least delay times the failed deliveries that
it has had, at most the greatest delay; or its redelivery delay, which is multiplied with each
further delivery. A queue that has delayed nothing yet has no `Delays`.
Compiled.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.machine.address_settings import MILLI, AddressSettings
from queues.machine.annotations import decode_words
from queues.machine.commands import FAIL
from queues.machine.effects import ACQUIRED_SHIFT
from queues.machine.expiry import Calendar
from queues.machine.notes import Notes
from queues.machine.options import (
    DELAY_FAILED,
    DELAY_MS_MAX,
    DELAY_NONE,
    DELAY_RETURNED,
    Options,
)
from queues.runs.seqset import SeqSet

DELIVERY_TIME: Final = b"x-opt-delivery-time"
DUE_SLICE: Final = 2048  # entries of the calendar looked at in one batch
FAILED_MASK: Final = (1 << ACQUIRED_SHIFT) - 1
FAILED_MAX: Final = 1 << 20  # more failures than these count as these
MAX_FACTOR: Final = 10  # of the first delay: the greatest one where nothing else is said
STEPS_MAX: Final = 1000  # multiplications
TIMESTAMP: Final = 0x83  # as AMQP 1.0 encodes them: 8 bytes follow
ULONG: Final = 0x80
LONG: Final = 0x81

Delayed = tuple[int, int, int]  # message, when its wait ends, times acquired and failed


@final
class Delays:
    """Invariant: each of `seqs` is in the calendar, once; other entries of the calendar are void.
    The bytes of `seqs` are counted in the machine's notes."""

    def __init__(self, notes: Notes) -> None:
        self.seqs = SeqSet()
        self.calendar = Calendar()
        self._notes = notes
        self._fresh: list[Delayed] = []  # that the host has not taken

    def add(self, seq: i64, now_ms: i64, due_ms: i64) -> i64:
        """Keep a message that was given back until `due_ms`; return when to call `end_due`."""
        self.seqs.add(seq, 1)
        self._notes.stands_beside(seq, 1)
        return self.calendar.add(seq, 1, now_ms, due_ms - now_ms)

    def note_fresh(self, seq: i64, due_ms: i64, tries: i64) -> None:
        """The host is to log that this message waits."""
        self._fresh.append((seq, due_ms, tries))

    def take_fresh(self) -> list[Delayed]:
        """The messages that wait since the last call, in order."""
        fresh = self._fresh
        if len(fresh) > 0:
            self._fresh = []
        return fresh

    def remove(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Remove those of these messages that wait; return their runs."""
        found = self.seqs.remove(first, count)
        for run_first, run_count in found:
            self._notes.stands_no_more(run_first, run_count)
        return found

    def split_below(self, boundary: i64) -> SeqSet:
        """Remove and return all that wait and are below that number."""
        parts = self.seqs.split_below(boundary)
        for first, count in parts.runs():
            self._notes.stands_no_more(first, count)
        return parts

    def end_due(self, now_ms: i64) -> i64:
        """Make a slice of what is due ready again; return when to call this next."""
        for first, count in self.calendar.take_due(now_ms, DUE_SLICE):
            for run_first, run_count in self.remove(first, count):
                at: i64 = run_first
                end = at + run_count
                while at < end:
                    level, run = self._notes.level_run(at, end - at)
                    self._notes.put_back(at, run, level)
                    at += run
        if not self.calendar.wants_sweep(self.seqs.count):
            return self.calendar.next_due_ms()
        self.calendar.sweep(self.seqs.within, DUE_SLICE)
        return min(now_ms, self.calendar.next_due_ms())


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


def wait_ms(options: Options, outcome: i64, seq: i64, tries: i64) -> i64:
    """How long a message that is given back now waits by the options of the queue; 0: not."""
    address = options.address
    late_ms: i64 = 0
    if address is not None and address.redelivery_ms > 0:
        late_ms = redelivery_wait_ms(address, seq, tries >> ACQUIRED_SHIFT)
    return max(late_ms, retry_wait_ms(options, outcome, tries))


def redelivery_wait_ms(address: AddressSettings, seq: i64, count: i64) -> i64:
    """How long a message waits for its `count`th redelivery by the address settings."""
    most_ms = address.redelivery_max_ms
    if most_ms < 0:
        most_ms = MAX_FACTOR * address.redelivery_ms
    most_ms = min(most_ms, DELAY_MS_MAX)
    delay_ms = min(address.redelivery_ms, most_ms)
    step: i64 = 1
    if address.redelivery_multiplier > MILLI:
        while step < min(count, STEPS_MAX) and delay_ms < most_ms:
            delay_ms = delay_ms * address.redelivery_multiplier // MILLI
            step += 1
    if address.redelivery_collision > 0:
        # Not random, because all members have to compute the same: mixed from the message's number.
        lot = ((seq & 0xFFFFFFFF) * 2654435761 + count * 40503 >> 8) & 0xFFFF
        width = min(delay_ms, most_ms) * address.redelivery_collision // MILLI
        delay_ms = min(delay_ms, most_ms) + width * (lot - 0x8000) // 0x8000
    return max(min(delay_ms, most_ms), 1)


def retry_wait_ms(options: Options, outcome: i64, tries: i64) -> i64:
    """The same by the options for delayed retries."""
    kind = options.delay_type
    has_failed = outcome == FAIL
    if kind == DELAY_NONE or kind == (DELAY_RETURNED if has_failed else DELAY_FAILED):
        return 0
    delay_ms = options.delay_min_ms * min(max(tries & FAILED_MASK, 1), FAILED_MAX)
    if options.delay_max_ms >= 0:
        delay_ms = min(delay_ms, options.delay_max_ms)
    return min(delay_ms, DELAY_MS_MAX)
