"""Snapshots of a stream between members: its state, then the files of its segments, in slices.

A slice begins with a byte: STATE, or DATA or INDEX with the segment (u64) and the place in that
file (u64), little-endian. What comes in is written under a generation of its own, and counts when
the snapshot that names this generation is durable.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from queues.streams.storage import Disks
from warren.storage.streams.segments import Segment, SegmentFiles, index_bytes

SLICE_BYTES: Final = 256 << 10  # A member that has restarted goes on where it was: never change it.
STATE: Final = 1
DATA: Final = 2
INDEX: Final = 3
FILE_HEAD: Final = Struct("<BQQ")
ENDINGS: Final = {DATA: "data", INDEX: "index"}

SliceDone = Callable[[Sequence[bytes] | None, bool], None]


class OutgoingFiles:
    """The newest snapshot of a member, as slices for others."""

    def __init__(
        self,
        disks: Disks,
        files: SegmentFiles,
        index: int,
        state: bytes,
        segments: Sequence[Segment],
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        self.index = index
        self._disks = disks
        self._files = files
        self._state = state
        self._segments = segments
        self._slice_bytes = slice_bytes
        self._plan: list[tuple[int, int, int, int]] = []  # kind, segment, place, length

    def read_slice(self, number: int, done: SliceDone) -> None:
        """None: a segment is gone by retention, or cannot be read; a newer snapshot is asked."""
        if not self._plan:
            self._make_plan()
        kind, segment, place, length = self._plan[number]
        is_last = number == len(self._plan) - 1
        if kind == STATE:
            done([bytes([STATE]), self._state[place : place + length]], is_last)
            return
        files = self._files

        def work() -> Callable[[], None]:
            try:
                found = files.read_piece(segment, place, length, ENDINGS[kind])
            except OSError:
                return lambda: done(None, False)
            if len(found) < length:
                return lambda: done(None, False)
            head = FILE_HEAD.pack(kind, segment, place)
            return lambda: done([head, found], is_last)

        self._disks.read(work)

    def _make_plan(self) -> None:
        self._add(STATE, 0, len(self._state))
        for each in self._segments:
            self._add(INDEX, each.first_offset, index_bytes(each))
            self._add(DATA, each.first_offset, each.byte_count)

    def _add(self, kind: int, segment: int, size: int) -> None:
        step = self._slice_bytes
        for at in range(0, size, step):
            self._plan.append((kind, segment, at, min(step, size - at)))


class IncomingFiles:
    """A snapshot of another member on its way in."""

    def __init__(self, disks: Disks, files: SegmentFiles) -> None:
        self.files = files
        self._disks = disks
        self._state: list[bytes] = []

    @property
    def state(self) -> bytes:
        return b"".join(self._state)

    def take(self, content: bytes, done: Callable[[], None]) -> None:
        """Write a slice; `done` when it is in the file. ValueError: it is none."""
        kind = content[0] if content else 0
        if kind == STATE:
            self._state.append(content[1:])
            done()
            return
        if kind not in ENDINGS or len(content) < FILE_HEAD.size:
            raise ValueError(f"a slice of a stream of kind {kind}")
        _, segment, place = FILE_HEAD.unpack_from(content)
        files, piece = self.files, content[FILE_HEAD.size :]

        def work() -> Callable[[], None]:
            files.write_piece(segment, place, piece, ENDINGS[kind])
            return done

        self._disks.write(work)

    def sync(self, done: Callable[[], None]) -> None:
        """Make all of it durable."""
        files = self.files

        def work() -> Callable[[], None]:
            files.sync()
            return done

        self._disks.write(work)
