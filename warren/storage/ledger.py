"""What is alive in which file, and what each file still has to say. No I/O.

A file may go when nothing in it is alive *and* nothing it says is needed: a SETTLE is needed while
another file holds messages of its owner, for without it they would come back; the newest MARK is
needed as long as its owner. `debts` names what must be written anew, into a newer file, first.
"""

from typing import Final, final

from warren.storage.files import BLOCK_BYTES, LogFile
from warren.storage.record import CHECKPOINT, DELETED, ENTRY, MARK, SETTLE

THIN: Final = 3  # a file is thin when less than one part in so many is alive


@final
class StoredEntry:
    """A live entry of a log group: where its record begins and what it claims there."""

    __slots__ = ("byte_count", "file", "offset")

    def __init__(self, file: LogFile, offset: int, byte_count: int) -> None:
        self.file = file
        self.offset = offset
        self.byte_count = byte_count


@final
class Ledger:
    """Files by id, owners by uid.

    Invariants: `last_seqs[owner]` is at least every message_seq of the owner in any file;
    `publish_files[owner]` is the number of files that have the owner among their `publishers`.
    """

    def __init__(self) -> None:
        self.files: dict[int, LogFile] = {}
        self.last_seqs: dict[int, int] = {}
        self.publish_files: dict[int, int] = {}
        self.mark_files: dict[int, LogFile] = {}  # where the newest MARK is
        # Id of the file with the newest one, or with the beginning of what stands for one.
        self.checkpoints: dict[int, int] = {}
        self.deleted: set[int] = set()  # owners that are gone while messages of theirs are in files
        self.entries: dict[int, dict[int, StoredEntry]] = {}  # ascending indexes
        self.frozen: set[int] = set()  # owners that are damaged: what is in files stays there

    def adopt(self, file: LogFile) -> None:
        """A file with records in it is part of the log now."""
        self.files[file.id] = file
        for owner in file.publishers:
            self.publish_files[owner] = self.publish_files.get(owner, 0) + 1

    def note_publisher(self, file: LogFile, owner: int) -> None:
        """A PUBLISH of the owner was appended to the file."""
        if owner not in file.publishers:
            file.publishers.add(owner)
            self.publish_files[owner] = self.publish_files.get(owner, 0) + 1

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
            self.place_entry(owner, index, file, offset, size)
        elif kind in (CHECKPOINT, DELETED):
            file.settlers.add(owner)
            self.checkpoints[owner] = file.id
            if kind == DELETED:
                self._note_deleted(owner)

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
        for entry in self.entries.pop(owner, {}).values():
            entry.file.live -= entry.byte_count

    def place_entry(self, owner: int, index: int, file: LogFile, offset: int, size: int) -> None:
        """An entry is now in `file`; an older one at that index is dead."""
        file.groups.add(owner)
        entries = self.entries.setdefault(owner, {})
        old = entries.get(index)
        if old is not None:
            old.file.live -= old.byte_count
        entries[index] = StoredEntry(file, offset, size)

    def sort_entries(self, owner: int) -> None:
        self.entries[owner] = dict(sorted(self.entries[owner].items()))

    def release_entries(self, owner: int, index: int) -> bool:
        """Entries up to `index` are dead. True if a file may go now."""
        entries = self.entries.get(owner)
        if entries is None:
            return False
        gone: list[int] = []
        for each in entries:
            if each > index:
                break
            gone.append(each)
        wake = False
        for each in gone:
            entry = entries.pop(each)
            wake = self.release(entry.file.id, entry.byte_count) or wake
        return wake

    def release(self, file_id: int, byte_count: int) -> bool:
        """So many bytes died. True if the file may go or be compacted now, and could not before."""
        file = self.files.get(file_id)
        if file is None:
            return False
        was_thin = is_thin(file)
        file.live -= byte_count
        return file.sealed_lsn >= 0 and (file.live <= 0 or (not was_thin and is_thin(file)))

    def sealed(self, durable_lsn: int) -> list[LogFile]:
        """Sound files that get no more records and have them all on disk."""
        return [
            file
            for file in self.files.values()
            if 0 <= file.sealed_lsn <= durable_lsn
            and not file.corrupt
            and not (self.frozen and self._speaks_of_frozen(file))
        ]

    def entry_places(self, file: LogFile, owner: int) -> list[int]:
        """Where the live entries of the group in this file begin."""
        entries = self.entries.get(owner)
        if entries is None:
            return []
        return [entry.offset for entry in entries.values() if entry.file is file]

    def _speaks_of_frozen(self, file: LogFile) -> bool:
        frozen = self.frozen
        return not (
            frozen.isdisjoint(file.publishers)
            and frozen.isdisjoint(file.settlers)
            and frozen.isdisjoint(file.markers)
        )

    def debts(self, file: LogFile) -> list[tuple[int, int]]:
        """(kind, owner) of what may have to be said again before the file goes; see `owed`."""
        found = [(CHECKPOINT, owner) for owner in file.settlers]
        found.extend([(MARK, owner) for owner in file.markers])
        return found

    def owed(self, file: LogFile, kind: int, owner: int) -> int:
        """The kind of record that must be written for a debt of `file`; 0 if none."""
        if kind == MARK:
            return MARK if owner in file.markers else 0
        if self.checkpoints.get(owner, 0) > file.id or not self._elsewhere(file, owner):
            return 0
        return DELETED if owner in self.deleted else CHECKPOINT

    def _elsewhere(self, file: LogFile, owner: int) -> bool:
        return self.publish_files.get(owner, 0) > (owner in file.publishers)

    def restated(self, owner: int, file_id: int) -> None:
        """What settled the owner's messages has been said anew, beginning in that file."""
        self.checkpoints[owner] = max(self.checkpoints.get(owner, 0), file_id)

    def drop(self, file: LogFile) -> None:
        """The file is gone for good."""
        del self.files[file.id]
        for owner in file.publishers:
            left = self.publish_files[owner] - 1
            if left:
                self.publish_files[owner] = left
                continue
            del self.publish_files[owner]
            if owner in self.deleted:
                self.deleted.discard(owner)
                self.checkpoints.pop(owner, None)


def is_thin(file: LogFile) -> bool:
    """Whether little of what the file takes on disk is alive. A fresh copy never is."""
    return file.alive_bytes() * THIN < file.size - BLOCK_BYTES
