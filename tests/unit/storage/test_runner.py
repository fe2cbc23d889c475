"""The threads of the log: rewriting keeps to its rate, and to none while it is in a hurry."""

import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from warren.storage.runner import ThreadRunner

RATE: int = 1 << 20
PATIENCE_S = 20.0


class Slices:
    """Work for the thread that rewrites; each slice says that it has moved so many bytes."""

    def __init__(self, moved: int) -> None:
        self.begun_s: list[float] = []
        self._moved = moved
        self._one_more = threading.Semaphore(0)

    def __call__(self) -> int:
        self.begun_s.append(time.monotonic())
        self._one_more.release()
        return self._moved

    def wait(self) -> bool:
        """For one slice more."""
        return self._one_more.acquire(timeout=PATIENCE_S)


@pytest.fixture
def threads() -> Iterator[ThreadRunner]:
    errors: list[BaseException] = []
    runner = ThreadRunner(errors.append, RATE)
    runner.start(lambda: False)
    yield runner
    runner.stop()
    assert errors == []


def test_rewriting_moves_no_more_bytes_a_second_than_it_may(threads: ThreadRunner) -> None:
    slices = Slices(RATE // 20)
    for _ in range(4):
        threads.rewrite(slices)
    assert all(slices.wait() for _ in range(4))
    gaps = [after - before for before, after in pairwise(slices.begun_s)]
    assert min(gaps) >= 0.045, gaps


def test_rewriting_that_is_behind_waits_for_no_rate(threads: ThreadRunner) -> None:
    slices = Slices(1000 * RATE)
    for _ in range(3):
        threads.rewrite(slices)
    assert slices.wait()
    threads.hurry(True)
    assert slices.wait()
    assert slices.wait()
    threads.hurry(False)
    assert slices.begun_s[2] - slices.begun_s[0] < PATIENCE_S
