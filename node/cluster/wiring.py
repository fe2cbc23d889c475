"""The parts that make a node a member of its cluster, put together in the order of its start.

    parts = ClusterParts(cluster, keyed, snapshots, wal, call_later, streams)  # reads definitions
    Broker(..., parts, ...)            # calls `wire` at the end of its construction
    wal.open(Recovered(..., parts))    # what is found of log groups (`GroupsFound`)
    parts.join(first)                  # groups begin, links are dialed
    parts.serve()                      # clients may come
    await parts.stop()

No rules: who does what is in the modules that are named here. `tick` is called once a second.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from node.clock import monotonic_ms
from node.cluster.cluster_interfaces import ADDRESSES, EVENTS, LEADERS, QUEUES, USAGE
from node.cluster.cluster_node import Cluster
from node.cluster.coordination.coordination_interface import Coordination
from node.cluster.definitions.definitions_group import DefinitionsGroup
from node.cluster.definitions.definitions_store import (
    BIRTHS_OWNER,
    SAVE_ENTRIES,
    Births,
    DefinitionsRecovery,
    DefinitionsStore,
)
from node.cluster.definitions.group_user import DefinedNode, GroupUser
from node.cluster.membership.member_changes import Refused
from node.cluster.peering.peer_record import PeerStatus
from node.cluster.queues.deleted_streams import DeletedStreams
from node.cluster.queues.group_exits import GroupExits
from node.cluster.queues.healing import Healing
from node.cluster.queues.leader_table import Leaders
from node.cluster.queues.log_groups import RaftGroups
from node.cluster.queues.mirror_losses import MirrorLosses
from node.cluster.queues.mirror_proposals import TICK_S as MIRRORS_TICK_S
from node.cluster.queues.mirror_proposals import MirrorProposals
from node.cluster.queues.places import ClusterPlaces
from node.cluster.queues.queues_channel import TICK_MS, QueuesChannel
from node.cluster.queues.quorum_channel import QuorumQueues
from node.cluster.queues.reconciling import IDLE_MS, rules_of
from node.cluster.queues.recovering import Recovered, Recovering
from node.cluster.queues.traffic_channel import TrafficChannel, TrafficParts
from node.cluster.services.addresses_channel import AddressesChannel
from node.cluster.services.cluster_services import Operating, ServiceParts
from node.cluster.services.events_channel import EventsChannel
from node.cluster.services.leader_hints import Guiding
from node.cluster.services.partition_rule import PartitionRule
from node.cluster.services.pausing import Pausing
from node.cluster.services.usage_channel import UsageChannel
from node.recovery.damage import LostDefinitions
from node.supervision import Repeating
from node.timers import CallLater
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.commands import Batch, Command
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.rows import BATCH_BYTES
from queues.placement.leader_traffic import Advice, Bounds
from queues.streams.storage import Disks
from raft.host import RaftHost
from raft.log_group import METADATA_OWNER
from warren.storage.keyed import Keyed
from warren.storage.recovery.damage import Hit
from warren.storage.recovery.recovery import RecoveryReport
from warren.storage.snapshot import SnapshotStore
from warren.storage.wal import Wal

if TYPE_CHECKING:
    from node.cluster.node_interface import Node

PAUSE_S: Final = 0.01  # between two looks at whether something is through


class LogFound(Protocol):
    """What the recovery of the log found of all owners (`node.recovery.log_owners.Recovered`)."""

    @property
    def last(self) -> Mapping[int, tuple[int, int]]: ...

    @property
    def owner_high(self) -> int: ...


class Wired(Struct, frozen=True):
    """The parts that the broker asks."""

    queues: QueuesChannel
    leaders: Leaders
    quorum: QuorumQueues
    coordination: Coordination
    whereis: ClusterPlaces
    peer_statuses: Callable[[], dict[str, PeerStatus]]
    operating: Operating
    events: EventsChannel


class ClusterParts:
    """See the module."""

    def __init__(
        self,
        cluster: Cluster,
        keyed: Keyed,
        snapshots: SnapshotStore,
        wal: Wal,
        call_later: CallLater,
        streams: Disks,
        save: tuple[int, int] = (SAVE_ENTRIES, BATCH_BYTES),
    ) -> None:
        """`save`: after how many entries the definitions are saved, and bytes of a batch of rows.

        BadSnapshot, KeyedDamaged: the definitions on disk cannot be read.
        """
        self._call_later = call_later
        births = Births(wal)
        self._cluster = cluster
        self._recovery = DefinitionsRecovery(keyed, snapshots, births)
        self._store = DefinitionsStore(keyed, snapshots, births, *save)
        self._broker: Node
        self._queues: QueuesChannel
        self._quorum: QuorumQueues
        self._deleted_streams: DeletedStreams
        self._is_adopted = False
        self._hits: Sequence[Hit] = ()  # bad places of the log
        self._lost_uid = 0  # the highest that may be of a lost definition; 0: none is lost
        self._last: Mapping[int, tuple[int, int]] = {}  # message_seq and mark, by owner
        self._snapshots = snapshots
        self._wal = wal
        self._streams = streams
        self._guiding: Guiding
        self._operating: Operating
        self._exits: GroupExits
        self._events: EventsChannel
        self.usage = UsageChannel(cluster)
        self._addresses: AddressesChannel
        self._mirrors: MirrorProposals
        self._healing: Healing
        self._pausing: Pausing
        self._queues_ticks: Repeating | None = None
        self._mirrors_ticks: Repeating | None = None
        self.definitions: DefinitionsGroup

    @property
    def machine(self) -> Metadata:
        """The definitions as they were saved last."""
        return self._recovery.machine

    # What the log has (`node.recovery.log_owners.GroupsFound`)

    def entry(self, owner: int, index: int, content: bytes) -> bool:
        """Whether it was a record of a group of several members that is none of its log."""
        if owner != BIRTHS_OWNER:
            return False
        self._recovery.birth(index, content)
        return True

    def raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        if owner == METADATA_OWNER:
            self._recovery.raft_entry(incarnation, index, term, appended_term, kind, content)
        else:
            found = self._quorum.found
            found.raft_entry(owner, incarnation, index, term, appended_term, kind, content)

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        if owner == METADATA_OWNER:
            self._recovery.hard_state(incarnation, term, vote)
        else:
            self._quorum.found.hard_state(owner, incarnation, term, vote)

    def has_member(self, owner: int) -> bool:
        if not self._is_adopted:
            self._is_adopted = True
            self._quorum.adopt(self._recovery.queue)  # Births were replayed before.
        return self._quorum.found.knows(owner)

    def is_founding(self, queue: Queue) -> bool:
        return self._quorum.is_founding(queue)

    def saved_index(self, owner: int) -> int:
        if owner == METADATA_OWNER:
            return int(self.machine.applied_index)
        return self._quorum.found.saved_index(owner)

    def accepted_file_id(self, owner: int) -> int:
        return self._recovery.accepted_file_id if owner == METADATA_OWNER else 0

    def accept_lost(self) -> None:
        """Note, durably, that the operator accepts what `lost` has named, for later starts."""
        self._recovery.accept_files(self._wal.active_file_id - 1)

    def queue(self, uid: int) -> Queue | None:
        return self._recovery.queue(uid)

    def lost(self, report: RecoveryReport, found: LogFound) -> str:
        """What is wrong with the group of the definitions on this node; '': nothing."""
        self._hits = report.hits
        self._last = found.last
        for hit in report.hits:
            if hit.owner != METADATA_OWNER or hit.lost_upto < 0:
                continue
            if len(self._cluster.members()) > 1:
                return (
                    f"{hit.place}: what this member of the cluster has promised may be lost; begin "
                    "with an empty data directory, and the cluster takes the node in"
                )
            self._lost_uid = found.owner_high
            return f"definitions may be missing; {hit.place}"
        missing = self._recovery.missing_index(self._cluster.founding())
        if missing == 0:
            return ""
        self._lost_uid = found.owner_high
        where = "; ".join(str(place) for place in report.corrupt)
        where = where or "the log is sound, so the keyed state does not have all that was saved"
        return f"entry {missing} of the definitions is missing; {where}"

    def pass_lost(self) -> None:
        """The definitions are complete but for those that are lost: their uids are not given to
        other objects, for the log may have messages under them."""
        if self._lost_uid:
            self.machine.next_uid = max(self.machine.next_uid, self._lost_uid + 1)

    # Starting

    @property
    def member(self) -> int:
        """Id of this node."""
        return self._cluster.member

    @property
    def raft(self) -> RaftHost:
        return self._cluster.raft

    def wire(self, broker: DefinedNode) -> "Wired":
        """Make the parts for a broker that has all but them."""
        cluster = self._cluster
        turn = broker.turn
        self._broker = broker
        user = GroupUser(broker)
        section = broker.config.cluster
        self.definitions = DefinitionsGroup(
            cluster,
            user,
            self._store,
            monotonic_ms,
            section.process_grace_ms,
            section.change_timeout_ms,
        )
        self.definitions.attach()
        queues, leaders = wire_queues(broker, cluster, self.definitions)
        self._queues = turn.away = queues
        self._leaders = leaders
        cluster.on_refuses = queues.peer_refuses
        propose = self.definitions.propose
        self._deleted_streams = DeletedStreams(
            self._streams.store, broker.metadata, propose, lambda: self.definitions.is_leader
        )
        quorum = QuorumQueues(
            broker,
            cluster,
            leaders,
            queues.peer_route,
            queues,
            self._snapshots,
            self._wal,
            self._streams,
            self._deleted_streams.look,
        )
        queues.find_end = quorum.find_end
        queues.movers = quorum.mirrors
        queues.roams = quorum.quorum_proxies
        self.definitions.on_process.append(quorum.process_changed)
        self._quorum = quorum
        self._guiding = Guiding(
            broker, cluster, self.definitions, leaders, quorum.quorum, self._call_later
        )
        self._guiding.attach()
        self._operate(leaders)
        return Wired(
            queues,
            leaders,
            quorum,
            self._guiding.coordination,
            self._guiding.places,
            self._guiding.statuses,
            self._operating,
            self._events,
        )

    def _operate(self, leaders: Leaders) -> None:
        """What operators do; the last of the parts, for it asks all of them."""
        broker, definitions = self._broker, self.definitions
        service_parts = ServiceParts(
            self._cluster,
            definitions,
            leaders,
            RaftGroups(self._cluster.raft),
            self._guiding.coordination,
            lambda: definitions.is_leader,
        )
        later = self._call_later
        self._operating = Operating(broker, service_parts, later, rules_of(broker.config), Random())
        self._operating.attach()
        self._events = EventsChannel(
            self._cluster, broker.events, broker.identity.incarnation, later
        )
        self._cluster.attach(EVENTS, self._events)
        leaders.on_lead = broker.observers.leads
        self._operating.removal = self._cluster
        self._operating.definitions_lags = lambda: definitions.status().lags
        member, status = self._cluster.member, self._operating.status
        self._exits = GroupExits(member, self._quorum, leaders, status)
        self._cluster.attach(USAGE, self.usage)
        self._addresses = AddressesChannel(self._cluster, broker.addresses)
        self._cluster.attach(ADDRESSES, self._addresses)
        operating = self._operating
        recovering = Recovering(
            operating.membership, operating.groups, leaders, status, DefinitionsAlone(self._cluster)
        )
        self._healing = Healing(
            self._quorum, operating.cluster_snapshot, operating.membership, recovering
        )
        recovering.on_recovered = self._recovered
        operating.recovering = recovering
        self._follow_traffic()
        self._propose_mirrors()
        self._pausing = self._make_pausing()

    def _make_pausing(self) -> Pausing:
        section = self._broker.config.cluster
        rule = PartitionRule(section.partition_handling, section.pause_if_all_down.nodes)
        name_of = self._operating.cluster_snapshot.name_of
        return Pausing(rule, self._cluster, self._broker, self._queues.is_down, name_of)

    def _propose_mirrors(self) -> None:
        """Mirrored queues get the views that policies and lost nodes ask for."""
        quorum, operating = self._quorum, self._operating
        losses = MirrorLosses(operating.status, quorum.mirrors, self._broker.events)
        self._mirrors = MirrorProposals(
            operating.membership,
            quorum.mirrors,
            operating.status,
            lambda: self.definitions.is_leader,
            quorum.is_damaged,
            self._broker.config.compat != "3.x",
            losses,
        )
        quorum.mirrors.on_lost = losses.promoted
        quorum.mirrors.on_changed = self._mirrors.look_at
        operating.placing.first_mirrors = self._mirrors.first_view
        operating.mirrors = self._mirrors

    def _follow_traffic(self) -> None:
        """Leaders go to where their clients are."""
        operating, broker = self._operating, self._broker
        section = broker.config.quorum_queue.leader_follows_traffic
        service_parts = TrafficParts(
            operating.membership,
            operating.groups,
            self._guiding.coordination,
            lambda: self.definitions.leader,
            operating.is_in_alarm,
            operating.status,
            self._advised,
        )
        bounds = Bounds(section.share, section.time, section.transfers_max)
        operating.traffic = TrafficChannel(service_parts, self._quorum, bounds)
        operating.reconciling.idle = operating.traffic.idle
        operating.reconciling.idle_after_ms = max(IDLE_MS, 2 * section.time)

    def _advised(self, queue: Queue, node: str, advice: Advice) -> None:
        self._broker.events.tell(
            "queue.leader.advised",
            name=queue.name,
            vhost=queue.vhost,
            node=node,
            share_percent=advice.share_percent,
        )

    def _recovered(self, done: Recovered) -> None:
        self._broker.events.tell(
            "queue.recovered",
            name=done.name,
            vhost=done.vhost,
            node=done.node,
            lost=list(done.lost),
        )

    def join(self, first: Callable[[], Sequence[Command]]) -> None:
        """All is recovered. `first`: what a new cluster begins with beside its members.

        LostDefinitions: what was found of the group of the definitions is no log.
        """
        cluster = self._cluster
        definitions = self.definitions
        definitions.found = lambda: Batch((cluster.found(), *first()))
        try:
            restored = self._recovery.restored(cluster.founding())
        except ValueError as error:
            raise LostDefinitions(f"the log of the definitions makes no sense: {error}") from error
        definitions.join(cluster.raft, restored)
        self._quorum.adopt(self._recovery.queue)
        self._quorum.join(self._hits, self._last)
        cluster.begin(definitions)

    def serve(self) -> None:
        """Clients may come from now on."""
        self._broker.turn.begin()
        self.definitions.serve()
        self._queues.open()
        self._guiding.start()
        self._cluster.raft.when_trusted(self._quorum.watch_processes)
        self._tick_queues()
        seconds = TICK_MS / 1000
        self._queues_ticks = Repeating(
            "queues of the cluster", seconds, self._tick_queues, self._call_later
        )
        self._mirrors_ticks = Repeating(
            "mirrored queues", MIRRORS_TICK_S, self._tick_mirrors, self._call_later
        )

    # While it runs

    def _tick_queues(self) -> None:
        self._queues.tick()
        self._quorum.watch_processes()
        self._leaders.tick()
        self.usage.tell(self._broker.client_limits.usage())
        self._addresses.tick()

    def _tick_mirrors(self) -> None:
        self._mirrors.tick(monotonic_ms())
        if self._mirrors_ticks is not None:
            self._mirrors_ticks.every(self._mirrors.tick_s)

    def tick(self) -> None:
        """About once a second."""
        self._queues.tell_counts()
        self._operating.tick(monotonic_ms())
        self._quorum.tick()
        self._deleted_streams.tick()
        self._exits.tick()
        self._healing.tick()
        self._pausing.tick()

    # Stopping

    async def stop(self, seconds: float) -> None:
        """Have others lead and save the definitions, each no longer than this; end the links."""
        self._operating.stop()
        self._exits.stop()
        self._events.stop()
        self._healing.stop()
        self._guiding.stop()
        await until(lambda: self._quorum.end_waits() == 0, seconds)
        hand_over = self._cluster.raft.hand_over
        await until(lambda: self._mirrors.hand_over() + hand_over() == 0, seconds)
        self._mirrors.stop()
        self.definitions.save()
        await until(lambda: not self.definitions.is_saving, seconds)
        if self._queues_ticks is not None:
            self._queues_ticks.stop()
        if self._mirrors_ticks is not None:
            self._mirrors_ticks.stop()
        await self._cluster.close()
        self._broker.turn.groups = None  # The log ends here.


def wire_queues(
    broker: "Node", peers: Cluster, definitions: DefinitionsGroup
) -> tuple[QueuesChannel, Leaders]:
    """Make the channel for queues and the table of leaders, for a broker without `queues` so far.

    The caller calls `open` before the first turn, and `tick`."""
    down_ms = broker.config.cluster.home_down_ms
    credit = broker.channel_credit
    channel = QueuesChannel(
        peers,
        lambda uid: broker.queues.host_for_stub(uid),
        lambda: broker.queues.forget_lookups(),
        broker.turn.begin,
        broker.monotonic_ms,
        credit,
        down_ms,
    )
    leaders = Leaders(peers, channel, lambda uid: broker.queues.home_of_classic(uid))
    peers.attach(QUEUES, channel)
    peers.attach(LEADERS, leaders)
    definitions.on_changed.append(lambda before, after: broker.queues.forget_lookups())
    return channel, leaders


class DefinitionsAlone:
    """Keeps `node.cluster.queues.recovering.Alone`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def leader(self) -> int:
        group = self._cluster.raft.group(METADATA_OWNER)
        return 0 if group is None else int(group.raft.leader)

    def cut_off(self, members: Sequence[int]) -> None:
        for member in members:
            self._cluster.links.remove_peer(member)

    def stand_alone(self, term: int) -> None:
        raft = self._cluster.raft
        group = raft.group(METADATA_OWNER)
        if group is None or not raft.renew(METADATA_OWNER, int(group.incarnation), term):
            raise Refused("a snapshot of the definitions is being installed; try again")


async def until(reached: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so, but no longer than this."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + seconds
    while not reached() and loop.time() < deadline_s:
        await asyncio.sleep(PAUSE_S)
