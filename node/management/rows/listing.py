"""Lists: pages, sorting and columns with RabbitMQ's parameters, made in slices.

`page` (from 1), `page_size` (100 unless told, 500 at most), `name` (part of a name, or with
`use_regex` an expression), `sort` (a column, with dots into nested ones), `sort_reverse`, `columns`
(with commas). No slice of work is longer than a few hundred objects: between them the loop turns.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from time import monotonic
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from aiohttp import web
from msgspec import Struct
from multidict import MultiMapping

from node.management.bodies import expression
from node.management.replies import ENCODER, HEADERS, ApiError, json_reply
from node.management.rows.columns import SLICE, at_path, column_of
from queues.definitions.expressions import Expression

K = TypeVar("K")
T = TypeVar("T")
Row = dict[str, object]

SLICE_S: Final = 0.005  # of matching names
RUN: Final = 4000  # sorted at once: some milliseconds
JOINED: Final = 40_000  # in order by runs already: put together at once, in as long
PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 500
NUMBERS: Final = (int, float)
WRITE_SECONDS: Final = 30.0  # for a client to take one slice


class ListQuery(Struct, frozen=True, kw_only=True):
    """What the caller wants of a list. `page` 0: all of it."""

    page: int = 0
    page_size: int = PAGE_SIZE_DEFAULT
    name: str = ""
    pattern: Expression | None = None  # in place of `name`
    sort: str = ""
    reverse: bool = False
    columns: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether the name is one of those asked for."""
        return self.name in name if self.pattern is None else self.pattern.is_found_in(name)


def parse_list_query(query: MultiMapping[str]) -> ListQuery:
    """ApiError 400 for a page that is none."""
    use_regex = query.get("use_regex", "false") == "true"
    page_size = _whole(query, "page_size", PAGE_SIZE_DEFAULT, 1, PAGE_SIZE_MAX)
    page = _whole(query, "page", 0, 1, 2**31)
    return ListQuery(
        page=page,
        page_size=page_size,
        name="" if use_regex else query.get("name", ""),
        pattern=expression(query.get("name", ""), "name") if use_regex else None,
        sort=query.get("sort", ""),
        reverse=query.get("sort_reverse", "false") == "true",
        columns=tuple(each for each in query.get("columns", "").split(",") if each),
    )


def query_is_true(query: MultiMapping[str], name: str) -> bool:
    """A switch of the request, off unless it says `true`."""
    return query.get(name, "false") == "true"


class Ordered(Protocol):
    """Whatever `sorted` takes for a key."""

    def __lt__(self, other: Any, /) -> bool: ...


Value: TypeAlias = Callable[[K], object]  # of a column, by key


async def list_reply(
    request: web.Request,
    keys: Sequence[K],
    name_of: Callable[[K], str],
    row_of: Callable[[K], Row | None],
    prepare: Callable[[Sequence[K]], Awaitable[None]] | None = None,
    values_of: Callable[[str, Sequence[K]], Awaitable[Value[K] | None]] | None = None,
) -> web.StreamResponse:
    """The objects behind `keys` (in order of name), as the request wants them.

    `row_of` gives None for one that went away meanwhile. Rows live for one slice: a list is as
    long as there are objects, the memory for it is not. `prepare` learns before the first row is
    made of which keys there will be rows: those of a page, or all of the list. `values_of` may know
    a way to the values of a column, for all of these keys, that takes no rows; None: it does not,
    and `prepare` learns of all that are to be sorted.
    """
    query = parse_list_query(request.query)
    chosen = await _chosen(keys, name_of, query)
    if query.sort:
        value = None if values_of is None else await values_of(query.sort, chosen)
        if value is None:
            if prepare is not None:
                await prepare(chosen)
            value = column_of(row_of, query.sort.split("."))
        ordered: Sequence[K] = await _sorted(chosen, value, query)
    else:
        ordered = chosen[::-1] if query.reverse else chosen
    shown = _cut(ordered, query, len(chosen))
    if prepare is not None:
        await prepare(shown)
    if not query.page:
        return await _streamed(request, shown, row_of, query.columns)
    rows: list[Row] = []
    for start in range(0, len(shown), SLICE):
        rows += _rows(shown[start : start + SLICE], row_of, query.columns)
        await asyncio.sleep(0)
    return json_reply(
        {
            "filtered_count": len(chosen),
            "item_count": len(rows),
            "items": rows,
            "page": query.page,
            "page_count": max(1, -(-len(chosen) // query.page_size)),
            "page_size": query.page_size,
            "total_count": len(keys),
        }
    )


async def _chosen(keys: Sequence[K], name_of: Callable[[K], str], query: ListQuery) -> Sequence[K]:
    """Those of the asked names."""
    if query.pattern is None and not query.name:
        return keys
    found: list[K] = []
    due = monotonic() + SLICE_S
    for key in keys:
        if query.has(name_of(key)):
            found.append(key)
        if monotonic() > due:
            await asyncio.sleep(0)
            due = monotonic() + SLICE_S
    return found


def object_reply(request: web.Request, row: Row) -> web.Response:
    """One object, with the columns that are asked for."""
    return json_reply(_with_columns(row, parse_list_query(request.query).columns))


async def sorted_in_slices(items: Sequence[T], key: Callable[[T], Ordered]) -> list[T]:
    """As `sorted`, and the loop turns meanwhile."""
    runs: list[list[T]] = []
    for start in range(0, len(items), RUN):
        runs.append(sorted(items[start : start + RUN], key=key))
        await asyncio.sleep(0)
    if len(runs) == 1:
        return runs[0]
    if len(items) <= JOINED:
        return sorted((item for run in runs for item in run), key=key)
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


def _cut(items: Sequence[T], query: ListQuery, total: int) -> Sequence[T]:
    """The page; `total` is how many there are, of which these may be the first."""
    if not query.page:
        return items
    start = (query.page - 1) * query.page_size
    if start >= total and query.page > 1:
        raise ApiError(
            400,
            "page_out_of_range",
            f"Page out of range, page: {query.page} page size: {query.page_size}, len: {total}",
        )
    return items[start : start + query.page_size]


async def _sorted(keys: Sequence[K], value: Value[K], query: ListQuery) -> list[K]:
    """The keys in the order of a column, as far as the page goes. Of equals the later come first
    in reverse: it is the same order, from its end."""
    values: list[Any] = []
    for start in range(0, len(keys), SLICE):
        values += [value(key) for key in keys[start : start + SLICE]]
        await asyncio.sleep(0)
    if not all(type(each) in NUMBERS for each in values):
        for start in range(0, len(values), SLICE):
            values[start : start + SLICE] = map(_rank, values[start : start + SLICE])
            await asyncio.sleep(0)
    end = query.page * query.page_size or len(keys)
    rank = values.__getitem__
    runs: list[list[int]] = []  # of places in `keys`
    for start in range(0, len(keys), RUN):
        run = sorted(range(start, min(start + RUN, len(keys))), key=rank)
        if query.reverse:
            run.reverse()
        runs.append(run[:end])
        await asyncio.sleep(0)
    if query.reverse:
        runs.reverse()
    merged = heapq.merge(*runs, key=rank, reverse=query.reverse)
    found: list[K] = []
    for place in islice(merged, end):
        found.append(keys[place])
        if len(found) % SLICE == 0:
            await asyncio.sleep(0)
    return found


def _rows(
    keys: Sequence[K], row_of: Callable[[K], Row | None], columns: tuple[str, ...]
) -> list[Row]:
    made = (row_of(key) for key in keys)
    return [_with_columns(row, columns) for row in made if row is not None]


async def _streamed(
    request: web.Request,
    keys: Sequence[K],
    row_of: Callable[[K], Row | None],
    columns: tuple[str, ...],
) -> web.StreamResponse:
    """A JSON array, sent slice by slice; who does not read it is cut off."""
    if len(keys) <= SLICE:
        return json_reply(_rows(keys, row_of, columns))
    reply = web.StreamResponse(headers=HEADERS)
    await reply.prepare(request)
    try:
        await _write(request, reply, b"[")
        separator = b""
        for start in range(0, len(keys), SLICE):
            rows = _rows(keys[start : start + SLICE], row_of, columns)
            if rows:
                await _write(request, reply, separator + ENCODER.encode(rows)[1:-1])
                separator = b","
            await asyncio.sleep(0)
        await _write(request, reply, b"]")
    except ConnectionError:
        return reply  # The client is gone, and no reply can be sent.
    await reply.write_eof()
    return reply


async def _write(request: web.Request, reply: web.StreamResponse, part: bytes) -> None:
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await reply.write(part)
    except TimeoutError as error:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the client does not read") from error


def _rank(value: object) -> tuple[int, float, str]:
    """Values of any kind in one order: none, numbers, text."""
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, (int, float)):
        return (1, float(value), "")
    return (2, 0.0, str(value))


def _with_columns(row: Row, columns: tuple[str, ...]) -> Row:
    if not columns:
        return row
    kept: Row = {}
    for column in columns:
        path = column.split(".")
        value = at_path(row, path)
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
