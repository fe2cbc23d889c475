"""A member that was removed goes once a configuration without it is committed, and never before."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from node.cluster.queues.group_exits import QUESTION, VOTERS, GroupExits
from node.cluster.services.status_channel import NoAnswer
from raft.status import Status

HERE = 3
LEADER = 1
UID = 7


class FakeCluster:
    """Members, leaders and the way to other nodes."""

    def __init__(self) -> None:
        self.uids = [UID]
        self.handed_over: list[int] = []
        self.left: list[int] = []
        self.leader: tuple[int, int] | None = (LEADER, 4)
        self.answer: list[list[object]] | None = []
        self.asked = 0
        self.damaged = False
        self.questions: list[str] = []
        self.served: list[str] = []

    def leaving(self) -> list[int]:
        return [uid for uid in self.uids if uid not in self.left]

    def is_damaged(self, uid: int) -> bool:
        return self.damaged

    def leave(self, uid: int) -> None:
        self.left.append(uid)

    def hand_over(self, uid: int) -> None:
        self.handed_over.append(uid)

    def status(self, uid: int) -> Status | None:
        return None

    def leader_of(self, uid: int) -> tuple[int, int] | None:
        return self.leader

    async def ask(self, member: int, question: str, about: object = None) -> list[Any]:
        assert (member, about) == (LEADER, UID)
        self.asked += 1
        self.questions.append(question)
        if self.answer is None:
            raise NoAnswer("gone")
        return self.answer

    def serve(self, question: str, answer: Callable[[int, Any], AsyncIterator[object]]) -> None:
        self.served.append(question)


def looked(cluster: FakeCluster, *answers: list[list[object]] | None) -> list[int]:
    async def look() -> None:
        exits = GroupExits(HERE, cluster, cluster, cluster)
        for answer in answers:
            cluster.answer = answer
            exits.tick()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        exits.stop()

    asyncio.run(look())
    return cluster.left


@pytest.mark.parametrize(
    "answers",
    [
        [[[4, 9, 9, [1, 2]]]],  # asked once
        [[[4, 5, 9, [1, 2]]], [[4, 8, 12, [1, 2]]]],  # not all of it is committed
        [[[4, 9, 9, [1, 2]]], [[5, 12, 12, [1, 2]]]],  # of another leader
        [[[4, 9, 9, [1, 2]]], [[4, 9, 9, [1, 2, 3]]], [[4, 12, 12, [1, 2]]]],  # taken back
        [[], []],  # who is asked does not lead
        [None, None],
    ],
)
def test_a_member_stays_while_the_group_may_still_have_it(
    answers: list[list[list[object]] | None],
) -> None:
    assert looked(FakeCluster(), *answers) == []


def test_a_member_goes_when_the_log_without_it_is_committed() -> None:
    assert looked(FakeCluster(), [[4, 5, 9, [1, 2]]], None, [[4, 9, 14, [1, 2]]]) == [UID]


def test_a_leader_that_is_to_leave_tries_again_to_hand_the_lead_over() -> None:
    """The member that was to lead may be lost meanwhile."""
    cluster = FakeCluster()
    looked(cluster, [[4, 9, 9, [1, 2, 3]]], [[4, 9, 9, [1, 2, 3]]])
    assert cluster.handed_over == [UID, UID]


def test_nobody_is_asked_who_is_this_node_or_nobody() -> None:
    cluster = FakeCluster()
    cluster.leader = (HERE, 4)
    assert looked(cluster, [[4, 9, 9, []]]) == []
    cluster.leader = None
    assert looked(cluster, [[4, 9, 9, []]]) == []
    assert cluster.asked == 0


def test_who_is_damaged_asks_who_votes_though_the_definitions_may_name_it_again() -> None:
    cluster = FakeCluster()
    cluster.damaged = True
    answers: list[list[object]] = [[4, 8, 9, [1, 2]]]
    assert looked(cluster, answers) == []
    assert looked(cluster, answers, [[4, 9, 9, [1, 2]]]) == [UID]
    assert set(cluster.questions) == {VOTERS}
    assert {QUESTION, VOTERS} <= set(cluster.served)
