"""GET /api/flow/graph: who is held back by whom, in the whole cluster, now and lately.

`nodes` are actors: readers of connections, channels, links, queues, the log, streams to other
nodes, alarms, rewriting of the log. An edge goes from who is held back (`from`) to who holds it
back (`to`), so that pressure runs against it: its last node is the reason. `since` is in
milliseconds since 1970, or null for what is over. `totals` are sums by kinds of actors, since each
node's start. At most EDGES_MAX edges of a node are listed, those of now first (`truncated`). For
monitoring users; nodes that do not answer in time are named in `nodes_silent`.
"""

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from aiohttp import web

from node.management.access import Context, caller_of
from node.management.metrics.view import EdgeView, Unmetered, WaitView
from node.management.replies import json_reply

FLOW: Final = "flow"  # the question to other nodes
EDGES_MAX: Final = 1000
Row = dict[str, Any]


class Flow:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._meter = context.meter or Unmetered()
        if context.cluster is not None:
            context.cluster.operating.status.serve(FLOW, self._asked)

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/api/flow/graph", self.graph)]

    async def graph(self, request: web.Request) -> web.Response:
        caller_of(request).require_monitor()
        parts = [self._part()]
        silent: list[str] = []
        cluster = self._context.cluster
        if cluster is not None:
            operating = cluster.operating
            for member, told in (await operating.status.ask_others(FLOW)).items():
                if told:
                    parts += told
                else:
                    silent.append(operating.cluster_snapshot.name_of(member))
        return json_reply(whole(parts, silent))

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        yield self._part()

    def _part(self) -> Row:
        node = self._context.view.node()
        wall_ms = int(time.time() * 1000)
        return part_of(node.name, self._meter.edges(), self._meter.waits(), wall_ms)


def part_of(node: str, edges: Sequence[EdgeView], waits: Sequence[WaitView], now_ms: int) -> Row:
    """The graph of one node."""
    actors: dict[str, Row] = {}
    rows: list[Row] = []
    for edge in edges[:EDGES_MAX]:
        one = actor(actors, node, edge.kind, edge.name)
        other = actor(actors, node, edge.by_kind, edge.by_name)
        if one == other:
            continue  # A queue and this node's way to it are one to who looks at the graph.
        since = None if edge.now_s is None else now_ms - int(edge.now_s * 1000)
        rows.append(
            {
                "from": one,
                "to": other,
                "kinds": [edge.kind, edge.by_kind],
                "since": since,
                "blocked_seconds": round(edge.seconds, 3),
                "times": edge.times,
                "reason": edge.reason,
            }
        )
    totals = [
        {
            "node": node,
            "from": each.held_back,
            "to": each.by,
            "blocked_seconds": round(each.seconds, 3),
            "times": each.times,
        }
        for each in waits
    ]
    return {
        "nodes": list(actors.values()),
        "edges": rows,
        "totals": totals,
        "truncated": len(edges) > EDGES_MAX,
    }


def actor(actors: dict[str, Row], node: str, kind: str, name: str) -> str:
    """Its id; it is put into `actors` when it is met first."""
    key = f"{node}|{kind}|{name}"
    if key not in actors:
        actors[key] = {"id": key, "kind": kind, "name": name, "node": node}
    return key


def whole(parts: Sequence[Row], silent: Sequence[str]) -> Row:
    """The graph of the cluster."""
    return {
        "nodes": [row for part in parts for row in part["nodes"]],
        "edges": [row for part in parts for row in part["edges"]],
        "totals": [row for part in parts for row in part["totals"]],
        "truncated": any(part["truncated"] for part in parts),
        "nodes_silent": sorted(silent),
    }
