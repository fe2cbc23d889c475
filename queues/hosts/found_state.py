"""What a recovery has found of one queue, until the queue takes it. Compiled."""

from typing import final

from mypy_extensions import i64

from queues.bodies.extents import Columns
from queues.machine.delays import Delays
from queues.machine.fifo import Fifo
from queues.machine.leaving import leave_replaced
from queues.machine.traits import Traits
from warren.wire.buffer import read_i32_le, read_i64_le


@final
class Found:
    """Messages that a recovery has found alive; they are `index`.. of their record."""

    def __init__(
        self,
        first: i64,
        count: i64,
        index: i64,
        traits: Traits | None,
        arrived_ms: i64,
        kept: bool,
    ) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.index: i64 = index
        self.traits = traits
        self.arrived_ms: i64 = arrived_ms
        self.kept = kept  # False: a transient message of a lazy queue, gone with the restart


def note_stretch(known: list[Found], columns: Columns, first: i64, kept: bool, timed: bool) -> None:
    """Add records of which nothing is known but their messages and when they came."""
    records: i64 = len(columns.counts) // 4
    place: i64 = 0
    while place < records:
        arrived_ms = i64(read_i64_le(columns.arrivals, 8 * place))
        count = i64(read_i32_le(columns.counts, 4 * place))
        place += 1
        while place < records:
            following_ms = i64(read_i64_le(columns.arrivals, 8 * place))
            if timed and following_ms != arrived_ms:
                break
            arrived_ms = max(arrived_ms, following_ms)
            count += i64(read_i32_le(columns.counts, 4 * place))
            place += 1
        note_found(known, Found(first, count, 0, None, arrived_ms, kept), timed)
        first += count


def note_found(known: list[Found], found: Found, timed: bool) -> None:
    """Add to what is known, as one with the last if nothing tells them apart.

    `timed`: the queue wants to know when each message came.
    """
    if len(known) > 0:
        last = known[len(known) - 1]
        plain = last.traits is None and found.traits is None and last.kept == found.kept
        follows = last.first + last.count == found.first
        if plain and follows and (not timed or last.arrived_ms == found.arrived_ms):
            last.count += found.count
            last.arrived_ms = max(last.arrived_ms, found.arrived_ms)
            return
    known.append(found)


def found_digests(machine: Fifo, seq: i64, key: bytes, digest: bytes, group: i64) -> None:
    """Message `seq` was read: digests of its key and its id, zeros for none, and the number of its
    group. Called for messages in ascending order; what is replaced leaves with the next batch."""
    if len(machine.queue_within(seq, 1)) == 0:
        return  # It has left since.
    last_values, known = machine.last_values, machine.known_ids
    if machine.ready.groups is not None:
        machine.ready.groups.found(seq, group)
    if last_values is not None:
        old = last_values.found(seq, key)
        if old > 0:
            leave_replaced(machine.leaving, machine.notes, machine.delays, old)
    if known is not None and not known.knows(digest, 0):
        known.remember(digest, 0, seq)


def found_delay(machine: Fifo, seq: i64, due_ms: i64, tries: i64) -> None:
    """The log says that this message had so many attempts, and was to wait until then."""
    if not machine.counts or len(machine.ready.within(seq, 1)) == 0:
        return  # It has left, or the queue delays no message any more.
    machine.attempts.put(seq, tries)
    if due_ms <= machine.now_ms:
        return
    if machine.delays is None:
        machine.delays = Delays(machine.notes)
    machine.notes.taken(seq, 1)
    machine.ready.remove(seq, 1)
    machine.due_by(machine.delays.add(seq, machine.now_ms, due_ms))
