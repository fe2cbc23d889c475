"""The cluster and the members of quorum queues: replicas, leaders, maintenance, forgetting.

Paths are RabbitMQ's where it has them (/api/queues/quorum/..., /api/rebalance/queues); ours are
/api/nodes/{node}/drain, /revive and /reset, DELETE /api/nodes/{node}, POST .../{queue}/leader and
.../{queue}/recover, /api/queues/quorum/recover, and /api/cluster. All of them are the
administrator's, but for what only reads.
What many queues are asked for answers with a row for each; `result` is `ok` or why not.
"""

from collections.abc import Awaitable, Mapping
from typing import Final, TypeVar

from aiohttp import web

from node.cluster.membership.member_changes import Membership, QueueResult, Refused
from node.cluster.queues.cluster_snapshot import Chosen, is_quorum
from node.cluster.queues.recovering_many import QueueRecovery, RecoveringMany
from node.management.access import Context, asked_vhosts, caller_of
from node.management.bodies import flag, matching, query_flag, read_body, text, whole
from node.management.changes import refuse
from node.management.replies import ApiError, json_reply
from node.management.rows.cluster_view import ClusterView
from queues.definitions.broker_objects import Queue

T = TypeVar("T")

QUORUM: Final = "/api/queues/quorum"
ONE: Final = f"{QUORUM}/{{vhost}}/{{queue}}"
MEMBERSHIPS: Final = ("promotable", "voter")
STRATEGIES: Final = ("all", "even")
KINDS: Final = ("all", "quorum", "classic")
COUNT_MAX: Final = 255


class ClusterOperations:
    """See the module."""

    def __init__(self, context: Context, view: ClusterView) -> None:
        self._context = context
        self._view = view
        self._membership: Membership = view.operating.membership

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/cluster", self.map),
            web.post("/api/cluster/recover", self.recover_cluster),
            web.get(f"{ONE}/status", self.status),
            web.post(f"{ONE}/replicas/add", self.add),
            web.delete(f"{ONE}/replicas/delete", self.remove),
            web.post(f"{ONE}/leader", self.transfer),
            web.post(f"{ONE}/recover", self.recover),
            web.post(f"{QUORUM}/recover", self.recover_many),
            web.post(f"{QUORUM}/replicas/on/{{node}}/grow", self.grow),
            web.delete(f"{QUORUM}/replicas/on/{{node}}/shrink", self.shrink),
            web.post(f"{QUORUM}/replicas/grow-to-count", self.grow_to_count),
            web.post("/api/rebalance/queues", self.rebalance),
            web.post("/api/nodes/{node}/drain", self.drain),
            web.post("/api/nodes/{node}/revive", self.revive),
            web.post("/api/nodes/{node}/reset", self.reset),
            web.delete("/api/nodes/{node}", self.forget),
        ]

    # What only reads

    async def map(self, request: web.Request) -> web.Response:
        """Nodes, and which of them leads which quorum queue and has which classic one."""
        caller_of(request).require_monitor()
        cluster_snapshot = self._view.operating.cluster_snapshot
        led: dict[str, int] = {}
        for queue in cluster_snapshot.queues():
            name = (
                cluster_snapshot.name_of(cluster_snapshot.leader_of(queue))
                if queue.holders
                else queue.node
            )
            led[name] = led.get(name, 0) + 1
        lags = self._view.operating.definitions_lags()
        rows = [
            {
                "name": each.name,
                "member_id": each.id,
                "running": cluster_snapshot.is_running(each.id),
                "being_drained": each.draining,
                "host_id": each.host_id,
                "zone": each.zone,
                "tags": dict(each.tags),
                "address": f"{each.cluster_host}:{each.cluster_port}",
                "amqp": each.amqp,
                "amqps": each.amqps,
                "management": each.management,
                "leads": led.get(each.name, 0),
                "definitions_lag": lags.get(each.id, 0),
            }
            for each in cluster_snapshot.members()
        ]
        return json_reply(
            {"nodes": rows, "this_node": cluster_snapshot.name_of(cluster_snapshot.here)}
        )

    async def status(self, request: web.Request) -> web.Response:
        return json_reply(await self._membership.quorum_status(self._queue(request)))

    # Members of one queue

    async def add(self, request: web.Request) -> web.Response:
        queue, node = await self._queue_and_node(request)
        check_membership(await read_body(request))
        await answered(self._membership.add_member(queue, node))
        return web.Response(status=204)

    async def remove(self, request: web.Request) -> web.Response:
        queue, node = await self._queue_and_node(request)
        await answered(self._membership.delete_member(queue, node))
        return web.Response(status=204)

    async def transfer(self, request: web.Request) -> web.Response:
        queue, node = await self._queue_and_node(request)
        await answered(self._membership.transfer(queue, node))
        return web.Response(status=204)

    async def recover(self, request: web.Request) -> web.Response:
        """Unsafe: `confirm` is the name of the queue, whose other members are given up."""
        caller_of(request).require_administrator()
        queue = self._queue(request)
        body = await read_body(request, "confirm")
        if text(body, "confirm") != queue.name:
            raise ApiError.bad_request(
                "confirm must be the name of the queue: what its other members alone have is lost"
            )
        operating = self._view.operating
        if operating.recovering is None:
            raise ApiError.bad_request("the node is in no cluster")
        node = text(
            body, "node", operating.cluster_snapshot.name_of(operating.cluster_snapshot.here)
        )
        done = await answered(operating.recovering.recover(queue, node))
        return json_reply(
            {
                "node": done.node,
                "term": done.term,
                "last_index": done.last_index,
                "members_lost": list(done.lost),
            }
        )

    async def _queue_and_node(self, request: web.Request) -> tuple[Queue, str]:
        caller_of(request).require_administrator()
        queue = self._queue(request)
        return queue, text(await read_body(request, "node"), "node")

    def _queue(self, request: web.Request) -> Queue:
        (vhost,) = asked_vhosts(self._context, request)
        name = request.match_info["queue"]
        queue = self._context.operations.broker.definitions.queue(vhost, name)
        if queue is None:
            raise ApiError.not_found()
        if not is_quorum(queue):
            raise ApiError.bad_request(f"queue '{name}' is not a quorum queue")
        return queue

    # Many queues

    async def grow(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        body = await read_body(request)
        even, errors_only = strategy_of(body) == "even", flag(body, "errors_only")
        check_membership(body)
        node = request.match_info["node"]
        results = await answered(self._membership.grow(node, chosen_by(body), even))
        return json_reply(result_rows([each for each in results if each.error or not errors_only]))

    async def shrink(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        errors_only = query_flag(request, "errors_only")
        node = request.match_info["node"]
        return json_reply(result_rows(await answered(self._membership.shrink(node, errors_only))))

    async def grow_to_count(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        body = await read_body(request, "count")
        count = whole(body, "count", 0, 1, COUNT_MAX)
        even = strategy_of(body) == "even"
        results = await answered(self._membership.grow_to_count(count, chosen_by(body), even))
        return json_reply(result_rows(results))

    async def rebalance(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        body = await read_body(request)
        kind = text(body, "type", "all")
        if kind not in KINDS:
            raise ApiError.bad_request(f"unknown type: {kind}; known: {', '.join(KINDS)}")
        return json_reply(await answered(self._membership.rebalance(kind, chosen_by(body))))

    async def recover_many(self, request: web.Request) -> web.Response:
        """Unsafe: `confirm` is `all`; the other members of all these queues are given up."""
        caller_of(request).require_administrator()
        body = await read_body(request, "confirm")
        if text(body, "confirm") != "all":
            raise ApiError.bad_request(
                "confirm must be `all`: what other members of these queues alone have is lost"
            )
        operating = self._view.operating
        if operating.recovering is None:
            raise ApiError.bad_request("the node is in no cluster")
        many = RecoveringMany(self._membership, operating.status, operating.recovering)
        return json_reply(recovery_rows(await answered(many.recover(chosen_by(body)))))

    async def recover_cluster(self, request: web.Request) -> web.Response:
        """Unsafe: `confirm` is the name of this node, with which alone the cluster goes on."""
        caller_of(request).require_administrator()
        body = await read_body(request, "confirm")
        operating = self._view.operating
        if operating.recovering is None:
            raise ApiError.bad_request("the node is in no cluster")
        if text(body, "confirm") != operating.cluster_snapshot.name_of(
            operating.cluster_snapshot.here
        ):
            raise ApiError.bad_request(
                "confirm must be the name of this node: all others are forgotten for ever"
            )
        return json_reply({"forgotten": await answered(operating.recovering.recover_cluster())})

    # Nodes

    async def drain(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        maintenance = self._view.operating.maintenance
        if maintenance is None:
            raise ApiError(503, "unavailable", "the node is starting")
        force = flag(await read_body(request), "force")
        report = await answered(maintenance.drain(request.match_info["node"], force))
        return json_reply(
            {
                "connections_closed": report.connections,
                "leaders_moved": report.moved,
                "still_led_here": list(report.stuck),
                "classic_queues_here": report.classic,
            }
        )

    async def revive(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        maintenance = self._view.operating.maintenance
        if maintenance is None:
            raise ApiError(503, "unavailable", "the node is starting")
        await answered(maintenance.revive(request.match_info["node"]))
        return web.Response(status=204)

    async def reset(self, request: web.Request) -> web.Response:
        """The node leaves, stops, and starts empty."""
        caller_of(request).require_administrator()
        leaving = self._view.operating.leaving
        if leaving is None:
            raise ApiError(503, "unavailable", "the node is starting")
        force = flag(await read_body(request), "force")
        await answered(leaving.reset(request.match_info["node"], force))
        return web.Response(status=204)

    async def forget(self, request: web.Request) -> web.Response:
        """`?force=true`: also while it runs."""
        caller_of(request).require_administrator()
        node, force = request.match_info["node"], query_flag(request, "force")
        return json_reply(result_rows(await answered(self._membership.forget(node, force))))


async def answered(work: Awaitable[T]) -> T:
    """ApiError for what is refused: 404 if it names something that is not there, 503 where there
    is no majority, else 400."""
    try:
        return await work
    except Refused as error:
        if error.missing:
            raise ApiError.not_found(str(error)) from error
        if error.code:
            refuse(error.code, str(error))
        raise ApiError.bad_request(str(error)) from error


def strategy_of(body: Mapping[str, object]) -> str:
    strategy = text(body, "strategy", "all")
    if strategy not in STRATEGIES:
        raise ApiError.bad_request(f"unknown strategy: {strategy}; known: all, even")
    return strategy


def check_membership(body: Mapping[str, object]) -> None:
    """Every new member is promotable: it votes once it has caught up. Others are refused."""
    membership = text(body, "membership", "promotable")
    if membership not in MEMBERSHIPS:
        raise ApiError.bad_request(
            f"unknown membership: {membership}; known: promotable, voter (a new member votes once "
            "it has caught up, with both)"
        )


def chosen_by(body: Mapping[str, object]) -> Chosen:
    """Queues by `vhost_pattern` and `queue_pattern`, found anywhere in the name."""
    matches = matching(body)
    return lambda queue: matches(queue.vhost, queue.name)


def recovery_rows(results: list[QueueRecovery]) -> list[dict[str, object]]:
    return [
        {
            "vhost": each.vhost,
            "name": each.name,
            "node": each.node,
            "members_lost": list(each.lost),
            "result": each.error or "ok",
        }
        for each in results
    ]


def result_rows(results: list[QueueResult]) -> list[dict[str, object]]:
    return [
        {
            "vhost": each.vhost,
            "name": each.name,
            "size": each.size,
            "result": each.error or "ok",
        }
        for each in results
    ]
