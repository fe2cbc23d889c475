"""Warm standbys over links that fail and nodes that crash: what is there after the promotion.

All that the primary had confirmed when the last whole pass began is there, once and in order, but
for what was settled; and nothing else but what the primary has had since. While the standby has a
resource alarm it copies nothing. Other seeds: `WARREN_SIM_SEEDS=first:last`.
"""

import asyncio
import os
from contextlib import suppress

import pytest

from node.standby.primary_client import PrimaryFailed
from node.standby.stored_runs import Runs, StoredRun
from tests.sim.federation.standby_world import STEP_S, Link, World
from tests.sim.federation.virtual_time import played

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:8").partition(":")
STEPS = 600


async def lived(seed: int) -> None:
    world = World(seed)
    world.follow()
    dice = world.random
    for _ in range(STEPS):
        await world.step()
        if dice.random() < 0.15:
            world.traffic()
        if dice.random() < 0.006:
            await world.crash_primary()
        if seed % 3 == 2 and dice.random() < 0.03:
            world.standby.set_alarm(not world.standby.has_alarm)
        is_whole_now = world.pass_is_seen_whole()
        if dice.random() < (0.3 if is_whole_now else 0.006):
            await world.crash_standby()
    if dice.random() < 0.5:
        world.breaks = False
        world.standby.set_alarm(False)
        passes = world.passes.count
        for _ in range(10_000):
            await world.step()
            if world.passes.count > passes + 1:
                break
        assert world.passes.count > passes + 1, f"no whole pass: {world.replica.row()}"
    await world.promote()


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_promoted_standby_has_what_was_confirmed_and_not_settled(seed: int) -> None:
    played(lived(seed))


async def whole_passes(world: World) -> None:
    """Until a pass has ended that began later than now."""
    wanted = world.passes.count + 2
    for _ in range(int(10 / STEP_S)):
        await world.step()
        if world.passes.count >= wanted:
            return
    raise AssertionError(f"no whole pass: {world.replica.row()}")


async def followed_while_another_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    world.breaks = False
    ask = Link.messages
    asked: list[str] = []
    again, waited = asyncio.Event(), asyncio.Event()

    async def messages(link: Link, uid: int, runs: Runs) -> list[StoredRun]:
        queue = world.primary.node.broker.metadata.queue(uid)
        assert queue is not None
        asked.append(queue.name)
        if queue.name == "quorum" and not waited.is_set():
            raise PrimaryFailed("the link is broken")
        found = await ask(link, uid, runs)
        if asked.count("classic") > 1:
            again.set()
        elif queue.name == "classic":
            with suppress(TimeoutError):
                await asyncio.wait_for(again.wait(), 1.0)
            waited.set()
        return found

    monkeypatch.setattr(Link, "messages", messages)
    world.follow()
    await whole_passes(world)
    world.loads["quorum"].publish([12] * 5)
    while not asked:
        await world.step()
    world.loads["classic"].publish([12] * 5)
    while not waited.is_set():
        await world.step()
    await whole_passes(world)
    await world.promote()


def test_a_queue_is_followed_once_at_a_time_also_when_another_one_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played(followed_while_another_fails(monkeypatch))


async def unanswered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    world.breaks = False
    ask = Link.digests
    asked: list[int] = []

    async def digests(link: Link, uid: int, runs: Runs) -> dict[int, bytes]:
        asked.append(uid)
        if len(asked) == 1:
            raise PrimaryFailed("the link is broken")
        return await ask(link, uid, runs)

    world.follow()
    world.loads["classic"].publish([12] * 5)
    await whole_passes(world)
    await world.crash_primary()
    world.loads["classic"].publish([12] * 5)
    await whole_passes(world)
    monkeypatch.setattr(Link, "digests", digests)
    await world.crash_standby()  # It knows of no label, and some are of the primary's former life.
    await whole_passes(world)
    assert len(asked) > 1
    await world.promote()


def test_copies_are_kept_if_the_primary_does_not_answer_while_they_are_looked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played(unanswered_once(monkeypatch))
