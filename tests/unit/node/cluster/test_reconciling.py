"""Queues get back to their size, and leaders spread, without a command."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from node.cluster.coordination.coordination_interface import NoCoordination, OnHeld
from node.cluster.queues import reconciling
from node.cluster.queues.reconciling import IDLE_MS, SETTLED_MS, Reconciling, Rules
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.commands import (
    Command,
    PutMember,
    PutPolicy,
    RemoveMember,
)
from queues.definitions.metadata.outcomes import Added
from tests.unit.node.cluster.operating_world import OperatingWorld, member

SECOND = 1000
HOUR = 3600 * SECOND


class FakeCoordination(NoCoordination):
    """Gives jobs out as the test says."""

    def __init__(self) -> None:
        self.told: OnHeld = lambda fencing: None

    @property
    def is_running(self) -> bool:
        return True

    def claim(self, job: str, told: OnHeld) -> None:
        self.told = told


class Site:
    """A world in which each node reconciles; time goes on by hand, in steps of a second."""

    def __init__(self, world: OperatingWorld, rules: Rules | None = None) -> None:
        self.world = world
        self.now_ms = 0
        self.coordination = {number: NoCoordination() for number in world.nodes}
        self.parts: dict[int, Reconciling] = {}
        self.rules = rules or Rules(auto_rebalance=False)

    def make(self) -> None:
        for number, node in self.world.nodes.items():
            self.parts[number] = Reconciling(
                node.membership,
                node.groups,
                self.coordination[number],
                self.leads_definitions(number),
                self.rules,
                Random(number),
            )

    def do(self, command: Command) -> None:
        """Apply a command; all nodes follow its changes."""
        outcome = self.world.do(command)
        for part in self.parts.values():
            part.definitions_changed(outcome.changes)

    def leads_definitions(self, number: int) -> Callable[[], bool]:
        return lambda: number == 1

    def run(self, seconds: int) -> None:
        async def tick() -> None:
            for _ in range(seconds):
                self.now_ms += SECOND
                for part in self.parts.values():
                    part.tick(self.now_ms)
                for _ in range(3):
                    await asyncio.sleep(0)
            await self.settled()

        if not self.parts:
            self.make()
        self.world.run(tick())

    async def settled(self) -> None:
        tasks = [part.task for part in self.parts.values() if part.task is not None]
        await asyncio.gather(*(each for each in tasks if not each.done()))


def members(world: OperatingWorld, queue: Queue) -> list[int]:
    return sorted(world.members_of(queue))


def test_a_queue_gets_the_members_that_it_lacks_and_those_of_forgotten_nodes_go() -> None:
    world = OperatingWorld(4)
    short = world.queue("short", (1,), leader=1)
    lost = world.queue("lost", (1, 2, 4), leader=2)
    site = Site(world)
    world.stop(4)
    world.do(RemoveMember(4))
    site.run(60)
    assert members(world, short) == [1, 2, 3]
    assert members(world, lost) == [1, 2, 3]


def test_nothing_is_done_for_a_queue_that_is_led_elsewhere_or_has_no_leader() -> None:
    world = OperatingWorld()
    away = world.queue("away", (2,), leader=2)
    unplaced = world.queue("unplaced", (1,))
    site = Site(world)
    site.make()
    del site.parts[2]
    site.run(60)
    assert (members(world, away), members(world, unplaced)) == ([2], [1])


def test_the_next_change_waits_until_the_group_is_what_the_definitions_say() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1,), leader=1)
    world.nodes[1].groups.settled[queue.uid] = (1,)
    site = Site(world)
    site.run(60)
    assert len(members(world, queue)) == 2
    del world.nodes[1].groups.settled[queue.uid]
    site.run(60)
    assert len(members(world, queue)) == 3


def test_a_member_that_joins_on_a_node_that_is_forgotten_is_replaced() -> None:
    world = OperatingWorld(4)
    queue = world.queue("q", (1, 2, 4), leader=1)
    groups = world.nodes[1].groups
    groups.settled[queue.uid] = (1, 2)
    groups.changed["learners"] = (4,)
    site = Site(world)
    site.run(60)
    assert members(world, queue) == [1, 2, 4]  # It may still catch up.
    world.stop(4)
    world.do(RemoveMember(4))
    site.run(60)
    assert members(world, queue) == [1, 2, 3]


def test_a_member_that_joins_on_a_node_that_is_taken_for_dead_is_replaced() -> None:
    world = OperatingWorld(4)
    queue = world.queue("q", (1, 2, 4), leader=1)
    groups = world.nodes[1].groups
    groups.settled[queue.uid] = (1, 2)
    groups.changed["learners"] = (4,)
    site = Site(world, Rules(auto_rebalance=False, dead_after_ms=100 * SECOND))
    world.stop(4)
    site.run(80)
    assert members(world, queue) == [1, 2, 4]
    site.run(80)
    assert members(world, queue) == [1, 2, 3, 4]
    groups.settled[queue.uid] = (1, 2, 3)
    site.run(60)
    assert members(world, queue) == [1, 2, 3]


def test_policies_and_arguments_say_how_many_members_there_are_to_be() -> None:
    world = OperatingWorld(5)
    small = world.queue("small", (1,), leader=1, more={"x-quorum-initial-group-size": 1})
    large = world.queue("large", (1,), leader=1, more={"x-quorum-target-group-size": 4})
    ruled = world.queue("ruled", (1,), leader=1, more={"x-quorum-initial-group-size": 1})
    world.do(PutPolicy("/", "p", False, "ruled", "all", 0, b'{"target-group-size":5}'))
    site = Site(world)
    site.run(120)
    sizes = [len(members(world, each)) for each in (small, large, ruled)]
    assert sizes == [1, 4, 5]


LARGER = PutPolicy("/", "p", False, "", "all", 0, b'{"target-group-size":3}')


def test_a_changed_policy_is_followed_within_the_trigger_interval() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1,), leader=1, more={"x-quorum-initial-group-size": 1})
    site = Site(world)
    site.run(120)
    assert members(world, queue) == [1]
    site.do(LARGER)
    site.run(9)
    assert members(world, queue) == [1]
    site.run(30)
    assert members(world, queue) == [1, 2, 3]


def test_a_policy_that_changes_during_a_round_triggers_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconciling, "QUEUES_A_TICK", 1)
    world = OperatingWorld()
    arguments = {"x-quorum-initial-group-size": 1}
    queues = [world.queue(f"q{each}", (1,), leader=1, more=arguments) for each in range(3)]
    site = Site(world)
    site.run(120)
    site.do(PutPolicy("/", "other", False, "none", "all", 0, b'{"max-length":3}'))
    site.run(11)  # The round has looked at the first queue.
    site.do(PutPolicy("/", "p", False, "q0", "all", 0, b'{"target-group-size":3}'))
    site.run(60)
    assert [len(members(world, each)) for each in queues] == [3, 1, 1]


def test_a_queue_that_is_declared_with_too_few_members_gets_them_soon() -> None:
    world = OperatingWorld()
    site = Site(world)
    site.run(120)
    queue = world.queue("q", (1,), leader=1)
    for part in site.parts.values():
        part.definitions_changed([Added(queue)])
    site.run(40)
    assert members(world, queue) == [1, 2, 3]


def test_new_members_are_spread_over_the_tag_that_the_queue_names() -> None:
    world = OperatingWorld(5)
    for number, rack in enumerate(("r1", "r1", "r1", "r2", "r3"), 1):
        world.do(PutMember(member(number, tags=(("rack", rack),))))
    tag = {"x-member-placement-tag": "rack"}
    queues = [world.queue(f"q{number}", (1,), leader=1, more=tag) for number in range(4)]
    Site(world).run(60)
    assert [members(world, each) for each in queues] == [[1, 4, 5]] * 4


def test_a_member_on_a_node_that_is_down_stays_until_the_node_is_taken_for_dead() -> None:
    world = OperatingWorld(4)
    queue = world.queue("q", (1, 2, 3), leader=1)
    rules = Rules(auto_rebalance=False, dead_after_ms=100 * SECOND, interval_ms=20 * SECOND)
    site = Site(world, rules)
    world.stop(3)
    site.run(80)
    assert members(world, queue) == [1, 2, 3]
    site.run(80)
    assert members(world, queue) == [1, 2, 4]


def test_a_node_that_comes_back_begins_its_time_anew() -> None:
    world = OperatingWorld(4)
    queue = world.queue("q", (1, 2, 3), leader=1)
    rules = Rules(auto_rebalance=False, dead_after_ms=100 * SECOND, interval_ms=20 * SECOND)
    site = Site(world, rules)
    for _ in range(3):
        world.stop(3)
        site.run(80)
        for other in (1, 2, 4):
            world.net.join(3, other)
        site.run(5)
    assert members(world, queue) == [1, 2, 3]


def test_nothing_happens_where_it_is_switched_off() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1,), leader=1)
    site = Site(world, Rules(is_on=False, auto_rebalance=False))
    site.run(60)
    assert members(world, queue) == [1]


def test_members_are_kept_where_they_may_not_be_removed() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2, 3), leader=1)
    site = Site(world, Rules(auto_rebalance=False, auto_remove=False))
    world.stop(3)
    world.do(RemoveMember(3))
    site.run(60)
    assert members(world, queue) == [1, 2, 3]


# Leaders


def spread(world: OperatingWorld, queues: list[Queue]) -> list[int]:
    leaders = [world.leader_of(each) for each in queues]
    return [leaders.count(number) for number in world.nodes]


def led_by_one(world: OperatingWorld) -> list[Queue]:
    return [world.queue(f"q{number}", (1, 2, 3), leader=1) for number in range(6)]


def test_leaders_spread_once_the_cluster_is_at_rest() -> None:
    world = OperatingWorld()
    queues = led_by_one(world)
    site = Site(world, Rules())
    site.run(SETTLED_MS // SECOND - 1)
    assert spread(world, queues) == [6, 0, 0]
    site.run(3)
    assert spread(world, queues) == [2, 2, 2]


def test_leaders_that_somebody_moved_stay_until_a_node_comes_or_goes() -> None:
    world = OperatingWorld()
    queues = led_by_one(world)
    site = Site(world, Rules())
    site.run(120)
    for each in queues:
        world.leaders.table[each.uid] = (1, 9)
    site.run(120)
    assert spread(world, queues) == [6, 0, 0]
    world.stop(3)
    site.run(20)
    assert spread(world, queues) == [3, 3, 0]


def test_leaders_of_idle_queues_that_follow_their_traffic_are_spread_some_time_later() -> None:
    """Those of the others stay where their traffic is, and all of them until that is known."""
    world = OperatingWorld()
    queues = led_by_one(world)
    policy = b'{"leader-follows-traffic":"auto"}'
    world.do(PutPolicy("/", "p", False, "", "quorum_queues", 0, policy))
    site = Site(world, Rules())
    site.make()
    asked: list[int] = []

    async def idle() -> frozenset[int]:
        asked.append(site.now_ms)
        return frozenset(each.uid for each in queues[:3])

    for part in site.parts.values():
        part.idle = idle
    site.run((SETTLED_MS + IDLE_MS) // SECOND - 1)
    assert (spread(world, queues), asked) == ([6, 0, 0], [])
    site.run(3)
    assert (spread(world, queues), len(asked)) == ([4, 1, 1], 1)
    site.run(300)
    assert (spread(world, queues), len(asked)) == ([4, 1, 1], 2)


def test_only_who_has_the_job_moves_leaders() -> None:
    world = OperatingWorld()
    queues = led_by_one(world)
    site = Site(world, Rules())
    holders = {number: FakeCoordination() for number in world.nodes}
    site.coordination.update(holders)
    site.run(60)
    assert spread(world, queues) == [6, 0, 0]
    holders[3].told(1)
    site.run(5)
    assert spread(world, queues) == [2, 2, 2]


def test_a_job_that_was_lost_is_done_no_more() -> None:
    world = OperatingWorld()
    queues = led_by_one(world)
    site = Site(world, Rules())
    held = FakeCoordination()
    site.coordination.update(dict.fromkeys(world.nodes, FakeCoordination()))
    site.coordination[2] = held
    site.make()
    held.told(1)
    held.told(None)
    site.run(60)
    assert spread(world, queues) == [6, 0, 0]


def test_a_part_that_was_stopped_gives_its_job_up() -> None:
    released: list[str] = []

    class Noted(FakeCoordination):
        def release(self, job: str) -> None:
            released.append(job)

    world = OperatingWorld(1)
    site = Site(world)
    site.coordination[1] = Noted()
    site.make()
    site.parts[1].stop()
    assert released == ["rebalance"]
