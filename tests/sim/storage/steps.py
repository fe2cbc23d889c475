"""The log without threads: its work waits in lists until the test runs it."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from random import Random
from typing import Any, Final

Work = Callable[[], None]
LATE: Final = 0.97


class AtOnce(Executor):
    """Does it when it is handed over."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except OSError as error:
            future.set_exception(error)
        return future


class StepRunner:
    """Keeps the `Runner` Protocol, and is the loop's `post` too."""

    def __init__(self) -> None:
        self.posted: deque[Work] = deque()
        self.slow: deque[Work] = deque()
        self.rewrites: deque[Callable[[], int]] = deque()
        self.reads: deque[Work] = deque()
        self.pages: deque[Work] = deque()
        self.submitted: deque[Work] = deque()  # writes that have no thread
        self.saves: deque[Work] = deque()  # of the keyed state, which has a thread of its own
        self.saves_late = False  # saves run seldom while there is other work
        self.kicked = False
        self.hurried = False
        self.stalled = False  # the thread that rewrites gets no time
        self._write: Callable[[], bool] = bool

    def post(self, work: Work) -> None:
        self.posted.append(work)

    def ahead(self) -> Executor:
        return AtOnce()

    def start(self, write: Callable[[], bool]) -> None:
        self._write = write

    def kick(self) -> None:
        self.kicked = True

    def background(self, work: Work) -> None:
        self.slow.append(work)

    def rewrite(self, work: Callable[[], int]) -> None:
        self.rewrites.append(work)

    def hurry(self, on: bool) -> None:
        self.hurried = on

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
        self.rewrites.clear()
        self.reads.clear()
        self.pages.clear()
        self.saves.clear()

    def write_once(self) -> bool:
        """One group; False if there was nothing to write."""
        self.kicked = self._write()
        return self.kicked

    def step(self, random: Random) -> bool:
        """Run one piece of the work of a random thread; False if there was none."""
        queues: list[deque[Any]] = [
            queue
            for queue in (
                *(self.posted, self.slow, self.rewrites, self.reads, self.pages),
                self.submitted,
            )
            if queue and not (self.stalled and queue is self.rewrites)
        ]
        late = self.saves_late and (queues or self.kicked) and random.random() < LATE
        if self.saves and not late:
            queues.append(self.saves)
        choices = len(queues) + self.kicked
        if not choices:
            return False
        choice = random.randrange(choices)
        if choice == len(queues):
            self.write_once()
        else:
            queues[choice].popleft()()
        return True

    def settle(self, steps_max: int = 100_000) -> None:
        """Run everything, until nothing is left to run."""
        random = Random(0)
        for _ in range(steps_max):
            if not self.step(random):
                return
        raise AssertionError("the log does not come to rest")
