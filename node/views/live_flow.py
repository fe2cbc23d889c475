"""Who is held back by whom on this node: edges of the flow graph, read on request.

Edges between actors of the credit flow come from the broker's `FlowLedger`, with when they began.
Beside credit, three things hold clients back, and are seen as they are now: resource alarms hold
connections that have published, unconfirmed bytes the connection that has too many of them, and a
full link to another node the log groups that have entries for it.
"""

from typing import TYPE_CHECKING, Final

from node.management.metrics.view import EdgeView
from node.resources.alarms import ALARM
from node.views.client_listing import endpoint_of
from queues.sessions.credit import CONNECTION

if TYPE_CHECKING:
    from node.broker import Broker

CREDIT: Final = "no credit"
UNCONFIRMED: Final = "unconfirmed bytes"
FULL_LINK: Final = "the link is full"
PUBLISHERS: Final = "publishers"
LOG_GROUPS: Final = "log groups"
PEER: Final = "peer"


def flow_edges(broker: "Broker") -> list[EdgeView]:
    """All of this node; those of now first."""
    past = {pair: (seconds, times) for pair, seconds, times in broker.flow.past()}
    edges: list[EdgeView] = []
    alarmed_s = 0.0
    for one, other, so_far_s in broker.flow.edges():
        if (one.kind, other.kind) == (PUBLISHERS, ALARM):
            alarmed_s = so_far_s
            continue
        pair = (one.kind, one.name, other.kind, other.name)
        seconds, times = past.pop(pair, (0.0, 0))
        edges.append(EdgeView(*pair, so_far_s, seconds + so_far_s, times + 1, CREDIT))
    edges += _of_connections(broker, alarmed_s)
    edges += _of_peers(broker)
    for pair, (seconds, times) in reversed(past.items()):
        reason = CREDIT if pair[2] != ALARM else ALARM
        edges.append(EdgeView(*pair, None, seconds, times, reason))
    return edges


def _of_connections(broker: "Broker", alarmed_s: float) -> list[EdgeView]:
    edges: list[EdgeView] = []
    reason = broker.alarms.reason()
    for endpoint in map(endpoint_of, broker.connections.open.values()):
        name = endpoint.name
        if reason and endpoint.has_published:
            held = EdgeView(CONNECTION, name, ALARM, reason, alarmed_s, alarmed_s, 1, reason)
            edges.append(held)
        elif endpoint.held.in_flight_bytes >= broker.in_flight_bytes_max:
            edges.append(
                EdgeView(CONNECTION, name, "confirms", "confirms", 0.0, 0.0, 1, UNCONFIRMED)
            )
    return edges


def _of_peers(broker: "Broker") -> list[EdgeView]:
    return [
        EdgeView(
            LOG_GROUPS, f"{count} log groups", PEER, f"member {member}", 0.0, 0.0, 1, FULL_LINK
        )
        for member, count in broker.raft.held_counts().items()
        if count
    ]
