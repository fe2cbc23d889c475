"""Old segments of a stream go to an object store: which, when, and what counts.

The leader uploads one segment at a time, the oldest first. When the store has it whole, the leader
proposes an entry that says so, and from the commit of that entry on every member may drop its own
file and read from the store. So nothing is removed before it is stored, and all members agree on
what is stored. Retention of offloaded segments is an entry, too; their objects are removed
afterwards (`sweep`), as are those that a leader has uploaded and not committed.

A failure is repeated after a while that doubles; until then the stream goes on with its own files.

`Offloader` decides for one member, `encode_change` is the entry: version u8 (2), time u64,
MessagePack of the rows that are added and the offset before which rows go. No I/O.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, TypeVar

import msgspec

from queues.streams.settings import StreamSettings
from raft.group import Group
from warren.storage.streams.log import StreamLog
from warren.storage.streams.offloaded import OffloadedSegment, SegmentStore

VERSION: Final = 2  # the entries of `queues.streams.entry` have 1
HEAD: Final = Struct("<BQ")
RETRY_MIN_MS: Final = 1000
RETRY_MAX_MS: Final = 60_000
SOON_MS: Final = 100  # until the disk has a segment, or the group takes an entry
T = TypeVar("T")

OffloadedRow = tuple[int, int, int, int, int, int, int]


class OffloadChange(msgspec.Struct, frozen=True, array_like=True):
    """What an entry says of the segments in the store."""

    added: list[OffloadedRow] = []
    upto: int = 0  # rows that end here or before are gone


def encode_change(now_ms: int, change: OffloadChange) -> list[bytes]:
    return [HEAD.pack(VERSION, now_ms), msgspec.msgpack.encode(change)]


def is_change(content: bytes) -> bool:
    """Whether an entry of a stream is one of these."""
    return content[:1] == bytes([VERSION])


def decode_change(content: bytes) -> tuple[int, OffloadChange]:
    """Time and change. ValueError: not an entry that this node knows."""
    if len(content) < HEAD.size:
        raise ValueError("an entry of a stream is cut short")
    _, now_ms = HEAD.unpack_from(content)
    try:
        change = msgspec.msgpack.decode(content[HEAD.size :], type=OffloadChange)
    except msgspec.DecodeError as error:
        raise ValueError(f"an entry of a stream cannot be read: {error}") from error
    return now_ms, change


def changed_rows(
    rows: Sequence[OffloadedSegment], change: OffloadChange
) -> tuple[OffloadedSegment, ...]:
    """The rows after the change, without a gap: a row that does not follow the last one is the
    first one, for retention of its leader has cut what was before it."""
    found = [row for row in rows if row.end_offset > change.upto]
    for each in change.added:
        row = OffloadedSegment(*each)
        if found and found[-1].end_offset != row.first_offset:
            found.clear()
        found.append(row)
    return tuple(found)


def row_of(segment: OffloadedSegment) -> OffloadedRow:
    return (
        segment.first_offset,
        segment.end_offset,
        segment.first_ms,
        segment.last_ms,
        segment.byte_count,
        segment.chunk_count,
        segment.term,
    )


class OffloadStatus(msgspec.Struct, frozen=True):
    """What operators see of it."""

    uploaded_count: int = 0  # by this member, since its node has started
    failed_count: int = 0
    fault: str = ""  # why the last attempt failed; empty: it did not


class Offloader:
    """See the module. Invariant: at most one call of the store is under way, or one change is
    proposed and not applied.

    `wake` has the member call `step` soon, `wake_at` at a time.
    """

    def __init__(
        self,
        uid: int,
        store: SegmentStore | None,
        wake: Callable[[], None],
        wake_at: Callable[[int], None],
    ) -> None:
        self.status = OffloadStatus()
        self._uid = uid
        self._store = store
        self._wake = wake
        self._wake_at = wake_at
        self._term = 0  # in which the member leads; 0: it does not
        self._is_due = False  # there may be something to do
        self._due_ms = 0  # when there is
        self._is_calling = False
        self._change: OffloadChange | None = None  # not in the log yet
        self._is_proposed = False
        self._needs_sweep = False
        self._retry_ms = 0
        self._pause_ms = RETRY_MIN_MS
        self._has_failed = False

    @property
    def is_busy(self) -> bool:
        """Whether a segment is on its way to the store or into the log."""
        return self._term > 0 and (
            self._is_calling or self._change is not None or self._is_proposed
        )

    def lead(self, term: int) -> None:
        """The member leads from now on: what earlier leaders left in the store is swept first."""
        self._term = term
        self._needs_sweep = True
        self._retry_ms = 0
        self._pause_ms = RETRY_MIN_MS
        self.look()

    def follow(self) -> None:
        """The member leads no more. What is under way comes to nothing."""
        self._term = 0
        self._change = None
        self._is_proposed = False
        self.status = OffloadStatus(self.status.uploaded_count, self.status.failed_count)

    def look(self) -> None:
        """There may be something to do: a segment is full or too old."""
        if self._term > 0 and not self._is_due:
            self._is_due = True
            self._wake()

    def applied(self, has_removed: bool) -> None:
        """A change is applied, by which rows were removed or not."""
        self._is_proposed = False
        self._needs_sweep = self._needs_sweep or has_removed
        self.look()

    def retry_now(self) -> None:
        """Settings have changed: what failed may succeed."""
        self._retry_ms = 0
        self.look()

    def step(self, log: StreamLog, settings: StreamSettings, group: Group, now_ms: int) -> None:
        """Begin what is to be done next; the member leads."""
        if not self._is_due and not 0 < self._due_ms <= now_ms:
            if self._due_ms > 0:  # Timers wake a host once, and it was for something earlier.
                self._wake_at(self._due_ms)
            return
        self._is_due = False
        self._due_ms = 0
        if self._change is None and not self._is_calling and not self._is_proposed:
            limits = settings.bytes_max, settings.age_max_ms
            overdue = log.overdue_offset(*limits, now_ms)
            if overdue > 0:
                self._change = OffloadChange([], overdue)
            elif self._store is not None and self._store.is_set:
                self._use(self._store, log, settings, now_ms)
        if self._change is not None:
            self._propose(group, self._change, now_ms)

    def _propose(self, group: Group, change: OffloadChange, now_ms: int) -> None:
        if group.raft.term != self._term or group.propose(encode_change(now_ms, change)) is None:
            self._at(now_ms + SOON_MS)
            return
        self._change = None
        self._is_proposed = True

    def _at(self, due_ms: int) -> None:
        self._due_ms = due_ms
        self._wake_at(due_ms)

    def _use(
        self, store: SegmentStore, log: StreamLog, settings: StreamSettings, now_ms: int
    ) -> None:
        if self._has_failed:
            self._has_failed = False
            self._retry_ms = now_ms + self._pause_ms
            self._pause_ms = min(2 * self._pause_ms, RETRY_MAX_MS)
        found = log.to_offload() if settings.offloads else None
        if found is None and not (self._needs_sweep and (settings.offloads or log.offloaded)):
            return
        if now_ms < self._retry_ms:
            self._at(self._retry_ms)
        elif self._needs_sweep:
            self._sweep(store, log)
        elif found is not None and found[0].end_offset > log.written_offset:
            self._at(now_ms + SOON_MS)
        elif found is not None:
            self._is_calling = True
            done, failed = self._if_leading(self._uploaded), self._if_leading(self._failed)
            store.upload(log.files, *found, self._term, done, failed)

    def _sweep(self, store: SegmentStore, log: StreamLog) -> None:
        self._is_calling = True
        self._needs_sweep = False
        done, failed = self._if_leading(self._succeeded), self._if_leading(self._failed)
        store.sweep(self._uid, tuple(log.offloaded), self._term, lambda: done(0), failed)

    def _if_leading(self, done: Callable[[T], None]) -> Callable[[T], None]:
        """`done`, unless the term is over by then."""
        term = self._term

        def called(found: T) -> None:
            self._is_calling = False
            if self._term == term:
                done(found)
            self.look()

        return called

    def _uploaded(self, row: OffloadedSegment) -> None:
        self._succeeded(1)
        self._change = OffloadChange([row_of(row)], 0)

    def _succeeded(self, uploaded: int) -> None:
        count = self.status.uploaded_count + uploaded
        self.status = OffloadStatus(count, self.status.failed_count)
        self._pause_ms = RETRY_MIN_MS

    def _failed(self, error: Exception) -> None:
        """An upload may have left its object all the same, and retention may cut the segment before
        the next one."""
        self._has_failed = self._needs_sweep = True
        count = self.status.failed_count + 1
        self.status = OffloadStatus(self.status.uploaded_count, count, str(error))
