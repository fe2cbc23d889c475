"""GET /api/overview, /api/whoami, /api/auth: totals of the cluster, and who asks."""

import os
from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web

from node.auth.passwords import DEFAULT_HASHING, SALT_BYTES, hash_password
from node.management.access import Context, caller_of
from node.management.nodes import listener_rows
from node.management.parameters import cluster_name
from node.management.replies import json_reply
from node.management.view import BrokerView, CountersView, TotalsView

API_VERSION: Final = "4.0.5"  # the RabbitMQ release whose names and shapes these are


class Overview:
    """Totals of all nodes that answer, and who asks."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/overview", self.overview),
            web.get("/api/whoami", self.whoami),
            web.get("/api/auth", self.auth),
            web.get("/api/extensions", self.extensions),
            web.get("/api/auth/hash_password/{password}", self.hash_password),
        ]

    async def overview(self, request: web.Request) -> web.Response:
        node = self._context.view.node()
        counts = [overview_counts(self._context.view)]
        if self._context.cluster is not None:
            counts += await self._context.cluster.overviews()
        body: dict[str, object] = {
            "product_name": "Warren",
            "product_version": node.version,
            "management_version": API_VERSION,
            "rabbitmq_version": API_VERSION,
            "cluster_name": cluster_name(self._context),
            "node": node.name,
            "rates_mode": "none",
            "statistics_db_event_queue": 0,
            **{key: summed(counts, key) for key in COUNTED},
        }
        if caller_of(request).is_monitor:
            body["listeners"] = [row for each in counts for row in each["listeners"]]
        return json_reply(body)

    async def whoami(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        return json_reply(
            {"name": caller.name, "tags": sorted(caller.tags), "is_internal_user": True}
        )

    async def auth(self, request: web.Request) -> web.Response:
        """How the web page is to log in: by name and password alone."""
        return json_reply({"oauth_enabled": False})

    async def extensions(self, request: web.Request) -> web.Response:
        """Parts of the page that plugins add: there are none."""
        return json_reply([])

    async def hash_password(self, request: web.Request) -> web.Response:
        """As it can stand in a definitions file."""
        password = request.match_info["password"]
        return json_reply({"ok": hash_password(password, DEFAULT_HASHING, os.urandom(SALT_BYTES))})


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


COUNTED: Final = ("queue_totals", "object_totals", "message_stats", "churn_rates")
SHARED: Final = frozenset(("exchanges", "queues"))  # every node has all of them


def overview_counts(view: BrokerView) -> dict[str, Any]:
    """What one node counts, and where it listens."""
    totals, counters = view.totals(), view.counters()
    return {
        "queue_totals": _queue_totals(totals),
        "object_totals": _object_totals(totals),
        "message_stats": message_stats(counters),
        "churn_rates": _churn(counters),
        "listeners": listener_rows(view.node()),
    }


def summed(counts: Sequence[dict[str, Any]], key: str) -> dict[str, int]:
    """One kind of counts over all nodes; the first ones are those of this node."""
    first = counts[0][key]
    return {
        name: value if name in SHARED else sum(each[key].get(name, 0) for each in counts)
        for name, value in first.items()
    }


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
