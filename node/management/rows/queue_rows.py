"""Rows of queues as the API shows them, and single columns of very many without their rows.

A list that is sorted looks at a column of every queue there is, a page at the rows of a few. What
pages are sorted by is therefore had without a row: a rate or a count from where it is counted, what
definitions and hosts say from the queue's view. Not compiled.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

from aiohttp import web

from node.management.access import Context
from node.management.rows.client_lists import ClientLists
from node.management.rows.client_rows import SINGLE_ACTIVE
from node.management.rows.client_view import Chosen
from node.management.rows.listing import column_of, query_is_true
from node.management.rows.rates import (
    COLUMNS,
    DEPTHS,
    QUEUE,
    Ranges,
    Row,
    path_of,
    put_details,
    with_idle,
)
from node.management.rows.sampling import Rates, parse_ranges
from node.management.rows.view import BrokerView, QueueView

Key: TypeAlias = tuple[str, str]  # vhost and name
Value: TypeAlias = Callable[[Key], object]

NAMED_MAX: Final = 500  # so many are asked for one by one: a page at most
BARE: Final = (
    "name", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments", "node", "state",
    "policy", "operator_policy", "leader", "members", "online", "owner_pid_details",
    "counts_known",
)  # fmt: skip
COUNTS: Final = (
    *DEPTHS, "messages_delayed", "messages_dlx", "message_bytes", "message_bytes_ready",
    "message_bytes_unacknowledged", "messages_ram", "messages_paged_out", "message_bytes_ram",
    "message_bytes_paged_out", "memory", "consumers", "consumer_capacity", "consumer_utilisation",
)  # fmt: skip
# In place of the counts of a queue whose node does not answer: 0 would be a claim.
UNKNOWN: Final[Mapping[str, object]] = {**dict.fromkeys(COUNTS), "message_stats": {}}
SINGLE_ACTIVE_CONSUMER: Final = "single_active_consumer"  # columns begin with it
KEY_PLACES: Final = {"vhost": 0, "name": 1}
RATE_PLACES: Final = {  # by the path of a column in a row
    f"{path_of(column)}_details.rate": place for place, column in enumerate(COLUMNS[QUEUE])
}
COUNT_PLACES: Final = {path_of(column): place for place, column in enumerate(COLUMNS[QUEUE])}
VIEW_COLUMNS: Final[Mapping[str, Callable[[QueueView], object]]] = {
    **{
        name: attrgetter(name)
        for name in (
            "type", "durable", "auto_delete", "exclusive", "node", "state", "consumers",
            "consumer_capacity", "messages_delayed", "message_bytes_ready",
            "message_bytes_unacknowledged", "messages_ram", "messages_paged_out",
            "message_bytes_ram", "message_bytes_paged_out",
        )
    },
    "consumer_utilisation": attrgetter("consumer_capacity"),
    "memory": attrgetter("memory_bytes"),
    "messages_dlx": attrgetter("messages_pending_dead_letters"),
    "message_bytes": lambda queue: queue.message_bytes_ready + queue.message_bytes_unacknowledged,
}  # fmt: skip


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


def queue_values(view: BrokerView, rates: Rates, sort: str) -> Value:
    """The values of a column, of queues that this node leads."""
    if sort in RATE_PLACES:
        rate_place = RATE_PLACES[sort]
        return lambda key: rates.rate(QUEUE, key, rate_place)
    if sort in VIEW_COLUMNS:
        column = VIEW_COLUMNS[sort]
        is_count = sort in COUNTS

        def of_view(key: Key) -> object:
            queue = view.queue(*key)
            if queue is None or (is_count and not queue.counts_known):
                return None
            return column(queue)

        return of_view
    from_row = column_of(plain_rows(view), sort.split("."))
    if sort not in COUNT_PLACES or not rates.knows_counts:
        return from_row
    count_place = COUNT_PLACES[sort]

    def count(key: Key) -> object:
        values = rates.values(QUEUE, key)
        if values is not None:
            return values[count_place]
        queue = view.queue(*key)
        return None if queue is None or not queue.counts_known else 0

    return count


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


def plain_rows(view: BrokerView) -> Callable[[Key], Row | None]:
    """Rows without rates."""

    def row(key: Key) -> Row | None:
        queue = view.queue(*key)
        return None if queue is None else queue_row(queue)

    return row


def bare(row: Row, with_totals: bool) -> Row:
    """What a queue is, without what is counted of it (`disable_stats`)."""
    kept = (*BARE, *DEPTHS) if with_totals else BARE
    return {name: row[name] for name in kept if name in row}


def queue_row(queue: QueueView, details: Sequence[Any] = ()) -> Row:
    row = _columns(queue)
    if queue.members:
        row["leader"] = queue.leader
        row["members"] = list(queue.members)
        row["online"] = list(queue.online)
    if queue.policy.warnings:
        row["warnings"] = list(queue.policy.warnings)
    if queue.exclusive:
        row["owner_pid_details"] = {"name": queue.owner}
    if not queue.counts_known:
        return {**row, **UNKNOWN}
    return with_idle(put_details(row, QUEUE, details), queue.idle_since_ms)


def _columns(queue: QueueView) -> Row:
    """The columns that every queue has."""
    return {
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive,
        "arguments": queue.arguments,
        "node": queue.node,
        "state": queue.state,
        "reason": queue.reason,
        "counts_known": queue.counts_known,
        "policy": queue.policy.name,
        "operator_policy": queue.policy.operator,
        "effective_policy_definition": queue.policy.definition,
        "messages": queue.messages_ready + queue.messages_unacknowledged,
        "messages_ready": queue.messages_ready,
        "messages_unacknowledged": queue.messages_unacknowledged,
        "messages_delayed": queue.messages_delayed,
        "messages_dlx": queue.messages_pending_dead_letters,
        "message_bytes": queue.message_bytes_ready + queue.message_bytes_unacknowledged,
        "message_bytes_ready": queue.message_bytes_ready,
        "message_bytes_unacknowledged": queue.message_bytes_unacknowledged,
        "messages_ram": queue.messages_ram,
        "messages_paged_out": queue.messages_paged_out,
        "message_bytes_ram": queue.message_bytes_ram,
        "message_bytes_paged_out": queue.message_bytes_paged_out,
        "memory": queue.memory_bytes,
        "consumers": queue.consumers,
        "consumer_capacity": round(queue.consumer_capacity, 4),
        "consumer_utilisation": round(queue.consumer_capacity, 4),
        "message_stats": {
            "publish": queue.published,
            "deliver": queue.delivered,
            "deliver_no_ack": queue.delivered_no_ack,
            "get": queue.got,
            "get_no_ack": queue.got_no_ack,
            "deliver_get": queue.delivered + queue.delivered_no_ack + queue.got + queue.got_no_ack,
            "redeliver": queue.redelivered,
            "ack": queue.acknowledged,
        },
    }
