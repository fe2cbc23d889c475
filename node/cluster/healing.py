"""Members of quorum queues whose log is damaged heal by themselves (Q-70, 0054).

Such a member may have promised what it does not have any more, so it takes no part. It is made anew
as an operator would do it: this node has it removed from the queue, waits until the group has
committed that and what is left of it here is gone, and has a new one put in its place, which begins
with nothing, learns from the others, and votes only then. One queue at a time, and only while the
other members on nodes that run are a majority of the queue by themselves and somebody leads it: the
change is their business, and a queue that could not carry it out is left as it is.

Told the time by `tick`, about once a second. What fails is tried again then; the log says what was
done. The task is ended by `stop`. No I/O.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from node.cluster.landscape import Landscape
from node.cluster.membership import Refused
from node.logs import ids_of
from queues.definitions import Queue, Uid
from queues.metadata_commands import Command, SetQueueMembers
from queues.metadata_outcomes import Outcome
from queues.regrouping import is_majority, without

log = logging.getLogger("warren.cluster")

LEFT_S: Final = 5.0  # a group that has not let its member go by then is asked again
POLL_S: Final = 0.05


class Damaged(Protocol):
    """The members of this node (`node.cluster.quorum_part.QuorumQueues`)."""

    @property
    def damaged(self) -> Mapping[int, str]:
        """Why, by uid, of members that take no part; gone once the member has left."""


class Changes(Protocol):
    """`node.cluster.membership.Membership`."""

    async def carry_out(self, command: Command) -> Outcome:
        """Refused: with the reason."""


class Healing:
    """See the module."""

    def __init__(self, damaged: Damaged, landscape: Landscape, changes: Changes) -> None:
        self._damaged = damaged
        self._landscape = landscape
        self._changes = changes
        self._task: asyncio.Task[None] | None = None

    def tick(self) -> None:
        """Begin with the next one, if none is under way."""
        if not self._damaged.damaged or (self._task is not None and not self._task.done()):
            return
        for uid in sorted(self._damaged.damaged):
            queue = self._landscape.metadata.queue(uid)
            if queue is not None and self._can_heal(queue):
                self._task = asyncio.get_running_loop().create_task(self._heal(queue))
                return

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _can_heal(self, queue: Queue) -> bool:
        """Whether the others can do it without this member."""
        here = self._landscape.here
        group = self._landscape.group(queue)
        members = queue.members if here in queue.members else (*queue.members, here)
        return is_majority(group.online - {here}, members) and group.leader not in (0, here)

    async def _heal(self, queue: Queue) -> None:
        try:
            await self._replace(queue)
        except Refused as error:
            log.warning(
                "the member of queue '%s' in vhost '%s' is not healed yet: %s",
                *(queue.name, queue.vhost, error),
                extra=ids_of(queue=queue.name, vhost=queue.vhost),
            )

    async def _replace(self, queue: Queue) -> None:
        here = self._landscape.here
        if here in queue.members:
            left = without(queue.members, here)
            await self._changes.carry_out(SetQueueMembers(Uid(queue.uid), left))
        if not await self._has_left(queue.uid):
            return
        found = self._landscape.metadata.queue(queue.uid)
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
