"""The memory of this process: how much there is, and giving back what is free.

After a large backlog has gone, the C library keeps most of its memory for the next one. That would
keep the memory alarm set (G-01), so it is given back when the node has little to do.
"""

import ctypes
from typing import Final

import psutil

IDLE_MIN_BYTES: Final = 192 * 1024 * 1024  # used beyond the bodies before it is worth a look
QUIET_TURNS: Final = 200  # in a second; with more the node is busy
REST_S: Final = 10  # seconds between two attempts


class MemoryKeeper:
    """Decides once a second whether to give memory back; `trim` does it."""

    def __init__(self) -> None:
        self._rest = REST_S
        self._turns = 0
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, others need none
        self._malloc_trim = trim

    def should_trim(self, used_bytes: int, body_bytes: int, turn_count: int) -> bool:
        """Told what is used, what of it are bodies, and the number of turns so far."""
        quiet = turn_count - self._turns < QUIET_TURNS
        self._turns = turn_count
        self._rest -= 1
        if not quiet or self._rest > 0 or used_bytes - body_bytes < IDLE_MIN_BYTES:
            return False
        self._rest = REST_S
        return self._malloc_trim is not None

    def trim(self) -> None:
        """Give free memory back to the system; to be called in a thread."""
        if self._malloc_trim is not None:
            self._malloc_trim(0)


def memory_total_bytes() -> int:
    """Memory of the machine, or of the container if that is less (cgroup v2, v1)."""
    total = int(psutil.virtual_memory().total)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total
