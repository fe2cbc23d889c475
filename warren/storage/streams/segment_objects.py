"""Segments of streams in an object store: written, checked, read by place, removed.

    segments = SegmentObjects(store, "3f...")                  # the id of the cluster
    row = await segments.upload(files, segment, offset, term)  # from that offset on
    await segments.read(uid, row, position)                    # chunks
    await segments.sweep(uid, rows, term)                      # remove all others of the stream

An object has the chunks of a segment, as they are in its file, and behind them its index, made from
the chunks. Its key says the stream, the first offset and the term of the leader that wrote it, so
leaders never write the same object. An upload counts only when the stream's log says so (`row`):
before that the object is read back and compared. Layout: docs/formats/stream-segment.md.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

from warren.checksum import crc32c
from warren.storage.objects.store import ObjectStore
from warren.storage.record import CorruptRecord
from warren.storage.streams.chunk_format import (
    HEAD_BYTES,
    BadChunk,
    ChunkHead,
    decode_chunk,
    decode_size,
)
from warren.storage.streams.offloaded import Chunks, OffloadedSegment, WrongContent
from warren.storage.streams.segments import INDEX_BYTES, INDEX_ROW, Segment, SegmentFiles

READ_BYTES: Final = 4 << 20  # of one request
INDEX_READ_ROWS: Final = 4096  # that are searched in memory
ENDING: Final = ".segment"

OnThread = Callable[..., Awaitable[Any]]  # calls a function with its arguments on a thread


class SegmentObjects:
    """See the module. Its methods raise what `SegmentStore` tells."""

    def __init__(
        self, store: ObjectStore, cluster_id: str, on_thread: OnThread = asyncio.to_thread
    ) -> None:
        self._store = store
        self._cluster = cluster_id
        self._on_thread = on_thread

    def _folder(self, uid: int) -> str:
        return f"{self._cluster}/{uid:016x}/"

    def _key(self, uid: int, first_offset: int, term: int) -> str:
        return f"{self._folder(uid)}{first_offset:020d}-{term:016x}{ENDING}"

    def key_of(self, uid: int, row: OffloadedSegment) -> str:
        return self._key(uid, row.first_offset, row.term)

    # Writing

    async def upload(
        self, files: SegmentFiles, segment: Segment, offset: int, term: int
    ) -> OffloadedSegment:
        key = self._key(files.uid, offset, term)
        reading = SegmentReading(files, segment, offset, self._on_thread)
        await self._store.put(key, reading.parts())
        await self._check(key, reading)
        return reading.row(term)

    async def _check(self, key: str, reading: "SegmentReading") -> None:
        """Read back what was stored: the file may go from now on."""
        crc = at = 0
        while content := await self._store.get(key, at, READ_BYTES) if at < reading.size else b"":
            crc = crc32c(content, crc)
            at += len(content)
        if at != reading.size or crc != reading.crc:
            reason = f"{at} bytes with checksum {crc:08x} of {reading.size} with {reading.crc:08x}"
            raise WrongContent(f"object {key} reads back as {reason}")

    # Reading

    async def read(
        self, uid: int, row: OffloadedSegment, offset: int, position: int
    ) -> tuple[Chunks, int]:
        key = self.key_of(uid, row)
        if position < 0:
            position = (await self._find(key, row, 0, offset))[2]
        try:
            chunks = await self._chunks(key, row, position)
        except BadChunk:  # The way may have been bad, and not the object.
            chunks = await self._again(key, row, position)
        return chunks, position + sum(head.size for head, _ in chunks)

    async def _again(self, key: str, row: OffloadedSegment, position: int) -> Chunks:
        try:
            return await self._chunks(key, row, position)
        except BadChunk as error:
            raise CorruptRecord(key, position, reason=str(error)) from error

    async def _chunks(self, key: str, row: OffloadedSegment, position: int) -> Chunks:
        rest = row.byte_count - position
        content = await self._store.get(key, position, min(READ_BYTES, rest))
        if len(content) >= HEAD_BYTES:
            size = decode_size(content, 0)
            if len(content) < size <= rest:
                content += await self._store.get(key, position + len(content), size - len(content))
        return whole_chunks(content)

    async def find_time(self, uid: int, row: OffloadedSegment, timestamp_ms: int) -> int:
        return (await self._find(self.key_of(uid, row), row, 1, timestamp_ms))[0]

    async def _find(
        self, key: str, row: OffloadedSegment, column: int, wanted: int
    ) -> tuple[int, int, int]:
        """Find an index row: the last one at most `wanted` (offsets), the first at least (times).

        The rows before `low` are too low, those from `high` on are not.
        """
        low, high = 0, row.chunk_count
        rows: list[tuple[int, int, int]] = []
        first = low
        while low < high:
            if not rows and high - low <= INDEX_READ_ROWS:
                first = max(0, low - 1)
                rows = await self._rows(key, row, first, high - first)
            middle = (low + high) // 2
            known = rows[middle - first] if rows else (await self._rows(key, row, middle, 1))[0]
            if known[column] < wanted or (column == 0 and known[column] == wanted):
                low = middle + 1
            else:
                high = middle
        at = low - 1 if column == 0 else low
        if rows and first <= at < first + len(rows):
            return rows[at - first]
        return (await self._rows(key, row, at, 1))[0]

    async def _rows(
        self, key: str, row: OffloadedSegment, number: int, count: int
    ) -> list[tuple[int, int, int]]:
        place = row.byte_count + number * INDEX_BYTES
        found = await self._store.get(key, place, count * INDEX_BYTES)
        if len(found) < count * INDEX_BYTES:
            raise CorruptRecord(key, place, reason="the index of an object is cut short")
        return list(INDEX_ROW.iter_unpack(found))

    # Removing

    async def sweep(self, uid: int, rows: Sequence[OffloadedSegment], term: int) -> None:
        known = {self.key_of(uid, row) for row in rows}
        for key in await self._store.keys(self._folder(uid)):
            if key not in known and term_in(key) <= term:
                await self._store.delete(key)

    async def streams(self) -> list[int]:
        """Uids of the streams that have objects here."""
        return [
            int(name, 16) for name in await self._store.folders(f"{self._cluster}/") if is_uid(name)
        ]

    async def remove_stream(self, uid: int) -> None:
        for key in await self._store.keys(self._folder(uid)):
            await self._store.delete(key)

    async def close(self) -> None:
        await self._store.close()


class SegmentReading:
    """The object of a segment, made from its file. Every chunk is checked on the way."""

    def __init__(
        self, files: SegmentFiles, segment: Segment, offset: int, on_thread: OnThread
    ) -> None:
        self._on_thread = on_thread
        self.size = 0
        self.crc = 0
        self._files = files
        self._segment = segment
        self._offset = offset
        self._index: list[bytes] = []
        self._first_ms = self._last_ms = 0
        self._byte_count = 0

    async def parts(self) -> AsyncIterator[bytes]:
        position = 0
        if self._offset > self._segment.first_offset:
            place = await self._on_thread(self._files.place_of, self._segment, self._offset)
            position = place.position
        while position < self._segment.byte_count:
            content, heads = await self._on_thread(self._read, position)
            position += len(content)
            for head in heads:
                self._add(head)
            yield self._counted(content)
        yield self._counted(b"".join(self._index))

    def _read(self, position: int) -> tuple[bytes, list[ChunkHead]]:
        return self._files.read_raw(self._segment, position, READ_BYTES)

    def _counted(self, content: bytes) -> bytes:
        self.crc = crc32c(content, self.crc)
        self.size += len(content)
        return content

    def _add(self, head: ChunkHead) -> None:
        if not self._index:
            self._first_ms = self._last_ms = head.timestamp_ms
        self._last_ms = max(self._last_ms, head.timestamp_ms)
        self._index.append(INDEX_ROW.pack(head.first_offset, head.timestamp_ms, self._byte_count))
        self._byte_count += head.size

    def row(self, term: int) -> OffloadedSegment:
        """What was read; all `parts` were taken."""
        return OffloadedSegment(
            self._offset,
            self._segment.end_offset,
            self._first_ms,
            self._last_ms,
            self._byte_count,
            len(self._index),
            term,
        )


def whole_chunks(content: bytes) -> Chunks:
    """All chunks that are whole. BadChunk: the first one is not, or one is not sound."""
    found: Chunks = []
    at = 0
    while len(content) - at >= HEAD_BYTES and (
        not found or decode_size(content, at) <= len(content) - at
    ):
        head, payload = decode_chunk(content, at)
        found.append((head, payload))
        at += head.size
    if not found:
        raise BadChunk("no chunk where one is expected")
    return found


def term_in(key: str) -> int:
    """Of the leader that wrote the object; other files count as of the latest term, and stay."""
    name = key.rpartition("/")[2].removesuffix(ENDING)
    try:
        return int(name.partition("-")[2], 16)
    except ValueError:
        return 1 << 64


def is_uid(name: str) -> bool:
    return len(name) == 16 and all(each in "0123456789abcdef" for each in name)
