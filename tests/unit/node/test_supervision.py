"""Tasks that must live: restarted when they fail, never silently gone."""

import asyncio
import logging

import pytest

from node.supervision import PAUSE_S_MAX, supervised


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
