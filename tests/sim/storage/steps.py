"""The log without threads: its work waits in lists until the test runs it."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

Work = Callable[[], None]
LATE: Final = 0.97


class StepRunner:
    """Keeps the `Runner` Protocol, and is the loop's `post` too."""

    def __init__(self) -> None:
        self.posted: deque[Work] = deque()
        self.slow: deque[Work] = deque()
        self.reads: deque[Work] = deque()
        self.pages: deque[Work] = deque()
        self.saves: deque[Work] = deque()  # of the keyed state, which has a thread of its own
        self.saves_late = False  # saves run seldom while there is other work
        self.kicked = False
        self._write: Callable[[], bool] = bool

    def post(self, work: Work) -> None:
        self.posted.append(work)

    def start(self, write: Callable[[], bool]) -> None:
        self._write = write

    def kick(self) -> None:
        self.kicked = True

    def background(self, work: Work) -> None:
        self.slow.append(work)

    def read(self, work: Work) -> None:
        self.reads.append(work)

    def page(self, work: Work) -> None:
        self.pages.append(work)

    def keep(self, work: Work) -> None:
        self.saves.append(work)

    def stop(self) -> None:
        while self._write():
            pass
        self.slow.clear()
        self.reads.clear()
        self.pages.clear()
        self.saves.clear()

    def write_once(self) -> None:
        self.kicked = self._write()

    def step(self, random: Random) -> bool:
        """Run one piece of the work of a random thread; False if there was none."""
        ready: list[Work] = []
        if self.kicked:
            ready.append(self.write_once)
        for queue in (self.posted, self.slow, self.reads, self.pages):
            if queue:
                ready.append(queue[0])
        late = self.saves_late and ready and random.random() < LATE
        if self.saves and not late:
            ready.append(self.saves[0])
        if not ready:
            return False
        work = random.choice(ready)
        for queue in (self.posted, self.slow, self.reads, self.pages, self.saves):
            if queue and queue[0] is work:
                queue.popleft()
        work()
        return True

    def settle(self, steps_max: int = 100_000) -> None:
        """Run everything, until nothing is left to run."""
        random = Random(0)
        for _ in range(steps_max):
            if not self.step(random):
                return
        raise AssertionError("the log does not come to rest")
