"""What one node counts of messages, with its rates: for its row, and for the totals of all."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from node.management.rows.node_rows import listener_rows, node_row
from node.management.rows.rates import (
    COLUMNS,
    EXCHANGE,
    NO_RANGES,
    NODE,
    QUEUE,
    Measured,
    Ranges,
    Row,
    put_detail,
    put_details,
    summed,
)
from node.management.rows.sampling import Rates
from node.management.rows.view import BrokerView, CountersView, QueueView, TotalsView

COUNTED: Final = ("queue_totals", "object_totals", "message_stats", "churn_rates")
SHARED: Final = frozenset(("exchanges", "queues"))  # every node has all of them
DETAILS: Final = "details"
ExchangeStats: TypeAlias = tuple[Sequence[int], Sequence[Measured]]  # in and out: counts, details


def message_stats(counters: CountersView) -> dict[str, int]:
    """The counts of all protocols and queue types together, since start."""
    ways = counters.protocols
    ends = counters.deliveries
    return {
        "publish": sum(way.received for way in ways),
        "confirm": sum(way.confirmed for way in ways),
        "return_unroutable": sum(way.unroutable_returned for way in ways),
        "drop_unroutable": sum(way.unroutable_dropped for way in ways),
        "deliver": sum(end.delivered_consume_manual_ack for end in ends),
        "deliver_no_ack": sum(end.delivered_consume_auto_ack for end in ends),
        "get": sum(end.delivered_get_manual_ack for end in ends),
        "get_no_ack": sum(end.delivered_get_auto_ack for end in ends),
        "get_empty": sum(end.get_empty for end in ends),
        "deliver_get": sum(end.delivered for end in ends),
        "redeliver": sum(end.redelivered for end in ends),
        "ack": sum(end.acknowledged for end in ends),
    }


def overview_counts(view: BrokerView, rates: Rates, ranges: Ranges = NO_RANGES) -> Row:
    """What one node counts, and where it listens."""
    totals, counters = view.totals(), view.counters()
    return {
        "queue_totals": _queue_totals(totals),
        "object_totals": _object_totals(totals),
        "message_stats": message_stats(counters),
        "churn_rates": _churn(counters),
        "listeners": listener_rows(view.node()),
        DETAILS: list(rates.of(NODE, None, ranges)),
    }


def summed_counts(parts: Sequence[Row]) -> Row:
    """Of all nodes together, with their details; the first part is that of this node."""
    row: Row = {key: _summed(parts, key) for key in COUNTED}
    for place, column in enumerate(COLUMNS[NODE]):
        if column.inside:
            detail = summed([part[DETAILS][place] for part in parts])
            put_detail(row[column.inside], column.name, detail)
    return row


def _summed(parts: Sequence[Row], key: str) -> dict[str, Any]:
    first = parts[0][key]
    return {
        name: value if name in SHARED else sum(each[key].get(name, 0) for each in parts)
        for name, value in first.items()
    }


def node_stats_row(view: BrokerView, rates: Rates, ranges: Ranges = NO_RANGES) -> Row:
    """The row of this node, with what it counts itself."""
    row: Row = node_row(view.node())
    row["rates_mode"] = "basic"
    row["queue_totals"] = _queue_totals(view.totals())
    row["message_stats"] = message_stats(view.counters())
    details: Sequence[Measured] = rates.of(NODE, None, ranges)
    return put_details(row, NODE, details)


def _queue_totals(totals: TotalsView) -> dict[str, int]:
    return {
        "messages": totals.messages_ready + totals.messages_unacknowledged,
        "messages_ready": totals.messages_ready,
        "messages_unacknowledged": totals.messages_unacknowledged,
    }


def _object_totals(totals: TotalsView) -> dict[str, int]:
    return {
        "channels": totals.channels,
        "connections": totals.connections,
        "consumers": totals.consumers,
        "exchanges": totals.exchanges,
        "queues": totals.queues,
    }


def _churn(counters: CountersView) -> dict[str, int]:
    return {
        "connection_created": counters.connections_opened,
        "connection_closed": counters.connections_closed,
        "channel_created": counters.channels_opened,
        "channel_closed": counters.channels_closed,
        "queue_declared": counters.queues_declared,
        "queue_created": counters.queues_created,
        "queue_deleted": counters.queues_deleted,
    }


def watched_queue(
    view: BrokerView, rates: Rates, key: tuple[str, str], ranges: Ranges = NO_RANGES
) -> QueueView | None:
    """One queue that this node leads, with its rates and its head."""
    queue = view.queue(*key)
    if queue is None:
        return None
    details = rates.of(QUEUE, key, ranges)
    head, idle = view.head_timestamp(*key), rates.idle_since_ms(QUEUE, key) or queue.idle_since_ms
    return replace(queue, rates=details, head_timestamp=head, idle_since_ms=idle)


def exchange_stats(rates: Rates, key: tuple[str, str], ranges: Ranges) -> ExchangeStats:
    """What this node counts of an exchange. The look makes it count."""
    details = rates.of(EXCHANGE, key, ranges)
    return rates.values(EXCHANGE, key) or (0, 0), details
