"""Exchanges: /api/exchanges, by vhost and name; PUT declares one, DELETE deletes it.

What is published into each is counted while a client looks, and for a minute after (0047).
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from aiohttp import web

from node.auth.permissions import CONFIGURE
from node.definitions.definition_changes import exchange_declaration
from node.management.access import Context, asked_vhosts, caller_of
from node.management.bodies import arguments, flag, path_name, query_flag, read_body, text
from node.management.changes import acting, delete, put, refused
from node.management.replies import ApiError
from node.management.rows.columns import row_of
from node.management.rows.exchange_columns import EXCHANGE_COLUMNS
from node.management.rows.listing import list_reply, object_reply, sorted_in_slices
from node.management.rows.node_stats import ExchangeStats, exchange_stats
from node.management.rows.rates import EXCHANGE, Ranges, Row, put_details
from node.management.rows.sampling import parse_ranges
from queues.definitions.metadata.commands import DeleteExchange
from warren.wire.errors import ProtocolError

Key: TypeAlias = tuple[str, str]  # vhost and name


class Exchanges:
    """Exchanges of the vhosts that the caller sees. In a path, `amq.default` is the default one."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/exchanges", self.every),
            web.get("/api/exchanges/{vhost}", self.every),
            web.get("/api/exchanges/{vhost}/{exchange}", self.one),
            web.put("/api/exchanges/{vhost}/{exchange}", self.declare),
            web.delete("/api/exchanges/{vhost}/{exchange}", self.delete),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        view = self._context.view
        keys: list[tuple[str, str]] = []
        for vhost in asked_vhosts(self._context, request):
            names = await sorted_in_slices(view.exchange_names(vhost), str)
            keys += [(vhost, name) for name in names]
        ranges = parse_ranges(request.query)
        stats: dict[Key, ExchangeStats] = {}

        async def prepare(shown: Sequence[Key]) -> None:
            stats.update(await self._stats(shown, ranges))

        def row_of(key: Key) -> Row | None:
            return self._row(key, stats.get(key))

        return await list_reply(request, keys, lambda key: key[1], row_of, prepare)

    async def one(self, request: web.Request) -> web.Response:
        (vhost,) = asked_vhosts(self._context, request)
        name = request.match_info["exchange"]
        key = (vhost, "" if name == "amq.default" else name)
        stats = await self._stats([key], parse_ranges(request.query))
        row = self._row(key, stats[key])
        if row is None:
            raise ApiError.not_found()
        caller, pairs, ranges = caller_of(request), self._context.pairs, parse_ranges(request.query)
        row["incoming"] = [
            each
            for each in await pairs.into_exchange(*key, ranges)
            if caller.is_monitor or each["channel_details"]["user"] == caller.name
        ]
        row["outgoing"] = await pairs.out_of_exchange(*key, ranges)
        return object_reply(request, row)

    async def declare(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        body = await read_body(request)
        try:
            command = exchange_declaration(
                actor,
                path_name(request, "exchange"),
                text(body, "type", "direct"),
                durable=flag(body, "durable"),
                auto_delete=flag(body, "auto_delete"),
                internal=flag(body, "internal"),
                arguments=arguments(body),
            )
        except ProtocolError as error:
            refused(error)
        return await put(self._context, command)

    async def delete(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        name = request.match_info["exchange"]
        if self._context.view.exchange(actor.vhost, name) is None:
            raise ApiError.not_found()
        try:
            actor.permissions.require(CONFIGURE, "exchange", name)
        except ProtocolError as error:
            refused(error)
        if_unused = query_flag(request, "if-unused")
        return await delete(self._context, DeleteExchange(actor.vhost, name, if_unused))

    async def _stats(self, keys: Sequence[Key], ranges: Ranges) -> Mapping[Key, ExchangeStats]:
        """Of the whole cluster: each node counts what is published on it."""
        cluster, rates = self._context.cluster, self._context.rates
        if cluster is not None:
            return await cluster.exchange_stats(keys, ranges)
        return {key: exchange_stats(rates, key, ranges) for key in keys}

    def _row(self, key: Key, stats: ExchangeStats | None) -> Row | None:
        exchange = self._context.view.exchange(*key)
        if exchange is None:
            return None
        row = row_of(EXCHANGE_COLUMNS, exchange)
        if stats is not None:
            (published_in, published_out), details = stats
            counts = {"publish_in": published_in, "publish_out": published_out}
            row["message_stats"] = counts
            put_details(row, EXCHANGE, details)
        return row
