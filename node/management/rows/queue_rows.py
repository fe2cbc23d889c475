"""Rows of queues as the API shows them, and single columns of very many without their rows.

A list that is sorted looks at a column of every queue there is, a page at the rows of a few. What
pages are sorted by is therefore had without a row: a rate or a count from where it is counted, what
definitions and hosts say from the queue's view. Not compiled.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from node.management.rows.columns import column_of
from node.management.rows.queue_columns import BARE, COUNTED, UNKNOWN, VALUES, columns_of
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
SHOWN_BARE: Final = (*BARE, "leader", "members", "online", "owner_pid_details")
KEY_PLACES: Final = {"vhost": 0, "name": 1}
RATE_PLACES: Final = {  # by the path of a column in a row
    f"{path_of(column)}_details.rate": place for place, column in enumerate(COLUMNS[QUEUE])
}
COUNT_PLACES: Final = {path_of(column): place for place, column in enumerate(COLUMNS[QUEUE])}
VIEW_COLUMNS: Final = {  # those that no rate is counted of
    name: value for name, value in VALUES if name not in COUNT_PLACES
}


def queue_values(view: BrokerView, rates: Rates, sort: str) -> Value:
    """The values of a column, of queues that this node leads."""
    if sort in RATE_PLACES:
        rate_place = RATE_PLACES[sort]
        return lambda key: rates.rate(QUEUE, key, rate_place)
    if sort in VIEW_COLUMNS:
        column = VIEW_COLUMNS[sort]
        is_count = sort in COUNTED

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
        return 0 if view.counts_known(*key) else None

    return count


def plain_rows(view: BrokerView) -> Callable[[Key], Row | None]:
    """Rows without rates."""

    def row(key: Key) -> Row | None:
        queue = view.queue(*key)
        return None if queue is None else queue_row(queue)

    return row


def bare(row: Row, with_totals: bool) -> Row:
    """What a queue is, without what is counted of it (`disable_stats`)."""
    kept = (*SHOWN_BARE, *DEPTHS) if with_totals else SHOWN_BARE
    return {name: row[name] for name in kept if name in row}


def queue_row(queue: QueueView, details: Sequence[Any] = ()) -> Row:
    row = columns_of(queue)
    if queue.members:
        row["leader"] = queue.leader
        row["members"] = list(queue.members)
        row["online"] = list(queue.online)
    if queue.is_mirrored:
        row.update(mirror_columns(queue))
    if queue.sync_messages is not None:
        row["sync_messages"] = queue.sync_messages
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
