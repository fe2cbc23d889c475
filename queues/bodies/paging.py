"""Bodies leave memory that are in no log: transient ones, and those of transient queues. Compiled.

Takes chunks that hosts offer when the node is over its `BodyBudget` (or at once, of lazy queues).
They rest until REST_BYTES more have come (or REST_CHUNKS chunks), so that what is delivered and
settled at once is never written; then they go to page files (`warren.storage.pages`) in batches,
the oldest first. A chunk stays in memory until its batch is written, and its `page_id` says how far
it has come.

If the files cannot take what comes, publishers lose credit from BEHIND_BYTES on. If a write fails,
its bodies stay in memory and nothing is written until `try_again`; the owner of the budget
offers them again (`Store.shed`).
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.bodies.store import BodyBudget
from queues.message import BEING_PAGED, Chunk
from queues.sessions.credit import CreditActor, CreditSpec

REST_BYTES: Final = 4 << 20
REST_CHUNKS: Final = 16_384  # no more than so many rest, for each takes memory besides its bytes
BATCH_BYTES: Final = 1 << 20
BATCH_CHUNKS: Final = 1024  # parts of one call to the disk
BEHIND_BYTES: Final = 16 << 20


class Batch(Protocol):
    """What a page file tells when it was written, or not."""

    def written(self, file_id: int, offset: int) -> None: ...

    def failed(self, error: Exception) -> None: ...


class PageFiles(Protocol):
    """What is needed of `warren.storage.pages.Pages`."""

    @property
    def pending_bytes(self) -> int: ...

    def write(self, parts: list[bytes | memoryview], byte_count: int, batch: Batch) -> None: ...

    def read(
        self, file_id: int, offset: int, length: int, done: Callable[[bytes | Exception], None]
    ) -> None: ...

    def claim(self, file_id: int, byte_count: int) -> None: ...

    def release(self, file_id: int, byte_count: int) -> None: ...


@final
class Pager:
    """Chunks on their way to page files. Invariant: those in `_resting` are BEING_PAGED."""

    def __init__(self, files: PageFiles, budget: BodyBudget, rest_bytes: i64 = REST_BYTES) -> None:
        self.files = files
        self.credit = CreditActor("page files", CreditSpec(1, 1))
        self._budget = budget
        self._rest_bytes: i64 = rest_bytes
        self._resting: deque[Chunk] = deque()
        self._resting_bytes: i64 = 0
        self._held: list[tuple[CreditActor, int]] = []  # credit to be given back
        self.is_failing = False
        budget.pager = self

    def offer(self, chunk: Chunk) -> None:
        """The chunk, which is in memory, may leave it."""
        if chunk.page_id == 0 and not self.is_failing:
            chunk.page_id = BEING_PAGED
            self._resting.append(chunk)
            self._resting_bytes += chunk.size()

    @property
    def leaving_bytes(self) -> int:
        """Of bodies that are on their way out of memory."""
        return self._resting_bytes + i64(self.files.pending_bytes)

    def is_behind(self) -> bool:
        return i64(self.files.pending_bytes) > BEHIND_BYTES

    def hold(self, host: CreditActor, count: i64) -> None:
        """Publishers of this queue have sent so much: they wait until the files have caught up."""
        host.send(self.credit, count)
        self._held.append((host, count))

    def end_turn(self) -> None:
        """Hand to the disk what has rested long enough."""
        while self._resting_bytes > self._rest_bytes or len(self._resting) > REST_CHUNKS:
            self._write_some()

    def _write_some(self) -> None:
        """Write the chunks that rest longest, as one piece."""
        resting = self._resting
        batch = PageBatch(self, self._budget)
        parts: list[bytes | memoryview] = []
        total: i64 = 0
        while len(resting) > 0 and total < BATCH_BYTES and len(parts) < BATCH_CHUNKS:
            chunk = resting.popleft()
            size = chunk.size()
            self._resting_bytes -= size
            data = chunk.data
            if data is None:
                continue  # Settled in the meantime.
            begin = chunk.first_offset() - chunk.base
            whole = begin == 0 and size == len(data)
            parts.append(data if whole else memoryview(data)[begin : begin + size])
            batch.chunks.append(chunk)
            total += size
        if len(parts) > 0:
            self.files.write(parts, total, batch)

    def caught_up(self) -> None:
        """A write has ended: publishers may go on if it was the last of many."""
        if len(self._held) > 0 and i64(self.files.pending_bytes) * 2 <= BEHIND_BYTES:
            held = self._held
            self._held = []
            for host, count in held:
                self.credit.ack(host, count)

    def failed(self) -> None:
        """What rests stays in memory for now."""
        self.is_failing = True
        for chunk in self._resting:
            chunk.page_id = 0
        self._resting.clear()
        self._resting_bytes = 0

    def try_again(self) -> None:
        """Some time has passed since a write failed."""
        self.is_failing = False


@final
class PageBatch:
    """Chunks that are written one behind the other."""

    def __init__(self, pager: Pager, budget: BodyBudget) -> None:
        self._pager = pager
        self._budget = budget
        self.chunks: list[Chunk] = []

    def written(self, file_id: int, offset: int) -> None:
        """They are in this file from `offset` on; those that are over the budget leave memory."""
        at: i64 = offset
        budget = self._budget
        for chunk in self.chunks:
            size = chunk.size()
            if chunk.holders == 0:
                self._pager.files.release(file_id, size)
            else:
                chunk.page_id = file_id
                chunk.page_offset = at
                if chunk.data is not None and (chunk.lazy or budget.is_over()):
                    budget.evict(chunk)
            at += size
        self._pager.caught_up()

    def failed(self, error: Exception) -> None:
        for chunk in self.chunks:
            chunk.page_id = 0
        self._pager.failed()
        self._pager.caught_up()
