"""Deleting what a link made at its upstream: which URI is used, and how long it is tried."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from federation.cleaning import CLEAN_UP_S, ROUNDS, reached_one_of
from tests.sim.federation.virtual_time import played

URIS = ("amqp://dead", "amqp://alive", "amqp://other")


class Tries:
    """Counts the tries by URI; those of `answers` succeed once they were tried so often."""

    def __init__(self, **answers: int) -> None:
        self.made: list[str] = []
        self._answers = answers

    async def act(self, uri: str) -> None:
        name = uri.removeprefix("amqp://")
        self.made.append(name)
        if self.made.count(name) < self._answers.get(name, 1_000):
            raise ConnectionRefusedError(name)


def test_uri_that_connected_last_is_tried_first() -> None:
    async def story() -> None:
        tries = Tries(alive=1, other=1)
        await reached_one_of(URIS, "amqp://other", tries.act)
        assert tries.made == ["other"]

    played(story())


def test_other_uris_follow_the_one_that_connected_last() -> None:
    async def story() -> None:
        tries = Tries(other=1)
        await reached_one_of(URIS, "amqp://alive", tries.act)
        assert tries.made == ["alive", "dead", "other"]

    played(story())


def test_upstream_that_comes_back_is_reached_in_a_later_round() -> None:
    async def story() -> None:
        tries = Tries(alive=ROUNDS)
        await reached_one_of(URIS, "", tries.act)
        assert tries.made.count("alive") == ROUNDS

    played(story())


def test_number_of_tries_is_bounded_and_the_last_fault_is_raised() -> None:
    async def story() -> None:
        tries = Tries()
        with pytest.raises(ConnectionRefusedError, match="other"):
            await reached_one_of(URIS, "", tries.act)
        assert tries.made == ["dead", "alive", "other"] * ROUNDS

    played(story())


def hangs_at(name: str, then: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
    async def act(uri: str) -> None:
        if uri.endswith(name):
            await asyncio.Event().wait()
        await then(uri)

    return act


def test_broker_that_does_not_answer_leaves_time_for_the_others() -> None:
    async def story() -> None:
        tries = Tries(alive=1)
        await reached_one_of(URIS, "", hangs_at("dead", tries.act))
        assert tries.made == ["alive"]

    played(story())


def test_time_is_bounded_when_no_broker_answers() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        uris = [f"amqp://{number}.dead" for number in range(50)]
        with pytest.raises(TimeoutError):
            await reached_one_of(uris, "", hangs_at("dead", Tries().act))
        assert loop.time() - begun_s <= CLEAN_UP_S

    played(story())
