"""To which node a client of a chaos run goes, and when it goes back. Nodes here are numbers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.waiting import until
from warren.testing.chaos.homes import Home
from warren.testing.chaos.lines import OnLeader, Sender, Taker

COUNT = 5
URLS = [str(place) for place in range(COUNT)]


class LineTo:
    """A line that nothing is sent on: keeps `lines.Line`."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.is_open = True

    async def declare(self, queue: str, arguments: dict[str, object]) -> None:
        raise AssertionError("nothing is declared here")

    async def sender(self, queue: str) -> Sender:
        raise AssertionError("nothing is sent here")

    async def taker(self, queue: str, credit: int, on_leader: OnLeader | None) -> Taker:
        raise AssertionError("nothing is taken here")

    async def close(self) -> None:
        self.is_open = False


class Network:
    """Nodes of which some do not answer."""

    def __init__(self) -> None:
        self.gone: set[int] = set()
        self.lines: list[LineTo] = []

    async def dial(self, url: str, protocol: str, timeout_s: float) -> LineTo:
        await asyncio.sleep(0)
        if int(url) in self.gone:
            raise ConnectionRefusedError(url)
        self.lines.append(LineTo(int(url)))
        return self.lines[-1]

    def home(self, number: int, after_s: float = 0.001, shunned_s: float = 0.0) -> Home:
        waits = {"timeout_s": 1.0, "after_s": after_s, "shunned_s": shunned_s}
        return Home(URLS, "any", number, dial=self.dial, **waits)


def played(story: Callable[[Network], Awaitable[None]]) -> Network:
    """The network after a story."""
    network = Network()

    async def play() -> None:
        async with asyncio.timeout(10):
            await story(network)

    asyncio.run(play())
    return network


def test_each_client_begins_at_its_own_node() -> None:
    async def story(network: Network) -> None:
        for number in range(1, 2 * COUNT + 1):
            home = network.home(number)
            await home.line()
            assert home.at == (number - 1) % COUNT
            assert not home.is_back

    played(story)


def test_clients_of_a_node_that_is_gone_are_spread_over_the_others() -> None:
    async def story(network: Network) -> None:
        network.gone = {0}
        places = set()
        for number in range(1, 20 * COUNT, COUNT):  # All of them are at home at node 0.
            home = network.home(number)
            await home.line()
            places.add(home.at)
            await home.close()
        assert places == {1, 2, 3, 4}

    played(story)


def test_who_is_away_goes_back_when_its_own_node_answers_again() -> None:
    async def story(network: Network) -> None:
        network.gone = {2}
        home = network.home(3)
        away = await home.line()
        assert home.at != 2
        for _ in range(100):
            await asyncio.sleep(0)
        assert not home.is_back
        network.gone.clear()
        await until(lambda: home.is_back)
        assert network.lines[0] is away
        assert network.lines[0].is_open  # It is the client who closes it.
        line = await home.line()
        assert line is network.lines[-1]
        assert home.at == 2
        assert not home.is_back

    played(story)


def test_a_line_that_breaks_meanwhile_is_replaced_by_that_to_its_own_node() -> None:
    async def story(network: Network) -> None:
        network.gone = {2}
        home = network.home(3)
        await home.line()
        network.gone = {0, 1, 3, 4}
        await home.line()
        assert home.at == 2
        await home.close()

    played(story)


def test_a_node_on_which_nothing_happens_is_the_last_choice_once() -> None:
    async def story(network: Network) -> None:
        home = network.home(3, shunned_s=1000)
        await home.line()
        home.shun()
        await home.line()
        assert home.at != 2
        another = network.home(3, after_s=0.05)
        await another.line()
        another.shun()
        await another.line()
        await until(lambda: another.is_back)
        assert not home.is_back  # Its own node answers, and that is all that it does.
        network.gone = {0, 1, 3, 4}
        home.shun()
        await home.line()
        assert home.at == 2  # Better than none.
        await home.close()

    played(story)


def test_nobody_answers_is_told_by_the_error_of_the_last_one() -> None:
    async def story(network: Network) -> None:
        network.gone = set(range(COUNT))
        with pytest.raises(ConnectionRefusedError):
            await network.home(1).line()

    played(story)


def test_what_was_found_and_not_used_is_closed_in_the_end() -> None:
    async def story(network: Network) -> None:
        network.gone = {0}
        home = network.home(1)
        await home.line()
        network.gone.clear()
        await until(lambda: home.is_back)
        await home.close()

    away, found = played(story).lines
    assert found.place == 0
    assert away.is_open
    assert not found.is_open


def test_a_search_ends_with_its_client() -> None:
    async def story(network: Network) -> None:
        network.gone = {0}
        home = network.home(1)
        await home.line()
        await home.close()
        assert len(asyncio.all_tasks()) == 1
        assert not home.is_back

    played(story)
