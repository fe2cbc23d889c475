"""The memory of this process: how much there is, paging bodies out, and giving back what is free.

At PAGING_SHARE of the memory watermark bodies leave memory whatever the budget for them allows,
those that are needed last first, in slices between the turns of the loop, until
so much is gone as was too much. The same is done when they are over their budget for another
reason, as after a page file could not be written.

After a large backlog has gone, the C library keeps most of its memory for the next one. That would
keep the memory alarm set, so it is given back when the node has little to do.

`bound_allocator` keeps glibc from learning of the 19 MiB that one check of a password takes for a
moment (argon2): it would then take blocks of up to that size from its heaps and leave twice as much
free at their ends. Other C libraries do not learn.
"""

import ctypes
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from queues.bodies.paging import Pager
    from queues.bodies.store import BodyBudget

IDLE_MIN_BYTES: Final = 192 * 1024 * 1024  # used beyond the bodies before it is worth a look
QUIET_TURNS: Final = 200  # in a second; with more the node is busy
REST_S: Final = 10  # seconds between two attempts


PAGING_SHARE: Final = 0.5  # of the watermark
CALM_SHARE: Final = 0.95  # of that: paging ends
NEAR_SHARE: Final = 0.9  # of that: it is looked at more often
LOOK_S: Final = 1.0
LOOK_NEAR_S: Final = 0.25
SLICE_SLOTS: Final = 256  # of one queue, looked at in one go
PENDING_BYTES: Final = 8 << 20  # on the way to page files: no more for now
PAUSE_S: Final = 0.01
SLACK_BYTES: Final = 16 << 20  # so many bodies over the budget are on their way to the log
REST_LOOKS: Final = 10  # after a round that found nothing to page out
MEMORY_FACTS: Final = "/proc/meminfo"
# Of glibc's mallopt. What the loop and the log take and give back all the time is below the first.
M_MMAP_THRESHOLD: Final = -3
M_TRIM_THRESHOLD: Final = -1
MAPPED_BYTES: Final = 8 << 20  # a block of so many is memory of its own, given back when it is free
KEPT_BYTES: Final = 16 << 20  # free at the end of a heap: more of it is given back


def bound_allocator() -> bool:
    """To be called once, before much was allocated; whether the C library has such bounds."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    return True


class Shedding(Protocol):
    """A store of bodies (`queues.bodies.store.Store`)."""

    def shed(self, end: int, slots_max: int) -> int: ...


class BodyPaging:
    """Decides when bodies leave memory for want of it, and has them go, a slice at a time.

    A round goes through all queues in turn, from the end of each to its head.
    """

    def __init__(
        self, budget: "BodyBudget", pager: "Pager", stores: Callable[[], Iterable[Shedding]]
    ) -> None:
        self._budget = budget
        self._pager = pager
        self._stores = stores
        self._round: deque[tuple[Shedding, int]] = deque()
        self._least_bytes = 0  # of bodies in memory: with so few the round ends
        self._begun_bytes = 0
        self._used_bytes = 0  # at the last look
        self._body_bytes_max = 0  # since memory was given back
        self._rest = 0
        self._near = False
        self.round_count = 0

    @property
    def look_s(self) -> float:
        """Seconds until the next reading of the memory in use."""
        return LOOK_NEAR_S if self._near else LOOK_S

    def observe(self, used_bytes: int, watermark_bytes: int) -> None:
        """Judge a fresh reading."""
        budget = self._budget
        bodies = budget.used_bytes
        used_bytes -= self._free_bytes(used_bytes, bodies - self._pager.leaving_bytes)
        mark = int(watermark_bytes * PAGING_SHARE)
        self._near = used_bytes > mark * NEAR_SHARE
        budget.is_pressed = used_bytes > (mark * CALM_SHARE if budget.is_pressed else mark)
        self._rest -= 1
        enough = budget.limit_bytes + SLACK_BYTES + self._pager.leaving_bytes
        needless = bodies <= enough and not (budget.is_pressed and bodies > 0)
        if self._round or self._rest > 0 or needless or self._pager.is_failing:
            return
        self._least_bytes = budget.limit_bytes
        if budget.is_pressed:
            too_many = used_bytes - int(mark * CALM_SHARE)
            self._least_bytes = min(self._least_bytes, max(bodies - too_many, 0))
        self._begun_bytes = bodies
        self._round.extend((store, 1 << 62) for store in self._stores())
        self.round_count += 1
        if not self._round:
            self._rest = REST_LOOKS

    def _free_bytes(self, used_bytes: int, body_bytes: int) -> int:
        """What bodies have left and the C library keeps: the next bodies will be there."""
        if used_bytes < self._used_bytes * CALM_SHARE:
            self._body_bytes_max = 0  # It was given back to the system.
        self._used_bytes = used_bytes
        self._body_bytes_max = max(self._body_bytes_max, body_bytes)
        return self._body_bytes_max - body_bytes

    def has_work(self) -> bool:
        """Whether a round is under way."""
        if self._pager.is_failing:
            self._round.clear()
        return bool(self._round)

    def work(self) -> float:
        """Let some bodies of one queue go; return the seconds to wait until the next time."""
        if self._pager.files.pending_bytes >= PENDING_BYTES:
            return PAUSE_S
        store, end = self._round.popleft()
        end = store.shed(end, SLICE_SLOTS)
        if end > 0:
            self._round.append((store, end))
        left = self._budget.used_bytes - self._pager.leaving_bytes
        if left <= self._least_bytes:
            self._round.clear()
        elif not self._round and left >= self._begun_bytes:
            self._rest = REST_LOOKS
        return 0.0


class MemoryKeeper:
    """Decides once a second whether to give memory back; `trim` does it."""

    def __init__(self) -> None:
        self._rest = REST_S
        self._turns = 0
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, others need none
        self._malloc_trim = trim

    def should_trim(
        self, used_bytes: int, body_bytes: int, turn_count: int, is_pressed: bool = False
    ) -> bool:
        """Told what is used, what of it are bodies, and the number of turns so far.

        `is_pressed`: memory is short, so it is worth a pause of the node.
        """
        quiet = is_pressed or turn_count - self._turns < QUIET_TURNS
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
    with open(MEMORY_FACTS) as file:
        facts = dict(line.split(":", 1) for line in file)
    total = int(facts["MemTotal"].split()[0]) * 1024
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total
