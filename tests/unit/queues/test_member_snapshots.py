"""Snapshots of a member of a quorum queue: how often, and in which slices others get them."""

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

from queues.hosts.quorum_entry import take_runs
from queues.hosts.quorum_member import LATE_BYTES, LATE_ENTRIES, SNAPSHOT_REST_MS, QuorumMember
from queues.hosts.quorum_snapshot import OF_BODIES
from queues.machine.commands import Tick
from tests.sim.queues.group_session import Session
from tests.sim.queues.group_world import GroupWorld

ENTRIES = 4
STEPS_MAX = 1000


class Alone:
    """A queue of one member on one node, which leads it."""

    def __init__(self) -> None:
        self.world = GroupWorld(0, 1, snapshots=(ENTRIES, SNAPSHOT_REST_MS))
        self.world.is_calm = True
        self.world.run_until("a leader", self.world.has_leader)
        self.rest()
        self.world.now_ms += 2 * SNAPSHOT_REST_MS

    @property
    def member(self) -> QuorumMember:
        node = self.world.find_leader()
        assert node is not None
        assert node.member is not None
        return node.member

    @property
    def snapshot_index(self) -> int:
        status = self.member.status()
        assert status is not None
        return status.snapshot_index

    def rest(self) -> None:
        """All that was begun is done."""
        (node,) = self.world.alive()
        for _ in range(STEPS_MAX):
            if not node.runner.step(node.random):
                return
        raise AssertionError("the node does not come to rest")

    def commit(self, count: int) -> None:
        """So many entries."""
        for _ in range(count):
            applied = self.member.applied_index
            assert self.member.order(Tick())
            self.rest()
            assert self.member.applied_index == applied + 1

    def session(self) -> Session:
        session = self.world.new_session()
        (node,) = self.world.alive()
        session.connect(node)
        self.rest()
        return session

    def publish(self, count: int) -> None:
        self.session().publish([b"body"] * count)
        self.rest()
        assert self.member.ready_count == count

    def batches(self) -> list[int]:
        """Messages in each slice of bodies of the newest snapshot, as another member gets it."""
        found: list[int] = []
        number = 0
        is_over = False

        def read(parts: Sequence[bytes] | None, is_last: bool) -> None:
            nonlocal is_over
            assert parts is not None
            if parts[0] == OF_BODIES:
                runs = take_runs(b"".join(parts[1:]), 0)
                found.append(sum(chunk.count() for _, chunk in runs))
            is_over = is_last

        while not is_over:
            self.member.read_slice(self.snapshot_index, number, read)
            number += 1
            self.rest()
        return found


def test_batches_of_a_synchronisation_have_at_most_the_messages_of_the_policy() -> None:
    alone = Alone()
    alone.publish(10)
    alone.member.outgoing.bound_batches(4)
    alone.commit(ENTRIES)
    assert alone.batches() == [4, 4, 2]
    assert alone.batches() == [4, 4, 2], "where they are cut is known now"
    outgoing = alone.member.outgoing
    of_machine = int(outgoing.slice_count)
    below = [outgoing.copied_seq(of_machine + slices) for slices in range(-1, 4)]
    machine = alone.member.core.machine
    copied = [sum(count for _, count in machine.queue_within(1, seq - 1)) for seq in below]
    assert copied == [0, 0, 4, 8, 8], "the last slice ends the copy"


@pytest.mark.source  # Lines of compiled code are not traced.
def test_a_slice_costs_the_same_however_many_messages_follow_it() -> None:
    few, many = (lines_of_a_slice(count) for count in (60, 240))
    assert few > 0
    assert many < few * 1.2


def lines_of_a_slice(count: int) -> int:
    """Lines of Python that run for a slice of 4 messages of a queue of so many single ones."""
    alone = Alone()
    session = alone.session()
    for _ in range(count):
        session.publish([b"body"])
        alone.rest()
    alone.member.outgoing.bound_batches(4)
    alone.world.now_ms += SNAPSHOT_REST_MS
    alone.commit(ENTRIES)
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    slices = alone.batches()
    sys.settrace(before)
    assert slices == [4] * (count // 4)
    return lines // len(slices)


def test_a_queue_that_rested_takes_a_snapshot_as_soon_as_it_may() -> None:
    alone = Alone()
    for _ in range(3):
        before = alone.member.applied_index
        alone.world.now_ms += SNAPSHOT_REST_MS
        alone.commit(ENTRIES)
        assert alone.snapshot_index > before


def test_a_busy_queue_takes_another_one_when_much_more_has_come() -> None:
    alone = Alone()
    alone.commit(ENTRIES)
    first = alone.snapshot_index
    assert first > 0
    behind = alone.member.applied_index - first
    alone.commit(LATE_ENTRIES * ENTRIES - behind - 1)
    assert alone.snapshot_index == first
    alone.commit(1)
    assert alone.snapshot_index == alone.member.applied_index


def test_a_busy_queue_takes_another_one_when_its_entries_are_large() -> None:
    alone = Alone()
    alone.commit(2 * ENTRIES)
    first = alone.snapshot_index
    assert first < alone.member.applied_index
    alone.member.unsaved_bytes = LATE_BYTES
    alone.commit(1)
    assert alone.snapshot_index == alone.member.applied_index
    alone.commit(ENTRIES)
    assert alone.snapshot_index < alone.member.applied_index


def test_a_clock_that_went_back_holds_up_no_snapshot() -> None:
    alone = Alone()
    alone.commit(2 * ENTRIES)
    alone.member.snapshot_ms = alone.world.now_ms + SNAPSHOT_REST_MS
    alone.commit(1)
    assert alone.snapshot_index == alone.member.applied_index
