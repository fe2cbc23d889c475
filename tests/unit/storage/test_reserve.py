"""Files of the log in reserve: when one is written, and when one that was full is used again."""

import pytest

from tests.unit.storage.test_wal import FILE_BYTES, Node, body


@pytest.fixture
def node() -> Node:
    made = Node()
    made.open()
    made.queues.publish_bodies([10], [body(0)], 0)
    made.rest()
    assert made.wal.reserve_count == 2
    return made


def fill(node: Node, is_kept: bool) -> None:
    """Go over to the next file, by messages that stay or that are gone at once."""
    before = node.wal.active_file_id
    number = 0
    while node.wal.active_file_id == before:
        node.queues.publish_bodies([10], [body(number)], 0)
        if not is_kept:
            node.queues.settle(10, list(node.queues.live[10]))
        node.rest()
        number += 1


def test_a_file_that_dies_soon_is_used_again_and_none_is_written_in_its_place(node: Node) -> None:
    for _ in range(6):
        fill(node, is_kept=False)
        assert node.wal.reserve_count == 2
    tally = node.wal.tally
    assert tally.recycled_files >= 5
    assert tally.dropped_files <= tally.recycled_files + 2  # those of before the reserve


def test_a_file_that_stays_is_replaced_before_the_next_is_full(node: Node) -> None:
    fill(node, is_kept=True)
    assert node.wal.reserve_count == 1
    end = node.wal.appended_lsn + FILE_BYTES
    number = 0
    while node.wal.reserve_count == 1:
        node.queues.publish_bodies([10], [body(number)], 0)
        node.rest()
        number += 1
    assert FILE_BYTES // 8 < end - node.wal.appended_lsn < FILE_BYTES // 2


def test_without_a_file_in_line_one_is_written_at_once(node: Node) -> None:
    fill(node, is_kept=True)
    node.disk.space_bytes = 0
    fill(node, is_kept=True)
    assert node.wal.reserve_count == 0
    assert node.failures == []
    node.disk.space_bytes = -1
    node.wal.retry()
    node.rest()
    assert node.wal.faults == {}
    assert node.wal.reserve_count == 2
