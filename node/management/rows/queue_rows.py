"""Rows of queues as the API shows them, and single columns of very many without their rows.

A list that is sorted looks at a column of every queue there is, a page at the rows of a few. What
pages are sorted by is therefore had without a row: a rate or a count from where it is counted, what
definitions and hosts say from the queue's view. Not compiled.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

from node.management.rows.listing import column_of
from node.management.rows.rates import (
    COLUMNS,
    DEPTHS,
    QUEUE,
    Row,
    path_of,
    put_details,
    with_idle,
)
from node.management.rows.sampling import Rates
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
    "message_bytes_paged_out", "messages_persistent", "message_bytes_persistent", "memory",
    "consumers", "consumer_capacity", "consumer_utilisation",
)  # fmt: skip
# In place of the counts of a queue whose node does not answer: 0 would be a claim.
UNKNOWN: Final[Mapping[str, object]] = {**dict.fromkeys(COUNTS), "message_stats": {}}
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
            "message_bytes_ram", "message_bytes_paged_out", "messages_persistent",
            "message_bytes_persistent",
        )
    },
    "consumer_utilisation": attrgetter("consumer_capacity"),
    "memory": attrgetter("memory_bytes"),
    "messages_dlx": attrgetter("messages_pending_dead_letters"),
    "message_bytes": lambda queue: queue.message_bytes_ready + queue.message_bytes_unacknowledged,
}  # fmt: skip


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
    if queue.is_mirrored:
        row.update(mirror_columns(queue))
    if queue.policy.warnings:
        row["warnings"] = list(queue.policy.warnings)
    if queue.exclusive:
        row["owner_pid_details"] = {"name": queue.owner}
    if not queue.counts_known:
        return {**row, **UNKNOWN}
    return with_idle(put_details(row, QUEUE, details), queue.idle_since_ms)


def mirror_columns(queue: QueueView) -> Row:
    """Under RabbitMQ's names, and under new ones."""
    mirrors, synchronised = list(queue.mirrors), list(queue.synchronised_mirrors)
    recoverable = list(queue.recoverable_mirrors)
    return {
        "slave_nodes": mirrors,
        "synchronised_slave_nodes": synchronised,
        "recoverable_slaves": recoverable,
        "mirror_nodes": mirrors,
        "synchronised_mirror_nodes": synchronised,
        "recoverable_mirrors": recoverable,
    }


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
        "messages_persistent": queue.messages_persistent,
        "message_bytes_persistent": queue.message_bytes_persistent,
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
