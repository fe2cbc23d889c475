"""Files of the log: their names, their first block, and the pool of spare ones.

    wal-<id>.log     written by appends; the newest ones may have no record yet
    seg-<id>.log     what compaction copied together; whole and synced before it has this name
    spare-<id>.log   pre-allocated, every block written once; holds nothing
    tmp-<id>.log     being made; removed at start

An id is never used twice. The first 4096 bytes are the header: magic, version u32, flags u32
(bit 0: every block of the file was written before, so that overwriting needs no new extents),
id u64, epoch u32, crc u32 of all that; the same again at COPY_AT, in another sector; the rest is
zeros. A file gets its header and then its name, and the directory is synced, before anything in it
is reported durable.
"""

import os
import threading
from array import array
from bisect import bisect_right
from collections import deque
from struct import Struct
from typing import Final, final

from warren.checksum import crc32c
from warren.storage.disk import Disk
from warren.storage.log_proof import LogProof
from warren.storage.manifest import OPEN, READY, Listed, Manifest

BLOCK_BYTES: Final = 4096  # of the header; records begin here
MAGIC: Final = b"WARRENWL"
FORMAT_VERSION: Final = 1
FLAG_WRITTEN: Final = 1
HEADER: Final = Struct("<8sIIQI")
HEADER_CRC: Final = Struct("<I")
COPY_AT: Final = 2048  # of the header; read only where that is damaged
WAL_PREFIX: Final = "wal-"
SEGMENT_PREFIX: Final = "seg-"
SPARE_PREFIX: Final = "spare-"
TMP_PREFIX: Final = "tmp-"
SLICE_BYTES: Final = 1 << 20
LANDMARK_BYTES: Final = 1 << 16  # about so far apart are the records that a file remembers
ZEROS: Final = bytes(SLICE_BYTES)


@final
class LogFile:
    """One file and what is known of it. All but `handle` belongs to the loop thread.

    `live` counts data bytes once for each target that still needs them, so it is 0 exactly when
    no owner needs the file for its messages and entries; `claimed` is the same of all that was ever
    put in, and `stored` how many bytes their records take.
    """

    __slots__ = (
        "claimed",
        "corrupt",
        "durable_offset",
        "epoch",
        "first_index",
        "groups",
        "handle",
        "harmless",
        "id",
        "landmarks",
        "last_index",
        "live",
        "lock",
        "markers",
        "next_landmark",
        "path",
        "pins",
        "publishers",
        "sealed_lsn",
        "settlers",
        "size",
        "stated",
        "stored",
        "unread",
        "used",
        "written_before",
    )

    def __init__(self, file_id: int, path: str, epoch: int, size: int) -> None:
        self.id = file_id
        self.path = path
        self.epoch = epoch
        self.size = size
        self.handle = -1  # -1 until the file is on disk under its name
        self.lock = threading.Lock()  # held by the thread that puts it there
        self.written_before = False
        self.durable_offset = BLOCK_BYTES
        self.used = BLOCK_BYTES
        self.sealed_lsn = -1  # -1 while it is, or may become, the active one
        self.first_index = 1  # of its PUBLISH records; first > last: it has none
        self.last_index = 0
        self.live = 0
        self.claimed = 0
        self.stored = 0
        self.pins = 0  # reads under way
        self.corrupt = False  # it has bad places, and is not rewritten
        self.unread = False  # the disk would not read it: it is not rewritten for now
        self.harmless = False  # no owner misses what was there
        self.publishers: set[int] = set()  # owners with a PUBLISH in it, dead ones too
        self.settlers: set[int] = set()  # owners with SETTLE, CHECKPOINT or DELETED in it
        self.markers: set[int] = set()  # owners whose newest MARK is in it
        # Log groups with an ENTRY, a RAFT_ENTRY or a HARD_STATE in it, dead ones too.
        self.groups: set[int] = set()
        self.stated: set[int] = set()  # members whose newest HARD_STATE is in it
        # Where some of the records begin, ascending, the first one included: so that a record can
        # be found by a place inside of it. Empty: unknown.
        self.landmarks: array[int] = array("I")
        self.next_landmark = 0

    def claim(self, data_bytes: int, stored_bytes: int) -> None:
        """A record was put in: `data_bytes`, summed over its targets, are alive."""
        self.live += data_bytes
        self.claimed += data_bytes
        self.stored += stored_bytes

    def note_landmark(self, offset: int) -> None:
        """A record begins there. Call for all records in order, or for none."""
        if offset >= self.next_landmark:
            self.landmarks.append(offset)
            self.next_landmark = offset + LANDMARK_BYTES

    def landmark_before(self, offset: int) -> int:
        """Where a record begins that is at or before `offset`, and not far from it."""
        return self.landmarks[bisect_right(self.landmarks, offset) - 1]

    def note_index(self, index: int) -> None:
        """A PUBLISH of a file that was read, or copied together, has this number."""
        if self.first_index > self.last_index:
            self.first_index = self.last_index = index
        elif index < self.first_index:
            self.first_index = index
        elif index > self.last_index:
            self.last_index = index

    def alive_bytes(self) -> int:
        """About how many bytes a copy without the dead messages would take."""
        return self.stored * self.live // self.claimed if self.claimed else 0


def encode_header(file_id: int, epoch: int, written_before: bool) -> bytes:
    """The first block of a file."""
    flags = FLAG_WRITTEN if written_before else 0
    head = HEADER.pack(MAGIC, FORMAT_VERSION, flags, file_id, epoch)
    header = head + HEADER_CRC.pack(crc32c(head))
    return (header.ljust(COPY_AT, b"\0") + header).ljust(BLOCK_BYTES, b"\0")


def salvaged_epoch(block: bytes, file_id: int) -> int:
    """The epoch that a damaged header claims, if the rest of it may be that of this file; else -1.

    It counts only if the first record says the same: the file may hold those of an earlier life.
    """
    if len(block) < HEADER.size:
        return -1
    magic, version, _, its_id, epoch = HEADER.unpack_from(block)
    agreed = (magic == MAGIC) + (version == FORMAT_VERSION) + (its_id == file_id)
    found: int = epoch
    return found if agreed >= 2 else -1


def copied_header(block: bytes, file_id: int) -> tuple[int, int, bool] | None:
    """What the copy of a damaged header says; None: it is damaged too, or of an earlier version."""
    header = decode_header(block[COPY_AT:])
    return header if header is not None and header[0] == file_id else None


def decode_header(block: bytes) -> tuple[int, int, bool] | None:
    """(id, epoch, written_before) of a file, or None if this is not the header of one."""
    if len(block) < HEADER.size + 4:
        return None
    magic, version, flags, file_id, epoch = HEADER.unpack_from(block)
    (crc,) = HEADER_CRC.unpack_from(block, HEADER.size)
    if magic != MAGIC or version != FORMAT_VERSION or crc32c(block[: HEADER.size]) != crc:
        return None
    return file_id, epoch, bool(flags & FLAG_WRITTEN)


def name_of(prefix: str, file_id: int) -> str:
    return f"{prefix}{file_id:020d}.log"


def id_of(name: str) -> int:
    """The id in a name made by `name_of`, or -1."""
    prefix, _, rest = name.partition("-")
    digits, _, ending = rest.partition(".")
    known = prefix + "-" in (WAL_PREFIX, SEGMENT_PREFIX, SPARE_PREFIX, TMP_PREFIX)
    if not known or ending != "log" or len(digits) != 20 or not digits.isdecimal():
        return -1
    return int(digits)


class FilePool:
    """The spare files, and the making and taking away of files.

    Its methods do I/O and are called from the writer and the background thread; what both touch
    is a deque and, for each file, that file's lock.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        file_bytes: int,
        spares_max: int,
        proof: LogProof | None = None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._file_bytes = file_bytes
        self._spares_max = spares_max
        self._spares: deque[Blank] = deque()
        self._begun: dict[int, Blank] = {}  # by file id: not ready yet, for something failed
        self._making: SpareMaking | None = None
        self._debris: list[str] = []  # what could not be removed when it was not needed any more
        self.proof = proof
        self.manifest = Manifest(disk, directory, proof)

    def path(self, prefix: str, file_id: int) -> str:
        return os.path.join(self._directory, name_of(prefix, file_id))

    @property
    def spare_count(self) -> int:
        return len(self._spares)

    def adopt_spare(self, path: str) -> None:
        """Take over a spare of an earlier process; what has not the right size goes."""
        if self._disk.size(path) == self._file_bytes and self.spare_count < self._spares_max:
            self._spares.append(Blank(path, self._disk.open(path)))
        else:
            self._disk.unlink(path)

    def make_ready(self, file: LogFile) -> None:
        """Put the file on disk: header, name, synced directory, its row in the list of files.
        The second call does nothing.

        After an error it can be called again. A directory whose sync has failed once may have
        forgotten the name, and say so never again: the file is renamed again then.
        """
        with file.lock:
            if file.handle >= 0:
                return
            blank = self._begun.get(file.id)
            if blank is None:
                blank = self._begun[file.id] = self._blank(file)
            elif blank.path == file.path:
                self.manifest.remove(file.id)
                self.manifest.write()
                self._rename(blank, self.path(TMP_PREFIX, file.id))
            block = encode_header(file.id, file.epoch, file.written_before)
            self._disk.pwritev(blank.handle, [block], 0, True)
            self._rename(blank, file.path)
            self._disk.fsync_directory(self._directory)
            self.manifest.add(Listed(file.id, file.epoch, True, READY, file.size))
            self.manifest.write()
            file.handle = blank.handle
            del self._begun[file.id]

    def note_records(self, file: LogFile) -> None:
        """List that the file has records now. Durable on return."""
        self.manifest.update(Listed(file.id, file.epoch, True, OPEN, file.size))
        self.manifest.write()

    def _rename(self, blank: "Blank", path: str) -> None:
        self._disk.rename(blank.path, path)
        blank.path = path

    def _blank(self, file: LogFile) -> "Blank":
        if file.size == self._file_bytes:
            try:
                spare = self._spares.popleft()
            except IndexError:
                pass  # None there, or the other thread was quicker.
            else:
                file.written_before = True
                return spare
        file.written_before = False
        path = self.path(TMP_PREFIX, file.id)
        return Blank(path, self._disk.create(path, file.size))

    def take_back(self, file: LogFile) -> bool:
        """The file is not needed: make a spare of it (True), or remove it. Durable on return.

        Its handle is not its own any more then. After an error it can be called again.
        """
        self.manifest.remove(file.id)
        self.manifest.write()
        reusable = (
            file.written_before
            and file.size == self._file_bytes
            and not file.corrupt
            and file.path != ""  # removed by the first call, which failed after that
            and self.spare_count + (self._making is not None) < self._spares_max
        )
        if reusable:
            path = self.path(SPARE_PREFIX, file.id)
            if file.path != path:
                self._disk.rename(file.path, path)
                file.path = path
            self._disk.fsync_directory(self._directory)
            self._spares.append(Blank(path, file.handle))
            file.handle = -1
        else:
            if file.path:
                self._disk.unlink(file.path)
                file.path = ""
            self._disk.fsync_directory(self._directory)
            handle, file.handle = file.handle, -1
            if handle >= 0:  # Else this is the second call, and closing it has failed.
                self._disk.close(handle)
        return reusable

    def begin_spare(self, file_id: int) -> bool:
        """Allocate a new spare, to be written over; False if there are enough."""
        if self.spare_count >= self._spares_max:
            return False
        while self._debris:
            self._disk.unlink(self._debris[-1])
            self._debris.pop()
        path = self.path(TMP_PREFIX, file_id)
        self._making = SpareMaking(file_id, path, self._disk.create(path, self._file_bytes))
        return True

    def write_slice(self) -> bool:
        """Write zeros over the next slice of it; True when the spare is on the pool.

        Each slice is synced alone: one sync of the whole file would hold up those of the log.
        """
        making = self._making
        assert making is not None
        try:
            return self._write_slice(making)
        except OSError:
            self._making = None
            self.discard(making.path, making.handle)
            raise

    def _write_slice(self, making: "SpareMaking") -> bool:
        length = min(SLICE_BYTES, self._file_bytes - making.offset)
        zeros = ZEROS if length == SLICE_BYTES else ZEROS[:length]
        self._disk.pwritev(making.handle, [zeros], making.offset, True)
        making.offset += length
        if making.offset < self._file_bytes:
            return False
        path = self.path(SPARE_PREFIX, making.file_id)
        self._disk.rename(making.path, path)
        making.path = path
        self._disk.fsync_directory(self._directory)
        self._making = None
        self._spares.append(Blank(path, making.handle))
        return True

    def discard(self, path: str, handle: int) -> None:
        """Remove what was being made. What cannot be removed now is, before the next spare."""
        try:
            self._disk.close(handle)
            self._disk.unlink(path)
        except OSError:
            self._debris.append(path)

    def close(self) -> None:
        while self._spares:
            self._disk.close(self._spares.popleft().handle)
        for blank in self._begun.values():
            self._disk.close(blank.handle)
        self._begun.clear()
        if self._making is not None:
            self._disk.close(self._making.handle)
            self._making = None
        self.manifest.close()
        if self.proof is not None:
            self.proof.close()


@final
class Blank:
    """A file without content, and the name that it has just now."""

    __slots__ = ("handle", "path")

    def __init__(self, path: str, handle: int) -> None:
        self.path = path
        self.handle = handle


@final
class SpareMaking:
    """A spare that is being written over."""

    __slots__ = ("file_id", "handle", "offset", "path")

    def __init__(self, file_id: int, path: str, handle: int) -> None:
        self.file_id = file_id
        self.path = path
        self.handle = handle
        self.offset = 0
