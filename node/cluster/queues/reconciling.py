"""Quorum queues get back to their size by themselves, and leaders spread again.

Reconciliation: every node looks after the queues that it leads, for their leader knows best who has
caught up. A queue gets one more member where it has fewer than its target (`target-group-size` of
a policy, `x-quorum-target-group-size`, the node's setting, else the size it was declared with), and
loses members on nodes that were forgotten, one change at a time: the next one waits until the
group's configuration is what the definitions say, except for members that join on a node that was
forgotten or is taken for dead. A node that is only down keeps its members for
`dead_after_s`; after that they are replaced where there is another node for them. When nodes become
members of the cluster, or none any more, queues are looked at with every tick for a while: a disk
that was lost is replaced before a second one is. A changed policy triggers a round too, and a queue
that is declared with fewer members than its target is looked at: both after `trigger_interval_ms`.

Rebalancing: the node that holds the job (`Coordination`, or, where that does not run, the leader of
the definitions) spreads the leaders some time after a node has come or come back, MOVES_A_MINUTE at
most; of queues whose leader follows their traffic (`traffic_part`) those that have none, which is
known some time after an election has put them somewhere: so they are looked at once more.

Told the time by `tick`, about once a second; looks at QUEUES_A_TICK queues at most in each. No I/O.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from node.cluster.coordination.coordination_interface import Coordination
from node.cluster.membership.member_changes import Membership, Refused
from node.cluster.queues.cluster_snapshot import Chosen, ClusterSnapshot, is_quorum, placement_tag
from node.cluster.queues.log_groups import GroupRow, Groups
from node.cluster.queues.placing import initial_size
from node.events.logs import ids_of
from queues.definitions.broker_objects import Parameter, Policy, Queue, Uid
from queues.definitions.metadata.commands import SetQueueMembers
from queues.definitions.metadata.outcomes import Added, Change
from queues.definitions.queue_arguments import QUORUM, queue_type
from queues.definitions.standby import STANDBY
from queues.placement.leader_traffic import AUTO, mode_of
from queues.placement.queue_placement import CLIENT_LOCAL, QUEUES_COUNTED_MAX
from queues.placement.regrouping import rebalance, reconciled

if TYPE_CHECKING:
    from node.config.settings import Config

log = logging.getLogger("warren.reconciling")

JOB: Final = "rebalance"
QUEUES_A_TICK: Final = 500
MOVES_A_MINUTE: Final = 60
SETTLED_MS: Final = 10_000  # after the last node came or went, before leaders are moved
IDLE_MS: Final = 90_000  # after that, before those of queues that follow their traffic are
TARGET_SIZE: Final = "x-quorum-target-group-size"
TARGET_SIZE_BY_POLICY: Final = "x-target-group-size"
URGENT_MS: Final = 30_000  # after a node has become a member, or none any more
NEVER_MS: Final = 1 << 62


class Rules(Struct, frozen=True):
    """What is set on the node. Times in milliseconds."""

    is_on: bool = True
    auto_remove: bool = True  # members of forgotten nodes, also where there is no other node
    interval_ms: int = 60 * 60 * 1000
    trigger_interval_ms: int = 10_000  # after something has changed
    target_group_size: int = 0  # 0: what each queue began with
    dead_after_ms: int = 60 * 60 * 1000
    group_size: int = 3  # of queues that were declared without a size
    auto_rebalance: bool = True
    locator: str = CLIENT_LOCAL  # of queues that were declared without one


def rules_of(config: "Config") -> Rules:
    """What the configuration says."""
    section = config.quorum_queue
    chosen = section.continuous_membership_reconciliation
    return Rules(
        is_on=chosen.enabled,
        auto_remove=chosen.auto_remove,
        interval_ms=chosen.interval,
        trigger_interval_ms=chosen.trigger_interval,
        target_group_size=chosen.target_group_size,
        dead_after_ms=chosen.dead_after,
        group_size=section.initial_group_size,
        auto_rebalance=section.auto_rebalance,
        locator=config.queue_leader_locator,
    )


class Absences:
    """How long nodes have not been trusted, from what is seen at each look."""

    def __init__(self, cluster_snapshot: ClusterSnapshot) -> None:
        self._cluster_snapshot = cluster_snapshot
        self._since: dict[int, int] = {}
        self._now_ms = 0

    def look(self, now_ms: int) -> bool:
        """Whether a node has come or gone since the last look."""
        self._now_ms = now_ms
        away = {c.id for c in self._cluster_snapshot.candidates() if not c.is_running}
        if away == set(self._since):
            return False
        self._since = {each: self._since.get(each, now_ms) for each in away}
        return True

    def away_ms(self, member: int) -> int:
        since = self._since.get(member)
        return 0 if since is None else self._now_ms - since


class Reconciling:
    """See the module."""

    def __init__(
        self,
        membership: Membership,
        groups: Groups,
        coordination: Coordination,
        leads_definitions: Callable[[], bool],
        rules: Rules,
        random: Random,
    ) -> None:
        self._membership = membership
        self._cluster_snapshot = membership.cluster_snapshot
        self._groups = groups
        self._coordination = coordination
        self._leads_definitions = leads_definitions
        self._rules = rules
        self._random = random
        self.absences = Absences(self._cluster_snapshot)
        self._known: frozenset[int] = frozenset()
        self._due_ms = 0
        self._is_triggered = False  # the next tick sets the time of a round
        self._added: list[int] = []  # uids of new queues with fewer members than their target
        self._added_due_ms = NEVER_MS
        self._urgent_until_ms = 0
        self._waiting: list[int] = []  # uids of queues that this round has still to look at
        self._is_round_changing = False
        self._is_round_full = False  # all queues, not new ones alone
        self._open: set[int] = set()  # queues whose change is not answered yet
        self._holds_job = False
        self._balance_due_ms = NEVER_MS
        self._idle_due_ms = NEVER_MS
        self.idle_after_ms = IDLE_MS
        self.idle: Callable[[], Awaitable[frozenset[int]]] | None = None  # uids; asks all nodes
        self.task: asyncio.Task[Any] | None = None
        coordination.claim(JOB, self._job_told)

    def _job_told(self, fencing: int | None) -> None:
        self._holds_job = fencing is not None

    def stop(self) -> None:
        self._coordination.release(JOB)
        if self.task is not None:
            self.task.cancel()

    # Time

    def tick(self, now_ms: int) -> None:
        """By a clock that does not jump."""
        has_changed = self.absences.look(now_ms)
        members = frozenset(each.id for each in self._cluster_snapshot.members())
        if members != self._known:
            has_changed = True
            self._known = members
            self._urgent_until_ms = now_ms + URGENT_MS
        if has_changed:
            self._is_triggered = True
            self._balance_due_ms = now_ms + SETTLED_MS
            self._idle_due_ms = self._balance_due_ms + self.idle_after_ms
        if self._rules.is_on:
            self._reconcile(now_ms)
        if self._rules.auto_rebalance:
            self._rebalance(now_ms)

    # Members

    def definitions_changed(self, changes: Sequence[Change]) -> None:
        """Look at all queues soon if policies changed, and at new queues that lack members.

        `trigger_interval_ms` begins with the next tick.
        """
        if not self._rules.is_on:
            return
        for change in changes:
            subject = change.subject
            if isinstance(subject, Policy):
                self._is_triggered = True
            elif isinstance(subject, Parameter):
                # Policies have no effect in a vhost that is a standby.
                self._is_triggered = self._is_triggered or subject.component == STANDBY
            elif isinstance(change, Added) and isinstance(subject, Queue):
                self._note_added(subject)

    def _note_added(self, queue: Queue) -> None:
        if queue.members and len(queue.members) < self.target_of(queue):
            self._added.append(queue.uid)

    def _set_times(self, now_ms: int) -> None:
        """Set the time of the next round, and of a look at new queues."""
        soon_ms = now_ms + self._rules.trigger_interval_ms
        if self._is_triggered and not self._waiting:
            # A round that still runs sets its own time at its end: the trigger waits for that.
            self._is_triggered = False
            self._due_ms = min(self._due_ms, now_ms if now_ms < self._urgent_until_ms else soon_ms)
        if self._added:
            self._added_due_ms = min(self._added_due_ms, soon_ms)

    def _reconcile(self, now_ms: int) -> None:
        self._set_times(now_ms)
        if not self._waiting:
            self._is_round_full = now_ms >= self._due_ms
            if self._is_round_full:
                self._waiting = [
                    each.uid for each in self._cluster_snapshot.queues() if each.members
                ]
            elif now_ms >= self._added_due_ms:
                self._waiting = self._added
            else:
                return
            self._added, self._added_due_ms = [], NEVER_MS
            self._is_round_changing = False
        slice_, self._waiting = self._waiting[:QUEUES_A_TICK], self._waiting[QUEUES_A_TICK:]
        candidates = self._cluster_snapshot.candidates(
            self._cluster_snapshot.queue_count <= QUEUES_COUNTED_MAX
        )
        gone = frozenset(
            each for each in self._known if self.absences.away_ms(each) >= self._rules.dead_after_ms
        )
        for uid in slice_:
            queue = self._cluster_snapshot.metadata.queue(uid)
            if queue is not None and self._look_at(queue, candidates, gone):
                self._is_round_changing = True
        if not self._waiting:
            rules = self._rules
            wait = rules.trigger_interval_ms if self._is_round_changing else rules.interval_ms
            next_ms = now_ms if now_ms < self._urgent_until_ms else now_ms + wait
            # A look at new queues alone does not put off the round of all queues.
            self._due_ms = next_ms if self._is_round_full else min(self._due_ms, next_ms)

    def _look_at(self, queue: Queue, candidates: Any, gone: frozenset[int]) -> bool:
        """Whether the queue is not yet as it should be, as far as that is for this node to do."""
        row = self._groups.row(queue.uid)
        if row is None or not row.is_leader:
            return False
        if queue.uid in self._open or not is_settled(queue, row, self._known - gone):
            return True
        group = self._cluster_snapshot.group(queue)
        arguments = self._cluster_snapshot.arguments_of(queue)
        tag = placement_tag(arguments)
        step = reconciled(group, self._target(arguments), candidates, gone, self._random, tag)
        if step is None or (len(step.members) < len(group.members) and not self._rules.auto_remove):
            return False
        log.info(
            "queue '%s' in vhost '%s' is to have the members %s",
            queue.name,
            queue.vhost,
            ", ".join(self._cluster_snapshot.name_of(each) for each in step.members),
            extra=ids_of(queue=queue.name, vhost=queue.vhost),
        )
        self._open.add(queue.uid)
        task = asyncio.get_running_loop().create_task(self._change(queue.uid, step.members))
        task.add_done_callback(lambda done: self._open.discard(queue.uid))
        return True

    async def _change(self, uid: Uid, members: tuple[int, ...]) -> None:
        try:
            await self._membership.carry_out(SetQueueMembers(uid, members))
        except Refused as error:
            log.warning("the members of a queue were not changed: %s", error)

    def target_of(self, queue: Queue) -> int:
        """How many members the queue should have."""
        return self._target(self._cluster_snapshot.arguments_of(queue))

    def _target(self, arguments: Mapping[str, object]) -> int:
        for key in (TARGET_SIZE, TARGET_SIZE_BY_POLICY):
            found = arguments.get(key)
            if isinstance(found, int):
                return int(found)
        if self._rules.target_group_size:
            return self._rules.target_group_size
        return initial_size(queue_type(dict(arguments)), arguments) or self._rules.group_size

    # Leaders

    def _rebalance(self, now_ms: int) -> None:
        """Once the cluster has been at rest for a while, until there is nothing left to move."""
        is_busy = self.task is not None and not self.task.done()
        if is_busy or not self._is_mine():
            return
        loop = asyncio.get_running_loop()
        if now_ms >= self._balance_due_ms:
            self.task = loop.create_task(self._move_leaders(now_ms))
        elif now_ms >= self._idle_due_ms:
            self.task = loop.create_task(self._move_idle(now_ms))

    def _is_spread(self, queue: Queue) -> bool:
        """Not those whose leader goes to where its clients are."""
        vhost = self._cluster_snapshot.metadata.vhosts.get(queue.vhost)
        if vhost is None or not is_quorum(queue):
            return False
        return mode_of(vhost.policies.effective(QUORUM, queue.name).definition) != AUTO

    def _is_mine(self) -> bool:
        """Whether the job is for this node to do."""
        return self._holds_job if self._coordination.is_running else self._leads_definitions()

    async def _move_leaders(self, now_ms: int) -> None:
        self._balance_due_ms = NEVER_MS
        if await self._spread(self._is_spread):
            self._balance_due_ms = min(self._balance_due_ms, now_ms + 60_000)

    async def _move_idle(self, now_ms: int) -> None:
        """Of queues that follow their traffic and have none; among themselves."""
        self._idle_due_ms = NEVER_MS
        idle = frozenset[int]() if self.idle is None else await self.idle()
        if idle and await self._spread(lambda queue: queue.uid in idle):
            self._idle_due_ms = min(self._idle_due_ms, now_ms + 60_000)

    async def _spread(self, chosen: Chosen) -> bool:
        """Whether leaders were to move."""
        groups, candidates = (
            self._cluster_snapshot.groups(chosen),
            self._cluster_snapshot.candidates(),
        )
        moves = await asyncio.to_thread(rebalance, groups, candidates, MOVES_A_MINUTE)
        if moves:
            log.info("%d leaders move, so that all nodes lead about as many", len(moves))
            await self._membership.hand_over_all(moves)
        return bool(moves)


def is_settled(queue: Queue, row: GroupRow, able: frozenset[int]) -> bool:
    """Whether the group's configuration is what the definitions say.

    A member that joins on a node that is not `able` never catches up: nothing waits for it.
    """
    voters = set(row.voters)
    wanted = {each for each in queue.members if each in able or each in voters}
    return voters == wanted and able.isdisjoint(row.learners)
