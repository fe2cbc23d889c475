"""The files that an earlier process left, opened: logs, segments, and what is missing of them.

Compares the directory with the list of files (`warren.storage.manifest`), finds the epoch of a file
whose first block is damaged, and removes what was being made. A listed file that is missing, or of
which nothing can be read, is a `CorruptRecord` in `unread`. Compiled.
"""

import os
from typing import final

from warren.storage.disk import Disk
from warren.storage.files import (
    BLOCK_BYTES,
    SEGMENT_PREFIX,
    SPARE_PREFIX,
    TMP_PREFIX,
    WAL_PREFIX,
    FilePool,
    LogFile,
    copied_header,
    decode_header,
    id_of,
    salvaged_epoch,
)
from warren.storage.log_proof import LogProof
from warren.storage.manifest import NAME as LIST_NAME
from warren.storage.manifest import READY, SEALED, Listed, number_of
from warren.storage.places import WALK_BYTES
from warren.storage.record import (
    FILE_HEADER,
    FILE_LIST,
    HEADER_BYTES,
    CorruptRecord,
    claimed_epoch,
)
from warren.storage.recovery.scan import WHOLE, Scan


@final
class Opening:
    """`run` once; then the attributes are what was found."""

    def __init__(self, disk: Disk, directory: str, pool: FilePool) -> None:
        self._disk = disk
        self._directory = directory
        self._pool = pool
        self._proof: LogProof | None = pool.proof
        self.logs: list[LogFile] = []
        self.segments: list[LogFile] = []
        self.tail: LogFile | None = None  # the newest log with a record
        self.last_file_id = 0
        self.last_index = 0  # of a PUBLISH, as far as the list says
        self.torn: tuple[str, int] | None = None
        self.corrupt: list[CorruptRecord] = []
        self.unread: list[CorruptRecord] = []  # files of which nothing could be read
        self._listed: dict[int, Listed] = {}
        self._hollow: LogFile | None = None  # the tail, if all its records are gone

    def run(self) -> None:
        self._load_list()
        self._open_files()
        self._look_for_missing({file.id for file in (*self.logs, *self.segments)})
        self.tail = self._drop_empty(self.logs)

    def row(self, file_id: int) -> Listed | None:
        """What the list says of a file; None: it is not listed."""
        return self._listed.get(file_id)

    def _load_list(self) -> None:
        """Read the list of the files, which is there before any of them."""
        manifest = self._pool.manifest
        copies = [] if self._proof is None else self._proof.load(number_of)
        names = self._disk.list(self._directory)
        has_files = any(name.startswith((LIST_NAME, WAL_PREFIX, SEGMENT_PREFIX)) for name in names)
        if manifest.load() or (not has_files and manifest.take_copy(copies) is not None):
            self._listed = manifest.rows
            self.last_file_id = max(self._listed, default=0)
            self.last_index = max([row.last for row in self._listed.values()], default=0)
            return
        if has_files:
            reason = "is damaged" if LIST_NAME in names else "is missing"
            reason += ", so that a missing log file would not be noticed"
            self.corrupt.append(CorruptRecord(manifest.path, 0, FILE_LIST, reason=reason))

    def _open_files(self) -> None:
        """Open the files with records; remove what was being made."""
        self._disk.fsync_directory(self._directory)  # A killed process may have left new names.
        logs = self.logs
        for name in reversed(self._disk.list(self._directory)):  # The newest log first: `_salvage`.
            path = os.path.join(self._directory, name)
            if id_of(name) < 0:
                continue
            self.last_file_id = max(self.last_file_id, id_of(name))
            if name.startswith(TMP_PREFIX):
                self._disk.unlink(path)
            elif name.startswith(SPARE_PREFIX):
                self._pool.adopt_spare(path)
            else:
                of_log = name.startswith(WAL_PREFIX)
                file = self._open(path, id_of(name), logs if of_log else None)
                if file is not None:
                    (logs if of_log else self.segments).append(file)
        logs.reverse()

    def _look_for_missing(self, found: set[int]) -> None:
        """Note the files that are listed and are not in the directory."""
        found.update(id_of(os.path.basename(bad.path)) for bad in self.unread)
        for file_id in sorted(set(self._listed) - found):
            row = self._listed[file_id]
            path = self._pool.path(WAL_PREFIX if row.is_log else SEGMENT_PREFIX, file_id)
            bad = CorruptRecord(path, 0, reason="is missing")
            self.corrupt.append(bad)
            self.unread.append(bad)

    def durable_end(self, file: LogFile) -> int:
        """All bytes of the file before it must be there: a bad place there is no torn end."""
        row = self._listed.get(file.id)
        if file is not self.tail or file is self._hollow:
            return WHOLE
        if row is not None and (row.state == SEALED or file.size < row.end):
            return WHOLE
        return 0 if self._proof is None else self._proof.durable_end(file.id, file.epoch)

    def _open(self, path: str, file_id: int, newer: list[LogFile] | None) -> LogFile | None:
        """The file, if its header can be known; `newer` logs if it is a log."""
        handle = self._disk.open(path)
        block = self._disk.pread(handle, BLOCK_BYTES, 0)
        header = decode_header(block)
        row = self._listed.get(file_id)
        if header is None or header[0] != file_id or (row is not None and header[1] != row.epoch):
            header = self._salvage(handle, path, file_id, block, newer)
            if header is None:
                self._disk.close(handle)
                return None  # Left in the directory as it is; someone may still read it by hand.
        file = LogFile(file_id, path, header[1], self._disk.size(path))
        file.handle = handle
        file.written_before = header[2]
        file.sealed_lsn = 0
        return file

    def _salvage(
        self, handle: int, path: str, file_id: int, block: bytes, newer: list[LogFile] | None
    ) -> tuple[int, int, bool] | None:
        """The header of a file whose first block is damaged: its copy, or what the records say."""
        header = copied_header(block, file_id)
        row = self._listed.get(file_id)
        if row is not None:
            if header is None or header[1] != row.epoch:
                header = file_id, row.epoch, False
            scan = Scan(self._disk, handle, path, self._disk.size(path), row.epoch)
            if row.state != READY and not scan.has_records():
                header = None
        else:
            for epoch in (salvaged_epoch(block, file_id), self._epoch_of_first(handle, newer)):
                if header is None and epoch >= 0:
                    scan = Scan(self._disk, handle, path, self._disk.size(path), epoch)
                    if scan.read(BLOCK_BYTES) is not None:
                        header = file_id, epoch, False
        reason = "" if header is not None else "has not the content that was written"
        bad = CorruptRecord(path, 0, 0 if header is None else FILE_HEADER, reason=reason)
        self.corrupt.append(bad)
        if header is None:
            self.unread.append(bad)
        return header

    def _epoch_of_first(self, handle: int, newer: list[LogFile] | None) -> int:
        """What the first record claims; -1 if it may be of an earlier life of the file.

        A segment has no other life. Logs are filled in order, so one was full if a newer one has a
        record; else it may have been taken into use without any so far.
        """
        if newer is None or any(self._scan(file).has_records() for file in newer):
            return claimed_epoch(self._disk.pread(handle, HEADER_BYTES, BLOCK_BYTES))
        return -1

    def _drop_empty(self, logs: list[LogFile]) -> LogFile | None:
        """The newest log with a record; newer ones were taken into use for nothing yet."""
        while logs:
            newest = logs[-1]
            scan = self._scan(newest)
            if scan.has_records():
                return newest
            row = self._listed.get(newest.id)
            if row is not None and row.state != READY:
                self._hollow = newest
                return newest
            if scan.was_begun():
                self.torn = (newest.path, BLOCK_BYTES)
            self._pool.take_back(newest)
            logs.pop()
        return None

    def _scan(self, file: LogFile) -> Scan:
        return Scan(self._disk, file.handle, file.path, file.size, file.epoch, WALK_BYTES)
