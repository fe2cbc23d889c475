"""Entries of one log group read back from the log: which bytes, and what is in them. Compiled.

Takes where the entries are (`GroupLog`); gives spans of files, each one read, and from their bytes
the entries in order. The checksum of each record is looked at, for what is read may be sent to
other nodes. A record that is not sound, or not the one that was asked for, is `CorruptRecord`; an
error of the disk is passed on. Either is the answer for all entries that were asked for together.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import Final, final

from mypy_extensions import i64

from warren.storage.files import LogFile
from warren.storage.group_log import EntryRun, GroupLog
from warren.storage.reads import GAP_BYTES, RUN_BYTES
from warren.storage.record import (
    RAFT_ENTRY,
    RAFT_HEAD_BYTES,
    CorruptRecord,
    Record,
    decode_raft_head,
    decode_record,
)

ENTRIES_MAX: Final = 512  # in one answer: they are taken apart on the loop
Found = tuple[int, int, int, int, bytes]  # index, term, appended_term, kind, content


@final
class Span:
    """Records of entries that follow each other in a file, in one read."""

    __slots__ = ("file", "first", "length", "offset", "offsets")

    def __init__(self, file: LogFile, first: i64, offset: i64) -> None:
        self.file = file
        self.first: i64 = first  # index
        self.offset: i64 = offset
        self.length: i64 = 0
        self.offsets: array[int] = array("I")  # of the records in the file

    def add(self, offset: i64, size: i64) -> bool:
        """The next entry. False if it lies too far off for the same read."""
        gap: i64 = offset - self.offset - self.length
        length: i64 = offset + size - self.offset
        if len(self.offsets) > 0 and (gap < 0 or gap > GAP_BYTES or length > RUN_BYTES):
            return False
        self.offsets.append(offset)
        self.length = length
        return True


def spans_of(group: GroupLog | None, first: i64, last: i64, bytes_max: i64) -> list[Span]:
    """What to read for the entries from `first` on; see `Wal.read_entries`."""
    spans: list[Span] = []
    if group is None:
        return spans
    index = first
    stop: i64 = min(last, first + ENTRIES_MAX - 1)
    total: i64 = 0
    while index <= stop:
        run = group.run_of(index)
        if run is None:
            break
        total = add_spans(spans, run, index, stop, bytes_max, total)
        if total > bytes_max:
            break
        index = run.end
    return spans


def add_spans(
    spans: list[Span], run: EntryRun, first: i64, last: i64, bytes_max: i64, total: i64
) -> int:
    """Add the entries of one run; bytes of all so far, more than `bytes_max` if that is the end."""
    index = first
    end: i64 = min(run.end, last + 1)
    span: Span | None = None
    while index < end:
        offset: i64 = run.offset_of(index)
        size: i64 = run.size_of(index)
        if total > 0 and total + size > bytes_max:
            return bytes_max + 1
        total += size
        if span is None or not span.add(offset, size):
            span = Span(run.file, index, offset)
            span.add(offset, size)
            spans.append(span)
        index += 1
    return total


@final
class EntryRead:
    """One answer on its way. `take` is called once for each span, in any order."""

    __slots__ = ("_done", "_error", "_left", "_owner", "_parts", "_spans")

    def __init__(
        self, owner: int, spans: Sequence[Span], done: Callable[[list[Found] | Exception], None]
    ) -> None:
        self._owner = owner
        self._spans = spans
        self._done = done
        self._parts: list[bytes] = [b""] * len(spans)
        self._left = len(spans)
        self._error: Exception | None = None

    def take(self, number: int, found: bytes | Exception) -> None:
        """The bytes of a span are there."""
        if isinstance(found, bytes):
            self._parts[number] = found
        else:
            self._error = found
        self._left -= 1
        if self._left == 0:
            self.finish()

    def finish(self) -> None:
        """All spans are there: answer."""
        if self._error is not None:
            self._done(self._error)
            return
        entries: list[Found] = []
        try:
            for span, part in zip(self._spans, self._parts, strict=True):
                self._decode(span, memoryview(part), entries)
        except CorruptRecord as error:
            self._done(error)
            return
        self._done(entries)

    def _decode(self, span: Span, part: memoryview, entries: list[Found]) -> None:
        index: i64 = span.first
        for offset in span.offsets:
            record = decode_record(part, offset - span.offset, span.file.epoch, offset)
            if record is None or not self._is_asked(record, index):
                raise CorruptRecord(span.file.path, offset)
            term, appended_term, kind = decode_raft_head(record.payload)
            content = bytes(record.payload[RAFT_HEAD_BYTES:])
            entries.append((index, term, appended_term, kind, content))
            index += 1

    def _is_asked(self, record: Record, index: i64) -> bool:
        return record.kind == RAFT_ENTRY and record.owner == self._owner and record.index == index
