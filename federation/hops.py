"""Where a federated message or binding has been: RabbitMQ's headers, names and rules against loops.

A message carries `x-received-from`, a list of tables {uri, exchange or queue, redelivered,
cluster-name, vhost}, newest first; a binding that was copied upstream carries the argument
`x-bound-from`, a list of {cluster-name, vhost, exchange, hops}. Warren adds `cluster-id`, so that
two clusters of one name are distinct.
"""

from collections.abc import Mapping
from typing import Final

from queues.routing.federation_upstream import (
    DOWNSTREAM_ID,
    DOWNSTREAM_NAME,
    DOWNSTREAM_VHOST,
    MAX_HOPS,
    RECEIVED_FROM,
    Place,
    entries,
    was_there,
)
from warren.wire.amqp091.values import Int16, Int64

BOUND_FROM: Final = "x-bound-from"
SUFFIXES: Final = ("A", "B")


def received_from(
    headers: Mapping[str, object], hop: Mapping[str, object], redelivered: bool, place: Place
) -> list[object]:
    """The header with one hop more; `hop` has the URI and the object of the upstream."""
    entry: dict[str, object] = {**hop, "redelivered": redelivered}
    if place.cluster:
        entry["cluster-name"] = place.cluster
    entry["vhost"] = place.vhost
    if place.cluster_id:
        entry["cluster-id"] = place.cluster_id
    earlier = headers.get(RECEIVED_FROM)
    return [entry, *(earlier if isinstance(earlier, list) else ())]


def bound_from(
    arguments: Mapping[str, object],
    max_hops: int,
    here: Place,
    upstream: Place,
    exchange: str,
) -> dict[str, object] | None:
    """Arguments of a downstream binding as it is copied upstream; None: it is not.

    `exchange`: the downstream exchange with its vhost and generation, `vhost:name A`.
    """
    earlier = arguments.get(BOUND_FROM)
    hops = max_hops
    known = entries(earlier)
    if known:
        left = known[0].get("hops")
        hops = min(int(left) - 1 if isinstance(left, int) else 0, max_hops)
        if was_there(upstream, known):
            hops = 0
    if hops <= 0:
        return None
    entry: dict[str, object] = {
        "cluster-name": here.cluster,
        "vhost": here.vhost,
        "exchange": exchange,
        "hops": Int16(hops),  # RabbitMQ's kinds of numbers, which it insists on
    }
    if here.cluster_id:
        entry["cluster-id"] = here.cluster_id
    return {**arguments, BOUND_FROM: [entry, *(earlier if isinstance(earlier, list) else ())]}


def upstream_queue(exchange: str, vhost: str, here: Place, downstream: str) -> str:
    """Name of the queue at the upstream that buffers for a downstream exchange."""
    if here.vhost != vhost:
        part = f"{here.cluster}:{here.vhost}:{downstream}"
    elif downstream != exchange:
        part = f"{here.cluster}:{downstream}"
    else:
        part = here.cluster
    return f"federation: {exchange} -> {part}"


def internal_exchange(here: Place, max_hops: int) -> dict[str, object]:
    """Arguments of the exchange at the upstream that a link's bindings lead to."""
    return {
        MAX_HOPS: Int64(max_hops),
        DOWNSTREAM_NAME: here.cluster,
        DOWNSTREAM_VHOST: here.vhost,
        DOWNSTREAM_ID: here.cluster_id,
    }
