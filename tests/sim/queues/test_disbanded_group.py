"""The last member of a mirror ring becomes a classic queue, on a real log whose power may fail.

Mirrors have come, gone and joined again before.
`WARREN_SIM_SEEDS=first:last` runs other seeds than those in the names.
"""

import os
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

import pytest

from queues.hosts.classic import ClassicHost
from queues.hosts.disbanding import Disbanding
from queues.machine.commands import TERM_SHIFT
from raft.ring_view import RingView
from tests.sim.queues.group_node import DIRECTORY, UID, GroupNode
from tests.sim.queues.group_world import TICK_MS, GroupWorld
from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.sim_keyed import SimKeyed
from tests.sim.storage.steps import StepRunner
from warren.storage.recovery.recovery import RecoveredPublish, RecoveryReport
from warren.storage.recovery.stretches import Stretch
from warren.storage.snapshot import SnapshotStore
from warren.storage.wal import Wal

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:4").partition(":")
STEPS: Final = 3000
TURNS: Final = 20_000
LATER: Final = 100  # epochs, so that no view of the world is as new


class ClassicSink:
    """What a start finds of the queue when it has no member (`RecoverySink`)."""

    def __init__(self) -> None:
        self.seqs: set[int] = set()
        self.last_seq = 0

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        raise AssertionError("an entry of a group of one member")

    def raft_entry(self, *fields: object) -> None:
        """Of the ring: nothing reads it."""

    def hard_state(self, *fields: object) -> None:
        """The same."""

    def knows(self, owner: int) -> bool:
        return owner == UID

    def saved_index(self, owner: int) -> int:
        return 0

    def accepted_file_id(self, owner: int) -> int:
        return 0

    def all_owners(self) -> tuple[list[int], list[int]]:
        return [UID], []

    def owner(self, owner: int, last_seq: int, mark: int) -> None:
        self.last_seq = last_seq

    def publish(self, found: RecoveredPublish) -> None:
        for _, _, live in found.targets:
            for first, count in live:
                self._add(range(first, first + count))

    def stretch(self, found: Stretch) -> None:
        self._add(range(found.first, found.first + found.count))

    def finish(self, report: RecoveryReport) -> None:
        """Nothing follows."""

    def _add(self, seqs: range) -> None:
        assert not self.seqs.intersection(seqs), "a message is there twice"
        self.seqs.update(seqs)


def has_member(disk: SimDisk) -> bool:
    return UID in SnapshotStore(SimKeyed(disk, StepRunner())).owners


def found_by_a_start(disk: SimDisk) -> ClassicSink:
    sink, runner = ClassicSink(), StepRunner()
    failed: list[BaseException] = []
    wal = Wal(disk, DIRECTORY, post=runner.post, on_failure=failed.append, runner=runner)
    report = wal.open(sink)
    assert not report.corrupt and not failed
    return sink


class Last:
    """The world until one node has the queue alone, and then that node."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = world = GroupWorld(seed, 3, mirrored=True)
        assert world.views is not None
        self.views = world.views
        world.run_until("a leader", world.has_leader)
        world.run(STEPS)
        world.calm_down()
        world.run_until("an end of what was handed down", world.nothing_kept)
        world.run_until("all members", world.is_as_wanted)
        self.number = int(self.views.view.leader)
        world.want([self.number])
        world.run_until("a member that is alone", self._is_alone)
        self.seqs = self._messages()
        self.epoch = int(self.views.view.epoch) + LATER
        self.first_seq = self.epoch << TERM_SHIFT | 1

    @property
    def node(self) -> GroupNode:
        found = self.world.nodes[self.number]
        assert found is not None
        return found

    @property
    def disk(self) -> SimDisk:
        return self.world.disks[self.number]

    def _is_alone(self) -> bool:
        leader = self.world.find_leader()
        if leader is None or leader.number != self.number or leader.member is None:
            return False
        ring = leader.ring()
        if ring is None or ring.view != self.views.view:
            return False
        return leader.member.applied_index == ring.last_index and self.world.is_as_wanted()

    def _messages(self) -> set[int]:
        member = self.node.member
        assert member is not None
        runs = member.core.machine.alive_within(1, int(member.core.machine.next_seq) - 1)
        return {seq for first, count in runs for seq in range(first, first + count)}

    def disband(self, crash_in: int) -> bool:
        """Whether it was done before the power failed; -1: it does not."""
        node, done = self.node, list[ClassicHost]()
        assert node.member is not None
        self.disk.crash_in = crash_in
        if not node.member.is_leading:
            joined = (int(node.member.mirror.joined),)
            here = (self.number,)
            node.turn.begin()
            node.member.take_view(RingView(self.epoch, self.epoch, here, joined, here))
        node.turn.begin()
        forget: Callable[[Callable[[], None]], None] = partial(node.shelf.forget, UID)
        Disbanding(node.member, self.first_seq, node, forget, done.append).begin()
        try:
            for _ in range(TURNS):
                node.run(self.random.randint(1, 8))
                if done:
                    return True
                self.world.now_ms += 2
                node.raft.tick(self.world.now_ms // TICK_MS * TICK_MS)
                node.pass_time()
        except Crashed:
            return False
        raise AssertionError("the member does not become a classic queue")


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_a_classic_queue_has_what_the_last_member_of_the_ring_had(seed: int) -> None:
    last = Last(seed)
    is_done = last.disband(last.random.choice((-1, last.random.randint(0, 30))))
    last.world.crash(last.number)
    if has_member(last.disk):
        assert not is_done, "a member is left"
        last.world.start(last.number)
        assert last.disband(-1)
        last.world.crash(last.number)
    found = found_by_a_start(last.disk)
    assert found.seqs == last.seqs
    assert found.last_seq == last.first_seq - 1, "numbers that are settled would be used again"
