"""Copying what is alive in some files into one segment. Slices of I/O and slices of asking.

`read_slice`, `write_slice` and `finish` do I/O and run on the background thread; `choose` and
`relocate_slice` ask and tell the owners and run on the loop thread; never two at once. What dies
after it was chosen is copied too, and dies by its SETTLE in the log like everything else.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol, final

from warren.storage.disk import Disk
from warren.storage.files import BLOCK_BYTES, SLICE_BYTES, LogFile, Shelf, encode_header
from warren.storage.ledger import Ledger
from warren.storage.ranges import runs_by_owners
from warren.storage.record import (
    ENTRY,
    HEADER_BYTES,
    PADDING,
    PUBLISH,
    SEAL,
    Buffer,
    PublishPayload,
    Ranges,
    Record,
    data_bytes_of,
    decode_publish,
    encode_publish_prefix,
    padded,
)
from warren.storage.record import encode_header as encode_record_header
from warren.storage.scan import Scan

RECORDS_MAX: Final = 256  # in a slice: each is a question to an owner, on the loop


class Owners(Protocol):
    """The queues and log groups, as the log asks them. All calls on the loop thread."""

    def live_ranges(self, owner: int, first: int, count: int) -> Ranges:
        """Which of these message_seqs are alive, as (first, count); [] for an unknown owner."""

    def relocated(
        self, owner: int, first: int, count: int, file_id: int, data_offset: int, offsets: bytes
    ) -> None:
        """These messages are in another file now; what of them is alive is claimed there.

        Message `first + i` is at `data_offset + offsets[i] - offsets[0]`; from now on `release`
        is called with the new `file_id` for them. Some may be dead.
        """

    def checkpoint(self, owner: int) -> Ranges:
        """All message_seqs of the owner that are alive, as (first, count), ascending."""

    def mark(self, owner: int) -> int:
        """The highest message_seq ever delivered."""


class UnreadableFile(Exception):
    """A file of the log cannot be read, as the disk says. It is set aside until the next start."""


@final
class Copy:
    """A run of messages that the same owners need, or an entry; on its way to the segment."""

    __slots__ = ("index", "kind", "owner", "part", "payload", "prefix", "run")

    def __init__(
        self, kind: int, owner: int, index: int, part: int, prefix: bytes, payload: memoryview
    ) -> None:
        self.kind = kind
        self.owner = owner
        self.index = index
        self.part = part
        self.prefix = prefix  # what comes before `payload` in the new record
        self.payload = payload
        self.run: Run | None = None


@final
class Run:
    """Messages that moved."""

    __slots__ = ("count", "data_offset", "offsets", "targets")

    def __init__(self, targets: list[tuple[int, int]], count: int, offsets: bytes) -> None:
        self.targets = targets
        self.count = count
        self.offsets = offsets
        self.data_offset = 0


class Compaction:
    """One segment in the making."""

    def __init__(self, disk: Disk, sources: list[LogFile], segment: LogFile, tmp_path: str) -> None:
        self.sources = sources
        self.segment = segment
        self._disk = disk
        self._tmp_path = tmp_path
        self._offset = BLOCK_BYTES
        self._records = self._read_all()
        self._runs: list[Run] = []
        self._moved_entries: list[tuple[int, int, int]] = []  # owner, index, bytes
        self._relocated = 0
        self.named = False

    @property
    def empty(self) -> bool:
        return self.segment.handle < 0

    def _read_all(self) -> Iterator[tuple[LogFile, Record]]:
        for file in self.sources:
            scan = Scan(self._disk, file.handle, file.path, file.used, file.epoch)
            try:
                for record in scan.records(whole=True):
                    if record.kind in (PUBLISH, ENTRY):
                        yield file, record
            except OSError as error:
                file.corrupt = True
                raise UnreadableFile(f"{file.path} is set aside: {error}") from error
            if scan.corrupt:
                file.corrupt = True
                raise scan.corrupt[0]

    def read_slice(self) -> list[tuple[LogFile, Record]]:
        """The next records; none at the end. Raises CorruptRecord and UnreadableFile."""
        found: list[tuple[LogFile, Record]] = []
        byte_count = 0
        for file, record in self._records:
            found.append((file, record))
            byte_count += len(record.payload)
            if byte_count >= SLICE_BYTES or len(found) >= RECORDS_MAX:
                break
        return found

    def choose(
        self, records: Sequence[tuple[LogFile, Record]], owners: Owners, ledger: Ledger
    ) -> list[Copy]:
        """What of these records is alive."""
        copies: list[Copy] = []
        for file, record in records:
            if record.kind == PUBLISH:
                copies.extend(choose_messages(file, record, owners))
                continue
            stored = ledger.entries.get(record.owner, {}).get(record.index)
            if stored is not None and stored.file is file:
                copies.append(Copy(ENTRY, record.owner, record.index, 0, b"", record.payload))
        return copies

    def write_slice(self, copies: Sequence[Copy]) -> None:
        """Put the copies behind what is in the segment; not yet durable."""
        if not copies:
            return
        if self.empty:
            self._begin()
        parts: list[Buffer] = []
        offset = self._offset
        for copy in copies:
            length = len(copy.prefix) + len(copy.payload)
            payload: list[Buffer] = [copy.prefix, copy.payload]
            parts.append(self._header(copy, payload, length))
            parts.extend(payload)
            size = padded(length)
            parts.append(PADDING[: size - HEADER_BYTES - length])
            self._note(copy, offset, size)
            offset += size
        self._disk.pwritev(self.segment.handle, parts, self._offset, False)
        self._offset = offset

    def _begin(self) -> None:
        self.segment.handle = self._disk.create(self._tmp_path, 0)
        block = encode_header(self.segment.id, self.segment.epoch, False)
        self._disk.pwritev(self.segment.handle, [block], 0, False)

    def _header(self, copy: Copy, payload: list[Buffer], length: int) -> bytes:
        return encode_record_header(
            self.segment.epoch,
            BLOCK_BYTES,
            copy.owner,
            copy.index,
            copy.kind,
            copy.part,
            payload,
            length,
        )

    def _note(self, copy: Copy, offset: int, size: int) -> None:
        self.segment.stored += size
        run = copy.run
        if run is None:
            self._moved_entries.append((copy.owner, copy.index, size))
            return
        run.data_offset = offset + HEADER_BYTES + len(copy.prefix)
        self._runs.append(run)
        for owner, _ in run.targets:
            self.segment.publishers.add(owner)
            self.segment.claimed += len(copy.payload)

    def finish(self, directory: str) -> None:
        """Make the segment durable, then give it its name, then make that durable."""
        segment = self.segment
        seal = encode_record_header(segment.epoch, BLOCK_BYTES, 0, 0, SEAL, 0, [], 0)
        self._disk.pwritev(segment.handle, [seal], self._offset, False)
        self._disk.fsync(segment.handle)
        segment.used = segment.size = self._offset + HEADER_BYTES
        self._disk.rename(self._tmp_path, segment.path)
        self.named = True
        self._disk.fsync_directory(directory)
        segment.sealed_lsn = 0

    def abandon(self, shelf: Shelf) -> None:
        """Remove what was written; it has not its name yet."""
        if not self.empty:
            handle, self.segment.handle = self.segment.handle, -1
            shelf.discard(self._tmp_path, handle)

    def close(self) -> None:
        if not self.empty:
            self._disk.close(self.segment.handle)
            self.segment.handle = -1

    def relocate_slice(self, owners: Owners, ledger: Ledger) -> bool:
        """Tell the owners of the next runs; True when all know."""
        end = min(self._relocated + RECORDS_MAX, len(self._runs))
        for run in self._runs[self._relocated : end]:
            for owner, first in run.targets:
                self._relocate(owners, run, owner, first)
        self._relocated = end
        if end < len(self._runs):
            return False
        for owner, index, size in self._moved_entries:
            self.segment.claimed += size
            if index in ledger.entries.get(owner, {}):
                self.segment.live += size
                ledger.place_entry(owner, index, self.segment, size)
        return True

    def _relocate(self, owners: Owners, run: Run, owner: int, first: int) -> None:
        """Tell one owner, and claim what it still needs: it may be less than was chosen."""
        owners.relocated(owner, first, run.count, self.segment.id, run.data_offset, run.offsets)
        for start, count in owners.live_ranges(owner, first, run.count):
            place = start - first
            self.segment.live += data_bytes_of(run.offsets, place, place + count)


def live_here(file: LogFile, owners: Owners, owner: int, first: int, count: int) -> Ranges:
    """Which of these messages are alive and have their copy that counts in this file."""
    live = owners.live_ranges(owner, first, count)
    others = file.elsewhere.get(owner)
    if others is None:
        return live
    return [piece for start, length in live for piece in others.missing(start, length)]


def choose_messages(file: LogFile, record: Record, owners: Owners) -> list[Copy]:
    """Copies of the live runs of a PUBLISH, one for each set of owners that need it."""
    payload = decode_publish(record.payload)
    live: list[tuple[int, Ranges]] = []
    for number, (owner, first) in enumerate(payload.targets):
        places = [
            (start - first, count)
            for start, count in live_here(file, owners, owner, first, payload.count)
        ]
        if places:
            live.append((number, places))
    if not live:
        return []
    return [
        copy_run(record, payload, place, count, holders)
        for place, count, holders in runs_by_owners(payload.count, live)
    ]


def copy_run(
    record: Record, payload: PublishPayload, place: int, count: int, holders: list[int]
) -> Copy:
    """The messages place..place+count-1 for the targets with the numbers `holders`."""
    targets = [
        (payload.targets[number][0], payload.targets[number][1] + place) for number in holders
    ]
    stride = payload.meta_stride
    meta = payload.meta[stride * place : stride * (place + count)]
    offsets = payload.offsets[4 * place : 4 * (place + count + 1)]
    begin = payload.data_at + data_bytes_of(payload.offsets, 0, place)
    byte_count = data_bytes_of(offsets, 0, count)
    prefix = encode_publish_prefix(
        payload.format_tag, payload.info, payload.now_ms, targets, meta, offsets, byte_count
    )
    copy = Copy(
        PUBLISH,
        targets[0][0],
        record.index,
        record.part + place,
        prefix,
        record.payload[begin : begin + byte_count],
    )
    copy.run = Run(targets, count, offsets)
    return copy
