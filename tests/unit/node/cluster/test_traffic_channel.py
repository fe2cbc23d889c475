"""Leaders that follow traffic: advised or moved, few at a time, by one node, to those that can."""

import asyncio
from typing import Any

import pytest

from node.cluster.coordination.coordination_interface import Holding, NoCoordination, OnHeld
from node.cluster.queues.traffic_channel import FOLLOW, LAG_MAX, TrafficChannel, TrafficParts
from node.cluster.services.status_channel import NoAnswer
from queues.definitions.broker_objects import Queue
from queues.placement.leader_traffic import ADVISE, AUTO, Advice, Bounds
from tests.unit.node.cluster.operating_world import OperatingWorld

BOUNDS = Bounds(time_ms=6000, transfers_max=1)
TICK_MS = 1000
MUCH = 1_000_000


class FakeQueues:
    """The followed queues of one node, and what is carried to and from each between two looks."""

    def __init__(self, world: OperatingWorld, here: int) -> None:
        self._world = world
        self._here = here
        self.followed: dict[int, str] = {}
        self.carries: dict[int, dict[int, int]] = {}
        self.asked = 0

    def is_led(self, uid: int) -> bool:
        return self._world.leaders.table.get(uid, (0, 0))[0] == self._here

    def carried(self, uid: int) -> dict[int, int]:
        self.asked += 1
        return dict(self.carries.get(uid, {}))


class Held:
    """Coordination in which one node has every job."""

    is_running = True

    def __init__(self, member: int) -> None:
        self._member = member

    def holder(self, job: str) -> Holding | None:
        return Holding(self._member, 1)

    def claim(self, job: str, told: OnHeld) -> None:
        """A client has it."""

    def release(self, job: str) -> None:
        """And keeps it."""

    def loads(self) -> dict[int, Any]:
        return {}


class Harness:
    """Three nodes, with the part on each."""

    def __init__(self, judge: int = 0, bounds: Bounds = BOUNDS) -> None:
        self.world = OperatingWorld()
        self.queues = {number: FakeQueues(self.world, number) for number in self.world.nodes}
        self.in_alarm: set[int] = set()
        self.told: list[tuple[str, str]] = []
        self.now_ms = 0
        self.parts: dict[int, TrafficChannel] = {}
        for number, node in self.world.nodes.items():
            service_parts = TrafficParts(
                node.membership,
                node.groups,
                Held(judge) if judge else NoCoordination(),
                lambda: 1,
                self.in_alarm.__contains__,
                node.status,
                self._advised,
            )
            self.parts[number] = TrafficChannel(service_parts, self.queues[number], bounds)

    def _advised(self, queue: Queue, node: str, advice: Advice) -> None:
        self.told.append((queue.name, node))

    def queue(self, name: str, mode: str = AUTO, leader: int = 1) -> Queue:
        """Followed on all nodes, with all of its traffic on node 2."""
        queue = self.world.queue(name, (1, 2, 3), leader)
        for each in self.queues.values():
            each.followed[queue.uid] = mode
            each.carries[queue.uid] = {1: 10, 2: MUCH}
        return queue

    def run(self, ticks: int) -> None:
        async def go_on() -> None:
            for _ in range(ticks):
                self.now_ms += TICK_MS
                for part in self.parts.values():
                    part.tick(self.now_ms)
                for _ in range(60):
                    await asyncio.sleep(0)
            for part in self.parts.values():
                part.stop()

        self.world.run(go_on())


@pytest.mark.parametrize("judge", [0, 1, 3])
def test_the_leader_goes_to_the_node_that_carries_its_traffic(judge: int) -> None:
    harness = Harness(judge)
    queue = harness.queue("q")
    harness.run(6)
    assert harness.world.leader_of(queue) == 1  # The first look begins it.
    harness.run(3)
    assert harness.world.leader_of(queue) == 2
    assert harness.told == [("q", "n2")]
    assert (harness.parts[1].advised, harness.parts[1].moved) == (1, 1)
    harness.run(30)
    assert harness.world.leader_of(queue) == 2
    assert not any(part.advices for part in harness.parts.values())


def test_what_is_only_advised_is_told_and_shown_on_every_node() -> None:
    harness = Harness()
    queue = harness.queue("q", ADVISE)
    harness.run(20)
    assert harness.world.leader_of(queue) == 1
    assert harness.told == [("q", "n2")]
    for part in harness.parts.values():
        (row,) = harness.world.run(part.planned(lambda each: True))
        assert (row["name"], row["from"], row["to"], row["share_percent"]) == ("q", "n1", "n2", 99)
        assert not harness.world.run(part.planned(lambda each: False))


def test_a_policy_that_is_taken_back_ends_the_advice() -> None:
    harness = Harness()
    queue = harness.queue("q", ADVISE)
    harness.run(9)
    assert harness.parts[1].advices
    harness.queues[1].followed.clear()
    harness.run(2)
    assert not harness.parts[1].advices
    asked = harness.queues[1].asked
    harness.run(9)
    assert harness.queues[1].asked == asked
    assert harness.world.leader_of(queue) == 1


def test_nothing_goes_to_nodes_that_are_down_drained_in_alarm_or_behind() -> None:
    harness = Harness()
    queue = harness.queue("q")
    harness.in_alarm.add(2)
    harness.run(12)
    harness.in_alarm.clear()
    harness.world.nodes[1].groups.changed = {"lags": {2: LAG_MAX + 1}}
    harness.run(12)
    harness.world.nodes[1].groups.changed = {}
    harness.world.run(harness.world.nodes[1].membership.set_draining(2, True))
    harness.run(12)
    harness.world.run(harness.world.nodes[1].membership.set_draining(2, False))
    harness.world.nodes[1].groups.settled[queue.uid] = (1, 3)  # The member there does not vote yet.
    harness.run(12)
    harness.world.nodes[1].groups.settled.clear()
    assert harness.world.leader_of(queue) == 1 and not harness.told
    harness.run(12)
    assert harness.world.leader_of(queue) == 2


def test_one_queue_moves_after_the_other() -> None:
    harness = Harness()
    queues = [harness.queue(name, leader=leader) for name, leader in (("a", 1), ("b", 3), ("c", 3))]
    harness.world.nodes[1].groups.stubborn.add(queues[0].uid)
    harness.run(9)
    assert [harness.world.leader_of(each) for each in queues].count(2) < 3
    harness.world.nodes[1].groups.stubborn.clear()
    harness.run(60)
    assert [harness.world.leader_of(each) for each in queues] == [2, 2, 2]


def test_a_node_that_does_not_decide_moves_nothing() -> None:
    harness = Harness(judge=3)
    queue = harness.queue("q")
    asked: list[str] = []

    async def ask() -> None:
        try:
            await harness.world.nodes[1].status.ask(2, FOLLOW, [queue.uid, 2])
        except NoAnswer as error:
            asked.append(str(error))

    harness.world.run(ask())
    assert asked == ["another node decides about leaders"]
    assert harness.world.leader_of(queue) == 1


def test_queues_without_traffic_are_known_to_whoever_spreads_leaders() -> None:
    harness = Harness()
    queues = {name: harness.queue(name, leader=place) for place, name in enumerate("abc", 1)}
    told = harness.queue("told", ADVISE)
    for name in ("a", "c"):
        for each in harness.queues.values():
            each.carries[queues[name].uid] = {2: 10}
    for each in harness.queues.values():
        each.carries[told.uid] = {}
    harness.run(5)
    assert harness.world.run(harness.parts[2].idle()) == frozenset()
    harness.run(3)
    quiet = {queues["a"].uid, queues["c"].uid}
    assert harness.world.run(harness.parts[2].idle()) == quiet
    for each in harness.queues.values():
        each.carries[queues["a"].uid] = {1: MUCH}
    harness.run(2)
    assert harness.world.run(harness.parts[2].idle()) == {queues["c"].uid}
    harness.world.stop(3)
    assert harness.world.run(harness.parts[2].idle()) == set()
