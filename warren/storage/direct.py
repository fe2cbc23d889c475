"""Reads and writes past the page cache, for what is written once and read late. Compiled.

    disk = DirectDisk(OsDisk())  # keeps `Disk`, and so `PageDisk`

What a log writes is in the memory of this process for as long as it is needed soon. A second copy
in the page cache costs a copy, and where memory is filling up a fresh page, which is several times
the write; to read back what has left that cache costs as much again (docs/decisions/0010). So

- a write that begins and ends at borders of blocks goes past the cache, as does one that begins
  where the last one of its file, padded with zeros up to such a border, has really ended;
- a read of LEAST_READ_BYTES or more does, by as much more as it takes to be whole blocks;
- all others are ordinary ones, and so is everything while `Recall` says that the cache should keep
  what is written, and on a file that the file system cannot do this for.

A small synced write can be begun without a thread (`submit`).

The kernel keeps both kinds in step, as long as what is written through the cache is synced at once:
the caller sees to it that it is. One thread at a time writes to a file; any may read. Each thread
has memory of its own, in one of three sizes; an open file has a second handle.
"""

import errno
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Final, Protocol, final

from mypy_extensions import i64

from warren.storage.disk import Disk, cut, with_path
from warren.storage.recall import Recall
from warren.storage.record import Buffer
from warren.storage.writing.submitted import SyncedWrites

DIRECT_BYTES: Final = 4096  # what a block of any disk is a part of
MEMORY_BYTES_LEAST: Final = 64 << 10  # of a thread that needs no more
MEMORY_BYTES: Final = 2 << 20  # a huge page: the disk writes into it three times as fast
MEMORY_BYTES_MAX: Final = 6 << 20
LEAST_READ_BYTES: Final = 64 << 10  # below it what the kernel reads ahead is worth more
JOINED_BYTES: Final = 512  # parts that are shorter, on an average, are joined first
PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # Shared memory gets no huge pages.
REFUSED: Final = (errno.EINVAL, errno.EOPNOTSUPP)  # of a file system that cannot
LONG_AGO_BYTES: Final = 1 << 60
AGAIN_MAX: Final = 16  # refusals in a row, after which no write is submitted any more
UNKNOWN: Final = -1
ZEROS: Final = bytes(DIRECT_BYTES)
NOT_POSSIBLE: Final = -2


class DirectCalls(Protocol):
    """What is needed of the operating system beside `Disk`; views are whole, aligned blocks."""

    def open_direct(self, handle: int) -> int:
        """A second handle of an open file, which goes past the cache."""

    def pwrite_direct(self, direct: int, view: memoryview, offset: int, dsync: bool) -> int:
        """Bytes written; they may be fewer."""

    def pread_direct(self, direct: int, view: memoryview, offset: int) -> int:
        """Bytes read; fewer only at the end of the file, or for a signal."""

    def close_direct(self, direct: int) -> None: ...


class OsCalls:
    """Those of Linux."""

    def open_direct(self, handle: int) -> int:
        return os.open(f"/proc/self/fd/{handle}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)

    def pwrite_direct(self, direct: int, view: memoryview, offset: int, dsync: bool) -> int:
        return os.pwritev(direct, (view,), offset, os.RWF_DSYNC if dsync else 0)

    def pread_direct(self, direct: int, view: memoryview, offset: int) -> int:
        return os.preadv(direct, (view,), offset)

    def close_direct(self, direct: int) -> None:
        os.close(direct)


@final
class OpenFile:
    """What is known of a file beside its handle. Invariant: `tail` is what lies at `tail_at`."""

    __slots__ = ("base_bytes", "direct", "refused", "tail", "tail_at")

    def __init__(self, base_bytes: i64) -> None:
        self.direct = UNKNOWN  # its second handle
        self.refused = False  # that one does not do it after all
        self.tail = b""  # the last block that was written, if that went past the cache
        self.tail_at: i64 = -1
        self.base_bytes: i64 = base_bytes  # written to all files when this one was begun


@final
class Memory:
    """What calls read into and write from. It begins at a page, as it must."""

    __slots__ = ("map", "size", "view")

    def __init__(self, size: i64) -> None:
        self.size: i64 = size
        self.map = mmap.mmap(-1, size, flags=PRIVATE)
        if size >= MEMORY_BYTES:
            with suppress(OSError):  # A kernel without them.
                self.map.madvise(mmap.MADV_HUGEPAGE)  # A call goes through all pages it uses.
        self.view = memoryview(self.map)


@final
class Memories:
    """One for each thread."""

    def __init__(self) -> None:
        self._local = threading.local()  # No subclass: compiled, it would share its attributes.

    def take(self, byte_count: i64) -> Memory:
        """The thread's own, with so much room unless that is more than there can be."""
        found: Memory | None = getattr(self._local, "memory", None)
        if found is None or found.size < min(byte_count, MEMORY_BYTES_MAX):
            size = MEMORY_BYTES if byte_count <= MEMORY_BYTES else MEMORY_BYTES_MAX
            size = MEMORY_BYTES_LEAST if byte_count <= MEMORY_BYTES_LEAST else size
            found = self._local.memory = Memory(size)
        return found


class DirectDisk:
    """See the module. `pads`: behind a write, up to the border of a block, there is nothing."""

    def __init__(
        self,
        disk: Disk,
        calls: DirectCalls | None = None,
        pads: bool = False,
        writes: SyncedWrites | None = None,
    ) -> None:
        self._disk = disk
        self._calls: DirectCalls = OsCalls() if calls is None else calls
        self._pads = pads
        self._writes = writes
        self.can_submit = writes is not None  # whether `submit` may be of any use
        self._submitted = Memory(MEMORY_BYTES_LEAST)
        self._refusals = 0  # of `submit`, in a row
        self._files: dict[int, OpenFile] = {}
        self._memories = Memories()
        self._lock = threading.Lock()  # of what makes second handles, and of `recall`
        self.recall = Recall()

    # Files.

    def create(self, path: str, size: int) -> int:
        handle = self._disk.create(path, size)
        self._files[handle] = OpenFile(self.recall.written_bytes)
        return handle

    def open(self, path: str) -> int:
        handle = self._disk.open(path)
        self._files[handle] = OpenFile(-LONG_AGO_BYTES)
        return handle

    def close(self, handle: int) -> None:
        file = self._files.pop(handle)
        try:
            if file.direct >= 0:
                self._calls.close_direct(file.direct)
        finally:
            self._disk.close(handle)

    def _is_possible(self, file: OpenFile, handle: int) -> bool:
        """Whether there is a second handle; it is made with the first use."""
        if file.direct == UNKNOWN:
            with self._lock:
                if file.direct == UNKNOWN:
                    try:
                        file.direct = self._calls.open_direct(handle)
                    except OSError:  # No such thing here, or no /proc: ordinary calls will do.
                        file.direct = NOT_POSSIBLE
        return file.direct >= 0 and not file.refused

    def fsync(self, handle: int) -> None:
        self._disk.fsync(handle)

    def fsync_directory(self, path: str) -> None:
        self._disk.fsync_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._disk.rename(old, new)

    def unlink(self, path: str) -> None:
        self._disk.unlink(path)

    def truncate(self, handle: int, size: int) -> None:
        self._files[handle].tail_at = -1
        self._disk.truncate(handle, size)

    def list(self, directory: str) -> list[str]:
        return self._disk.list(directory)

    def size(self, path: str) -> int:
        return self._disk.size(path)

    def free_bytes(self, directory: str) -> int:
        return self._disk.free_bytes(directory)

    def total_bytes(self, directory: str) -> int:
        return self._disk.total_bytes(directory)

    # Writing.

    def pwritev(self, handle: int, parts: Sequence[Buffer], offset: int, dsync: bool) -> None:
        file = self._files[handle]
        total: i64 = 0
        for part in parts:
            total += len(part)
        lead: i64 = offset % DIRECT_BYTES
        goes_on = lead == 0 or file.tail_at == offset - lead
        ends_well = self._pads or (offset + total) % DIRECT_BYTES == 0
        with self._lock:
            if offset <= DIRECT_BYTES:  # The file is begun, maybe not for the first time.
                file.base_bytes = self.recall.written_bytes - offset
            self.recall.wrote(total)
            keeps = self.recall.keeps
        tail = file.tail
        file.tail_at = -1  # Until it is written again.
        if keeps or not goes_on or not ends_well or not self._is_possible(file, handle):
            self._disk.pwritev(handle, parts, offset, dsync)
            return
        if total < JOINED_BYTES * i64(len(parts)):
            parts = (b"".join(parts),)
        memory = self._memories.take(lead + total + DIRECT_BYTES)
        put = memory.map.write
        memory.map.seek(0)
        put(tail[:lead])
        filled = lead
        at: i64 = offset - lead
        for part in parts:
            if filled + i64(len(part)) <= memory.size:
                put(part)
                filled += len(part)
                continue
            rest = memoryview(part)
            while len(rest) > 0:
                if filled == memory.size:
                    self._write(file, handle, memory.view, at, dsync)
                    memory.map.seek(0)
                    at += filled
                    filled = 0
                count: i64 = min(len(rest), memory.size - filled)
                put(rest[:count])
                rest = rest[count:]
                filled += count
        if filled > 0:
            blank: i64 = -filled % DIRECT_BYTES
            put(ZEROS[:blank])
            self._write(file, handle, memory.view[: filled + blank], at, dsync)

    def _write(
        self, file: OpenFile, handle: int, view: memoryview, offset: i64, dsync: bool
    ) -> None:
        """Whole blocks."""
        length: i64 = len(view)
        written: i64 = 0
        if not file.refused:
            try:
                written = self._calls.pwrite_direct(file.direct, view, offset, dsync)
            except OSError as error:
                if error.errno not in REFUSED:
                    raise with_path(error, handle) from error
                file.refused = True
        if written < length:  # It is full, or wants other multiples: an ordinary write tells.
            self._disk.pwritev(handle, (view[written:],), offset + written, dsync)
        file.tail = bytes(view[length - DIRECT_BYTES :])
        file.tail_at = offset + length - DIRECT_BYTES

    def submit(
        self,
        handle: int,
        parts: Sequence[Buffer],
        offset: int,
        done: Callable[[OSError | None], None],
    ) -> bool:
        """Begin what `pwritev` with `dsync` does; `done` hears on the loop that it is durable, or
        why not. False, or a BlockingIOError for `done`: `pwritev` has to do it.

        For the loop thread; one at a time, and none beside a `pwritev` to the same file.
        """
        total: i64 = 0
        for part in parts:
            total += len(part)
        file = self._files[handle]
        lead: i64 = offset % DIRECT_BYTES
        writes = self._writes
        if (
            writes is None
            or not self.can_submit
            or lead + total > MEMORY_BYTES_LEAST
            or offset <= DIRECT_BYTES
        ):
            return False
        if (offset + total) % DIRECT_BYTES != 0 or (lead != 0 and file.tail_at != offset - lead):
            return False
        if self.recall.keeps or not self._is_possible(file, handle):
            return False
        memory = self._submitted
        put = memory.map.write
        memory.map.seek(0)
        put(file.tail[:lead])
        for part in parts:
            put(part)
        view = memory.view[: lead + total]
        begin = offset - lead
        ended = partial(self._submit_ended, file, view, begin, done)
        if not writes.begin(file.direct, view, begin, ended):
            self._refused_once()
            return False
        with self._lock:
            self.recall.wrote(total)
        return True

    def soon(self, work: Callable[[], None]) -> None:
        """Call it on the loop, behind what is to be done there now. If `can_submit`."""
        assert self._writes is not None
        self._writes.soon(work)

    def end_submits(self) -> None:
        """Wait for what is submitted, and submit nothing any more."""
        self.can_submit = False
        if self._writes is not None:
            self._writes.close()

    def _submit_ended(
        self,
        file: OpenFile,
        view: memoryview,
        offset: i64,
        done: Callable[[OSError | None], None],
        result: int,
    ) -> None:
        length: i64 = len(view)
        if result == length:
            self._refusals = 0
            file.tail = bytes(view[length - DIRECT_BYTES :])
            file.tail_at = offset + length - DIRECT_BYTES
            done(None)
            return
        if result == -errno.EAGAIN:
            self._refused_once()
        elif -result in REFUSED:
            self.can_submit = False
        elif result < 0:
            done(OSError(-result, os.strerror(-result)))
            return
        done(BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)))

    def _refused_once(self) -> None:
        self._refusals += 1
        if self._refusals >= AGAIN_MAX:
            self.can_submit = False

    # Reading.

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        if not self._goes_past(handle, length, offset):
            return self._disk.pread(handle, length, offset)
        room: i64 = MEMORY_BYTES_MAX - DIRECT_BYTES
        found: list[bytes] = []
        at: i64 = offset
        end: i64 = offset + length
        while at < end:
            piece = self._read(handle, at, ((0, min(end - at, room)),))[0]
            if len(piece) == 0:
                break
            found.append(piece)
            at += len(piece)
        return found[0] if len(found) == 1 else b"".join(found)

    def pread_pieces(
        self, handle: int, offset: int, pieces: Sequence[tuple[int, int]]
    ) -> Sequence[bytes]:
        length = pieces[-1][1]
        if self._goes_past(handle, length, offset):
            if length <= MEMORY_BYTES_MAX - DIRECT_BYTES:
                return self._read(handle, offset, pieces)
            return cut(self.pread(handle, length, offset), pieces)
        return self._disk.pread_pieces(handle, offset, pieces)

    def _goes_past(self, handle: int, length: i64, offset: i64) -> bool:
        """Whether this is read past the cache."""
        if length < LEAST_READ_BYTES:
            return False
        file = self._files[handle]
        with self._lock:
            age = self.recall.written_bytes - file.base_bytes - offset
            self.recall.read(length, age)
            is_kept = self.recall.keeps and self.recall.is_soon(age)
        return not is_kept and self._is_possible(file, handle)

    def _read(self, handle: int, offset: i64, pieces: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Pieces of a part that fits into the memory of a thread."""
        file = self._files[handle]
        length: i64 = pieces[-1][1]
        lead: i64 = offset % DIRECT_BYTES
        whole: i64 = (lead + length + DIRECT_BYTES - 1) // DIRECT_BYTES * DIRECT_BYTES
        view = self._memories.take(whole).view
        read: i64 = 0
        begun_s = perf_counter()
        while read < lead + length:
            try:
                more = self._calls.pread_direct(file.direct, view[read:whole], offset - lead + read)
            except OSError as error:
                if error.errno not in REFUSED:
                    raise with_path(error, handle) from error
                file.refused = True
                return self._disk.pread_pieces(handle, offset, pieces)
            read += more
            if more == 0 or read % DIRECT_BYTES > 0:  # the end of the file
                break
        with self._lock:
            self.recall.took(read, perf_counter() - begun_s)
        seen = view[lead : max(lead, min(lead + length, read))]
        return [bytes(seen[begin:end]) for begin, end in pieces]
