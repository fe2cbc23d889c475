"""Who writes what was appended to the log: the loop, by a submitted write, or the writer thread.

    writer = LogWriter(disk, pool, group_bytes, post, told, on_failure)
    writer.start(runner)
    writer.hand_over(batch)  # any number of them ...
    writer.go_on()           # ... and one call

`told` gets the last batch that is durable, on the loop, after each write. There is one synced write
at a time, of all that was handed over for a file since the last one, up to `group_bytes`. After a
failure nothing is written any more, and `on_failure` is called on the loop. Compiled.
"""

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, final

from warren.storage.direct import DirectDisk
from warren.storage.disk import Disk
from warren.storage.files import BLOCK_BYTES, ZEROS, FilePool
from warren.storage.log import Batch
from warren.storage.record import Buffer
from warren.storage.runner import Runner

SUBMIT_BYTES_MAX: Final = 32 << 10  # more costs the loop longer than a thread costs it
# Upper bounds of the buckets of `sync_counts`, in seconds.
SYNC_BOUNDS_S: Final[tuple[float, ...]] = (
    0.0001,
    0.0002,
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.05,
    0.1,
    0.5,
    2.0,
)

Post = Callable[[Callable[[], None]], object]


@final
class LogWriter:
    """Invariant: the thread does not write while something is submitted. `_choice` is held to
    decide which of them takes what was handed over."""

    def __init__(
        self,
        disk: Disk,
        pool: FilePool,
        group_bytes: int,
        post: Post,
        told: Callable[[Batch], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._disk = disk
        self._submits = disk if isinstance(disk, DirectDisk) else None
        self._pool = pool
        self._group_bytes = group_bytes
        self._post = post
        self._told = told
        self._on_failure = on_failure
        self._runner: Runner | None = None
        self._choice = threading.Lock()
        self._handed: deque[Batch] = deque()
        self._is_writing = False  # the thread is
        self._is_planned = False  # `_submit` is
        self._submitted: Batch | None = None
        self._written: Batch | None = None  # the last durable one
        self._notice_posted = False
        self.failure: BaseException | None = None
        self.sync_counts = [0] * (len(SYNC_BOUNDS_S) + 1)
        self.sync_total_s = 0.0
        self.sync_begun_s = 0.0  # of the one that runs; 0: none does

    def start(self, runner: Runner) -> None:
        """From now on what is handed over is written beside the loop."""
        self._runner = runner
        runner.start(self._write_group)

    def hand_over(self, batch: Batch) -> None:
        self._handed.append(batch)

    def write_first(self) -> Batch:
        """Before `start`: write the first batch here and now."""
        batch = self._handed.popleft()
        self._write(batch)
        return batch

    def go_on(self) -> None:
        """Have what was handed over written."""
        if not self._handed or self._submitted is not None:
            return
        if not self._is_for_loop(self._handed[0]):
            self._kick()
        elif not self._is_planned:  # Not now: more may come, and others wait for the loop.
            self._is_planned = True
            assert self._submits is not None
            self._submits.soon(self._submit)

    def end_submits(self) -> None:
        """Wait for what is submitted; from now on the thread writes everything."""
        if self._submits is not None:
            self._submits.end_submits()

    def fail(self, error: BaseException) -> None:
        """From any thread: the log is at its end."""
        self.failure = error
        self._post(lambda: self._on_failure(error))

    def tell(self) -> None:
        """On the loop: say how far the log is durable."""
        self._notice_posted = False  # Before `_written` is read, or a notice could get lost.
        batch = self._written
        if batch is not None and self.failure is None:
            self._told(batch)

    # On the loop.

    def _kick(self) -> None:
        assert self._runner is not None
        self._runner.kick()

    def _is_for_loop(self, batch: Batch) -> bool:
        """Whether it is to be submitted. Files that overwriting gives new extents, and the first
        write to one, are the thread's."""
        return (
            self._submits is not None
            and self._submits.can_submit
            and batch.byte_count <= SUBMIT_BYTES_MAX
            and batch.offset != BLOCK_BYTES
            and batch.file.written_before
            and batch.file.handle >= 0
        )

    def _submit(self) -> None:
        """Begin to write what was handed over without the thread, if that has nothing to do."""
        self._is_planned = False
        if self.failure is not None or self._submitted is not None:
            return
        with self._choice:
            if self._is_writing or not self._handed:
                return
            if self._submits is not None and self._is_for_loop(self._handed[0]):
                batch = self._take_group()
                self.sync_begun_s = perf_counter()
                handle, parts = batch.file.handle, with_padding(batch)
                if self._submits.submit(handle, parts, batch.offset, self._submit_ended):
                    self._submitted = batch
                    return
                self.sync_begun_s = 0.0
                self._handed.appendleft(batch)
        self._kick()

    def _submit_ended(self, error: OSError | None) -> None:
        batch = self._submitted
        assert batch is not None
        self._submitted = None
        if isinstance(error, BlockingIOError):
            self.sync_begun_s = 0.0
            with self._choice:
                self._handed.appendleft(batch)
            self._kick()
            return
        if error is not None:
            self.fail(error)
            return
        self._note_sync()
        self._written = batch
        self.tell()
        self.go_on()

    # On the writer thread.

    def _write_group(self) -> bool:
        """Write what was handed over, as one group; False if there was nothing."""
        with self._choice:
            is_idle = self.failure is not None or self._submitted is not None
            self._is_writing = bool(self._handed) and not is_idle
            if not self._is_writing:
                return False
            batch = self._take_group()
        try:
            self._write(batch)
        except Exception as error:  # Whatever it was: what is on disk is unknown now.
            self.fail(error)
            return False
        self._written = batch
        if not self._notice_posted:
            self._notice_posted = True
            self._post(self.tell)
        return True

    def _take_group(self) -> Batch:
        """All that was handed over and is for the same file, as one batch."""
        batch = self._handed.popleft()
        while self._handed:
            following = self._handed[0]
            total = batch.byte_count + following.byte_count
            if following.file is not batch.file or total > self._group_bytes:
                break
            self._handed.popleft()
            batch.parts.extend(following.parts)
            batch.byte_count = total
            batch.end_lsn = following.end_lsn
        return batch

    def _write(self, batch: Batch) -> None:
        file = batch.file
        self._pool.make_ready(file)
        self.sync_begun_s = perf_counter()
        self._disk.pwritev(file.handle, with_padding(batch), batch.offset, True)
        self._note_sync()
        if batch.offset == BLOCK_BYTES:  # Before anything in the file is reported durable.
            self._pool.note_records(file)

    def _note_sync(self) -> None:
        """Count one that has ended well."""
        took_s = perf_counter() - self.sync_begun_s
        self.sync_begun_s = 0.0
        self.sync_counts[bisect_left(SYNC_BOUNDS_S, took_s)] += 1
        self.sync_total_s += took_s


def with_padding(batch: Batch) -> list[Buffer]:
    """Its parts, and zeros up to the end of the block.

    Else the kernel would read the rest of the block, if that has left the page cache.
    """
    end = batch.offset + batch.byte_count
    rest = min(-end % BLOCK_BYTES, batch.file.size - end)
    return [*batch.parts, ZEROS[:rest]] if rest else batch.parts
