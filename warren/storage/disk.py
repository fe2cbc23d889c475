"""The only calls to files: what storage needs of a disk, and the operating system's one.

Everything else in this package works on the `Disk` Protocol, so that tests can put a disk beneath
it that tears, forgets, fills up and fails.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Final, Protocol

from warren.storage.record import Buffer

PARTS_MAX: Final = 1024  # IOV_MAX of Linux
DIRECT_BYTES: Final = 4096  # what a block of any disk is a part of
DIRECT_BUFFER_BYTES: Final = 2 << 20
LOCK_NAME: Final = "lock"


class DirectoryInUse(Exception):
    """Another process has this data directory."""


class Disk(Protocol):
    """Files by path; open ones by handle. Every call either does all of it or raises OSError."""

    def create(self, path: str, size: int) -> int:
        """Make a new file with `size` bytes allocated, reading as zeros; return its handle."""

    def open(self, path: str) -> int:
        """Handle for reading and writing an existing file."""

    def close(self, handle: int) -> None: ...

    def pwritev(self, handle: int, parts: Sequence[Buffer], offset: int, dsync: bool) -> None:
        """Write the parts one after the other; with `dsync` they are durable on return."""

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    def fsync(self, handle: int) -> None: ...

    def fsync_directory(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def truncate(self, handle: int, size: int) -> None: ...

    def list(self, directory: str) -> list[str]:
        """Names in it, in ascending order."""

    def size(self, path: str) -> int: ...

    def free_bytes(self, directory: str) -> int: ...


class OsDisk:
    """The disk of this machine. Safe to use from several threads."""

    def create(self, path: str, size: int) -> int:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if size:
                os.posix_fallocate(handle, 0, size)
        except OSError as error:
            os.close(handle)
            os.unlink(path)
            raise OSError(error.errno, error.strerror, path) from error
        return handle

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, handle: int) -> None:
        os.close(handle)

    def pwritev(self, handle: int, parts: Sequence[Buffer], offset: int, dsync: bool) -> None:
        if len(parts) > PARTS_MAX:
            # One call, for the sync of a later call does not cover what an earlier one wrote.
            step = (len(parts) + PARTS_MAX - 1) // PARTS_MAX
            parts = [b"".join(parts[at : at + step]) for at in range(0, len(parts), step)]
        total = sum(map(len, parts))
        flags = os.RWF_DSYNC if dsync else 0
        try:
            written = os.pwritev(handle, parts, offset, flags)
            while written < total:  # A signal or a full disk cut it short; what went is synced.
                rest = memoryview(b"".join(parts))[written:]
                more = os.pwritev(handle, [rest], offset + written, flags)
                if not more:
                    raise OSError(errno.EIO, f"written no more than {written} of {total} bytes")
                written += more
        except OSError as error:
            raise with_path(error, handle) from error

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        try:
            found = os.pread(handle, length, offset)
            while len(found) < length:
                more = os.pread(handle, length - len(found), offset + len(found))
                if not more:
                    break
                found += more
        except OSError as error:
            raise with_path(error, handle) from error
        return found

    def fsync(self, handle: int) -> None:
        try:
            os.fdatasync(handle)
        except OSError as error:
            raise with_path(error, handle) from error

    def fsync_directory(self, path: str) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        finally:
            os.close(handle)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def truncate(self, handle: int, size: int) -> None:
        try:
            os.ftruncate(handle, size)
        except OSError as error:
            raise with_path(error, handle) from error

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def free_bytes(self, directory: str) -> int:
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize


def with_path(error: OSError, handle: int) -> OSError:
    """The same error with the path of the open file, which calls by handle do not tell."""
    try:
        path = os.readlink(f"/proc/self/fd/{handle}")
    except OSError:  # No such file system here: the number is all there is to say.
        path = f"file descriptor {handle}"
    return OSError(error.errno, error.strerror, path)


class DirectDisk:
    """Writes past the page cache, for what is written once and is not needed soon.

    On a machine whose memory is filling up, a fresh page of the cache costs ten times the write.
    Keeps `warren.storage.pages.PageDisk`, and wants writes at multiples of DIRECT_BYTES; what lies
    behind a write up to the next multiple is overwritten. Where the file system cannot do it, the
    writes are ordinary ones. One thread writes.
    """

    def __init__(self, disk: OsDisk) -> None:
        self._disk = disk
        self._buffer = mmap.mmap(-1, DIRECT_BUFFER_BYTES)  # page-aligned, as it must be

    def create(self, path: str, size: int) -> int:
        handle = self._disk.create(path, size)
        try:
            set_direct(handle, True)
        except OSError:
            return handle  # This file system has no such thing.
        return handle

    def open(self, path: str) -> int:
        return self._disk.open(path)

    def close(self, handle: int) -> None:
        self._disk.close(handle)

    def pwritev(self, handle: int, parts: Sequence[Buffer], offset: int, dsync: bool) -> None:
        assert offset % DIRECT_BYTES == 0 and not dsync
        filled = 0
        for part in parts:
            rest = memoryview(part)
            while len(rest):
                taken = min(len(rest), DIRECT_BUFFER_BYTES - filled)
                self._buffer[filled : filled + taken] = rest[:taken]
                rest = rest[taken:]
                filled += taken
                if filled == DIRECT_BUFFER_BYTES:
                    self._write(handle, filled, offset)
                    offset += filled
                    filled = 0
        if filled:
            self._write(handle, -(-filled // DIRECT_BYTES) * DIRECT_BYTES, offset)

    def _write(self, handle: int, length: int, offset: int) -> None:
        view = memoryview(self._buffer)
        try:
            written = os.pwrite(handle, view[:length], offset)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise with_path(error, handle) from error
            written = 0
        if written < length:  # It is full, or wants other multiples: an ordinary write tells.
            set_direct(handle, False)
            self._disk.pwritev(handle, [view[written:length]], offset + written, False)

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        return self._disk.pread(handle, length, offset)

    def unlink(self, path: str) -> None:
        self._disk.unlink(path)

    def list(self, directory: str) -> list[str]:
        return self._disk.list(directory)


def set_direct(handle: int, direct: bool) -> None:
    """Whether writes to the open file go past the page cache."""
    flags = fcntl.fcntl(handle, fcntl.F_GETFL) & ~os.O_DIRECT
    fcntl.fcntl(handle, fcntl.F_SETFL, flags | (os.O_DIRECT if direct else 0))


class DirectoryLock:
    """Holds a data directory for this process; a second holder is refused.

    The kernel lets go of it when the process dies, however it dies.
    """

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        path = os.path.join(directory, LOCK_NAME)
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._handle, 32, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise DirectoryInUse(
                f"data directory {directory} is in use by process {holder or 'unknown'}"
            ) from error
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        os.close(self._handle)
