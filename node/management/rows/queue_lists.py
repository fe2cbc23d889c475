"""Lists of queues of the whole cluster, as one request asks for them."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from aiohttp import web

from node.management.access import Context
from node.management.rows.client_columns import SINGLE_ACTIVE
from node.management.rows.client_lists import ClientLists
from node.management.rows.client_view import Chosen
from node.management.rows.listing import query_is_true
from node.management.rows.queue_rows import (
    KEY_PLACES,
    NAMED_MAX,
    Key,
    Value,
    bare,
    queue_row,
    queue_values,
)
from node.management.rows.rates import QUEUE, Ranges, Row, with_idle
from node.management.rows.sampling import parse_ranges
from node.management.rows.view import QueueView

SINGLE_ACTIVE_CONSUMER: Final = "single_active_consumer"  # columns begin with it


class QueueRows:
    """Rows of one request for a list: those that other nodes lead come from these."""

    def __init__(self, context: Context, request: web.Request, vhosts: Sequence[str]) -> None:
        self._context = context
        self._vhosts = vhosts
        self._live: dict[Key, QueueView] = {}
        self._is_bare = query_is_true(request.query, "disable_stats")
        self._has_totals = query_is_true(request.query, "enable_queue_totals")
        self._ranges: Ranges | None = None if self._is_bare else parse_ranges(request.query)
        self._asks_active = SINGLE_ACTIVE_CONSUMER in request.query.get("columns", "")
        self._active: dict[Key, Row] = {}

    async def prepare(self, shown: Sequence[Key]) -> None:
        cluster = self._context.cluster
        if cluster is not None and self._asks_others:
            self._live.update(await cluster.live_queues(shown, self._vhosts, self._ranges))
        if self._asks_active:  # By its name alone: this looks at all consumers of the vhosts.
            clients = ClientLists(self._context)
            for vhost in self._vhosts:
                self._active.update(active_consumers(await clients.consumers(Chosen(vhost=vhost))))

    @property
    def _asks_others(self) -> bool:
        return self._has_totals or not self._is_bare

    def row(self, key: Key) -> Row | None:
        elsewhere = self._live.get(key)
        row = self._own_row(key) if elsewhere is None else queue_row(elsewhere, elsewhere.rates)
        if row is None:
            return None
        if self._asks_active:
            put_active(row, self._active.get(key))
        return bare(row, self._has_totals) if self._is_bare else row

    def _own_row(self, key: Key) -> Row | None:
        queue = self._context.view.queue(*key)
        if queue is None or self._ranges is None:
            return None if queue is None else queue_row(queue)
        rates = self._context.rates
        row = queue_row(queue, rates.of(QUEUE, key, self._ranges))
        return with_idle(row, rates.idle_since_ms(QUEUE, key))

    async def values_of(self, sort: str, keys: Sequence[Key]) -> Value | None:
        """Of the whole cluster; None: it is as cheap to make the rows."""
        if sort in KEY_PLACES:
            return itemgetter(KEY_PLACES[sort])
        here = queue_values(self._context.view, self._context.rates, sort)
        cluster = self._context.cluster
        if cluster is None or not self._asks_others:
            return here
        if len(keys) <= NAMED_MAX:
            return None
        elsewhere = await cluster.queue_values(self._vhosts, sort)
        return lambda key: elsewhere[key] if key in elsewhere else here(key)


def active_consumers(consumers: Sequence[Row]) -> dict[Key, Row]:
    """Rows of single active consumers, by their queue."""
    return {
        (each["queue"]["vhost"], each["queue"]["name"]): each
        for each in consumers
        if each["activity_status"] == SINGLE_ACTIVE
    }


def put_active(row: Row, consumer: Row | None) -> None:
    """The active consumer of a queue that serves one at a time; "": it has no consumer."""
    if row["arguments"].get("x-single-active-consumer") is True:
        channel = {} if consumer is None else consumer["channel_details"]
        row[f"{SINGLE_ACTIVE_CONSUMER}_tag"] = "" if consumer is None else consumer["consumer_tag"]
        row[f"{SINGLE_ACTIVE_CONSUMER}_pid"] = channel.get("name", "")
