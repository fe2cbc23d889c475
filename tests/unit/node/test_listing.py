"""Lists by themselves: a page of a sorted list is that page of the whole order, whatever is asked
to make it; rows are made for what is shown alone."""

import asyncio
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from node.management.replies import ApiError
from node.management.rows import listing
from node.management.rows.listing import list_reply, sorted_in_slices

KINDS: list[Callable[[Random], object]] = [
    lambda random: random.randrange(5),
    lambda random: random.choice([None, 1, 2.5, "a", "b", ""]),
    lambda random: random.choice([0.5, 2, True, 7]),
]


def asked(query: str, values: Sequence[object], **options: Any) -> Any:
    """The answer for objects 0.. whose column `v` has these values."""

    async def run() -> Any:
        request = make_mocked_request("GET", f"/api/things?{query}")
        rows = {key: {"n": key, "v": value} for key, value in enumerate(values)}
        reply: Any = await list_reply(request, range(len(values)), str, rows.get, **options)
        return json.loads(reply.body)

    return asyncio.run(run())


def rank(value: object) -> tuple[int, float, str]:
    """None, numbers, text."""
    if value is None:
        return 0, 0.0, ""
    return (1, float(value), "") if isinstance(value, (int, float)) else (2, 0.0, str(value))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", ["false", "true"])
def test_a_page_of_a_sorted_list_is_that_page_of_the_whole_order(
    kind: Callable[[Random], object], reverse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "RUN", 7)
    monkeypatch.setattr(listing, "SLICE", 3)
    for seed in range(20):
        random = Random(seed)
        values = [kind(random) for _ in range(random.randrange(1, 40))]
        order = sorted(range(len(values)), key=lambda place: rank(values[place]))
        if reverse == "true":
            order.reverse()
        size = random.randrange(1, 9)
        for page in range(1, -(-len(values) // size) + 1):
            query = f"page={page}&page_size={size}&sort=v&sort_reverse={reverse}"
            answer = asked(query, values)
            shown = [row["n"] for row in answer["items"]]
            assert shown == order[(page - 1) * size : page * size], (seed, page)
            assert (answer["filtered_count"], answer["total_count"]) == (len(values), len(values))


def test_a_page_behind_the_last_is_refused_though_the_order_is_cut() -> None:
    with pytest.raises(ApiError, match="len: 3"):
        asked("page=4&page_size=1&sort=v", [3, 1, 2])


def test_rows_are_made_for_the_page_alone_where_the_values_are_known() -> None:
    prepared: list[Sequence[int]] = []

    async def prepare(shown: Sequence[int]) -> None:
        prepared.append(list(shown))

    async def values_of(sort: str, keys: Sequence[int]) -> Callable[[int], object] | None:
        return (lambda key: -key) if sort == "known" else None

    options = {"prepare": prepare, "values_of": values_of}
    answer = asked("page=1&page_size=2&sort=known", list("abcd"), **options)
    assert [row["n"] for row in answer["items"]] == [3, 2]
    assert prepared == [[3, 2]]
    prepared.clear()
    asked("page=2&page_size=2", list("abcd"), **options)
    assert prepared == [[2, 3]]
    prepared.clear()
    answer = asked("page=1&page_size=1&sort=v&sort_reverse=true", list("abcd"), **options)
    assert [row["v"] for row in answer["items"]] == ["d"]
    assert prepared[0] == [0, 1, 2, 3]  # All of them have a part in the order.


@pytest.mark.parametrize("joined", [0, 1000])
def test_items_in_slices_come_in_the_order_of_sorted(
    joined: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "RUN", 4)
    monkeypatch.setattr(listing, "JOINED", joined)
    random = Random(3)
    items = [(random.randrange(6), place) for place in range(30)]

    def first(item: tuple[int, int]) -> int:
        return item[0]

    assert asyncio.run(sorted_in_slices(items, first)) == sorted(items, key=first)
    assert asyncio.run(sorted_in_slices([], first)) == []
