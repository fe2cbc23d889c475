"""A disk that remembers what was synced, loses the rest at a crash, and can be told to fail.

Model: a write goes to the cache, sector by sector (512 bytes); `fsync` and a dsync write make the
file's bytes durable (a dsync write only its own). A directory sync makes all changes of names so
far durable; a crash keeps some first ones of the rest, or any of them. It keeps any subset of the
cached sectors.
"""

import errno
import os
from collections.abc import Sequence
from random import Random
from typing import Final

SECTOR: Final = 512
Buffer = bytes | memoryview


class Crashed(BaseException):
    """The machine lost power; not for anybody to handle."""


class Inode:
    """One file: what programs see, and what is on the platter."""

    def __init__(self, size: int) -> None:
        self.cached = bytearray(size)
        self.durable = bytearray()
        self.dirty: set[int] = set()  # sectors

    def sync(self, first: int, end: int) -> None:
        """Bytes first..end-1, and the size of the file, become durable."""
        self._fit()
        for sector in range(first // SECTOR, (end + SECTOR - 1) // SECTOR):
            if sector in self.dirty:
                self._settle(sector)
                self.dirty.discard(sector)

    def _fit(self) -> None:
        size = len(self.cached)
        del self.durable[size:]
        self.durable.extend(bytes(size - len(self.durable)))

    def _settle(self, sector: int) -> None:
        start = sector * SECTOR
        self.durable[start : start + SECTOR] = self.cached[start : start + SECTOR]

    def crash(self, random: Random, keep: float) -> "Inode":
        if random.random() < keep:
            self._fit()
        for sector in sorted(self.dirty):
            if sector * SECTOR < len(self.durable) and random.random() < keep:
                end = min(len(self.durable), sector * SECTOR + SECTOR)
                self.durable[sector * SECTOR : end] = self.cached[sector * SECTOR : end]
        after = Inode(0)
        after.cached = bytearray(self.durable)
        after.durable = bytearray(self.durable)
        return after


class SimDisk:
    """Keeps the `Disk` Protocol. `crash_in` counts down with each step that changes anything."""

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.changes: list[tuple[str, str | None, Inode]] = []  # old, new name
        self.handles: dict[int, Inode] = {}
        self.next_handle = 3
        self.crash_in = -1
        self.failures: dict[str, OSError] = {}  # by name of the method; raised until removed
        self.space_bytes = -1  # -1: endless
        self.directory_syncs_ignored = False  # a planted fault
        self.syncs_ignored = False  # a planted fault

    def crash(self, random: Random) -> "SimDisk":
        """The disk as the next boot finds it."""
        keep = random.choice((0.0, 0.5, 1.0, random.random()))
        changes = self.changes[: random.randint(0, len(self.changes))]
        if random.random() < 0.5:
            changes = [change for change in self.changes if random.random() < 0.5]
        for change in changes:
            self._apply(change)
        after = SimDisk()
        for path, inode in self.durable_names.items():
            after.names[path] = after.durable_names[path] = inode.crash(random, keep)
        return after

    def _apply(self, change: tuple[str, str | None, Inode]) -> None:
        _, new, inode = change
        for path in [path for path, found in self.durable_names.items() if found is inode]:
            del self.durable_names[path]
        if new is not None:
            self.durable_names[new] = inode

    def _step(self, method: str) -> None:
        if self.crash_in >= 0:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise Crashed
        if method in self.failures:
            raise self.failures[method]

    def _handle(self, inode: Inode) -> int:
        self.next_handle += 1
        self.handles[self.next_handle] = inode
        return self.next_handle

    def _use_space(self, byte_count: int) -> None:
        if 0 <= self.space_bytes < byte_count:
            raise OSError(errno.ENOSPC, "no space left on device")
        if self.space_bytes >= 0:
            self.space_bytes -= byte_count

    def create(self, path: str, size: int) -> int:
        self._step("create")
        if path in self.names:
            raise FileExistsError(path)
        self._use_space(size)
        inode = self.names[path] = Inode(size)
        self.changes.append(("", path, inode))
        return self._handle(inode)

    def open(self, path: str) -> int:
        if path not in self.names:
            raise FileNotFoundError(path)
        return self._handle(self.names[path])

    def close(self, handle: int) -> None:
        del self.handles[handle]

    def pwritev(self, handle: int, parts: Sequence[Buffer], offset: int, dsync: bool) -> None:
        self._step("pwritev")
        inode = self.handles[handle]
        content = b"".join(parts)
        end = offset + len(content)
        if end > len(inode.cached):
            self._use_space(end - len(inode.cached))
            inode.cached.extend(bytes(end - len(inode.cached)))
        inode.cached[offset:end] = content
        inode.dirty.update(range(offset // SECTOR, (end + SECTOR - 1) // SECTOR))
        if dsync:
            self._step("dsync")
            if not self.syncs_ignored:
                inode.sync(offset, end)
            self._step("after-dsync")

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        if "pread" in self.failures:
            raise self.failures["pread"]
        return bytes(self.handles[handle].cached[offset : offset + length])

    def fsync(self, handle: int) -> None:
        self._step("fsync")
        if not self.syncs_ignored:
            inode = self.handles[handle]
            inode.sync(0, len(inode.cached))

    def fsync_directory(self, path: str) -> None:
        self._step("fsync_directory")
        if self.directory_syncs_ignored:
            return
        for change in self.changes:
            self._apply(change)
        self.changes.clear()

    def rename(self, old: str, new: str) -> None:
        self._step("rename")
        inode = self.names[new] = self.names.pop(old)
        self.changes.append((old, new, inode))

    def unlink(self, path: str) -> None:
        self._step("unlink")
        inode = self.names.pop(path)
        self.changes.append((path, None, inode))
        if self.space_bytes >= 0:
            self.space_bytes += len(inode.cached)

    def truncate(self, handle: int, size: int) -> None:
        self._step("truncate")
        inode = self.handles[handle]
        del inode.cached[size:]
        inode.cached.extend(bytes(size - len(inode.cached)))
        inode.dirty = {sector for sector in inode.dirty if sector * SECTOR < size}

    def list(self, directory: str) -> list[str]:
        return sorted(os.path.basename(path) for path in self.names)

    def size(self, path: str) -> int:
        return len(self.names[path].cached)

    def free_bytes(self, directory: str) -> int:
        return 1 << 40 if self.space_bytes < 0 else self.space_bytes
