"""Exchange kind `x-federation-upstream`: a fanout that holds back what its downstream has seen.

A federation link declares such an exchange at the upstream (RabbitMQ's name and arguments). A
message goes on if it has passed fewer links than `x-max-hops`, and not the downstream cluster. Its
header `x-received-from` says where it was: tables {cluster-name, vhost, ...}, newest first; Warren
adds `cluster-id`, so that clusters of one name are distinct.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from queues.definitions.broker_objects import Binding
from queues.routing.content import Content
from queues.routing.fanout import Fanout

TYPE: Final = "x-federation-upstream"
RECEIVED_FROM: Final = "x-received-from"
MAX_HOPS: Final = "x-max-hops"
DOWNSTREAM_NAME: Final = "x-downstream-name"
DOWNSTREAM_VHOST: Final = "x-downstream-vhost"
DOWNSTREAM_ID: Final = "x-downstream-cluster-id"


class Place(Struct, frozen=True):
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


def exchange_fault(arguments: dict[str, object]) -> str | None:
    """Why there is no such exchange with these arguments."""
    found = arguments.get(MAX_HOPS)
    if isinstance(found, int) and not isinstance(found, bool):
        return None
    return f"invalid arg '{MAX_HOPS}' of an exchange of type '{TYPE}': a number is needed"


class FederationUpstream:
    """Keeps `queues.routing.kinds.Kind`."""

    per_message: Final = True
    by_key: Final = False

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self._all = Fanout()
        found = arguments.get(MAX_HOPS)
        self._max_hops = found if isinstance(found, int) else 1
        self._downstream = Place(
            str(arguments.get(DOWNSTREAM_NAME, "")),
            str(arguments.get(DOWNSTREAM_VHOST, "")),
            str(arguments.get(DOWNSTREAM_ID, "")),
        )

    def add(self, binding: Binding) -> str:
        return self._all.add(binding)

    def remove(self, binding: Binding) -> None:
        self._all.remove(binding)

    def match(self, key: bytes, content: Content, found: set[int]) -> None:
        if should_forward(content.headers(), self._max_hops, self._downstream):
            self._all.match(key, content, found)

    def is_empty(self) -> bool:
        return self._all.is_empty()
