"""The log group of one member, on a real log on a simulated disk."""

from collections.abc import Sequence

from raft.log_group import METADATA_OWNER, LogGroup
from raft.one_member import Commits, OneMemberGroup
from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.sim_keyed import SimKeyed
from tests.sim.storage.steps import StepRunner
from warren.storage.keyed import SNAPSHOTS
from warren.storage.snapshot import SnapshotStore
from warren.storage.snapshot_slices import HEAD_NUMBER, KEY
from warren.storage.wal import Wal


class Sink(Queues):
    """Hands entries to the group, as a node does."""

    group: OneMemberGroup

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        if owner == METADATA_OWNER:
            self.group.replay(index, payload)


class Member:
    """A machine that keeps what it was told, above its group."""

    def __init__(self, disk: SimDisk) -> None:
        self.applied: list[tuple[int, bytes]] = []
        self.failures: list[BaseException] = []
        self.runner = StepRunner()
        self.disk = disk
        self.wal = Wal(
            disk,
            "/data",
            post=self.runner.post,
            on_failure=self.failures.append,
            file_bytes=16_384,
            slack_bytes=0,
            runner=self.runner,
        )
        self.snapshots = SnapshotStore(SimKeyed(disk, self.runner))
        self.commits = Commits()
        self.group = OneMemberGroup(
            METADATA_OWNER,
            self.wal,
            self.snapshots,
            self.apply,
            self.commits,
        )
        self.state = self.group.load()
        sink = Sink(set())
        sink.group = self.group
        self.wal.open(sink)
        self.wal.attach(sink)
        self.group.start()
        self.wal.on_durable.append(self.commits.on_durable)

    def apply(self, index: int, entry: bytes) -> None:
        self.applied.append((index, entry))

    def propose(self, parts: Sequence[bytes]) -> int:
        group: LogGroup = self.group
        index = group.propose(parts)
        self.wal.flush()
        return index


def test_an_entry_is_committed_when_it_is_durable_and_not_before() -> None:
    member = Member(SimDisk())
    assert [member.propose([b"a", b"b"]), member.propose([b"c"])] == [1, 2]
    assert (member.applied, member.group.commit_index) == ([], 0)
    member.runner.settle()
    assert member.applied == [(1, b"ab"), (2, b"c")]
    assert member.group.commit_index == 2


def test_a_barrier_waits_for_what_was_proposed_before_it() -> None:
    member = Member(SimDisk())
    passed: list[int] = []
    member.group.barrier(lambda: passed.append(0))
    member.propose([b"a"])
    member.group.barrier(lambda: passed.append(len(member.applied)))
    assert passed == [0]
    member.propose([b"b"])
    member.runner.settle()
    assert passed == [0, 1]


def test_a_restart_replays_the_entries_above_the_snapshot_in_order() -> None:
    disk = SimDisk()
    member = Member(disk)
    for number in range(10):
        member.propose([b"%d" % number])
    member.runner.settle()
    member.group.snapshot(6, [b"state ", b"at 6"])
    member.runner.settle()
    after = Member(disk)
    assert after.state == b"state at 6"
    assert after.applied == [(index, b"%d" % (index - 1)) for index in range(7, 11)]
    assert after.propose([b"next"]) == 11
    after.runner.settle()
    assert Member(disk).applied[-1] == (11, b"next")


def test_a_snapshot_lets_the_log_go() -> None:
    member = Member(SimDisk())
    for _ in range(100):
        member.propose([bytes(1000)])
    member.runner.settle()
    assert member.wal.disk_bytes() > 100_000
    member.group.snapshot(100, [b"state"])
    member.runner.settle()
    assert member.wal.disk_bytes() <= 2 * 16_384
    assert Member(member.disk).state == b"state"


def test_entries_that_survive_a_compaction_are_replayed_once() -> None:
    disk = SimDisk()
    member = Member(disk)
    for number in range(60):
        member.propose([b"%02d" % number, bytes(1000)])
    member.runner.settle()
    member.group.snapshot(53, [b"state"])
    member.runner.settle()
    assert any("seg-" in path for path in disk.names)
    assert [index for index, _ in Member(disk).applied] == list(range(54, 61))


def test_a_second_snapshot_waits_for_the_first_to_be_written() -> None:
    member = Member(SimDisk())
    member.propose([b"a"])
    member.propose([b"b"])
    member.runner.settle()
    member.group.snapshot(1, [b"one"])
    member.group.snapshot(2, [b"two"])
    member.runner.settle()
    assert member.group.snapshot_index == 1
    member.group.snapshot(2, [b"two"])
    member.runner.settle()
    assert member.group.snapshot_index == 2


# Several groups, and those that go


OTHER = 77  # owner of another group in the same log


class Pair(Member):
    """A member with a second group beside the first."""

    def make(self) -> tuple[OneMemberGroup, list[tuple[int, bytes]]]:
        """The second group, new."""
        applied: list[tuple[int, bytes]] = []

        def apply(index: int, entry: bytes) -> None:
            applied.append((index, entry))

        group = OneMemberGroup(OTHER, self.wal, self.snapshots, apply, self.commits)
        group.start()
        return group, applied

    def stored(self) -> dict[int, list[int]]:
        """Indexes of the entries that the log keeps, by owner."""
        entries = self.wal._ledger.entries
        return {owner: group.indexes() for owner, group in entries.items()}


def snapshot_indexes(disk: SimDisk) -> list[int]:
    """Of the snapshots of the other group that there are."""
    keys = [KEY.unpack(key) for key in disk.keyed.written[SNAPSHOTS]]
    return [index for owner, index, number in keys if (owner, number) == (OTHER, HEAD_NUMBER)]


def test_groups_commit_in_the_order_of_the_log_and_each_hears_its_own() -> None:
    member = Pair(SimDisk())
    group, applied = member.make()
    member.group.propose([b"a"])
    group.propose([b"b"])
    member.group.propose([b"c"])
    member.wal.flush()
    member.commits.on_durable(0)
    assert (member.applied, applied) == ([], [])
    member.runner.settle()
    assert (member.applied, applied) == ([(1, b"a"), (2, b"c")], [(1, b"b")])


def test_a_closed_group_commits_nothing_more_and_leaves_nothing_in_the_log() -> None:
    member = Pair(SimDisk())
    group, applied = member.make()
    group.propose([b"a"])
    member.wal.flush()
    member.runner.settle()
    group.propose([b"b"])
    member.group.propose([b"c"])
    group.close()
    member.wal.flush()
    member.runner.settle()
    assert applied == [(1, b"a")]
    assert member.applied == [(1, b"c")]
    assert member.stored() == {METADATA_OWNER: [1]}


def test_a_closed_group_leaves_no_snapshot_even_if_one_was_being_written() -> None:
    disk = SimDisk()
    member = Pair(disk)
    group, _ = member.make()
    group.propose([b"a"])
    group.propose([b"b"])
    member.wal.flush()
    member.runner.settle()
    group.snapshot(1, [b"one"])
    assert group.is_saving
    member.runner.settle()
    assert (group.is_saving, snapshot_indexes(disk)) == (False, [1])
    group.snapshot(2, [b"two"])
    group.close()
    member.runner.settle()
    assert snapshot_indexes(disk) == []


def test_what_is_found_of_a_group_that_is_gone_can_be_cleared_away() -> None:
    disk = SimDisk()
    member = Pair(disk)
    group, _ = member.make()
    for _ in range(3):
        group.propose([b"a"])
    member.propose([b"b"])
    member.runner.settle()
    group.snapshot(1, [b"one"])
    member.runner.settle()
    after = Pair(disk)
    assert after.stored() == {METADATA_OWNER: [1], OTHER: [1, 2, 3]}
    after.group.clear_away(OTHER, 3)
    assert after.snapshots.sweep({METADATA_OWNER}) == 1
    after.runner.settle()
    assert after.stored() == {METADATA_OWNER: [1]}
    assert snapshot_indexes(disk) == []
