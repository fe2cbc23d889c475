"""Quorum queues on a node of a cluster: its members of their groups, and the way to their leaders.

    quorum = QuorumQueues(broker, cluster, leaders, ...)   # reads what the disk has of groups
    quorum.adopt(find)               # queues that the log knows and the definitions do not yet
    ...                              # the log tells: `found`, and bodies to the hosts
    quorum.join(hits)                # all was found: take part in the groups
    quorum.tick()                    # about once a second

A queue whose members name this node has a `QuorumMember` here, in a group of the queue's uid. It is
written down before it takes part (`birth`). Who is named when the queue is declared founds the
group; who is named later begins with nothing and learns from the others. A member that is named no
more leaves when the group has committed that.

Sessions of this node reach the queue by `host`, wherever its leader is
(`queues.remote.quorum_proxy`);
those of other nodes that come to its leader by `find_end`. Sessions of processes that are gone are
ended by the leader; those of processes that cannot be reached are suspended.

A member whose part of the log is damaged takes no part: the others have all that it had. It is
rebuilt (`node.cluster.queues.healing`), and has left when the group has committed that it is gone.

When the definitions say that the group has restarted with one member (0054), that member goes on
alone, and all others are over: they take no part from then on, and leave when that member, or who
leads after it, says that it has committed a configuration without them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from node.clock import monotonic_ms
from node.cluster.queues.group_member import GroupMember
from node.cluster.queues.mirrors import Mirrors
from node.cluster.queues.suspending import ENDED_MS, LedQueue, Suspending
from node.events.logs import ids_of
from node.recovery.damage import Damage, shown
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Queue
from queues.definitions.queue_arguments import STREAM, queue_type
from queues.definitions.queue_options import disconnected_timeout_ms
from queues.hosts.byte_counts import Traffic
from queues.hosts.classic import ClassicHost
from queues.hosts.classic_end import ClassicEnd
from queues.hosts.queue_core import QueueCore
from queues.hosts.quorum_member import SNAPSHOT_ENTRIES, QuorumMember
from queues.hosts.quorum_recovery import (
    INCARNATION,
    FoundGroup,
    FoundGroups,
    beginning,
    birth_of,
    incarnation_of,
)
from queues.placement.leader_traffic import OFF
from queues.queue_host import QueueHost
from queues.remote.quorum_proxy import QuorumProxies, QuorumProxy
from queues.remote.remote_interfaces import EndOfTurn, FindPeerRoute, HomeEnd
from queues.sessions.credit import QUEUE, CreditActor
from queues.streams.host import StreamHost
from queues.streams.member import StreamMember
from queues.streams.settings import StreamSettings, stream_settings
from queues.streams.storage import Disks
from raft.entries import INDEX_MAX, Config, HardState, SnapshotPoint
from raft.log_group import METADATA_OWNER, GroupLog, GroupOwner
from raft.recovery import Restored
from raft.status import Status
from warren.storage.recovery.damage import Hit
from warren.storage.streams.offloaded import SegmentStore

if TYPE_CHECKING:
    from node.cluster.cluster_node import Cluster
    from node.cluster.node_interface import Node
    from node.cluster.queues.leader_table import Leader, Leaders
    from warren.storage.snapshot import SnapshotStore

log = logging.getLogger("warren.cluster")


class QuorumQueues:
    """See the module. Invariant: a uid in `members` has its core in `broker.queues.hosts`."""

    def __init__(
        self,
        broker: "Node",
        cluster: "Cluster",
        leaders: "Leaders",
        find_peer_route: FindPeerRoute,
        turn: EndOfTurn,
        snapshots: "SnapshotStore",
        wal: GroupLog,
        streams: Disks,
        stream_deleted: Callable[[], None],
    ) -> None:
        """KeyedDamaged, ValueError: a snapshot of a group cannot be read."""
        self.members: dict[int, GroupMember] = {}
        self.stream_hosts: dict[int, StreamHost] = {}
        self.found = FoundGroups()  # of the start; later what is known of members that have left
        self.damaged: dict[int, str] = {}  # why they take no part; of some of the members
        self.over: set[int] = set()  # those whose group has restarted without them
        self._renewing: set[int] = set()  # those with which it is to start again, as soon as may be
        self.followed: dict[int, str] = {}  # queues whose leader goes where its traffic is: mode
        self.snapshot_entries = SNAPSHOT_ENTRIES
        self._broker = broker
        self._cluster = cluster
        self._leaders = leaders
        self._wal = wal
        patience_ms = broker.config.cluster.change_timeout_ms
        self.quorum_proxies = QuorumProxies(
            cluster.member, self.find_end, find_peer_route, turn, patience_ms
        )
        self._snapshots = snapshots
        self._streams = streams
        self._stream_deleted = stream_deleted
        self._proxies: dict[int, QuorumProxy] = {}
        self._watches: dict[int, Callable[[Leader | None], None]] = {}
        sync_bytes_per_s = broker.config.cluster.mirroring_sync_max_throughput
        self.mirrors = Mirrors(broker, cluster, self, sync_bytes_per_s)
        self._founding: list[int] = []  # queues that were about to get mirrors
        self._late: list[int] = []  # named by the definitions, and not on this disk
        self._unknown: list[int] = []  # the other way round
        self._is_joined = False
        self._crashed: dict[int, FoundGroup] = {}  # damaged ones that are the only member
        self._ends: dict[int, ClassicEnd] = {}  # of queues of this node that had mirrors
        self._suspending = Suspending((self.members, self._ends), self._is_known, self._patience_ms)
        self.quorum_proxies.on_unused = self._unused
        self._were_connected: set[int] = set()  # processes that had a connection to this one
        owners = [uid for uid in snapshots.owners if uid != METADATA_OWNER]
        self.found.begin(owners, snapshots.load_slices)

    # Definitions

    def add(self, queue: Queue) -> None:
        """The queue is declared, or was found in the definitions; this node is one of its
        members."""
        if queue.uid in self.members and queue.mirrors is not None:
            self.mirrors.begin(queue)
        elif queue.uid in self.members:
            self._settle(queue, self.members[queue.uid])
        elif queue.uid in self.found.groups and not self._is_joined:
            self._restore(queue)
        elif self.is_founding(queue) and not self._is_joined:
            self._founding.append(queue.uid)
            self._broker.queues.hosts.add(queue)
        elif queue.mirrors is not None and self._is_joined:
            self.mirrors.begin(queue)
        elif self._is_joined:
            is_new = queue.reborn_term == 0
            is_first = is_new and queue.members[0] == self._cluster.member
            self._begin(queue, Config(queue.members if is_new else ()), is_first)
        else:
            self._late.append(queue.uid)

    def changed(self, queue: Queue) -> None:
        """The definitions name other members."""
        if queue.mirrors is not None:
            self.mirrors.changed(queue)
            return
        self._leaders.expect(queue.uid, queue.reborn_term)
        member = self.members.get(queue.uid)
        if member is not None:
            self._settle(queue, member)
        elif self._cluster.member in queue.members:
            self._begin(queue, Config(()), False)

    def remove(self, queue: Queue) -> None:
        """The queue is deleted. Its core is deleted next."""
        if queue_type(decode_arguments(queue.arguments)) == STREAM:
            self._stream_deleted()
        stream_host = self.stream_hosts.pop(queue.uid, None)
        if stream_host is not None:
            stream_host.delete()
        proxy = self._proxies.pop(queue.uid, None)
        if proxy is not None:
            self._leaders.unwatch(queue.uid, self._watches.pop(queue.uid))
            self.quorum_proxies.remove(queue.uid)
        self._leaders.forget(queue.uid)
        self._renewing.discard(queue.uid)
        self._crashed.pop(queue.uid, None)
        self.followed.pop(queue.uid, None)
        self._ends.pop(queue.uid, None)
        if queue.uid in self.damaged or queue.uid in self.over:
            self.damaged.pop(queue.uid, None)
            self.over.discard(queue.uid)
            self._wal.release_log(queue.uid, INDEX_MAX)
        member = self.members.pop(queue.uid, None)
        if member is not None:
            if self._cluster.raft.group(queue.uid) is not None:
                self._cluster.raft.remove(queue.uid)
            member.leave()
            if self._cluster.member not in queue.holders:  # It had not left yet.
                self._broker.queues.hosts.remove(queue)

    # Queues that have no mirrors any more

    def forget_snapshots(self, uid: int, done: Callable[[], None]) -> None:
        """The member here becomes a queue of this node alone. `done` when it is durable that there
        is no member."""
        self._snapshots.forget(uid, done)

    def give_core(self, uid: int) -> None:
        """Remove the member, but not what it has of the queue: another host has that now."""
        member = self.members.pop(uid)
        self.followed.pop(uid, None)
        group = self._cluster.raft.group(uid)
        if group is not None:
            self.found.hard_state(uid, INCARNATION, group.raft.term, 0)
            self._cluster.raft.remove(uid)
        self._wal.release_log(uid, INDEX_MAX)
        member.leave()

    def serve_numbered(self, host: ClassicHost, term: int, has_restarted: bool) -> None:
        """Serve the queue of this node to sessions that used it when it had mirrors; if the node
        has restarted since, these are over."""
        uid = int(host.uid)
        end = self._ends[uid] = ClassicEnd(host, term)
        if has_restarted:
            end.end_all(self._broker.now_ms())
        self._leaders.lead(uid, term)
        self._suspending.led(end)

    def end_numbered(self, uid: int) -> None:
        """The queue gets mirrors again: these sessions find the leader of the ring."""
        if self._ends.pop(uid, None) is not None:
            self._leaders.unlead(uid)

    def earlier(self, uid: int) -> QuorumProxy | None:
        """The way to a queue that had mirrors, for as long as it is needed."""
        proxy = self._proxies.get(uid)
        if proxy is not None or uid not in self.members:
            return proxy
        queue = self._broker.metadata.queue(uid)  # It is still becoming a queue of this node.
        return None if queue is None else self.proxy(queue)

    def _unused(self, uid: int) -> None:
        """No session needs the proxy of a queue that had mirrors."""
        if self._proxies.pop(uid, None) is not None:
            self._leaders.unwatch(uid, self._watches.pop(uid))
            self.quorum_proxies.forget(uid)
        self._broker.queues.forget_lookups()

    # Members

    def is_found(self, uid: int) -> bool:
        """Whether this node's disk has a member that is not restored yet."""
        return not self._is_joined and uid in self.found.groups

    def is_founding(self, queue: Queue) -> bool:
        """Whether this node is to make a mirror ring of the classic queue that it has: it is the
        ring's leader, and has no member yet."""
        if queue.members or not queue.holders or queue.uid in self.members:
            return False
        return queue.holders[0] == self._cluster.member and queue.uid not in self.found.groups

    def _make(self, queue: Queue) -> GroupMember:
        arguments = self._broker.rules.arguments_of(queue)
        if queue_type(arguments) == STREAM:
            member: GroupMember = self._make_stream(queue)
        else:
            member = self.make_member(queue, self._broker.queues.hosts.add_core(queue))
        member.rebirth(queue.reborn_term)
        return self.keep(member)

    def keep(self, member: GroupMember) -> GroupMember:
        """Have the member among those of this node."""
        member.on_lead = self._leadership
        member.on_left = self.leave
        self.members[int(member.uid)] = member
        return member

    def _make_stream(self, queue: Queue) -> StreamMember:
        broker = self._broker
        place = f"stream '{queue.name}' in vhost '{queue.vhost}'"
        return StreamMember(
            self._cluster.member,
            queue.uid,
            queue.vhost,
            queue.name,
            broker.steps,
            self._snapshots,
            self._streams,
            CreditActor(place, broker.channel_credit, None, QUEUE),
            self.settings_of_stream(queue),
            self.snapshot_entries,
        )

    def settings_of_stream(self, queue: Queue) -> StreamSettings:
        """What its arguments and policies say. At a start policies are known late: until clients
        are served, a stream goes on with the ids that it remembers, and forgets none."""
        settings = stream_settings(self._broker.rules.arguments_of(queue))
        return settings if self._broker.in_service else replace(settings, ids_max=None)

    def make_member(self, queue: Queue, core: QueueCore) -> QuorumMember:
        broker = self._broker
        rules = broker.rules.rules_of(queue)
        member = QuorumMember(
            self._cluster.member,
            core,
            self._snapshots,
            self.snapshot_entries,
        )
        member.options = rules.options
        self.members[queue.uid] = member
        self.follow_traffic(queue.uid, rules.follows)
        return member

    def _begin(self, queue: Queue, config: Config, is_first: bool) -> None:
        """A new member: written down first."""
        member = self._make(queue)
        member.follow(queue.members)
        uid = queue.uid
        term = self.found.term_of(uid)
        incarnation = incarnation_of(queue)

        def begun() -> None:
            if self.members.get(uid) is member:
                self._broker.turn.begin()
                restored = beginning(self._cluster.member, config, term)
                member.join(self._cluster.raft.add(uid, incarnation, restored, self.owner(member)))
                if is_first:
                    member.campaign_first()

        member.begin_new(config, term, birth_of(incarnation), begun)

    def owner(self, member: GroupMember) -> GroupOwner:
        """The member as owner of its group; slowed down if the setting for tests names it."""
        testing = self._broker.config.testing
        if member.name not in testing.slow_queues:
            return member
        from node.resources.slow_queues import SlowOwner

        later = asyncio.get_running_loop().call_later
        return SlowOwner(member, testing.slow_ms / 1000, later, self._broker.turn.begin)

    def _restore(self, queue: Queue) -> None:
        group = self.found.groups[queue.uid]
        member = self._make(queue)
        member.load(group.standing, group.slices)
        group.slices = []
        member.follow(queue.members)

    def adopt(self, find: Callable[[int], Queue | None]) -> None:
        """Groups whose queue the definitions do not have yet; of an unknown queue nothing is
        wanted. Before messages are replayed."""
        for uid in list(self.found.groups):
            if uid in self.members:
                continue
            queue = find(uid)
            if queue is None:
                self._unknown.append(uid)
                del self.found.groups[uid]
            else:
                self._restore(queue)

    def join(self, hits: Sequence[Hit], last: Mapping[int, tuple[int, int]]) -> None:
        """All was found: go on, but where a bad place of the log may have hit the group. `last`
        is the last message_seq and mark of each owner in the log."""
        for uid, group in self.found.groups.items():
            member = self.members.get(uid)
            if member is None:
                continue
            damage = [hit for hit in hits if hit.owner == uid]
            fault = member.fault if isinstance(member, StreamMember) else ""
            if damage or fault:
                self.damaged[uid] = fault or shown(damage[0].place)
                is_sole = group.standing.point.config.members() == (self._cluster.member,)
                if is_sole and isinstance(member, (QuorumMember, StreamMember)):
                    self._crash(member, group, damage, last.get(uid, (0, -1)))
                    continue
                self.found.hard_state(uid, INCARNATION, group.log.highest_term(), 0)
                log.error(
                    "queue '%s' in vhost '%s': this member takes no part until it is replaced: "
                    "its log is damaged, %s",
                    *(member.name, member.vhost, self.damaged[uid]),
                    extra=ids_of(queue=member.name, vhost=member.vhost),
                )
                continue
            if group.is_mirror and isinstance(member, QuorumMember):
                self.mirrors.rejoin(member, group)
                continue
            self._rejoin(uid, member, group)
        self.found.groups.clear()
        self._is_joined = True
        for uid, index in self.found.strays().items():
            self._wal.release_log(uid, index)
        for uid in self._unknown:
            self._wal.release_log(uid, INDEX_MAX)
            self._snapshots.forget(uid)
        self._streams.keep_only([int(each.uid) for each in self.streams()])
        self._begin_late()
        for uid in self._founding:
            founded = self._broker.metadata.queue(uid)
            if founded is not None and self.is_founding(founded):
                self.mirrors.found(founded)
        self._founding = []

    def _crash(
        self,
        member: QuorumMember | StreamMember,
        group: FoundGroup,
        hits: list[Hit],
        last: tuple[int, int],
    ) -> None:
        """The only member of a queue is damaged: not served until an operator accepts the loss."""
        self._crashed[int(member.uid)] = group
        places = tuple(hit.place for hit in hits)
        subject = member if isinstance(member, StreamMember) else member.core
        reason = self.damaged[int(member.uid)]
        self._broker.queues.damages.add(subject, Damage(reason, places, *last))

    def accept_damage(self, queue: Queue, done: Callable[[], None]) -> None:
        """Serve a queue whose only member is damaged with the messages that could be read: they
        are the state from which its log goes on. `done`: that state is durable.

        A stream keeps the segments that are whole. If its log is damaged, too, that is all: what
        was published since the segments were synced last is lost.
        """
        uid = queue.uid
        group = self._crashed.pop(uid)
        member = self.members[uid]
        damages = self._broker.queues.damages
        if isinstance(member, StreamMember):
            is_log_whole = not damages.places(uid)
            member.drop_damaged()
            if is_log_whole:
                del self.damaged[uid]
                self._rejoin(uid, member, group)
                damages.serve(self.host(queue))
                member.when_loss_is_saved(done)
                return
        else:
            assert isinstance(member, QuorumMember)
            damages.restore(member.core)
        term = group.log.highest_term() + 1
        index = max(group.log.highest_index(), group.standing.point.index) + 1
        point = SnapshotPoint(index, term, term, Config((self._cluster.member,)))
        restored = Restored(HardState(term, 0), point, index, [], [])

        def begun() -> None:
            if self.members.get(uid) is member:
                self._broker.turn.begin()
                del self.damaged[uid]
                member.join(
                    self._cluster.raft.add(uid, group.incarnation, restored, self.owner(member))
                )
                damages.serve(self.host(queue))
            done()

        member.begin_again(point, birth_of(group.incarnation), begun)

    def _rejoin(self, uid: int, member: GroupMember, group: FoundGroup) -> None:
        """As it was found; but another incarnation of the group is another group."""
        queue = self._broker.metadata.queue(uid)
        incarnation = group.incarnation
        is_alone = queue is not None and queue.reborn_on == self._cluster.member
        if queue is not None and not is_alone and incarnation < incarnation_of(queue):
            self.found.hard_state(uid, INCARNATION, group.log.highest_term(), 0)
            self._is_over(member)
            return
        restored = group.restored()
        if queue is not None and is_alone and not group.has_begun_anew(restored, queue.reborn_term):
            incarnation = group.born  # The power went before that was in the log.
        member.recovered()
        member.join(self._cluster.raft.add(uid, incarnation, restored, self.owner(member)))
        if queue is not None:
            self._settle(queue, member)

    def _begin_late(self) -> None:
        """The definitions name this node, and its disk has no member: it comes as one who joins."""
        late, self._late = self._late, []
        for uid in late:
            queue = self._broker.metadata.queue(uid)
            if queue is not None and queue.mirrors is not None:
                self.mirrors.changed(queue)
            elif queue is not None and uid not in self.members:
                self._begin(queue, Config(()), False)

    # Groups that start again

    def _settle(self, queue: Queue, member: GroupMember) -> None:
        """Have the member be what the definitions say: of which group, with whom."""
        self._leaders.expect(queue.uid, queue.reborn_term)
        member.rebirth(queue.reborn_term)
        group = self._cluster.raft.group(queue.uid)
        if group is not None and group.incarnation < incarnation_of(queue):
            if queue.reborn_on == self._cluster.member:
                self._renew(queue)
            else:
                self._broker.turn.begin()
                self.found.hard_state(queue.uid, INCARNATION, group.raft.term, 0)
                self._cluster.raft.remove(queue.uid)
                self._leaders.unlead(queue.uid)
                self._is_over(member)
        member.follow(queue.members)

    def _renew(self, queue: Queue) -> None:
        """Go on alone, with what is here."""
        self._broker.turn.begin()
        uid = queue.uid
        if self._cluster.raft.group(uid) is None:
            self._renewing.discard(uid)
        elif self._cluster.raft.renew(uid, incarnation_of(queue), queue.reborn_term):
            self._renewing.discard(uid)
            log.warning(
                "queue '%s' in vhost '%s' goes on with the member here alone",
                *(queue.name, queue.vhost),
                extra=ids_of(queue=queue.name, vhost=queue.vhost),
            )
        else:
            self._renewing.add(uid)

    def _is_over(self, member: GroupMember) -> None:
        member.part()
        self.over.add(int(member.uid))
        log.warning(
            "queue '%s' in vhost '%s' has restarted without the member here",
            *(member.name, member.vhost),
            extra=ids_of(queue=member.name, vhost=member.vhost),
        )

    # Members that leave

    def leaving(self) -> list[int]:
        """Uids of members that the definitions name no more, or that are damaged."""
        here = self._cluster.member
        return [
            uid
            for uid, member in self.members.items()
            if self.is_damaged(uid) or not member.is_wanted(here)
        ]

    def is_damaged(self, uid: int) -> bool:
        """Whether the member has to leave, be it named again already: as a new one."""
        return uid in self.damaged or uid in self.over

    def hand_over(self, uid: int) -> None:
        """See `GroupExits`: the member that was to lead may have been lost meanwhile."""
        member, queue = self.members[uid], self._broker.metadata.queue(uid)
        if queue is not None and member.is_leading:
            member.follow(queue.members)

    def leave(self, uid: int) -> None:
        """The group has this node no more: what is here goes."""
        group = self._cluster.raft.group(uid)
        if uid not in self.members or (group is None and not self.is_damaged(uid)):
            return
        member = self.members.pop(uid)
        self.followed.pop(uid, None)
        self._broker.turn.begin()
        if group is not None:
            self.found.hard_state(uid, INCARNATION, group.raft.term, 0)
            self._cluster.raft.remove(uid)
        else:
            self.damaged.pop(uid, None)
            self.over.discard(uid)
            self._wal.release_log(uid, INDEX_MAX)
            log.info(
                "queue '%s' in vhost '%s': the member that took no part has left",
                *(member.name, member.vhost),
                extra=ids_of(queue=member.name, vhost=member.vhost),
            )
        self._leaders.unlead(uid)
        member.leave()
        if isinstance(member, QuorumMember):
            self._broker.queues.hosts.awake.pop(uid).delete([], False)
        queue = self._broker.metadata.queue(uid)
        if queue is not None and queue.mirrors is not None:
            self.mirrors.begin(queue)
        elif queue is not None and self._cluster.member in queue.members:
            self._begin(queue, Config(()), False)  # It is named again already.

    # Leaders and sessions

    def host(self, queue: Queue) -> QueueHost:
        """The queue as sessions of this node see it."""
        uid = queue.uid
        found = self.stream_hosts.get(uid)
        if found is not None:
            return found
        proxy = self.proxy(queue)
        if queue_type(decode_arguments(queue.arguments)) != STREAM:
            return proxy
        broker = self._broker
        found = StreamHost(proxy, self.stream, broker.steps, broker.identity.new_session)
        self.stream_hosts[uid] = found
        return found

    def quorum(self, uid: int) -> QuorumMember | None:
        """This node's member of a quorum queue."""
        member = self.members.get(uid)
        return member if isinstance(member, QuorumMember) else None

    def stream(self, uid: int) -> StreamMember | None:
        """This node's member of a stream."""
        member = self.members.get(uid)
        return member if isinstance(member, StreamMember) else None

    @property
    def stream_store(self) -> SegmentStore:
        return self._streams.store

    def streams(self) -> list[StreamMember]:
        """This node's members of streams."""
        return [each for each in self.members.values() if isinstance(each, StreamMember)]

    def proxy(self, queue: Queue) -> QuorumProxy:
        """The way to the queue's leader."""
        uid = queue.uid
        proxy = self._proxies.get(uid)
        if proxy is not None:
            return proxy
        broker = self._broker
        single = broker.rules.rules_of(queue).options.single_active
        self._leaders.expect(uid, queue.reborn_term)
        proxy = QuorumProxy(
            uid,
            queue.vhost,
            queue.name,
            single,
            broker.channel_credit,
            self.quorum_proxies,
            queue.mirrors is None,
        )
        self.quorum_proxies.add(proxy)
        self._proxies[uid] = proxy

        def told(leader: "Leader | None") -> None:
            if leader is None:
                proxy.leader(0, 0)
            else:
                proxy.leader(leader[0], leader[1])

        self._watches[uid] = told
        self._leaders.watch(uid, told)
        told(self._leaders.leader_of(uid))
        return proxy

    def find_end(self, uid: int) -> HomeEnd | None:
        """The leader's end of a queue, or what may come to be it."""
        return self.members.get(uid) or self._ends.get(uid)

    def status(self, uid: int) -> Status | None:
        """How this node's member of the group stands; None: it has none."""
        member = self.members.get(uid)
        return None if member is None else member.status()

    def _leadership(self, uid: int, leader: int, term: int, is_ready: bool) -> None:
        if not is_ready:
            self._leaders.unlead(uid)
            return
        self._leaders.lead(uid, term)
        self._suspending.led(self.members[uid])

    # Traffic

    def follow_traffic(self, uid: int, mode: str) -> None:
        """What a policy says: whether bytes are counted, and what comes of it."""
        member = self.members.get(uid)
        if not isinstance(member, QuorumMember) or mode == OFF:
            self.followed.pop(uid, None)
            if isinstance(member, QuorumMember):
                member.bodies.traffic = None
            return
        self.followed[uid] = mode
        if member.bodies.traffic is None:
            member.bodies.traffic = Traffic()

    def is_led(self, uid: int) -> bool:
        """Whether this node leads the queue."""
        member = self.members.get(uid)
        return member is not None and member.is_leading

    def carried(self, uid: int) -> dict[int, int]:
        """Bytes of a queue that is followed, by member of the cluster, since it was asked last."""
        member = self.members[uid]
        traffic = member.bodies.traffic if isinstance(member, QuorumMember) else None
        nodes = {**self._processes(), self._broker.identity.incarnation: self._cluster.member}
        found: dict[int, int] = {}
        for process, byte_count in ({} if traffic is None else traffic.take()).items():
            node = nodes.get(process)
            if node is not None:
                found[node] = found.get(node, 0) + byte_count
        return found

    # Processes of nodes

    def _processes(self) -> dict[int, int]:
        """Member id by process of the nodes that are up, as far as is known."""
        definitions = self._broker.definitions.group
        found: dict[int, int] = {}
        for row in definitions.members():
            process = definitions.process_of(row.name)
            if process != 0:
                found[process] = row.id
        return found

    def _patience_ms(self, queue: LedQueue, has_ended: bool) -> int:
        """Consumers of a classic queue, mirrored ones too, lose their messages sooner (0036). Those
        of a quorum queue keep them for as long as its arguments, policies or the settings say."""
        member = queue if isinstance(queue, QuorumMember) else None
        if isinstance(queue, ClassicEnd) or (member is not None and member.mirror.joined > 0):
            return ENDED_MS if has_ended else self._broker.config.cluster.home_down_ms
        found = None if member is None else self._broker.metadata.queue(int(member.uid))
        arguments = {} if found is None else self._broker.rules.arguments_of(found)
        return disconnected_timeout_ms(arguments, self._broker.config.consumer_disconnected_timeout)

    def _is_known(self, process: int) -> bool:
        return process == self._broker.identity.incarnation or process in self._processes()

    def process_changed(self, name: str, process: int, is_up: bool) -> None:
        """See `Definitions.on_process`: sessions of a process that has ended go. It was given up if
        no other process has taken its place, and its node is still a member."""
        if not is_up:
            definitions = self._broker.definitions.group
            is_member = any(row.name == name for row in definitions.members())
            is_given_up = is_member and definitions.process_of(name) == 0
            self._suspending.ended(process, is_given_up)

    def watch_processes(self) -> None:
        """Suspend sessions of nodes that cannot be reached, and resume those of nodes that can.
        Called every 100 ms, and as soon as a node can be reached again: what its sessions get then
        would be returned if their queue still held them suspended."""
        cut_off: set[int] = set()
        connected: set[int] = set()
        for process, member in self._processes().items():
            if not self._cluster.is_trusted(member):
                cut_off.add(process)
            if self._cluster.is_connected(member):
                connected.add(process)
        ended = (cut_off & self._were_connected) - connected
        self._were_connected = connected | ended
        self._suspending.reach(cut_off, ended)

    def end_waits(self) -> int:
        """The node stops: of how many queues acknowledgements are still to be proposed."""
        return sum(
            isinstance(member, QuorumMember) and member.end_wait()
            for member in self.members.values()
        )

    def tick(self) -> None:
        """Do what is due about once a second."""
        self.quorum_proxies.tick(monotonic_ms())
        for uid in list(self._renewing):
            queue = self._broker.metadata.queue(uid)
            if queue is not None:
                self._renew(queue)
