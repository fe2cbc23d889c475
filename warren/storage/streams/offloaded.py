"""Segments of streams that are in an object store: which, and what a node asks of the store.

`warren.storage.streams.segment_objects` does the work. No I/O.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from warren.storage.streams.chunk_format import ChunkHead
from warren.storage.streams.segments import Segment, SegmentFiles

Chunks = list[tuple[ChunkHead, bytes]]


class WrongContent(Exception):
    """What the store gives back is not what was written; the text names the object."""


class OffloadedSegment(Struct, frozen=True):
    """A segment in the object store."""

    first_offset: int
    end_offset: int  # of the message behind the last one
    first_ms: int  # timestamps of its first and last chunk
    last_ms: int
    byte_count: int  # of chunks
    chunk_count: int
    term: int  # of the leader that uploaded it


class SegmentStore(Protocol):
    """Segments of all streams of a node (`node.cluster.queues.stream_store`). Callbacks come on the
    loop; `failed` gets StoreUnavailable, NoSuchObject, WrongContent, CorruptRecord or OSError."""

    @property
    def is_set(self) -> bool:
        """Whether there is a store at all. Without one every call fails with StoreUnavailable."""

    @property
    def fault(self) -> str:
        """Why the last call failed; empty: it did not."""

    def upload(
        self,
        files: SegmentFiles,
        segment: Segment,
        offset: int,
        term: int,
        done: Callable[[OffloadedSegment], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Store the chunks of a segment that begin at `offset` or behind it."""

    def read(
        self,
        uid: int,
        row: OffloadedSegment,
        offset: int,
        position: int,
        done: Callable[[Chunks, int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Read chunks from `position` on, or, if it is -1, from the one that holds `offset`; `done`
        with them and the position behind them."""

    def find_time(
        self,
        uid: int,
        row: OffloadedSegment,
        timestamp_ms: int,
        done: Callable[[int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Find the offset of the first chunk that is not older, which the segment has."""

    def sweep(
        self,
        uid: int,
        rows: Sequence[OffloadedSegment],
        term: int,
        done: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Remove the objects of the stream that are not of these rows, and not of a later term."""

    def streams(
        self, done: Callable[[list[int]], None], failed: Callable[[Exception], None]
    ) -> None:
        """Look up the uids of all streams that have objects in the store."""

    def remove_stream(
        self, uid: int, done: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        """Remove all objects of a stream."""
