"""Where the work of the log runs: threads in a node, one step at a time in a simulation."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Final, Protocol

READERS: Final = 2
REST_MS_MAX: Final = 50
HURRIED_PART: Final = 4  # of its rest is what rewriting takes in a hurry
REWRITE_BYTES_PER_S: Final = 64 << 20
Work = Callable[[], None]


class Runner(Protocol):
    """Four kinds of work, each in order of hand-over; kinds run beside each other."""

    def ahead(self) -> Executor:
        """What reads ahead while a start looks at what was read; it is shut down then."""

    def start(self, write: Callable[[], bool]) -> None:
        """From now on, after each `kick`, call `write` until it answers False."""

    def kick(self) -> None:
        """There is something to write."""

    def background(self, work: Work) -> None:
        """Run a slice of slow work that must not delay the writer."""

    def rewrite(self, work: Callable[[], int]) -> None:
        """Run a slice of rewriting, which answers how many bytes it has moved.

        The next one begins when so many may be moved again, or at once after `hurry(True)`.
        """

    def hurry(self, on: bool) -> None:
        """Whether rewriting has to go as fast as it can."""

    def read(self, work: Work) -> None:
        """Run one read."""

    def page(self, work: Work) -> None:
        """Run one write to a page file, or what must come behind it."""

    def stop(self) -> None:
        """Write what is there, end the other work at once, and return when all is still."""


class ThreadRunner:
    """One writer thread, two readers, one for page files, one in the background, one that rewrites.

    The last two rest as long as they work. Rewriting rests longer if it would move more than
    `rewrite_bytes_per_s` otherwise, and a quarter of that time in a hurry, for then publishers
    wait, or will before long; it has its own thread so that no other work waits for that.
    """

    def __init__(
        self,
        on_failure: Callable[[BaseException], None],
        rewrite_bytes_per_s: int = REWRITE_BYTES_PER_S,
    ) -> None:
        self._on_failure = on_failure  # for an error that no work has settled itself
        self._rewrite_bytes_per_s = rewrite_bytes_per_s
        self._hurried = threading.Event()
        self._kicks: SimpleQueue[bool] = SimpleQueue()  # False: stop
        self._background: SimpleQueue[Work | None] = SimpleQueue()
        self._rewrites: SimpleQueue[Callable[[], int] | None] = SimpleQueue()
        self._reads: SimpleQueue[Work | None] = SimpleQueue()
        self._pages: SimpleQueue[Work | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._write: Callable[[], bool] = bool
        self._threads: list[threading.Thread] = []

    def ahead(self) -> Executor:
        return ThreadPoolExecutor(1, "wal-ahead")

    def start(self, write: Callable[[], bool]) -> None:
        self._write = write
        self._spawn("wal-writer", self._run_writer)
        self._spawn("wal-background", self._run_background)
        self._spawn("wal-rewriter", self._run_rewriter)
        for number in range(READERS):
            self._spawn(f"wal-reader-{number}", self._run_reader)
        self._spawn("page-writer", self._run_pages)

    def kick(self) -> None:
        if self._kicks.empty():  # Else the writer has yet to begin with what is there by now.
            self._kicks.put(True)

    def background(self, work: Work) -> None:
        self._background.put(work)

    def rewrite(self, work: Callable[[], int]) -> None:
        self._rewrites.put(work)

    def hurry(self, on: bool) -> None:
        if on:
            self._hurried.set()
        else:
            self._hurried.clear()

    def read(self, work: Work) -> None:
        self._reads.put(work)

    def page(self, work: Work) -> None:
        self._pages.put(work)

    def stop(self) -> None:
        self._stopping.set()
        self._hurried.set()
        self._kicks.put(False)
        self._background.put(None)
        self._rewrites.put(None)
        for _ in range(READERS):
            self._reads.put(None)
        self._pages.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _spawn(self, name: str, target: Work) -> None:
        def guarded() -> None:
            try:
                target()
            except Exception as error:
                self._on_failure(error)

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run_writer(self) -> None:
        while True:
            more = self._kicks.get()
            while self._write():
                pass
            if not more:
                return

    def _run_background(self) -> None:
        while True:
            work = self._background.get()
            if work is None or self._stopping.is_set():
                return
            began = time.monotonic()
            work()
            worked = time.monotonic() - began
            self._stopping.wait(rest_s(worked, False))

    def _run_rewriter(self) -> None:
        while True:
            work = self._rewrites.get()
            if work is None or self._stopping.is_set():
                return
            began = time.monotonic()
            moved = work()
            worked = time.monotonic() - began
            self._stopping.wait(rest_s(worked, self._hurried.is_set()))
            self._hurried.wait(moved / self._rewrite_bytes_per_s - 2 * worked)

    def _run_reader(self) -> None:
        while True:
            work = self._reads.get()
            if work is None:
                return
            work()

    def _run_pages(self) -> None:
        while True:
            work = self._pages.get()
            if work is None or self._stopping.is_set():
                return
            work()


def rest_s(worked_s: float, in_a_hurry: bool) -> float:
    """How long a thread rests that has worked so long."""
    return min(worked_s / HURRIED_PART if in_a_hurry else worked_s, REST_MS_MAX / 1000)
