"""Rows and heads of snapshots that are written slice by slice, and what is kept of one under way.

A slice is a row of at most SLICE_BYTES_MAX under (owner, index, number). Those of a snapshot that
this node makes are numbered from 0, those of one that comes from another node from STAGED on, so
that they never meet. A snapshot counts once its head is there, which says where its slices begin
(docs/formats/snapshot.md). No I/O, no clock; `SnapshotStore` writes what is made here.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from warren.checksum import crc32c
from warren.storage.keyed import BATCH_BYTES, SNAPSHOTS, Batch, KeyedDamaged

KEY: Final = Struct(">QQI")  # owner, index, number of the slice
OWNER: Final = Struct(">Q")
HEAD_NUMBER: Final = 0xFFFFFFFF
STAGED: Final = 0x80000000  # number of the first slice that came from elsewhere
SLICE_BYTES_MAX: Final = BATCH_BYTES - 1024
POINT_BYTES_MAX: Final = BATCH_BYTES - 1024

HEAD_1: Final = Struct(">IQI")  # version, length and crc32c of the state
HEAD_2: Final = Struct(">IIQIII")  # version, crc of the rest; length, crc, slices, first number
CHECKED: Final = Struct(">QIII")  # what of it the crc is of; the point is behind it
VERSION_1: Final = 1
VERSION_2: Final = 2
COUNT_UNKNOWN: Final = -1  # of the rows of version 1


class SnapshotHead:
    """What a snapshot says of itself: the newest one of its owner, whole and durable."""

    __slots__ = ("byte_count", "crc", "first", "index", "point", "slice_count", "version")

    def __init__(
        self,
        version: int,
        index: int,
        byte_count: int,
        crc: int,
        slice_count: int,
        first: int,
        point: bytes,
    ) -> None:
        self.version = version
        self.index = index
        self.byte_count = byte_count
        self.crc = crc  # of all slices, one behind the other
        self.slice_count = slice_count
        self.first = first  # number of its first slice
        self.point = point  # opaque: term, configuration, and what else its owner needs


def encode_head(head: SnapshotHead) -> bytes:
    """Version 2."""
    checked = CHECKED.pack(head.byte_count, head.crc, head.slice_count, head.first)
    crc = crc32c(head.point, crc32c(checked))
    return (
        HEAD_2.pack(VERSION_2, crc, head.byte_count, head.crc, head.slice_count, head.first)
        + head.point
    )


def decode_head(owner: int, index: int, found: bytes) -> SnapshotHead:
    """Either version; KeyedDamaged if it is neither."""
    if len(found) == HEAD_1.size:
        version, byte_count, crc = HEAD_1.unpack(found)
        if version == VERSION_1:
            return SnapshotHead(version, index, byte_count, crc, COUNT_UNKNOWN, 0, b"")
    elif len(found) >= HEAD_2.size:
        _, _, byte_count, crc, slice_count, first = HEAD_2.unpack_from(found)
        point = found[HEAD_2.size :]
        head = SnapshotHead(VERSION_2, index, byte_count, crc, slice_count, first, point)
        if encode_head(head) == found:
            return head
    raise damaged(owner, index)


def damaged(owner: int, index: int) -> KeyedDamaged:
    return KeyedDamaged(SNAPSHOTS, f"the snapshot of owner {owner} at {index} is not whole")


def owner_end(owner: int) -> bytes:
    """Behind the last key of the owner."""
    return OWNER.pack(owner) + b"\xff" * 13


class Stream:
    """A snapshot under way: rows for its slices, then for its head. Slices come in order.

    It counts from `head` on. `is_open` ends when it is finished or of no use any more.
    """

    def __init__(self, owner: int, index: int, first: int) -> None:
        self.owner = owner
        self.index = index
        self.first = first
        self.slice_count = 0
        self.byte_count = 0
        self.crc = 0
        self.is_open = True

    def add(self, parts: Sequence[bytes]) -> Batch:
        """The next slice. The first one takes away what an earlier try has left at this index."""
        content = b"".join(parts)
        assert len(content) <= SLICE_BYTES_MAX
        assert self.is_open
        batch = Batch()
        if self.slice_count == 0:
            self.clear(batch)
        number = self.first + self.slice_count
        assert number < (HEAD_NUMBER if self.first == STAGED else STAGED)
        batch.put(SNAPSHOTS, KEY.pack(self.owner, self.index, number), content)
        self.slice_count += 1
        self.byte_count += len(content)
        self.crc = crc32c(content, self.crc)
        return batch

    def clear(self, batch: Batch) -> None:
        """Its slices go."""
        end = HEAD_NUMBER if self.first == STAGED else STAGED
        batch.delete_range(
            SNAPSHOTS,
            KEY.pack(self.owner, self.index, self.first),
            KEY.pack(self.owner, self.index, end),
        )

    def finish(self, point: bytes) -> tuple[SnapshotHead, Batch]:
        """The head, and with it the end of all older snapshots and of other slices at this index.

        They are one batch: before it the older one counts, behind it this one.
        """
        assert self.is_open and self.slice_count > 0
        assert len(point) <= POINT_BYTES_MAX
        self.is_open = False
        head = SnapshotHead(
            VERSION_2,
            self.index,
            self.byte_count,
            self.crc,
            self.slice_count,
            self.first,
            point,
        )
        batch = Batch()
        other = 0 if self.first == STAGED else STAGED
        Stream(self.owner, self.index, other).clear(batch)
        batch.put(SNAPSHOTS, KEY.pack(self.owner, self.index, HEAD_NUMBER), encode_head(head))
        batch.delete_range(SNAPSHOTS, OWNER.pack(self.owner), KEY.pack(self.owner, self.index, 0))
        return head, batch


class Staged:
    """A snapshot that comes in from another node; `durable_count` slices of it are on disk."""

    def __init__(self, owner: int, source: int, index: int, term: int) -> None:
        self.stream = Stream(owner, index, STAGED)
        self.source = source
        self.index = index
        self.term = term
        self.durable_count = 0

    def is_of(self, source: int, index: int, term: int) -> bool:
        return (self.source, self.index, self.term) == (source, index, term)
