"""Views of mirrored queues are proposed: who leads, who has mirrors, who is synchronised.

Each proposal is a `SetMirrorView` of the definitions with the next epoch, so that of two proposals
for one view the definitions take one. Who proposes what:

- the node of a ring's leader: what the ring reports (a mirror takes part, or has all messages; the
  leader needs a new term after a restart), what the policy wants, and mirrors that it cannot reach;
- the left neighbour of a mirror that it cannot reach: the view without it;
- the leader of the definitions: members that it cannot reach, a leader among them;
- a member whose log is damaged: the view without itself;
- the node of a classic queue whose policy wants mirrors: the first view;
- the node of a leader that is alone, if the queue is to have no mirrors: the view without members;
- a node that stops: that a synchronised mirror leads; without one, that its leader has stopped
  (`ha-promote-on-shutdown` says then whether another mirror may lead).

A node whose connection stands and that does not answer is lost once the failure detector suspects
it (`raft.detector.SILENCE_MS`), as for quorum queues. When its connection has ended, it is lost
after `CLOSED_MS`: the kernel closes the connections of a killed process, and a living one connects
again within that time. If no synchronised member would be left, the queue waits for `LOST_MS`. A
wrong guess loses no message where a synchronised member is left: a majority decides each view, and
a leader that is not in the newest one confirms nothing.

`tick` gets the time. It looks first at queues of lost members and at queues whose policy has
changed, and at QUEUES_A_TICK of all others. No I/O.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from node.cluster.membership.member_changes import Membership, Refused
from node.cluster.queues.mirror_lags import MirrorLags
from node.cluster.queues.mirror_losses import MirrorLosses
from node.cluster.queues.mirrors import mirror_view, ring_view
from node.events.logs import ids_of
from queues.definitions.broker_objects import MirrorView, Queue
from queues.definitions.metadata.commands import SetMirrorView
from queues.definitions.mirror_policy import (
    EXACTLY,
    NODES,
    MirrorPolicy,
    Wanted,
    mirror_policy,
    wanted_members,
)
from queues.definitions.mirror_views import LeaderReport, next_view
from queues.definitions.policies import NOTHING
from queues.definitions.queue_arguments import CLASSIC
from raft.ring_view import RingView

log = logging.getLogger("warren.mirroring")

SYNCHRONISE: Final = "synchronise mirrors"  # a question: [uid, whether it is wanted]
LOST_MS: Final = 500
CLOSED_MS: Final = 100
TICK_S: Final = 0.02  # between two calls of `tick`
IDLE_TICK_S: Final = 0.5  # where no queue is mirrored
QUEUES_A_TICK: Final = 20
ROUND_MS: Final = 100  # between two looks at the same queue, at least


class Reporting(Protocol):
    """A member of a ring, as far as its leader's node reports (`raft.ring.Ring`)."""

    @property
    def view(self) -> RingView | None: ...

    @property
    def next_synchronised(self) -> int: ...

    @property
    def next_partial(self) -> int: ...

    @property
    def needs_term(self) -> bool: ...

    @property
    def right_acked_index(self) -> int: ...

    @property
    def last_index(self) -> int: ...


class Rings(Protocol):
    """The members of rings on this node (`node.cluster.queues.mirrors.Mirrors`)."""

    def ring(self, uid: int) -> Reporting | None: ...

    def has_member(self, uid: int) -> bool: ...

    def synchronise(self, queue: Queue, view: RingView, policy: MirrorPolicy | None) -> None: ...

    def order(self, uid: int, is_wanted: bool) -> None: ...


class Asking(Protocol):
    """`node.cluster.services.status_channel.StatusChannel`."""

    def serve(self, question: str, answer: Callable[[int, Any], AsyncIterator[object]]) -> None: ...

    async def ask_others(
        self, question: str, about: object = None, timeout_s: float = 2.0
    ) -> Mapping[int, list[Any] | None]: ...


class MirrorProposals:
    """See the module. All methods run on the loop thread."""

    def __init__(
        self,
        membership: Membership,
        mirrors: Rings,
        asking: Asking,
        leads_definitions: Callable[[], bool],
        is_damaged: Callable[[int], bool],
        synchronises: bool,
        losses: MirrorLosses,
    ) -> None:
        """`synchronises`: whether mirrors are synchronised automatically where no policy says."""
        self._membership = membership
        self._snapshot = membership.cluster_snapshot
        self._mirrors = mirrors
        self._asking = asking
        self._leads_definitions = leads_definitions
        self._is_damaged = is_damaged
        self._synchronises = synchronises
        self.losses = losses
        self.lags = MirrorLags()
        self._now_ms = 0
        self._round_ms = -ROUND_MS
        self._away: dict[int, int] = {}  # nodes that are not trusted, since when
        self._closed: dict[int, int] = {}  # of those, nodes whose connection has ended, since when
        self._were_running: set[int] = set()  # nodes that were trusted at some time
        self._led_definitions = False
        self._suspected: frozenset[int] = frozenset()  # a synchronised member replaces them
        self._lost: frozenset[int] = frozenset()  # of those, for LOST_MS
        self._has_mirrored = False  # some queue is mirrored, as far as the last round knows
        self._waiting: list[int] = []  # uids that this round has still to look at
        self._urgent: dict[int, None] = {}  # uids to look at next
        self._open: set[int] = set()  # uids whose proposal is not answered yet
        self._tasks: set[asyncio.Task[None]] = set()
        asking.serve(SYNCHRONISE, self._asked)

    def stop(self) -> None:
        self.losses.stop()
        for task in self._tasks:
            task.cancel()

    # Synchronisation

    async def synchronise(self, queue: Queue, is_wanted: bool) -> None:
        """Have the mirrors of the queue synchronised, or cancel that. Refused: it has none."""
        if not self._is_mirrored(queue):
            raise Refused(f"queue '{queue.name}' in vhost '{queue.vhost}' is not mirrored")
        self._mirrors.order(int(queue.uid), is_wanted)
        await self._asking.ask_others(SYNCHRONISE, [int(queue.uid), is_wanted])

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        match about:
            case [int(uid), bool(is_wanted)]:
                self._mirrors.order(uid, is_wanted)
                yield True

    # Policies

    def policy_of(self, queue: Queue) -> MirrorPolicy | None:
        """What its policy says about mirrors; None: it is to have none."""
        if b"x-non-destructive" in queue.arguments:
            return None  # Mirrors keep what each consumer holds.
        if queue.members or queue.exclusive or not queue.durable:
            return None
        return self.policy_for(queue.vhost, queue.name)

    def policy_for(self, vhost: str, name: str) -> MirrorPolicy | None:
        found = self._snapshot.metadata.vhosts.get(vhost)
        effective = NOTHING if found is None else found.policies.effective(CLASSIC, name)
        return mirror_policy(effective.definition, self._synchronises)

    def first_view(self, vhost: str, name: str, home: int) -> MirrorView | None:
        """The view with which a new queue is declared; None: it gets no mirrors."""
        policy = self.policy_for(vhost, name)
        if policy is None:
            return None
        wanted = wanted_members(policy, home, (), (home,), self._running(home))
        members = (home, *wanted.mirrors)
        if policy.mode == NODES and home not in self._named(policy) and wanted.mirrors:
            members = wanted.mirrors
        if members == (home,):
            return None
        ones = (1,) * len(members)
        return MirrorView(1, 1, members, ones, members)

    def _named(self, policy: MirrorPolicy) -> set[int]:
        ids = {each.name: each.id for each in self._snapshot.members()}
        return {ids[name] for name in policy.nodes if name in ids}

    def _running(self, first: int, kept: Collection[int] = ()) -> Mapping[str, int]:
        """Nodes that may get a mirror: begin behind `first`, so that mirrors spread. `kept`: those
        that count as running although the failure detector may suspect them."""
        members = [
            each
            for each in self._snapshot.members()
            if (each.id in kept or self._snapshot.is_running(each.id)) and not each.draining
        ]
        behind = [each for each in members if each.id >= first]
        return {each.name: each.id for each in behind + [m for m in members if m.id < first]}

    # Time

    @property
    def tick_s(self) -> float:
        """Seconds until the next tick."""
        return TICK_S if self._has_mirrored or self._urgent or self._open else IDLE_TICK_S

    def look_at(self, uid: int) -> None:
        """Something that concerns the queue has changed."""
        self._urgent[uid] = None

    def tick(self, now_ms: int) -> None:
        """By a clock that does not jump."""
        self._now_ms = now_ms
        self.losses.tick(now_ms)
        before = (self._suspected, self._lost)
        self._look_at_nodes(now_ms)
        leads = self._leads_definitions()
        if before != (self._suspected, self._lost) or (leads and not self._led_definitions):
            self._urgent.update(dict.fromkeys(self._mirrored()))
        self._led_definitions = leads
        urgent, self._urgent = self._urgent, {}
        if not self._waiting and now_ms - self._round_ms >= ROUND_MS:
            self._round_ms = now_ms
            self._begin_round()
        some, self._waiting = self._waiting[:QUEUES_A_TICK], self._waiting[QUEUES_A_TICK:]
        for uid in dict.fromkeys((*urgent, *some)):
            queue = self._snapshot.metadata.queue(uid)
            if queue is not None:
                self._look(queue)

    def _begin_round(self) -> None:
        self._waiting = [int(each.uid) for each in self._snapshot.queues()]
        self._has_mirrored = any(True for _ in self._mirrored())
        known = set(self._waiting)
        for uid in (*self.lags.uids(), *self.losses.known):
            if uid not in known:
                self._forget(uid)

    def _look_at_nodes(self, now_ms: int) -> None:
        """Note which nodes are lost, and since when."""
        away = []
        for member in self._snapshot.members():
            if self._snapshot.is_running(member.id):
                self._were_running.add(member.id)
            else:
                away.append(member.id)
        # A node that starts knows nothing yet of those that it is about to connect to.
        were_running = [m for m in away if m in self._were_running]
        silent = {m for m in were_running if self._snapshot.has_link(m)}
        self._away = {each: self._away.get(each, now_ms) for each in away}
        self._closed = {m: self._closed.get(m, now_ms) for m in were_running if m not in silent}
        ended = {m for m, since_ms in self._closed.items() if now_ms - since_ms >= CLOSED_MS}
        lost = {m for m, since_ms in self._away.items() if now_ms - since_ms >= LOST_MS}
        self._suspected = frozenset(silent | ended | lost)
        self._lost = frozenset(lost)

    def _mirrored(self) -> Iterable[int]:
        return (int(each.uid) for each in self._snapshot.queues() if self._is_mirrored(each))

    def _is_mirrored(self, queue: Queue) -> bool:
        return queue.mirrors is not None and len(queue.mirrors.members) > 0

    # One queue

    def _forget(self, uid: int) -> None:
        """The queue was deleted, or this node has no mirror of it."""
        self.losses.forget(uid)
        self.lags.forget(uid)

    def _look(self, queue: Queue) -> None:
        if queue.uid in self._open:
            return
        view = self._next(queue)
        if view is not None:
            self._begin_proposal(queue, view)

    def _begin_proposal(self, queue: Queue, view: MirrorView) -> None:
        if queue.uid in self._open:
            return
        self._open.add(queue.uid)
        task = asyncio.get_running_loop().create_task(self._propose(queue, view))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _next(self, queue: Queue) -> MirrorView | None:
        if not self._is_mirrored(queue):
            return self._first(queue)
        assert queue.mirrors is not None
        view = ring_view(queue.mirrors)
        here = self._snapshot.here
        if here in view.members:
            self._mirrors.synchronise(queue, view, self.policy_of(queue))
            self._watch(queue, view)
        if here not in view.members:
            self._forget(int(queue.uid))
            return self._next_without(queue, view)
        if self._is_damaged(queue.uid):
            return self._following(queue, view, frozenset((here,)), None)
        if view.leader == here:
            return self._next_of_leader(queue, view)
        right = view.right_of(here)
        if right in self._gone(view) and not self._leads_definitions():
            return self._kept(queue, view.without(right, view.epoch + 1))
        return self._next_without(queue, view)

    def _watch(self, queue: Queue, view: RingView) -> None:
        """For reports: what the member here lacks, and how fast its right neighbour is."""
        here, uid = self._snapshot.here, int(queue.uid)
        if here not in view.synchronised:
            self.losses.want(uid)
        elif here not in view.partial:  # Else it was promoted, and has yet to report its loss.
            self.losses.forget(uid)
        right = view.right_of(here)
        ring = self._mirrors.ring(uid)
        if ring is None or right == 0 or ring.right_acked_index < 0:
            self.lags.forget(uid)
            return
        name = self._snapshot.name_of(right)
        self.lags.look(queue, right, name, ring.right_acked_index, ring.last_index, self._now_ms)

    def _first(self, queue: Queue) -> MirrorView | None:
        """Of a classic queue of this node that is to get mirrors."""
        here = self._snapshot.here
        if queue.node != self._snapshot.name_of(here) or self._mirrors.has_member(int(queue.uid)):
            return None  # It is elsewhere, or it is still becoming a plain queue.
        policy = self.policy_of(queue)
        if policy is None:
            return None
        wanted = wanted_members(policy, here, (), (here,), self._running(here))
        if wanted.leader == here and not wanted.mirrors:
            return None
        epoch = 1 if queue.mirrors is None else queue.mirrors.epoch + 1
        return MirrorView(epoch, epoch, (here,), (epoch,), (here,))

    def _gone(self, view: RingView) -> frozenset[int]:
        """Members that are lost, or that the cluster has forgotten."""
        known = self._known()
        forgotten = {m for m in view.members if m not in known}
        gone = forgotten | self._suspected.intersection(view.members)
        if not set(view.synchronised) <= gone:
            return frozenset(gone)
        return frozenset(forgotten | self._lost.intersection(view.members))

    def _known(self) -> set[int]:
        """Members of the cluster."""
        return {each.id for each in self._snapshot.members()}

    def _next_without(self, queue: Queue, view: RingView) -> MirrorView | None:
        """Who leads the definitions sees to members that are lost."""
        gone = self._gone(view)
        if not gone or not self._leads_definitions():
            return None
        return self._following(queue, view, gone, None)

    def _next_of_leader(self, queue: Queue, view: RingView) -> MirrorView | None:
        ring = self._mirrors.ring(queue.uid)
        if ring is None or ring.view is None or ring.view.epoch != view.epoch:
            return None
        report = LeaderReport(ring.next_synchronised, ring.next_partial, ring.needs_term)
        following = self._following(queue, view, self._gone(view), report)
        is_alone = view.members == (self._snapshot.here,)
        if following is None and is_alone and not self._wants_mirrors(queue):
            return MirrorView(int(view.epoch) + 1)
        return following

    def _wants_mirrors(self, queue: Queue) -> bool:
        """Whether a policy asks for mirrors, be there nodes for them now or not."""
        policy = self.policy_of(queue)
        return policy is not None and (policy.mode != EXACTLY or policy.count > 1)

    def _following(
        self, queue: Queue, view: RingView, gone: frozenset[int], report: LeaderReport | None
    ) -> MirrorView | None:
        policy = self.policy_of(queue)
        wanted = Wanted(view.leader, ())
        if policy is not None:
            mirrors = [each for each in view.members if each != view.leader]
            running = self._running(view.leader, frozenset(view.members) - gone)
            wanted = wanted_members(policy, view.leader, mirrors, view.synchronised, running)
        found = next_view(view, gone, wanted, self._promotes_always(queue, policy), report)
        return None if found is None else self._kept(queue, found)

    def _promotes_always(self, queue: Queue, policy: MirrorPolicy | None) -> bool:
        """Whether a mirror that is not synchronised may lead."""
        assert queue.mirrors is not None
        if queue.mirrors.members[0] not in self._known():
            return True  # The cluster has forgotten the node of the leader: it never comes back.
        if queue.mirrors.leader_stopped:
            return policy is not None and policy.always_on_shutdown
        return policy is None or policy.always_on_failure

    def _kept(self, queue: Queue, view: RingView) -> MirrorView:
        """That the leader has stopped holds until another leader, or a new term of it."""
        assert queue.mirrors is not None
        is_stopped = queue.mirrors.leader_stopped and view.term == queue.mirrors.term
        return msgspec.structs.replace(mirror_view(view), leader_stopped=is_stopped)

    async def _propose(self, queue: Queue, view: MirrorView) -> None:
        try:
            await self._membership.carry_out(SetMirrorView(queue.uid, view))
        except Refused as error:
            log.info(
                "queue '%s' in vhost '%s': view %d of its mirrors was not taken: %s",
                *(queue.name, queue.vhost, view.epoch, error),
            )
        finally:
            self._open.discard(queue.uid)
            self._urgent[int(queue.uid)] = None

    # Stopping

    def hand_over(self) -> int:
        """This node is to stop: have synchronised mirrors lead what is led here, and note where
        there is none; how many queues that concerns. Called again until there are none."""
        count = 0
        for queue in list(self._snapshot.queues()):
            view = self._handed_over(queue) if self._is_mirrored(queue) else None
            if view is None:
                continue
            count += 1
            if view.leader_stopped and queue.uid not in self._open:
                self._tell_stopped(queue)
            self._begin_proposal(queue, view)
        return count

    def _tell_stopped(self, queue: Queue) -> None:
        policy = self.policy_of(queue)
        follows = "is down until this node is back"
        if policy is not None and policy.always_on_shutdown:
            follows = "loses the messages that its next leader does not have"
        log.warning(
            "queue '%s' in vhost '%s': no synchronised mirror can lead while this node is stopped; "
            "the queue %s (ha-promote-on-shutdown); synchronise mirrors before a stop "
            "(warrenctl sync_queue)",
            *(queue.name, queue.vhost, follows),
            extra=ids_of(queue=queue.name, vhost=queue.vhost),
        )

    def _handed_over(self, queue: Queue) -> MirrorView | None:
        """The view in which this node may stop; None: it may do so in the present one."""
        known = queue.mirrors
        assert known is not None
        view = ring_view(known)
        here = self._snapshot.here
        others = [each for each in view.members if each != here and self._snapshot.is_running(each)]
        if view.leader != here or not others:
            return None
        for each in others:
            if each in view.synchronised:
                return mirror_view(view.led_by(each, (), view.epoch + 1))
        if known.leader_stopped:
            return None
        return msgspec.structs.replace(known, epoch=known.epoch + 1, leader_stopped=True)
