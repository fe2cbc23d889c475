"""What a link does beside its messages: at once, when something changed, until the connection is
lost."""

import asyncio
from collections.abc import Coroutine
from typing import cast

import pytest

from federation.ends import Source091
from federation.link import until_lost
from warren.client.flag import Flag


class Connected:
    """A source that is connected until `lost` is set, or failed."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def watch(self) -> None:
        await self.lost


class Story:
    """Counts what is done; `hold` keeps the next one from ending."""

    def __init__(self) -> None:
        self.source = Connected()
        self.nudge = Flag()
        self.done = 0
        self.hold = Flag()
        self.hold.set()
        self.work = asyncio.ensure_future(
            until_lost(cast(Source091, self.source), self.nudge, self.act)
        )

    async def act(self) -> None:
        await self.hold.wait()
        self.done += 1

    async def settle(self) -> int:
        for _ in range(5):
            await asyncio.sleep(0)
        return self.done


def run(story: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 5))


def test_it_acts_at_once_and_after_each_nudge() -> None:
    async def story() -> None:
        told = Story()
        assert await told.settle() == 1
        assert await told.settle() == 1
        told.nudge.set()
        assert await told.settle() == 2
        told.source.lost.set_result(None)
        await told.work

    run(story())


def test_a_nudge_while_it_acts_is_not_lost() -> None:
    async def story() -> None:
        told = Story()
        told.hold.clear()
        await told.settle()
        told.nudge.set()
        told.hold.set()
        assert await told.settle() == 2
        told.source.lost.set_result(None)
        await told.work

    run(story())


def test_it_does_nothing_more_once_the_connection_is_lost() -> None:
    async def story() -> None:
        told = Story()
        await told.settle()
        told.source.lost.set_result(None)
        await told.work
        assert told.done == 1

    run(story())


def test_its_fault_ends_the_session() -> None:
    async def story() -> None:
        told = Story()
        await told.settle()

        async def refused() -> None:
            raise PermissionError("no right to bind")

        work = asyncio.ensure_future(until_lost(cast(Source091, told.source), told.nudge, refused))
        with pytest.raises(PermissionError):
            await work
        told.source.lost.set_result(None)
        await told.work

    run(story())
