"""Lists: pages, sorting and columns with RabbitMQ's parameters, made in slices.

`page` (from 1), `page_size` (100 unless told, 500 at most), `name` (part of a name), `sort` (a
column, with dots into nested ones), `sort_reverse`, `columns` (with commas). No slice of work is
longer than a few hundred objects: between them the loop turns.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from aiohttp import web
from multidict import MultiMapping

from node.management.replies import ENCODER, ApiError, encoded_reply

K = TypeVar("K")
T = TypeVar("T")
Row = dict[str, object]

SLICE: Final = 250
PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """What the caller wants of a list. `page` 0: all of it."""

    page: int = 0
    page_size: int = PAGE_SIZE_DEFAULT
    name: str = ""
    sort: str = ""
    reverse: bool = False
    columns: tuple[str, ...] = ()


def parse_list_query(query: MultiMapping[str]) -> ListQuery:
    """ApiError 400 for a page that is none."""
    if query.get("use_regex", "false") == "true":
        raise ApiError.bad_request("use_regex is not supported; name is a part of the name")
    page_size = _whole(query, "page_size", PAGE_SIZE_DEFAULT, 1, PAGE_SIZE_MAX)
    page = _whole(query, "page", 0, 1, 2**31)
    return ListQuery(
        page=page,
        page_size=page_size,
        name=query.get("name", ""),
        sort=query.get("sort", ""),
        reverse=query.get("sort_reverse", "false") == "true",
        columns=tuple(each for each in query.get("columns", "").split(",") if each),
    )


class Ordered(Protocol):
    """Whatever `sorted` takes for a key."""

    def __lt__(self, other: Any, /) -> bool: ...


async def list_reply(
    request: web.Request,
    keys: Sequence[K],
    name_of: Callable[[K], str],
    row_of: Callable[[K], Row | None],
) -> web.Response:
    """The objects behind `keys` (in order of name), as the request wants them.

    `row_of` gives None for one that went away meanwhile. Rows are made for the page alone, unless
    they are to be sorted by a column.
    """
    query = parse_list_query(request.query)
    chosen = [key for key in keys if query.name in name_of(key)] if query.name else keys
    if not query.sort:
        ordered = chosen[::-1] if query.reverse else chosen
        rows: Sequence[Row] = await _rows(_cut(ordered, query), row_of)
    else:
        every = await _rows(chosen, row_of)
        rows = _cut(await _sorted(every, query), query)
    items = await _encoded(rows, query.columns)
    if not query.page:
        return encoded_reply(items)
    return encoded_reply(_page(query, len(keys), len(chosen), len(rows), items))


async def sorted_in_slices(items: Sequence[T], key: Callable[[T], Ordered]) -> list[T]:
    """As `sorted`, and the loop turns meanwhile."""
    runs: list[list[T]] = []
    for start in range(0, len(items), SLICE):
        runs.append(sorted(items[start : start + SLICE], key=key))
        await asyncio.sleep(0)
    if len(runs) == 1:
        return runs[0]
    merged: list[T] = []
    for item in heapq.merge(*runs, key=key):
        merged.append(item)
        if len(merged) % SLICE == 0:
            await asyncio.sleep(0)
    return merged


def _whole(query: MultiMapping[str], name: str, default: int, low: int, high: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) <= 10
    if not is_number or not low <= int(text) <= high:
        raise ApiError.bad_request(f"{name} must be a whole number from {low} to {high}")
    return int(text)


def _cut(items: Sequence[T], query: ListQuery) -> Sequence[T]:
    if not query.page:
        return items
    start = (query.page - 1) * query.page_size
    if start >= len(items) and query.page > 1:
        raise ApiError(
            400,
            "page_out_of_range",
            f"Page out of range, page: {query.page} page size: {query.page_size}, "
            f"len: {len(items)}",
        )
    return items[start : start + query.page_size]


async def _rows(keys: Sequence[K], row_of: Callable[[K], Row | None]) -> list[Row]:
    rows: list[Row] = []
    for start in range(0, len(keys), SLICE):
        made = [row_of(key) for key in keys[start : start + SLICE]]
        rows += [row for row in made if row is not None]
        await asyncio.sleep(0)
    return rows


async def _sorted(rows: Sequence[Row], query: ListQuery) -> list[Row]:
    path = query.sort.split(".")
    ordered = await sorted_in_slices(rows, lambda row: _rank(_at(row, path)))
    return ordered[::-1] if query.reverse else ordered


def _rank(value: object) -> tuple[int, float, str]:
    """Values of any kind in one order: none, numbers, text."""
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, int | float):
        return (1, float(value), "")
    return (2, 0.0, str(value))


def _at(row: Row, path: Iterable[str]) -> object:
    value: object = row
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _with_columns(row: Row, columns: tuple[str, ...]) -> Row:
    if not columns:
        return row
    kept: Row = {}
    for column in columns:
        path = column.split(".")
        value = _at(row, path)
        if value is not None or path[0] in row:
            _put(kept, path, value)
    return kept


def _put(row: Row, path: Sequence[str], value: object) -> None:
    for part in path[:-1]:
        below = row.setdefault(part, {})
        if not isinstance(below, dict):
            return  # Another column has taken the whole of it.
        row = below
    row[path[-1]] = value


async def _encoded(rows: Sequence[Row], columns: tuple[str, ...]) -> bytes:
    """A JSON array, encoded in slices."""
    parts: list[bytes] = []
    for start in range(0, len(rows), SLICE):
        shown = [_with_columns(row, columns) for row in rows[start : start + SLICE]]
        parts.append(ENCODER.encode(shown)[1:-1])
        await asyncio.sleep(0)
    return b"[" + b",".join(parts) + b"]"


def _page(query: ListQuery, total: int, filtered: int, count: int, items: bytes) -> bytes:
    head = ENCODER.encode(
        {
            "filtered_count": filtered,
            "item_count": count,
            "page": query.page,
            "page_count": max(1, -(-filtered // query.page_size)),
            "page_size": query.page_size,
            "total_count": total,
        }
    )
    return head[:-1] + b',"items":' + items + b"}"
