"""The cluster and its quorum queues as plans need them: nodes with their load, groups with leaders.

Takes the definitions, the members of the cluster, whom the failure detector trusts, and who leads
what; gives the values of `queues.placement.queue_placement` and `queues.placement.regrouping`.
Reads only, with no request: a
leader that this node has not heard of is 0. What a look costs grows with the number of queues, so
`candidates` counts only on request. No I/O.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Queue
from queues.definitions.members import Member
from queues.definitions.metadata.machine import Metadata
from queues.definitions.policies import with_policy
from queues.definitions.queue_arguments import QUORUM, queue_type
from queues.placement.queue_placement import Candidate
from queues.placement.regrouping import GroupView

Leader = tuple[int, int]  # member id and term
Chosen = Callable[[Queue], bool]

PLACEMENT_TAG: Final = "x-member-placement-tag"
GONE: Final = "gone"  # what a member is called that is in no list any more


class MetadataSource(Protocol):
    """Who has the definitions (`node.broker.Broker`)."""

    @property
    def metadata(self) -> Metadata: ...


class LeaderTable(Protocol):
    """Who leads what, as far as this node knows."""

    def leader_of(self, uid: int) -> Leader | None: ...


class Membership(Protocol):
    """Who is in the cluster (`node.cluster.definitions.definitions_interface.Definitions`)."""

    def members(self) -> list[Member]: ...

    def member_named(self, name: str) -> Member | None: ...


class Trust(Protocol):
    """Who is alive (`node.cluster.cluster_interfaces.Peers`)."""

    @property
    def member(self) -> int: ...

    def is_trusted(self, member: int) -> bool: ...

    def is_connected(self, member: int) -> bool: ...


class ClusterSnapshot:
    """See the module."""

    def __init__(
        self,
        source: MetadataSource,
        membership: Membership,
        peers: Trust,
        leaders: LeaderTable,
    ) -> None:
        self._source = source
        self._membership = membership
        self._peers = peers
        self._leaders = leaders

    @property
    def metadata(self) -> Metadata:
        """The definitions that are applied here."""
        return self._source.metadata

    # Nodes

    @property
    def here(self) -> int:
        return self._peers.member

    def members(self) -> list[Member]:
        """The nodes that have taken their place."""
        return [each for each in self._membership.members() if each.name]

    def member_named(self, name: str) -> Member | None:
        return self._membership.member_named(name)

    def name_of(self, member: int) -> str:
        """Of a node; of one that is no member any more, its number."""
        found = next((each.name for each in self.members() if each.id == member), "")
        return found or f"{GONE}@{member}"

    def is_running(self, member: int) -> bool:
        return member == self._peers.member or self._peers.is_trusted(member)

    def has_link(self, member: int) -> bool:
        """Whether a connection to the node stands, even if the node does not answer."""
        return member == self._peers.member or self._peers.is_connected(member)

    def candidates(self, counted: bool = False) -> list[Candidate]:
        """All nodes; with how much each of them bears, if that is wanted."""
        held: dict[int, int] = {}
        led: dict[int, int] = {}
        if counted:
            self._count(held, led)
        return [
            Candidate(each, self.is_running(each.id), held.get(each.id, 0), led.get(each.id, 0))
            for each in self.members()
        ]

    def _count(self, held: dict[int, int], led: dict[int, int]) -> None:
        ids = {each.name: each.id for each in self.members()}
        for queue in self.queues():
            for member in queue.holders:
                held[member] = held.get(member, 0) + 1
            leader = self.leader_of(queue) if queue.holders else 0
            leader = leader or ids.get(queue.node, 0)
            led[leader] = led.get(leader, 0) + 1

    # Queues

    def queues(self) -> Iterator[Queue]:
        for vhost in self.metadata.vhosts.values():
            yield from vhost.queues.values()

    @property
    def queue_count(self) -> int:
        return self.metadata.queue_count

    def leader_of(self, queue: Queue) -> int:
        """0: none that this node has heard of."""
        found = self._leaders.leader_of(queue.uid)
        return 0 if found is None else found[0]

    def is_led_by(self, uid: int, member: int) -> bool:
        """Whether that is what this node has heard of a queue, or of another group."""
        found = self._leaders.leader_of(uid)
        return found is not None and found[0] == member

    def group(self, queue: Queue) -> GroupView:
        """The quorum queue as it is. On a node in no cluster it has that node as its one member."""
        members = queue.members or (self.here,)
        online = frozenset(each for each in members if self.is_running(each))
        leader = self.leader_of(queue)
        return GroupView(queue.uid, queue.vhost, queue.name, members, online, leader)

    def arguments_of(self, queue: Queue) -> Mapping[str, object]:
        """Of a quorum queue or a stream, with those that its policy adds."""
        vhost = self.metadata.vhosts.get(queue.vhost)
        declared = decode_arguments(queue.arguments)
        policy: Mapping[str, object] = {}
        if vhost is not None:
            policy = vhost.policies.effective(queue_type(declared), queue.name).definition
        return with_policy(declared, policy)

    def groups(self, chosen: Chosen | None = None) -> list[GroupView]:
        """All quorum queues, or those that are chosen."""
        return [
            self.group(queue)
            for queue in self.queues()
            if is_quorum(queue) and (chosen is None or chosen(queue))
        ]


def placement_tag(arguments: Mapping[str, object]) -> str:
    """The tag of nodes that members of the queue are spread over; "": none was named."""
    found = arguments.get(PLACEMENT_TAG)
    return found if isinstance(found, str) else ""


def is_quorum(queue: Queue) -> bool:
    """By its members, or, on a node in no cluster, by its arguments."""
    if queue.members:
        return True
    return bool(queue.arguments) and queue_type(decode_arguments(queue.arguments)) == QUORUM
