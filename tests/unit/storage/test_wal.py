"""The log in the small: rolls, upkeep, failing disks. On a simulated disk, step by step."""

import errno
from collections.abc import Iterator

import pytest

from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import SimDisk, Write
from tests.sim.storage.steps import StepRunner
from warren.storage.files import BLOCK_BYTES
from warren.storage.ledger import Ledger
from warren.storage.manifest import CAPACITY_BYTES
from warren.storage.record import CHECKPOINT, PUBLISH, SETTLE, Record
from warren.storage.recovery.recovery import RecoveryReport
from warren.storage.recovery.scan import Scan
from warren.storage.upkeep import PLACE as UPKEEP
from warren.storage.upkeep import Upkeep
from warren.storage.wal import GROUP_BYTES, RESERVE, ShortRead, Wal

FILE_BYTES = 32_768
BODY = 1000


class StrictDisk(SimDisk):
    """Looks, whenever a file of the log goes, at what a crash could undo."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = 0

    def rename(self, old: str, new: str) -> None:
        if "spare-" in new and "tmp-" not in old:
            self.file_goes()
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        if "tmp-" not in path:
            self.file_goes()
        super().unlink(path)

    def file_goes(self) -> None:
        """Nothing that a segment or an earlier removal did may still be undone."""
        self.gone += 1
        for old, new, _ in self.changes:
            assert new is not None, f"the removal of {old} is not durable"
            assert "seg-" not in new, f"the name {new} is not durable"
            assert "spare-" not in new or "tmp-" in old, f"the removal of {old} is not durable"


class Node:
    """A log with three queues on it (10, 11, 12)."""

    def __init__(
        self,
        disk: SimDisk | None = None,
        known: set[int] | None = None,
        file_bytes: int = FILE_BYTES,
        group_bytes: int = GROUP_BYTES,
        slack_bytes: int = 0,
    ) -> None:
        self.disk = SimDisk() if disk is None else disk
        self.runner = StepRunner()
        self.failures: list[BaseException] = []
        self.alarms: list[tuple[str, Exception]] = []
        self.healed: list[str] = []
        self.durable: list[int] = []
        self.epoch = 100 * (1 + len(self.disk.names))
        self.queues = Queues({10, 11, 12} if known is None else known)
        self.wal = Wal(
            self.disk,
            "/data",
            post=self.runner.post,
            on_failure=self.failures.append,
            file_bytes=file_bytes,
            group_bytes=group_bytes,
            slack_bytes=slack_bytes,
            runner=self.runner,
            draw_epoch=self.draw_epoch,
        )
        self.wal.on_alarm = lambda place, error: self.alarms.append((place, error))
        self.wal.on_healed = self.healed.append
        self.wal.on_durable.append(self.durable.append)
        self.queues.wal = self.wal

    @property
    def ledger(self) -> Ledger:
        """What the log knows of its owners."""
        return self.wal.ledger

    @property
    def upkeep(self) -> Upkeep:
        """What rewrites and drops files."""
        assert self.wal.upkeep is not None
        return self.wal.upkeep

    def draw_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    def open(self) -> RecoveryReport:
        report = self.wal.open(self.queues)
        self.wal.attach(self.queues)
        return report

    def rest(self) -> None:
        self.wal.flush()
        self.runner.settle()

    def restarted(self, known: set[int] | None = None) -> "Node":
        """Killed, and the machine stays up: all that was written is there."""
        after = Node(self.disk, self.queues.known if known is None else known)
        after.open()
        return after

    def live(self) -> dict[int, list[int]]:
        return {owner: list(held) for owner, held in self.queues.live.items() if held}

    def kinds(self, kind: int) -> list[tuple[int, int]]:
        """(file id, owner) of all records of a kind that are in any file."""
        return [(file_id, record.owner) for file_id, record in self.written(kind)]

    def written(self, kind: int) -> Iterator[tuple[int, Record]]:
        """All records of a kind, with the id of their file."""
        for file in self.wal.files.values():
            if file.handle >= 0:
                scan = Scan(self.disk, file.handle, file.path, file.size, file.epoch)
                for record in scan.records(0):
                    if record.kind == kind:
                        yield file.id, record

    def bodies(self, owner: int) -> list[bytes]:
        found: list[bytes] = []

        def take(body: bytes | Exception) -> None:
            assert isinstance(body, bytes)
            found.append(body)

        for held in self.queues.live[owner].values():
            self.wal.read(held.file_id, held.offset, held.length, take)
            self.rest()
        return found


@pytest.fixture
def node() -> Node:
    made = Node()
    made.open()
    return made


def body(number: int) -> bytes:
    return (b"%06d" % number).ljust(BODY, b".")


def test_nothing_is_durable_before_the_write_came_back(node: Node) -> None:
    node.queues.publish_bodies([10], [b"hello"], 0)
    assert node.wal.pending_bytes > 0
    node.wal.flush()
    assert node.durable == []
    lsn = node.wal.appended_lsn
    node.rest()
    assert node.durable[0] == lsn
    assert node.wal.pending_bytes == 0


def test_what_is_flushed_during_a_write_goes_into_one_group(node: Node) -> None:
    for number in range(5):
        node.queues.publish_bodies([10], [body(number)], 0)
        node.wal.flush()
    assert node.runner.write_once()
    assert not node.runner.write_once()


def test_a_group_commit_is_cut_at_group_bytes() -> None:
    node = Node(group_bytes=2500)
    node.open()
    for number in range(6):
        node.queues.publish_bodies([10], [body(number)], 0)
        node.wal.flush()
    writes = 0
    while node.runner.write_once():
        writes += 1
    assert writes == 3


def test_messages_are_recovered_with_their_numbers_and_bytes(node: Node) -> None:
    node.queues.publish_bodies([10], [b"one", b"two"], 50)
    node.queues.publish_bodies([10], [b"three"], 0)
    node.queues.settle(10, [2])
    node.rest()
    after = node.restarted()
    assert after.live() == {10: [1, 3]}
    assert after.bodies(10) == [b"one", b"three"]
    assert after.queues.last_seqs[10] == 3


def test_one_body_serves_two_queues_and_stays_until_both_are_done(node: Node) -> None:
    before = node.wal.appended_lsn
    node.queues.publish_bodies([10, 11], [body(1)], 0)
    assert node.wal.appended_lsn - before < BODY + 200
    node.queues.settle(10, [1])
    node.wal.roll()
    node.rest()
    assert node.bodies(11) == [body(1)]
    assert node.restarted().live() == {11: [1]}


def test_a_log_that_rolls_under_load_keeps_everything_in_order(node: Node) -> None:
    for number in range(200):
        node.queues.publish_bodies([10], [body(number)], 0)
        if number % 7 == 0:
            node.rest()
    node.rest()
    after = node.restarted()
    assert after.live() == {10: list(range(1, 201))}
    assert after.bodies(10) == [body(number) for number in range(200)]


def test_a_message_larger_than_a_file_has_a_file_of_its_own(node: Node) -> None:
    large = bytes(range(256)) * 400
    node.queues.publish_bodies([10], [large, b"after"], 0)
    node.queues.publish_bodies([10], [b"small"], 0)
    node.rest()
    assert node.restarted().bodies(10) == [large, b"after", b"small"]


def test_a_queue_that_is_emptied_leaves_no_files_behind(node: Node) -> None:
    for round_number in range(10):
        for number in range(30):
            node.queues.publish_bodies([10], [body(number)], 0)
        node.queues.settle(10, list(node.queues.live[10]))
        node.rest()
        assert node.wal.ledger.disk_bytes() <= 2 * FILE_BYTES, round_number
    assert len(node.disk.names) <= 4


def test_compaction_keeps_exactly_the_live_messages(node: Node) -> None:
    for number in range(150):
        node.queues.publish_bodies([10, 11] if number % 2 else [10], [body(number)], 0)
    node.queues.settle(10, [seq for seq in range(1, 151) if seq % 10])
    node.queues.settle(11, [seq for seq in range(1, 76) if seq % 15])
    node.rest()
    live = node.live()
    assert live == {10: list(range(10, 151, 10)), 11: list(range(15, 76, 15))}
    expected = node.bodies(10)
    assert expected == [body(seq - 1) for seq in live[10]]
    assert node.wal.ledger.disk_bytes() < 3 * FILE_BYTES
    segments = [file for file in node.wal.files.values() if "seg-" in file.path]
    assert segments
    assert all(file.live == file.claimed for file in segments)
    after = node.restarted()
    assert after.live() == live
    assert after.bodies(10) == expected


def test_a_file_goes_only_when_all_names_before_it_are_durable() -> None:
    disk = StrictDisk()
    node = Node(disk)
    node.open()
    for _ in range(4):
        first = node.queues.publish_bodies([10], [body(number) for number in range(25)], 0)[0]
        for _ in range(40):
            node.queues.publish_bodies([10], [body(0)], 0)
        node.queues.settle(10, [seq for seq in node.queues.live[10] if seq % 9 or seq < first])
        node.rest()
    node.queues.settle(10, list(node.queues.live[10]))
    node.rest()
    assert disk.gone > 8


def test_a_checkpoint_lets_a_file_full_of_settles_go(node: Node) -> None:
    node.queues.publish_bodies([10], [body(number) for number in range(20)], 0)
    node.wal.roll()
    for seq in range(1, 11):
        node.queues.settle(10, [seq])
    settled_in = {file_id for file_id, _ in node.kinds(SETTLE)}
    node.rest()
    node.wal.roll()
    node.rest()
    assert not settled_in & {file_id for file_id, _ in node.kinds(SETTLE)}
    assert [owner for _, owner in node.kinds(CHECKPOINT)] == [10]
    assert node.restarted().live() == {10: list(range(11, 21))}


def test_a_deleted_queue_does_not_come_back_when_its_record_was_in_an_old_file(node: Node) -> None:
    node.queues.publish_bodies([10, 11], [body(number) for number in range(20)], 0)
    node.wal.roll()
    node.queues.delete(10)
    node.wal.roll()
    node.rest()
    node.wal.roll()
    node.rest()
    assert node.restarted(known={10, 11}).live() == {11: list(range(1, 21))}


def test_an_owner_that_nobody_knows_is_dropped(node: Node) -> None:
    node.queues.publish_bodies([10], [body(1)], 0)
    node.rest()
    after = node.restarted(known={11})
    after.rest()
    assert after.live() == {}
    assert after.wal.ledger.live_bytes() == 0


def test_a_file_stays_while_somebody_reads_it(node: Node) -> None:
    node.queues.publish_bodies([10], [body(1)], 0)
    node.wal.roll()
    node.rest()
    held = node.queues.live[10][1]
    found: list[bytes | Exception] = []
    node.wal.read(held.file_id, held.offset, held.length, found.append)
    waiting = node.runner.reads.popleft()
    node.queues.settle(10, [1])
    node.rest()
    waiting()
    node.rest()
    assert found == [body(1)]
    node.wal.read(held.file_id, held.offset, held.length, found.append)
    node.rest()
    assert isinstance(found[1], ShortRead)


def test_a_failed_read_is_told_to_the_reader_alone(node: Node) -> None:
    node.queues.publish_bodies([10], [body(1)], 0)
    node.rest()
    held = node.queues.live[10][1]
    node.disk.failures["pread"] = OSError(errno.EIO, "bad sector")
    found: list[bytes | Exception] = []
    node.wal.read(held.file_id, held.offset, held.length, found.append)
    node.rest()
    assert isinstance(found[0], OSError)
    assert node.failures == []


@pytest.mark.parametrize("method", ["pwritev", "dsync"])
def test_after_a_failed_write_or_sync_nothing_is_reported_durable(node: Node, method: str) -> None:
    node.queues.publish_bodies([10], [body(1)], 0)
    node.rest()
    reported = list(node.durable)
    node.disk.failures[method] = OSError(errno.EIO, "gone")
    node.queues.publish_bodies([10], [body(2)], 0)
    node.rest()
    assert [type(error) for error in node.failures] == [OSError]
    node.disk.failures.clear()
    node.queues.publish_bodies([10], [body(3)], 0)
    node.rest()
    assert node.durable == reported
    assert len(node.failures) == 1


def test_a_full_disk_is_an_alarm_while_the_file_has_room_and_fatal_when_it_has_none() -> None:
    node = Node()
    node.disk.space_bytes = FILE_BYTES + 2 * CAPACITY_BYTES
    node.open()
    node.queues.publish_bodies([10], [body(1)], 0)
    node.rest()
    assert [(place, type(error)) for place, error in node.alarms] == [(RESERVE, OSError)]
    assert node.failures == []
    assert node.wal.pending_bytes == 0
    for number in range(40):
        node.queues.publish_bodies([10], [body(number)], 0)
        node.rest()
    assert [type(error) for error in node.failures] == [OSError]


def test_space_that_came_back_is_taken_at_the_next_roll() -> None:
    node = Node()
    node.disk.space_bytes = 2 * FILE_BYTES
    node.open()
    node.queues.publish_bodies([10], [body(1)], 0)
    node.rest()
    assert RESERVE in node.wal.faults
    node.disk.space_bytes = -1
    node.wal.roll()
    node.rest()
    assert node.wal.faults == {}
    assert RESERVE in node.healed
    assert node.wal.reserve_count == 2


def test_a_compaction_that_finds_no_space_changes_nothing(node: Node) -> None:
    for number in range(60):
        node.queues.publish_bodies([10], [body(number)], 0)
    node.rest()
    node.disk.failures["create"] = OSError(errno.ENOSPC, "full")
    node.queues.settle(10, [seq for seq in range(1, 61) if seq % 10])
    node.rest()
    assert {(place, type(error)) for place, error in node.alarms} == {(UPKEEP, OSError)}
    assert node.live() == {10: [10, 20, 30, 40, 50, 60]}
    assert node.bodies(10) == [body(seq - 1) for seq in node.live()[10]]
    assert node.failures == []


def test_a_damaged_record_in_the_middle_is_reported_and_its_file_is_kept(node: Node) -> None:
    node.queues.publish_bodies([10], [body(1)], 0)
    node.rest()
    node.queues.publish_bodies([11], [body(2)], 0)
    node.rest()
    held = node.queues.live[10][1]
    path = node.wal.files[held.file_id].path
    node.disk.names[path].cached[held.offset + 5] ^= 1
    after = Node(node.disk)
    report = after.open()
    assert not report.clean
    assert [(found.path, found.owners) for found in report.corrupt] == [(path, (10,))]
    assert BLOCK_BYTES <= report.corrupt[0].offset < held.offset
    assert after.live() == {11: [1]}
    after.queues.settle(11, [1])
    after.wal.roll()
    after.rest()
    assert path in node.disk.names


def test_a_file_whose_header_is_damaged_is_reported_and_left_alone(node: Node) -> None:
    node.queues.publish_bodies([10], [body(1)], 0)
    node.rest()
    path = node.wal.files[node.queues.live[10][1].file_id].path
    node.disk.names[path].cached[9] ^= 1
    after = Node(node.disk)
    assert [(found.path, found.offset) for found in after.open().corrupt] == [(path, 0)]
    assert path in node.disk.names


def test_only_a_clean_stop_is_reported_as_clean(node: Node) -> None:
    node.rest()
    assert not Node(node.disk).open().clean
    node = node.restarted()
    node.wal.close(clean=True)
    after = Node(node.disk)
    assert after.open().clean
    assert not Node(node.disk).open().clean
    assert Node().open().clean


def test_restarts_do_not_eat_the_disk() -> None:
    node = Node()
    node.open()
    node.queues.publish_bodies([10], [b"kept"], 0)
    node.rest()
    for _ in range(30):
        node = node.restarted()
        node.rest()
    assert node.wal.ledger.disk_bytes() < 3 * FILE_BYTES
    assert node.bodies(10) == [b"kept"]


def test_the_log_moves_on_to_a_file_that_was_written_before(node: Node) -> None:
    fresh = node.wal.files[1]
    assert not fresh.written_before
    node.queues.publish_bodies([10], [b"first"], 0)
    node.rest()
    assert node.wal.files[node.wal.active_file_id].written_before
    assert node.wal.reserve_count == 2


def test_publishes_carry_what_they_were_given(node: Node) -> None:
    offsets = b"\x04\0\0\0\x06\0\0\0\x09\0\0\0"
    node.wal.append_publish(2, 513, 99, [(10, 7)], b"xyz!", offsets, b"....abcde....", 0)
    node.wal.flush()
    assert node.runner.write_once()
    assert [owner for _, owner in node.kinds(PUBLISH)] == [10]
    after = node.restarted()
    assert after.live() == {10: [7, 8]}
    assert [held.body for held in after.queues.live[10].values()] == [b"xy", b"z!"]
    assert after.bodies(10) == [b"ab", b"cde"]


def test_an_older_run_that_is_written_later_does_not_take_the_last_number_back(node: Node) -> None:
    """Two queues may share a run that one of them took before, the other after an older one."""
    offsets = b"".join(offset.to_bytes(4, "little") for offset in (0, 1, 2))
    for first in (7, 3):
        node.wal.append_publish(1, 1, 99, [(10, first)], b"", offsets, b"ab", 0)
    assert node.ledger.last_seqs[10] == 8


def test_each_write_of_records_ends_at_the_border_of_a_page_or_with_the_file() -> None:
    node = Node()
    node.disk.log = []
    node.open()
    for number in range(60):
        node.queues.publish_bodies([10], [body(number)], 0)
        if number % 3 == 0:
            node.rest()
    node.rest()
    handles = {each.handle for each in node.wal.files.values() if "wal-" in each.path}
    writes = [each for each in node.disk.log if isinstance(each, Write)]
    ends = [each.offset + len(each.content) for each in writes if each.handle in handles]
    assert len(ends) > 20
    assert {end % BLOCK_BYTES for end in ends} == {0}
    assert max(ends) <= FILE_BYTES
    assert node.restarted().live() == {10: list(range(1, 61))}
