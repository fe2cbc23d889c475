"""`DirectDisk` over a simulated disk: its calls insist on whole, aligned blocks, as O_DIRECT does.

What is beneath crashes and records like any other `SimDisk`.
"""

import ctypes
import errno
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.direct import DIRECT_BYTES, DirectDisk
from warren.storage.writing.submitted import Done

SHIFT: Final = 1 << 20  # between a handle and its second one


def past_cache(disk: SimDisk, runner: StepRunner, random: Random) -> DirectDisk:
    """The disk as a node has it."""
    calls = BlockCalls(disk)
    return DirectDisk(disk, calls, writes=StepWrites(calls, runner, random))


class BlockCalls:
    """Keeps `DirectCalls`. `refusal`: what the file system does not do, and what it says then."""

    def __init__(self, disk: SimDisk, refusal: str = "", error: int = errno.EINVAL) -> None:
        self.open_handles: set[int] = set()
        self.writes = 0
        self.reads = 0
        self._disk = disk
        self._refusal = refusal
        self._error = error

    def _check(self, operation: str, view: memoryview, offset: int) -> None:
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        assert address % DIRECT_BYTES == 0, "memory that is not aligned"
        assert len(view) % DIRECT_BYTES == 0 < len(view)
        assert offset % DIRECT_BYTES == 0
        if operation in self._refusal.split():
            raise OSError(self._error, "refused")

    def open_direct(self, handle: int) -> int:
        if self._refusal == "open":
            raise OSError(self._error, "refused")
        self.open_handles.add(handle + SHIFT)
        return handle + SHIFT

    def pwrite_direct(self, direct: int, view: memoryview, offset: int, dsync: bool) -> int:
        assert direct in self.open_handles
        self._check("write", view, offset)
        length = len(view) // 2 if self._refusal == "half" else len(view)
        self._disk.pwritev(direct - SHIFT, [bytes(view[:length])], offset, dsync)
        self.writes += 1
        return length

    def pread_direct(self, direct: int, view: memoryview, offset: int) -> int:
        assert direct in self.open_handles
        self._check("read", view, offset)
        found = self._disk.pread(direct - SHIFT, len(view), offset)
        view[: len(found)] = found
        self.reads += 1
        return len(found)

    def close_direct(self, direct: int) -> None:
        self.open_handles.remove(direct)


class StepWrites:
    """Keeps `SyncedWrites`: a write is one step, and its end, on the loop, another one.

    One of eight is not begun, and one of eight refused later.
    """

    def __init__(self, calls: BlockCalls, runner: StepRunner, random: Random) -> None:
        self._calls = calls
        self._runner = runner
        self._random = random
        self._is_busy = False

    def begin(self, direct: int, view: memoryview, offset: int, done: Done) -> bool:
        assert not self._is_busy, "two writes at a time"
        chance = self._random.randrange(8)
        if chance == 0:
            return False
        self._is_busy = True
        self._runner.submitted.append(partial(self._write, direct, view, offset, done, chance == 1))
        return True

    def _write(self, direct: int, view: memoryview, offset: int, done: Done, refused: bool) -> None:
        result = -errno.EAGAIN
        if not refused:
            result = self._calls.pwrite_direct(direct, view, offset, True)
        self._runner.post(partial(self._end, done, result))

    def _end(self, done: Done, result: int) -> None:
        self._is_busy = False
        done(result)

    def soon(self, work: Callable[[], None]) -> None:
        self._runner.post(work)

    def close(self) -> None:
        while self._runner.submitted:
            self._runner.submitted.popleft()()
        while self._is_busy:
            self._runner.posted.popleft()()
