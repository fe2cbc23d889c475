"""Who serves a queue and where, as both management interfaces tell it. Pure."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from node.cluster.services.whereis import RUNNING, Place, WhereIs


class TopologyMember(Struct, frozen=True, kw_only=True):
    """One node that has the queue."""

    node: str
    role: str = "leader"  # or follower
    state: str = RUNNING  # or down
    match_lag: int | None = None  # entries that it has still to get; None: not known here
    endpoints: tuple[str, ...] = ()
    zone: str | None = None


class Topology(Struct, frozen=True, kw_only=True):
    """`suggestions`: where else to connect, the best first, so as to be at the leader."""

    leader: str | None
    leader_epoch: int
    state: str
    local: bool
    members: tuple[TopologyMember, ...]
    suggestions: tuple[str, ...] = ()


def topology_of(
    place: Place, whereis: WhereIs, urls_of: Callable[[str], Sequence[str]]
) -> Topology:
    """`urls_of`: of a node's AMQP listener, by its name."""
    leader = place.leader
    local = leader == whereis.here
    return Topology(
        leader=leader,
        leader_epoch=place.epoch,
        state=place.state,
        local=local,
        members=tuple(_member(name, place, whereis, urls_of) for name in place.replicas),
        suggestions=() if local or leader is None else tuple(urls_of(leader)),
    )


def _member(
    name: str, place: Place, whereis: WhereIs, urls_of: Callable[[str], Sequence[str]]
) -> TopologyMember:
    node = whereis.node(name)
    return TopologyMember(
        node=name,
        role="leader" if name == place.leader else "follower",
        state=RUNNING if node is not None and node.is_running else "down",
        match_lag=place.lags.get(name),
        endpoints=tuple(urls_of(name)),
        zone=None if node is None else node.zone,
    )
