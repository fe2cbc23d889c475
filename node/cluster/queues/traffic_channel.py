"""Leaders of quorum queues go to where their clients are, if a policy says so (0044).

Every node watches the queues that it leads and whose policy has `leader-follows-traffic`: what each
node gives to them and gets of them, every few seconds (`queues.placement.leader_traffic.Watch`).
With `advise` it
tells in the log, by an event, in the metrics and in /api/cluster/plan where the leader should be.
With `auto` it also asks the one node that allows transfers, so that there are few at a time in the
whole cluster: the holder of the job of rebalancing, or, while no node holds it, the leader of the
definitions. That node hands the leadership over as for an operator, and never to a node that is
drained, under an alarm or down; nor does a leader ask for one whose member is behind or votes not.
Queues that have no traffic go where the rebalancing puts them, which asks all nodes for them.

    part = TrafficChannel(seats, queues, bounds)
    part.tick(now_ms)        # about once a second, by a clock that does not jump
    part.stop()

A node none of whose queues has such a policy does nothing at all. Owns the task that asks. What is
refused, or fails, is asked for again with a later sample. No I/O. Not compiled.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from node.cluster.coordination.coordination_interface import Coordination
from node.cluster.membership.member_changes import HANDED_OVER_S, Membership, numbers
from node.cluster.queues.cluster_snapshot import Chosen, ClusterSnapshot
from node.cluster.queues.log_groups import Groups
from node.cluster.queues.reconciling import JOB
from node.cluster.services.status_channel import NoAnswer, Unanswerable
from node.events.logs import ids_of
from queues.definitions.broker_objects import Queue
from queues.placement.leader_traffic import AUTO, Advice, Bounds, Moves, Watch
from queues.placement.regrouping import Move

log = logging.getLogger("warren.traffic")

FOLLOW: Final = "follow traffic"  # a question: [uid, target] -> [why not, or ""]
IDLE: Final = "idle leaders"  # -> a part for each: uid
ADVICES: Final = "traffic advices"  # -> a row for each: uid, target, share, for how long
LAG_MAX: Final = 1000  # entries; a member that is further behind is not to lead


class Followed(Protocol):
    """The quorum queues of this node (`node.cluster.queues.quorum_channel.QuorumQueues`)."""

    @property
    def followed(self) -> Mapping[int, str]:
        """By uid: the mode, where it is not `off`."""

    def is_led(self, uid: int) -> bool: ...

    def carried(self, uid: int) -> dict[int, int]:
        """Bytes by member of the cluster since it was asked last."""


class Asking(Protocol):
    """`node.cluster.services.status_channel.StatusChannel`."""

    def serve(self, question: str, answer: Callable[[int, Any], AsyncIterator[object]]) -> None: ...

    async def ask(
        self, member: int, question: str, about: object = None, timeout_s: float = 2.0
    ) -> list[Any]: ...

    async def ask_others(
        self, question: str, about: object = None, timeout_s: float = 2.0
    ) -> Mapping[int, list[Any] | None]: ...


class TrafficParts(Struct, frozen=True):
    """What it stands on."""

    membership: Membership
    groups: Groups
    coordination: Coordination
    definitions_leader: Callable[[], int]
    is_in_alarm: Callable[[int], bool]  # that member of the cluster
    asking: Asking
    tell: Callable[[Queue, str, Advice], None]  # node, why: an event


class TrafficChannel:
    """Invariant: `advices` are of queues that are led here and followed."""

    def __init__(self, service_parts: TrafficParts, queues: Followed, bounds: Bounds) -> None:
        self._service_parts = service_parts
        self._queues = queues
        self._bounds = bounds
        self._cluster_snapshot: ClusterSnapshot = service_parts.membership.cluster_snapshot
        self._watch = Watch(bounds)
        self._moves = Moves(bounds)
        self._now_ms = 0
        self._sampled_ms = 0
        self._watched: set[int] = set()  # queues of the last sample
        self._task: asyncio.Task[None] | None = None
        self.advices: dict[int, Advice] = {}
        self.advised = 0  # so far, each queue once for as long as it holds
        self.moved = 0  # leaderships that went from here
        service_parts.asking.serve(FOLLOW, self._asked)
        service_parts.asking.serve(ADVICES, self._advices_asked)
        service_parts.asking.serve(IDLE, self._idle_asked)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # On the node that leads

    def tick(self, now_ms: int) -> None:
        self._now_ms = now_ms
        if not self._queues.followed and not self._watched:
            return
        span_ms = now_ms - self._sampled_ms
        if span_ms < self._bounds.span_ms:
            return
        self._sampled_ms = now_ms
        led = {uid for uid in self._queues.followed if self._queues.is_led(uid)}
        for uid in self._watched - led:
            self._watch.forget(uid)
            self.advices.pop(uid, None)
        for uid in sorted(led):
            carried = self._queues.carried(uid)
            if uid in self._watched:  # Else it was counted for an unknown time.
                self._sample(uid, span_ms, carried)
        self._watched = led
        self._ask_for_moves()

    def _sample(self, uid: int, span_ms: int, carried: dict[int, int]) -> None:
        here = self._cluster_snapshot.here
        advice = self._watch.sample(
            uid, self._now_ms, span_ms, carried, here, lambda member: self._is_able(uid, member)
        )
        queue = self._cluster_snapshot.metadata.queue(uid)
        if advice is None or queue is None:
            self.advices.pop(uid, None)
            return
        known = self.advices.get(uid)
        self.advices[uid] = advice
        if known is None or known.target != advice.target:
            self.advised += 1
            self._say(queue, advice)

    def _say(self, queue: Queue, advice: Advice) -> None:
        node = self._cluster_snapshot.name_of(advice.target)
        log.info(
            "queue '%s' in vhost '%s' should be led by node '%s', which carries %d %% of its bytes",
            *(queue.name, queue.vhost, node, advice.share_percent),
            extra=ids_of(queue=queue.name, vhost=queue.vhost),
        )
        self._service_parts.tell(queue, node, advice)

    def _is_able(self, uid: int, member: int) -> bool:
        """Whether that node could lead at once."""
        row = self._service_parts.groups.row(uid)
        if row is None or member not in row.voters or row.lags.get(member, 0) > LAG_MAX:
            return False
        return self._is_fit(member)

    def _is_fit(self, member: int) -> bool:
        fit = {each.id for each in self._cluster_snapshot.candidates() if each.is_eligible}
        return member in fit and not self._service_parts.is_in_alarm(member)

    def _ask_for_moves(self) -> None:
        wanted = [
            (uid, advice.target)
            for uid, advice in self.advices.items()
            if self._queues.followed.get(uid) == AUTO
        ]
        if wanted and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._move(wanted))

    async def _move(self, wanted: Sequence[tuple[int, int]]) -> None:
        for uid, target in wanted:
            judge = self._judge()
            if judge == 0:
                return
            try:
                answer = await self._service_parts.asking.ask(
                    judge, FOLLOW, [uid, target], HANDED_OVER_S + 3
                )
            except NoAnswer:
                continue
            if answer == [""]:
                self.moved += 1

    # On the node that allows transfers

    def _judge(self) -> int:
        """Which node that is; 0: unknown."""
        holder = self._service_parts.coordination.holder(JOB)
        if self._service_parts.coordination.is_running and holder is not None:
            return holder.member
        return self._service_parts.definitions_leader()

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        uid, target = numbers(about, 2)
        if self._judge() != self._cluster_snapshot.here:
            raise Unanswerable("another node decides about leaders")
        queue = self._cluster_snapshot.metadata.queue(uid)
        if queue is None or target not in queue.members or not self._is_fit(target):
            yield "that node cannot lead it"
            return
        reason = self._moves.refusal(uid, self._now_ms)
        if reason:
            yield reason
            return
        self._moves.begin(uid)
        try:
            has_moved = await self._service_parts.membership.hand_over(Move(uid, asker, target))
        finally:
            self._moves.end(uid, self._now_ms)
        yield "" if has_moved else "the leader did not move"

    # Asked by the part that spreads leaders (`node.cluster.queues.reconciling`)

    async def idle(self) -> frozenset[int]:
        """Queues of the cluster whose leader goes to its traffic, and that have none."""
        asked = await self._service_parts.asking.ask_others(IDLE)
        found = set(self._idle_here())
        for parts in asked.values():
            found.update(uid for uid in parts or () if isinstance(uid, int))
        return frozenset(found)

    def _idle_here(self) -> list[int]:
        followed = self._queues.followed
        return [uid for uid in self._watch.idle(self._now_ms) if followed.get(uid) == AUTO]

    async def _idle_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        for uid in self._idle_here():
            yield uid

    # Asked by operators

    async def planned(self, chosen: Chosen) -> list[dict[str, object]]:
        """All advices of the cluster, as rows of the API."""
        asked = await self._service_parts.asking.ask_others(ADVICES)
        found = {self._cluster_snapshot.here: self._rows()}
        found |= {member: parts or [] for member, parts in asked.items()}
        rows = [
            self._plain(leader, row, chosen)
            for leader, some in sorted(found.items())
            for row in some
        ]
        return [row for row in rows if row]

    def _rows(self) -> list[list[int]]:
        return [
            [uid, each.target, each.share_percent, self._now_ms - each.since_ms]
            for uid, each in sorted(self.advices.items())
        ]

    async def _advices_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        for row in self._rows():
            yield row

    def _plain(self, leader: int, row: Sequence[int], chosen: Chosen) -> dict[str, object]:
        uid, target, share, for_ms = row
        queue = self._cluster_snapshot.metadata.queue(uid)
        if queue is None or not chosen(queue):
            return {}
        return {
            "vhost": queue.vhost,
            "name": queue.name,
            "from": self._cluster_snapshot.name_of(leader),
            "to": self._cluster_snapshot.name_of(target),
            "share_percent": share,
            "for_ms": for_ms,
        }
