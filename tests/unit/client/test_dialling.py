"""Dialling again, and what waits for a consumer: the same for both clients."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from warren.client.dialling import Backoff, Redial
from warren.client.errors import ClientError, ConnectionLost, LoginFailed
from warren.client.inbox import Inbox

QUICK = Backoff(0.001, 0.002)


def play(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(5):
            await test()

    asyncio.run(whole())


class Way:
    """Fails with these errors, one for each attempt, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.attempts = 0
        self.refusals: list[LoginFailed] = []
        self.reached = asyncio.Event()

    async def dial(self) -> None:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        self.reached.set()

    def refused(self, error: LoginFailed) -> None:
        self.refusals.append(error)
        self.reached.set()


def test_attempts_that_fail_are_followed_by_others_until_one_succeeds() -> None:
    async def test() -> None:
        way = Way(OSError(), ConnectionLost("again"), TimeoutError())
        redial = Redial(QUICK, way.dial, way.refused)
        redial.begin()
        await way.reached.wait()
        await redial.stop()
        assert (way.attempts, way.refusals) == (4, [])

    play(test)


def test_a_refused_login_ends_it() -> None:
    async def test() -> None:
        way = Way(OSError(), LoginFailed("no"))
        redial = Redial(QUICK, way.dial, way.refused)
        redial.begin()
        await way.reached.wait()
        await redial.stop()
        assert way.attempts == 2 and [str(each) for each in way.refusals] == ["no"]

    play(test)


def test_without_backoff_nothing_is_dialled() -> None:
    async def test() -> None:
        way = Way()
        redial = Redial(None, way.dial, way.refused)
        assert redial.is_off
        redial.begin()
        await redial.stop()
        await asyncio.sleep(0)
        assert way.attempts == 0

    play(test)


def test_stopping_ends_an_attempt_that_is_under_way() -> None:
    async def test() -> None:
        begun = asyncio.Event()

        async def dial() -> None:
            begun.set()
            await asyncio.Event().wait()

        redial = Redial(QUICK, dial, lambda _: None)
        redial.begin()
        await begun.wait()
        await redial.stop()

    play(test)


def test_whoever_waits_is_told_of_what_comes_and_of_the_end() -> None:
    async def test() -> None:
        errors: list[ClientError] = []

        def check() -> None:
            for each in errors:
                raise each

        inbox: Inbox[int] = Inbox(check)
        waiting = asyncio.ensure_future(inbox.until(2))
        for number in (1, 2):
            await asyncio.sleep(0)
            assert not waiting.done()
            inbox.arrived.append(number)
            inbox.tell()
        await waiting
        assert (len(inbox), inbox.take(), inbox.take_all(), len(inbox)) == (2, 1, [2], 0)
        with pytest.raises(TimeoutError):
            await inbox.until(1, 0.001)
        inbox.arrived.extend([3, 4])
        inbox.keep(lambda each: each == 4)
        await inbox.until(1)
        assert inbox.take_all() == [4]
        waiting = asyncio.ensure_future(inbox.until(1))
        await asyncio.sleep(0)
        errors.append(ConnectionLost("over"))
        inbox.tell()
        with pytest.raises(ConnectionLost):
            await waiting

    play(test)
