"""Waiting for what another process, thread or task brings about; for no fixed time."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

import pytest

T = TypeVar("T")

PATIENCE_S: Final = 60.0
TRIES: Final = 5
LOOK_S: Final = 0.02  # between two looks from outside; each is often a request
GLANCE_S: Final = 0.002  # between two looks from inside the loop


def eventually(
    found: Callable[[], T],
    instead: Callable[[], object] | None = None,
    *,
    seconds: float = PATIENCE_S,
) -> T:
    """What `found` gives, once that is true; `instead` says what is so when patience ends."""
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > deadline:
            so = instead() if instead is not None else answer
            pytest.fail(f"not so after {seconds:g} s: {so!r}")
        time.sleep(LOOK_S)
    return answer


def within(seconds: float, take: Callable[[], float]) -> None:
    """`take` gives how long something took; a busy machine may hold it up once or twice."""
    took = [take()]
    while min(took) >= seconds and len(took) < TRIES:
        took.append(take())
    assert min(took) < seconds, took


def crowding() -> float:
    """By how much work on this machine takes longer than alone: runnable tasks for each processor,
    in the last minute; at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


async def until(is_so: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """The same in a task, while the loop goes on."""
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(GLANCE_S)
