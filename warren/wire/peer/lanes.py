"""What waits to be sent on one connection: lanes in turn, beats before all of them. No I/O.

Takes messages in parts and gives stretches of bytes for one write, parts as they are: nothing is
joined or copied. Lanes take turns of `QUANTUM_BYTES`, and long messages are cut, so that none of
them waits long for another; what is put first goes at the next border of a frame. Bounded: at
`bytes_max` a lane takes no more, whatever its next message is; the first one fits always. Compiled.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from warren.wire.peer.codes import LANE_COUNT
from warren.wire.peer.frames import FRAME_BYTES_MAX, FRAME_HEAD, HEAD, MORE

QUANTUM_BYTES: Final = FRAME_BYTES_MAX


@final
class Outgoing:
    """A message on its way: parts from `at` on, without the first `offset` bytes of that one."""

    __slots__ = ("at", "kind", "left", "offset", "parts", "size")

    def __init__(self, kind: int, parts: Sequence[bytes], size: i64) -> None:
        self.kind = kind
        self.parts = parts
        self.size: i64 = size
        self.left: i64 = size
        self.at: i64 = 0
        self.offset: i64 = 0


@final
class Lanes:
    """Messages that wait. Invariant: `queued_bytes` is the size of what is in them, heads aside."""

    def __init__(self, bytes_max: i64) -> None:
        self.bytes_max: i64 = bytes_max
        self._first: list[bytes] = []  # whole frames
        self._lanes: list[deque[Outgoing]] = [deque() for _ in range(LANE_COUNT)]
        self._turn: i64 = 0  # whose it is
        self._turn_bytes: i64 = 0  # taken in it
        self._count: i64 = 0
        self.queued_bytes: i64 = 0
        self.taken_bytes: i64 = 0  # by the last `take`

    def is_full(self) -> bool:
        return self.queued_bytes >= self.bytes_max

    def is_empty(self) -> bool:
        return self._count == 0 and len(self._first) == 0

    def first_count(self) -> int:
        """How many frames wait to go first."""
        return len(self._first)

    def put(self, kind: int, lane: int, parts: Sequence[bytes]) -> bool:
        """Add a message; False: there is no room."""
        if self.queued_bytes >= self.bytes_max:
            return False
        size: i64 = 0
        for part in parts:
            size += len(part)
        self._lanes[lane].append(Outgoing(kind, parts, size))
        self._count += 1
        self.queued_bytes += size
        return True

    def put_first(self, frame: bytes) -> None:
        """Add a whole frame that waits for nothing but the one that is being written."""
        self._first.append(frame)

    def take(self, bytes_max: i64) -> list[bytes | memoryview]:
        """Whole frames for one write: at least one if there is any, and then up to `bytes_max`."""
        out: list[bytes | memoryview] = []
        taken: i64 = 0
        for frame in self._first:
            out.append(frame)
            taken += len(frame)
        self._first = []
        while self._count > 0 and taken < bytes_max:
            taken += self._take_frame(out)
        self.taken_bytes = taken
        return out

    def _take_frame(self, out: list[bytes | memoryview]) -> i64:
        """The next frame of the lane whose turn it is; its size."""
        lane = self._turn
        waiting = self._lanes[lane]
        while len(waiting) == 0 or self._turn_bytes >= QUANTUM_BYTES:
            lane = (lane + 1) % LANE_COUNT
            self._turn = lane
            self._turn_bytes = 0
            waiting = self._lanes[lane]
        message = waiting[0]
        size: i64 = min(message.left, FRAME_BYTES_MAX)
        flags = 0 if size == message.left else MORE
        out.append(HEAD.pack(size, message.kind, lane, flags, 0))
        if size == message.size:
            out.extend(message.parts)
        else:
            cut(message, size, out)
        message.left -= size
        self.queued_bytes -= size
        self._turn_bytes += size + FRAME_HEAD
        if message.left == 0:
            waiting.popleft()
            self._count -= 1
        return size + FRAME_HEAD


def cut(message: Outgoing, size: i64, out: list[bytes | memoryview]) -> None:
    """The next `size` bytes of a message: its parts, and views of those that are cut."""
    while size > 0:
        part = message.parts[message.at]
        there: i64 = len(part) - message.offset
        if there > size:
            out.append(memoryview(part)[message.offset : message.offset + size])
            message.offset += size
            return
        if there > 0:
            out.append(part if message.offset == 0 else memoryview(part)[message.offset :])
        message.at += 1
        message.offset = 0
        size -= there
