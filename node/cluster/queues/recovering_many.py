"""All quorum queues that lost their majority go on with one member each (0054). Unsafe.

    rows = await RecoveringMany(membership, asking, recovering).recover(lambda queue: True)

What an operator would do with them one by one, for hundreds of them after `recover_cluster`: of the
members that can be asked the one with the longest log goes on (`node.cluster.queues.recovering`,
which
checks once more, and says what that loses). A queue of which a majority of the members runs is left
alone whatever is asked: it elects a leader by itself, or something else is wrong with it, which an
operator should look at first. IN_FLIGHT queues at a time; what becomes of one holds up no other.

Takes which queues; gives a row for each without a leader. Owns nothing. Not compiled.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from node.cluster.membership.member_changes import GROUP, Asking, Membership, Refused, gathered
from node.cluster.queues.cluster_snapshot import Chosen
from node.cluster.queues.log_groups import VOTER
from node.cluster.queues.recovering import Recovered
from node.cluster.services.status_channel import NoAnswer
from queues.definitions.broker_objects import Queue

IN_FLIGHT: Final = 16
HAS_MAJORITY: Final = "a majority of its members runs: it needs no recovery"
NO_MEMBER: Final = "no member that could go on can be asked"


class OneByOne(Protocol):
    """`node.cluster.queues.recovering.Recovering`."""

    async def recover(self, queue: Queue, node: str) -> Recovered:
        """Go on with the member on that node. Refused says why not."""


class QueueRecovery(Struct, frozen=True):
    """What became of one queue."""

    vhost: str
    name: str
    node: str = ""  # whose member it goes on with; "": it does not
    lost: tuple[str, ...] = ()  # nodes whose members are given up
    error: str = ""  # why it does not go on; "": it does


class RecoveringMany:
    """See the module."""

    def __init__(self, membership: Membership, asking: Asking, recovering: OneByOne) -> None:
        self._membership = membership
        self._cluster_snapshot = membership.cluster_snapshot
        self._asking = asking
        self._recovering = recovering

    async def recover(self, chosen: Chosen) -> list[QueueRecovery]:
        """Those of them without a leader, as far as this node has heard."""
        queues: Sequence[Queue] = self._membership.leaderless(chosen)
        rows: list[QueueRecovery] = []
        for start in range(0, len(queues), IN_FLIGHT):
            rows += await gathered(map(self._recovered, queues[start : start + IN_FLIGHT]))
        return rows

    async def _recovered(self, queue: Queue) -> QueueRecovery:
        if self._cluster_snapshot.group(queue).has_majority:
            return QueueRecovery(queue.vhost, queue.name, error=HAS_MAJORITY)
        member = await self._longest(queue)
        if member == 0:
            return QueueRecovery(queue.vhost, queue.name, error=NO_MEMBER)
        try:
            done = await self._recovering.recover(queue, self._cluster_snapshot.name_of(member))
        except Refused as error:
            return QueueRecovery(queue.vhost, queue.name, error=str(error))
        return QueueRecovery(queue.vhost, queue.name, done.node, done.lost)

    async def _longest(self, queue: Queue) -> int:
        """The member that has most of the queue; 0: there is none that votes and answers."""
        best, most = 0, -1
        for member in sorted(self._cluster_snapshot.group(queue).online):
            last_index = await self._last_index(queue.uid, member)
            if last_index > most:
                best, most = member, last_index
        return best

    async def _last_index(self, uid: int, member: int) -> int:
        """-1: it has no member with which the queue could go on, or does not say."""
        try:
            rows = await self._asking.ask(member, GROUP, [uid])
        except NoAnswer:
            return -1
        return max((row["last_index"] for row in rows if row["membership"] == VOTER), default=-1)
