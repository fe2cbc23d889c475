"""/api/leases: leases of queues, of all nodes that answer in time.

Monitoring users see all; others see those of queues in their vhosts. A lease is ended by users that
may read its queue: what it holds is ready again.
"""

from typing import Final

from aiohttp import web

from node.leases.leases import Leases, Row
from node.management.access import Context, caller_of, visible_vhosts
from node.management.api.messages import queue_to_take
from node.management.changes import acting, existing_vhost
from node.management.replies import ApiError, json_reply

ONE: Final = "/api/leases/{vhost}/{queue}/{lease}"


class LeaseLists:
    """See the module."""

    def __init__(self, context: Context, leases: Leases) -> None:
        self._context = context
        self._leases = leases

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/leases", self.every),
            web.get("/api/leases/{vhost}", self.every),
            web.get("/api/leases/{vhost}/{queue}", self.every),
            web.get(ONE, self.one),
            web.delete(ONE, self.release),
        ]

    async def every(self, request: web.Request) -> web.Response:
        return json_reply(await self._found(request))

    async def one(self, request: web.Request) -> web.Response:
        for row in await self._found(request):
            if row["name"] == request.match_info["lease"]:
                return json_reply(row)
        raise ApiError.not_found()

    async def _found(self, request: web.Request) -> list[Row]:
        seen = set(visible_vhosts(self._context, caller_of(request)))
        path = request.match_info
        if "vhost" in path:
            seen &= {existing_vhost(self._context, request)}
        return [
            row
            for row in await self._leases.everywhere()
            if row["vhost"] in seen and path.get("queue", row["queue"]) == row["queue"]
        ]

    async def release(self, request: web.Request) -> web.Response:
        queue = queue_to_take(self._context, request, acting(self._context, request))
        if not await self._leases.release_anywhere(queue, request.match_info["lease"]):
            raise ApiError.not_found()
        return web.Response(status=204)
