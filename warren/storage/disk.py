"""The only calls to files: what storage needs of a disk, and the operating system's one.

Everything else in this package works on the `Disk` Protocol, so that tests can put a disk beneath
it that tears, forgets, fills up and fails.
"""

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Final, Protocol

from warren.storage.record import Buffer

PARTS_MAX: Final = 1024  # IOV_MAX of Linux
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

    def pread_pieces(
        self, handle: int, offset: int, pieces: Sequence[tuple[int, int]]
    ) -> Sequence[bytes]:
        """Pieces of a part of a file that begins at `offset`, as (begin, end) in that part.

        They are ascending, and read with one call. One that is behind the end of the file is cut.
        """

    def fsync(self, handle: int) -> None: ...

    def fsync_directory(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def truncate(self, handle: int, size: int) -> None: ...

    def list(self, directory: str) -> list[str]:
        """Names in it, in ascending order."""

    def size(self, path: str) -> int: ...

    def free_bytes(self, directory: str) -> int: ...

    def total_bytes(self, directory: str) -> int: ...


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

    def is_cached(self, handle: int, offset: int) -> bool:
        """Whether the page cache has the byte there, or its file system does not tell. What is read
        through this handle from now on is not read ahead."""
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
            os.preadv(handle, [bytearray(1)], offset, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def pread_pieces(
        self, handle: int, offset: int, pieces: Sequence[tuple[int, int]]
    ) -> Sequence[bytes]:
        return cut(self.pread(handle, pieces[-1][1], offset), pieces)

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

    def total_bytes(self, directory: str) -> int:
        """Without the blocks that only root may fill, as df counts."""
        found = os.statvfs(directory)
        return (found.f_blocks - found.f_bfree + found.f_bavail) * found.f_frsize


def cut(found: bytes, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
    """The pieces of what a call has read; it has no copy of a single one that is all of it."""
    if len(pieces) == 1 and pieces[0][0] == 0:
        return [found]
    return [found[begin:end] for begin, end in pieces]


def with_path(error: OSError, handle: int) -> OSError:
    """The same error with the path of the open file, which calls by handle do not tell."""
    try:
        path = os.readlink(f"/proc/self/fd/{handle}")
    except OSError:  # No such file system here: the number is all there is to say.
        path = f"file descriptor {handle}"
    return OSError(error.errno, error.strerror, path)


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
