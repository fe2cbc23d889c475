"""The list of the log files that must exist (docs/formats/wal.md, section "The list of files").

    manifest.load()              # at start, before the log files are read
    manifest.add(row)            # a file was made
    manifest.update(row)         # it took its first records, or was sealed
    manifest.remove(file_id)     # before the file is removed
    manifest.write()             # durable on return; any thread

Without the list a removed, shortened or replaced file looks like one that was never there, and its
messages would be missing without a word. A row must never promise more than is durable: a file is
listed after its name is durable and before its first record is confirmed, it is listed as sealed
after its SEAL is durable, and its row is removed before its name is.

The list is one file with two equal copies of the rows, overwritten one after the other. A crash
between the two leaves one sound copy, the older or the newer one; both are true then. It is
overwritten in place so that writing it needs no space on a full disk. The copy that is known to be
sound is overwritten last: the other one may be torn by an earlier crash or a failed write.
"""

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final, final

from warren.checksum import crc32c
from warren.storage.disk import Disk
from warren.storage.log_proof import LogProof

NAME: Final = "files.list"
TMP_NAME: Final = "tmp-00000000000000000000.log"  # removed at start, as all names of this form
MAGIC: Final = b"WARRENFL"
VERSION: Final = 1
# magic, version, number of rows, bytes of the rows, number of the list
HEADER: Final = Struct("<8sIIQQ")
CRC: Final = Struct("<I")
# id, first and last PUBLISH number, end, epoch, is a log, state, owners known, queues, groups
ROW: Final = Struct("<QQQQIBBHII")
QUEUE: Final = Struct("<Q")
GROUP: Final = Struct("<QQ")  # uid, last index
HEADER_BYTES: Final = HEADER.size + CRC.size
BLOCK_BYTES: Final = 4096
CAPACITY_BYTES: Final = 8192  # of a copy in a new list
OWNERS_MAX: Final = 4096  # of one file; of a file with more they are not listed

READY: Final = 0  # it may have no record so far
OPEN: Final = 1  # it has records
SEALED: Final = 2  # it gets no more


@final
class Listed:
    """What the list says of one file.

    `end` is its size, or once it is sealed the offset behind its SEAL. `first` and `last` are the
    numbers of its PUBLISH records (first > last: it has none), known once it is sealed. `queues`
    and `groups` (with the last index of their entries so far) are the owners with records in it;
    None: not known.
    """

    __slots__ = ("end", "epoch", "file_id", "first", "groups", "is_log", "last", "queues", "state")

    def __init__(
        self,
        file_id: int,
        epoch: int,
        is_log: bool,
        state: int,
        end: int,
        first: int = 0,
        last: int = 0,
        queues: frozenset[int] | None = None,
        groups: dict[int, int] | None = None,
    ) -> None:
        self.file_id = file_id
        self.epoch = epoch
        self.is_log = is_log
        self.state = state
        self.end = end
        self.first = first
        self.last = last
        known = queues is not None and groups is not None
        known = known and len(queues or ()) + len(groups or ()) <= OWNERS_MAX
        self.queues = queues if known else None
        self.groups = groups if known else None

    def may_hold(self, owner: int) -> bool:
        """Whether the file may have had records of this queue."""
        return self.queues is None or owner in self.queues

    def encoded(self, with_owners: bool) -> bytes:
        queues = sorted(self.queues or ()) if with_owners else []
        groups = sorted((self.groups or {}).items()) if with_owners else []
        head = ROW.pack(
            self.file_id,
            self.first,
            self.last,
            self.end,
            self.epoch,
            self.is_log,
            self.state,
            with_owners and self.queues is not None,
            len(queues),
            len(groups),
        )
        parts = [head, *(QUEUE.pack(owner) for owner in queues)]
        parts.extend(GROUP.pack(owner, index) for owner, index in groups)
        return b"".join(parts)


def decode_row(view: memoryview, at: int) -> tuple[Listed, int]:
    """The row at `at`, and where the next one begins."""
    file_id, first, last, end, epoch, is_log, state, known, queue_count, group_count = (
        ROW.unpack_from(view, at)
    )
    at += ROW.size
    queues_end = at + QUEUE.size * queue_count
    groups_end = queues_end + GROUP.size * group_count
    queues = frozenset(owner for (owner,) in QUEUE.iter_unpack(view[at:queues_end]))
    groups = dict(GROUP.iter_unpack(view[queues_end:groups_end]))
    row = Listed(
        file_id,
        epoch,
        bool(is_log),
        state,
        end,
        first,
        last,
        queues if known else None,
        groups if known else None,
    )
    return row, groups_end


def encode(rows: Iterable[Listed], number: int, with_owners: bool) -> bytes:
    """One copy of the list, without the zeros behind it."""
    encoded = [row.encoded(with_owners) for row in rows]
    content = b"".join(encoded)
    head = HEADER.pack(MAGIC, VERSION, len(encoded), len(content), number)
    return head + CRC.pack(crc32c(content, crc32c(head))) + content


def decode(copy: bytes) -> tuple[int, list[Listed]] | None:
    """The number and the rows of a copy; None: it is damaged, or was never written."""
    if len(copy) < HEADER_BYTES:
        return None
    magic, version, count, length, number = HEADER.unpack_from(copy)
    (crc,) = CRC.unpack_from(copy, HEADER.size)
    content = memoryview(copy)[HEADER_BYTES : HEADER_BYTES + length]
    if magic != MAGIC or version != VERSION or len(content) != length:
        return None
    if crc32c(content, crc32c(copy[: HEADER.size])) != crc:
        return None
    rows: list[Listed] = []
    at = 0
    for _ in range(count):
        row, at = decode_row(content, at)
        rows.append(row)
    return number, rows


def number_of(copy: bytes) -> int:
    """The number of a copy; the higher it is, the newer. -1: there is no sound one."""
    found = decode(copy)
    return -1 if found is None else found[0]


@final
class Manifest:
    """See the module. The loop thread and those that make and remove files change `rows`; a row
    itself is never changed."""

    def __init__(self, disk: Disk, directory: str, proof: LogProof | None = None) -> None:
        self._disk = disk
        self._directory = directory
        self._proof = proof
        self.path = os.path.join(directory, NAME)
        self.rows: dict[int, Listed] = {}
        self._number = 0
        self._handle = -1
        self._capacity = 0
        self._sound_at = 0  # where a copy is that is durable and sound
        self._is_written = False  # what is on disk is what `rows` says
        self._lock = threading.Lock()  # held while the list is written
        self._rows_lock = threading.Lock()  # held for a moment, for the loop thread waits for it

    def load(self) -> bool:
        """Read the list of an earlier process; False if there is none, or none that is sound."""
        if NAME not in self._disk.list(self._directory):
            return False
        self._capacity = self._disk.size(self.path) // 2
        self._handle = self._disk.open(self.path)
        self._disk.fsync(self._handle)  # A killed process may have left a write in the cache.
        copies = [self._disk.pread(self._handle, self._capacity, at) for at in (0, self._capacity)]
        taken = self.take_copy(copies)
        self._sound_at = 0 if taken is None else self._capacity * taken
        return taken is not None

    def take_copy(self, copies: Sequence[bytes]) -> int | None:
        """Take the rows of the newest sound copy and return its index; None: there is none."""
        taken: int | None = None
        for index, found in enumerate(map(decode, copies)):
            if found is not None and (taken is None or found[0] > self._number):
                taken = index
                self._number, rows = found
                self.rows = {row.file_id: row for row in rows}
        return taken

    def add(self, row: Listed) -> None:
        """The file is there, durably."""
        with self._rows_lock:
            self.rows[row.file_id] = row
            self._is_written = False

    def update(self, row: Listed) -> None:
        """More is known of the file; if it is being removed, that is of no use any more."""
        with self._rows_lock:
            if row.file_id in self.rows:
                self.rows[row.file_id] = row
                self._is_written = False

    def remove(self, file_id: int) -> None:
        """The file may be removed once the list is written."""
        with self._rows_lock:
            if self.rows.pop(file_id, None) is not None:
                self._is_written = False

    def write(self) -> None:
        """Make the rows durable. After an error it can be called again."""
        with self._lock:
            if self._is_written:
                return
            self._is_written = True  # Before the rows are read: a change after that clears it.
            try:
                rows = self._write()
            except OSError:
                self._is_written = False
                raise
            if self._proof is not None:
                self._proof.note_list(encode(rows, self._number, False))

    def _write(self) -> list[Listed]:
        with self._rows_lock:
            rows = list(self.rows.values())
        self._number += 1
        content = encode(rows, self._number, True)
        if len(content) > self._capacity * 3 // 4:
            try:
                self._grow(content)
                return rows
            except OSError:
                if len(content) > self._capacity:  # Leave out what only tells whom a loss hits.
                    content = encode(rows, self._number, False)
                if len(content) > self._capacity:
                    raise
        padded = content.ljust(-(-len(content) // BLOCK_BYTES) * BLOCK_BYTES, b"\0")
        for at in (self._capacity - self._sound_at, self._sound_at):
            self._disk.pwritev(self._handle, [padded], at, True)
            self._sound_at = at
        return rows

    def _grow(self, content: bytes) -> None:
        """Put a new file with room for twice as much in the place of the list."""
        capacity = CAPACITY_BYTES
        while capacity < 2 * len(content):
            capacity *= 2
        path = os.path.join(self._directory, TMP_NAME)
        if TMP_NAME in self._disk.list(self._directory):  # A failed attempt has left it.
            self._disk.unlink(path)
        handle = self._disk.create(path, 2 * capacity)
        try:
            copies = content.ljust(capacity, b"\0") + content.ljust(capacity, b"\0")
            self._disk.pwritev(handle, [copies], 0, False)
            self._disk.fsync(handle)
            self._capacity = 0  # Which of the two files has the name is not known for a moment.
            self._disk.rename(path, self.path)
            self._disk.fsync_directory(self._directory)
        except OSError:
            with suppress(OSError):
                self._disk.close(handle)
            raise
        self.close()
        self._handle = handle
        self._capacity = capacity
        self._sound_at = 0

    def close(self) -> None:
        if self._handle >= 0:
            self._disk.close(self._handle)
            self._handle = -1
