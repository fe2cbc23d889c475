"""Where a federated message or binding has been: RabbitMQ's headers, names and rules against loops.

A message carries `x-received-from`, a list of tables {uri, exchange or queue, redelivered,
cluster-name, vhost}, newest first; a binding that was copied upstream carries the argument
`x-bound-from`, a list of {cluster-name, vhost, exchange, hops}. Warren adds `cluster-id`, so that
two clusters of one name are distinct.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

RECEIVED_FROM: Final = "x-received-from"
BOUND_FROM: Final = "x-bound-from"
SUFFIXES: Final = ("A", "B")


@dataclass(frozen=True, slots=True)
class Place:
    """A vhost of a cluster. `cluster_id` "": unknown, as with RabbitMQ."""

    cluster: str
    vhost: str
    cluster_id: str = ""


def entries(value: object) -> list[Mapping[str, object]]:
    """The tables of a header or argument; [] where it is no list of tables."""
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, dict)]


def was_there(place: Place, hops: Sequence[Mapping[str, object]]) -> bool:
    """Whether one of the hops is this place: by id where both have one, else by name."""
    for hop in hops:
        if hop.get("vhost") != place.vhost:
            continue
        known = hop.get("cluster-id")
        if place.cluster_id and isinstance(known, str) and known:
            if known == place.cluster_id:
                return True
        elif hop.get("cluster-name") == place.cluster:
            return True
    return False


def should_forward(headers: Mapping[str, object], max_hops: int, here: Place) -> bool:
    """Whether a message may come to this place."""
    hops = entries(headers.get(RECEIVED_FROM))
    return len(hops) < max_hops and not was_there(here, hops)


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
        "hops": hops,
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
