"""What operators and the API need of a cluster, put together: see the modules that it imports.

    seats = ServiceParts(cluster, definitions, leaders, RaftGroups(raft), coordination,
    leads_definitions)
    operating = Operating(broker, seats, loop.call_later, rules_of(config), Random())
    operating.attach()              # before links begin
    ...
    operating.tick(now_ms)          # about once a second, by a clock that does not jump

Owns no task but those of its parts; `stop` ends them.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from node.cluster.cluster_interfaces import ALARMS, STATUS, Peers
from node.cluster.coordination.coordination_interface import Coordination
from node.cluster.membership.leaving import Leaving, Removal
from node.cluster.membership.member_changes import Definitions, Membership
from node.cluster.queues.cluster_snapshot import ClusterSnapshot, LeaderTable
from node.cluster.queues.log_groups import Groups
from node.cluster.queues.placing import Placing
from node.cluster.queues.reconciling import Reconciling, Rules
from node.cluster.services.alarms_channel import AlarmsChannel
from node.cluster.services.maintenance import Clients, Door, Maintenance, MaintenanceRequests
from node.cluster.services.status_channel import StatusChannel
from node.resources.alarms import Alarms
from node.timers import CallLater
from queues.definitions.broker_objects import MirrorView, Queue
from queues.definitions.metadata.machine import Metadata
from queues.definitions.mirror_policy import mirror_policy
from queues.definitions.queue_arguments import QUORUM, STREAM
from warren.storage.disk import Disk

if TYPE_CHECKING:
    from node.cluster.queues.mirror_proposals import MirrorProposals
    from node.cluster.queues.recovering import Recovering
    from node.cluster.queues.traffic_channel import TrafficChannel
    from node.management.rows.view import QueueView


DOWN: Final = "down"  # states of queues, in RabbitMQ's words
MINORITY: Final = "minority"
CRASHED: Final = "crashed"


class ServiceParts(Struct, frozen=True):
    """What the parts stand on; one value for each seam."""

    peers: Peers
    definitions: Definitions
    leaders: LeaderTable
    groups: Groups
    coordination: Coordination
    leads_definitions: Callable[[], bool]


class Site(Clients, Protocol):
    """The broker of this node, as far as it is needed here."""

    @property
    def node_name(self) -> str: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def alarms(self) -> Alarms: ...


class Operating:
    """See the module."""

    def __init__(
        self,
        broker: Site,
        service_parts: ServiceParts,
        call_later: CallLater,
        rules: Rules,
        random: Random,
    ) -> None:
        self.peers = service_parts.peers
        self.groups = service_parts.groups
        self.cluster_snapshot = ClusterSnapshot(
            broker, service_parts.definitions, service_parts.peers, service_parts.leaders
        )
        self.status = StatusChannel(service_parts.peers)
        self.alarms = AlarmsChannel(service_parts.peers, broker.alarms, call_later)
        self.placing = Placing(self.cluster_snapshot, random, rules.locator, rules.group_size)
        self.membership = Membership(
            self.cluster_snapshot,
            service_parts.definitions,
            service_parts.groups,
            self.status,
            random,
        )
        self.reconciling = Reconciling(
            self.membership,
            service_parts.groups,
            service_parts.coordination,
            service_parts.leads_definitions,
            rules,
            random,
        )
        self._broker = broker
        self.maintenance: MaintenanceRequests | None = None  # once there is a door for clients
        self.definitions_lags: Callable[[], Mapping[int, int]] = dict  # entries, by other member
        self.removal: Removal | None = None  # of a node in a cluster
        self.leaving: Leaving | None = None  # once it is known how the process ends
        self.recovering: Recovering | None = None  # of a node in a cluster
        self.traffic: TrafficChannel | None = None  # the same
        self.mirrors: MirrorProposals | None = None  # the same

    def is_in_alarm(self, member: int) -> bool:
        """Whether that node has told an alarm of its memory or disk."""
        if member == self.peers.member:
            return self._broker.alarms.memory or self._broker.alarms.disk
        return member in self.alarms.by_member()

    def attach(self) -> None:
        """Take the kinds of frames that are for these parts, and tell the alarms of this node."""
        self.peers.attach(ALARMS, self.alarms)
        self.peers.attach(STATUS, self.status)
        self._broker.alarms.on_local = self.alarms.tell

    def open_to(self, door: Door) -> None:
        """Clients come in there: the node can be drained."""
        maintenance = Maintenance(self.membership, door, self._broker)
        self.maintenance = MaintenanceRequests(maintenance, self.membership, self.status)

    def stop_by(self, stop: Callable[[], None], disk: Disk, directory: str) -> None:
        """That is how the process is ended in good order: the node can be reset."""
        self.leaving = Leaving(self.membership, self.status, disk, directory, stop, self.removal)

    # What listings ask

    @property
    def oldest_node(self) -> str:
        """Name of the member with the lowest id; "": none is known so far."""
        members = self.cluster_snapshot.members()
        return members[0].name if members else ""

    def leader_of(self, vhost: str, name: str) -> int:
        """Who leads the queue, or where it lives; 0: none is known."""
        found = self.cluster_snapshot.metadata.vhosts.get(vhost)
        queue = None if found is None else found.queues.get(name)
        return 0 if queue is None else self._led_by(queue)

    def is_led_here(self, uid: int) -> bool:
        """Whether the queue lives here, or is led from here."""
        queue = self.cluster_snapshot.metadata.queue(uid)
        return queue is not None and self._led_by(queue) == self.cluster_snapshot.here

    def leader_elsewhere(self, uid: int) -> int:
        """The other node that has or leads the queue; 0: this one, or none that is known."""
        queue = self.cluster_snapshot.metadata.queue(uid)
        leader = 0 if queue is None else self._led_by(queue)
        return 0 if leader == self.cluster_snapshot.here else leader

    def _led_by(self, queue: Queue) -> int:
        if queue.holders:
            return self.cluster_snapshot.leader_of(queue)
        home = self.cluster_snapshot.member_named(queue.node)
        return 0 if home is None else home.id

    def with_place(self, queue: Queue, view: "QueueView") -> "QueueView":
        """The listing of a queue with where it is, and whether a node serves it."""
        cluster_snapshot = self.cluster_snapshot
        if view.type in (QUORUM, STREAM):
            group = cluster_snapshot.group(queue)
            leader = cluster_snapshot.name_of(group.leader) if group.leader else ""
            state = view.state
            if state == CRASHED:
                pass  # Whichever node leads, an operator has to accept the damage first.
            elif not group.has_majority:
                state = MINORITY
            elif not leader:
                state = DOWN
            return replace(
                view,
                node=leader or queue.node,
                leader=leader,
                members=tuple(cluster_snapshot.name_of(each) for each in group.members),
                online=tuple(
                    cluster_snapshot.name_of(each) for each in group.members if each in group.online
                ),
                state=state,
            )
        if queue.mirrors is not None and queue.mirrors.members:
            return self._with_mirrors(queue, queue.mirrors, view)
        if queue.durable and not queue.exclusive and "ha-mode" in view.policy.definition:
            view = replace(view, is_mirrored=True)
        if self.is_counted(queue):
            return view
        reason = f"its node {queue.node} is not running"
        return replace(view, state=DOWN, reason=reason, counts_known=False)

    def is_counted(self, queue: Queue) -> bool:
        """Whether a running node knows what is in the queue. Members of a group all do."""
        if queue.mirrors is not None and queue.mirrors.members:
            return self.cluster_snapshot.leader_of(queue) != 0
        has_group = len(queue.holders) > 0
        return has_group or self.cluster_snapshot.is_running(self._led_by(queue))

    def _with_mirrors(self, queue: Queue, mirrors: MirrorView, view: "QueueView") -> "QueueView":
        """The same of a mirrored queue. `recoverable_mirrors`: those that could be promoted when
        their leader fails."""
        cluster_snapshot = self.cluster_snapshot
        name = cluster_snapshot.name_of
        found = cluster_snapshot.leader_of(queue)
        others = [each for each in mirrors.members[1:] if cluster_snapshot.is_running(each)]
        synchronised = [each for each in others if each in mirrors.synchronised]
        policy = mirror_policy(view.policy.definition, False)
        takes_partial = policy is None or policy.always_on_failure
        promotable = mirrors.synchronised + (mirrors.partial if takes_partial else ())
        state = view.state if found or view.state == CRASHED else DOWN
        reason = "" if found else f"its leader on node {name(mirrors.members[0])} is not running"
        return replace(
            view,
            node=name(found or mirrors.members[0]),
            mirrors=tuple(name(each) for each in others),
            synchronised_mirrors=tuple(name(each) for each in synchronised),
            recoverable_mirrors=tuple(name(each) for each in others if each in promotable),
            is_mirrored=len(mirrors.members) > 1 or "ha-mode" in view.policy.definition,
            state=state,
            reason=view.reason or reason,
            counts_known=view.counts_known and self.is_counted(queue),
        )

    def tick(self, now_ms: int) -> None:
        self.reconciling.tick(now_ms)
        if self.traffic is not None:
            self.traffic.tick(now_ms)

    def stop(self) -> None:
        self.reconciling.stop()
        if self.traffic is not None:
            self.traffic.stop()
