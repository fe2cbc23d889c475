"""Segment files of one stream: where a chunk is, and how it is read and written.

A stream is a row of segments, each with a file of chunks and an index, which has for each chunk its
first offset, timestamp and place in the file. `SegmentFiles` does the I/O and runs on threads;
`Segment` says what counts of a file: bytes behind that were written and never recorded, and `open`
cuts them. So neither a torn chunk nor a chunk that is not in the index can be read after a crash.
Layout: docs/formats/stream-segment.md.
"""

import os
import re
from collections.abc import Collection, Sequence
from struct import Struct
from typing import Final, Protocol

import msgspec

from warren.storage.disk import Disk
from warren.storage.record import CorruptRecord
from warren.storage.streams.chunk_format import (
    HEAD_BYTES,
    BadChunk,
    ChunkHead,
    decode_chunk,
    decode_size,
)

SEGMENT_NAME: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}-[0-9]{20}\.(data|index)")
INDEX_ROW: Final = Struct("<QqQ")  # first offset, timestamp, place
INDEX_BYTES: Final = INDEX_ROW.size
READ_BYTES: Final = 1 << 20


class Segment(msgspec.Struct, frozen=True):
    """One segment, as far as it counts."""

    first_offset: int
    end_offset: int  # of the message behind the last one
    first_ms: int  # timestamps of its first and last chunk
    last_ms: int
    byte_count: int  # of chunks
    chunk_count: int


class Place(msgspec.Struct, frozen=True):
    """Where a reader goes on: a byte of a segment, or its offset if `position` is -1."""

    offset: int
    segment: int  # its first offset
    position: int = -1
    size: int = 0  # of the chunk there; 0: it is not known


class Reads(Protocol):
    """What reading takes of a `Disk`."""

    def open(self, path: str) -> int: ...
    def pread(self, handle: int, length: int, offset: int) -> bytes: ...
    def close(self, handle: int) -> None: ...


class Writing(msgspec.Struct, frozen=True):
    """Chunks that go into one segment, one behind the other."""

    segment: int  # its first offset
    position: int  # of the first chunk
    row: int  # of the first chunk in the index
    parts: Sequence[bytes]
    index: bytes


class SegmentFiles:
    """The files of one stream. `generation`: another one for each snapshot that was installed.
    `reads`: how chunks are read, if not as all other files."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        uid: int,
        generation: int,
        reads: Reads | None = None,
    ) -> None:
        self._disk = disk
        self._reads: Reads = disk if reads is None else reads
        self._directory = directory
        self.uid = uid
        self.generation = generation
        self._handles: dict[int, tuple[int, int]] = {}  # of the writer, by segment
        self._unsynced: set[int] = set()
        self._is_new = False  # a file was made since the directory was synced

    def prefix(self) -> str:
        return f"{self.uid:016x}-{self.generation:08x}-"

    def path(self, segment: int, ending: str) -> str:
        return os.path.join(self._directory, f"{self.prefix()}{segment:020d}.{ending}")

    # At start

    def open(self, segments: Sequence[Segment]) -> None:
        """Cut what does not count, and remove files of no segment. CorruptRecord: one is short."""
        for segment in segments:
            self._cut(self.path(segment.first_offset, "data"), segment.byte_count)
            self._cut(self.path(segment.first_offset, "index"), index_bytes(segment))
        self.keep_only(segments)

    def open_whole(self, segments: Sequence[Segment]) -> list[Segment]:
        """As `open`, without the segments of which a file is short or missing; return the rest."""
        kept = []
        for segment in segments:
            try:
                self._cut(self.path(segment.first_offset, "data"), segment.byte_count)
                self._cut(self.path(segment.first_offset, "index"), index_bytes(segment))
            except (CorruptRecord, OSError):
                continue
            kept.append(segment)
        self.keep_only(kept)
        return kept

    def _cut(self, path: str, size: int) -> None:
        try:
            found = self._disk.size(path)
        except OSError as error:
            raise CorruptRecord(
                path, 0, reason=f"a segment file cannot be read: {error}"
            ) from error
        if found < size:
            raise CorruptRecord(path, found, reason=f"a segment file has {found} bytes of {size}")
        if found > size:
            handle = self._disk.open(path)
            try:
                self._disk.truncate(handle, size)
                self._disk.fsync(handle)
            finally:
                self._disk.close(handle)

    def remove_others(self, known: set[str]) -> None:
        """Remove the files of this stream, of any generation, but these."""
        own = f"{self.uid:016x}-"
        for name in self._disk.list(self._directory):
            if name.startswith(own) and name not in known:
                self._disk.unlink(os.path.join(self._directory, name))

    def keep_only(self, segments: Sequence[Segment]) -> None:
        """Remove all files of the stream that are not of these segments."""
        names = {
            os.path.basename(self.path(segment.first_offset, ending))
            for segment in segments
            for ending in ("data", "index")
        }
        self.remove_others(names)

    def discard(self) -> None:
        """Close and remove all that was written under this generation."""
        written = list(self._handles)
        self.close()
        self._unsynced.clear()
        self.remove(written)

    # Writing, on one thread

    def write(self, writing: Writing) -> None:
        """Write chunks and their index rows; `sync` makes them durable."""
        data, index = self._open(writing.segment)
        self._disk.pwritev(data, writing.parts, writing.position, False)
        self._disk.pwritev(index, [writing.index], writing.row * INDEX_BYTES, False)
        self._unsynced.add(writing.segment)

    def _open(self, segment: int) -> tuple[int, int]:
        found = self._handles.get(segment)
        if found is None:
            handles = [self._open_file(self.path(segment, end)) for end in ("data", "index")]
            found = self._handles[segment] = (handles[0], handles[1])
        return found

    def _open_file(self, path: str) -> int:
        try:
            return self._disk.open(path)
        except FileNotFoundError:
            self._is_new = True
            return self._disk.create(path, 0)

    def sync(self) -> None:
        """Make durable all that was written; close all segments but the last one."""
        for segment in sorted(self._unsynced):
            for handle in self._open(segment):
                self._disk.fsync(handle)
        self._unsynced.clear()
        if self._is_new:
            self._disk.fsync_directory(self._directory)
            self._is_new = False
        for segment in sorted(self._handles)[:-1]:
            self._close(segment)

    def remove(self, segments: Sequence[int]) -> None:
        """Remove segments that retention has cut. Readers that have them open read on."""
        for segment in segments:
            self._close(segment)
            self._unsynced.discard(segment)
            for ending in ("index", "data"):
                self._disk.unlink(self.path(segment, ending))

    def _close(self, segment: int) -> None:
        for handle in self._handles.pop(segment, ()):
            self._disk.close(handle)

    def close(self) -> None:
        for segment in list(self._handles):
            self._close(segment)

    # Reading, on any thread

    def place_of(self, segment: Segment, offset: int) -> Place:
        """Find the chunk that holds `offset`, which is in the segment, by its index."""
        return self._found(segment, 0, offset)

    def place_at(self, segment: Segment, timestamp_ms: int) -> Place:
        """Find the first chunk that is not older than `timestamp_ms`, which the segment has."""
        return self._found(segment, 1, timestamp_ms)

    def _found(self, segment: Segment, column: int, wanted: int) -> Place:
        """By bisection: the last row at most `wanted` (offsets), the first at least (times)."""
        path = self.path(segment.first_offset, "index")
        handle = self._disk.open(path)
        try:
            low, high = 0, segment.chunk_count
            while low < high:
                middle = (low + high) // 2
                value = self._row(handle, path, middle)[column]
                if value < wanted or (column == 0 and value == wanted):
                    low = middle + 1
                else:
                    high = middle
            row = self._row(handle, path, low - 1 if column == 0 else low)
        finally:
            self._disk.close(handle)
        return Place(row[0], segment.first_offset, row[2])

    def _row(self, handle: int, path: str, number: int) -> tuple[int, int, int]:
        found = self._disk.pread(handle, INDEX_BYTES, number * INDEX_BYTES)
        if len(found) < INDEX_BYTES:
            raise CorruptRecord(path, number * INDEX_BYTES, reason="an index is cut short")
        first, timestamp, place = INDEX_ROW.unpack(found)
        return first, timestamp, place

    def read(
        self, segment: Segment, position: int, size: int = 0, bytes_max: int = READ_BYTES
    ) -> tuple[list[tuple[ChunkHead, bytes]], int]:
        """Read whole chunks from `position` on, at least one, and the size of the chunk behind them
        (0: it is not known). `size`: of the first one, by which it is read at once. CorruptRecord:
        one is not sound."""
        content, chunks = self._read(segment, position, max(size + HEAD_BYTES, bytes_max))
        end = sum(head.size for head, _ in chunks)
        return chunks, decode_size(content, end) if len(content) - end >= HEAD_BYTES else 0

    def read_raw(
        self, segment: Segment, position: int, bytes_max: int
    ) -> tuple[bytes, list[ChunkHead]]:
        """As `read`: the bytes of these chunks, which were checked, and their headers."""
        content, chunks = self._read(segment, position, bytes_max)
        heads = [head for head, _ in chunks]
        return content[: sum(head.size for head in heads)], heads

    def _read(
        self, segment: Segment, position: int, bytes_max: int
    ) -> tuple[bytes, list[tuple[ChunkHead, bytes]]]:
        path = self.path(segment.first_offset, "data")
        reads = self._reads
        handle = reads.open(path)
        try:
            length = min(bytes_max, segment.byte_count - position)
            content = reads.pread(handle, length, position)
            if len(content) >= HEAD_BYTES:
                size = decode_size(content, 0)
                if len(content) < size <= segment.byte_count - position:
                    content = reads.pread(handle, size, position)
            is_end = position + len(content) >= segment.byte_count
            return content, _chunks_in(content, is_end)
        except BadChunk as error:
            raise CorruptRecord(path, position, reason=str(error)) from error
        finally:
            reads.close(handle)

    # Between members

    def read_piece(self, segment: int, position: int, length: int, ending: str) -> bytes:
        """Read bytes of a file of a segment, for another member."""
        handle = self._disk.open(self.path(segment, ending))
        try:
            return self._disk.pread(handle, length, position)
        finally:
            self._disk.close(handle)

    def write_piece(self, segment: int, position: int, piece: bytes, ending: str) -> None:
        """Write bytes of another member's file; on the writer's thread."""
        handle = self._open(segment)[0 if ending == "data" else 1]
        self._disk.pwritev(handle, [piece], position, False)
        self._unsynced.add(segment)


def remove_unknown(disk: Disk, directory: str, known: Collection[int]) -> None:
    """Remove the files of streams that are not known: the node went down when they were deleted."""
    own = {f"{uid:016x}" for uid in known}
    for name in disk.list(directory):
        if SEGMENT_NAME.fullmatch(name) and name.partition("-")[0] not in own:
            disk.unlink(os.path.join(directory, name))


def _chunks_in(content: bytes, is_end: bool) -> list[tuple[ChunkHead, bytes]]:
    """All chunks that are whole; the last one may be cut short unless this is the end."""
    found: list[tuple[ChunkHead, bytes]] = []
    at = 0
    while at < len(content):
        if found and not is_end:
            rest = len(content) - at
            if rest < HEAD_BYTES or decode_size(content, at) > rest:
                break
        head, payload = decode_chunk(content, at)
        found.append((head, payload))
        at += head.size
    if not found:
        raise BadChunk("no chunk where one is expected")
    return found


def index_bytes(segment: Segment) -> int:
    return segment.chunk_count * INDEX_BYTES
