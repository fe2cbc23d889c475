"""Streams with three or five members on real logs and segments.

A failing seed is in the test's name. `WARREN_SIM_SEEDS=first:last` runs others.
"""

import os

import pytest

from tests.sim.queues.stream_world import StreamWorld

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:16").partition(":")
STEPS = 4000


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_an_offset_is_one_message_and_what_is_confirmed_is_on_all_members(seed: int) -> None:
    world = StreamWorld(seed, 5 if seed % 4 == 3 else 3)
    world.run_until("a leader", lambda: world.find_leader() is not None)
    world.run_until("a confirm", lambda: bool(world.confirmed))
    world.run(STEPS)
    world.end()
