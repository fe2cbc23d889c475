"""Damaged logs on a simulated disk: what is said of each bad place, and whom it hits."""

import random

import pytest

from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.files import BLOCK_BYTES
from warren.storage.record import CHECKPOINT, ENTRY, KIND_NAMES, MARK, PUBLISH, SETTLE, padded
from warren.storage.recovery.recovery import RecoveryReport
from warren.storage.recovery.scan import Scan
from warren.storage.wal import Wal

OWNERS = (10, 11, 12)
GROUP = 1


class Node:
    """A log with three queues and a log group on it."""

    epochs = 0  # No two lives have the same ones.

    def __init__(
        self,
        disk: SimDisk,
        slack_bytes: int = 1 << 20,
        known: set[int] | None = None,
        saved: dict[int, int] | None = None,
    ) -> None:
        self.disk = disk
        self.runner = StepRunner()
        self.queues = Queues(set(OWNERS) if known is None else known)
        self.queues.saved_indexes = saved or {}
        self.epoch = Node.epochs = Node.epochs + 1000
        self.wal = Wal(
            disk,
            "/data",
            post=self.runner.post,
            on_failure=self._failed,
            file_bytes=16_384,
            slack_bytes=slack_bytes,
            runner=self.runner,
            draw_epoch=self._draw_epoch,
        )
        self.queues.wal = self.wal
        self.report: RecoveryReport = self.wal.open(self.queues)

    def _failed(self, error: BaseException) -> None:
        raise AssertionError(error)

    def _draw_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    def rest(self) -> None:
        self.wal.flush()
        self.runner.settle()

    def publish(self, *owners: int, count: int = 1) -> None:
        bodies = [b"body %d" % number for number in range(count)]
        self.queues.publish_bodies(list(owners), bodies, 0)
        self.rest()

    def lived(self) -> dict[int, set[int]]:
        return {owner: set(held) for owner, held in self.queues.live.items()}

    def hit(self) -> set[int]:
        return {hit.owner for hit in self.report.hits if hit.entry_after < 0}

    def records(self, kind: int) -> list[tuple[str, int, int]]:
        """(path, offset, size) of all records of a kind, in the order of the log."""
        found: list[tuple[str, int, int]] = []
        for _, file in sorted(self.wal.files.items()):
            if file.handle >= 0:
                scan = Scan(self.disk, file.handle, file.path, file.size, file.epoch)
                found.extend(
                    (file.path, record.offset, padded(len(record.payload)))
                    for record in scan.records(0)
                    if record.kind == kind
                )
        return found

    def damaged(self, path: str, offset: int, bit: int = 0x10) -> "Node":
        """Restarted, with a flipped byte."""
        self.disk.names[path].cached[offset] ^= bit
        return Node(self.disk)


@pytest.fixture
def node() -> Node:
    return Node(SimDisk())


def test_a_lost_message_hits_its_queue_and_no_other(node: Node) -> None:
    for owner in (*OWNERS, *OWNERS):
        node.publish(owner)
    path, offset, _ = node.records(PUBLISH)[1]
    after = node.damaged(path, offset + 70)
    assert after.hit() == {11}
    assert [(bad.path, bad.offset, bad.kind) for bad in after.report.corrupt] == [
        (path, offset, PUBLISH)
    ]


def test_the_last_message_of_a_queue_is_missed_too(node: Node) -> None:
    for owner in (10, 11, 12, 12):
        node.publish(owner)
    path, offset, _ = node.records(PUBLISH)[1]
    assert node.damaged(path, offset + 70).hit() == {11}


def test_a_message_that_was_settled_before_is_no_loss(node: Node) -> None:
    for owner in (10, 11, 12, 11):
        node.publish(owner)
    node.queues.settle(11, [1])
    node.rest()
    path, offset, _ = node.records(PUBLISH)[1]
    after = node.damaged(path, offset + 70)
    assert after.hit() == set()
    assert after.lived() == node.lived()


def test_last_messages_of_a_lost_file_are_missed_though_others_of_it_were_settled(
    node: Node,
) -> None:
    node.publish(11)
    node.wal.roll()
    node.publish(11, count=4)
    path = node.wal.files[node.wal.active_file_id].path
    node.wal.roll()
    node.publish(10)
    node.queues.settle(11, [2, 3])
    node.rest()
    disk = node.disk.left_behind()
    del disk.names[path]
    assert 11 in Node(disk).hit()


def test_a_damaged_target_does_not_acquit_the_one_that_it_was(node: Node) -> None:
    for owner in (10, 11, 12):
        node.publish(owner)
    node.publish(10, 11)
    node.publish(11)
    path, offset, _ = node.records(PUBLISH)[3]
    second_target = offset + 40 + 24 + 16
    assert node.damaged(path, second_target + 6).hit() >= {10, 11}


@pytest.mark.parametrize("place", range(32))
def test_a_target_with_one_byte_changed_is_known_by_the_rest_of_it(node: Node, place: int) -> None:
    for owner in (10, 11, 12):
        node.publish(owner)
    node.wal.roll()
    node.publish(10, 11)  # Of both the last one, and in a file with no other of theirs.
    node.publish(12)
    path, offset, _ = node.records(PUBLISH)[3]
    assert node.damaged(path, offset + 40 + 24 + place).hit() == {10, 11}


def test_all_targets_of_a_lost_publish_are_hit(node: Node) -> None:
    node.publish(10, 11, 12)
    node.publish(10, 12)
    node.publish(10, 11, 12)
    path, offset, _ = node.records(PUBLISH)[1]
    assert node.damaged(path, offset + 100).hit() == {10, 12}


@pytest.mark.parametrize("kind", [SETTLE, CHECKPOINT, MARK])
def test_losing_what_is_said_of_messages_hits_nobody(node: Node, kind: int) -> None:
    for owner in (*OWNERS, *OWNERS):
        node.publish(owner)
    if kind == SETTLE:
        node.wal.append_settle(11, [(1, 1)])
    elif kind == CHECKPOINT:
        node.wal.append_checkpoint(11, [(2, 1)])
    else:
        node.wal.append_mark(11, 2)
    node.rest()
    node.publish(10)
    path, offset, _ = node.records(kind)[0]
    after = node.damaged(path, offset + (24 if kind == MARK else 52))
    assert after.hit() == set()
    assert after.lived()[11] == {1, 2}
    assert (11 in after.report.unmarked) == (kind == MARK)


@pytest.mark.parametrize("place", [0, 9, 17, 25, 29])
def test_a_file_with_a_damaged_first_block_is_read_by_the_copy_of_its_header(
    node: Node, place: int
) -> None:
    for owner in OWNERS:
        node.publish(owner)
    path, _, _ = node.records(PUBLISH)[0]
    after = node.damaged(path, place)
    assert [(bad.path, bad.offset) for bad in after.report.corrupt] == [(path, 0)]
    assert (after.lived(), after.hit()) == (node.lived(), set())


def test_a_clean_stop_stays_one_though_an_old_file_is_damaged(node: Node) -> None:
    for owner in OWNERS:
        node.publish(owner)
    path, offset, _ = node.records(PUBLISH)[0]
    node.wal.roll()
    node.rest()
    node.publish(11)
    after = node.damaged(path, offset + 70)
    assert not after.report.clean, "it was killed"
    after.wal.close(clean=True)
    again = Node(after.disk)
    assert (again.report.clean, len(again.report.corrupt)) == (True, 1)
    again.wal.close(clean=True)
    newest = again.wal.files[max(again.wal.files)].path
    assert not again.damaged(newest, BLOCK_BYTES + 2).report.clean, "where its end would be"


@pytest.mark.parametrize("place", range(64))
def test_the_last_record_with_any_byte_changed_is_told_as_a_torn_end(
    node: Node, place: int
) -> None:
    for _ in range(3):
        node.publish(10)
    path, offset, _ = node.records(PUBLISH)[-1]
    after = node.damaged(path, offset + place)
    assert (after.report.torn, after.report.corrupt) == ((path, offset), ())
    assert after.lived()[10] == {1, 2}


def test_a_damaged_first_record_is_no_torn_end_for_the_list_says_that_there_are_records(
    node: Node,
) -> None:
    node.publish(10)
    node.publish(10)
    path, offset, _ = node.records(PUBLISH)[-1]
    assert offset == BLOCK_BYTES
    after = node.damaged(path, offset + 50)
    assert (after.report.torn, [bad.path for bad in after.report.corrupt]) == (None, [path])
    assert 10 in after.hit()


def settle_all(node: Node) -> None:
    """Nothing is alive any more, and the log has had time for its upkeep."""
    node.wal.attach(node.queues)
    for owner in node.queues.known:
        held = list(node.queues.live[owner])
        if held and owner not in node.wal.ledger.frozen:
            node.queues.settle(owner, held)
    node.rest()
    node.wal.roll()
    node.rest()


def test_a_file_with_a_bad_place_that_nobody_misses_goes_when_nothing_in_it_is_alive(
    node: Node,
) -> None:
    for owner in (*OWNERS, *OWNERS):
        node.publish(owner)
    for owner in OWNERS:
        node.wal.append_mark(owner, 1)
        node.queues.marks[owner] = 1
    node.wal.roll()
    node.publish(12)
    node.wal.append_mark(11, 2)
    node.rest()
    node.publish(10)
    path, offset, _ = node.records(MARK)[-1]
    after = node.damaged(path, offset + 24)  # The newest mark of 11 is lost.
    assert (after.hit(), after.report.unmarked) == (set(), frozenset({11}))
    after.queues.marks[11] = 5  # What it counts as delivered then, to be safe.
    older = after.queues.live[10].pop(2)  # Its file stays, and the mark of 11 in that.
    settle_all(after)
    assert path not in after.disk.names
    assert older.file_id in after.wal.files
    again = Node(after.disk)
    assert again.report.corrupt == ()
    assert again.queues.marks[11] == 5


def test_a_file_whose_bad_place_somebody_misses_goes_when_the_loss_was_accepted(
    node: Node,
) -> None:
    for owner in (*OWNERS, *OWNERS):
        node.publish(owner)
    node.queues.marks = dict.fromkeys(OWNERS, 0)
    path, offset, _ = node.records(PUBLISH)[4]
    after = node.damaged(path, offset + 70)
    assert after.hit() == {11}
    after.queues.marks = dict.fromkeys(OWNERS, 0)
    after.wal.freeze(11)
    settle_all(after)
    assert path in after.disk.names, "it is what says that 11 is damaged"
    again = Node(after.disk)
    assert again.hit() == {11}
    again.wal.append_checkpoint(11, [])
    again.rest()
    last = Node(again.disk)
    last.queues.marks = dict.fromkeys(OWNERS, 0)
    assert (len(last.report.corrupt), last.hit()) == (1, set())
    settle_all(last)
    assert path not in last.disk.names
    assert Node(last.disk).report.corrupt == ()


def test_no_file_goes_while_messages_of_nobody_known_are_beside_a_bad_place(node: Node) -> None:
    for owner in (*OWNERS, *OWNERS):
        node.publish(owner)
    node.queues.settle(11, [1])
    node.rest()
    node.publish(10)
    path, offset, _ = node.records(PUBLISH)[1]  # No owner misses that one.
    node.disk.names[path].cached[offset + 70] ^= 1
    after = Node(node.disk, known={10, 11})  # The definition of 12 may be what was lost.
    assert after.hit() == set()
    settle_all(after)
    assert path in after.disk.names


def test_an_accepted_loss_of_a_shortened_file_stays_accepted(node: Node) -> None:
    group = 7
    node.queues.publish_bodies([11], [b"lost"], 0)
    node.wal.append_hard_state(group, 1, 1, 1)
    node.wal.append_raft_entries(group, 1, 1, 1, 1, 0, [(b"entry",)])
    node.rest()
    path, _, _ = node.records(PUBLISH)[0]
    before = Node(node.disk)
    before.publish(12)
    before.wal.append_hard_state(group, 1, 2, 1)
    before.wal.append_raft_entries(group, 1, 2, 2, 2, 0, [(b"entry",)])
    before.rest()
    del before.disk.names[path].cached[BLOCK_BYTES + 8 :]
    after = Node(before.disk)
    assert after.hit() == {11}
    after.wal.append_checkpoint(11, [])
    after.rest()
    unsaved = Node(after.disk)
    assert {(hit.owner, hit.lost_upto) for hit in unsaved.report.hits} == {(group, 1)}
    unsaved.queues.marks = dict.fromkeys(OWNERS, 0)
    unsaved.wal.attach(unsaved.queues)
    unsaved.rest()
    assert path in unsaved.disk.names
    last = Node(unsaved.disk, saved={group: 1})
    assert last.report.hits == ()
    last.queues.marks = dict.fromkeys(OWNERS, 0)
    last.wal.attach(last.queues)
    last.rest()
    assert path not in last.disk.names
    assert Node(last.disk).report.corrupt == ()


def overwritten(node: Node, path: str, first: int, end: int) -> Node:
    """Restarted, with zeros in a part of the file."""
    for at in range(first, end):
        node.disk.names[path].cached[at] = 0
    return Node(node.disk)


@pytest.mark.parametrize("sector", range(0, BLOCK_BYTES, 512))
def test_no_sector_of_the_first_block_alone_takes_the_file_with_it(node: Node, sector: int) -> None:
    node.publish(*OWNERS)
    path, _, _ = node.records(PUBLISH)[0]
    after = overwritten(node, path, sector, sector + 512)
    assert after.lived() == node.lived()
    told = [(bad.path, bad.offset) for bad in after.report.corrupt]
    assert told == ([(path, 0)] if sector == 0 else [])


def test_a_full_file_without_its_first_block_is_read_by_what_its_records_say(node: Node) -> None:
    for _ in range(30):
        node.queues.publish_bodies([10], [bytes(900)], 0)
        node.rest()
    full = node.records(PUBLISH)[0][0]
    after = overwritten(node, full, 0, BLOCK_BYTES)
    assert [(bad.path, bad.offset) for bad in after.report.corrupt] == [(full, 0)]
    assert (after.lived(), after.hit()) == (node.lived(), set())


def test_the_newest_file_without_its_first_block_may_hold_an_earlier_life(node: Node) -> None:
    node.publish(10)
    node.wal.close(clean=False)
    newest = max(path for path in node.disk.names if "wal-" in path)
    after = overwritten(node, newest, 0, BLOCK_BYTES)
    assert [(bad.path, bad.offset) for bad in after.report.corrupt] == [(newest, 0)]
    assert newest not in [each.path for each in after.report.file_reports]


def test_a_file_cut_to_nothing_is_reported(node: Node) -> None:
    node.publish(10)
    path, _, _ = node.records(PUBLISH)[0]
    node.disk.names[path].truncate(0)
    assert [bad.path for bad in Node(node.disk).report.corrupt] == [path]


def test_unreadable_headers_accuse_whoever_misses_messages_there(node: Node) -> None:
    for owner in (*OWNERS, *OWNERS, *OWNERS):
        node.publish(owner)
    places = node.records(PUBLISH)
    path, offset, size = places[4]
    for at in range(offset - 60, offset + size):  # The end of the one before, too: of queue 10.
        node.disk.names[path].cached[at] = 0
    after = Node(node.disk)
    assert after.report.corrupt[0].owners == ()
    assert after.hit() == {10, 11}


def test_a_checkpoint_behind_the_place_ends_the_suspicion(node: Node) -> None:
    for owner in (*OWNERS, *OWNERS):
        node.publish(owner)
    path, offset, _ = node.records(PUBLISH)[4]
    after = node.damaged(path, offset + 70)
    assert after.hit() == {11}
    after.wal.append_checkpoint(11, after.queues.alive(11))
    after.rest()
    again = Node(after.disk)
    assert again.hit() == set()
    assert len(again.report.corrupt) == 1


def test_a_checkpoint_that_names_what_is_gone_accuses(node: Node) -> None:
    for owner in (*OWNERS, *OWNERS):
        node.publish(owner)
    node.wal.append_checkpoint(11, [(1, 2)])
    node.rest()
    path, offset, _ = node.records(PUBLISH)[4]
    assert node.damaged(path, offset + 70).hit() == {11}


def test_a_lost_entry_names_its_group_and_where(node: Node) -> None:
    for index in (1, 2, 3):
        node.wal.append_entry(GROUP, index, [b"entry"])
    node.rest()
    node.publish(10)
    path, offset, _ = node.records(ENTRY)[2]
    after = node.damaged(path, offset + 41)
    assert [(hit.owner, hit.entry_after) for hit in after.report.hits] == [(GROUP, 2)]
    assert sorted(after.queues.entries) == [1, 2]


def test_the_files_of_a_frozen_owner_stay(node: Node) -> None:
    node.publish(10)
    node.publish(11)
    assert node.queues.live[10][1].file_id != node.queues.live[11][1].file_id
    node.wal.roll()
    node.rest()
    node.wal.attach(node.queues)
    node.wal.freeze(11)
    held = node.queues.live[10].pop(1)
    node.wal.release(held.file_id, held.length)
    other = node.queues.live[11].pop(1)
    node.wal.release(other.file_id, other.length)
    node.rest()
    assert held.file_id not in node.wal.files
    assert other.file_id in node.wal.files
    node.wal.thaw(11)
    node.rest()
    assert other.file_id not in node.wal.files


def test_a_lost_message_in_a_segment_hits_its_queue() -> None:
    node = Node(SimDisk(), slack_bytes=0)
    node.wal.attach(node.queues)
    for number in range(120):
        bodies = [bytes([number]) * 900]
        node.queues.publish_bodies([OWNERS[number % 3]], bodies, 0)
        node.rest()
    for owner in OWNERS:
        held = list(node.queues.live[owner])
        node.queues.settle(owner, [seq for seq in held if seq % 10])
    node.rest()
    places = [each for each in node.records(PUBLISH) if "seg-" in each[0]]
    assert places
    for path, offset, _ in places:
        disk = node.disk.copy()
        (owner,) = {
            owner
            for owner in OWNERS
            for held in node.queues.live[owner].values()
            if held.offset - 200 < offset < held.offset and str(held.file_id) in path
        }
        disk.names[path].cached[offset + 300] ^= 1
        after = Node(disk)
        assert after.hit() == {owner}
        assert [(bad.path, bad.offset) for bad in after.report.corrupt] == [(path, offset)]


def busy_log(seed: int) -> Node:
    """Several files with records of all kinds in random order."""
    drawn = random.Random(seed)
    node = Node(SimDisk())
    index = 0
    for _ in range(120):
        deed = drawn.randrange(10)
        owner = drawn.choice(OWNERS)
        held = list(node.queues.live[owner])
        if deed < 6:
            targets = drawn.sample(OWNERS, drawn.choice((1, 1, 1, 2, 3)))
            bodies = [
                drawn.randbytes(drawn.randrange(1, 300)) for _ in range(drawn.randrange(1, 4))
            ]
            node.queues.publish_bodies(targets, bodies, 0)
        elif deed == 6 and held:
            node.queues.settle(owner, drawn.sample(held, drawn.randrange(1, len(held) + 1)))
        elif deed == 7:
            node.wal.append_mark(owner, node.queues.last_seqs[owner])
        elif deed == 8:
            node.wal.append_checkpoint(owner, node.queues.alive(owner))
        else:
            index += 1
            node.queues.entries[index] = b"entry %d" % index
            node.wal.append_entry(GROUP, index, [node.queues.entries[index]])
        if drawn.random() < 0.7:
            node.rest()
    node.rest()
    return node


@pytest.mark.parametrize("seed", range(5))
def test_any_flipped_byte_is_reported_and_no_message_of_a_healthy_queue_is_lost(seed: int) -> None:
    drawn = random.Random(1000 + seed)
    node = busy_log(seed)
    lived = node.lived()
    paths = sorted(path for path in node.disk.names if "wal-" in path)
    used = {file.path: file for file in node.wal.files.values()}
    for _ in range(25):
        path = drawn.choice([path for path in paths if path in used])
        end = used[path].used if used[path].sealed_lsn >= 0 else node.wal.appended_lsn
        offset = drawn.randrange(0, min(len(node.disk.names[path].cached), end + BLOCK_BYTES))
        bit = 1 << drawn.randrange(8)
        disk = node.disk.copy()
        disk.names[path].cached[offset] ^= bit
        after = Node(disk)
        report = after.report
        hits = {hit.owner for hit in report.hits if hit.entry_after < 0}
        for owner in set(OWNERS) - hits:
            assert lived[owner] <= after.lived()[owner] or report.torn is not None, (path, offset)
        lost = set(node.queues.entries) - set(after.queues.entries)
        at_end = lost and min(lost) > max(after.queues.entries, default=0)
        if at_end and report.torn is None:  # Else its group sees the gap.
            assert any(hit.owner == GROUP for hit in report.hits), (path, offset)
        if not report.corrupt and report.torn is None:
            assert after.lived() == lived, (path, offset)
        for bad in report.corrupt:
            assert bad.path == path
            assert bad.offset <= offset
            assert bad.kind in KIND_NAMES or bad.kind == 0
