"""GET /api/addresses, /api/addresses/{vhost}: addresses with limits, what they hold, who waits.

An address is an exchange with the queues that its bindings reach, or a queue by itself; those with
address settings are listed. `bytes` and `messages` are of all its queues in the cluster;
`blocked_publishers`, `blocked_times`, `refused` and `dropped` are sums over the nodes, since each
began; so are `granted_credit` and `granted_bytes`, of links of AMQP 1.0 with this target. For
monitoring users; nodes that do not answer in time are left out.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from aiohttp import web

from node.management.access import Context, caller_of, visible_vhosts
from node.management.changes import existing_vhost
from node.management.metrics.view import AddressView, Unmetered
from node.management.replies import json_reply

ADDRESSES: Final = "addresses"  # the question to other nodes
SUMS: Final = (
    *("blocked_publishers", "blocked_times", "refused", "dropped"),
    *("granted_credit", "granted_bytes"),
)
Row = dict[str, Any]


class Addresses:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._meter = context.meter or Unmetered()
        if context.cluster is not None:
            context.cluster.operating.status.serve(ADDRESSES, self._asked)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/addresses", self.every),
            web.get("/api/addresses/{vhost}", self.of_vhost),
        ]

    async def every(self, request: web.Request) -> web.Response:
        return await self._list(request, lambda row: True)

    async def of_vhost(self, request: web.Request) -> web.Response:
        vhost = existing_vhost(self._context, request)
        return await self._list(request, lambda row: bool(row["vhost"] == vhost))

    async def _list(self, request: web.Request, is_meant: Callable[[Row], bool]) -> web.Response:
        caller = caller_of(request)
        caller.require_monitor()
        rows = [row_of(each) for each in self._meter.addresses(every=True)]
        cluster = self._context.cluster
        if cluster is not None:
            for told in (await cluster.operating.status.ask_others(ADDRESSES)).values():
                add(rows, [row for part in told or () for row in part])
        seen = set(visible_vhosts(self._context, caller))
        return json_reply([row for row in rows if row["vhost"] in seen and is_meant(row)])

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        yield [row_of(each) for each in self._meter.addresses(every=True)]


def row_of(view: AddressView) -> Row:
    """An address as one node sees it."""
    limits = view.limits
    hard_bytes, hard_count = limits.hard
    return {
        "vhost": view.vhost,
        "kind": view.kind,
        "name": view.name,
        "policy": limits.policy,
        "full": view.is_full,
        "bytes": view.size_bytes,
        "messages": view.size_count,
        "max_size_bytes": limits.bytes_max,
        "max_size_messages": limits.count_max,
        "refusing_above_bytes": hard_bytes,
        "refusing_above_messages": hard_count,
        "over_bytes_max": view.over_bytes,
        "producer_max_rate": limits.rate_max,
        "producer_window_size": limits.window_bytes,
        "amqp_credits": limits.credits,
        "amqp_low_credits": limits.credits_low,
        "queues": view.queue_count,
        "blocked_publishers": view.blocked_publishers,
        "blocked_times": view.blocked_times,
        "refused": view.refused_count,
        "dropped": view.dropped_count,
        "granted_credit": view.granted_credit,
        "granted_bytes": view.granted_bytes,
    }


def add(rows: Sequence[Row], others: Sequence[Row]) -> None:
    """Add what publishers of another node met."""
    known = {(row["vhost"], row["kind"], row["name"]): row for row in rows}
    for other in others:
        row = known.get((other["vhost"], other["kind"], other["name"]))
        if row is not None:
            for name in SUMS:
                row[name] += other[name]
            row["over_bytes_max"] = max(row["over_bytes_max"], other["over_bytes_max"])
