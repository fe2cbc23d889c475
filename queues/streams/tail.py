"""The newest chunks of a stream in memory, shared by all consumers that read at its end. No I/O."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from queues.message import Chunk

TAIL_BYTES: Final = 4 << 20
ENCODED_MAX: Final = 8  # chunks
Run = tuple[int, Chunk, int]  # offset of the first message, messages, time of their entry


class EncodedChunk(Struct, frozen=True):
    """Messages as subscribers of the stream protocol get them."""

    first_offset: int
    end_offset: int
    head: bytes
    data: bytes


class EncodedChunks:
    """The last chunks that were made for subscribers at the tail: each is made once for all."""

    def __init__(self) -> None:
        self._chunks: dict[int, EncodedChunk] = {}  # by first offset

    def find(self, offset: int) -> EncodedChunk | None:
        """One that begins with this message."""
        return self._chunks.get(offset)

    def add(self, chunk: EncodedChunk) -> None:
        if len(self._chunks) >= ENCODED_MAX:
            del self._chunks[next(iter(self._chunks))]
        self._chunks[chunk.first_offset] = chunk

    def clear(self) -> None:
        self._chunks.clear()


class Tail:
    """Committed runs of messages, the oldest first. Those that are in no file always stay."""

    def __init__(self, bytes_max: int = TAIL_BYTES) -> None:
        self._bytes_max = bytes_max
        self._runs: list[Run] = []
        self._head = 0
        self._byte_count = 0
        self.encoded = EncodedChunks()

    @property
    def first_offset(self) -> int:
        """Of the oldest message in memory; -1: there is none."""
        return self._runs[self._head][0] if self._head < len(self._runs) else -1

    def append(self, first_offset: int, chunks: Sequence[Chunk], now_ms: int) -> None:
        for chunk in chunks:
            self._runs.append((first_offset, chunk, now_ms))
            self._byte_count += int(chunk.size())
            first_offset += int(chunk.count())

    def trim(self, written_offset: int) -> None:
        """Let go of the oldest runs that are written, down to the limit."""
        while self._byte_count > self._bytes_max and self._head < len(self._runs):
            first, chunk, _ = self._runs[self._head]
            if first + chunk.count() > written_offset:
                break
            self._byte_count -= int(chunk.size())
            self._head += 1
        if self._head * 2 > len(self._runs):
            del self._runs[: self._head]
            self._head = 0

    def find(self, offset: int) -> Run | None:
        """The run that holds the offset, if it is in memory."""
        at = bisect_right(self._runs, offset, self._head, key=lambda run: run[0]) - 1
        if at < self._head:
            return None
        run = self._runs[at]
        return run if offset < run[0] + run[1].count() else None

    def clear(self) -> None:
        self.encoded.clear()
        self._runs.clear()
        self._head = self._byte_count = 0
