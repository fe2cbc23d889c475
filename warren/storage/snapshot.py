"""Snapshots of log groups in the keyed state: the newest whole one of an owner counts.

A state is cut into chunks of CHUNK_BYTES under (owner, index, number), and its head, which has the
length and a checksum, comes last, together with the end of all older ones. So a crash in between
leaves the older one, and chunks without a head, which nobody reads and the next snapshot replaces.
Layout: docs/formats/snapshot.md. Earlier versions had a file for each; `adopt_files` moves them.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from warren.storage.disk import Disk
from warren.storage.keyed import BATCH_BYTES, SNAPSHOTS, Batch, Keyed, KeyedDamaged

HEAD_VERSION: Final = 1
HEAD: Final = Struct(">IQI")  # version, length and crc32c of the state
KEY: Final = Struct(">QQI")  # owner, index, number of the chunk
OWNER: Final = Struct(">Q")
HEAD_NUMBER: Final = 0xFFFFFFFF
CHUNK_BYTES: Final = BATCH_BYTES - 1024
OWNER_END: Final = b"\xff" * 9  # behind every key

# Files of earlier versions.
MAGIC: Final = b"WARRENSN"
FILE_VERSION: Final = 1
FILE_HEADER: Final = Struct("<8sIIQQQ")
FILE_CRC: Final = Struct("<I4x")
STATE_AT: Final = FILE_HEADER.size + FILE_CRC.size
PREFIX: Final = "snap-"
ENDING: Final = ".bin"
TMP_ENDING: Final = ".bin.tmp"


class SnapshotStore:
    """Snapshots by owner. Which owners have any is known from the start on, without reading."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed
        self._owners = set(self._find_owners())

    def save(
        self, owner: int, index: int, state: Sequence[bytes], done: Callable[[], None]
    ) -> None:
        """Write a snapshot; `done` is posted when it is durable."""
        self._owners.add(owner)
        self._keyed.save(batches_of(owner, index, state), done)

    def forget(self, owner: int) -> None:
        """Remove all snapshots of an owner that is gone."""
        if owner in self._owners:
            self._owners.discard(owner)
            self._keyed.save([end_of(owner)], _nothing)

    def sweep(self, known: Collection[int]) -> int:
        """Forget all owners but these; how many that were."""
        strays = [owner for owner in sorted(self._owners) if owner not in known]
        for owner in strays:
            self.forget(owner)
        return len(strays)

    def load(self, owner: int) -> tuple[int, bytes] | None:
        """(index, state) of the newest snapshot; None if there is none. At start alone.

        KeyedDamaged: there is a head, and the state is not what it says.
        """
        if owner not in self._owners:
            return None
        found: tuple[int, bytes] | None = None
        chunks: list[bytes] = []
        first, end = OWNER.pack(owner), owner_end(owner)
        for key, value in self._keyed.rows(SNAPSHOTS, first, end):
            _, index, number = KEY.unpack(key)
            if number == 0:
                chunks = []
            if number == HEAD_NUMBER:
                found = index, checked(owner, index, value, b"".join(chunks))
            else:
                chunks.append(value)
        return found

    def _find_owners(self) -> Iterator[int]:
        """One look for each owner: states may be long."""
        first = b""
        while True:
            row = next(self._keyed.rows(SNAPSHOTS, first, OWNER_END), None)
            if row is None:
                return
            (owner,) = OWNER.unpack_from(row[0])
            yield owner
            first = owner_end(owner)

    def adopt_files(self, disk: Disk, directory: str) -> int:
        """Move what an earlier version left in files; how many owners that were. At start."""
        names = [each for each in disk.list(directory) if each.startswith(PREFIX)]
        indexes: dict[int, list[int]] = {}
        for name in names:
            if name.endswith(ENDING):
                uid, _, index = name[len(PREFIX) : -len(ENDING)].partition("-")
                indexes.setdefault(int(uid), []).append(int(index))
        for owner in sorted(indexes):
            newest = newest_file(disk, directory, owner, indexes[owner])
            if newest is not None and self.load(owner) is None:
                self._keyed.save_now(batches_of(owner, *newest))
                self._owners.add(owner)
        for name in names:
            if name.endswith((ENDING, TMP_ENDING)):
                disk.unlink(os.path.join(directory, name))
        if names:
            disk.fsync_directory(directory)
        return len(indexes)


def _nothing() -> None:
    """Nobody waits for the end of a snapshot that is not needed."""


def owner_end(owner: int) -> bytes:
    """Behind the last key of the owner."""
    return OWNER.pack(owner) + b"\xff" * 13


def end_of(owner: int) -> Batch:
    """All snapshots of the owner go."""
    batch = Batch()
    batch.delete_range(SNAPSHOTS, OWNER.pack(owner), owner_end(owner))
    return batch


def batches_of(owner: int, index: int, state: Sequence[bytes]) -> Iterator[Batch]:
    """Chunks, each alone, then the head with the end of the older ones."""
    batch = Batch()  # An earlier try at this index may have left more chunks than there are now.
    batch.delete_range(SNAPSHOTS, KEY.pack(owner, index, 0), owner_end(owner))
    number = 0
    for part in state:
        view = memoryview(part)
        for at in range(0, len(view), CHUNK_BYTES):
            key = KEY.pack(owner, index, number)
            batch.put(SNAPSHOTS, key, bytes(view[at : at + CHUNK_BYTES]))
            number += 1
            yield batch
            batch = Batch()
    batch.put(SNAPSHOTS, KEY.pack(owner, index, HEAD_NUMBER), encode_head(state))
    batch.delete_range(SNAPSHOTS, OWNER.pack(owner), KEY.pack(owner, index, 0))
    yield batch


def encode_head(state: Sequence[bytes]) -> bytes:
    crc = 0
    for part in state:
        crc = crc32c(part, crc)
    return HEAD.pack(HEAD_VERSION, sum(map(len, state)), crc)


def checked(owner: int, index: int, head: bytes, state: bytes) -> bytes:
    """The state, if it is what the head says."""
    if encode_head([state]) != head:
        raise KeyedDamaged(SNAPSHOTS, f"the snapshot of owner {owner} at {index} is not whole")
    return state


def newest_file(
    disk: Disk, directory: str, owner: int, indexes: Sequence[int]
) -> tuple[int, list[bytes]] | None:
    """Index and state of the newest sound file of the owner."""
    for index in sorted(indexes, reverse=True):
        path = os.path.join(directory, f"{PREFIX}{owner:020d}-{index:020d}{ENDING}")
        handle = disk.open(path)
        try:
            whole = disk.pread(handle, disk.size(path), 0)
        finally:
            disk.close(handle)
        state = decode_file(whole, owner, index)
        if state is not None:
            return index, [state]
    return None


def encode_file_header(owner: int, index: int, state: bytes) -> bytes:
    """What came before the state in a file."""
    head = FILE_HEADER.pack(MAGIC, FILE_VERSION, 0, owner, index, len(state))
    return head + FILE_CRC.pack(crc32c(state, crc32c(head)))


def decode_file(whole: bytes, owner: int, index: int) -> bytes | None:
    """The state in a file, or None if it is not a sound one of that owner and index."""
    state = whole[STATE_AT:]
    sound = len(whole) >= STATE_AT and encode_file_header(owner, index, state) == whole[:STATE_AT]
    return state if sound else None
