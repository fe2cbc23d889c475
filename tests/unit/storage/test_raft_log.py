"""Entries and hard states of members of log groups: kept, read back, found again, given up."""

import errno
from random import Random

import pytest

from tests.sim.storage.sim_disk import SimDisk
from tests.unit.storage.test_wal import FILE_BYTES, Node, body
from warren.storage.entry_reads import ENTRIES_MAX
from warren.storage.record import DELETED, ENTRY, HARD_STATE, RAFT_ENTRY, CorruptRecord
from warren.storage.wal import ShortRead

GROUP = 500
COMMAND, NOOP, CONFIG = 0, 1, 2

Found = list[tuple[int, int, int, int, bytes]]


@pytest.fixture
def node() -> Node:
    made = Node()
    made.open()
    return made


def content(index: int, size: int = 100) -> bytes:
    return (b"entry %06d" % index).ljust(size, b"e")


def append(
    node: Node, first: int, last: int, appended_term: int = 2, incarnation: int = 1, size: int = 100
) -> None:
    for index in range(first, last + 1):
        parts = (content(index, size)[:10], content(index, size)[10:])
        node.wal.append_raft_entries(GROUP, incarnation, index, 1, appended_term, COMMAND, [parts])


def read(node: Node, first: int, last: int, bytes_max: int = 1 << 30) -> Found | Exception:
    answers: list[Found | Exception] = []
    node.wal.read_entries(GROUP, first, last, bytes_max, answers.append)
    assert not answers, "the answer must not come before the call is over"
    node.rest()
    assert len(answers) == 1
    return answers[0]


def read_indexes(node: Node, first: int, last: int, bytes_max: int = 1 << 30) -> list[int]:
    found = read(node, first, last, bytes_max)
    assert not isinstance(found, Exception), found
    assert all(entry[4] == content(entry[0], len(entry[4])) for entry in found)
    return [entry[0] for entry in found]


def found(node: Node) -> dict[int, tuple[int, int]]:
    """Of each index the incarnation and appended_term that counts."""
    items = node.queues.found_entries.get(GROUP, [])
    return {item[0]: (incarnation, item[2]) for incarnation, item in items}


def churn(node: Node, count: int = 3 * FILE_BYTES // 1000) -> None:
    """Messages that come and go, until files have been rolled, rewritten and dropped."""
    for number in range(count):
        node.queues.publish_bodies([10], [body(number)], 0)
        node.queues.settle(10, list(node.queues.live[10]))
        if number % 8 == 7:
            node.rest()
    node.rest()


def hold(node: Node) -> None:
    """A message that stays, so that its file is not rewritten."""
    node.queues.publish_bodies([11], [body(1) * 20], 0)


def test_entries_are_read_back_as_they_were_appended(node: Node) -> None:
    node.wal.append_raft_entries(GROUP, 1, 1, 3, 4, CONFIG, [(b"conf", b"", b"ig")])
    node.wal.append_raft_entries(GROUP, 1, 2, 3, 4, NOOP, [()])
    node.rest()
    assert read(node, 1, 2) == [(1, 3, 4, CONFIG, b"config"), (2, 3, 4, NOOP, b"")]


@pytest.mark.parametrize("cut", [0, 9])
def test_entries_that_are_appended_at_once_are_those_that_come_one_by_one(
    node: Node, cut: int
) -> None:
    hold(node)
    sizes = (10, 100, 1000, 3000, 0, 7)
    contents: list[tuple[bytes, ...]] = []
    for index, size in enumerate(sizes * 4, 1):
        whole = content(index, size)
        contents.append((whole[:cut], whole[cut:]) if cut else (whole,))
    node.wal.append_raft_entries(GROUP, 1, 1, 3, 4, COMMAND, contents)
    for index, parts in enumerate(contents, 1):
        node.wal.append_raft_entries(GROUP + 1, 1, index, 3, 4, COMMAND, [parts])
    node.rest()
    together, apart = (node.ledger.entries[owner] for owner in (GROUP, GROUP + 1))
    assert together.indexes() == apart.indexes() == list(range(1, 25))
    assert len(together.runs) > 1, "it goes over a file's end"
    assert together.byte_count() == apart.byte_count()
    expected = [(index, 3, 4, COMMAND, b"".join(parts)) for index, parts in enumerate(contents, 1)]
    assert read(node, 1, 24) == expected
    live = node.wal.ledger.live_bytes()
    after = node.restarted()
    assert read(after, 1, 24) == expected
    assert after.wal.ledger.live_bytes() == live


def test_what_is_not_in_the_log_ends_the_answer(node: Node) -> None:
    append(node, 1, 10)
    append(node, 12, 14)
    node.rest()
    node.wal.release_log(GROUP, 3)
    assert read_indexes(node, 3, 5) == []
    assert read_indexes(node, 4, 100) == [4, 5, 6, 7, 8, 9, 10]
    assert read_indexes(node, 12, 12) == [12]
    assert read_indexes(node, 15, 20) == []
    answers: list[Found | Exception] = []
    node.wal.read_entries(GROUP + 1, 1, 5, 1 << 20, answers.append)
    node.rest()
    assert answers == [[]]


def test_an_answer_is_bounded_but_has_one_entry_at_least(node: Node) -> None:
    append(node, 1, 20, size=1000)
    node.rest()
    assert read_indexes(node, 1, 20, bytes_max=1) == [1]
    assert read_indexes(node, 1, 20, bytes_max=5500) == [1, 2, 3, 4, 5]
    append(node, 21, 20 + 2 * ENTRIES_MAX, size=10)
    node.rest()
    assert len(read_indexes(node, 21, 10_000)) == ENTRIES_MAX


def test_entries_far_apart_and_in_several_files_are_one_answer(node: Node) -> None:
    for index in range(1, 31):
        append(node, index, index)
        node.queues.publish_bodies([11], [body(index) * 6], 0)
    node.rest()
    assert len(node.ledger.entries[GROUP].runs) > 3
    assert read_indexes(node, 1, 30) == list(range(1, 31))


def test_a_record_that_is_not_sound_or_another_one_is_not_handed_out(node: Node) -> None:
    append(node, 1, 3)
    node.rest()
    run = node.ledger.entries[GROUP].runs[0]
    node.disk.names[run.file.path].cached[run.offset_of(2) + 70] ^= 1
    answer = read(node, 1, 3)
    assert isinstance(answer, CorruptRecord)
    assert (answer.path, answer.offset) == (run.file.path, run.offset_of(2))
    assert read_indexes(node, 3, 3) == [3]
    run.offsets[0] = run.offsets[2]
    assert isinstance(read(node, 1, 1), CorruptRecord)


def test_an_error_of_the_disk_is_the_answer(node: Node) -> None:
    append(node, 1, 3)
    node.rest()
    node.disk.failures["pread"] = OSError(errno.EIO, "unreadable")
    assert isinstance(read(node, 1, 3), OSError)
    node.disk.failures.clear()
    run = node.ledger.entries[GROUP].runs[0]
    run.offsets[2] = FILE_BYTES * 2
    assert isinstance(read(node, 3, 3), ShortRead)


def test_a_restart_finds_entries_and_contents_of_those_that_are_no_commands(node: Node) -> None:
    node.wal.append_raft_entries(GROUP, 7, 1, 3, 4, CONFIG, [(b"config",)])
    node.wal.append_raft_entries(GROUP, 7, 2, 3, 4, COMMAND, [(b"command",)])
    node.wal.append_raft_entries(GROUP, 7, 3, 4, 4, NOOP, [()])
    node.rest()
    after = node.restarted()
    assert sorted(after.queues.found_entries[GROUP]) == [
        (7, (1, 3, 4, CONFIG, b"config")),
        (7, (2, 3, 4, COMMAND, b"")),
        (7, (3, 4, 4, NOOP, b"")),
    ]
    assert read(after, 2, 2) == [(2, 3, 4, COMMAND, b"command")]


def test_of_two_records_at_an_index_the_one_with_the_highest_appended_term_counts(
    node: Node,
) -> None:
    hold(node)
    append(node, 1, 8, appended_term=2)
    node.wal.truncate_log(GROUP, 4)
    append(node, 4, 5, appended_term=3)
    node.rest()
    assert node.ledger.entries[GROUP].indexes() == [1, 2, 3, 4, 5]
    after = node.restarted()
    terms = dict.fromkeys((1, 2, 3, 6, 7, 8), 2) | {4: 3, 5: 3}
    assert found(after) == {index: (1, term) for index, term in terms.items()}
    after.wal.truncate_log(GROUP, 6)
    assert after.wal.ledger.live_bytes() == node.wal.ledger.live_bytes()


def test_appending_at_an_index_ends_what_there_was_from_there_on(node: Node) -> None:
    append(node, 1, 8, appended_term=2)
    append(node, 4, 4, appended_term=3)
    node.rest()
    assert read_indexes(node, 1, 100) == [1, 2, 3, 4]


def test_a_later_incarnation_counts_before_any_appended_term(node: Node) -> None:
    hold(node)
    append(node, 1, 3, appended_term=9, incarnation=1)
    node.wal.append_hard_state(GROUP, 1, 9, 5)
    node.wal.truncate_log(GROUP, 0)
    append(node, 1, 2, appended_term=1, incarnation=2)
    node.wal.append_hard_state(GROUP, 2, 1, 0)
    node.rest()
    after = node.restarted()
    assert found(after) == {1: (2, 1), 2: (2, 1), 3: (1, 9)}
    assert after.queues.found_states == {GROUP: (2, 1, 0)}


def test_the_newest_hard_state_has_the_highest_term_and_a_vote_if_there_is_one(node: Node) -> None:
    for term, vote in ((1, 0), (1, 5), (3, 0), (3, 6)):
        node.wal.append_hard_state(GROUP, 1, term, vote)
        node.rest()
        node = node.restarted()
        assert node.queues.found_states == {GROUP: (1, term, vote)}


def test_the_newest_hard_state_is_said_anew_before_its_file_goes(node: Node) -> None:
    node.wal.append_hard_state(GROUP, 3, 8, 2)
    first = node.wal.active_file_id
    churn(node)
    assert first not in node.wal.files
    assert node.restarted().queues.found_states == {GROUP: (3, 8, 2)}
    assert len(node.kinds(HARD_STATE)) == 1


def test_an_older_hard_state_keeps_no_file(node: Node) -> None:
    node.wal.append_hard_state(GROUP, 1, 1, 1)
    node.wal.roll()
    node.wal.append_hard_state(GROUP, 1, 2, 1)
    node.rest()
    assert len(node.kinds(HARD_STATE)) == 1
    assert node.restarted().queues.found_states == {GROUP: (1, 2, 1)}


def test_a_deleted_group_stays_away_as_long_as_anything_of_it_is_left(node: Node) -> None:
    append(node, 1, 3)
    node.wal.append_hard_state(GROUP, 1, 2, 2)
    hold(node)
    node.wal.roll()
    node.wal.append_deleted(GROUP)
    deleted_in = node.wal.active_file_id
    churn(node)
    assert deleted_in not in node.wal.files
    after = node.restarted()
    assert (after.queues.found_entries, after.queues.found_states) == ({}, {})
    assert after.kinds(RAFT_ENTRY) and after.kinds(DELETED)
    after.queues.settle(11, [1])
    after.wal.roll()
    after.rest()
    churn(after)
    assert not after.kinds(RAFT_ENTRY)
    assert not after.ledger.deleted
    assert not after.ledger.group_files


def test_a_member_that_joins_again_keeps_its_log_though_the_start_before_found_none(
    node: Node,
) -> None:
    """At the start between, no queue knows the messages of the earlier member. What is written of
    that, when files are dropped, must not delete what the new member appends."""
    joined = Node(node.disk, {10, 11, GROUP})
    joined.open()
    joined.queues.publish_bodies([GROUP], [body(1)], 0)
    hold(joined)
    joined.wal.roll()
    joined.queues.settle(GROUP, [1])
    joined.queues.publish_bodies([10], [body(2) * 20], 0)
    joined.rest()

    between = joined.restarted({10, 11})
    append(between, 1, 3, appended_term=5)
    churn(between)
    assert found(between.restarted({10, 11, GROUP})) == {1: (1, 5), 2: (1, 5), 3: (1, 5)}


def test_released_and_truncated_entries_let_their_files_go(node: Node) -> None:
    append(node, 1, 200, size=1000)
    node.rest()
    files = len(node.wal.files)
    assert files > 5
    node.wal.release_log(GROUP, 100)
    node.rest()
    assert len(node.wal.files) < files - 2
    node.wal.truncate_log(GROUP, 101)
    node.rest()
    assert len(node.wal.files) <= 2
    assert node.wal.ledger.live_bytes() == 0
    assert GROUP not in node.ledger.entries


def test_entries_in_thin_files_move_and_are_the_same_afterwards(node: Node) -> None:
    for index in range(1, 41):
        append(node, index, index, incarnation=7)
        node.queues.publish_bodies([10], [body(index) * 3], 0)
        node.queues.settle(10, list(node.queues.live[10]))
        if index % 8 == 0:
            node.rest()
    node.wal.roll()
    node.rest()
    assert node.wal.tally.finished > 0
    assert any("seg-" in run.file.path for run in node.ledger.entries[GROUP].runs)
    assert read_indexes(node, 1, 40) == list(range(1, 41))
    after = node.restarted()
    assert found(after) == dict.fromkeys(range(1, 41), (7, 2))
    assert read_indexes(after, 1, 40) == list(range(1, 41))
    after.rest()
    assert after.wal.ledger.live_bytes() == node.wal.ledger.live_bytes()


def has_named_copy(node: Node) -> bool:
    """Entries have been copied, and no owner knows it yet."""
    compaction = node.upkeep.compaction
    return compaction is not None and compaction.named


def test_what_is_truncated_while_it_is_copied_is_dead_in_the_copy(node: Node) -> None:
    order = Random(1)
    append(node, 1, 9, appended_term=2)
    node.queues.publish_bodies([10], [body(1) * 24], 0)
    node.queues.settle(10, [1])
    node.wal.roll()
    node.wal.flush()
    while not has_named_copy(node):
        assert node.runner.step(order)
    node.wal.truncate_log(GROUP, 5)
    append(node, 5, 6, appended_term=3)
    node.wal.release_log(GROUP, 2)
    node.rest()
    assert node.wal.tally.finished >= 1
    assert read_indexes(node, 3, 100) == [3, 4, 5, 6]
    after = node.restarted()
    assert {index: term for index, (_, term) in found(after).items() if 2 < index < 7} == {
        3: 2,
        4: 2,
        5: 3,
        6: 3,
    }


def test_entries_of_groups_of_one_member_are_kept_beside(node: Node) -> None:
    node.wal.append_entry(1, 1, [b"one"])
    append(node, 1, 1)
    node.wal.append_entry(1, 2, [b"two"])
    node.rest()
    after = node.restarted()
    assert after.queues.entries == {1: b"one", 2: b"two"}
    assert found(after) == {1: (1, 2)}
    assert {owner for _, owner in after.kinds(ENTRY)} == {1}


def test_a_log_that_comes_back_from_a_kill_goes_on_with_higher_numbers_of_hard_states() -> None:
    disk = SimDisk()
    numbers: list[int] = []
    for term in (1, 2, 3):
        node = Node(disk)
        node.open()
        node.wal.append_hard_state(GROUP, 1, term, 1)
        node.rest()
        numbers.append(max(record.index for _, record in node.written(HARD_STATE)))
    assert numbers == sorted(set(numbers))
