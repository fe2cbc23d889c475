"""Streams with three or five members on real logs and segments.

A failing seed is in the test's name. `WARREN_SIM_SEEDS=first:last` runs others.
"""

import os

import pytest

from queues.streams.settings import StreamSettings
from tests.sim.queues.sim_streams import DIRECTORY
from tests.sim.queues.stream_node import StreamNode
from tests.sim.queues.stream_world import StreamWorld

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:16").partition(":")
STEPS = 4000
IDLE_STEPS = 800  # before the stream is idle


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_an_offset_is_one_message_and_what_is_confirmed_is_on_all_members(seed: int) -> None:
    world = StreamWorld(seed, 5 if seed % 4 == 3 else 3)
    world.run_until("a leader", lambda: world.find_leader() is not None)
    world.run_until("a confirm", lambda: bool(world.confirmed))
    world.run(STEPS)
    world.end()


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_a_message_with_an_id_has_one_offset_however_often_it_is_published(seed: int) -> None:
    world = StreamWorld(seed, 3, by_ids=True)
    world.run_until("a confirm", lambda: bool(world.confirmed))
    world.run(STEPS)
    world.end()


@pytest.mark.parametrize("seed", range(4))
def test_a_member_that_is_replaced_stays_until_it_is_removed(seed: int) -> None:
    world = StreamWorld(seed, 2)
    world.run_until("a confirm", lambda: bool(world.confirmed))
    world.end()
    leader = world.find_leader()
    assert leader is not None
    others = [number for number in world.nodes if number != leader.number]
    for other in others[:2]:
        world.want((leader.number, other))
        world.end()


@pytest.mark.parametrize("seed", range(8))
def test_an_idle_stream_removes_all_segments_older_than_max_age_but_the_last(seed: int) -> None:
    world = StreamWorld(seed, 3, StreamSettings(age_max_ms=3000, segment_bytes=200))
    world.run(IDLE_STEPS)
    world.run_until("a second segment", lambda: any(last_of(node) > 0 for node in world.members()))
    world.end()
    last = {node.number: last_of(node) for node in world.members()}
    world.run_until(
        "one segment on each member", lambda: all(len(files(node)) == 2 for node in world.members())
    )
    assert {node.number: node.member.first_offset for node in world.members()} == last
    next_offset = world.members()[0].member.next_offset
    for number in last:
        world.crash(number)
    world.end()
    assert {node.number: node.member.first_offset for node in world.members()} == last
    assert {node.member.next_offset for node in world.members()} == {next_offset}


def last_of(node: StreamNode) -> int:
    """First offset of the last segment; 0: there is no segment."""
    return node.member.log.segments[-1].first_offset if node.member.log.segments else 0


def files(node: StreamNode) -> list[str]:
    """Data and index of the stream's segments on the disk of the node."""
    return [path for path in node.disk.names if path.startswith(DIRECTORY)]
