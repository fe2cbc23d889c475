"""What a log must hold, written outside of its directory (docs/formats/wal.md, "The proof").

    copies = proof.load(number_of)       # at start: of the list of the files that the log had
    proof.durable_end(file_id, epoch)
    proof.note_list(content)             # after each write of the list; durable on return
    proof.note_end(file_id, epoch, end)  # about once a second

The list of files cannot show that the whole directory is lost, and nothing in a file can show that
its last records were there: zeros over them look like a file that was never filled so far. The
proof has the last two states of the list, without owners, in places of their own, and how far the
newest file was durable. Both are written after what they say has become durable. The latter is not
synced: after a power failure it may be some seconds old, which is still true. A failing disk does
not stop the log: the proof is written no more, and `on_failure` is called once.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Final, final

from warren.checksum import crc32c
from warren.storage.disk import Disk

NAME: Final = "log.proof"
NEW_NAME: Final = "log.proof.new"
MAGIC: Final = b"WARRENLP"
VERSION: Final = 1
END: Final = Struct("<8sIIQQ")  # magic, version, epoch, file id, durable end
CRC: Final = Struct("<I")
LIST_OFFSETS: Final = (4096, 4096 + (256 << 10))
LIST_BYTES_MAX: Final = 256 << 10  # 5,400 files; of a longer list no copy is kept
SIZE: Final = LIST_OFFSETS[1] + LIST_BYTES_MAX  # allocated: a full disk does not matter
UNKNOWN: Final = (0, 0, 0)


@final
class LogProof:
    """The proof of one log. `load` once, then `note_*` from any thread."""

    def __init__(
        self, disk: Disk, directory: str, on_failure: Callable[[OSError], None] | None = None
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._path = os.path.join(directory, NAME)
        self._on_failure = on_failure
        self._handle = -1
        self._has_failed = False
        self._end = UNKNOWN  # file id, epoch, end: of the process before, then as noted
        self._next = 0  # which copy to overwrite: not the one that alone may be sound
        self._has_written_both = False

    def load(self, number_of: Callable[[bytes], int]) -> list[bytes]:
        """The copies of the list of files, sound or not. `number_of`: of a copy; -1 is torn."""
        if NAME not in self._disk.list(self._directory):
            return []
        self._handle = self._disk.open(self._path)
        self._disk.fsync(self._handle)  # A killed process may have left a write in the cache.
        self._end = decode_end(self._disk.pread(self._handle, END.size + CRC.size, 0))
        copies = [self._disk.pread(self._handle, LIST_BYTES_MAX, at) for at in LIST_OFFSETS]
        numbers = [number_of(copy) for copy in copies]
        self._next = 1 if numbers[0] > numbers[1] else 0
        return copies

    def durable_end(self, file_id: int, epoch: int) -> int:
        """All bytes of the file before it were durable; 0: nothing is known of this file."""
        known_id, known_epoch, end = self._end
        return end if (known_id, known_epoch) == (file_id, epoch) else 0

    def note_end(self, file_id: int, epoch: int, end: int) -> None:
        """All bytes of the newest file before `end` are durable."""
        if self._handle < 0 or self._has_failed or self._end == (file_id, epoch, end):
            return
        self._end = (file_id, epoch, end)
        try:
            self._disk.pwritev(self._handle, [encode_end(file_id, epoch, end)], 0, False)
        except OSError as error:
            self._fail(error)

    def note_list(self, content: bytes) -> None:
        """The list of files, which is durable. The first call writes both copies, and last the one
        that is known to be sound: the other may be torn by an earlier crash."""
        if self._has_failed or len(content) > LIST_BYTES_MAX:
            return
        try:
            if self._handle < 0:
                self._handle = self._create()
            for _ in range(1 if self._has_written_both else len(LIST_OFFSETS)):
                self._disk.pwritev(self._handle, [content], LIST_OFFSETS[self._next], True)
                self._next = 1 - self._next
            self._has_written_both = True
        except OSError as error:
            self._fail(error)

    def _create(self) -> int:
        """Make the file, durably: the directory of the log may be lost from now on."""
        new = os.path.join(self._directory, NEW_NAME)
        if NEW_NAME in self._disk.list(self._directory):  # Left by a crash.
            self._disk.unlink(new)
        handle = self._disk.create(new, SIZE)
        try:
            self._disk.fsync(handle)
            self._disk.rename(new, self._path)
            self._disk.fsync_directory(self._directory)
        except OSError:
            with suppress(OSError):
                self._disk.close(handle)
            raise
        return handle

    def _fail(self, error: OSError) -> None:
        self._has_failed = True
        if self._on_failure is not None:
            self._on_failure(error)

    def close(self) -> None:
        """No `note_*` comes after it."""
        if self._handle >= 0:
            self._disk.close(self._handle)
            self._handle = -1


def encode_end(file_id: int, epoch: int, end: int) -> bytes:
    """The beginning of the proof."""
    head = END.pack(MAGIC, VERSION, epoch, file_id, end)
    return head + CRC.pack(crc32c(head))


def decode_end(block: bytes) -> tuple[int, int, int]:
    """File id, epoch and durable end; zeros: they are damaged, or were never written."""
    if len(block) < END.size + CRC.size:
        return UNKNOWN
    magic, version, epoch, file_id, end = END.unpack_from(block)
    (crc,) = CRC.unpack_from(block, END.size)
    if magic != MAGIC or version != VERSION or crc != crc32c(block[: END.size]):
        return UNKNOWN
    return file_id, epoch, end
