"""How often a member of a quorum queue takes snapshots: seldom where much comes in."""

from queues.hosts.quorum_member import LATE_BYTES, LATE_ENTRIES, SNAPSHOT_REST_MS, QuorumMember
from queues.machine.commands import Tick
from tests.sim.queues.group_world import GroupWorld

ENTRIES = 4
STEPS_MAX = 1000


class Alone:
    """A queue of one member on one node, which leads it."""

    def __init__(self) -> None:
        self.world = GroupWorld(0, 1)
        self.world.is_calm = True
        self.world.run_until("a leader", self.world.has_leader)
        self.rest()
        self.member._snapshot_entries = ENTRIES
        self.member._snapshot_rest_ms = SNAPSHOT_REST_MS
        self.world.now_ms += 2 * SNAPSHOT_REST_MS

    @property
    def member(self) -> QuorumMember:
        node = self.world.find_leader()
        assert node is not None
        assert node.member is not None
        return node.member

    @property
    def snapshot_index(self) -> int:
        assert self.member._group is not None
        return self.member._group.raft.snapshot_index

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
    alone.member._unsaved_bytes = LATE_BYTES
    alone.commit(1)
    assert alone.snapshot_index == alone.member.applied_index
    alone.commit(ENTRIES)
    assert alone.snapshot_index < alone.member.applied_index


def test_a_clock_that_went_back_holds_up_no_snapshot() -> None:
    alone = Alone()
    alone.commit(2 * ENTRIES)
    alone.member._snapshot_ms = alone.world.now_ms + SNAPSHOT_REST_MS
    alone.commit(1)
    assert alone.snapshot_index == alone.member.applied_index
