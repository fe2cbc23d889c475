"""What a consumer holds, in the order in which it was assigned, to be delivered again (0036).

Deliveries are effects, and may be lost with the leader that was to carry them out. A machine whose
leader may change keeps each assignment that is not settled as a row, with the number that it has
for its consumer; a new leader sends again what the consumer's node has not seen. What follows each
other is one row, so a consumer that settles in order has few. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

NONE: Final = 0  # the order of no row


@final
@mypyc_attr(acyclic=True)
class Row:
    """Messages first.. are the consumer's deliveries delivery_seq.., all alike."""

    def __init__(
        self, order: i64, delivery_seq: i64, first: i64, count: i64, redelivered: bool, tries: i64
    ) -> None:
        self.order: i64 = order  # of its last part, among the assignments to all consumers
        self.delivery_seq: i64 = delivery_seq
        self.first: i64 = first
        self.count: i64 = count
        self.redelivered = redelivered
        self.attempts: i64 = tries

    def part(self, at: i64, count: i64) -> "Row":
        """Its messages at.. as a row of their own."""
        number = self.delivery_seq + at
        return Row(self.order, number, self.first + at, count, self.redelivered, self.attempts)


@final
class Rows:
    """Those of one consumer. Invariant: they are what the consumer holds; `delivery_seq`
    ascends, and so does `order`, but for parts of one row. While a snapshot has a `copy`, no row is
    changed: another one takes its place (0009)."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._copies: i64 = 0
        self._near: i64 = 0  # place at which one was found last: others settle in order

    def copy(self) -> list[Row]:
        """All rows as they are now, until `end_copy`."""
        self._copies += 1
        return list(self.rows)

    def end_copy(self) -> None:
        self._copies -= 1

    def _own(self, place: i64) -> Row:
        """A row, to be changed."""
        row = self.rows[place]
        if self._copies > 0:
            row = row.part(0, row.count)
            self.rows[place] = row
        return row

    def add(self, row: Row) -> None:
        """An assignment; it joins the row before if no other one came in between."""
        if len(self.rows) > 0:
            last = self.rows[len(self.rows) - 1]
            if (
                last.order == row.order - 1
                and last.delivery_seq + last.count == row.delivery_seq
                and last.first + last.count == row.first
                and last.redelivered == row.redelivered
                and last.attempts == row.attempts
            ):
                last = self._own(len(self.rows) - 1)
                last.order = row.order
                last.count += row.count
                return
        self.rows.append(row)

    def remove(self, first: i64, count: i64) -> None:
        """Messages that the consumer held until now."""
        left = count
        end = first + count
        place = self._near
        passed: i64 = 0
        while left > 0:
            assert passed <= len(self.rows), "a message that the consumer does not hold"
            if place >= len(self.rows):
                place = 0
            row = self.rows[place]
            begin = max(first, row.first)
            stop = min(end, row.first + row.count)
            if begin >= stop:
                place += 1
                passed += 1
                continue
            passed = 0
            left -= stop - begin
            place += self._cut(place, begin - row.first, stop - row.first)
        self._near = max(place - 1, 0)

    def _cut(self, place: i64, begin: i64, stop: i64) -> i64:
        """Take begin..stop-1 out of a row; how many rows are there instead of it."""
        row = self.rows[place]
        after = row.count - stop
        if begin == 0 and after == 0:
            del self.rows[place]
            return 0
        row = self._own(place)
        if begin == 0:
            row.delivery_seq += stop
            row.first += stop
            row.count = after
            return 1
        if after > 0:
            self.rows.insert(place + 1, row.part(stop, after))
        row.count = begin
        return 2 if after > 0 else 1

    def from_number(self, delivery_seq: i64) -> list[Row]:
        """Rows of what has this number or a higher one."""
        found: list[Row] = []
        for row in self.rows:
            skipped = max(delivery_seq - row.delivery_seq, 0)
            if skipped < row.count:
                found.append(row.part(skipped, row.count - skipped))
        return found
