"""What stays alive for ever keeps little else on disk, and clearing away never runs off."""

import errno
from random import Random

import pytest

from tests.sim.storage.sim_disk import SimDisk
from tests.unit.storage.test_wal import FILE_BYTES, Node, body
from warren.storage.files import BLOCK_BYTES
from warren.storage.record import CHECKPOINT, SETTLE
from warren.storage.upkeep import AGE_PART

SLACK_FILES = 2
node_random = Random(7)


class Small(Node):
    """As in a node: two files of slack, and the holding back of publishers is heard."""

    def __init__(
        self,
        disk: SimDisk | None = None,
        known: set[int] | None = None,
        file_bytes: int = FILE_BYTES,
    ) -> None:
        super().__init__(disk, known, file_bytes, slack_bytes=SLACK_FILES * FILE_BYTES)
        self.held: list[bool] = []
        self.wal.on_behind = self.held.append

    def excess_files(self) -> float:
        """Files on disk, the active one and the reserve not counted, beyond three times the live
        records."""
        use = self.wal.disk_use()
        full = use.log_bytes + use.segment_bytes - FILE_BYTES
        return (full - 3 * use.live_record_bytes) / FILE_BYTES


@pytest.fixture
def node() -> Small:
    made = Small()
    made.open()
    return made


def stream(node: Small, owners: list[int], count: int, keep_every: int) -> float:
    """Publish and settle one by one, but for some; the greatest excess on the way."""
    worst = 0.0
    for number in range(count):
        firsts = node.queues.publish_bodies(owners, [body(number)], 0)
        if number % keep_every:
            for owner, first in zip(owners, firsts, strict=True):
                node.queues.settle(owner, [first])
        if number % 8 == 7:
            node.rest()
            worst = max(worst, node.excess_files())
    return worst


@pytest.mark.parametrize("keep_every", [1 << 30, 50, 7], ids=["the first", "one in 50", "one in 7"])
def test_what_is_never_settled_keeps_no_more_than_three_times_its_bytes(
    node: Small, keep_every: int
) -> None:
    assert stream(node, [10], 1500, keep_every) <= SLACK_FILES
    kept = list(range(1, 1501, keep_every))
    assert node.live() == {10: kept}
    assert node.bodies(10) == [body(seq - 1) for seq in kept]
    assert node.restarted().live() == {10: kept}


def test_a_slow_queue_of_a_fanout_keeps_what_it_has_and_no_more(node: Small) -> None:
    worst = 0.0
    for number in range(900):
        firsts = node.queues.publish_bodies([10, 11, 12], [body(number)], 0)
        node.queues.settle(10, [firsts[0]])
        node.queues.settle(11, [firsts[1]])
        if number % 40:
            node.queues.settle(12, [firsts[2]])
        if number % 8 == 7:
            node.rest()
            worst = max(worst, node.excess_files())
    assert worst <= SLACK_FILES
    assert node.bodies(12) == [body(number) for number in range(0, 900, 40)]


def test_many_queues_with_little_alive_each_do_not_keep_the_files_of_a_busy_one() -> None:
    many = set(range(100, 400))
    node = Small(known=many | {10})
    node.open()
    for owner in sorted(many):
        first = node.queues.publish_bodies([owner], [b"kept", b"gone"], 0)[0]
        node.queues.settle(owner, [first + 1])
    assert stream(node, [10], 1500, 1 << 30) <= SLACK_FILES + 2
    assert node.wal.tally.debts_paid < 300 * 60
    assert {owner: [1] for owner in many} | {10: [1]} == node.restarted().live()


def test_saying_anew_comes_to_an_end_where_it_fills_files_by_itself() -> None:
    many = set(range(100, 1000))
    node = Small(known=many)
    node.open()
    for owner in sorted(many):
        first = node.queues.publish_bodies([owner], [b"kept", b"gone"], 0)[0]
        node.queues.settle(owner, [first + 1])
        node.queues.marks[owner] = 1
        node.wal.append_mark(owner, 1)
    for _ in range(6):
        node.wal.roll()
        node.rest()  # Fails if it does not come to rest.
    assert node.restarted().live() == {owner: [1] for owner in many}


def test_what_settles_a_queue_with_many_survivors_is_said_anew_in_pieces(node: Small) -> None:
    node.queues.publish_bodies([10], [b"%05d" % number for number in range(400)], 0)
    node.queues.settle(10, [seq for seq in range(1, 401) if seq % 2])
    node.wal.roll()
    node.rest()
    node.queues.settle(10, [2])  # The second SETTLE is in a file that dies.
    node.wal.roll()
    node.rest()
    assert [owner for _, owner in node.kinds(CHECKPOINT)] == []
    assert len(node.kinds(SETTLE)) > 20
    assert node.restarted().live() == {10: list(range(4, 401, 2))}


def test_numbers_that_are_settled_without_a_message_stay_used(node: Small) -> None:
    """A mirrored queue that becomes a classic one passes over those of other terms."""
    node.queues.publish_bodies([10], [body(1)], 0)
    node.wal.roll()
    node.rest()
    file_id = node.wal.active_file_id
    node.wal.append_settle(10, [(2, 98)])
    node.wal.roll()
    node.rest()
    assert file_id not in node.wal.files and len(node.kinds(CHECKPOINT)) == 1
    again = node.restarted()
    assert again.live() == {10: [1]}
    assert again.queues.last_seqs[10] == 99


def test_a_message_settled_between_two_pieces_stays_settled(node: Small) -> None:
    node.queues.publish_bodies([10], [b"%05d" % number for number in range(60)], 0)
    node.wal.roll()
    node.queues.settle(10, list(range(1, 61, 2)))
    node.wal.roll()
    node.wal.flush()
    pieces = 0
    while node.runner.posted or node.runner.kicked or node.runner.slow or node.runner.rewrites:
        before = node.wal.tally.debts_paid
        node.runner.step(node_random)
        if node.wal.tally.debts_paid > before and pieces < 3:
            pieces += 1
            node.queues.settle(10, [2 * pieces])  # Said to be alive a moment ago.
            node.wal.roll()
    assert pieces
    left = {10: [seq for seq in range(2, 61, 2) if seq > 2 * pieces]}
    assert node.live() == left
    for _ in range(3):
        node.wal.roll()
        node.rest()
    assert node.restarted().live() == left


def test_publishers_wait_while_rewriting_is_behind_and_not_longer(node: Small) -> None:
    node.runner.stalled = True
    count = 0
    while not node.wal.disk_use().is_behind and count < 400:
        seq = node.queues.publish_bodies([10], [body(count)], 0)[0]
        if count % 50:
            node.queues.settle(10, [seq])
        count += 1
        node.rest()
    assert node.held[-1]
    assert node.runner.hurried
    node.runner.stalled = False
    node.rest()
    assert node.held == [True, False] * node.wal.tally.behind_count
    assert not node.runner.hurried
    assert node.excess_files() <= SLACK_FILES
    assert node.live() == {10: list(range(1, count + 1, 50))}


def test_rewriting_hurries_before_publishers_have_to_wait(node: Small) -> None:
    node.runner.stalled = True
    count = 0
    while not node.runner.hurried and count < 400:
        seq = node.queues.publish_bodies([10], [body(count)], 0)[0]
        node.queues.settle(10, [seq] if count % 50 else [])
        count += 1
        node.rest()
    assert node.held == []
    assert not node.wal.disk_use().is_behind


def test_publishers_go_on_a_little_with_each_piece_that_is_rewritten(node: Small) -> None:
    """They neither wait until all is done nor run away from it."""
    node.runner.stalled = True
    count = 0
    while not node.wal.disk_use().is_behind and count < 400:
        count = publish_one(node, count)
    assert node.held == [True]
    upkeep = node.upkeep
    pieces = 0
    in_its_midst = 0
    while node.held[-1] or pieces < 40:
        node.runner.stalled = False
        while node.held[-1] and node.runner.step(node_random):
            pieces += 1
        node.runner.stalled = True
        assert not node.held[-1], "they wait and nothing is done"
        in_its_midst += upkeep.compaction is not None
        begun = count
        while not node.held[-1] and count < begun + 400:
            count = publish_one(node, count)
            if not upkeep.is_pacing:
                break
    # Oftener than files are rewritten, or they would wait once for each until it is done.
    assert node.wal.tally.behind_count > node.wal.tally.begun > 3
    assert in_its_midst > 3
    node.runner.stalled = False
    node.rest()
    assert node.excess_files() <= SLACK_FILES
    assert node.live() == {10: list(range(1, count + 1, 10))}


def publish_one(node: Small, number: int) -> int:
    """Each tenth stays; how many there are now."""
    seq = node.queues.publish_bodies([10], [body(number)], 0)[0]
    node.queues.settle(10, [seq] if number % 10 else [])
    node.rest()
    return number + 1


def test_few_files_are_rewritten_together_so_that_the_first_go_soon(node: Small) -> None:
    node.runner.stalled = True
    for number in range(400):
        seq = node.queues.publish_bodies([10], [body(number)], 0)[0]
        node.queues.settle(10, [seq] if number % 10 else [])
        node.rest()
    node.runner.stalled = False
    node.rest()
    assert node.wal.tally.finished > 2
    assert node.excess_files() <= SLACK_FILES
    assert node.live() == {10: list(range(1, 401, 10))}


def thin_files(node: Small, count: int, keep_every: int) -> int:
    """So many full files of which little is alive, while nothing is rewritten; the last number."""
    node.runner.stalled = True
    number = 0
    while sum(file.sealed_lsn >= 0 for file in node.wal.files.values()) < count:
        seq = node.queues.publish_bodies([10], [body(number)], 0)[0]
        node.queues.settle(10, [seq] if number % keep_every else [])
        node.rest()
        number += 1
    return number


def sources(node: Small) -> int:
    """How many files are being rewritten."""
    upkeep = node.upkeep
    return 0 if upkeep.compaction is None else len(upkeep.compaction.sources)


def test_a_file_that_was_just_filled_is_not_rewritten_as_if_what_it_has_were_there_to_stay(
    node: Small,
) -> None:
    number = thin_files(node, 1, 10)
    assert sources(node) == 0
    node.queues.publish_bodies([10], [bytes(FILE_BYTES // AGE_PART)], 0)
    node.rest()
    node.queues.publish_bodies([10], [body(number)], 0)
    node.rest()
    assert sources(node) == 1


def test_files_of_which_much_is_to_be_copied_are_rewritten_one_by_one(node: Small) -> None:
    for number in range(3 * FILE_BYTES // len(body(0))):
        node.queues.publish_bodies([10], [body(number)], 0)
        node.rest()
    node.runner.stalled = True
    node.queues.settle(10, [seq for seq in node.queues.live[10] if seq % 8])
    node.rest()
    assert node.excess_files() > 1
    assert sources(node) == 1


def test_publishers_wait_while_dead_files_do_not_go(node: Small) -> None:
    number = 0
    while not node.wal.disk_use().is_behind and number < 400:
        seq = node.queues.publish_bodies([10], [body(number)], 0)[0]
        node.queues.settle(10, [seq])
        without_background(node)
        number += 1
    assert node.held == [True]
    node.rest()
    assert not node.held[-1]
    assert node.excess_files() <= SLACK_FILES


def without_background(node: Small) -> None:
    """All that can be done while no thread removes files."""
    node.wal.flush()
    while node.runner.kicked or node.runner.posted:
        if node.runner.kicked:
            node.runner.write_once()
        else:
            node.runner.posted.popleft()()


def test_the_next_file_is_rewritten_while_the_last_one_is_on_its_way_out(node: Small) -> None:
    thin_files(node, 4, 8)
    upkeep = node.upkeep
    node.runner.stalled = False
    both = 0
    while node.runner.step(node_random):
        both += upkeep.dropping is not None and upkeep.compaction is not None
    assert both > 0


def test_no_file_is_left_half_empty_while_there_is_much_to_be_rewritten(node: Small) -> None:
    node.disk.space_bytes = 0  # No reserve, so that the next file is a fresh one.
    number = thin_files(node, 1, 10)
    node.disk.space_bytes = -1
    while node.wal.files[node.wal.active_file_id].written_before:
        number = publish_one(node, number)
    before = node.wal.active_file_id
    assert node.excess_files() > SLACK_FILES / 4
    node.wal.retry()
    node.rest()
    assert node.wal.reserve_count == 2
    assert node.wal.active_file_id == before
    node.runner.stalled = False
    while node.wal.active_file_id == before:
        number = publish_one(node, number)
    assert node.excess_files() <= SLACK_FILES


class NoSegments(SimDisk):
    """There is room for the log's own files alone."""

    full = True

    def create(self, path: str, size: int) -> int:
        if self.full and size == 0:
            raise OSError(errno.ENOSPC, "full", path)
        return super().create(path, size)


def test_nobody_waits_for_a_rewriting_that_cannot_be_done() -> None:
    disk = NoSegments()
    node = Small(disk)
    node.open()
    for number in range(300):
        seq = node.queues.publish_bodies([10], [body(number)], 0)[0]
        if number % 20:
            node.queues.settle(10, [seq])
        node.rest()
        assert not node.wal.disk_use().is_behind
    assert node.wal.tally.failed > 0
    disk.full = False
    node.wal.retry()
    node.rest()
    assert node.excess_files() <= SLACK_FILES
    assert len(node.live()[10]) == 15


def test_a_thin_file_that_is_damaged_is_kept_and_the_others_are_rewritten(node: Small) -> None:
    for number in range(100):
        node.queues.publish_bodies([10], [body(number)], 0)
    node.rest()
    held = node.queues.live[10][1]
    path = node.wal.files[held.file_id].path
    node.disk.names[path].cached[held.offset + 5] ^= 1
    node.queues.settle(10, [seq for seq in range(1, 101) if seq % 20 != 1])
    for _ in range(4):
        node.wal.roll()
        node.rest()
    assert node.wal.tally.failed == 1
    assert node.wal.tally.finished >= 1
    assert path in node.disk.names
    assert node.excess_files() <= SLACK_FILES + 1


def test_only_what_lies_around_survivors_is_read() -> None:
    node = Small(file_bytes=64 * FILE_BYTES)
    node.open()
    for number in range(6000):
        seq = node.queues.publish_bodies([10], [body(number)], 0)[0]
        if number % 1500:
            node.queues.settle(10, [seq])
        if number % 50 == 0:
            node.rest()
    node.wal.roll()
    node.rest()
    tally = node.wal.tally
    assert tally.finished > 0
    assert tally.read_bytes < 4 * (3 * 65_536 + BLOCK_BYTES)
    assert node.live() == {10: [1, 1501, 3001, 4501]}
    assert node.bodies(10) == [body(number) for number in (0, 1500, 3000, 4500)]


def test_after_a_restart_survivors_are_found_by_place_too() -> None:
    before = Small()
    before.open()
    for number in range(120):
        before.queues.publish_bodies([10], [body(number)], 0)
    before.rest()
    node = Small(before.disk, before.queues.known)
    node.open()
    assert all(len(file.landmarks) for file in node.wal.files.values() if file.live)
    node.queues.settle(10, [seq for seq in range(1, 121) if seq % 40 != 1])
    stream(node, [11], 200, 1 << 30)
    assert node.wal.tally.finished > 0
    assert node.bodies(10) == [body(number) for number in (0, 40, 80)]


def test_a_segment_is_not_taken_for_dead_while_its_owners_are_being_told() -> None:
    node = Small(file_bytes=64 * FILE_BYTES)
    node.open()
    for number in range(5000):
        seq = node.queues.publish_bodies([10], [b"%06d" % number], 0)[0]
        if number % 4:
            node.queues.settle(10, [seq])
    node.wal.roll()
    node.wal.flush()
    upkeep = node.upkeep
    told: list[int] = []
    while node.runner.step(node_random):
        making = upkeep.compaction
        if making is None or making.segment.id not in node.wal.files or told:
            continue
        told = [seq for seq, at in node.queues.live[10].items() if at.file_id == making.segment.id]
        node.queues.settle(10, told)  # All that have been told until now.
        upkeep.turn()
        node.wal.flush()
    assert told
    left = [seq for seq in range(1, 5001, 4) if seq not in set(told)]
    assert left
    assert node.live() == {10: left}
    assert node.bodies(10) == [b"%06d" % (seq - 1) for seq in left]


def test_a_file_stays_where_an_owner_has_not_told_all_its_places(
    node: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(90):
        node.queues.publish_bodies([10], [body(number)], 0)
    node.rest()
    forgotten = node.queues.live[10][1].offset
    known = node.queues.places

    def places(owner: int, file_id: int, after: int) -> tuple[list[int], int]:
        found, following = known(owner, file_id, after)
        return [place for place in found if place != forgotten], following

    monkeypatch.setattr(node.queues, "places", places)
    node.queues.settle(10, [seq for seq in range(1, 91) if seq not in (1, 40, 70)])
    for _ in range(3):
        node.wal.roll()
        node.rest()
    assert node.wal.tally.finished > 0
    assert node.bodies(10) == [body(0), body(39), body(69)]
    assert node.restarted().live() == {10: [1, 40, 70]}


@pytest.mark.parametrize("is_chosen", [False, True], ids=["before", "after"])
def test_messages_that_come_again_are_not_moved_with_their_old_copies(is_chosen: bool) -> None:
    """A member of a group leaves, and joins again, before or after its messages were copied."""
    node = Small()
    node.open()
    bodies = [body(number) for number in range(90)]
    for each in bodies:
        node.queues.publish_bodies([10, 11], [each], 0)
    node.rest()
    node.queues.settle(11, [seq for seq in range(1, 91) if seq % 30])
    if is_chosen:
        # What the member settles is settled by its group: not in this log.
        for seq in [seq for seq in range(1, 91) if seq % 10]:
            gone = node.queues.live[10].pop(seq)
            node.wal.release(gone.file_id, gone.length)
        node.wal.roll()
        node.wal.flush()
        while node.upkeep.compaction is None or node.upkeep.compaction.written_bytes == 0:
            assert node.runner.step(node_random)
    for message in node.queues.live[10].values():
        node.wal.release(message.file_id, message.length)
    node.queues.live[10] = {}
    node.queues.last_seqs[10] = 0
    for first in range(0, 90, 3):  # In other records than before.
        node.queues.publish_bodies([10], bodies[first : first + 3], 0)
    for _ in range(3):
        node.wal.roll()
        node.rest()
    assert node.wal.tally.finished > 0
    assert node.bodies(10) == bodies
    assert node.bodies(11) == [body(seq - 1) for seq in (30, 60, 90)]
    node.queues.settle(10, list(range(1, 91)))
    node.queues.settle(11, [30, 60, 90])
    assert node.wal.ledger.live_bytes() == 0
    for _ in range(3):
        node.wal.roll()
        node.rest()
    assert all(file.live == 0 for file in node.wal.files.values())
    assert node.alarms == []


def test_no_file_is_set_aside_while_an_owner_that_is_gone_frees_what_it_had(node: Small) -> None:
    """It frees a long queue in slices: its messages are not missed."""
    for number in range(90):
        node.queues.publish_bodies([10, 11], [body(number)], 0)
    node.rest()
    node.queues.settle(11, [seq for seq in range(1, 91) if seq % 30])
    node.queues.settle(10, [seq for seq in range(1, 91) if seq % 10])
    node.wal.roll()
    node.wal.flush()
    while node.upkeep.compaction is None:
        assert node.runner.step(node_random)
    gone = node.queues.live.pop(10)
    node.wal.note_freeing(1)
    node.wal.append_deleted(10)
    node.rest()
    assert node.alarms == []
    finished = node.wal.tally.finished
    node.wal.roll()
    node.rest()
    assert node.wal.tally.finished == finished  # Nothing to gain before that is freed.
    for message in gone.values():
        node.wal.release(message.file_id, message.length)
    node.wal.note_freeing(-1)
    node.wal.roll()
    node.rest()
    assert node.alarms == []
    assert node.excess_files() <= SLACK_FILES
    assert node.bodies(11) == [body(seq - 1) for seq in (30, 60, 90)]


@pytest.mark.parametrize("others", [[], [11]], ids=["stretch", "record"])
def test_messages_that_are_twice_in_one_file_are_found_once(node: Small, others: list[int]) -> None:
    """A member of a group has left and joined again, and nothing else in the log is of a group."""
    bodies = [body(number) for number in range(9)]
    node.queues.publish_bodies([10, *others], bodies, 0)
    for message in node.queues.live[10].values():
        node.wal.release(message.file_id, message.length)
    node.queues.last_seqs[10] = 0
    for first in range(0, 9, 3):  # In other records than before.
        node.queues.publish_bodies([10], bodies[first : first + 3], 0)
    node.rest()
    again = node.restarted()
    assert again.bodies(10) == bodies
    assert again.wal.ledger.live_bytes() == node.wal.ledger.live_bytes()
