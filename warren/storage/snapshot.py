"""Snapshots of owners: the newest whole one counts. Written aside, synced, then named.

File `snap-<owner>-<index>.bin`, 20 digits each: magic "WARRENSN", version u32, reserved u32,
owner u64, index u64, length u64 of the state, crc u32 of the header before it and of the state,
reserved u32; then the state. Little-endian.
"""

import logging
import os
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from warren.storage.disk import Disk

log = logging.getLogger("warren.storage")

MAGIC: Final = b"WARRENSN"
FORMAT_VERSION: Final = 1
HEADER: Final = Struct("<8sIIQQQ")
HEADER_CRC: Final = Struct("<I4x")
STATE_AT: Final = HEADER.size + HEADER_CRC.size
PREFIX: Final = "snap-"
ENDING: Final = ".bin"
TMP_ENDING: Final = ".tmp"

Work = Callable[[], None]


class SnapshotStore:
    """Snapshots in one directory. `save` does its I/O where `background` runs it."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        background: Callable[[Work], None],
        post: Callable[[Work], object],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._background = background
        self._post = post
        self._listing: dict[int, list[int]] | None = None  # indexes by owner, until one is written

    def forget(self, owner: int) -> None:
        """Remove all snapshots of an owner that is gone. If that fails they stay unread."""
        self._background(lambda: self._forget(owner))

    def _forget(self, owner: int) -> None:
        try:
            for index in self._indexes(owner):
                self._disk.unlink(self._path(owner, index))
        except OSError as error:
            log.warning("snapshots of owner %d, which is gone, stay: %s", owner, error)

    def save(
        self,
        owner: int,
        index: int,
        state: Sequence[bytes],
        done: Callable[[OSError | None], None],
    ) -> None:
        """Write a snapshot; `done` is posted when it is durable, or with what went wrong."""
        self._background(lambda: self._save(owner, index, state, done))

    def _save(
        self,
        owner: int,
        index: int,
        state: Sequence[bytes],
        done: Callable[[OSError | None], None],
    ) -> None:
        try:
            self.save_now(owner, index, state)
        except OSError as error:
            caught = error
            self._post(lambda: done(caught))
            return
        self._post(lambda: done(None))

    def save_now(self, owner: int, index: int, state: Sequence[bytes]) -> None:
        """Write a snapshot and remove the older ones of its owner; durable on return."""
        self._listing = None
        path = self._path(owner, index)
        tmp_path = path + TMP_ENDING
        if os.path.basename(tmp_path) in self._disk.list(self._directory):
            self._disk.unlink(tmp_path)
        handle = self._disk.create(tmp_path, 0)
        try:
            header = encode_snapshot_header(owner, index, state)
            self._disk.pwritev(handle, [header, *state], 0, False)
            self._disk.fsync(handle)
        finally:
            self._disk.close(handle)
        self._disk.rename(tmp_path, path)
        self._disk.fsync_directory(self._directory)
        for older in self._indexes(owner):
            if older < index:
                self._disk.unlink(self._path(owner, older))

    def load(self, owner: int) -> tuple[int, bytes] | None:
        """(index, state) of the newest sound snapshot; None if there is none."""
        if self._listing is None:
            self._listing = self._list()
        for index in sorted(self._listing.get(owner, ()), reverse=True):
            state = self._read(owner, index)
            if state is not None:
                return index, state
        return None

    def _read(self, owner: int, index: int) -> bytes | None:
        path = self._path(owner, index)
        handle = self._disk.open(path)
        try:
            whole = self._disk.pread(handle, self._disk.size(path), 0)
        finally:
            self._disk.close(handle)
        return decode_snapshot(whole, owner, index)

    def _path(self, owner: int, index: int) -> str:
        return os.path.join(self._directory, f"{PREFIX}{owner:020d}-{index:020d}{ENDING}")

    def _list(self) -> dict[int, list[int]]:
        """All snapshots that there are: many owners are loaded one after the other."""
        found: dict[int, list[int]] = {}
        for name in self._disk.list(self._directory):
            if name.startswith(PREFIX) and name.endswith(ENDING):
                owner, _, index = name[len(PREFIX) : -len(ENDING)].partition("-")
                found.setdefault(int(owner), []).append(int(index))
        return found

    def _indexes(self, owner: int) -> list[int]:
        start = f"{PREFIX}{owner:020d}-"
        return [
            int(name[len(start) : -len(ENDING)])
            for name in self._disk.list(self._directory)
            if name.startswith(start) and name.endswith(ENDING)
        ]


def encode_snapshot_header(owner: int, index: int, state: Sequence[bytes]) -> bytes:
    """What comes before the state."""
    length = sum(map(len, state))
    head = HEADER.pack(MAGIC, FORMAT_VERSION, 0, owner, index, length)
    crc = crc32c(head)
    for part in state:
        crc = crc32c(part, crc)
    return head + HEADER_CRC.pack(crc)


def decode_snapshot(whole: bytes, owner: int, index: int) -> bytes | None:
    """The state in a snapshot file, or None if it is not a sound one of that owner and index."""
    if len(whole) < STATE_AT:
        return None
    state = whole[STATE_AT:]
    if encode_snapshot_header(owner, index, [state]) != whole[:STATE_AT]:
        return None
    return state
