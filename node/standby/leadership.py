"""Whether this node leads queues, as majorities of their members say now. Not compiled.

    leadership = Leadership(broker)
    leadership.serve(operating.status)              # as a member of queues that others lead
    sure = await leadership.confirmed(uids)

A leader that is cut off, or was halted, lacks what the next one confirms. A group that rests is not
woken for the question: its leader has applied all that is committed, so it asks the nodes of the
other voters, one question for all groups, whether they have seen a later term. A later leader needs
the vote of some member of each majority, and a member has the term of its vote before it votes. A
group that is at work is asked by a read barrier of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from node.cluster.services.status_channel import NoAnswer, StatusChannel
from raft.group import Group
from raft.status import LEADER

if TYPE_CHECKING:
    from node.broker import Broker

TERMS: Final = "standby-terms"  # question to other nodes
PATIENCE_S: Final = 2.0
PART_MAX: Final = 500  # groups that are looked at in one turn

Claim = tuple[int, int, int]  # uid, incarnation and term of a group that this node leads


class Leadership:
    """See the module."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def serve(self, status: StatusChannel) -> None:
        status.serve(TERMS, self._asked_terms)

    async def confirmed(self, uids: Sequence[int]) -> set[int]:
        """Those of the queues that this node leads; what was committed when it was asked has been
        applied here. Queues without a group and mirrored ones are led as the definitions say."""
        sure: set[int] = set()
        resting: list[Group] = []
        busy: list[Group] = []
        for uid in uids:
            group = self._broker.raft.group(uid)
            if not self._broker.operating.is_led_here(uid):
                continue
            if group is None or group.mirror_owner is not None:
                sure.add(uid)
            elif group.raft.role == LEADER and group.raft.is_idle:
                resting.append(group)
            else:
                busy.append(group)
        agreed = await self._agreed(resting)
        busy += [each for each in resting if each.uid not in agreed]
        barriers = [self._barrier(each) for each in busy]  # Their groups ask the others together.
        passed = zip(busy, await asyncio.gather(*barriers), strict=True)
        return sure | agreed | {int(group.uid) for group, is_passed in passed if is_passed}

    # Groups that rest

    async def _agreed(self, groups: Sequence[Group]) -> set[int]:
        """Those whose leadership a majority of their voters has not seen to be over."""
        missing: dict[int, int] = {}  # votes, by uid
        claims: dict[int, list[Claim]] = {}  # by voter
        for group in groups:
            here, voters = group.raft.member, group.raft.config.voters
            missing[group.uid] = len(voters) // 2 + 1 - (here in voters)
            for each in voters:
                if each != here:
                    claim = (int(group.uid), int(group.incarnation), int(group.raft.term))
                    claims.setdefault(int(each), []).append(claim)
        agreed = {uid for uid, votes in missing.items() if votes <= 0}
        asked = [asyncio.ensure_future(self._votes(*each)) for each in claims.items()]
        try:
            for answer in asyncio.as_completed(asked):
                for uid in await answer:
                    missing[uid] -= 1
                    if not missing[uid]:
                        agreed.add(uid)
                if len(agreed) == len(groups):
                    break
        finally:
            for question in asked:
                question.cancel()
        return agreed

    async def _votes(self, voter: int, claims: list[Claim]) -> list[int]:
        """Uids of the groups to which that node agrees."""
        try:
            parts = await self._broker.operating.status.ask(voter, TERMS, claims, PATIENCE_S)
        except NoAnswer:
            return []
        return [uid for part in parts for uid in part]

    async def _asked_terms(self, asker: int, about: Any) -> AsyncIterator[object]:
        for start in range(0, len(about), PART_MAX):
            yield [
                uid
                for uid, incarnation, term in about[start : start + PART_MAX]
                if self._knows_no_later(uid, incarnation, term)
            ]

    def _knows_no_later(self, uid: int, incarnation: int, term: int) -> bool:
        group = self._broker.raft.group(uid)
        if group is None or group.incarnation != incarnation:
            return False
        return bool(group.raft.term <= term)

    # Groups at work

    def _barrier(self, group: Group) -> "asyncio.Future[bool]":
        passed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def answered(is_sure: bool) -> None:
            if not passed.done():
                passed.set_result(is_sure)

        self._broker.turn.begin()
        if group.barrier(answered) is not None:
            passed.set_result(False)
        return passed
