"""Threads of the streams of a node: one writes, two read. A cold read never delays a write.

An error of the writer is the node's: `on_failure` stops it. Reads answer their own errors.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

READERS: Final = 2

Answer = Callable[[], None]
Work = Callable[[], Answer]


class ThreadWorkers:
    """Keeps `warren.storage.streams.log.Workers`. `post` calls on the loop, from any thread."""

    def __init__(
        self, post: Callable[[Answer], None], on_failure: Callable[[BaseException], None]
    ) -> None:
        self._post = post
        self._on_failure = on_failure
        self._writes: SimpleQueue[Work | None] = SimpleQueue()
        self._reads: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def write(self, work: Work) -> None:
        self._begin()
        self._writes.put(work)

    def read(self, work: Work) -> None:
        self._begin()
        self._reads.put(work)

    def _begin(self) -> None:
        """A node without streams has no thread for them."""
        if self._threads:
            return
        self._spawn("stream-writer", self._writes)
        for number in range(READERS):
            self._spawn(f"stream-reader-{number}", self._reads)

    def _spawn(self, name: str, works: "SimpleQueue[Work | None]") -> None:
        def run() -> None:
            try:
                while (work := works.get()) is not None:
                    self._post(work())
            except Exception as error:
                self._on_failure(error)

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """Write what was handed over, and return when all threads have ended."""
        if not self._threads:
            return
        self._writes.put(None)
        for _ in range(READERS):
            self._reads.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
