"""The local side of a link is connected only while messages come."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import pytest

from federation.ends import Target091
from federation.lazy_target import LazyTarget

IDLE_S = 0.05


class Side:
    """A broker's side, as far as the link sees it."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.bytes = 0
        self.is_refused = False
        self.lost = asyncio.Event()
        self.answers: list[asyncio.Future[list[Any]]] = []

    async def open(self) -> None:
        self.opened += 1
        if self.is_refused:
            raise OSError("no")

    async def publish(self, deliveries: Sequence[Any]) -> "asyncio.Future[list[Any]]":
        self.bytes += 10
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    async def watch(self) -> None:
        await self.lost.wait()

    async def close(self) -> None:
        self.closed += 1


class Sides:
    """All sides that a target has made."""

    def __init__(self) -> None:
        self.all: list[Side] = []
        self.are_refused = False

    def target(self) -> LazyTarget:
        return LazyTarget(lambda: cast("Target091", self._next()), IDLE_S)

    def _next(self) -> Side:
        self.all.append(Side())
        self.all[-1].is_refused = self.are_refused
        return self.all[-1]


def run(story: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 10))


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(IDLE_S / 10)


def test_it_connects_with_the_first_message_and_again_after_it_was_idle() -> None:
    async def story() -> None:
        sides = Sides()
        target = sides.target()
        watching = asyncio.ensure_future(target.watch())
        await target.open()
        assert sides.all == []
        for times in (1, 2):
            (await target.publish([])).set_result([])
            (await target.publish([])).set_result([])
            assert len(sides.all) == times
            await until(lambda: sides.all[-1].closed == 1)
        assert target.bytes == 40
        watching.cancel()

    run(story())


def test_it_stays_connected_until_all_outcomes_are_there() -> None:
    async def story() -> None:
        sides = Sides()
        target = sides.target()
        watching = asyncio.ensure_future(target.watch())
        await target.publish([])
        await asyncio.wait((watching,), timeout=3 * IDLE_S)
        (side,) = sides.all
        assert side.closed == 0
        side.answers[0].set_result([])
        await until(lambda: side.closed == 1)
        watching.cancel()

    run(story())


def test_a_lost_connection_ends_the_watch() -> None:
    async def story() -> None:
        sides = Sides()
        target = sides.target()
        watching = asyncio.ensure_future(target.watch())
        await target.publish([])
        sides.all[0].lost.set()
        await watching

    run(story())


def test_a_connection_that_fails_is_closed_and_another_one_tried() -> None:
    async def story() -> None:
        sides = Sides()
        target = sides.target()
        sides.are_refused = True
        with pytest.raises(OSError, match="no"):
            await target.publish([])
        assert (sides.all[0].closed, target.bytes) == (1, 0)
        sides.are_refused = False
        await target.publish([])
        assert len(sides.all) == 2

    run(story())
