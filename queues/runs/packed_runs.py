"""Runs of messages that are put in at the end and taken from the front, in few bytes. Compiled.

Owned by `queues.machine.expiry`: a million messages with a lifetime of their own would take 16 MB
as pairs
of numbers, and take 3 MB here. Runs (first, count) may come in any order; one that goes on where
the last one ends becomes part of it. It lives in memory alone; no file has it.

A run is the distance from the end of the run before (or from 0), which may be negative, and then,
if it is not 1, its count, a varint (seven bits a byte, the lowest first, the high bit set on all
but the last byte). The first byte of the distance has two flags, bit 0 that a count follows and
bit 1 that the distance is negative, then five bits of it and the high bit; the others are as in a
varint. The last run that was put in is kept as numbers, for the next may become part of it.
"""

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr, u8

GROWTH_SHIFT: Final = 3  # a buffer that is full grows by an eighth,
GROWTH_MIN: Final = 16  # or so many bytes
COUNTED: Final = 1
NEGATIVE: Final = 2
MORE: Final = 0x80


@final
@mypyc_attr(acyclic=True)
class PackedRuns:
    """Invariant: `_bytes[_at.._length]` are the runs that are here but for the last one, and that
    one is `_first`, `_count`, where a count of 0 stands for none."""

    def __init__(self) -> None:
        self.run_count: i64 = 0
        self._bytes: vec[u8] = vec[u8]()
        self._length: i64 = 0
        self._end: i64 = 0  # of the last run in the bytes
        self._first: i64 = 0
        self._count: i64 = 0
        self._at: i64 = 0
        self._before: i64 = 0  # the end of the run in front of `_at`

    def add(self, first: i64, count: i64) -> None:
        """Put a run in at the end."""
        assert first >= 0 and count > 0
        if self._count > 0:
            if self._first + self._count == first:
                self._count += count
                return
            self._pack()
        self._first = first
        self._count = count
        self.run_count += 1

    def take(self, limit: i64) -> list[tuple[int, int]]:
        """Take up to `limit` runs from the front."""
        found: list[tuple[int, int]] = []
        while self._at < self._length and len(found) < limit:
            found.append(self._unpack())
        if self._count > 0 and len(found) < limit:
            found.append((self._first, self._count))
            self._count = 0
        self.run_count -= len(found)
        return found

    def runs(self) -> list[tuple[int, int]]:
        """All of them; they stay."""
        at = self._at
        before = self._before
        count = self._count
        found = self.take(self.run_count)
        self._at = at
        self._before = before
        self._count = count
        self.run_count = len(found)
        return found

    def copy(self) -> "PackedRuns":
        """The same runs, to be read only. Takes no time: bytes that are here never change."""
        made = PackedRuns()
        made.run_count = self.run_count
        made._bytes = self._bytes
        made._length = self._length
        made._end = self._end
        made._first = self._first
        made._count = self._count
        made._at = self._at
        made._before = self._before
        return made

    def trim(self) -> None:
        """Give room back, if most of it is free."""
        kept = self._length - self._at
        if 2 * kept < len(self._bytes):
            self._move(kept)

    # Bytes

    def _pack(self) -> None:
        """Put the last run into the bytes."""
        gap = self._first - self._end
        flags: i64 = 0
        if gap < 0:
            gap = -gap
            flags = NEGATIVE
        if self._count > 1:
            flags |= COUNTED
        left = gap >> 5
        if left > 0:
            flags |= MORE
        self._put(flags | ((gap & 31) << 2))
        if left > 0:
            self._put_varint(left)
        if self._count > 1:
            self._put_varint(self._count)
        self._end = self._first + self._count

    def _put_varint(self, value: i64) -> None:
        left = value
        while left >= MORE:
            self._put((left & 0x7F) | MORE)
            left >>= 7
        self._put(left)

    def _put(self, byte: i64) -> None:
        if self._length == len(self._bytes):
            kept = self._length - self._at
            self._move(kept + max(kept >> GROWTH_SHIFT, GROWTH_MIN))
        self._bytes[self._length] = u8(byte)
        self._length += 1

    def _move(self, room: i64) -> None:
        """Move what is here to the start of a buffer of so many bytes."""
        old = self._bytes
        begin = self._at
        kept = self._length - begin
        made = vec[u8]([0] * room)
        place: i64 = 0
        while place < kept:
            made[place] = old[begin + place]
            place += 1
        self._bytes = made
        self._length = kept
        self._at = 0

    def _unpack(self) -> tuple[int, int]:
        """Take the run that is next in the bytes."""
        head = self._next()
        gap = (head >> 2) & 31
        if (head & MORE) != 0:
            gap |= self._next_varint() << 5
        if (head & NEGATIVE) != 0:
            gap = -gap
        first = self._before + gap
        count: i64 = self._next_varint() if (head & COUNTED) != 0 else 1
        self._before = first + count
        return first, count

    def _next_varint(self) -> i64:
        value: i64 = 0
        shift: i64 = 0
        while True:
            byte = self._next()
            value |= (byte & 0x7F) << shift
            if byte < MORE:
                return value
            shift += 7

    def _next(self) -> i64:
        byte = i64(self._bytes[self._at])
        self._at += 1
        return byte
