"""Warm standbys of a cluster whose nodes die and whose leaders move: what the promotion leaves.

All that the cluster had confirmed when the last whole pass began is there, once and in order, but
for what was accepted; nothing is there that had been settled by then. Other seeds:
`WARREN_SIM_SEEDS=first:last`.
"""

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import pytest

from node.standby.primary_client import PrimaryClient
from node.standby.replica import Replica
from node.standby.stored_runs import live_runs
from tests.sim.federation.cluster_primary import NAME, QUEUE, STEP_S, ClusterPrimary, Link, body_of
from tests.sim.federation.standby_passes import Passes
from tests.sim.federation.standby_world import CONFIG, Side, released
from tests.sim.federation.virtual_time import played

STEPS = 2_000  # in which a question has its answer
SWEEPS_SLOWLY = 1  # a seed: the leader sweeps few bodies in a turn
FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:8").partition(":")


@dataclass(slots=True)
class Mark:
    confirmed: set[bytes]  # and not accepted
    settled: set[bytes]


class World:
    """The cluster and its standby."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.primary = ClusterPrimary(seed, self.random)
        self.standby = Side(self.random)
        self.passes: Passes[Mark] = Passes()
        self.breaks = True
        self.replica: Replica
        self._task: asyncio.Task[None]
        self.follow()

    def follow(self) -> None:
        self.replica = Replica(
            self.standby.node.broker,
            CONFIG,
            self._copy_definitions,
            lambda config: cast(PrimaryClient, Link(self)),
            asyncio.get_running_loop().time,
            self.random.random,
        )
        self._task = asyncio.ensure_future(self.replica.run())

    async def _copy_definitions(self, vhost: str, wanted: dict[str, Any]) -> None:
        if self.standby.node.broker.definitions.queue("/", NAME) is None:
            self.standby.declare(NAME)

    @property
    def is_running(self) -> bool:
        return self.replica.row()["state"] == "running"

    async def step(self) -> None:
        self.primary.group.run(self.random.randint(1, 8))
        self.standby.step()
        await asyncio.sleep(STEP_S)

    def pass_begins(self) -> None:
        primary = self.primary
        self.passes.begins(self.is_running, Mark(primary.confirmed(), primary.settled()))

    def pass_is_seen_whole(self) -> bool:
        return self.passes.is_seen_whole(self.is_running)

    async def crash_standby(self) -> None:
        self.pass_is_seen_whole()
        self.standby.crash()
        await self._stop()
        self.passes.begun = None
        for _ in range(self.random.randint(0, 100)):
            await self.step()
        self.standby.start()
        self.follow()

    async def _stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def promote(self) -> None:
        self.pass_is_seen_whole()
        await self._stop()
        self.replica.release(True)
        self.standby.node.runner.settle()
        self.standby.node.run_loop()
        promised = self.passes.promised
        if promised is None:
            return
        found = [body_of(each) for each in await released(self, NAME)]
        lost = promised.confirmed - self.primary.accepted() - set(found)
        assert not lost, f"lost beyond the recovery point: {sorted(lost)[:9]}"
        back = promised.settled & set(found)
        assert not back, f"settled before the recovery point: {sorted(back)[:9]}"
        assert len(found) == len(set(found)), "twice"
        known = self.primary.numbers()
        numbers = [known[each] for each in found if each in known]
        assert numbers == sorted(numbers), "out of order"


async def lived(seed: int) -> None:
    world = World(seed)
    dice = world.random
    for _ in range(dice.randint(200, 1_500)):
        await world.step()
        is_whole_now = world.pass_is_seen_whole()
        if dice.random() < (0.2 if is_whole_now else 0.002):
            await world.crash_standby()
    if dice.random() < 0.3:
        world.breaks = False
        world.primary.group.calm_down()
        passes = world.passes.count
        for _ in range(20_000):
            await world.step()
            if world.passes.count > passes + 1:
                break
        assert world.passes.count > passes + 1, f"no whole pass: {world.replica.row()}"
    await world.promote()


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_promoted_standby_has_what_the_cluster_had_confirmed(seed: int) -> None:
    played(lived(seed))


class Resting:
    """A cluster whose group rests, and the site of its leader."""

    def __init__(self) -> None:
        self.primary = ClusterPrimary(1, Random(1))
        group = self.primary.group
        group.run(200)
        group.drain()
        leader = group.find_leader()
        assert leader is not None
        self.leader = leader
        group.run_until("a group without ticks", self.rests)
        self.others = [each for each in group.alive() if each is not leader]
        site = self.primary.site(leader.number)
        assert site is not None
        self.site = site

    def rests(self) -> bool:
        return all(node.raft.hibernating_count == 1 for node in self.primary.group.alive())

    def elect(self) -> None:
        """Let the others elect a leader, of which the old one does not hear."""
        group = self.primary.group
        group.wires.cut = {(self.leader.number, each.number) for each in self.others}
        while group.find_leader() is self.leader:
            group.pass_time()
            group.wires.deliver()
            for each in self.others:
                each.run(5)
        group.wires.cut = set()

    async def fault(self, delivers: bool) -> str:
        """What the leader answers as the fault of its queue; `delivers`: the group gets messages
        meanwhile."""
        asked = asyncio.ensure_future(self.site.feed.state(self.primary.vhost, {}))
        for _ in range(STEPS):
            await asyncio.sleep(STEP_S)
            for each in (self.leader, *self.others) if delivers else (self.leader,):
                if delivers:
                    self.primary.group.wires.deliver()
                each.run(5)
            if asked.done():
                break
        ((_, _, _, _, _, fault, _),) = asked.result()
        return fault


def test_group_that_rests_is_not_woken_to_confirm_its_leader() -> None:
    async def asked() -> None:
        resting = Resting()
        assert await resting.fault(delivers=False) == ""
        assert resting.rests()

    played(asked())


def test_resting_leader_does_not_answer_when_the_others_have_a_later_term() -> None:
    async def asked() -> None:
        resting = Resting()
        resting.elect()
        assert resting.site.is_led_here(QUEUE.uid), "it believes that it leads"
        assert await resting.fault(delivers=True) == "the queue has no leader now"

    played(asked())


def test_leader_that_was_halted_does_not_answer_after_another_one_was_elected() -> None:
    """It lacks what the next leader has confirmed, and does not know of it yet."""

    async def halted() -> None:
        primary = ClusterPrimary(1, Random(1))
        group = primary.group
        old = group.find_leader()
        assert old is not None
        others = [each for each in group.alive() if each is not old]
        group.wires.cut = {(old.number, each.number) for each in others}
        while group.find_leader() is old:
            group.pass_time()
            group.wires.deliver()
            for each in others:
                each.run(5)
        site = primary.site(old.number)
        assert site is not None
        assert site.is_led_here(QUEUE.uid), "it believes that it leads"
        asked = asyncio.ensure_future(site.feed.state(primary.vhost, {}))
        while not asked.done():
            await asyncio.sleep(STEP_S)
            group.pass_time()
            old.run(5)
        ((_, _, _, _, runs, fault, _),) = asked.result()
        assert (runs, fault) == ([], "the queue has no leader now")

    played(halted())


def test_messages_that_came_before_an_earlier_one_are_told_once() -> None:
    """The queue does not take them, and their bodies are swept in later turns."""
    group = ClusterPrimary(SWEEPS_SLOWLY, Random(1)).group
    group.drain()
    leader, session = group.find_leader(), group.new_session()
    assert leader is not None and leader.member is not None
    session.connect(leader)
    group.sessions = [session]
    group.run(STEPS)
    face, session.face = session.face, None
    assert face is not None
    for _ in range(10):
        session.publish(group.payloads())
    session.face = face
    for kept in session.kept[1:]:
        face.send(kept)
    core = leader.hosts[QUEUE.uid]
    group.run_until("bodies to be swept", lambda: bool(core.sweeps))
    assert sum(count for _, count in live_runs(core)) == core.machine.length()
