"""From the files of an earlier process to what is alive, and the files made fit to go on.

A message_seq is used once and settled for good, so the order of reading does not matter: alive is
what was published, minus what was settled, minus what a checkpoint does not list. The newest file
is read first, for most of what an old file holds was settled in a newer one and need not be kept
in memory. Compaction leaves copies for a moment; the owner gets each message once.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol, final

from warren.storage.disk import Disk
from warren.storage.files import (
    WAL_PREFIX,
    FilePool,
    LogFile,
    id_of,
)
from warren.storage.ledger import Ledger
from warren.storage.log import SEAL_BYTES
from warren.storage.manifest import SEALED
from warren.storage.ranges import RangeSet
from warren.storage.record import (
    CHECKPOINT,
    CLEAN,
    DELETED,
    ENTRY,
    HARD_STATE,
    HEADER_BYTES,
    MARK,
    PUBLISH,
    RAFT_ENTRY,
    SEAL,
    SETTLE,
    CorruptRecord,
    PublishPayload,
    Ranges,
    Record,
    data_bytes_of,
    decode_checkpoint,
    decode_publish,
    decode_settle,
    encode_header,
    padded,
)
from warren.storage.recovery.damage import Evidence, Hit, Known
from warren.storage.recovery.found_entries import FoundEntries
from warren.storage.recovery.group_damage import GroupEvidence
from warren.storage.recovery.opening import Opening
from warren.storage.recovery.scan import AHEAD_BYTES, WINDOW_BYTES, Scan
from warren.storage.recovery.stretches import Cut, Run, Runs, Stretch, cuts_of


@final
class RecoveredPublish:
    """A PUBLISH with live messages.

    Message `i` is at `data_offset + offsets[i] - offsets[0]` of the file. `targets` has
    (owner, first message_seq, live ranges of message_seqs) for each owner that still needs any.
    """

    __slots__ = (
        "count",
        "data_offset",
        "file_id",
        "format_tag",
        "info",
        "label",
        "meta",
        "meta_stride",
        "now_ms",
        "offsets",
        "targets",
    )

    def __init__(
        self,
        file_id: int,
        data_offset: int,
        payload: PublishPayload,
        targets: list[tuple[int, int, Ranges]],
    ) -> None:
        self.file_id = file_id
        self.data_offset = data_offset
        self.format_tag = payload.format_tag
        self.info = payload.info
        self.label = payload.label
        self.now_ms = payload.now_ms
        self.count = payload.count
        self.meta_stride = payload.meta_stride
        self.meta = payload.meta
        self.offsets = payload.offsets
        self.targets = targets


class RecoverySink(Protocol):
    """Who takes what was found. Calls come in this order: `entry`, `raft_entry`, `hard_state`,
    `knows`, `owner`, `publish`.
    """

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        """An entry of a log group; ascending indexes. It stays in the log until `release_log`."""

    def raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        """What counts at an index of a group of several members: the record with the highest
        incarnation, then appended_term. The content of a command (kind 0) is left on disk.

        Some may be of no use: of an earlier incarnation, in the snapshot, or of a tail that was
        truncated, which begins where the appended_term falls. The group says so by `release_log`
        and `truncate_log`.
        """

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        """The newest one of a member; once for each that has any."""

    def knows(self, owner: int) -> bool:
        """Whether the owner of messages still exists; all entries have been handed over.

        A member of a group with a hard state exists until it says otherwise (DELETED), whatever
        the definitions know of it so far.
        """

    def all_owners(self) -> tuple[Iterable[int], Iterable[int]]:
        """All durable queues, and all log groups with a member on this node. Called after all
        others, and only if a file is lost and the list of files does not say whose it was."""

    def saved_index(self, owner: int) -> int:
        """The last entry of a log group that its snapshot or saved state covers; 0: none. Called
        after damage alone."""

    def accepted_file_id(self, owner: int) -> int:
        """An operator has accepted what a log group lost in files up to this one; 0: in none.
        Called after damage alone."""

    def owner(self, owner: int, last_seq: int, mark: int) -> None:
        """No message_seq up to `last_seq` may be used again; `mark` is -1 if none was written."""

    def publish(self, found: RecoveredPublish) -> None:
        """Live messages; for each owner in ascending message_seqs, with those of `stretch`."""

    def stretch(self, found: Stretch) -> None:
        """Live records of one owner, one behind the other."""


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was found in one file."""

    path: str
    used_bytes: int
    file_bytes: int
    live_bytes: int  # of messages and entries, once for each target
    sealed: bool
    record_counts: dict[int, int]  # by kind


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What recovery met. `corrupt` is bad news, `torn` is not: it was never confirmed."""

    clean: bool  # the last process ended in good order
    files: int
    records: int
    bytes_read: int
    live_bytes: int
    torn: tuple[str, int] | None  # path and offset of the cut
    corrupt: tuple[CorruptRecord, ...]
    file_reports: tuple[FileReport, ...] = ()
    hits: tuple[Hit, ...] = ()  # who is, or may be, hit by a corrupt place
    unmarked: frozenset[int] = frozenset()  # of these a mark may be lost


@final
class OwnerState:
    """What the log says of one owner, apart from its messages."""

    __slots__ = (
        "claimed",
        "dead",
        "deleted",
        "is_unknown",
        "last_seq",
        "mark",
        "mark_file",
    )

    def __init__(self) -> None:
        self.dead = RangeSet()
        self.claimed = RangeSet()  # found in a newer file
        self.last_seq = 0
        self.mark = -1
        self.mark_file: LogFile | None = None
        self.deleted = False
        self.is_unknown = False  # the queues do not know it: dead as if it were deleted


@final
class Row:
    """A PUBLISH, or what of it is in one file, that was not yet known to be dead when it was read.

    Most records are no rows but parts of a `Run`, which takes a thirtieth of the memory.
    """

    __slots__ = ("data_offset", "file", "index", "part", "payload", "targets")

    def __init__(
        self, file: LogFile, index: int, part: int, data_offset: int, payload: PublishPayload
    ) -> None:
        self.file = file
        self.index = index
        self.part = part
        self.data_offset = data_offset
        self.payload = payload
        self.targets: list[tuple[int, int, Ranges]] = []  # what is alive, as in RecoveredPublish

    def found(self, targets: list[tuple[int, int, Ranges]]) -> RecoveredPublish:
        return RecoveredPublish(self.file.id, self.data_offset, self.payload, targets)


def row_of(file: LogFile, record: Record) -> Row:
    payload = decode_publish(record.payload)
    data_offset = record.offset + HEADER_BYTES + payload.data_at
    return Row(file, record.index, record.part, data_offset, payload)


class Recovery:
    """One run of recovery over a directory."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        pool: FilePool,
        on_read: Callable[[LogFile], None] | None = None,
        ahead: Executor | None = None,
    ) -> None:
        self._on_read = on_read  # after each file
        self._ahead = ahead  # reads the next part of a file while one is looked at
        self._disk = disk
        self._directory = directory
        self._pool = pool
        self._ledger = Ledger()
        self._owners: dict[int, OwnerState] = {}
        self._payloads: dict[int, dict[int, bytes]] = {}  # of ENTRYs, by owner and index
        self._groups = FoundEntries()
        self._group_evidence = GroupEvidence()
        self.last_file_id = 0
        self.last_index = 0  # of a PUBLISH
        self.last_state = 0  # number of a HARD_STATE
        self._rows: list[Row] = []
        self._runs: list[Run] = []
        self._counts: dict[int, list[int]] = {}  # of records by kind, by file
        self._sealed: set[int] = set()  # files that had a SEAL
        self._corrupt: list[CorruptRecord] = []
        self._opening = Opening(disk, directory, pool)
        self._forgot = False  # an owner, after damage
        self._records = 0
        self._bytes_read = 0
        self._live_bytes = 0
        self._torn: tuple[str, int] | None = None
        self._last_kind = CLEAN  # of a log without any record

    def run(self, sink: RecoverySink) -> tuple[Ledger, RecoveryReport]:
        opening = self._opening
        opening.run()
        tail = opening.tail
        self.last_file_id = opening.last_file_id
        self._torn = opening.torn
        self._corrupt.extend(opening.corrupt)
        for file in sorted(
            [*opening.logs, *opening.segments], key=lambda each: each.id, reverse=True
        ):
            self._read(file, tail)
            self._ledger.files[file.id] = file
        evidence = self._evidence(tail) if self._corrupt else None
        self.last_state = self._groups.last_state
        self.last_index = max(self.last_index, opening.last_index)
        self._hand_over_entries(sink)
        self._hand_over_messages(sink)
        self._fill_ledger()
        self._list_files()
        known = self._known(evidence, sink)
        hits = () if evidence is None else self._hits(evidence, known, sink)
        unmarked = frozenset() if evidence is None else frozenset(evidence.unmarked(known))
        self._keep_account(evidence, known, hits)
        self._let_go(hits, unmarked)
        return self._ledger, RecoveryReport(
            clean=self._is_clean(tail),
            files=len(self._ledger.files),
            records=self._records,
            bytes_read=self._bytes_read,
            live_bytes=self._live_bytes,
            torn=self._torn,
            corrupt=tuple(self._corrupt),
            file_reports=self._file_reports(),
            hits=hits,
            unmarked=unmarked,
        )

    def _let_go(self, hits: tuple[Hit, ...], unmarked: frozenset[int]) -> None:
        """Files whose bad places no owner misses may be removed one day. A mark that was lost there
        is said again before."""
        if self._forgot:
            return
        missed = {hit.place.path for hit in hits}
        for bad in sorted(self._corrupt, key=lambda bad: bad.path):
            file = self._ledger.files.get(id_of(os.path.basename(bad.path)))
            if file is not None and bad.path not in missed:
                file.harmless = True
                for owner in unmarked:
                    self._ledger.note(file, MARK, owner, 0, 0, 0)

    def _is_clean(self, tail: LogFile | None) -> bool:
        """Whether the last thing was the end of a clean stop. Damage in older files is of before;
        in the newest one, or behind it, it may be what came after that.
        """
        end = -1 if tail is None else tail.id
        damaged = [id_of(os.path.basename(bad.path)) for bad in self._corrupt]
        return self._last_kind == CLEAN and max(damaged, default=end - 1) < end

    def _hits(
        self, evidence: Evidence, known: dict[int, Known], sink: RecoverySink
    ) -> tuple[Hit, ...]:
        gone = {owner for owner, state in self._owners.items() if state.deleted}
        groups = self._group_evidence
        found = [
            hit
            for hit in evidence.hits(known)
            if hit.entry_after < 0 or not groups.has_records(hit.owner)
        ]
        is_lost = any(place.listed is not None for place in evidence.places)
        owners = sink.all_owners()[1] if is_lost else ()
        for hit in groups.hits(evidence.places, owners):
            is_missed = hit.owner not in gone and hit.lost_upto > sink.saved_index(hit.owner)
            file_id = id_of(os.path.basename(hit.place.path))
            if is_missed and file_id > sink.accepted_file_id(hit.owner):
                found.append(hit)
        return tuple(found)

    def _file_reports(self) -> tuple[FileReport, ...]:
        return tuple(
            FileReport(
                file.path,
                file.used,
                file.size,
                file.live,
                file_id in self._sealed,
                {kind: count for kind, count in enumerate(self._counts[file_id]) if count},
            )
            for file_id, file in sorted(self._ledger.files.items())
            if file_id in self._counts
        )

    def _evidence(self, tail: LogFile | None) -> Evidence:
        """Read everything once more, to see whom the bad places hit."""
        evidence = Evidence()
        self._look_for_places(evidence, tail)
        evidence.seal()
        for file in self._ledger.files.values():
            for record in self._scan(file).records(self._opening.durable_end(file)):
                if record.kind == PUBLISH:
                    evidence.note_publish(file.id, record.index, decode_publish(record.payload))
                elif record.kind == CHECKPOINT:
                    live = decode_checkpoint(record.payload)[1]
                    evidence.note_checkpoint(file.id, record.owner, live)
        for place in evidence.places:
            if place.file_id in self._ledger.files:  # What is said of the owners stays needed.
                self._ledger.files[place.file_id].publishers.update(place.bad.owners)
        return evidence

    def _look_for_places(self, evidence: Evidence, tail: LogFile | None) -> None:
        unread = {id_of(os.path.basename(bad.path)): bad for bad in self._opening.unread}
        for file_id in sorted([*self._ledger.files, *unread]):
            file = self._ledger.files.get(file_id)
            if file is None:
                path = os.path.basename(unread[file_id].path)
                evidence.begin_file(file_id, path.startswith(WAL_PREFIX))
                evidence.bad(unread[file_id], self._opening.row(file_id))
                continue
            shared = os.path.basename(file.path).startswith(WAL_PREFIX)
            evidence.begin_file(file_id, shared)
            self._group_evidence.begin_file(file_id, shared)
            scan = self._scan(file)
            told = 0
            for record in scan.records(self._opening.durable_end(file)):
                for bad in scan.corrupt[told:]:
                    evidence.bad(bad)
                told = len(scan.corrupt)
                if record.kind == PUBLISH:
                    evidence.number(record.index)
                elif record.kind == ENTRY:
                    evidence.entry(record.owner, record.index)
                elif record.kind in (RAFT_ENTRY, HARD_STATE):
                    self._group_evidence.note(record, len(evidence.places))
            for bad in scan.corrupt[told:]:
                # Nothing sound is behind it: what the list says of the file is all there is.
                evidence.bad(bad, None if scan.sealed else self._opening.row(file_id))

    def _known(self, evidence: Evidence | None, sink: RecoverySink) -> dict[int, Known]:
        """Owners whose messages count; also those of which nothing is left but a bad place."""
        known: dict[int, Known] = {}
        for place in [] if evidence is None else evidence.places:
            suspects: Iterable[int] = place.bad.owners
            row = place.listed
            if row is not None:
                suspects = sink.all_owners()[0] if row.queues is None else row.queues
            for owner in suspects:
                if sink.knows(owner):  # Else the name is part of the damage.
                    known[owner] = Known(RangeSet(), 0, 0)
        for owner, state in self._owners.items():
            if not state.deleted:
                mark_file_id = 0 if state.mark_file is None else state.mark_file.id
                known[owner] = Known(state.dead, state.last_seq, mark_file_id)
            else:
                known.pop(owner, None)
        return known

    def _list_files(self) -> None:
        """List what was found as it is now: none of these files gets more records."""
        for file in self._ledger.files.values():
            row = self._opening.row(file.id)
            if not file.corrupt and (row is None or row.state != SEALED):
                self._pool.manifest.add(self._ledger.listed(file, SEALED))

    def _keep_account(
        self, evidence: Evidence | None, known: dict[int, Known], hits: tuple[Hit, ...]
    ) -> None:
        """Have an entry in the ledger for each listed file of which nothing could be read.

        The entry and the row of the list are removed, as those of other files, once no queue or
        group misses what was in the file. Until then the log keeps the CHECKPOINTs by which
        operators accepted the loss: a file with a bad place counts as one with messages of every
        queue that is hit, or that such a CHECKPOINT clears.
        """
        if evidence is None:
            return
        names = self._disk.list(self._directory)
        for bad in self._opening.unread:
            row = self._opening.row(id_of(os.path.basename(bad.path)))
            if row is not None:
                there = os.path.basename(bad.path) in names
                file = LogFile(row.file_id, bad.path if there else "", row.epoch, 0)
                file.corrupt = True
                file.sealed_lsn = 0
                file.publishers.update(row.queues or ())
                self._ledger.files[file.id] = file
        for place in evidence.places:
            damaged = self._ledger.files.get(place.file_id)
            if damaged is not None:
                damaged.publishers.update(evidence.settled_since(place, known))
        for hit in hits:
            damaged = self._ledger.files.get(id_of(os.path.basename(hit.place.path)))
            if damaged is not None and hit.entry_after < 0:
                damaged.publishers.add(hit.owner)

    def _scan(self, file: LogFile, window_bytes: int = WINDOW_BYTES) -> Scan:
        return Scan(self._disk, file.handle, file.path, file.size, file.epoch, window_bytes)

    def _scan_ahead(self, file: LogFile) -> Scan:
        if self._ahead is None:
            return self._scan(file)
        disk, handle = self._disk, file.handle
        return Scan(disk, handle, file.path, file.size, file.epoch, AHEAD_BYTES, self._ahead)

    def _read(self, file: LogFile, tail: LogFile | None) -> None:
        scan = self._scan_ahead(file)
        rows: list[Row] = []
        runs = Runs(file)
        last_kind = 0
        counts = self._counts[file.id] = [0] * 256
        durable_end = self._opening.durable_end(file)
        for record in scan.records(durable_end):
            self._records += 1
            file.note_landmark(record.offset)
            last_kind = record.kind
            counts[last_kind] += 1
            if record.kind == PUBLISH:
                if not runs.add(record):
                    rows.append(row_of(file, record))
            else:
                self._note(file, record)
        scan.close()
        for row in rows:
            self._note_row(row)
        for run in runs.found:
            self._note_run(run)
        self._groups.end_file()
        file.used = scan.end
        listed = self._opening.row(file.id)
        is_sealed = scan.sealed and listed is not None and listed.state == SEALED
        if is_sealed and listed is not None and scan.end != listed.end:
            reason = f"ends at offset {scan.end} and must end at offset {listed.end}"
            scan.corrupt.append(CorruptRecord(file.path, scan.end, reason=reason))
        file.corrupt = bool(scan.corrupt)
        self._corrupt.extend(scan.corrupt)
        self._bytes_read += scan.end
        if scan.sealed:
            self._sealed.add(file.id)
        if self._on_read is not None:
            self._on_read(file)
        if file is tail:
            self._last_kind = last_kind
            self._disk.fsync(file.handle)  # What was read may be in the cache alone.
            if not scan.sealed and scan.end >= durable_end:
                self._seal(file, scan)

    def _seal(self, file: LogFile, scan: Scan) -> None:
        """Make the cut for good."""
        if scan.torn:
            self._torn = (file.path, scan.end)
        header = encode_header(file.epoch, scan.end, 0, 0, SEAL, 0, [], 0)
        self._disk.pwritev(file.handle, [header], scan.end, True)
        file.used = scan.end + SEAL_BYTES

    def _state(self, owner: int) -> OwnerState:
        state = self._owners.get(owner)
        if state is None:
            state = self._owners[owner] = OwnerState()
        return state

    def _note(self, file: LogFile, record: Record) -> None:
        """Take in a record that is not a PUBLISH."""
        owner = record.owner
        kind = record.kind
        if kind == SETTLE:
            state = self._state(owner)
            file.settlers.add(owner)
            for first, count in decode_settle(record.payload):
                state.dead.add(first, count)
                state.last_seq = max(state.last_seq, first + count - 1)
        elif kind == CHECKPOINT:
            file.settlers.add(owner)
            self._note_checkpoint(self._state(owner), record)
        elif kind == MARK:
            state = self._state(owner)
            state.last_seq = max(state.last_seq, record.index)
            if record.index > state.mark:
                state.mark = record.index
                if state.mark_file is not None:
                    state.mark_file.markers.discard(owner)
                state.mark_file = file
                file.markers.add(owner)
        elif kind == DELETED:
            file.settlers.add(owner)
            self._state(owner).deleted = True
        elif kind == ENTRY:
            self._note_entry(file, record)
        elif kind == RAFT_ENTRY:
            self._groups.note_raft_entry(file, record)
        elif kind == HARD_STATE:
            self._groups.note_hard_state(file, record)

    def _note_checkpoint(self, state: OwnerState, record: Record) -> None:
        last_seq, live = decode_checkpoint(record.payload)
        state.last_seq = max(state.last_seq, last_seq)
        at = 0
        for first, count in live:
            state.dead.add(at, min(first, last_seq + 1) - at)
            at = first + count
        state.dead.add(at, last_seq + 1 - at)

    def _note_entry(self, file: LogFile, record: Record) -> None:
        self._groups.note_entry(file, record)
        payloads = self._payloads.setdefault(record.owner, {})
        if record.index not in payloads:  # Else a copy, in a newer file, was seen before.
            payloads[record.index] = bytes(record.payload)

    def _note_row(self, row: Row) -> None:
        self.last_index = max(self.last_index, row.index)
        row.file.note_index(row.index)
        count = row.payload.count
        payload = row.payload
        row.file.claimed += payload.data_bytes * len(payload.targets)
        row.file.stored += padded(payload.data_at + payload.data_bytes)
        alive = False
        for owner, first in row.payload.targets:
            row.file.publishers.add(owner)
            state = self._state(owner)
            state.last_seq = max(state.last_seq, first + count - 1)
            if not alive and not state.deleted and state.dead.missing(first, count):
                alive = True
        if alive:
            self._rows.append(row)

    def _note_run(self, run: Run) -> None:
        self.last_index = max(self.last_index, run.last_index)
        file = run.file
        file.note_index(run.indexes[0])
        file.note_index(run.last_index)
        file.claimed += run.data_bytes
        file.stored += run.stored
        file.publishers.add(run.owner)
        state = self._state(run.owner)
        state.last_seq = max(state.last_seq, run.end - 1)
        if not state.deleted and state.dead.missing(run.first, run.end - run.first):
            self._runs.append(run)

    def _hand_over_entries(self, sink: RecoverySink) -> None:
        for owner in sorted(self._payloads):
            for index, payload in sorted(self._payloads[owner].items()):
                sink.entry(owner, index, payload)
        self._payloads.clear()
        for owner, state in self._owners.items():
            if state.deleted:
                self._groups.forget(owner)
        self._groups.hand_over(self._ledger, sink)

    def _hand_over_messages(self, sink: RecoverySink) -> None:
        for owner, state in sorted(self._owners.items()):
            if not state.deleted and not sink.knows(owner):
                self._forget(owner, state)
            if not state.deleted:
                sink.owner(owner, state.last_seq, state.mark)
        self._claim_all()
        cuts = self._cut_runs()
        self._rows.sort(key=lambda row: row.index)
        for index, group in groupby(self._rows, key=lambda row: row.index):
            while cuts and cuts[-1].index <= index:
                hand_over_stretch(cuts.pop(), sink)
            pieces = [row for row in group if row.targets]
            if len(pieces) == 1:
                sink.publish(pieces[0].found(pieces[0].targets))
            else:
                hand_over_pieces(pieces, sink)
        self._rows.clear()
        while cuts:
            hand_over_stretch(cuts.pop(), sink)

    def _cut_runs(self) -> list[Cut]:
        """What is alive of the runs: stretches of whole records, the last one first; records of
        which a part is dead become rows."""
        cuts: list[Cut] = []
        for run in self._runs:
            for cut in cuts_of(run):
                payload = cut.payload
                if payload is None:
                    cuts.append(cut)
                    continue
                row = Row(run.file, cut.index, 0, cut.offset, payload)
                owner, first = payload.targets[0]
                row.targets.append((owner, first, cut.live))
                self._rows.append(row)
        self._runs.clear()
        cuts.sort(key=lambda cut: cut.index, reverse=True)
        return cuts

    def _claim_all(self) -> None:
        """Say which copy of a message counts: that in the newest file, so that what was copied
        from is dead as a whole. Rows and runs come by file, the newest first.
        """
        rows: dict[int, list[Row]] = {}
        runs: dict[int, list[Run]] = {}
        for row in self._rows:
            rows.setdefault(row.file.id, []).append(row)
        for run in self._runs:
            runs.setdefault(run.file.id, []).append(run)
        for file_id in sorted({*rows, *runs}, reverse=True):
            here: dict[int, RangeSet] = {}  # what was found in this file, by owner
            for row in rows.get(file_id, ()):
                self._claim_row(row, here)
            for run in runs.get(file_id, ()):
                self._claim_run(run, here)
            for owner, found in here.items():
                self._owners[owner].claimed.unite(found)

    def _claim_row(self, row: Row, here: dict[int, RangeSet]) -> None:
        for owner, first in row.payload.targets:
            live = self._claim(owner, first, row.payload.count, here)
            for start, length in live:
                place = start - first
                self._count_live(
                    row.file, data_bytes_of(row.payload.offsets, place, place + length)
                )
            if live:
                row.targets.append((owner, first, live))

    def _claim_run(self, run: Run, here: dict[int, RangeSet]) -> None:
        run.live = self._claim(run.owner, run.first, run.end - run.first, here)
        for start, length in run.live:
            self._count_live(run.file, run.bytes_of(start, length))

    def _claim(self, owner: int, first: int, count: int, here: dict[int, RangeSet]) -> Ranges:
        """What of these messages the owner still needs and has not in a newer file, nor before in
        this one: a member of a group that left this node and joined again got its messages twice.
        """
        live: Ranges = []
        state = self._owners[owner]
        if state.deleted:
            return live
        found = here.get(owner)
        if found is None:
            found = here[owner] = RangeSet()
        for start, length in state.dead.missing(first, count):
            for newest, some in state.claimed.missing(start, length):
                live.extend(found.missing(newest, some))
        for start, length in live:
            found.add(start, length)
        return live

    def _count_live(self, file: LogFile, byte_count: int) -> None:
        file.live += byte_count
        self._live_bytes += byte_count

    def _forget(self, owner: int, state: OwnerState) -> None:
        """The owner is unknown. After damage that may be our fault, so its files stay then.

        That is never written as DELETED: a member of its group may join here again.
        """
        state.deleted = state.is_unknown = True
        if self._corrupt:
            self._forgot = True
            for file in self._ledger.files.values():
                file.corrupt = file.corrupt or owner in file.publishers

    def _fill_ledger(self) -> None:
        for owner, state in self._owners.items():
            if state.deleted:
                if not state.is_unknown:
                    self._ledger.deleted.add(owner)
                if state.mark_file is not None:
                    state.mark_file.markers.discard(owner)
                continue
            self._ledger.last_seqs[owner] = state.last_seq
            if state.mark_file is not None:
                self._ledger.mark_files[owner] = state.mark_file


def hand_over_stretch(cut: Cut, sink: RecoverySink) -> None:
    assert cut.stretch is not None
    first, count, begin, end, message = cut.stretch
    sink.stretch(Stretch(cut.run, first, count, begin, end, message))


def hand_over_pieces(rows: list[Row], sink: RecoverySink) -> None:
    """Hand over what compaction made of one publish, in the order of its messages.

    A crash may leave some messages only in the file that was copied from, between those that were
    copied; so each run goes alone.
    """
    pieces: list[tuple[int, int, int, int, int, Row]] = []
    for number, row in enumerate(rows):
        for owner, first, live in row.targets:
            for start, count in live:
                pieces.append((row.part + start - first, number, owner, first, count, row))
    pieces.sort(key=lambda piece: piece[:3])
    for place, _, owner, first, count, row in pieces:
        start = place - row.part + first
        sink.publish(row.found([(owner, first, [(start, count)])]))
