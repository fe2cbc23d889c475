"""Reads of segments that spare the page cache and the log's syncs.

A file that is read in order is read ahead by the kernel, some MiB at once, and a sync of the log
waits behind all of it: the slowest confirms take ten times as long while a consumer reads an old
stream. So what is not in the page cache is read past it, no more at once than is asked for. What is
in it, as what was written of late, is read from there.
"""

from typing import Protocol, final

from warren.storage.streams.segments import Reads


class Cached(Protocol):
    """The disk through the page cache (`warren.storage.disk.OsDisk`)."""

    def pread(self, handle: int, length: int, offset: int) -> bytes: ...
    def is_cached(self, handle: int, offset: int) -> bool:
        """Whether the cache has the byte there."""


@final
class ColdReads:
    """Keeps `Reads`. `direct` reads past the cache, by handles that `cached` knows, too."""

    def __init__(self, cached: Cached, direct: Reads) -> None:
        self._cached = cached
        self._direct = direct

    def open(self, path: str) -> int:
        return self._direct.open(path)

    def close(self, handle: int) -> None:
        self._direct.close(handle)

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file. The last of them decides: the
        first ones may be there because the read before went on too far."""
        if self._cached.is_cached(handle, offset + length - 1):
            return self._cached.pread(handle, length, offset)
        return self._direct.pread(handle, length, offset)
