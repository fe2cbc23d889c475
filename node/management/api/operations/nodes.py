"""GET /api/nodes, one by its name, its memory: for monitoring users. Any node answers for all."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from node.management.access import Context, caller_of
from node.management.replies import ApiError, json_reply
from node.management.rows.node_stats import node_stats_row
from node.management.rows.rates import Row
from node.management.rows.sampling import parse_ranges


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
        return json_reply({"memory": with_rabbitmq_parts(found)})


# RabbitMQ's names for parts of ours; and those of its parts that are not there.
THEIRS: Final[Mapping[str, str]] = {
    "connections": "connection_readers",
    "channels": "connection_channels",
    "queues": "queue_procs",
    "message_bodies": "binary",
    "other": "other_proc",
}
ABSENT: Final = (
    "connection_writers", "connection_other", "quorum_queue_procs", "stream_queue_procs",
    "stream_queue_replica_reader_procs", "stream_queue_coordinator_procs", "plugins",
    "metadata_store", "metrics", "mgmt_db", "mnesia", "quorum_ets", "metadata_store_ets",
    "other_ets", "msg_index", "atom", "other_system", "allocated_unused", "reserved_unallocated",
)  # fmt: skip


def with_rabbitmq_parts(memory: Row) -> Row:
    """The parts under the names that RabbitMQ's tools ask for; they still add up."""
    parts = {THEIRS.get(name, name): size for name, size in memory.items()}
    total = memory["total"]
    return {
        **dict.fromkeys(ABSENT, 0),
        **parts,
        "estimated": [THEIRS.get(name, name) for name in memory.get("estimated", ())],
        "total": {**total, "erlang": total["rss"]},
    }
