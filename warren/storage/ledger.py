"""What is alive in which file, and what each file still has to say. No I/O.

A file may go when nothing in it is alive *and* nothing it says is needed: a SETTLE is needed while
another file holds messages of its owner, for without it they would come back; the newest MARK and
the newest HARD_STATE are needed as long as their owner; a DELETED while another file holds records
of the owner. `debts` names what must be written again, into a newer file, first. Compiled.

The live entry of a log group at an index is the one that was appended last: it ends all that was
there, and behind it, before. After a start it is the one with the highest appended_term; what of
them is of no use the group says by `truncate_entries` and `release_entries`.
"""

import os
from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from warren.storage.files import BLOCK_BYTES, WAL_PREFIX, LogFile
from warren.storage.group_log import EntryRun, GroupLog
from warren.storage.manifest import SEALED, Listed, Manifest
from warren.storage.record import CHECKPOINT, DELETED, ENTRY, HARD_STATE, MARK, SETTLE

THIN: Final = 3  # a file is thin when less than one part in so many is alive


@final
class StoredState:
    """The newest hard state of a member of a log group, and the file that has it."""

    __slots__ = ("file", "incarnation", "term", "vote")

    def __init__(self, file: LogFile, incarnation: int, term: int, vote: int) -> None:
        self.file = file
        self.incarnation = incarnation
        self.term = term
        self.vote = vote


@final
class Ledger:
    """Files by id, owners by uid.

    Invariants: `last_seqs[owner]` is at least every message_seq of the owner in any file;
    `publish_files[owner]` is the number of files that have the owner among their `publishers`,
    `group_files[owner]` of those that have it among their `groups`.
    """

    def __init__(self) -> None:
        self.files: dict[int, LogFile] = {}
        self.last_seqs: dict[int, int] = {}
        self.publish_files: dict[int, int] = {}
        self.group_files: dict[int, int] = {}
        self.mark_files: dict[int, LogFile] = {}  # where the newest MARK is
        # Id of the file with the newest one, or with the beginning of what stands for one.
        self.checkpoints: dict[int, int] = {}
        self.deleted: set[int] = set()  # owners that are gone while messages of theirs are in files
        self.entries: dict[int, GroupLog] = {}  # of groups that have any
        self.hard_states: dict[int, StoredState] = {}
        self.frozen: set[int] = set()  # owners that are damaged: what is in files stays there
        self.freeing: i64 = 0  # owners that are gone and have yet to release what they had

    def adopt(self, file: LogFile) -> None:
        """A file with records in it is part of the log now."""
        self.files[file.id] = file
        for owner in file.publishers:
            self.publish_files[owner] = self.publish_files.get(owner, 0) + 1
        for owner in file.groups:
            self.group_files[owner] = self.group_files.get(owner, 0) + 1

    def listed(self, file: LogFile, state: int) -> Listed:
        """The row of the file in the list of files, as far as it is filled now."""
        groups: dict[int, int] = {}
        for owner in file.groups:
            group = self.entries.get(owner)
            groups[owner] = 0 if group is None else int(group.end) - 1
        queues = frozenset(file.publishers | file.settlers | file.markers)
        is_log = os.path.basename(file.path).startswith(WAL_PREFIX)
        first, last = file.first_index, file.last_index
        return Listed(file.id, file.epoch, is_log, state, file.used, first, last, queues, groups)

    def list_sealed(
        self, manifest: Manifest, before: LogFile, active: LogFile, durable_lsn: int
    ) -> None:
        """`active` has durable records: list the files before it, from `before` on, as sealed."""
        for file in self.files.values():
            if before.id <= file.id < active.id and 0 < file.sealed_lsn <= durable_lsn:
                manifest.update(self.listed(file, SEALED))

    def note_publisher(self, file: LogFile, owner: int) -> None:
        """A PUBLISH of the owner was appended to the file."""
        if owner not in file.publishers:
            file.publishers.add(owner)
            self.publish_files[owner] = self.publish_files.get(owner, 0) + 1

    def note_settled(self, owner: int, ranges: Sequence[tuple[int, int]]) -> None:
        """These message_seqs, (first, count), are settled: those that were never published, too."""
        last_seq: i64 = self.last_seqs.get(owner, 0)
        for first, count in ranges:
            last_seq = max(last_seq, i64(first) + i64(count) - 1)
        self.last_seqs[owner] = last_seq

    def note(
        self, file: LogFile, kind: int, owner: int, index: int, offset: int, size: int
    ) -> None:
        """A record other than PUBLISH was appended at `offset`; `size` bytes in all."""
        if kind == SETTLE:
            file.settlers.add(owner)
        elif kind == MARK:
            self._note_mark(file, owner)
        elif kind == ENTRY:
            file.claim(size, size)
            self.place_entries(owner, index, file, offset, [size])
        elif kind in (CHECKPOINT, DELETED):
            file.settlers.add(owner)
            self.checkpoints[owner] = file.id
            if kind == DELETED:
                self._note_deleted(owner)

    def note_group(self, file: LogFile, owner: int) -> None:
        """A record of the log of a group was appended to the file."""
        if owner not in file.groups:
            file.groups.add(owner)
            self.group_files[owner] = self.group_files.get(owner, 0) + 1

    def note_hard_state(
        self, file: LogFile, owner: int, incarnation: int, term: int, vote: int
    ) -> None:
        """It was appended to the file, and is the newest one."""
        self.note_group(file, owner)
        self._forget_hard_state(owner)
        self.hard_states[owner] = StoredState(file, incarnation, term, vote)
        file.stated.add(owner)

    def _forget_hard_state(self, owner: int) -> None:
        old = self.hard_states.pop(owner, None)
        if old is not None:
            old.file.stated.discard(owner)

    def _note_mark(self, file: LogFile, owner: int) -> None:
        old = self.mark_files.get(owner)
        if old is file:
            return
        if old is not None:
            old.markers.discard(owner)
        self.mark_files[owner] = file
        file.markers.add(owner)

    def _note_deleted(self, owner: int) -> None:
        self.deleted.add(owner)
        self.last_seqs.pop(owner, None)
        marked = self.mark_files.pop(owner, None)
        if marked is not None:
            marked.markers.discard(owner)
        self._forget_hard_state(owner)
        group = self.entries.pop(owner, None)
        if group is not None:
            for run in group.runs:
                run.file.live -= run.byte_count

    def place_entries(
        self, owner: int, first: i64, file: LogFile, offset: i64, sizes: list[int]
    ) -> None:
        """Entries from `first` on were appended to `file`, the first at `offset`, each behind the
        one before: those from `first` on that there were are dead."""
        group = self.entries.get(owner)
        if group is None:
            group = self.entries[owner] = GroupLog()
        elif first < group.end:
            self._bury(group.truncate(first))
        if group.append(first, file, offset, sizes):
            self.note_group(file, owner)

    def truncate_entries(self, owner: int, index: i64) -> bool:
        """Entries from `index` on are dead. True if a file may go now."""
        group = self.entries.get(owner)
        if group is None:
            return False
        wake = self._bury(group.truncate(index))
        if not group.runs:
            del self.entries[owner]
        return wake

    def release_entries(self, owner: int, index: i64) -> bool:
        """Entries up to `index` are dead. True if a file may go now."""
        group = self.entries.get(owner)
        if group is None:
            return False
        wake = self._bury(group.release(index))
        if not group.runs:
            del self.entries[owner]
        return wake

    def _bury(self, died: list[tuple[LogFile, int]]) -> bool:
        wake = False
        for file, byte_count in died:
            wake = self.release(file.id, byte_count) or wake
        return wake

    def move_entries(self, owner: int, copied: EntryRun, sources: set[int]) -> None:
        """Entries were copied to another file from those with these ids."""
        group = self.entries.get(owner)
        if group is not None:
            group.move(copied, sources)

    def is_live_entry(self, owner: int, index: i64, file: LogFile, offset: i64) -> bool:
        """Whether the record of an entry at `offset` is the one that counts."""
        group = self.entries.get(owner)
        return group is not None and group.is_at(index, file, offset)

    def release(self, file_id: int, byte_count: int) -> bool:
        """So many bytes died. True if the file may go or be compacted now, and could not before."""
        file = self.files.get(file_id)
        if file is None:
            return False
        if file.sealed_lsn < 0:
            file.live -= byte_count
            return False
        was_thin = is_thin(file)
        file.live -= byte_count
        return file.live <= 0 or (not was_thin and is_thin(file))

    def note_freeing(self, count: i64) -> bool:
        """So many more owners are gone, of which nothing is alive, and have yet to release what
        they had; -1: one has. True if there are none any more."""
        self.freeing += count
        return self.freeing == 0

    def live_bytes(self) -> int:
        """Data bytes that are alive, once for each target."""
        return sum([file.live for file in self.files.values()])

    def disk_bytes(self) -> int:
        """Bytes of all files of the log, the reserve not counted."""
        return sum([file.size for file in self.files.values()])

    def sealed(self, durable_lsn: int) -> list[LogFile]:
        """Files that get no more records and have them all on disk: sound ones, and those whose
        bad places no owner misses, or that cannot be read, once nothing in them is alive."""
        return [
            file
            for file in self.files.values()
            if 0 <= file.sealed_lsn <= durable_lsn
            and (not file.corrupt or (file.harmless and file.live <= 0))
            and (not file.unread or file.live <= 0)
            and not (self.frozen and self._speaks_of_frozen(file))
        ]

    def entry_places(self, file: LogFile, owner: int, most: int) -> list[int]:
        """Where live entries of the group in this file begin; `most` of them are enough."""
        group = self.entries.get(owner)
        return [] if group is None else group.places_in(file, most)

    def _speaks_of_frozen(self, file: LogFile) -> bool:
        frozen = self.frozen
        return not (
            frozen.isdisjoint(file.publishers)
            and frozen.isdisjoint(file.settlers)
            and frozen.isdisjoint(file.markers)
            and frozen.isdisjoint(file.stated)
        )

    def debts(self, file: LogFile) -> list[tuple[int, int]]:
        """(kind, owner) of what may have to be said again before the file goes; see `owed`."""
        found = [(CHECKPOINT, owner) for owner in file.settlers]
        found.extend([(MARK, owner) for owner in file.markers])
        found.extend([(HARD_STATE, owner) for owner in file.stated])
        return found

    def owed(self, file: LogFile, kind: int, owner: int) -> int:
        """The kind of record that must be written for a debt of `file`; 0 if none."""
        if kind == MARK:
            return MARK if owner in file.markers else 0
        if kind == HARD_STATE:
            return HARD_STATE if owner in file.stated else 0
        if self.checkpoints.get(owner, 0) > file.id or not self._elsewhere(file, owner):
            return 0
        return DELETED if owner in self.deleted else CHECKPOINT

    def _elsewhere(self, file: LogFile, owner: int) -> bool:
        if self.publish_files.get(owner, 0) > (owner in file.publishers):
            return True
        if owner not in self.deleted:
            return False
        return self.group_files.get(owner, 0) > (owner in file.groups)

    def restated(self, owner: int, file_id: int) -> None:
        """What settled the owner's messages has been recorded again, beginning in that file."""
        self.checkpoints[owner] = max(self.checkpoints.get(owner, 0), file_id)

    def drop(self, file: LogFile) -> None:
        """The file is gone for good."""
        del self.files[file.id]
        for owner in file.publishers:
            uncount(self.publish_files, owner)
        for owner in file.groups:
            uncount(self.group_files, owner)
        for owner in self.deleted & (file.publishers | file.groups):
            if owner not in self.publish_files and owner not in self.group_files:
                self.deleted.discard(owner)
                self.checkpoints.pop(owner, None)


def uncount(counts: dict[int, int], owner: int) -> None:
    """One less of it."""
    left = counts[owner] - 1
    if left:
        counts[owner] = left
    else:
        del counts[owner]


def is_thin(file: LogFile) -> bool:
    """Whether little of what the file takes on disk is alive. A fresh copy never is."""
    return file.alive_bytes() * THIN < file.size - BLOCK_BYTES
