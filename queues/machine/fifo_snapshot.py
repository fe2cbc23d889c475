"""Snapshots of a queue machine, made and read piece by piece: what a log need not keep any more.

`Frozen` is a machine as it was at one moment; `take` gives the next piece of its bytes while the
machine goes on, and `close` ends that. `Thawing` takes the pieces, cut anywhere, into a new one.
Equal states give equal bytes. Both do a bounded amount of work for each piece, but for the head and
for machines with little in them, which are one array (`queues.machine.fifo_state`); a head grows
with the
sessions and consumers of the queue, not with its messages.

A long one is version u8 (5 or 7), length u32, the head; then records: part u8, place u32, sub u32,
length u32 and the bytes of `queues.machine.snapshot_parts`; the last one is END, its place the
number of the
others. Little-endian (docs/formats/queue-snapshot.md). BadSnapshot: no machine has written these
bytes, as far as that can be seen without a look at all of them together. Not compiled.
"""

from collections import deque
from struct import Struct
from typing import Final

from queues.machine.consuming.consumers import Consumer
from queues.machine.delays import Delays
from queues.machine.fifo import Fifo
from queues.machine.fifo_state import (
    HEAD,
    HEADS,
    LIMITED_HEAD,
    decode_state,
    encode_state,
    head_of,
    is_limited,
    restore,
)
from queues.machine.fifo_state import BadSnapshot as BadSnapshot
from queues.machine.fifo_state import machine_state as machine_state
from queues.machine.notes import BESIDE, ELSEWHERE, READY
from queues.machine.pending_dead_letters import DEATHS
from queues.machine.snapshot_parts import (
    ARRIVALS,
    ATTEMPTS,
    CALENDAR,
    DELAYED,
    DELAYS,
    DYING,
    DYING_SIZES,
    END,
    GENERATION,
    HELD,
    KNOWN,
    LANE,
    LEAVING,
    LEVELS,
    OVERDUE,
    REDELIVERED,
    RETURNED,
    ROWS,
    SIZES,
    ArrivalSource,
    DaySource,
    NotedSource,
    RowSource,
    RunSource,
    Source,
    SparseSource,
    put_arrivals,
    put_days,
    put_levels,
    put_numbers,
    put_rows,
    put_sizes,
)
from queues.runs.seqset import SeqSet

PIECE_BYTES: Final = 60 << 10
PIECE_RECORDS: Final = 32
SMALL: Final = 1024  # runs and other rows of a machine that is written at once
LONG: Final = Struct("<BI")
RECORD: Final = Struct("<BIII")
RUNS: Final = (REDELIVERED, OVERDUE, HELD, GENERATION, RETURNED, LEAVING, DELAYED, KNOWN)


class Frozen:
    """See the module. Invariant: what was taken, and what is still to be, is of one moment."""

    def __init__(self, machine: Fifo, small: int = SMALL, piece_bytes: int = PIECE_BYTES) -> None:
        self._piece_bytes = piece_bytes
        self._sources: deque[Source] = deque()
        self._at = 0  # so much of the head was taken
        self._count = 0  # records so far
        self._kept: bytes | None = None  # a record that did not fit into the last piece
        self._is_open = weight_of(machine) > small  # END is to come
        if self._is_open:
            state = head_of(machine)
            head = encode_state(state)
            version = LIMITED_HEAD if is_limited(state) else HEAD
            self._head = LONG.pack(version, len(head)) + head
            self._sources.extend(sources_of(machine))
        else:
            self._head = encode_state(machine_state(machine))

    def take(self) -> bytes | None:
        """The next piece; None: that was all."""
        if self._at < len(self._head):
            piece = self._head[self._at : self._at + self._piece_bytes]
            self._at += self._piece_bytes
            return piece
        parts: list[bytes] = []
        byte_count = 0
        while len(parts) < PIECE_RECORDS:
            record = self._next() if self._kept is None else self._kept
            self._kept = None
            if record is None:
                break
            byte_count += len(record)
            if parts and byte_count > self._piece_bytes:
                self._kept = record
                break
            parts.append(record)
        return b"".join(parts) if parts else None

    def _next(self) -> bytes | None:
        while self._sources:
            source = self._sources[0]
            encoded = source.take()
            if encoded is not None:
                self._count += 1
                return RECORD.pack(source.part, source.place, source.sub, len(encoded)) + encoded
            self._sources.popleft()
        if not self._is_open:
            return None
        self._is_open = False
        return RECORD.pack(END, self._count, 0, 0)

    def close(self) -> None:
        """No more is wanted."""
        for source in self._sources:
            source.close()
        self._sources.clear()
        self._is_open = False
        self._kept = None
        self._at = len(self._head)


def encode_fifo(machine: Fifo, small: int = SMALL) -> bytes:
    """A snapshot of the machine between two batches, at once."""
    return b"".join(iter(Frozen(machine, small).take, None))


def decode_fifo(machine: Fifo, data: bytes) -> None:
    """Put a new machine into the state of a snapshot, at once. BadSnapshot: the bytes are none."""
    thawing = Thawing(machine)
    thawing.feed(data)
    thawing.finish()


def weight_of(machine: Fifo) -> int:
    """How many rows its parts have that may be long."""
    notes, delays = machine.notes, machine.delays
    sets = [*machine.ready.lanes, machine.redelivered, machine.overdue]
    sets += [leaving.seqs for leaving in machine.leaving]
    sets += [selection.known for selection in machine.ready.selections]
    sets += [
        machine.pending_dead_letters.seqs_of(reason)
        for reason in machine.pending_dead_letters.reasons()
    ]
    rows = machine.calendar.entry_count() + int(machine.attempts.count)
    rows += len(machine.arrivals.firsts) + int(machine.pending_dead_letters.sizes.count)
    if delays is not None:
        sets.append(delays.seqs)
        rows += delays.calendar.entry_count()
    for consumer in machine.roster.consumers.values():
        sets.append(consumer.held)
        sets += [generation.seqs for generation in consumer.generations]
        if consumer.returned is not None:
            sets.append(consumer.returned)
        if consumer.rows is not None:
            rows += len(consumer.rows.rows)
    if notes.options.levels > 1 or notes.options.counts_bytes:
        rows += alive_count(machine)
    return rows + sum(seqs.run_count() for seqs in sets if seqs.count)


def alive_count(machine: Fifo) -> int:
    """Messages in the queue, and those that are leaving it."""
    return int(machine.length()) + sum(int(each.seqs.count) for each in machine.leaving)


def sources_of(machine: Fifo) -> list[Source]:
    """All parts of the machine that may be long, as they are now."""
    found: list[Source] = []
    alive: list[tuple[SeqSet, int]] = []  # and how they are counted for the limits
    for level, lane in enumerate(machine.ready.lanes):
        found.append(RunSource(LANE, level, 0, lane))
        alive.append((lane, READY))
    found.append(RunSource(REDELIVERED, 0, 0, machine.redelivered))
    found.append(RunSource(OVERDUE, 0, 0, machine.overdue))
    for place, consumer in enumerate(machine.roster.consumers.values()):
        found += consumer_sources(place, consumer)
        alive.append((consumer.held, ELSEWHERE))
    for place, leaving in enumerate(machine.leaving):
        found.append(RunSource(LEAVING, place, 0, leaving.seqs))
        alive.append((leaving.seqs, ELSEWHERE))
    for place, selection in enumerate(machine.ready.selections):
        found.append(RunSource(KNOWN, place, 0, selection.known))
    for reason in machine.pending_dead_letters.reasons():
        found.append(RunSource(DYING, reason, 0, machine.pending_dead_letters.seqs_of(reason)))
    found.append(SparseSource(DYING_SIZES, machine.pending_dead_letters.sizes))
    found.append(SparseSource(ATTEMPTS, machine.attempts))
    found.append(ArrivalSource(machine.arrivals))
    found.append(DaySource(CALENDAR, machine.calendar))
    if machine.delays is not None:
        found.append(RunSource(DELAYED, 0, 0, machine.delays.seqs))
        found.append(DaySource(DELAYS, machine.delays.calendar))
        alive.append((machine.delays.seqs, BESIDE))
    notes = machine.notes
    for part, column in ((LEVELS, notes.level_column()), (SIZES, notes.size_column())):
        if column is not None:
            found += [
                NotedSource(part, stands, seqs, column) for seqs, stands in alive if seqs.count
            ]
    return found


def consumer_sources(place: int, consumer: Consumer) -> list[Source]:
    found: list[Source] = []
    if consumer.held.count:
        found.append(RunSource(HELD, place, 0, consumer.held))
    for number, generation in enumerate(consumer.generations):
        found.append(RunSource(GENERATION, place, number, generation.seqs))
    if consumer.returned is not None:
        found.append(RunSource(RETURNED, place, 0, consumer.returned))
    if consumer.rows is not None and consumer.rows.rows:
        found.append(RowSource(place, consumer.rows))
    return found


class Thawing:
    """See the module. `feed` all pieces in order, then `finish`; before that the machine is of no
    use."""

    def __init__(self, machine: Fifo) -> None:
        self._machine = machine
        self._rest = bytearray()  # what could not be taken yet
        self._is_long = False
        self._has_head = False
        self._is_over = False
        self._count = 0  # records so far
        self._consumers: list[Consumer] = []  # in order
        self._in_rows: dict[int, int] = {}  # messages in the rows of each of them
        self._noted: dict[int, int] = {LEVELS: 0, SIZES: 0}  # messages in these columns

    def feed(self, piece: bytes) -> None:
        self._rest += piece
        if not self._is_long:
            self._is_long = self._rest[:1] in (bytes((HEAD,)), bytes((LIMITED_HEAD,)))
        if not self._is_long:
            return  # One array: all of it is needed.
        at = 0 if self._has_head else self._take_head()
        while self._has_head and len(self._rest) - at >= RECORD.size:
            part, place, sub, length = RECORD.unpack_from(self._rest, at)
            begin = at + RECORD.size
            if begin + length > len(self._rest):
                break
            at = begin + length
            self._take(part, place, sub, bytes(self._rest[begin:at]))
        del self._rest[:at]

    def finish(self) -> None:
        """All pieces were fed."""
        if not self._is_long:
            state = decode_state(bytes(self._rest))
            if state.version in HEADS:
                raise BadSnapshot("a head alone")
            restore(self._machine, state)
            return
        if not self._is_over or self._rest:
            raise BadSnapshot("a snapshot that is cut short, or goes on")
        self._complete()

    def _take_head(self) -> int:
        """Where the records begin, or 0: it is not all there."""
        if len(self._rest) < LONG.size:
            return 0
        _, length = LONG.unpack_from(self._rest)
        end = LONG.size + int(length)
        if len(self._rest) < end:
            return 0
        state = decode_state(bytes(self._rest[LONG.size : end]))
        if state.version not in HEADS:
            raise BadSnapshot(f"a head of version {state.version}")
        restore(self._machine, state)
        self._has_head = True
        self._consumers = list(self._machine.roster.consumers.values())
        return end

    def _take(self, part: int, place: int, sub: int, encoded: bytes) -> None:
        if self._is_over:
            raise BadSnapshot("a record behind the last one")
        if part == END:
            if encoded or place != self._count:
                raise BadSnapshot(f"{self._count} records of {place}")
            self._is_over = True
            return
        self._count += 1
        try:
            self._put(part, place, sub, encoded)
        except (ValueError, IndexError) as error:
            raise BadSnapshot(f"part {part}: {error}") from error

    def _put(self, part: int, place: int, sub: int, encoded: bytes) -> None:
        machine = self._machine
        end = machine.next_seq
        if part in RUNS:
            self._set_of(part, place, sub).append_encoded(encoded, end)
        elif part == LANE:
            machine.ready.append_encoded(encoded, end, place)
        elif part == DYING:
            if place not in DEATHS:
                raise BadSnapshot("a death of an unknown reason")
            machine.pending_dead_letters.count += machine.pending_dead_letters.seqs_of(
                place
            ).append_encoded(encoded, end)
        elif part == ROWS:
            rows = self._consumers[place].rows
            if rows is None:
                raise BadSnapshot("rows of a consumer that has none")
            self._in_rows[place] = self._in_rows.get(place, 0) + put_rows(rows, encoded, end)
        elif part == LEVELS:
            self._noted[part] += put_levels(machine.notes, encoded, end)
        elif part == SIZES:
            self._noted[part] += put_sizes(machine.notes, encoded, end, place)
        else:
            self._put_numbers(part, encoded, end)

    def _put_numbers(self, part: int, encoded: bytes, end: int) -> None:
        machine = self._machine
        if part == ATTEMPTS:
            put_numbers(machine.attempts, encoded, end)
        elif part == DYING_SIZES:
            machine.pending_dead_letters.bytes += put_numbers(
                machine.pending_dead_letters.sizes, encoded, end
            )
        elif part == ARRIVALS:
            put_arrivals(machine.arrivals, encoded, end)
        elif part == CALENDAR:
            put_days(machine.calendar, encoded, end)
        elif part == DELAYS:
            put_days(self._delayed().calendar, encoded, end)
        else:
            raise BadSnapshot(f"an unknown part {part}")

    def _set_of(self, part: int, place: int, sub: int) -> SeqSet:
        machine = self._machine
        if part == REDELIVERED:
            return machine.own_redelivered()
        if part == OVERDUE:
            return machine.own_overdue()
        if part == LEAVING:
            return machine.leaving[place].seqs
        if part == KNOWN:
            return machine.ready.selections[place].known
        if part == DELAYED:
            return self._delayed().seqs
        consumer = self._consumers[place]
        if part == HELD:
            return consumer.held
        if part == GENERATION:
            return consumer.generations[sub].seqs
        returned = consumer.returned
        if returned is None:
            returned = SeqSet()
            consumer.returned = returned
        return returned

    def _delayed(self) -> Delays:
        delays = self._machine.delays
        if delays is None:
            delays = Delays(self._machine.notes)
            self._machine.delays = delays
        return delays

    def _complete(self) -> None:
        """What is known once all is there. BadSnapshot: its parts are of different machines."""
        machine = self._machine
        notes, delays = machine.notes, machine.delays
        for selection in machine.ready.selections:
            selection.rebuild(machine.ready.lanes)
        machine.checked_out = sum(consumer.held.count for consumer in self._consumers)
        for place, consumer in enumerate(self._consumers):
            if consumer.rows is not None and self._in_rows.get(place, 0) != consumer.held.count:
                raise BadSnapshot("rows of other messages than the consumer holds")
        notes.beside_count = 0 if delays is None else delays.seqs.count
        notes.pending_dead_letter_bytes = machine.pending_dead_letters.bytes
        alive = alive_count(machine)
        groups = machine.ready.groups
        if groups is not None:
            if groups.count != alive:
                raise BadSnapshot("groups of other messages than there are")
            groups.rebuild(machine.ready.lanes)
        wanted = {LEVELS: notes.options.levels > 1, SIZES: notes.options.counts_bytes}
        if any(self._noted[part] != (alive if wanted[part] else 0) for part in wanted):
            raise BadSnapshot("levels or sizes of other messages than there are")
        machine.due_by(machine.now_ms)
