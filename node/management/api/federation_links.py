"""Federation links of the cluster: /api/federation-links, with RabbitMQ's shapes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import web

from node.federating.link_rows import DOWN, STATUSES, is_in_state
from node.federating.pauses import pause_command
from node.management.access import Context, caller_of, visible_vhosts
from node.management.changes import change, existing_vhost
from node.management.replies import ApiError
from node.management.rows.listing import list_reply

if TYPE_CHECKING:
    from node.federating.link_service import LinkService

Row = dict[str, object]


class FederationLinks:
    """Status for monitoring users; policymakers restart."""

    def __init__(self, context: Context, links: "LinkService") -> None:
        self._context = context
        self._links = links

    def routes(self) -> list[web.RouteDef]:
        every = "/api/federation-links"
        return [
            web.get(every, self.every),
            web.get(every + "/state/{state}", self.in_state),
            web.get(every + "/{vhost}", self.of_vhost),
            web.get(every + "/{vhost}/state/{state}", self.of_vhost_in_state),
            web.delete(every + "/vhost/{vhost}/{link}/{node}/restart", self.restart),
            web.put(every + "/vhost/{vhost}/{link}/pause", self.pause),
            web.delete(every + "/vhost/{vhost}/{link}/pause", self.resume),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        return await self._list(request, lambda row: True)

    async def in_state(self, request: web.Request) -> web.StreamResponse:
        state = _state_in(request)
        return await self._list(request, lambda row: is_in_state(row["status"], state))

    async def of_vhost(self, request: web.Request) -> web.StreamResponse:
        vhost = existing_vhost(self._context, request)
        return await self._list(request, lambda row: row["vhost"] == vhost)

    async def of_vhost_in_state(self, request: web.Request) -> web.StreamResponse:
        vhost, state = existing_vhost(self._context, request), _state_in(request)
        return await self._list(
            request, lambda row: row["vhost"] == vhost and is_in_state(row["status"], state)
        )

    async def _list(
        self, request: web.Request, is_meant: Callable[[Row], bool]
    ) -> web.StreamResponse:
        caller = caller_of(request)
        caller.require_monitor()
        seen = set(visible_vhosts(self._context, caller))
        found = await self._links.all_links()
        rows = [row for row in found if row["vhost"] in seen and is_meant(row)]
        return await list_reply(request, rows, lambda row: str(row["id"]), lambda row: row)

    async def pause(self, request: web.Request) -> web.Response:
        return await self._set_paused(request, True)

    async def resume(self, request: web.Request) -> web.Response:
        return await self._set_paused(request, False)

    async def _set_paused(self, request: web.Request, is_paused: bool) -> web.Response:
        caller_of(request).require_policymaker()
        existing_vhost(self._context, request)
        key = self._links.key_of(request.match_info["link"])
        if key is None:
            raise ApiError.not_found()
        await change(self._context, pause_command(key, is_paused))
        return web.Response(status=204)

    async def restart(self, request: web.Request) -> web.Response:
        """By its id; the node in the path is where it ran, and may be another one by now."""
        caller_of(request).require_policymaker()
        existing_vhost(self._context, request)
        if not await self._links.restart_link(request.match_info["link"]):
            raise ApiError.not_found()
        return web.Response(status=204)


def _state_in(request: web.Request) -> str:
    state = request.match_info["state"]
    if state != DOWN and state not in STATUSES:
        allowed = ", ".join((DOWN, *STATUSES))
        raise ApiError.bad_request(f"state '{state[:40]}' is not known: allowed: {allowed}")
    return state
