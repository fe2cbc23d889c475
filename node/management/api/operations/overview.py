"""GET /api/overview, /api/whoami, /api/auth: totals of the cluster, and who asks."""

import os
from typing import Final

from aiohttp import web

from node.auth.passwords import DEFAULT_HASHING, SALT_BYTES, hash_password
from node.connections.connection_properties import PRODUCT, VERSION
from node.management.access import LOGIN_PATH, Context, caller_of
from node.management.api.parameters import cluster_name
from node.management.bodies import Body
from node.management.replies import json_reply
from node.management.rows.listing import query_is_true
from node.management.rows.node_stats import overview_counts, summed_counts
from node.management.rows.sampling import parse_ranges
from queues.routing.kinds import KINDS

RETENTION: Final = {"global": [600, 3600, 28_800, 86_400], "basic": [600, 3600]}  # seconds


# What serves HTTP, by the protocol of its listener.
CONTEXTS: Final = {
    "http": f"{PRODUCT} Management",
    "https": f"{PRODUCT} Management",
    "http/prometheus": f"{PRODUCT} Prometheus",
}


def context_row(listener: Body) -> Body:
    """A listener of HTTP as RabbitMQ's overview names it."""
    protocol = str(listener["protocol"])
    return {
        "node": listener["node"],
        "description": CONTEXTS[protocol],
        "path": "/",
        "ip": listener["ip_address"],
        "port": str(listener["port"]),
        "protocol": protocol,
        "ssl_opts": [],
        "cowboy_opts": "[]",
    }


class Overview:
    """Totals of all nodes that answer, and who asks."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/overview", self.overview),
            web.get("/api/version", self.version),
            web.delete("/api/reset", self.reset),
            web.get("/api/whoami", self.whoami),
            web.get("/api/auth", self.auth),
            web.post(LOGIN_PATH, self.login),
            web.get("/api/extensions", self.extensions),
            web.get("/api/auth/hash_password/{password}", self.hash_password),
        ]

    async def overview(self, request: web.Request) -> web.Response:
        node = self._context.view.node()
        ranges = parse_ranges(request.query)
        counts = [overview_counts(self._context.view, self._context.rates, ranges)]
        if self._context.cluster is not None:
            counts += await self._context.cluster.overviews(ranges)
        body: dict[str, object] = {
            "product_name": PRODUCT,
            "product_version": node.version,
            "management_version": VERSION,
            "rabbitmq_version": VERSION,
            "cluster_name": cluster_name(self._context),
            "node": node.name,
            "rates_mode": "basic",
            "sample_retention_policies": RETENTION,
            "statistics_db_event_queue": 0,
            "exchange_types": [{"name": name, "enabled": True} for name in KINDS],
            **summed_counts(counts),
        }
        if query_is_true(request.query, "disable_stats"):
            for key in ("message_stats", "churn_rates"):
                del body[key]
        if caller_of(request).is_monitor:
            listeners = [row for each in counts for row in each["listeners"]]
            body["listeners"] = listeners
            body["contexts"] = [
                context_row(row) for row in listeners if row["protocol"] in CONTEXTS
            ]
        return json_reply(body)

    async def version(self, request: web.Request) -> web.Response:
        """The RabbitMQ release whose API this is."""
        return json_reply(VERSION)

    async def reset(self, request: web.Request) -> web.Response:
        """Forget all samples: rates start again, counts stay."""
        caller_of(request).require_administrator()
        self._context.rates.reset()
        if self._context.cluster is not None:
            await self._context.cluster.reset_rates()
        return web.Response(status=204)

    async def whoami(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        return json_reply(
            {"name": caller.name, "tags": sorted(caller.tags), "is_internal_user": True}
        )

    async def auth(self, request: web.Request) -> web.Response:
        """How the web page is to log in: by name and password alone."""
        return json_reply({"oauth_enabled": False})

    async def login(self, request: web.Request) -> web.Response:
        """The user has logged in. RabbitMQ also sets a cookie, for its own page: ours
        keeps none (0047), and no request is let in by one."""
        return json_reply("ok")

    async def extensions(self, request: web.Request) -> web.Response:
        """Parts of the page that plugins add: there are none."""
        return json_reply([])

    async def hash_password(self, request: web.Request) -> web.Response:
        """As it can stand in a definitions file."""
        password = request.match_info["password"]
        return json_reply({"ok": hash_password(password, DEFAULT_HASHING, os.urandom(SALT_BYTES))})
