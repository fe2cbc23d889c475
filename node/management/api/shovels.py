"""Shovels of the cluster and what they do: /api/shovels, with RabbitMQ's shapes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import web

from node.federating.pauses import pause_command
from node.management.access import Context, caller_of, visible_vhosts
from node.management.changes import change, delete, existing_vhost, forget_pause
from node.management.replies import ApiError, json_reply
from node.management.rows.listing import list_reply
from queues.definitions.metadata.commands import DeleteParameter

if TYPE_CHECKING:
    from node.federating.link_service import LinkService

SHOVEL = "shovel"
Row = dict[str, object]


class Shovels:
    """Status for monitoring users; policymakers delete and restart."""

    def __init__(self, context: Context, links: "LinkService") -> None:
        self._context = context
        self._links = links

    def routes(self) -> list[web.RouteDef]:
        one = "/api/shovels/vhost/{vhost}/{name}"
        return [
            web.get("/api/shovels", self.every),
            web.get("/api/shovels/{vhost}", self.of_vhost),
            web.get(one, self.one),
            web.delete(one, self.remove),
            web.delete(one + "/restart", self.restart),
            web.put(one + "/pause", self.pause),
            web.delete(one + "/pause", self.resume),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        return await self._list(request, lambda row: True)

    async def of_vhost(self, request: web.Request) -> web.StreamResponse:
        vhost = existing_vhost(self._context, request)
        return await self._list(request, lambda row: row["vhost"] == vhost)

    async def _list(
        self, request: web.Request, is_meant: Callable[[Row], bool]
    ) -> web.StreamResponse:
        caller = caller_of(request)
        caller.require_monitor()
        seen = set(visible_vhosts(self._context, caller))
        rows = [
            row for row in await self._links.all_shovels() if row["vhost"] in seen and is_meant(row)
        ]
        return await list_reply(request, rows, lambda row: str(row["name"]), lambda row: row)

    async def one(self, request: web.Request) -> web.Response:
        caller_of(request).require_monitor()
        vhost, name = existing_vhost(self._context, request), request.match_info["name"]
        for row in await self._links.all_shovels():
            if (row["vhost"], row["name"]) == (vhost, name):
                return json_reply(row)
        raise ApiError.not_found()

    async def remove(self, request: web.Request) -> web.Response:
        caller_of(request).require_policymaker()
        vhost, name = existing_vhost(self._context, request), request.match_info["name"]
        await forget_pause(self._context, vhost, name)
        return await delete(self._context, DeleteParameter(vhost, SHOVEL, name))

    async def pause(self, request: web.Request) -> web.Response:
        return await self._set_paused(request, True)

    async def resume(self, request: web.Request) -> web.Response:
        return await self._set_paused(request, False)

    async def _set_paused(self, request: web.Request, is_paused: bool) -> web.Response:
        caller_of(request).require_policymaker()
        vhost, name = existing_vhost(self._context, request), request.match_info["name"]
        key = self._links.key_of_shovel(vhost, name)
        if key is None:
            raise ApiError.not_found()
        await change(self._context, pause_command(key, is_paused))
        return web.Response(status=204)

    async def restart(self, request: web.Request) -> web.Response:
        caller_of(request).require_policymaker()
        vhost, name = existing_vhost(self._context, request), request.match_info["name"]
        if not await self._links.restart_shovel(vhost, name):
            raise ApiError.not_found()
        return web.Response(status=204)
