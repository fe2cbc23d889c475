"""Expressions of requests: which can take long, and what becomes of them."""

import asyncio
import re

import psutil
import pytest

from node.management.matching import PROCESSES_MAX, TOO_LONG, is_quick, places_of
from node.management.replies import ApiError

NAMES = ["orders.new", "orders.old", "mail", "ordersnew", ""]


def places(expression: str, names: list[str]) -> list[int]:
    return asyncio.run(places_of(re.compile(expression), names))


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "^orders",
        r"^orders\.",
        "new$|old$",
        "^.*mail.*$",
        "[*+?]",
        r"\*\+\?\{",
        "(?i)Q.+?x",
        "a??",
    ],
)
def test_expressions_of_every_day_are_quick(expression: str) -> None:
    assert is_quick(expression, 100)


@pytest.mark.parametrize(
    "expression",
    ["(a+)+$", "(a|aa)*b", "(?:x?){9}", r"(.)\1", "(?P<a>.)(?P=a)", "[]*]+.*.*.*.*.*x"],
)
def test_those_that_may_try_for_ever_are_not(expression: str) -> None:
    assert not is_quick(expression, 100)


def test_how_many_repetitions_are_quick_goes_by_the_longest_name() -> None:
    assert is_quick(".*a.*b.*c", 20) and not is_quick(".*a.*b.*c", 255)


@pytest.mark.parametrize("expression", ["^orders.(new|old)$", "^(orders|m.)[.].*"])
def test_what_is_quick_and_what_is_not_finds_the_same(expression: str) -> None:
    found = [place for place, name in enumerate(NAMES) if re.search(expression, name)]
    assert found and places(expression, NAMES) == found
    assert places(f"(?:{expression})+", NAMES) == found  # By a process.
    assert places(expression, []) == []


def test_an_expression_that_takes_too_long_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        places("(a+)+$", ["a" * 60 + "b"])
    assert refused.value.reason == TOO_LONG


def test_many_requests_at_once_have_few_processes() -> None:
    async def test() -> None:
        here = psutil.Process()
        before = len(here.children())
        asked = [places_of(re.compile("(new)+"), NAMES) for _ in range(4 * PROCESSES_MAX)]
        answers = asyncio.gather(*asked)
        most = 0
        while not answers.done():
            most = max(most, len(here.children()) - before)
            await asyncio.sleep(0.001)
        assert answers.result() == [[0, 3]] * len(asked)
        assert 1 <= most <= PROCESSES_MAX

    asyncio.run(test())


def test_the_loop_turns_while_many_names_are_looked_at() -> None:
    async def test() -> None:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        turning = asyncio.create_task(turn())
        names = ["a" * 90] * 3000
        assert await places_of(re.compile("a.*a.*b"), names[:200]) == []
        turning.cancel()
        assert turns > 1

    asyncio.run(test())
