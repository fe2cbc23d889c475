"""Reading a file of the log from its beginning: sound records, damage, and the end.

At a bad record the scan looks on for a sound one. If there is one that was appended when the bad
place was durable already, or if the file is known to be whole, that place is corrupt: it is noted
and the scan goes on behind it. Else it is the torn tail of a crash, and the end.
"""

from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from threading import Event
from typing import Final, final

from warren.storage.disk import Disk
from warren.storage.files import BLOCK_BYTES
from warren.storage.record import (
    HEADER_BYTES,
    SEAL,
    CorruptRecord,
    Record,
    claimed_epoch,
    decode_record,
    padded,
    payload_length,
)
from warren.storage.recovery.identify import identify

WINDOW_BYTES: Final = 4 << 20
WHOLE: Final = 1 << 62  # durable end of a file of which no byte may be missing
AHEAD_BYTES: Final = 1 << 20  # read while as much is looked at
EPOCH_AT: Final = 8  # of the epoch in a record header
HEAD_BYTES_MAX: Final = 64 << 10  # of a bad record, to find out whose it was


@final
class Window:
    """A part of a file in memory that moves on as it is asked for later offsets.

    With `ahead` the part behind it is read meanwhile, by a thread of that.
    """

    def __init__(
        self,
        disk: Disk,
        handle: int,
        size: int,
        window_bytes: int = WINDOW_BYTES,
        ahead: Executor | None = None,
    ) -> None:
        self._disk = disk
        self._window_bytes = window_bytes
        self._ahead = ahead
        self._following: Future[bytes] | None = None  # what comes behind `_bytes`
        self.read_bytes = 0  # from the disk so far
        self._handle = handle
        self.size = size
        self._offset = 0
        self._bytes = b""
        self._view = memoryview(b"")

    def view(self, offset: int, length: int) -> tuple[memoryview, int]:
        """Memory that holds `length` bytes from `offset` on (fewer at the end), and where."""
        length = min(length, self.size - offset)
        if offset < self._offset or offset + length > self._offset + len(self._bytes):
            self._move(offset, length)
        return self._view, offset - self._offset

    def _move(self, offset: int, length: int) -> None:
        rest, found = b"", b""
        end = self._offset + len(self._bytes)
        following = self._following
        if following is not None and self._offset <= offset <= end:
            rest = self._bytes[offset - self._offset :]
            found = following.result()
        if len(rest) + len(found) < length:  # Far off, or longer than a window.
            rest = b""
            wanted = min(max(length, self._window_bytes), self.size - offset)
            if self._ahead is None:
                found = self._disk.pread(self._handle, wanted, offset)
            else:  # That thread has a buffer of its own for it, and gives it back at its end.
                found = self._ahead.submit(self._disk.pread, self._handle, wanted, offset).result()
        self._bytes = rest + found if rest else found
        self._view = memoryview(self._bytes)
        self.read_bytes += len(found)
        self._offset = offset
        self._read_ahead()

    def _read_ahead(self) -> None:
        self.close()
        at = self._offset + len(self._bytes)
        if self._ahead is not None and at < self.size:
            length = min(self._window_bytes, self.size - at)
            begun = Event()
            self._following = self._ahead.submit(self._read_part, begun, length, at)
            begun.wait()  # Compiled code lets no other thread begin before it waits.

    def _read_part(self, begun: Event, length: int, offset: int) -> bytes:
        begun.set()
        return self._disk.pread(self._handle, length, offset)

    def close(self) -> None:
        """On return, no read of the file is open."""
        following, self._following = self._following, None
        if following is not None and not following.cancel():
            wait((following,))

    def find(self, pattern: bytes, offset: int, end: int) -> int:
        """First place of `pattern` in offset..end-1, or -1."""
        while offset + len(pattern) <= end:
            _, at = self.view(offset, min(WINDOW_BYTES, end - offset))
            limit = min(len(self._bytes), at + end - offset)
            found = self._bytes.find(pattern, at, limit)
            if found >= 0:
                return self._offset + found
            offset += limit - at - len(pattern) + 1
        return -1


@final
class Scan:
    """One pass over one file. `end`, `sealed` and `corrupt` are final once `records` is through."""

    def __init__(
        self,
        disk: Disk,
        handle: int,
        path: str,
        size: int,
        epoch: int,
        window_bytes: int = WINDOW_BYTES,
        ahead: Executor | None = None,
    ) -> None:
        self._window = Window(disk, handle, size, window_bytes, ahead)
        self._path = path
        self._epoch = epoch
        self._epoch_bytes = epoch.to_bytes(4, "little")
        self.end = BLOCK_BYTES  # behind the last sound record
        self.sealed = False
        self.torn = False  # something was written behind the end
        self.corrupt: list[CorruptRecord] = []

    @property
    def read_bytes(self) -> int:
        """From the disk so far."""
        return self._window.read_bytes

    def close(self) -> None:
        """What may be read of it has been read; only where something was read ahead."""
        self._window.close()

    def read(self, offset: int) -> Record | None:
        """The record at `offset`, or None if there is no sound one. Its payload is a view."""
        buffer, at = self._window.view(offset, HEADER_BYTES)
        if at + HEADER_BYTES > len(buffer):
            return None
        length = payload_length(buffer, at, self._epoch)
        if length < 0 or offset + HEADER_BYTES + length > self._window.size:
            return None
        buffer, at = self._window.view(offset, HEADER_BYTES + length)
        return decode_record(buffer, at, self._epoch, offset)

    def records(self, durable_end: int) -> Iterator[Record]:
        """The sound records in order. All before `durable_end` is known to have been durable."""
        offset = BLOCK_BYTES
        while True:
            record = self.read(offset)
            if record is None:
                offset = self._resume(offset, offset < durable_end)
                if offset < 0:
                    return
                continue
            offset += padded(len(record.payload))
            self.end = offset
            if record.kind == SEAL:
                self.sealed = True
                return
            yield record

    def has_records(self) -> bool:
        """Whether anything in the file was ever durable, as far as one can tell."""
        found = self.read(BLOCK_BYTES)
        while found is None or (found.offset > BLOCK_BYTES and found.durable_offset <= BLOCK_BYTES):
            found = self._next_sound(BLOCK_BYTES + 8 if found is None else found.offset + 8)
            if found is None:
                return False
        return True

    def was_begun(self) -> bool:
        """Whether something was written where the first record is."""
        return self._written_at(BLOCK_BYTES)

    def _resume(self, bad: int, whole: bool) -> int:
        """Where to go on behind a bad place; -1 if it is the end."""
        first = self._next_sound(bad + 8)
        witness = first
        while witness is not None and not whole and witness.durable_offset <= bad:
            witness = self._next_sound(witness.offset + 8)
        if witness is None and not whole:
            self.torn = first is not None or self._written_at(bad)
            return -1
        self.corrupt.append(self._identified(bad, first))
        return -1 if first is None else first.offset

    def _written_at(self, offset: int) -> bool:
        """Whether what lies there is of this life of the file: by its epoch, or but for that."""
        buffer, at = self._window.view(offset, HEADER_BYTES)
        if at + HEADER_BYTES > len(buffer):
            return False
        if bytes(buffer[at + EPOCH_AT : at + EPOCH_AT + 4]) == self._epoch_bytes:
            return True
        length = payload_length(buffer, at, claimed_epoch(bytes(buffer[at : at + HEADER_BYTES])))
        if length > WINDOW_BYTES or offset + HEADER_BYTES + length > self._window.size:
            return False
        buffer, at = self._window.view(offset, HEADER_BYTES + length)
        whole = bytearray(buffer[at : at + HEADER_BYTES + length])
        whole[EPOCH_AT : EPOCH_AT + 4] = self._epoch_bytes
        return decode_record(memoryview(whole), 0, self._epoch, offset) is not None

    def _next_sound(self, offset: int) -> Record | None:
        """The first sound record at or behind `offset`."""
        while True:
            found = self._window.find(self._epoch_bytes, offset + EPOCH_AT, self._window.size)
            if found < 0:
                return None
            offset = found - EPOCH_AT
            if offset % 8 == 0:
                record = self.read(offset)
                if record is not None:
                    return record
            offset += 1

    def _identified(self, bad: int, following: Record | None) -> CorruptRecord:
        """The bad place, and whose record it was."""
        if following is None:
            return CorruptRecord(self._path, bad)
        span = following.offset - bad
        buffer, at = self._window.view(bad, min(span, HEAD_BYTES_MAX))
        head = bytes(buffer[at : at + min(span, HEAD_BYTES_MAX)])
        kind, targets, index = identify(head, span)
        return CorruptRecord(self._path, bad, kind, targets, index)
