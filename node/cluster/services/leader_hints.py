"""What tells clients where leaders are, and nodes who does what, put together for a member.

    guiding = Guiding(broker, cluster, definitions, leaders, member_of, loop.call_later)
    guiding.attach()      # before the links begin: takes frames of kind COORDINATION
    guiding.start()       # once the broker serves: coordination begins to tick
    guiding.stop()

Makes the `WhereIs` and the `Coordination` of the broker. Coordination, and the library that it
needs, exist only where other nodes can connect. Owns no state but what it counts to tell the load
of this node.
"""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from node.cluster.cluster_interfaces import COORDINATION, Peers
from node.cluster.coordination.coordination_interface import Coordination, Load, NoCoordination
from node.cluster.definitions.definitions_interface import Definitions
from node.cluster.peering.peer_record import PeerStatus
from node.cluster.queues.places import ClusterPlaces, LeaderTable
from queues.definitions.members import Member

if TYPE_CHECKING:
    from node.cluster.coordination.coordinator import Coordinator, Membership
    from node.cluster.node_interface import Node
    from node.config.settings import ListenersSection
    from queues.hosts.quorum_member import QuorumMember

LOOKUP: Final = "leader_lookup_url"  # of connection.start
LOOKUP_URL: Final = "{}://{}/api/queues/{{vhost}}/{{queue}}/topology"

CallLater = Callable[[float, Callable[[], None]], object]


class LinkStatus(Protocol):
    """`node.cluster.peering.peer_links.PeerLinks`, as far as it is asked here."""

    def status(self, member: int) -> PeerStatus | None: ...


class LinkedPeers(Peers, Protocol):
    """`node.cluster.cluster_node.Cluster`."""

    @property
    def links(self) -> LinkStatus: ...


class CountedLeaders(LeaderTable, Protocol):
    """`node.cluster.queues.leader_table.Leaders`."""

    def led_here(self) -> Mapping[int, int]:
        """Groups that this node leads."""


def lookup_url(listeners: "ListenersSection") -> str:
    """Where leaders are looked up; '': at no address that could be told."""
    scheme, listener = "http", listeners.management
    if not listeners.plain:
        if listeners.management_tls is None:
            return ""
        scheme, listener = "https", listeners.management_tls
    address = listeners.management_advertised or listener
    is_told = not address.is_wildcard and address.port
    return LOOKUP_URL.format(scheme, address) if is_told else ""


class Guiding:
    """See the module."""

    def __init__(
        self,
        broker: "Node",
        peers: LinkedPeers,
        definitions: Definitions,
        leaders: CountedLeaders,
        member_of: Callable[[int], "QuorumMember | None"],
        call_later: CallLater,
    ) -> None:
        """`member_of`: this node's member of a quorum queue, by uid."""
        self._member_of = member_of
        self._broker = broker
        self._peers = peers
        self._definitions = definitions
        self._leaders = leaders
        self._messages = 0  # so far, when the load was sent last
        self._told_s = monotonic()
        self.coordinator: Coordinator | None = None
        self.coordination: Coordination = NoCoordination()
        if broker.config.cluster.coordination and broker.config.listeners.cluster is not None:
            self.coordination = self.coordinator = self._coordinator(call_later)
        self.places = ClusterPlaces(
            broker.node_name,
            peers,
            leaders,
            definitions.members,
            lambda uid: broker.metadata.queue(uid),
            self._lags,
            self.coordination.loads,
        )
        definitions.on_changed.append(self._member_changed)
        url = lookup_url(broker.config.listeners)
        if url:
            broker.server_properties[LOOKUP] = url

    def _coordinator(self, call_later: CallLater) -> "Coordinator":
        from node.cluster.coordination.coordinator import Coordinator

        return Coordinator(self._peers, self._membership, self._load, monotonic, call_later)

    def attach(self) -> None:
        if self.coordinator is not None:
            self._peers.attach(COORDINATION, self.coordinator)

    def start(self) -> None:
        if self.coordinator is not None:
            self.coordinator.start()

    def stop(self) -> None:
        if self.coordinator is not None:
            self.coordinator.stop()

    def _member_changed(self, before: Member | None, after: Member | None) -> None:
        self.places.nodes_changed()

    def statuses(self) -> dict[str, PeerStatus]:
        """Of the links to the other nodes, by name."""
        found = {}
        for each in self._definitions.members():
            status = self._peers.links.status(each.id)
            if status is not None and each.name:
                found[each.name] = status
        return found

    def _lags(self, uid: int) -> Mapping[int, int]:
        """How far the members of a queue that is led here are behind it; else nothing is known."""
        host = self._member_of(uid)
        status = None if host is None else host.status()
        if status is None or not status.members:
            return {}
        lags = {each.member: status.last_index - each.match_index for each in status.members}
        return lags | {status.member: 0}

    def _membership(self) -> "Membership":
        """This node takes part once the definitions know its process: the one before has voted."""
        definitions, broker = self._definitions, self._broker
        members = [each.id for each in definitions.members() if each.name]
        if definitions.process_of(broker.node_name) != broker.identity.incarnation:
            members = [each for each in members if each != self._peers.member]
        return definitions.membership_index, tuple(members)

    def _load(self) -> Load:
        broker = self._broker
        counts = (broker.counts, broker.counts10)
        messages = sum(
            int(each.received + each.delivered + each.delivered_no_ack) for each in counts
        )
        now_s = monotonic()
        rate = (messages - self._messages) / max(0.001, now_s - self._told_s)
        self._messages, self._told_s = messages, now_s
        me = self._definitions.member_named(broker.node_name)
        return Load(
            len(self._leaders.led_here()),
            len(broker.connections.open),
            max(0, int(rate)),
            me is not None and me.draining,
        )
