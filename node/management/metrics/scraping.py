"""GET /metrics and what is below it: Prometheus text, written as it is made.

`/metrics` has sums over the node, `/metrics/per-object` each queue, connection and channel as well,
`/metrics/detailed?family=...&vhost=...` the groups that are asked for under their own prefix (400
for one that is not known), `/metrics/memory-breakdown` what takes how much memory. On the
management listener with the login of a monitoring user, or without one from this machine itself; on
a listener of its own (`listeners.metrics`) as `management.metrics_need_login` says. No turn of the
loop makes more than SLICE objects or ROWS samples; who does not read its answer is cut off.
"""

import asyncio
import time
from collections.abc import Iterable
from itertools import chain
from typing import Final

from aiohttp import web

from node.auth.source import is_loopback
from node.management.access import Context, identify
from node.management.metrics.address_families import address_families
from node.management.metrics.ages import HeadAges
from node.management.metrics.link_families import link_families
from node.management.metrics.node_families import identity_families
from node.management.metrics.scrape import GROUPS, Scrape
from node.management.metrics.text import CONTENT_TYPE, Family, gauge, texts
from node.management.metrics.view import Unmetered
from node.management.replies import ApiError

ROWS: Final = 500  # samples written between two turns of the loop: 1 ms
WRITE_SECONDS: Final = 30.0  # for a client to take one part


class Metrics:
    """See the module. `is_open`: no login is needed."""

    def __init__(self, context: Context, is_open: bool = False) -> None:
        self._context = context
        self._is_open = is_open
        self._meter = context.meter or Unmetered()
        self._ages = HeadAges()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/metrics", self.aggregated),
            web.get("/metrics/per-object", self.per_object),
            web.get("/metrics/detailed", self.detailed),
            web.get("/metrics/memory-breakdown", self.memory),
        ]

    async def aggregated(self, request: web.Request) -> web.StreamResponse:
        await self._admit(request)
        families = await self._scrape().aggregated(time.monotonic())
        links = link_families(self._context.links)
        addresses = address_families(self._meter.addresses())
        return await written(request, chain(families, links, addresses))

    async def per_object(self, request: web.Request) -> web.StreamResponse:
        await self._admit(request)
        return await written(request, await self._scrape().per_object(time.monotonic()))

    async def detailed(self, request: web.Request) -> web.StreamResponse:
        await self._admit(request)
        groups = set(request.query.getall("family", ()))
        if unknown := sorted(groups - GROUPS):
            known = ", ".join(sorted(GROUPS))
            raise ApiError.bad_request(f"unknown family: {', '.join(unknown)}; known: {known}")
        asked = request.query.getall("vhost", ())
        vhosts = frozenset(asked) if asked else None
        families = await self._scrape().detailed(groups, vhosts, time.monotonic())
        return await written(request, families)

    async def memory(self, request: web.Request) -> web.StreamResponse:
        await self._admit(request)
        told = self._context.view.memory()
        total = told.get("total")
        sizes = {name: size for name, size in told.items() if isinstance(size, int)}
        sizes["total"] = total["rss"] if isinstance(total, dict) else sum(sizes.values())
        parts = [
            gauge(f"rabbitmq_memory_{name}_bytes", f"Memory of the node: {name}, about", size)
            for name, size in sizes.items()
        ]
        return await written(request, [*identity_families(self._context.view.node()), *parts])

    def _scrape(self) -> Scrape:
        context = self._context
        return Scrape(context.view, context.logins, self._meter, self._ages)

    async def _admit(self, request: web.Request) -> None:
        """ApiError 401 for who may not read them."""
        near = self._is_open or is_loopback(request.remote or "")
        if self._context.metrics_need_login or not near:
            (await identify(self._context, request)).require_monitor()


async def written(request: web.Request, families: Iterable[Family]) -> web.StreamResponse:
    """The families as the answer."""
    reply = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
    await reply.prepare(request)
    try:
        for part in texts(families, ROWS):
            async with asyncio.timeout(WRITE_SECONDS):
                await reply.write(part.encode())
            await asyncio.sleep(0)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        return reply
    except ConnectionError:
        return reply  # The client is gone, and no reply can be sent.
    await reply.write_eof()
    return reply
