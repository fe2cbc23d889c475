"""A quorum queue whose majority is lost for ever goes on with one member (0054). Unsafe.

    recovered = await recovering.recover(queue, "rabbit@one")    # Refused says why not

The node that has the member does it: it makes sure that the queue has no leader and that no other
member that can be asked has more, and has the definitions say that the group starts again with what
is here, in a term that no member of before can have reached (TERM_GAP). All nodes hear that from
the definitions, which must have their majority for that: members of before take no part from then
on, and no leader of before is believed (`node.cluster.queues.quorum_channel`). What only the lost
members had
is lost; sessions of the queue are ended, and start again. Reconciliation then gives the queue its
size again.

A queue of two members of which one is damaged is another matter (`go_on_with`): all that was ever
confirmed both of them had, so that the other one can go on alone and nothing is lost. The damaged
one asks for that; it is done if the group is these two by all that is known, and no other node of
the cluster, each of which has to say so, has a member of it.

Where the definitions themselves have lost their majority, `recover_cluster` comes first, on the one
node that is left: it ends all links, has the log of the definitions go on here alone, and forgets
all other nodes. They come back with empty data directories, or not at all.

Takes a queue and a node; gives what was done. A queue that is led, as far as the node of the member
has heard, is refused. A leader that is only cut off from it is not known there: what that goes on
to confirm is lost when it hears of this. Owns nothing. Not compiled.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from node.cluster.membership.member_changes import GROUP, Membership, Refused, numbers, reached
from node.cluster.queues.log_groups import VOTER, GroupRow, Groups
from node.cluster.services.maintenance import told
from node.cluster.services.status_channel import NoAnswer
from node.events.logs import ids_of
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.commands import RecoverQueue, RemoveMember
from queues.placement.regrouping import GroupView
from raft.entries import TERM_MAX
from raft.log_group import METADATA_OWNER

log = logging.getLogger("warren.cluster")

RECOVER: Final = "recover"  # a question: [uid] -> [term, last index, members that are lost]
PAIR: Final = "recover pair"  # the same, asked by the other one of two, which is damaged
TERM_GAP: Final = 1 << 16  # more elections than members of before can have had meanwhile
SURE_S: Final = 3.0  # without a leader for as long
LED_S: Final = 5.0  # until the member leads
ASKED_S: Final = 20.0


class Terms(Protocol):
    """`node.cluster.queues.leader_table.Leaders`."""

    def term_of(self, uid: int) -> int:
        """The highest in which a leader is known for the group."""


class Asking(Protocol):
    """`node.cluster.services.status_channel.StatusChannel`."""

    def serve(self, question: str, answer: Callable[[int, Any], AsyncIterator[object]]) -> None: ...

    async def ask(
        self, member: int, question: str, about: object = None, timeout_s: float = 2.0
    ) -> list[Any]: ...

    async def ask_others(
        self, question: str, about: object = None, timeout_s: float = 2.0
    ) -> Mapping[int, list[Any] | None]: ...


class Alone(Protocol):
    """What it takes to have the definitions go on with this node alone (`node.cluster.wiring`)."""

    @property
    def leader(self) -> int:
        """Of the definitions; 0: none is known."""

    def cut_off(self, members: Sequence[int]) -> None:
        """No link to them any more, nor from them."""

    def stand_alone(self, term: int) -> None:
        """See `raft.host.RaftHost.renew`."""


class Recovered(Struct, frozen=True):
    """What was done."""

    vhost: str
    name: str
    node: str
    term: int
    last_index: int  # of the log that the queue goes on with
    lost: tuple[str, ...]  # nodes whose members are given up


class Recovering:
    """See the module. All methods run on the loop thread."""

    def __init__(
        self,
        membership: Membership,
        groups: Groups,
        terms: Terms,
        asking: Asking,
        alone: Alone,
    ) -> None:
        self._membership = membership
        self._cluster_snapshot = membership.cluster_snapshot
        self._groups = groups
        self._terms = terms
        self._asking = asking
        self._alone = alone
        self.sure_s = SURE_S
        self.on_recovered: Callable[[Recovered], None] | None = None  # on the node that did it
        asking.serve(RECOVER, self._asked)
        asking.serve(PAIR, self._pair_asked)

    async def recover(self, queue: Queue, node: str) -> Recovered:
        """Go on with the member on that node."""
        found = self._cluster_snapshot.member_named(node)
        if found is None:
            raise Refused(f"node '{node}' is not a member of the cluster", missing=True)
        try:
            answer = await self._asking.ask(found.id, RECOVER, [queue.uid], ASKED_S)
        except NoAnswer as error:
            raise Refused(str(error)) from error
        term, last_index, lost = answer[0]
        return Recovered(queue.vhost, queue.name, node, term, last_index, tuple(lost))

    async def go_on_with(self, queue: Queue, member: int) -> None:
        """This node has the damaged one of two: have the other one, there, go on alone."""
        try:
            await self._asking.ask(member, PAIR, [queue.uid], ASKED_S)
        except NoAnswer as error:
            raise Refused(str(error)) from error

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        (uid,) = numbers(about, 1)
        done: Recovered = await told(lambda: self._recover_here(uid))
        yield [done.term, done.last_index, list(done.lost)]

    async def _pair_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        (uid,) = numbers(about, 1)
        done: Recovered = await told(lambda: self._recover_pair(uid, asker))
        yield [done.term, done.last_index, list(done.lost)]

    async def recover_cluster(self) -> tuple[str, ...]:
        """The other nodes are lost for ever: the definitions go on with this one. Their names."""
        cluster_snapshot = self._cluster_snapshot
        others = [each for each in cluster_snapshot.members() if each.id != cluster_snapshot.here]
        for each in others:
            if cluster_snapshot.is_running(each.id):
                raise Refused(
                    f"node '{each.name}' is running; stop the nodes that are not lost first"
                )
        row = self._groups.row(METADATA_OWNER)
        if row is None or row.membership != VOTER or not others:
            raise Refused("this node has no vote about the definitions, or is alone")
        if await reached(lambda: self._alone.leader != 0, self.sure_s):
            raise Refused("the definitions have a leader: there is nothing to recover")
        self._alone.cut_off([each.id for each in others])
        self._alone.stand_alone(row.term + TERM_GAP)
        log.warning("the cluster continues with this node alone, as commanded")
        if not await reached(lambda: self._alone.leader == cluster_snapshot.here, LED_S):
            raise Refused(
                "this node does not lead the definitions yet; forget the others when it does"
            )
        for each in others:
            await self._membership.carry_out(RemoveMember(each.id))
        return tuple(each.name for each in others)

    # On the node of the member

    def _queue(self, uid: int) -> Queue:
        queue = self._cluster_snapshot.metadata.queue(uid)
        if queue is None:
            raise Refused("there is no such queue", missing=True)
        return queue

    async def _recover_here(self, uid: int) -> Recovered:
        queue = self._queue(uid)
        self._voter(queue)
        await self._check_nobody_leads(queue)
        await self._check_nobody_has_more(queue)
        return await self._begin_anew(queue)

    async def _recover_pair(self, uid: int, damaged: int) -> Recovered:
        queue = self._queue(uid)
        pair = {self._cluster_snapshot.here, damaged}
        row = self._voter(queue)
        if set(queue.members) != pair or set(row.voters) != pair or row.learners:
            raise Refused("the queue has other members than these two")
        if self._cluster_snapshot.leader_of(queue) != 0:
            raise Refused("the queue is led")
        answers = await self._asking.ask_others(GROUP, [uid])
        if any(parts is None or parts for parts in answers.values()):
            raise Refused("another node has a member of the queue, or does not say")
        return await self._begin_anew(queue)

    async def _begin_anew(self, queue: Queue) -> Recovered:
        uid = queue.uid
        row = self._voter(queue)
        term = max(row.term, self._terms.term_of(uid)) + TERM_GAP
        if term + TERM_GAP > TERM_MAX:
            raise Refused("the queue was recovered too often; move its messages to another one")
        here = self._cluster_snapshot.here
        lost = tuple(self._cluster_snapshot.name_of(each) for each in queue.members if each != here)
        await self._membership.carry_out(RecoverQueue(uid, here, term))
        name = self._cluster_snapshot.name_of(here)
        done = Recovered(queue.vhost, queue.name, name, term, row.last_index, lost)
        self._tell(done)
        if not await reached(lambda: self._cluster_snapshot.is_led_by(uid, here), LED_S):
            raise Refused("the queue is this member's now, which does not lead it yet")
        return done

    def _voter(self, queue: Queue) -> GroupRow:
        """How the member here stands, if it is one with which a queue can go on."""
        here = self._cluster_snapshot.here
        name = self._cluster_snapshot.name_of(here)
        if here not in queue.members:
            raise Refused(f"node '{name}' has no member of the queue")
        row = self._groups.row(queue.uid)
        if row is None:
            raise Refused(f"the member on node '{name}' takes no part: its log is not whole")
        if row.membership != VOTER:
            raise Refused(f"the member on node '{name}' never had all of the queue")
        return row

    async def _check_nobody_leads(self, queue: Queue) -> None:
        """Not for a while: an election may be under way, if a member can start one."""
        cluster_snapshot = self._cluster_snapshot
        if (
            cluster_snapshot.group(queue).online <= {cluster_snapshot.here}
            and cluster_snapshot.leader_of(queue) == 0
        ):
            return
        if await reached(lambda: cluster_snapshot.leader_of(queue) != 0, self.sure_s):
            leader = cluster_snapshot.name_of(cluster_snapshot.leader_of(queue))
            raise Refused(f"node '{leader}' leads the queue: there is nothing to recover")

    async def _check_nobody_has_more(self, queue: Queue) -> None:
        """Members that can be asked: the one with the longest log is to go on."""
        group: GroupView = self._cluster_snapshot.group(queue)
        for member in sorted(group.online - {self._cluster_snapshot.here}):
            try:
                rows = await self._asking.ask(member, GROUP, [queue.uid])
            except NoAnswer:
                continue
            own = self._voter(queue)
            for row in rows:
                if row["membership"] == VOTER and row["last_index"] > own.last_index:
                    name = self._cluster_snapshot.name_of(member)
                    raise Refused(
                        f"the member on node '{name}' has more of the queue: "
                        f"{row['last_index']} entries, and this one {own.last_index}"
                    )

    def _tell(self, done: Recovered) -> None:
        log.warning(
            "queue '%s' in vhost '%s' continues with the member on %s alone, without %s",
            *(done.name, done.vhost, done.node, ", ".join(done.lost)),
            extra=ids_of(queue=done.name, vhost=done.vhost),
        )
        if self.on_recovered is not None:
            self.on_recovered(done)
