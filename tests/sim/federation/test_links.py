"""Shovels over brokers and a network that fail by seed: nothing is lost, repeats are flagged.

`WARREN_SIM_SEEDS=first:last` runs other seeds.
"""

import asyncio
import logging
import os
import random

import pytest

from tests.sim.federation.virtual_time import played
from tests.sim.federation.world import World, runner_of

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:40").partition(":")
SEEDS = range(int(FIRST), int(LAST))
COUNT = 120
PATIENCE_S = 2_000.0  # of virtual time


async def moved(seed: int, delete_after: int | str, moved_count: int) -> None:
    """Run a shovel that ends by itself, with pauses, through faults that end at some moment."""
    random.seed(seed)  # of the back-off
    world = World(seed, COUNT)
    runner = runner_of(world, delete_after, [])
    task = asyncio.ensure_future(runner.run())
    loop = asyncio.get_running_loop()
    calm_s, end_s = loop.time() + 30.0, loop.time() + PATIENCE_S
    while not task.done() and loop.time() < end_s:
        await asyncio.sleep(world.dice.uniform(0.05, 3.0))
        assert not world.faults, world.faults[0]
        world.breaks = loop.time() < calm_s
        if world.dice.random() < 0.1:
            runner.pause(True)
            await asyncio.sleep(world.dice.uniform(0.0, 8.0))
            runner.pause(False)
    assert not world.faults, world.faults[0]
    assert task.done(), f"not complete: {runner.core.forwarded} forwarded, {runner.state}"
    task.result()
    world.check()
    assert world.acknowledged == set(range(moved_count)), "what was moved is not what was asked"
    assert runner.core.forwarded == moved_count, "the counter is wrong"


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_repeats_are_flagged(seed: int) -> None:
    played(moved(seed, "queue-length", COUNT))


@pytest.mark.parametrize("seed", SEEDS)
def test_counted_shovel_moves_exactly_its_number(seed: int) -> None:
    played(moved(seed, 45, 45))


def test_broker_that_stays_away_costs_one_log_line_in_fifty(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "warren.federation")
    waits: list[float] = []

    async def played_out() -> None:
        world = World(1, 1)
        world.dice.random = lambda: 0.1  # type: ignore[method-assign]  # the source is away
        runner = runner_of(world, "never", [])
        task = asyncio.ensure_future(runner.run())
        loop = asyncio.get_running_loop()
        before_s, sessions = loop.time(), world.sessions
        while world.sessions < 150:
            await asyncio.sleep(0.05)
            if world.sessions > sessions:
                waits.append(loop.time() - before_s)
                before_s, sessions = loop.time(), world.sessions
        task.cancel()

    played(played_out())
    assert len(caplog.records) == 3
    steady = waits[10:]
    assert 2.9 <= min(steady) < 3.5 < 4.5 < max(steady) <= 5.3, "4 s with jitter of a quarter"
