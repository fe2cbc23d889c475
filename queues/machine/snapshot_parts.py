"""Parts of a queue machine that are encoded bit by bit while the machine goes on (0009). No I/O.

A *source* has a copy of one part that was taken at one moment: sets, columns and the rest share
what they can with the machine, which copies what it changes (`SeqSet.copy`). Each `take` gives the
next rows as bytes, a bounded number of them for a bounded amount of work, None at the end; `close`
says that no more is wanted. Sources with the same rows give the same bytes, whatever their blocks.

Runs are as `queues.runs.seqset` encodes a set. Other rows are numbers: how many rows, then row by
row
what `fields` of them say, all varints. `put_*` take such bytes into a part of a machine that is
being made; `ValueError`: these were not encoded here. What it checks is each part by itself: that
it ascends where it has to, and is within its bounds. Compiled.
"""

from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.machine.consuming.checked_out import Row, Rows
from queues.machine.expiry import FAR, Arrivals, Calendar, Days
from queues.machine.notes import Notes
from queues.runs.columns import Column, Sparse
from queues.runs.seqset import SeqSet, read_varint, write_varint
from warren.wire.buffer import BytesWriter

RUNS_MAX: Final = 2048  # in one `take`
ROWS_MAX: Final = 512
STEPS_MAX: Final = 1 << 15  # messages that are looked at in one `take`
SIZE_END: Final = 1 << 31

# Parts, as bytes name them
END: Final = 0
LANE: Final = 1  # runs; place: level
REDELIVERED: Final = 2  # runs
OVERDUE: Final = 3  # runs
HELD: Final = 4  # runs; place: of the consumer
GENERATION: Final = 5  # runs; place: of the consumer, sub: of the generation
RETURNED: Final = 6  # runs; place: of the consumer
ROWS: Final = 7  # order, delivery_seq, first, count, redelivered, attempts; place: the consumer's
LEAVING: Final = 8  # runs; place: in the line
ARRIVALS: Final = 9  # first, time
CALENDAR: Final = 10  # due, first, count
ATTEMPTS: Final = 11  # message_seq, number
LEVELS: Final = 12  # first, count, level; place: how they are counted (`queues.machine.notes`)
SIZES: Final = 13  # first, count, size; the same
DYING: Final = 14  # runs; place: reason
DYING_SIZES: Final = 15  # message_seq, size
DELAYED: Final = 16  # runs
DELAYS: Final = 17  # due, first, count
KNOWN: Final = 18  # runs; place: of the selection


class Source(Protocol):
    """See the module. `part`, `place` and `sub` say what it is."""

    @property
    def part(self) -> int: ...

    @property
    def place(self) -> int: ...

    @property
    def sub(self) -> int: ...

    def take(self) -> bytes | None: ...

    def close(self) -> None: ...


@final
class RowWriter:
    """Rows of numbers, as many as they turn out to be."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self._numbers = BytesWriter()

    def put2(self, a: i64, b: i64) -> None:
        self.count += 1
        write_varint(self._numbers, a)
        write_varint(self._numbers, b)

    def put3(self, a: i64, b: i64, c: i64) -> None:
        self.put2(a, b)
        write_varint(self._numbers, c)

    def put_row(self, row: Row) -> None:
        self.put3(row.order, row.delivery_seq, row.first)
        write_varint(self._numbers, row.count)
        write_varint(self._numbers, 1 if row.redelivered else 0)
        write_varint(self._numbers, row.attempts)

    def encoded(self) -> bytes:
        head = BytesWriter()
        write_varint(head, self.count)
        return head.getvalue() + self._numbers.getvalue()


@final
class RunSource:
    """A set of messages."""

    def __init__(self, part: i64, place: i64, sub: i64, seqs: SeqSet) -> None:
        self.part = int(part)
        self.place = int(place)
        self.sub = int(sub)
        self._seqs = seqs.copy()
        self._at: i64 = 1 if seqs.count > 0 else -1

    def take(self) -> bytes | None:
        if self._at < 0:
            return None
        encoded, at = self._seqs.encode_from(self._at, RUNS_MAX)
        self._at = at
        return encoded

    def close(self) -> None:
        self._at = -1


@final
class NotedSource:
    """What a column has of the messages of a set; `place` says how these are counted."""

    def __init__(self, part: i64, place: i64, seqs: SeqSet, column: Column) -> None:
        self.part = int(part)
        self.place = int(place)
        self.sub = 0
        self._seqs = seqs.copy()
        self._column = column  # a copy already
        self._at: i64 = 1

    def take(self) -> bytes | None:
        if self._at < 0 or self._seqs.count == 0:
            return None
        rows = RowWriter()
        steps: i64 = 0
        runs = self._seqs.runs_from(self._at, ROWS_MAX)
        for run_first, run_count in runs:
            at: i64 = run_first
            end = at + run_count
            while at < end:
                some = self._column.alike(at, min(end - at, STEPS_MAX))
                rows.put3(at, some, self._column.get(at))
                at += some
                steps += some
                if rows.count >= ROWS_MAX or steps >= STEPS_MAX:
                    self._at = at
                    return rows.encoded()
        self._at = -1  # Fewer than ROWS_MAX runs were left.
        return rows.encoded() if rows.count > 0 else None

    def close(self) -> None:
        self._at = -1


@final
class DaySource:
    """A calendar."""

    def __init__(self, part: i64, calendar: Calendar) -> None:
        self.part = int(part)
        self.place = 0
        self.sub = 0
        self._days: list[Days] = calendar.copy()
        self._day: i64 = 0

    def take(self) -> bytes | None:
        rows = RowWriter()
        while rows.count < ROWS_MAX and self._day < len(self._days):
            days = self._days[self._day]
            due, first, count = days.next()
            rows.put3(due, first, count)
            if days.at >= days.stop:
                self._day += 1
        return rows.encoded() if rows.count > 0 else None

    def close(self) -> None:
        self._days = []


@final
class SparseSource:
    """Numbers of some messages."""

    def __init__(self, part: i64, numbers: Sparse) -> None:
        self.part = int(part)
        self.place = 0
        self.sub = 0
        self._numbers = numbers.copy()
        self._keys = numbers.keys()
        self._next: i64 = 0

    def take(self) -> bytes | None:
        rows = RowWriter()
        while rows.count < ROWS_MAX and self._next < len(self._keys):
            for seq, number in self._numbers.part(self._keys[self._next]):
                rows.put2(seq, number)
            self._next += 1
        return rows.encoded() if rows.count > 0 else None

    def close(self) -> None:
        self._keys = []


@final
class ArrivalSource:
    """When messages arrived. There are about a thousand rows, but while an old message stays."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.part = ARRIVALS
        self.place = 0
        self.sub = 0
        self._firsts = list(arrivals.firsts)
        self._times = list(arrivals.times)
        self._next: i64 = 0

    def take(self) -> bytes | None:
        rows = RowWriter()
        while rows.count < ROWS_MAX and self._next < len(self._firsts):
            rows.put2(self._firsts[self._next], self._times[self._next])
            self._next += 1
        return rows.encoded() if rows.count > 0 else None

    def close(self) -> None:
        self._firsts = []


@final
class RowSource:
    """What a consumer holds, as it was delivered. To be closed, or `rows` stays slow."""

    def __init__(self, place: i64, rows: Rows) -> None:
        self.part = ROWS
        self.place = int(place)
        self.sub = 0
        self._rows: Rows | None = rows
        self._copy: list[Row] = rows.copy()
        self._next: i64 = 0

    def take(self) -> bytes | None:
        rows = RowWriter()
        while rows.count < ROWS_MAX and self._next < len(self._copy):
            rows.put_row(self._copy[self._next])
            self._next += 1
        if rows.count > 0:
            return rows.encoded()
        self.close()
        return None

    def close(self) -> None:
        rows = self._rows
        self._rows = None
        self._copy = []
        if rows is not None:
            rows.end_copy()


# Taking them in


def put_runs(seqs: SeqSet, encoded: bytes, next_seq: i64) -> int:
    """How many messages that were; none of them has come before."""
    return seqs.append_encoded(encoded, next_seq)


def read_rows(encoded: bytes, fields: i64) -> list[list[int]]:
    """A bounded number of rows."""
    left, at = read_varint(encoded, 0)
    if left > STEPS_MAX:
        raise ValueError(f"{left} rows at once")
    found: list[list[int]] = []
    while left > 0:
        row: list[int] = []
        while len(row) < fields:
            number, at = read_varint(encoded, at)
            if number > FAR:
                raise ValueError("a number out of its bounds")
            row.append(number)
        found.append(row)
        left -= 1
    if at != len(encoded):
        raise ValueError("bytes after the last row")
    return found


def in_queue(first: i64, count: i64, next_seq: i64) -> None:
    """ValueError: there can be no such messages."""
    if first < 1 or count < 1 or count > next_seq - first:
        raise ValueError(f"messages {first}.. in a wrong place")


def put_levels(notes: Notes, encoded: bytes, next_seq: i64) -> int:
    """How many messages that were."""
    found: i64 = 0
    for first, count, level in read_rows(encoded, 3):
        in_queue(first, count, next_seq)
        if level >= notes.options.levels:
            raise ValueError("a level that there is not")
        notes.restore_level(first, count, level)
        found += count
    return found


def put_sizes(notes: Notes, encoded: bytes, next_seq: i64, stands: i64) -> int:
    """How many messages that were."""
    found: i64 = 0
    for first, count, size in read_rows(encoded, 3):
        in_queue(first, count, next_seq)
        if size >= SIZE_END:
            raise ValueError("a size out of its bounds")
        notes.restore_size(first, count, size, stands)
        found += count
    return found


def put_days(calendar: Calendar, encoded: bytes, next_seq: i64) -> None:
    for due, first, count in read_rows(encoded, 3):
        in_queue(first, count, next_seq)
        calendar.restore(due, first, count)


def put_numbers(numbers: Sparse, encoded: bytes, next_seq: i64) -> int:
    """The sum of the numbers."""
    total: i64 = 0
    for seq, number in read_rows(encoded, 2):
        in_queue(seq, 1, next_seq)
        if number == 0 or numbers.get(seq) != 0:
            raise ValueError("a number of nothing, or one twice")
        numbers.put(seq, number)
        total += number
    return total


def put_arrivals(arrivals: Arrivals, encoded: bytes, next_seq: i64) -> None:
    for first, time in read_rows(encoded, 2):
        in_queue(first, 1, next_seq)
        if len(arrivals.firsts) > 0 and arrivals.firsts[len(arrivals.firsts) - 1] >= first:
            raise ValueError("arrivals out of order")
        arrivals.firsts.append(first)
        arrivals.times.append(time)


def put_rows(rows: Rows, encoded: bytes, next_seq: i64) -> int:
    """How many messages that were."""
    found: i64 = 0
    for order, delivery_seq, first, count, redelivered, attempts in read_rows(encoded, 6):
        in_queue(first, count, next_seq)
        if len(rows.rows) > 0:
            last = rows.rows[len(rows.rows) - 1]
            if order < last.order or delivery_seq < last.delivery_seq + last.count:
                raise ValueError("rows of deliveries out of order")
        rows.rows.append(Row(order, delivery_seq, first, count, redelivered != 0, attempts))
        found += count
    return found
