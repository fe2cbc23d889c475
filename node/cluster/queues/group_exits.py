"""Members of quorum queues that were removed, and did not hear of it.

The leader of a group sends a member nothing more once it is removed, so a member that was away,
or behind, goes on waiting. When the definitions name this node no more as one of a queue's members,
who leads the queue is asked how the group stands: the member goes when a configuration without it
is committed. That is so if it was in the log at one answer, and all of that log is committed at a
later one of the same term.

A member whose log is damaged goes as soon as it votes no more: who is named again while it is still
here is a learner in the group, which is not one before it was removed.

One question is open at a time; who does not answer is asked again. The tasks are ended by `stop`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final, Protocol

from node.cluster.services.status_channel import NoAnswer
from raft.status import LEADER, ROLE_NAMES, Status

QUESTION: Final = "group members"  # uid -> [term, commit index, last index, members], of a leader
VOTERS: Final = "group voters"  # the same with those who vote alone


class Members(Protocol):
    """The members here (`node.cluster.queues.quorum_channel.QuorumQueues`)."""

    def leaving(self) -> list[int]:
        """Uids of queues whose definition names this node no more."""

    def is_damaged(self, uid: int) -> bool:
        """Whether it has to go although the definitions may name this node again."""

    def leave(self, uid: int) -> None:
        """The group has this node no more."""

    def hand_over(self, uid: int) -> None:
        """Try again to have another member lead the group, if this node leads it."""

    def status(self, uid: int) -> Status | None: ...


class LeaderTable(Protocol):
    """`node.cluster.queues.leader_table.Leaders`."""

    def leader_of(self, uid: int) -> tuple[int, int] | None: ...


class Asking(Protocol):
    """`node.cluster.services.status_channel.StatusChannel`."""

    async def ask(self, member: int, question: str, about: object = None) -> list[Any]: ...

    def serve(self, question: str, answer: Callable[[int, Any], AsyncIterator[object]]) -> None: ...


class GroupExits:
    """Invariant: `_seen` has, of queues that are being left, term and last index of a log in whose
    configuration this node was not."""

    def __init__(self, member: int, members: Members, leaders: LeaderTable, asking: Asking) -> None:
        self._member = member
        self._members = members
        self._leaders = leaders
        self._asking = asking
        self._seen: dict[int, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None
        asking.serve(QUESTION, self._asked)
        asking.serve(VOTERS, self._asked_voters)

    def tick(self) -> None:
        """Once in a while."""
        if self._task is None or self._task.done():
            leaving = self._members.leaving()
            for uid in leaving:
                self._members.hand_over(uid)
            if leaving:
                self._task = asyncio.get_running_loop().create_task(self._ask(leaving))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _ask(self, uids: list[int]) -> None:
        for uid in uids:
            leader = self._leaders.leader_of(uid)
            if leader is None or leader[0] == self._member:
                continue
            try:
                question = VOTERS if self._members.is_damaged(uid) else QUESTION
                rows = await self._asking.ask(leader[0], question, uid)
            except NoAnswer:
                continue
            for term, commit_index, last_index, members in rows:
                self._answered(uid, term, commit_index, last_index, members)

    def _answered(
        self, uid: int, term: int, commit_index: int, last_index: int, members: list[int]
    ) -> None:
        if self._member in members:
            self._seen.pop(uid, None)
            return
        seen = self._seen.get(uid)
        if seen is None or seen[0] != term:
            self._seen[uid] = (term, last_index)
        elif commit_index >= seen[1] and uid in self._members.leaving():
            del self._seen[uid]
            self._members.leave(uid)

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        status = self._leading(about)
        if status is not None:
            yield row_of(status, status.config.members())

    async def _asked_voters(self, asker: int, about: Any) -> AsyncIterator[object]:
        status = self._leading(about)
        if status is not None:
            yield row_of(status, status.config.voters)

    def _leading(self, about: Any) -> Status | None:
        """How the group stands that is asked for, if it is led from here."""
        status = self._members.status(about) if isinstance(about, int) else None
        return status if status is not None and status.role == ROLE_NAMES[LEADER] else None


def row_of(status: Status, members: Iterable[int]) -> list[object]:
    numbers = (status.term, status.commit_index, status.last_index)
    return [*(int(each) for each in numbers), [int(each) for each in members]]
