"""GET /api/nodes, one by its name, its memory: for monitoring users. Any node answers for all."""

from aiohttp import web

from node.management.access import Context, caller_of
from node.management.node_stats import node_stats_row
from node.management.rates import Row
from node.management.replies import ApiError, json_reply
from node.management.sampling import parse_ranges


class Nodes:
    """The nodes of the cluster; those that do not answer in time are listed as not running."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/nodes", self.every),
            web.get("/api/nodes/{name}", self.one),
            web.get("/api/nodes/{name}/memory", self.memory),
        ]

    async def every(self, request: web.Request) -> web.Response:
        caller_of(request).require_monitor()
        cluster, ranges = self._context.cluster, parse_ranges(request.query)
        if cluster is not None:
            return json_reply(await cluster.nodes(ranges))
        return json_reply([node_stats_row(self._context.view, self._context.rates, ranges)])

    async def one(self, request: web.Request) -> web.Response:
        caller_of(request).require_monitor()
        cluster, ranges = self._context.cluster, parse_ranges(request.query)
        asked = request.match_info["name"]
        row: Row | None = None
        if cluster is not None:
            row = await cluster.node(asked, ranges)
        elif asked == self._context.view.node().name:
            row = node_stats_row(self._context.view, self._context.rates, ranges)
        if row is None:
            raise ApiError.not_found()
        return json_reply(row)

    async def memory(self, request: web.Request) -> web.Response:
        """Where the memory of the node is: parts that add up to its resident size."""
        caller_of(request).require_monitor()
        view, cluster = self._context.view, self._context.cluster
        asked = request.match_info["name"]
        found: Row | None = None
        if asked == view.node().name:
            found = view.memory()
        elif cluster is not None:
            found = await cluster.memory(asked)
        if found is None:
            raise ApiError.not_found()
        return json_reply({"memory": found})
