"""Tasks that must live: restarted when they fail, never silently gone."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from node.supervision import PAUSE_S_MAX, Repeating, supervised, tick_or_abort


def test_a_task_that_raises_is_logged_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    runs = 0
    pauses: list[float] = []

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs < 8:
            raise OSError(24, "Too many open files")

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    asyncio.run(supervised("watch", work, pause))
    assert runs == 8
    assert pauses == [1, 2, 4, 8, 16, PAUSE_S_MAX, PAUSE_S_MAX]
    assert len(caplog.records) == 7
    assert caplog.records[0].levelno == logging.ERROR
    assert caplog.records[0].exc_info is not None
    assert "the task 'watch' failed and is restarted in 1 s" in caplog.text


def test_a_cancelled_task_is_not_started_again() -> None:
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        await asyncio.Event().wait()

    async def play() -> None:
        task = asyncio.get_running_loop().create_task(supervised("watch", work))
        while not runs:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert runs == 1


class FakeTimer:
    """A loop's timers, called by hand."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> "FakeHandle":
        self.waiting.append((seconds, call))
        return FakeHandle(self)

    def fire(self) -> None:
        waiting, self.waiting = self.waiting, []
        for _, call in waiting:
            call()


class FakeHandle:
    def __init__(self, timer: FakeTimer) -> None:
        self._timer = timer

    def cancel(self) -> None:
        self._timer.waiting.clear()


def test_a_timer_that_fails_is_logged_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    timer = FakeTimer()
    runs = 0

    def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ValueError("broken")

    repeating = Repeating("beats", 0.5, work, timer.call_later, lambda: 7.0)
    assert runs == 0
    for _ in range(3):
        timer.fire()
    assert runs == 3
    assert [seconds for seconds, _ in timer.waiting] == [0.5]
    assert caplog.text.count("the timer 'beats' failed and is called again") == 1
    repeating.stop()
    assert timer.waiting == []


def test_timers_fall_together_whenever_they_began() -> None:
    timer = FakeTimer()
    now_s = 10.07
    Repeating("often", 0.1, lambda: None, timer.call_later, lambda: now_s)
    Repeating("seldom", 0.5, lambda: None, timer.call_later, lambda: now_s)
    assert [round(now_s + seconds, 6) for seconds, _ in timer.waiting] == [10.1, 10.5]
    now_s = 10.0999  # The loop's timers are early by less than a millisecond.
    timer.fire()
    assert [round(now_s + seconds, 6) for seconds, _ in timer.waiting] == [10.2, 10.5]


def test_an_interval_that_becomes_shorter_holds_at_once_and_a_longer_one_from_the_next_call() -> (
    None
):
    timer = FakeTimer()
    repeating = Repeating("ticks", 0.1, lambda: None, timer.call_later, lambda: 7.0)
    repeating.every(0.02)
    assert [round(seconds, 6) for seconds, _ in timer.waiting] == [0.02]
    repeating.every(0.1)
    assert [round(seconds, 6) for seconds, _ in timer.waiting] == [0.02]
    timer.fire()
    assert [round(seconds, 6) for seconds, _ in timer.waiting] == [0.1]


def test_a_timer_that_stops_itself_is_not_called_again() -> None:
    timer = FakeTimer()
    repeating = Repeating("once", 0.1, lambda: repeating.stop(), timer.call_later, lambda: 7.0)
    timer.fire()
    assert timer.waiting == []


class FakeConnection:
    """A connection whose tick may fail."""

    name = "client 1"

    def __init__(self, error: Exception | None) -> None:
        self.transport = self
        self.is_aborted = False
        self._error = error

    def abort(self) -> None:
        self.is_aborted = True

    def tick(self, now_ms: int) -> None:
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_a_connection_whose_tick_fails_is_closed(
    caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    connection = FakeConnection(error)
    assert tick_or_abort(connection, 1) is (error is None)
    assert connection.is_aborted is (error is not None)
    assert ("client 1: internal error in a timer" in caplog.text) is (error is not None)
