"""What operators do to the cluster and to the members of its quorum queues.

    membership = Membership(cluster_snapshot, definitions, groups, asking)
    await membership.add_member(queue, "rabbit@four")       # Refused says why not
    rows = await membership.grow("rabbit@four", all_queues, even=False)

Takes names of nodes and queues; proposes commands of the definitions (`SetQueueMembers`,
`RemoveMember`, ...) and hands leaderships over. That a queue's members were set means that every
node knows it; its log group follows by itself, one member at a time, and shows in `quorum_status`.
A leadership is handed over by the node that has it, which is asked to (`StatusChannel`). Nothing
here
costs a queue its majority unless forced (`force`).

Limits: changes of many queues go IN_FLIGHT at a time, hand-overs one by one for each node. When
something fails, the queue it failed for has the reason in its row, and the others go on.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import islice
from random import Random
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from node.cluster.queues.cluster_snapshot import Chosen, ClusterSnapshot, placement_tag
from node.cluster.queues.log_groups import Groups, plain_row, status_row
from node.cluster.services.status_channel import NoAnswer, Unanswerable
from queues.definitions.broker_objects import Queue, Uid
from queues.definitions.members import Member
from queues.definitions.metadata.commands import (
    Command,
    PutMember,
    RemoveMember,
    SetQueueMembers,
)
from queues.definitions.metadata.outcomes import Outcome
from queues.definitions.metadata.outcomes import Refused as RefusedCommand
from queues.placement.queue_placement import Candidate, add_member
from queues.placement.regrouping import (
    GroupView,
    Move,
    Refusal,
    Step,
    grown,
    is_critical,
    is_majority,
    rebalance,
    shrunk,
)
from raft.log_group import METADATA_OWNER

TRANSFER: Final = "transfer"  # a question: [uid, member] -> [whether it leads now]
GROUP: Final = "group"  # [uid] -> [GroupRow as a list], [] where there is none
IN_FLIGHT: Final = 64
HANDED_OVER_S: Final = 5.0  # a leader that has not changed by then does not
POLL_S: Final = 0.005
HEARD_S: Final = 1.0
MOVES_MAX: Final = 10_000
UNSETTLED: Final = "unsettled"  # [] -> [names of quorum queues that do not have this voter alone]
UNSETTLED_MAX: Final = 10
SETTLED_S: Final = 45.0  # for queues to move to the last node
SETTLED_POLL_S: Final = 0.05

T = TypeVar("T")


class Refused(Exception):
    """It is not done; the text says why. `missing`: what it names is not there. `code`: of the
    reply with which the definitions have refused it; 0: they were not asked."""

    def __init__(self, text: str, missing: bool = False, code: int = 0) -> None:
        super().__init__(text)
        self.missing = missing
        self.code = code


class Definitions(Protocol):
    """`node.cluster.definitions.definitions_interface.Definitions`, or a node alone."""

    @property
    def leader(self) -> int: ...

    def members(self) -> list[Member]: ...

    def member_named(self, name: str) -> Member | None: ...

    def propose(self, command: Command, done: Callable[[Outcome], None] | None = None) -> None: ...


class Asking(Protocol):
    """`node.cluster.services.status_channel.StatusChannel`."""

    def serve(self, question: str, answer: Callable[[int, Any], AsyncIterator[object]]) -> None: ...

    async def ask(
        self, member: int, question: str, about: object = None, timeout_s: float = 2.0
    ) -> list[Any]: ...


class QueueResult(Struct, frozen=True):
    """What became of one queue."""

    vhost: str
    name: str
    size: int
    error: str = ""  # "": it was done


def every_queue(queue: Queue) -> bool:
    return True


class Membership:
    """See the module. All methods run on the loop thread."""

    def __init__(
        self,
        cluster_snapshot: ClusterSnapshot,
        definitions: Definitions,
        groups: Groups,
        asking: Asking,
        random: Random,
    ) -> None:
        self.cluster_snapshot = cluster_snapshot
        self._definitions = definitions
        self._groups = groups
        self._asking = asking
        self._random = random
        asking.serve(TRANSFER, self._transfer_asked)
        asking.serve(GROUP, self._group_asked)
        asking.serve(UNSETTLED, self._unsettled_asked)

    # Changes of the definitions

    async def carry_out(self, command: Command) -> Outcome:
        """Refused, with the text of the definitions, where it is refused."""
        answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def told(outcome: Outcome) -> None:
            if not answered.done():
                answered.set_result(outcome)

        self._definitions.propose(command, told)
        outcome = await answered
        if isinstance(outcome, RefusedCommand):
            raise Refused(outcome.text, code=int(outcome.code))
        return outcome

    async def _take(self, group: GroupView, step: Step | Refusal) -> QueueResult:
        """Carry a step out; never raises for one queue among many."""
        if isinstance(step, Refusal):
            return QueueResult(group.vhost, group.name, len(group.members), step.reason)
        command = self._command(step)
        try:
            await self.carry_out(command)
        except Refused as error:
            return QueueResult(group.vhost, group.name, len(group.members), str(error))
        return QueueResult(group.vhost, group.name, len(command.members))

    def _command(self, step: Step) -> SetQueueMembers:
        """Members that the definitions know no more go with it."""
        known = {each.id for each in self.cluster_snapshot.members()}
        return SetQueueMembers(Uid(step.uid), tuple(each for each in step.members if each in known))

    async def _take_all(
        self, groups: Sequence[GroupView], step_of: Callable[[GroupView], Step | Refusal]
    ) -> list[QueueResult]:
        results: list[QueueResult] = []
        for start in range(0, len(groups), IN_FLIGHT):
            part = groups[start : start + IN_FLIGHT]
            results += await gathered(self._take(each, step_of(each)) for each in part)
        return results

    # Members of quorum queues

    def _candidate(self, node: str) -> Candidate:
        found = next((c for c in self.cluster_snapshot.candidates() if c.member.name == node), None)
        if found is None:
            raise Refused(f"node '{node}' is not a member of the cluster", missing=True)
        return found

    async def add_member(self, queue: Queue, node: str) -> None:
        """One more member of the queue, on that node."""
        group = self.cluster_snapshot.group(queue)
        await self._one(grown(group, self._candidate(node)))

    async def delete_member(self, queue: Queue, node: str) -> None:
        """The queue without its member there; a node that was forgotten is named `gone@ID`."""
        group = self.cluster_snapshot.group(queue)
        names = {self.cluster_snapshot.name_of(each): each for each in group.members}
        if node not in names:
            self._candidate(node)
        await self._one(shrunk(group, names.get(node, 0)))

    async def _one(self, step: Step | Refusal) -> None:
        if isinstance(step, Refusal):
            raise Refused(step.reason)
        await self.carry_out(self._command(step))

    async def grow(self, node: str, chosen: Chosen, even: bool) -> list[QueueResult]:
        """A member there for all queues that are chosen, or for those with an even number."""
        candidate = self._candidate(node)
        groups = [
            each
            for each in self.cluster_snapshot.groups(chosen)
            if candidate.id not in each.members and not (even and len(each.members) % 2)
        ]
        return await self._take_all(groups, lambda group: grown(group, candidate))

    async def shrink(self, node: str, errors_only: bool = False) -> list[QueueResult]:
        """No member there any more, wherever a queue can do without it."""
        member = self._candidate(node).id
        groups = [each for each in self.cluster_snapshot.groups() if member in each.members]
        results = await self._take_all(groups, lambda group: shrunk(group, member))
        return [each for each in results if each.error or not errors_only]

    async def grow_to_count(self, count: int, chosen: Chosen, even: bool) -> list[QueueResult]:
        """As many members for each of the queues, on the best nodes; a member at a time."""
        asked = [
            each
            for each in self.cluster_snapshot.groups(chosen)
            if len(each.members) < count and not (even and len(each.members) % 2)
        ]
        results: list[QueueResult] = []
        for group in asked:
            results.append(await self._grow_to(group, count))
        return results

    async def _grow_to(self, group: GroupView, count: int) -> QueueResult:
        candidates = self.cluster_snapshot.candidates(counted=True)
        queue = self.cluster_snapshot.metadata.queue(Uid(group.uid))
        tag = "" if queue is None else placement_tag(self.cluster_snapshot.arguments_of(queue))
        members = group.members
        while len(members) < count:
            added = add_member(candidates, members, self._random, tag)
            if added is None:
                break
            members = (*members, added)
        if len(members) == len(group.members):
            reason = "no other node may take a member"
            return QueueResult(group.vhost, group.name, len(members), reason)
        return await self._take(group, Step(group.uid, members))

    # Leaders

    async def transfer(self, queue: Queue, node: str) -> None:
        """Have the member there lead the queue."""
        group = self.cluster_snapshot.group(queue)
        target = self._candidate(node)
        if target.id not in group.members:
            raise Refused(f"node '{node}' has no member of the queue")
        if not target.is_running:
            raise Refused(f"node '{node}' is not running")
        if group.leader == 0:
            raise Refused("the queue has no leader")
        if group.leader != target.id and not await self.hand_over(
            Move(group.uid, group.leader, target.id)
        ):
            raise Refused(f"the leader did not move to node '{node}'")

    async def hand_over(self, move: Move) -> bool:
        """Ask the leader's node to; whether the target leads after that. This node has then heard
        of it, too, if the news came within HEARD_S."""
        try:
            answer = await self._asking.ask(
                move.source, TRANSFER, [move.uid, move.target], HANDED_OVER_S + 1
            )
        except NoAnswer:
            return False
        if answer != [True]:
            return False
        if move.uid != METADATA_OWNER:
            await reached(lambda: self.cluster_snapshot.is_led_by(move.uid, move.target), HEARD_S)
        return True

    async def _transfer_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        uid, member = numbers(about, 2)
        begun = self._groups.transfer(uid, member)
        yield begun and await reached(lambda: self._leads_elsewhere(uid, member), HANDED_OVER_S)

    def _leads_elsewhere(self, uid: int, member: int) -> bool:
        row = self._groups.row(uid)
        return row is None or row.leader == member

    async def rebalance(self, kind: str, chosen: Chosen) -> list[dict[str, object]]:
        """Spread the leaders of the quorum queues among these; how many each node leads then.

        Classic queues live where they live; they are counted and not moved.
        """
        if kind != "classic":
            await self.hand_over_all(await self._moves(chosen))
        return self._leader_rows(chosen)

    async def planned(
        self, chosen: Chosen
    ) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        """What `rebalance` would do now: how many each node leads, and the moves."""
        queues = {int(each.uid): each for each in self.cluster_snapshot.queues() if chosen(each)}
        moves = await self._moves(chosen)
        name_of = self.cluster_snapshot.name_of
        rows: list[dict[str, object]] = [
            {
                "vhost": queues[each.uid].vhost,
                "name": queues[each.uid].name,
                "from": name_of(each.source),
                "to": name_of(each.target),
            }
            for each in moves
            if each.uid in queues
        ]
        return self._leader_rows(chosen), rows

    async def _moves(self, chosen: Chosen) -> list[Move]:
        groups, candidates = (
            self.cluster_snapshot.groups(chosen),
            self.cluster_snapshot.candidates(),
        )
        return await asyncio.to_thread(rebalance, groups, candidates, MOVES_MAX)

    async def hand_over_all(self, moves: Sequence[Move]) -> list[Move]:
        """Nodes at the same time, the queues of each one after the other; those that failed."""
        by_source: dict[int, list[Move]] = {}
        for move in moves:
            by_source.setdefault(move.source, []).append(move)
        failed = await gathered(self._hand_over_some(each) for each in by_source.values())
        return [move for part in failed for move in part]

    async def _hand_over_some(self, moves: Sequence[Move]) -> list[Move]:
        return [move for move in moves if not await self.hand_over(move)]

    def _leader_rows(self, chosen: Chosen) -> list[dict[str, object]]:
        quorum = dict.fromkeys((each.name for each in self.cluster_snapshot.members()), 0)
        classic = dict(quorum)
        for queue in self.cluster_snapshot.queues():
            if queue.members:
                name = self.cluster_snapshot.name_of(self.cluster_snapshot.leader_of(queue))
                if chosen(queue) and name in quorum:
                    quorum[name] += 1
            elif queue.node in classic and chosen(queue):
                classic[queue.node] += 1
        return [
            {
                "node": name,
                "number of classic queues": classic[name],
                "number of quorum queues": quorum[name],
            }
            for name in quorum
        ]

    # How it stands

    async def quorum_status(self, queue: Queue) -> list[dict[str, object]]:
        """A row for each member, asked of its node."""
        group = self.cluster_snapshot.group(queue)
        return list(await gathered(self._member_row(group.uid, each) for each in group.members))

    async def _member_row(self, uid: int, member: int) -> dict[str, object]:
        name = self.cluster_snapshot.name_of(member)
        try:
            answer = await self._asking.ask(member, GROUP, [uid])
        except NoAnswer:
            return status_row(name, "nodedown", {})
        return status_row(name, "noproc", answer[0] if answer else {})

    async def _group_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        (uid,) = numbers(about, 1)
        row = self._groups.row(uid)
        if row is not None:
            yield plain_row(row)

    def critical(self, node: int) -> list[GroupView]:
        """Queues with members there that have no majority without that node. None in a cluster of
        one.

        Members that do not vote yet count for nothing, where this node has a member that knows."""
        if len(self.cluster_snapshot.members()) < 2:
            return []
        groups = (self._voting(each) for each in self.cluster_snapshot.groups())
        return [each for each in groups if is_critical(each, node)]

    def _voting(self, group: GroupView) -> GroupView:
        """The group with those members alone that vote, as far as this node knows."""
        row = self._groups.row(group.uid)
        if row is None or not row.voters:
            return group
        online = frozenset(each for each in row.voters if self.cluster_snapshot.is_running(each))
        return replace(group, members=row.voters, online=online)

    def is_definitions_critical(self, node: int) -> bool:
        """Whether the definitions cannot be changed without that node, or even with it."""
        members = tuple(each.id for each in self.cluster_snapshot.members())
        online = frozenset(each for each in members if self.cluster_snapshot.is_running(each))
        if len(members) < 2:
            return False
        return node in online and not is_majority(online - {node}, members)

    def leaderless(self, chosen: Chosen) -> list[Queue]:
        """Quorum queues without a leader, as far as this node has heard."""
        found = self.cluster_snapshot.queues()
        return [
            each
            for each in found
            if each.members and chosen(each) and self.cluster_snapshot.leader_of(each) == 0
        ]

    # Members of the cluster

    async def forget(self, node: str, force: bool = False) -> list[QueueResult]:
        """The node is no member any more, for good; its queues where they could do without it.

        Refused while it runs, unless forced: a running node should be stopped first, or reset. Its
        classic queues are deleted by the leader of the definitions.
        """
        member = self._candidate(node)
        if len(self.cluster_snapshot.members()) < 2:
            raise Refused("a node cannot be forgotten by itself")
        if member.id == self.cluster_snapshot.here and not force:
            raise Refused(f"node '{node}' is this node; reset it, or ask another one")
        if member.is_running and not force:
            raise Refused(f"node '{node}' is running; stop it before it is forgotten")
        self._require_majority()
        if len(self.cluster_snapshot.members()) == 2:
            await self.leave_pair(member.id)
        results = await self.shrink(node)
        await self.carry_out(RemoveMember(member.id))
        return [each for each in results if each.error]

    def _require_majority(self) -> None:
        """Refused if the definitions cannot be changed now: a removal would wait without end."""
        members = self.cluster_snapshot.members()
        down = [each for each in members if not self.cluster_snapshot.is_running(each.id)]
        if 2 * len(down) >= len(members):
            names = ", ".join(f"'{each.name}'" for each in down)
            raise Refused(
                f"{len(members) - len(down)} of {len(members)} nodes run, which is no majority, so "
                f"no node can be removed; start {names}, or, if a majority of the nodes is lost "
                "for ever, run `warrenctl recover_cluster --unsafe` on one that is left"
            )

    # From two nodes to one

    async def leave_pair(self, member: int) -> None:
        """Move the quorum queues and the lead of the definitions off one of two nodes.

        The node is marked as draining, so that no plan and no new queue puts a member there.
        Returns when the other node is the only voter of every quorum queue and has committed that:
        it then needs no vote of the node that leaves. Refused, with the mark as it was, if that
        takes more than SETTLED_S.
        """
        self._require_majority()
        leaving, other = self._pair(member)
        await self.set_draining(member, True)
        try:
            await self._move_to(other, member)
        except Refused:
            await self.set_draining(member, leaving.draining)
            raise

    def _pair(self, member: int) -> tuple[Member, Member]:
        """The node that leaves, and the one that stays."""
        members = self.cluster_snapshot.members()
        leaving = [each for each in members if each.id == member]
        others = [each for each in members if each.id != member]
        if len(leaving) != 1 or len(others) != 1:
            raise Refused(f"the cluster has {len(members)} nodes, not two")
        return leaving[0], others[0]

    async def _move_to(self, other: Member, leaving: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLED_S
        while True:
            if self._definitions.leader == leaving:
                await self.hand_over(Move(METADATA_OWNER, leaving, other.id))
            await self._set_only_member(other.id)
            unsettled = await self._unsettled_on(other.id)
            if not unsettled and self._definitions.leader == other.id:
                return
            if loop.time() >= deadline:
                what = ", ".join(unsettled) or "the definitions"
                raise Refused(
                    f"not moved to node '{other.name}' within {SETTLED_S:.0f} s: {what}; try again"
                )
            await asyncio.sleep(SETTLED_POLL_S)

    async def _set_only_member(self, member: int) -> None:
        """Each quorum queue gets that node as its only member, after it has become one."""
        groups = [each for each in self.cluster_snapshot.groups() if each.members != (member,)]
        new = [each for each in groups if member not in each.members]
        await self._take_all(new, lambda each: Step(each.uid, (*each.members, member)))
        await self._take_all(groups, lambda each: Step(each.uid, (member,)))

    async def _unsettled_on(self, member: int) -> list[str]:
        try:
            return [str(each) for each in await self._asking.ask(member, UNSETTLED)]
        except NoAnswer as error:
            raise Refused(str(error)) from error

    async def _unsettled_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        found = (each for each in self.cluster_snapshot.groups() if not self._is_alone_in(each))
        for group in islice(found, UNSETTLED_MAX):
            yield f"queue '{group.name}' in vhost '{group.vhost}'"

    def _is_alone_in(self, group: GroupView) -> bool:
        """Whether this node is the only voter of the queue, by a committed configuration."""
        here = (self.cluster_snapshot.here,)
        row = self._groups.row(group.uid)
        if row is None or group.members != here:
            return False
        return row.voters == here and not row.learners and row.is_config_committed

    async def set_draining(self, member: int, draining: bool) -> None:
        """Mark the node for all."""
        found = next((each for each in self.cluster_snapshot.members() if each.id == member), None)
        if found is None:
            raise Refused("this node is not a member of the cluster", missing=True)
        if found.draining != draining:
            await self.carry_out(PutMember(replace(found, draining=draining)))

    async def lead_definitions_elsewhere(self) -> bool:
        """Hand the lead of the definitions to another node that runs; True if this one has none."""
        row = self._groups.row(METADATA_OWNER)
        here = self.cluster_snapshot.here
        if row is None or not row.is_leader or self._definitions.leader != here:
            return True
        for candidate in self.cluster_snapshot.candidates():
            if candidate.id in row.voters and candidate.id != here and candidate.is_eligible:
                move = Move(METADATA_OWNER, here, candidate.id)
                if await self.hand_over(move):
                    return True
        return False


async def gathered(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*awaitables))


async def reached(is_so: Callable[[], bool], seconds: float) -> bool:
    """Whether something came to be so within that time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not is_so():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def numbers(about: Any, count: int) -> list[int]:
    """What a question is about, if it is so many numbers; Unanswerable else."""
    if not isinstance(about, list) or len(about) != count:
        raise Unanswerable(f"wanted {count} numbers")
    if not all(isinstance(each, int) for each in about):
        raise Unanswerable(f"wanted {count} numbers")
    return about
