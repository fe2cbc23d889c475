"""Lists of connections, channels and consumers, of the whole cluster, as a caller may see them.

Monitoring users see all; others see what is theirs. Rows are made for those that are shown alone,
on the node that has them; a list that is sorted by a column has its values of all.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aiohttp import web
from msgspec.structs import replace

from node.management.access import Context, asked_vhosts, caller_of, not_authorized
from node.management.replies import ApiError
from node.management.rows.client_rows import ClientRows
from node.management.rows.client_view import Chosen, Key, channel_name
from node.management.rows.cluster_clients import Place
from node.management.rows.listing import list_reply, sorted_in_slices
from node.management.rows.rates import (
    CONNECTION,
    CONSUMER,
    STREAM_CONSUMER,
    STREAM_PUBLISHER,
    Row,
)
from node.management.rows.sampling import parse_ranges

HERE: Final = -1  # in place of a member: this node


class ClientLists:
    """What the resources of connections, channels and consumers have in common."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rows = ClientRows(context.view, context.rates)

    async def reply(
        self, request: web.Request, kind: str, chosen: Chosen | None = None
    ) -> web.StreamResponse:
        """All that are chosen and that the caller may see; those of the vhost in the path."""
        caller = caller_of(request)
        chosen = chosen or Chosen()
        if "vhost" in request.match_info:
            (vhost,) = asked_vhosts(self._context, request)
            chosen = replace(chosen, vhost=vhost)
        if not caller.is_monitor:
            if chosen.user not in ("", caller.name):
                return await list_reply(request, [], str, lambda _: None)
            chosen = replace(chosen, user=caller.name)
        ranges = parse_ranges(request.query)
        places = await self._places(kind, chosen)
        far: dict[Place, Row] = {}

        async def prepare(shown: Sequence[Place]) -> None:
            away = [place for place in shown if place[0] != HERE]
            if away and self._context.cluster is not None:
                far.update(await self._context.cluster.clients.rows_at(kind, away, ranges))

        def row_of(place: Place) -> Row | None:
            if place[0] == HERE:
                return self._rows.row(kind, place[1], ranges)
            return far.get(place)

        async def values_of(sort: str, asked: Sequence[Place]) -> Callable[[Place], object]:
            here = self._rows.values_of(kind, sort)
            elsewhere: Mapping[Place, object] = {}
            if self._context.cluster is not None:
                elsewhere = await self._context.cluster.clients.values(kind, chosen, sort)
            return lambda p: here(p[1]) if p[0] == HERE else elsewhere.get(p)

        return await list_reply(request, places, name_of(kind), row_of, prepare, values_of)

    async def _places(self, kind: str, chosen: Chosen) -> list[Place]:
        """Of all nodes, in the order of names."""
        keys = self._context.view.clients.keys(kind, chosen)
        places: list[Place] = [(HERE, key) for key in keys]
        if self._context.cluster is not None:
            places += await self._context.cluster.clients.keys(kind, chosen)
        return await sorted_in_slices(places, key_in)

    async def one(self, request: web.Request, kind: str, key: Key) -> tuple[Row, bool]:
        """The object, if there is one that the caller may see, and whether it is of this node."""
        caller, ranges = caller_of(request), parse_ranges(request.query)
        row = self._rows.row(kind, key, ranges)
        is_here = row is not None
        if row is None and self._context.cluster is not None:
            row = await self._context.cluster.clients.row(kind, key, ranges)
        if row is None:
            raise ApiError.not_found()
        if not caller.is_monitor and row["user"] != caller.name:
            raise not_authorized("User not authorised to access object")
        return row, is_here

    async def consumers(self, chosen: Chosen) -> list[Row]:
        """Rows of all that are chosen, of the whole cluster."""
        keys = self._context.view.clients.keys(CONSUMER, chosen)
        found = [self._rows.row(CONSUMER, key) for key in keys]
        rows = [row for row in found if row is not None]
        if self._context.cluster is not None:
            rows += await self._context.cluster.clients.rows(CONSUMER, chosen)
        return rows


def key_in(place: Place) -> Key:
    return place[1]


def name_of(kind: str) -> Callable[[Place], str]:
    """What `name` of a request is compared with: consumers go by the name of their channel."""
    if kind in (CONNECTION, STREAM_CONSUMER, STREAM_PUBLISHER):
        return connection_of
    return channel_of


def connection_of(place: Place) -> str:
    return place[1][0]


def channel_of(place: Place) -> str:
    return channel_name(place[1][0], place[1][1])
