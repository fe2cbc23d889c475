"""GET /api/nodes/{node}/log and /config: the last lines of a node's log, and its configuration.

For administrators. Secrets of the configuration are hidden. Any node answers for all.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

from aiohttp import web

from node.cluster.services.status_channel import NoAnswer
from node.config.config_view import shown
from node.events import logs
from node.management.access import Context, caller_of
from node.management.replies import ApiError, json_reply
from node.management.rows.cluster_view import ClusterView

LOG_TAIL: Final = "log_tail"  # questions to another node: how many lines
CONFIG: Final = "config"
LINES: Final = 50


class NodeDetails:
    """Of this node, and of others by asking them."""

    def __init__(self, context: Context, cluster: ClusterView) -> None:
        self._context = context
        self._operating = cluster.operating
        self._operating.status.serve(LOG_TAIL, self._log_asked)
        self._operating.status.serve(CONFIG, self._config_asked)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/nodes/{node}/log", self.log),
            web.get("/api/nodes/{node}/config", self.config),
        ]

    async def log(self, request: web.Request) -> web.Response:
        asked = request.query.get("lines", str(LINES))
        if not (asked.isascii() and asked.isdigit()) or not 1 <= int(asked) <= logs.KEPT_LINES:
            raise ApiError.bad_request(f"lines must be a number from 1 to {logs.KEPT_LINES}")
        return json_reply({"lines": await self._ask(request, LOG_TAIL, int(asked))})

    async def config(self, request: web.Request) -> web.Response:
        return json_reply(await self._ask(request, CONFIG, None))

    async def _ask(self, request: web.Request, question: str, about: object) -> object:
        """What the node in the path answers; ApiError."""
        caller_of(request).require_administrator()
        name = request.match_info["node"]
        member = self._operating.cluster_snapshot.member_named(name)
        if member is None:
            raise ApiError.not_found()
        try:
            return (await self._operating.status.ask(member.id, question, about))[0]
        except NoAnswer as error:
            raise ApiError(503, "no_answer", f"node {name}: {error}") from error

    async def _log_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        yield logs.last_lines(int(about))

    async def _config_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        yield {} if self._context.config is None else shown(self._context.config)
