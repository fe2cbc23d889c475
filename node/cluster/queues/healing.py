"""Members of quorum queues whose log is damaged heal by themselves (0054).

Such a member may have promised what it does not have any more, so it takes no part. It is rebuilt
as an operator would do it: this node has it removed from the queue, waits until the group has
committed that and what is left of it here is gone, and has a new one put in its place, which begins
with nothing, learns from the others, and votes only then. One queue at a time, and only while the
other members on nodes that run are a majority of the queue by themselves and it has a leader: the
change is their business, and a queue that could not carry it out is left as it is. Of two members
the other one is asked to go on alone, which loses nothing (`node.cluster.queues.recovering`); this
one
leaves then, and reconciliation puts a new one in its place.

Told the time by `tick`, about once a second. What fails is tried again then; the log says what was
done. The task is ended by `stop`. No I/O.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Final, Protocol

from node.cluster.membership.member_changes import Refused
from node.cluster.queues.cluster_snapshot import ClusterSnapshot
from node.events.logs import ids_of
from queues.definitions.broker_objects import Queue, Uid
from queues.definitions.metadata.commands import Command, SetQueueMembers
from queues.definitions.metadata.outcomes import Outcome
from queues.placement.regrouping import is_majority, without

log = logging.getLogger("warren.cluster")

LEFT_S: Final = 5.0  # a group that has not let its member go by then is asked again
POLL_S: Final = 0.05


class Damaged(Protocol):
    """The members of this node (`node.cluster.queues.quorum_channel.QuorumQueues`)."""

    @property
    def damaged(self) -> Mapping[int, str]:
        """Why, by uid, of members that take no part; gone once the member has left."""


class Changes(Protocol):
    """`node.cluster.membership.member_changes.Membership`."""

    async def carry_out(self, command: Command) -> Outcome:
        """Refused: with the reason."""


class Pairs(Protocol):
    """`node.cluster.queues.recovering.Recovering`."""

    async def go_on_with(self, queue: Queue, member: int) -> None:
        """Of two members the one on this node is damaged. Refused: with the reason."""


class Healing:
    """See the module."""

    def __init__(
        self, damaged: Damaged, cluster_snapshot: ClusterSnapshot, changes: Changes, pairs: Pairs
    ) -> None:
        self._damaged = damaged
        self._cluster_snapshot = cluster_snapshot
        self._changes = changes
        self._pairs = pairs
        self._tried = 0  # the last queue of two that was tried: the next one is first
        self._task: asyncio.Task[None] | None = None

    def tick(self) -> None:
        """Begin with the next one, if none is under way."""
        if not self._damaged.damaged or (self._task is not None and not self._task.done()):
            return
        for uid in sorted(self._damaged.damaged, key=lambda uid: (uid <= self._tried, uid)):
            queue = self._cluster_snapshot.metadata.queue(uid)
            if queue is None:
                continue
            if self._can_heal(queue):
                self._begin(queue, self._replace(queue))
                return
            other = self._other_of_two(queue)
            if other != 0:
                self._tried = uid
                self._begin(queue, self._pairs.go_on_with(queue, other))
                return

    def _begin(self, queue: Queue, work: Coroutine[object, object, None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._heal(queue, work))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _can_heal(self, queue: Queue) -> bool:
        """Whether the others can do it without this member."""
        here = self._cluster_snapshot.here
        group = self._cluster_snapshot.group(queue)
        members = queue.members if here in queue.members else (*queue.members, here)
        return is_majority(group.online - {here}, members) and group.leader not in (0, here)

    def _other_of_two(self, queue: Queue) -> int:
        """The one that could go on alone; 0: there are not two, or it does not run."""
        group = self._cluster_snapshot.group(queue)
        others = [each for each in group.members if each != self._cluster_snapshot.here]
        if len(group.members) != 2 or len(others) != 1 or group.leader != 0:
            return 0
        return others[0] if others[0] in group.online else 0

    async def _heal(self, queue: Queue, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Refused as error:
            log.warning(
                "the member of queue '%s' in vhost '%s' is not healed yet: %s",
                *(queue.name, queue.vhost, error),
                extra=ids_of(queue=queue.name, vhost=queue.vhost),
            )

    async def _replace(self, queue: Queue) -> None:
        here = self._cluster_snapshot.here
        if here in queue.members:
            left = without(queue.members, here)
            await self._changes.carry_out(SetQueueMembers(Uid(queue.uid), left))
        if not await self._has_left(queue.uid):
            return
        found = self._cluster_snapshot.metadata.queue(queue.uid)
        if found is None or here in found.members:
            return
        members = (*found.members, here)
        await self._changes.carry_out(SetQueueMembers(Uid(queue.uid), members))

    async def _has_left(self, uid: int) -> bool:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + LEFT_S
        while uid in self._damaged.damaged:
            if loop.time() >= deadline_s:
                return False
            await asyncio.sleep(POLL_S)
        return True
