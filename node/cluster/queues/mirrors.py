"""Mirrored queues on a node: its members of their rings, and how a classic queue becomes one.

The definitions have the view of each ring (`Queue.mirrors`). A member is a `QuorumMember` whose
group has a ring as its core; `QuorumQueues` keeps it among the members of this node, and the
proxies by which sessions reach the leader. `changed` brings this node to a new view:

- the node is no member of the view, or joined it again: what is here is discarded;
- it is a member and has none yet: it begins empty, or, as the leader of the first view, with the
  messages of the classic queue (`queues.hosts.founding`);
- else its member takes the view;
- the view has no members, and the queue is one of this node: its member, which is alone, becomes a
  classic queue (`queues.hosts.disbanding`).

Sessions that use a queue when its last mirror goes keep their proxies (`QuorumProxy.succeed_by`),
by which they reach the classic queue (`queues.hosts.classic_end`).
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from node.cluster.queues.mirror_losses import Length
from node.events.logs import ids_of
from node.process_identity import ProcessIdentity
from queues.definitions.broker_objects import MirrorView, Queue
from queues.definitions.mirror_policy import MirrorPolicy
from queues.hosts.classic import ClassicHost
from queues.hosts.disbanding import Disbanding
from queues.hosts.founding import Founding
from queues.hosts.host_interfaces import Steps
from queues.hosts.quorum_member import QuorumMember
from queues.hosts.quorum_recovery import INCARNATION, FoundGroup, FoundGroups, beginning
from queues.machine.commands import TERM_SHIFT
from queues.queue_host import SessionSink
from raft.entries import Config
from raft.host import TICK_MS
from raft.recovery import Restored
from raft.ring import Ring
from raft.ring_view import RingView

if TYPE_CHECKING:
    from node.cluster.cluster_node import Cluster
    from node.cluster.queues.group_member import GroupMember
    from node.cluster.queues.queues_channel import QueuesChannel
    from node.definitions.effective_rules import EffectiveRules
    from node.definitions.queue_registry import QueueRegistry
    from node.turn import Turn
    from queues.definitions.metadata.machine import Metadata
    from queues.hosts.queue_core import QueueCore
    from queues.remote.quorum_proxy import QuorumProxy

log = logging.getLogger("warren.mirroring")


def ring_view(view: MirrorView) -> RingView:
    """The view as the ring has it; it has members."""
    return RingView(
        view.epoch, view.term, view.members, view.joined, view.synchronised, view.partial
    )


def mirror_view(view: RingView) -> MirrorView:
    """The view as the definitions have it."""
    return MirrorView(
        int(view.epoch),
        int(view.term),
        view.members,
        view.joined,
        view.synchronised,
        view.partial,
    )


class Site(Protocol):
    """The broker of this node, as far as it is needed here."""

    queues: "QueueRegistry"
    turn: "Turn"
    away: "QueuesChannel"
    rules: "EffectiveRules"
    identity: ProcessIdentity

    @property
    def steps(self) -> Steps: ...

    def now_ms(self) -> int: ...

    @property
    def metadata(self) -> "Metadata": ...


class Groups(Protocol):
    """The members of groups on this node (`node.cluster.queues.quorum_channel`)."""

    members: "dict[int, GroupMember]"
    found: "FoundGroups"
    over: set[int]

    def quorum(self, uid: int) -> QuorumMember | None: ...

    def is_founding(self, queue: Queue) -> bool: ...

    def is_damaged(self, uid: int) -> bool: ...

    def keep(self, member: "GroupMember") -> "GroupMember": ...

    def make_member(self, queue: Queue, core: "QueueCore") -> QuorumMember: ...

    def proxy(self, queue: Queue) -> "QuorumProxy": ...

    def earlier(self, uid: int) -> "QuorumProxy | None": ...

    def forget_snapshots(self, uid: int, done: Callable[[], None]) -> None: ...

    def give_core(self, uid: int) -> None: ...

    def serve_numbered(self, host: ClassicHost, term: int, has_restarted: bool) -> None: ...

    def end_numbered(self, uid: int) -> None: ...

    def leave(self, uid: int) -> None: ...


class Synchronisation(Struct, frozen=True):
    """How far the leader of a mirrored queue is with its next mirror."""

    is_blocking: bool  # clients wait
    message_count: int  # that the mirror has got


class Mirrors:
    """See the module. All methods run on the loop thread."""

    def __init__(
        self, broker: Site, cluster: "Cluster", queues: Groups, sync_bytes_per_s: int
    ) -> None:
        """`sync_bytes_per_s`: limit for the synchronisation of one mirror; 0: none."""
        self._broker = broker
        self._cluster = cluster
        self._queues = queues
        self._slice_bytes_per_tick = -(-sync_bytes_per_s * TICK_MS // 1000)
        self._founding: set[int] = set()  # uids of classic queues that are handed over
        self._disbanding: set[int] = set()  # uids of queues that become classic ones
        self.on_changed: Callable[[int], None] | None = None  # a view or a policy is another one
        self.on_lost: Callable[[int], None] | None = None  # a mirror leads without being whole
        # What an operator has said, by uid: whether mirrors are to be synchronised. It holds until
        # all are.
        self._ordered: dict[int, bool] = {}
        self._drained_at: dict[int, tuple[int, int]] = {}  # right neighbour's join, next seq then

    def ring(self, uid: int) -> Ring | None:
        """This node's member of a ring; None: it takes no part in one."""
        group = self._cluster.raft.group(uid)
        return group.raft if group is not None and isinstance(group.raft, Ring) else None

    def has_member(self, uid: int) -> bool:
        """Whether this node has a member of the queue's ring."""
        return uid in self._queues.members

    def look_at(self, uid: int) -> None:
        if self.on_changed is not None:
            self.on_changed(uid)

    # Synchronisation

    def synchronise(self, queue: Queue, view: RingView, policy: MirrorPolicy | None) -> None:
        """Let the member here bring its right neighbour what it lacks, or not: by the policy, by an
        operator's command, or when none of those messages is left."""
        uid = int(queue.uid)
        if len(view.synchronised) == len(view.members):
            self._ordered.pop(uid, None)
            self._drained_at.pop(uid, None)
        group = self._cluster.raft.group(uid)
        if group is None:
            return
        is_wanted = self._ordered.get(uid, policy is None or policy.synchronises)
        group.block(policy is not None and policy.blocks and is_wanted)
        member = self._queues.quorum(uid)
        if member is not None and policy is not None:
            member.outgoing.bound_batches(policy.batch_size)
        right = view.right_of(self._cluster.member)
        if right == 0 or right in view.synchronised:
            return
        group.synchronise(is_wanted or self._is_drained(uid, view.joined_in(right)))

    def synchronisation(self, queue: Queue) -> Synchronisation | None:
        """What this node, as the leader, sends to its next mirror; None: nothing."""
        view = queue.mirrors
        if view is None or len(view.synchronised) == len(view.members):
            return None
        ring, member = self.ring(queue.uid), self._queues.quorum(queue.uid)
        if ring is None or member is None or not member.is_leading:
            return None
        if ring.is_sending_snapshot:
            below = member.outgoing.copied_seq(ring.copied_slices[0])
            copied = member.core.machine.queue_within(1, below - 1)
            return Synchronisation(ring.is_blocked, sum(count for _, count in copied))
        if not ring.is_blocked:
            return None
        is_next_whole = ring_view(view).right_of(self._cluster.member) in view.synchronised
        total = member.ready_count + member.checked_out_count
        return Synchronisation(True, int(total) if is_next_whole else 0)

    def order(self, uid: int, is_wanted: bool) -> None:
        """An operator has the mirrors of a queue synchronised, or cancels that."""
        self._broker.turn.begin()
        self._ordered[uid] = is_wanted
        self.look_at(uid)

    def _is_drained(self, uid: int, joined: int) -> bool:
        """Whether all messages are gone that were in the queue when the neighbour joined."""
        core = self._broker.queues.hosts.awake.get(uid)
        if core is None:
            return False
        return not core.machine.alive_within(1, self._seq_at_join(core, joined) - 1)

    def _seq_at_join(self, core: "QueueCore", joined: int) -> int:
        """The next seq here when this member first knew of its neighbour's join.

        Too low a number, of a member that is behind, costs a longer copy: all that the neighbour
        lacks is copied to it.
        """
        known = self._drained_at.get(core.uid)
        if known is None or known[0] != joined:
            known = self._drained_at[core.uid] = (joined, int(core.machine.next_seq))
        return known[1]

    def _note_join(self, uid: int, view: RingView) -> None:
        """Before messages come that the new neighbour gets: they need not go to synchronise it."""
        right = view.right_of(self._cluster.member)
        core = self._broker.queues.hosts.awake.get(uid)
        if core is not None and right != 0 and right not in view.synchronised:
            self._seq_at_join(core, view.joined_in(right))

    # Views

    def changed(self, queue: Queue) -> None:
        """The definitions have another view."""
        self._broker.turn.begin()
        self._broker.queues.forget_lookups()
        if not queue.holders:
            self._become_plain(queue)
            return
        proxy = self._queues.earlier(int(queue.uid))
        if proxy is not None:
            proxy.succeed_by(None)
        for each in self._broker.away.all_peer_queues.values():
            if queue.uid in each.proxies.hosts:  # It was a classic queue of that node.
                epoch = 0 if queue.mirrors is None else queue.mirrors.epoch
                each.proxies.relay(queue.uid, self._queues.proxy(queue), epoch)
        self.begin(queue)
        self.look_at(queue.uid)

    def begin(self, queue: Queue) -> None:
        """Bring the member here to the view of the definitions."""
        uid = queue.uid
        member = self._queues.quorum(uid)
        if uid in self._disbanding:
            return  # `_disbanded` goes on.
        known = queue.mirrors
        if member is not None and known is not None and known.epoch < member.mirror.joined:
            return  # The definitions are older than what this node has taken part in.
        if member is not None and not queue.holders and self._broker.queues.is_home(queue):
            self._disband(queue, member)
            return
        if member is None:
            if self._queues.is_founding(queue):
                self.found(queue)
            elif self._cluster.member in queue.holders and not self._is_stale(queue):
                self._begin_new(queue)
            return
        assert known is not None
        here = self._cluster.member
        joined = known.joined[known.members.index(here)] if here in known.members else 0
        if joined != member.mirror.joined:
            self._discard(queue, member)
        elif not self._queues.is_damaged(uid):
            view = ring_view(known)
            self._note_join(int(uid), view)
            member.take_view(view)

    def _is_stale(self, queue: Queue) -> bool:
        """Whether this node has taken part in a later view: after a start the definitions may be
        older than its log, and name a membership that has ended."""
        view = queue.mirrors
        assert view is not None
        joined = view.joined[view.members.index(self._cluster.member)]
        return joined <= self._queues.found.term_of(int(queue.uid))

    def _discard(self, queue: Queue, member: QuorumMember) -> None:
        """A newer view is without this membership; if it names the node, it joins again, empty."""
        log.info(
            "queue '%s' in vhost '%s': deleting the content of the mirror on this node, because "
            "the cluster removed the mirror from the queue",
            *(queue.name, queue.vhost),
            extra=ids_of(queue=queue.name, vhost=queue.vhost),
        )
        uid = int(member.uid)
        if self._cluster.raft.group(uid) is None:
            self._queues.over.add(uid)  # Its log is damaged, or it has not begun.
        self._queues.leave(uid)

    def _begin_new(self, queue: Queue) -> None:
        core = self._broker.queues.hosts.add_core(queue)
        self._make(queue, self._queues.make_member(queue, core))

    def _make(self, queue: Queue, member: QuorumMember) -> None:
        """A new member, with the messages that its core has: written down first."""
        view = queue.mirrors
        assert view is not None
        uid = queue.uid
        joined = view.joined[view.members.index(self._cluster.member)]
        self._queues.keep(member)

        def begun() -> None:
            if self._queues.members.get(uid) is member:
                self._broker.turn.begin()
                restored = beginning(self._cluster.member, Config(()), 0)
                self._join(member, joined, restored, False)

        member.begin_mirror(joined, begun)

    def _join(self, member: QuorumMember, joined: int, restored: Restored, is_whole: bool) -> None:
        uid = int(member.uid)
        raft = self._cluster.raft
        member.mirror.on_lost = self._lost
        group = raft.add_mirror(uid, INCARNATION, joined, restored, member, is_whole)
        assert isinstance(group.raft, Ring)
        group.raft.copy_limit.bytes_per_tick = self._slice_bytes_per_tick
        group.synchronise(False)  # Until it is known what the policy says.
        member.join(group)
        self.look_at(uid)
        queue = self._broker.metadata.queue(uid)
        if queue is not None and queue.mirrors is not None:
            self.begin(queue)

    def rejoin(self, member: QuorumMember, found: FoundGroup) -> None:
        """The node starts: a member as it was found."""
        member.recovered()
        self._join(member, found.born, found.restored(), found.is_whole)

    def _lost(self, uid: int) -> None:
        """The mirror here was promoted without being synchronised."""
        if self.on_lost is not None:
            self.on_lost(uid)

    # `mirror_losses.Lengths`

    def queue_of(self, uid: int) -> Queue | None:
        return self._broker.metadata.queue(uid)

    def length(self, uid: int) -> Length | None:
        member = self._queues.quorum(uid)
        if member is None or not member.is_leading:
            return None
        count = member.ready_count + member.checked_out_count
        return Length(int(count), int(member.core.machine.next_seq))

    def count_below(self, uid: int, seq: int) -> int:
        member = self._queues.quorum(uid)
        if member is None:
            return 0
        there = sum(count for _, count in member.core.machine.queue_within(1, seq - 1))
        return there - sum(count for _, count in member.bodies.lost_below(seq))

    # A classic queue gets mirrors

    def found(self, queue: Queue) -> None:
        """Make the classic queue of this node the first member of its ring."""
        uid = queue.uid
        broker = self._broker
        if uid in self._founding or uid in broker.queues.damages.hosts or self._is_stale(queue):
            return
        if not broker.queues.hosts.is_used(uid):
            self._begin_new(queue)
            return
        self._founding.add(uid)
        host = broker.queues.hosts[uid]
        proxy = self._queues.proxy(queue)
        proxy.succeed_by(None)
        host.divert(proxy)
        self._queues.end_numbered(uid)
        founded = partial(self._founded, uid)
        Founding(host, broker.steps, broker.now_ms, founded).begin()

    def _founded(self, uid: int, sinks: Sequence[SessionSink]) -> None:
        """The log has all its messages, and these sessions go on."""
        broker = self._broker
        self._founding.discard(uid)
        queue = broker.metadata.queue(uid)
        if queue is None:
            return
        proxy = self._queues.proxy(queue)
        for each in broker.away.all_peer_queues.values():
            each.stubs.move(uid, proxy)
        core = broker.queues.hosts.give_core(uid)
        core.begin_group()
        for sink in sinks:
            proxy.adopt(sink, core.machine)
        self._make(queue, self._queues.make_member(queue, core))

    # `queues.remote.moving.Movers`

    def mirrored(self, uid: int) -> "QuorumProxy | None":
        """See `Movers`."""
        if uid in self._founding:
            return None
        proxy = self._queues.earlier(uid)
        queue = self._broker.metadata.queue(uid)
        if proxy is not None or queue is None or not queue.holders:
            return proxy
        is_begun = uid in self._queues.members or not self._queues.is_founding(queue)
        return self._queues.proxy(queue) if is_begun else None

    def is_plain_again(self, uid: int, epoch: int) -> bool:
        """See `Movers`."""
        queue = self._broker.metadata.queue(uid)
        if queue is None or queue.holders or queue.mirrors is None:
            return False
        return queue.mirrors.epoch >= epoch and uid not in self._disbanding

    # A queue has no mirrors any more

    def _become_plain(self, queue: Queue) -> None:
        """The view without members: the queue is one of its node alone."""
        uid = queue.uid
        broker = self._broker
        self.begin(queue)
        if broker.queues.is_home(queue):
            return
        home = broker.queues.home_of(queue)
        proxy = self._queues.earlier(uid)
        if proxy is None:
            return
        successor = broker.queues.proxy(queue)
        successor.succeed()
        proxy.succeed_by(successor)
        if broker.away.is_down(home):
            proxy.home_lost()
        proxy.tell_unused()

    def _disband(self, queue: Queue, member: QuorumMember) -> None:
        """Make the only member of the ring a classic queue of this node."""
        uid = int(queue.uid)
        view = queue.mirrors
        assert view is not None
        if self._cluster.raft.group(uid) is None or self._queues.is_damaged(uid):
            return  # It has not begun, or it waits for an operator.
        self._disbanding.add(uid)
        epoch, here = view.epoch, self._cluster.member
        has_restarted = not member.is_leading
        if has_restarted:  # It leads once more, without the others.
            joined = (int(member.mirror.joined),)
            member.take_view(RingView(epoch, epoch, (here,), joined, (here,)))
        disbanding = Disbanding(
            member,
            epoch << TERM_SHIFT | 1,
            self._broker.steps,
            partial(self._queues.forget_snapshots, uid),
            partial(self._disbanded, uid, epoch, has_restarted),
        )

        def saved() -> None:
            self._broker.turn.begin()
            disbanding.begin()

        # By older definitions a start would drop the messages of a queue without a member here, as
        # what a mirror left behind.
        definitions = self._cluster.definitions
        if definitions is None:  # The node starts: this view is what was saved.
            saved()
        else:
            definitions.when_saved(saved)

    def _disbanded(self, uid: int, epoch: int, has_restarted: bool, host: ClassicHost) -> None:
        """It is durable that the queue has no member here."""
        broker = self._broker
        broker.turn.begin()
        self._disbanding.discard(uid)
        queue = broker.metadata.queue(uid)
        if queue is None:
            return
        core = host.core
        self._queues.give_core(uid)
        core.end_group()
        broker.queues.hosts.take_core(host)
        rules = broker.rules.rules_of(queue)
        host.configure(rules.options, rules.mode, core.dead_letter_publisher)
        host.on_timer()  # Messages may be due, or wait for a consumer.
        self._queues.serve_numbered(host, epoch, has_restarted)
        proxy = self._queues.earlier(uid)
        if proxy is not None:
            proxy.succeed_by(host)
            proxy.tell_unused()
        broker.queues.forget_lookups()
        log.info(
            "queue '%s' in vhost '%s': the queue has no mirrors any more and belongs to this node",
            *(queue.name, queue.vhost),
            extra=ids_of(queue=queue.name, vhost=queue.vhost),
        )
        self.look_at(uid)
