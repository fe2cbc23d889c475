"""GET /api/nodes/best and /api/cluster/plan: where clients should go, and leaders could.

`best?queue=Q&vhost=V` names the node that leads the queue, else the node with the fewest
connections that runs and is not drained: a proxy or a client asks it before it connects. `plan` is
what a rebalance of quorum queues would do, and where leaders should go that are to follow their
traffic (`traffic`); it does nothing. Any node answers for the cluster, by
what it knows; nodes that do not say in time how many connections they have come last.
"""

from typing import Final

from aiohttp import web
from msgspec import Struct

from node.cluster.services.topology import TopologyMember
from node.cluster.services.whereis import RUNNING, url_of, urls_told
from node.connections.amqp_listeners import AMQP, AMQP_TLS
from node.management.access import Context, caller_of, not_authorized, visible_vhosts
from node.management.api.operations.cluster import chosen_by
from node.management.changes import NO_VHOST_ACCESS
from node.management.replies import ApiError, json_reply
from node.management.rows.cluster_view import OVERVIEW, ClusterView
from node.management.rows.view import NodeView

Row = dict[str, object]

WILDCARDS: Final = frozenset(("0.0.0.0", "::"))  # listen everywhere, and name no host
FAR: Final = 1 << 62  # connections of a node that does not say


class Site(Struct, frozen=True):
    """A node to which a client could connect."""

    node: str
    endpoints: tuple[str, ...]
    zone: str | None
    connections: int = 0


class Placement:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        best = web.get("/api/nodes/best", self.best)
        return [best, web.get("/api/cluster/plan", self.plan)]

    async def best(self, request: web.Request) -> web.Response:
        name = request.query.get("queue")
        if name is None:
            return self._fewest(await self._sites())
        found = self._context.view.topology(self._vhost(request), name)
        if found is None:
            raise ApiError.not_found()
        running = [each for each in found.members if each.state == RUNNING]
        leaders = [each for each in running if each.node == found.leader]
        if not leaders:
            return self._fewest(await self._sites())
        others = [each for each in running if each.node != found.leader]
        return _chosen("leads the queue", [site_of(each) for each in (*leaders, *others)])

    def _vhost(self, request: web.Request) -> str:
        """The vhost that is asked about, if the caller may see it."""
        name = request.query.get("vhost", "/")
        if name not in visible_vhosts(self._context, caller_of(request)):
            if name in self._context.view.vhost_names():
                raise not_authorized(NO_VHOST_ACCESS)
            raise ApiError.not_found()
        return name

    def _fewest(self, sites: list[Site]) -> web.Response:
        if not sites:
            raise ApiError(503, "unavailable", "no node is in service")
        return _chosen("has the fewest connections", sites)

    async def _sites(self) -> list[Site]:
        """All nodes that serve clients, the emptiest first."""
        view = self._context.view
        node, cluster = view.node(), self._context.cluster
        here = endpoints_of(node)
        if cluster is None:
            return [Site(node.name, here, None)] if node.in_service else []
        cluster_snapshot = cluster.operating.cluster_snapshot
        counts = await connection_counts(cluster)
        counts[cluster_snapshot.here] = view.totals().connections
        found = [
            Site(
                each.name,
                tuple(urls_told(each.amqp, each.amqps)) or (here if is_here else ()),
                each.zone or None,
                counts.get(each.id, FAR),
            )
            for each in cluster_snapshot.members()
            for is_here in (each.id == cluster_snapshot.here,)
            if cluster_snapshot.is_running(each.id)
            and not each.draining
            and (node.in_service or not is_here)
        ]
        return sorted(found, key=lambda each: (each.connections, each.node))

    async def plan(self, request: web.Request) -> web.Response:
        caller_of(request).require_monitor()
        chosen, cluster = chosen_by(request.query), self._context.cluster
        if cluster is None:
            return json_reply({"now": [], "moves": [], "traffic": []})
        now, moves = await cluster.operating.membership.planned(chosen)
        part = cluster.operating.traffic
        traffic = [] if part is None else await part.planned(chosen)
        return json_reply({"now": now, "moves": moves, "traffic": traffic})


def endpoints_of(node: NodeView) -> tuple[str, ...]:
    """Of the listeners of this node."""
    own_host = node.name.rpartition("@")[2]
    return tuple(
        url_of(
            own_host if each.host in WILDCARDS else each.host,
            each.port,
            each.protocol == AMQP_TLS,
        )
        for each in node.listeners
        if each.protocol in (AMQP, AMQP_TLS)
    )


async def connection_counts(cluster: ClusterView) -> dict[int, int]:
    """How many connections the other nodes have, by member."""
    found = await cluster.operating.status.ask_others(OVERVIEW)
    return {
        member: parts[0]["object_totals"]["connections"] for member, parts in found.items() if parts
    }


def site_of(member: TopologyMember) -> Site:
    return Site(member.node, member.endpoints, member.zone)


def _chosen(reason: str, sites: list[Site]) -> web.Response:
    """The first of them; the others are where to go if that fails."""
    rows: list[Row] = [
        {"node": each.node, "endpoints": list(each.endpoints), "zone": each.zone} for each in sites
    ]
    first = sites[0]
    return json_reply(
        {
            "node": first.node,
            "reason": reason,
            "endpoints": list(first.endpoints),
            "candidates": rows,
        }
    )
