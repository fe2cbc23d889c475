"""Copying what is alive in some files into one segment. Slices of I/O and slices of asking.

The owners say first where their messages are (`ask_slice`), so that only what lies there is read;
a file that is full of them, or whose landmarks are unknown, is read whole. Then in turn, until
`read_slice` finds nothing: `choose` asks what of the records read is alive, `write_slice` copies
it. At last `finish`, and `relocate_slice` tells the owners.

`read_slice`, `write_slice` and `finish` do I/O and run on a thread of their own; the others ask and
tell the owners and run on the loop thread; never two at once. What dies after it was chosen is
copied too, and dies by its SETTLE in the log like everything else. The caller has made sure
that the owners have applied all that is in the sources. Compiled.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, final

from warren.storage.disk import Disk
from warren.storage.files import BLOCK_BYTES, SLICE_BYTES, FilePool, LogFile, encode_header
from warren.storage.group_log import EntryRun
from warren.storage.ledger import Ledger
from warren.storage.places import WALK_BYTES, records_at
from warren.storage.ranges import runs_by_owners
from warren.storage.record import (
    ENTRY,
    HEADER_BYTES,
    PADDING,
    PUBLISH,
    RAFT_ENTRY,
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
from warren.storage.recovery.scan import WHOLE, WINDOW_BYTES, Scan

READ_BYTES_MAX: Final = 4 << 20  # in a slice: with less, two threads wait for each other
RECORDS_MAX: Final = 256  # in a slice: each is a question to an owner, on the loop
MESSAGES_MAX: Final = 4096  # in a slice, but for one record that has more
OWNERS_MAX: Final = 128  # asked for their places in one turn
LONG_ANSWER: Final = 64  # an answer that is not the last one counts as so many owners more
PLACES_MAX: Final = 1 << 16  # of one file; with more it is read whole
WORK_MAX: Final = 12288  # of telling owners in one turn; see `Run.work`
ENTRIES_WORK: Final = 16  # of moving a run of entries, however long


FilePlace = tuple[int, int]  # id of a file, offset in it


class Owners(Protocol):
    """The queues and log groups, as the log asks them. All calls on the loop thread."""

    def live_ranges(self, owner: int, first: int, count: int, file_id: int) -> Ranges:
        """Which of these message_seqs are alive and in this file, as (first, count); [] for an
        unknown owner.

        There may be other copies, in any file: a crash leaves some, and so does a member of a group
        that left and joined again.
        """

    def places(self, owner: int, file_id: int, after: int) -> tuple[list[int], int]:
        """Where in this file messages of the owner behind number `after` are, in any order.

        One place somewhere inside the data of each record is enough, and dead ones do no harm.
        Answers a bounded part, and the number to go on behind, or 0 at the end.
        """

    def relocated(
        self,
        owner: int,
        first: int,
        count: int,
        source: FilePlace,
        target: FilePlace,
        offsets: bytes,
    ) -> Ranges:
        """These messages were copied from `source` to `target`. Answers which of them are alive and
        were in this place of `source`: for these `release` is called with the new file from now on.

        Message `first + i` is `offsets[i] - offsets[0]` behind either place.
        """

    def alive_from(self, owner: int, first: int) -> tuple[Ranges, int]:
        """The message_seqs of the owner from `first` on that the log must keep, ascending.

        Answers a bounded part, and the number to go on at, or 0 if these were all.
        """

    def mark(self, owner: int) -> int:
        """The highest message_seq ever delivered."""


class UnreadableFile(Exception):
    """A file of the log cannot be read, as the disk says. It is set aside until it is asked for
    again, with everything that it has."""


class NotAllFound(Exception):
    """What is alive in a file was not all found there: it is set aside until the next start."""


@final
class Copy:
    """A run of messages that the same owners need, or an entry; on its way to the segment."""

    __slots__ = ("index", "kind", "owner", "part", "payload", "prefix", "run")

    def __init__(
        self, kind: int, owner: int, index: int, part: int, prefix: bytes, payload: bytes
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

    __slots__ = ("count", "data_offset", "offsets", "source", "source_offset", "targets", "work")

    def __init__(
        self,
        source: LogFile,
        source_offset: int,
        targets: list[tuple[int, int]],
        count: int,
        offsets: bytes,
    ) -> None:
        self.source = source  # where they were
        self.source_offset = source_offset
        self.targets = targets
        self.count = count
        self.offsets = offsets
        self.data_offset = 0
        self.work = 16  # of telling an owner: it grows with the runs that a record was cut into


@final
class Alive:
    """What of a record is to be copied; for a PUBLISH, who needs which places in it."""

    __slots__ = ("file", "live", "payload", "record")

    def __init__(
        self,
        file: LogFile,
        record: Record,
        payload: PublishPayload | None,
        live: list[tuple[int, Ranges]],
    ) -> None:
        self.file = file
        self.record = record
        self.payload = payload
        self.live = live


class Compaction:
    """One segment in the making."""

    def __init__(self, disk: Disk, sources: list[LogFile], segment: LogFile, tmp_path: str) -> None:
        self.sources = sources
        self.segment = segment
        self._disk = disk
        self._tmp_path = tmp_path
        self._offset = BLOCK_BYTES
        self._questions = self._all_questions()
        # The current one, not answered to the end.
        self._question: tuple[LogFile, int, bool] | None = None
        self._after = 0  # where it goes on
        self._places: dict[int, list[int]] = {
            file.id: [] for file in sources if len(file.landmarks) > 0
        }
        self._records = self._read_all()
        self._unwritten: list[Copy] = []
        self._unwritten_bytes = 0
        self._runs: list[Run] = []
        self._moved_entries: deque[tuple[int, EntryRun]] = deque()  # owner, entries in the segment
        self._open_entries: dict[int, EntryRun] = {}  # the last of them, by owner
        self._relocated = 0
        self._scan: Scan | None = None
        self._scanned_bytes = 0  # of files that are through
        self._left_bytes = 0  # what these take
        self._at_bytes = 0  # of the others, up to the record that was read last
        self.written_bytes = 0
        self.named = False

    @property
    def empty(self) -> bool:
        return self.segment.handle < 0

    @property
    def read_bytes(self) -> int:
        """From the sources so far."""
        return self._scanned_bytes + (0 if self._scan is None else self._scan.read_bytes)

    def got_through(self) -> int:
        """How many bytes of the sources are done with; the last quarter is to tell the owners."""
        copied = (self._left_bytes + self._at_bytes) * 3 // 4
        if self._relocated == 0:
            return copied
        return copied + self._left_bytes * self._relocated // (4 * len(self._runs))

    # Asking where to read.

    def _all_questions(self) -> Iterator[tuple[LogFile, int, bool]]:
        """File, owner, and whether that is about the entries of a group."""
        for file in self.sources:
            for owner in list(file.publishers):
                yield file, owner, False
        for file in self.sources:
            for owner in list(file.groups):
                yield file, owner, True

    def ask_slice(self, owners: Owners, ledger: Ledger) -> bool:
        """Ask some owners where their messages are; True when all have answered."""
        room = OWNERS_MAX
        while room > 0:
            question = self._question or next(self._questions, None)
            if question is None:
                return True
            file, owner, is_group = question
            after = 0
            room -= 1
            if is_group:
                if file.id in self._places:
                    self._add_places(file, ledger.entry_places(file, owner, PLACES_MAX + 1))
            elif file.id in self._places:
                found, after = owners.places(owner, file.id, self._after)
                self._add_places(file, found)
                room -= LONG_ANSWER if after > 0 else 0
            self._after = after
            self._question = question if after > 0 else None
        return False

    def _add_places(self, file: LogFile, found: list[int]) -> None:
        places = self._places.get(file.id)
        if places is None:
            return
        places.extend(found)
        if len(places) > PLACES_MAX:
            del self._places[file.id]

    # Reading.

    def _read_all(self) -> Iterator[tuple[LogFile, Record]]:
        for file in self.sources:
            for record in self._records_of(file):
                if record.kind in (PUBLISH, ENTRY, RAFT_ENTRY):
                    yield file, record

    def _records_of(self, file: LogFile) -> Iterator[Record]:
        places = self._places.pop(file.id, None)
        window_bytes = WINDOW_BYTES if places is None else WALK_BYTES
        scan = Scan(self._disk, file.handle, file.path, file.used, file.epoch, window_bytes)
        self._scan = scan
        try:
            if places is not None:
                places.sort()
                yield from records_at(scan, file, places)
            else:
                yield from scan.records(WHOLE)
        except OSError as error:
            file.unread = True
            raise UnreadableFile(f"{file.path} is set aside: {error}") from error
        if scan.corrupt:
            file.corrupt = True
            raise scan.corrupt[0]
        self._scan = None
        self._scanned_bytes += scan.read_bytes
        self._left_bytes += file.used
        self._at_bytes = 0

    def read_slice(self) -> list[tuple[LogFile, Record, PublishPayload | None]]:
        """The next records; none at the end. Raises CorruptRecord and UnreadableFile."""
        found: list[tuple[LogFile, Record, PublishPayload | None]] = []
        byte_count = 0
        message_count = 0
        for file, record in self._records:
            payload = decode_publish(record.payload) if record.kind == PUBLISH else None
            found.append((file, record, payload))
            self._at_bytes = record.offset
            byte_count += padded(len(record.payload))
            message_count += 1 if payload is None else payload.count * len(payload.targets)
            if (
                byte_count >= READ_BYTES_MAX
                or len(found) >= RECORDS_MAX
                or message_count >= MESSAGES_MAX
            ):
                break
        return found

    def choose(
        self,
        records: Sequence[tuple[LogFile, Record, PublishPayload | None]],
        owners: Owners,
        ledger: Ledger,
    ) -> list[Alive]:
        """What of these records is alive."""
        found: list[Alive] = []
        for file, record, payload in records:
            if payload is not None:
                live = alive_places(payload, owners, file.id)
                if live:
                    found.append(Alive(file, record, payload, live))
                continue
            if ledger.is_live_entry(record.owner, record.index, file, record.offset):
                found.append(Alive(file, record, None, []))
        return found

    # Writing.

    def take(self, chosen: Sequence[Alive]) -> None:
        """Copy what was chosen; it is written when it is worth a write, and by `finish`."""
        for alive in chosen:
            for copy in copies_of(alive):
                self._unwritten.append(copy)
                self._unwritten_bytes += len(copy.prefix) + len(copy.payload)
        if self._unwritten_bytes >= SLICE_BYTES:
            self.write_slice()

    def write_slice(self) -> None:
        """Put the copies behind what is in the segment.

        Each slice is synced alone: one sync of the whole segment would hold up those of the log.
        """
        copies = self._unwritten
        if not copies:
            return
        self._unwritten = []
        self._unwritten_bytes = 0
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
        self._disk.pwritev(self.segment.handle, parts, self._offset, True)
        self.written_bytes += offset - self._offset
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
        self.segment.note_landmark(offset)
        self.segment.stored += size
        run = copy.run
        if run is None:
            self._note_entry(copy, offset, size)
            return
        self.segment.note_index(copy.index)
        run.data_offset = offset + HEADER_BYTES + len(copy.prefix)
        self._runs.append(run)
        for owner, _ in run.targets:
            self.segment.publishers.add(owner)
            self.segment.claimed += len(copy.payload)

    def _note_entry(self, copy: Copy, offset: int, size: int) -> None:
        self.segment.groups.add(copy.owner)
        self.segment.claimed += size
        run = self._open_entries.get(copy.owner)
        if run is None or run.end != copy.index:
            run = EntryRun(self.segment, copy.index)
            self._open_entries[copy.owner] = run
            self._moved_entries.append((copy.owner, run))
        run.add(offset, size)

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

    def abandon(self, pool: FilePool) -> None:
        """Remove what was written; it has not its name yet."""
        if not self.empty:
            handle, self.segment.handle = self.segment.handle, -1
            pool.discard(self._tmp_path, handle)

    def close(self) -> None:
        if not self.empty:
            self._disk.close(self.segment.handle)
            self.segment.handle = -1

    def relocate_slice(self, owners: Owners, ledger: Ledger) -> bool:
        """Tell the owners of the next runs; True when all know."""
        work = 0
        while self._relocated < len(self._runs) and work < WORK_MAX:
            run = self._runs[self._relocated]
            self._relocated += 1
            work += run.work * len(run.targets)
            for owner, first in run.targets:
                self._relocate(owners, run, owner, first)
        source_ids = {file.id for file in self.sources}
        while self._moved_entries and work < WORK_MAX:
            entry_owner, moved = self._moved_entries.popleft()
            work += ENTRIES_WORK
            ledger.move_entries(entry_owner, moved, source_ids)
        return self._relocated == len(self._runs) and not self._moved_entries

    def _relocate(self, owners: Owners, run: Run, owner: int, first: int) -> None:
        """Tell one owner, and claim what it still needs: it may be less than was chosen."""
        source = (run.source.id, run.source_offset)
        target = (self.segment.id, run.data_offset)
        for start, count in owners.relocated(owner, first, run.count, source, target, run.offsets):
            place = start - first
            moved = data_bytes_of(run.offsets, place, place + count)
            self.segment.live += moved
            run.source.live -= moved


def alive_places(payload: PublishPayload, owners: Owners, file_id: int) -> list[tuple[int, Ranges]]:
    """Which places of a PUBLISH are alive, for each target, by its number, that needs any."""
    live: list[tuple[int, Ranges]] = []
    for number, (owner, first) in enumerate(payload.targets):
        places = [
            (start - first, count)
            for start, count in owners.live_ranges(owner, first, payload.count, file_id)
        ]
        if places:
            live.append((number, places))
    return live


def copies_of(alive: Alive) -> list[Copy]:
    """An entry, or the live runs of a PUBLISH, one for each set of owners that need it."""
    record = alive.record
    payload = alive.payload
    if payload is None:
        content = bytes(record.payload)
        return [Copy(record.kind, record.owner, record.index, record.part, b"", content)]
    runs = runs_by_owners(payload.count, alive.live)
    copies: list[Copy] = []
    for place, count, holders in runs:
        copy = copy_run(alive.file, record, payload, place, count, holders)
        if copy.run is not None:
            copy.run.work += len(runs)
        copies.append(copy)
    return copies


def copy_run(
    source: LogFile,
    record: Record,
    payload: PublishPayload,
    place: int,
    count: int,
    holders: list[int],
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
        payload.format_tag,
        payload.info,
        payload.now_ms,
        targets,
        meta,
        offsets,
        byte_count,
        payload.label,
    )
    copy = Copy(
        PUBLISH,
        targets[0][0],
        record.index,
        record.part + place,
        prefix,
        bytes(record.payload[begin : begin + byte_count]),
    )
    copy.run = Run(source, record.offset + HEADER_BYTES + begin, targets, count, offsets)
    return copy
