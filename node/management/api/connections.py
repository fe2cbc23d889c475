"""GET /api/connections, /api/connections/{name} and its /sessions; DELETE closes one."""

from typing import Final

from aiohttp import web

from node.management.access import Context, caller_of, not_authorized
from node.management.replies import ApiError, json_reply
from node.management.rows.client_lists import ClientLists
from node.management.rows.client_rows import session_row
from node.management.rows.client_view import Chosen
from node.management.rows.listing import object_reply
from node.management.rows.rates import CONNECTION, Row

REASON_DEFAULT: Final = "Closed via management plugin"  # RabbitMQ's words; clients show them
REASON_BYTES_MAX: Final = 200  # it travels in a short string, behind the name of the code


class Connections:
    """All connections for monitoring users; for others, their own."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lists = ClientLists(context)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/connections", self.every),
            web.get("/api/connections/{name}", self.one),
            web.get("/api/connections/{name}/sessions", self.sessions),
            web.delete("/api/connections/{name}", self.close),
            web.get("/api/connections/username/{user}", self.every),
            web.delete("/api/connections/username/{user}", self.close_of_user),
            web.get("/api/vhosts/{vhost}/connections", self.every),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        chosen = Chosen(user=request.match_info.get("user", ""))
        return await self._lists.reply(request, CONNECTION, chosen)

    async def one(self, request: web.Request) -> web.Response:
        return object_reply(request, (await self._asked(request))[0])

    async def sessions(self, request: web.Request) -> web.Response:
        row, is_here = await self._asked(request)
        if self._context.cluster is not None and not is_here:
            return json_reply(await self._context.cluster.sessions(str(row["name"])))
        found = self._context.view.sessions(str(row["name"]))
        return json_reply([session_row(each) for each in found])

    async def close(self, request: web.Request) -> web.Response:
        return await closed(self._context, request, *await self._asked(request))

    async def close_of_user(self, request: web.Request) -> web.Response:
        caller, user = caller_of(request), request.match_info["user"]
        if not caller.is_administrator and user != caller.name:
            raise not_authorized("Not administrator user")
        reason = reason_of(request)
        self._context.operations.close_connections("", user, reason)
        if self._context.cluster is not None:
            await self._context.cluster.close_connections_of(user, reason)
        return web.Response(status=204)

    async def _asked(self, request: web.Request) -> tuple[Row, bool]:
        """The connection in the path, if there is one that the caller may see, and whether it is
        one of this node."""
        return await self._lists.one(request, CONNECTION, (request.match_info["name"], 0, 0))


async def closed(context: Context, request: web.Request, row: Row, is_here: bool) -> web.Response:
    """Close the connection of that row, for administrators and its own user."""
    caller = caller_of(request)
    if not caller.is_administrator and row["user"] != caller.name:
        raise not_authorized("Not administrator user")
    name, cluster, reason = str(row["name"]), context.cluster, reason_of(request)
    if cluster is not None and not is_here:
        is_closed = await cluster.close_connection(name, reason)
    else:
        is_closed = context.view.close_connection(name, reason)
    if not is_closed:
        raise ApiError.not_found()
    return web.Response(status=204)


def reason_of(request: web.Request) -> str:
    """What the client gives as the reason, cut to what a reply text can hold."""
    given = request.headers.get("X-Reason", REASON_DEFAULT).encode("utf-8", "replace")
    return given[:REASON_BYTES_MAX].decode("utf-8", "ignore")
