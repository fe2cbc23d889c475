"""A disk that remembers what was synced, loses the rest at a crash, and can be told to fail.

Model: a write goes to the cache, sector by sector (512 bytes); `fsync` and a dsync write make the
file's bytes durable (a dsync write only its own). A directory sync makes all changes of names so
far durable; a crash keeps some first ones of the rest, or any of them. It keeps any subset of the
cached sectors. If only the process was killed, everything is there, and still not durable.

It records, too: with `log` set, every change is put there in order, and `apply` on a `copy` of the
disk as it was then makes the disk of any moment since, to be crashed there (`recording`).
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, assert_never

from tests.sim.storage.keyed_image import KeyedImage
from warren.storage.disk import cut
from warren.storage.keyed import Batch

SECTOR: Final = 512
KILLED: Final = 0.15  # so many crashes are those of the process alone
SYNCED: Final = "synced"  # what `watch` gets when a file, or the directory, has been synced
Buffer = bytes | memoryview


class Crashed(BaseException):
    """The machine lost power; no code handles it."""


# Changes. Handles are numbers that a copy of the disk gives out as the disk itself did.


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Open:
    path: str


@dataclass(frozen=True, slots=True)
class Close:
    handle: int


@dataclass(frozen=True, slots=True)
class Write:
    handle: int
    content: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Bytes offset..end-1 of a file become durable; all of them if `end` is -1."""

    handle: int
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class SyncDirectory:
    pass


@dataclass(frozen=True, slots=True)
class Rename:
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Unlink:
    path: str


@dataclass(frozen=True, slots=True)
class Truncate:
    handle: int
    size: int


@dataclass(frozen=True, slots=True)
class KeyedWrite:
    """A batch comes into the keyed state."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class KeyedSync:
    pass


OfFiles = Create | Open | Close | Write | Sync | SyncDirectory | Rename | Unlink | Truncate
Change = OfFiles | KeyedWrite | KeyedSync


class Inode:
    """One file: what programs see, and what is on the platter."""

    def __init__(self, size: int) -> None:
        self.cached = bytearray(size)
        self.durable = bytearray()
        self.dirty: set[int] = set()  # sectors

    def copy(self) -> "Inode":
        twin = Inode(0)
        twin.cached = bytearray(self.cached)
        twin.durable = bytearray(self.durable)
        twin.dirty = set(self.dirty)
        return twin

    def write(self, content: bytes, offset: int) -> None:
        end = offset + len(content)
        self.cached.extend(bytes(max(0, end - len(self.cached))))
        self.cached[offset:end] = content
        self.dirty.update(range(offset // SECTOR, (end + SECTOR - 1) // SECTOR))

    def truncate(self, size: int) -> None:
        del self.cached[size:]
        self.cached.extend(bytes(size - len(self.cached)))
        self.dirty = {sector for sector in self.dirty if sector * SECTOR < size}

    def sync(self, first: int, end: int) -> None:
        """Bytes first..end-1, and the size of the file, become durable."""
        fit(self.durable, len(self.cached))
        for sector in range(first // SECTOR, (end + SECTOR - 1) // SECTOR):
            if sector in self.dirty:
                start = sector * SECTOR
                self.durable[start : start + SECTOR] = self.cached[start : start + SECTOR]
                self.dirty.discard(sector)

    def crash(self, random: Random, keep: float) -> "Inode":
        """The file as the next boot finds it, all of it durable."""
        content = bytearray(self.durable)
        if random.random() < keep:
            fit(content, len(self.cached))
        for sector in sorted(self.dirty):
            start = sector * SECTOR
            if start < len(content) and random.random() < keep:
                end = min(len(content), start + SECTOR)
                content[start:end] = self.cached[start:end]
        after = Inode(0)
        after.cached = content
        after.durable = bytearray(content)
        return after


def fit(content: bytearray, size: int) -> None:
    """Cut it to that size, or fill it up with zeros."""
    del content[size:]
    content.extend(bytes(size - len(content)))


NameChange = tuple[str, str | None, Inode]  # old, new name


class SimDisk:
    """Keeps the `Disk` Protocol. `crash_in` counts down with each step that changes anything."""

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.changes: list[NameChange] = []  # of names, since the last sync of the directory
        self.handles: dict[int, Inode] = {}
        self.next_handle = 3
        self.keyed = KeyedImage()
        self.crash_in = -1
        self.failures: dict[str, OSError] = {}  # by name of the method; raised until removed
        self.space_bytes = -1  # -1: endless
        self.directory_syncs_ignored = False  # a planted fault
        self.syncs_ignored = False  # a planted fault
        self.log: list[Change] | None = None
        # Called before each step that changes anything, and with `SYNCED` after a sync.
        self.watch: Callable[[str], None] | None = None

    def copy(self) -> "SimDisk":
        """This disk once more: its files, handles and what is not synced, not its faults."""
        inodes = [*self.names.values(), *self.durable_names.values(), *self.handles.values()]
        inodes += [inode for _, _, inode in self.changes]
        twins = {id(inode): inode.copy() for inode in inodes}
        twin = SimDisk()
        twin.names = {path: twins[id(inode)] for path, inode in self.names.items()}
        twin.durable_names = {path: twins[id(inode)] for path, inode in self.durable_names.items()}
        twin.changes = [(old, new, twins[id(inode)]) for old, new, inode in self.changes]
        twin.handles = {handle: twins[id(inode)] for handle, inode in self.handles.items()}
        twin.next_handle = self.next_handle
        twin.keyed = self.keyed.copy()
        return twin

    def crash(self, random: Random) -> "SimDisk":
        """The disk as the next boot finds it. This one stays as it is."""
        if random.random() < KILLED:
            return self.left_behind()
        keep = random.choice((0.0, 0.5, 1.0, random.random()))
        changes = self.changes[: random.randint(0, len(self.changes))]
        if random.random() < 0.5:
            changes = [change for change in self.changes if random.random() < 0.5]
        names = dict(self.durable_names)
        for change in changes:
            rename_inode(names, change)
        after = SimDisk()
        for path, inode in names.items():
            after.names[path] = after.durable_names[path] = inode.crash(random, keep)
        after.keyed = self.keyed.crash(random)
        return after

    def left_behind(self) -> "SimDisk":
        """The disk as the next process finds it; it is as full as it was."""
        after = self.copy()
        after.handles.clear()
        after.space_bytes = self.space_bytes
        return after

    def apply(self, change: Change) -> None:
        """Do it, as the disk did that it was recorded from."""
        match change:
            case Create(path, size):
                inode = self.names[path] = Inode(size)
                self.changes.append(("", path, inode))
                self._give_handle(inode)
            case Open(path):
                self._give_handle(self.names[path])
            case Close(handle):
                del self.handles[handle]
            case Write(handle, content, offset):
                self.handles[handle].write(content, offset)
            case Sync(handle, offset, end):
                inode = self.handles[handle]
                inode.sync(offset, len(inode.cached) if end < 0 else end)
            case SyncDirectory():
                for renamed in self.changes:
                    rename_inode(self.durable_names, renamed)
                self.changes.clear()
            case Rename(old, new):
                inode = self.names[new] = self.names.pop(old)
                self.changes.append((old, new, inode))
            case Unlink(path):
                self.changes.append((path, None, self.names.pop(path)))
            case Truncate(handle, size):
                self.handles[handle].truncate(size)
            case KeyedWrite(batch):
                self.keyed.write(batch)
            case KeyedSync():
                self.keyed.sync()
            case _:
                assert_never(change)

    def _give_handle(self, inode: Inode) -> None:
        self.next_handle += 1
        self.handles[self.next_handle] = inode

    def _do(self, change: Change) -> None:
        if self.log is not None:
            self.log.append(change)
        self.apply(change)

    def _step(self, method: str) -> None:
        if self.watch is not None:
            self.watch(method)
        if self.crash_in >= 0:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise Crashed
        if method in self.failures:
            raise self.failures[method]

    def _use_space(self, byte_count: int) -> None:
        if 0 <= self.space_bytes < byte_count:
            raise OSError(errno.ENOSPC, "no space left on device")
        if self.space_bytes >= 0:
            self.space_bytes -= byte_count

    # Disk

    def create(self, path: str, size: int) -> int:
        self._step("create")
        if path in self.names:
            raise FileExistsError(path)
        self._use_space(size)
        self._do(Create(path, size))
        return self.next_handle

    def open(self, path: str) -> int:
        if path not in self.names:
            raise FileNotFoundError(path)
        self._do(Open(path))
        return self.next_handle

    def close(self, handle: int) -> None:
        self._do(Close(handle))

    def pwritev(self, handle: int, parts: Sequence[Buffer], offset: int, dsync: bool) -> None:
        self._step("pwritev")
        content = b"".join(parts)
        end = offset + len(content)
        self._use_space(max(0, end - len(self.handles[handle].cached)))
        self._do(Write(handle, content, offset))
        if dsync:
            self._step("dsync")
            if not self.syncs_ignored:
                self._do(Sync(handle, offset, end))
            self._step(SYNCED)

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        if "pread" in self.failures:
            raise self.failures["pread"]
        return bytes(self.handles[handle].cached[offset : offset + length])

    def pread_pieces(
        self, handle: int, offset: int, pieces: Sequence[tuple[int, int]]
    ) -> Sequence[bytes]:
        return cut(self.pread(handle, pieces[-1][1], offset), pieces)

    def fsync(self, handle: int) -> None:
        self._step("fsync")
        if not self.syncs_ignored:
            self._do(Sync(handle, 0, -1))
        self._step(SYNCED)

    def fsync_directory(self, path: str) -> None:
        self._step("fsync_directory")
        if not self.directory_syncs_ignored:
            self._do(SyncDirectory())
        self._step(SYNCED)

    def rename(self, old: str, new: str) -> None:
        self._step("rename")
        self._do(Rename(old, new))

    def unlink(self, path: str) -> None:
        self._step("unlink")
        byte_count = len(self.names[path].cached)
        self._do(Unlink(path))
        if self.space_bytes >= 0:
            self.space_bytes += byte_count

    def truncate(self, handle: int, size: int) -> None:
        self._step("truncate")
        self._do(Truncate(handle, size))

    def keyed_open(self) -> None:
        """A database makes durable what it finds when it is opened."""
        if not self.syncs_ignored:
            self._do(KeyedSync())

    def keyed_write(self, batch: Batch) -> None:
        self._step("keyed_write")
        self._do(KeyedWrite(batch))

    def keyed_sync(self) -> None:
        self._step("keyed_sync")
        if not self.syncs_ignored:
            self._do(KeyedSync())
        self._step(SYNCED)

    def list(self, directory: str) -> list[str]:
        return sorted(os.path.basename(path) for path in self.names)

    def size(self, path: str) -> int:
        return len(self.names[path].cached)

    def free_bytes(self, directory: str) -> int:
        return 1 << 40 if self.space_bytes < 0 else self.space_bytes

    def total_bytes(self, directory: str) -> int:
        return 1 << 40


def rename_inode(names: dict[str, Inode], change: NameChange) -> None:
    """Carry out a change of names in this directory."""
    _, new, inode = change
    for path in [path for path, found in names.items() if found is inode]:
        del names[path]
    if new is not None:
        names[new] = inode


def is_out_of_space(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno == errno.ENOSPC
