"""GET and PUT /api/nodes/{node}/log-level: what a node logs, until it restarts.

For administrators. `{"level": "debug", "category": "connection"}` changes one category, without
`category` all that have no level of their own. Any node answers for all.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

from aiohttp import web

from node.cluster.services.status_channel import NoAnswer, Unanswerable
from node.events import logs
from node.management.access import Context, caller_of
from node.management.bodies import read_body, text
from node.management.replies import ApiError, json_reply
from node.management.rows.cluster_view import ClusterView

LOG_LEVEL: Final = "log_level"  # a question to another node: [level, category] or nothing


class LogLevels:
    """Of this node, and of others by asking them."""

    def __init__(self, context: Context, cluster: ClusterView) -> None:
        self._context = context
        self._operating = cluster.operating
        self._operating.status.serve(LOG_LEVEL, self._asked)

    def routes(self) -> list[web.RouteDef]:
        path = "/api/nodes/{node}/log-level"
        return [web.get(path, self.one), web.put(path, self.set)]

    async def one(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        return json_reply(await self._ask(request, None))

    async def set(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        body = await read_body(request, "level")
        await self._ask(request, [text(body, "level"), text(body, "category")])
        return web.Response(status=204)

    async def _ask(self, request: web.Request, about: object) -> object:
        """The levels of the node in the path, after they were changed; ApiError."""
        member = self._operating.cluster_snapshot.member_named(request.match_info["node"])
        if member is None:
            raise ApiError.not_found()
        try:
            return (await self._operating.status.ask(member.id, LOG_LEVEL, about))[0]
        except NoAnswer as error:
            raise ApiError.bad_request(str(error)) from error

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        if about is not None:
            level, category = about
            try:
                logs.set_level(level, category)
            except logs.BadLevel as error:
                raise Unanswerable(str(error)) from error
        yield logs.levels()
