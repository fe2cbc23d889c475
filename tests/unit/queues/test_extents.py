"""Extents: tables of places, and when a store folds and unfolds its slots."""

import struct
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.bodies.extents import Columns, decode_table, encode_table
from queues.bodies.store import (
    EXTENT_MESSAGES,
    EXTENT_SLOTS,
    LOOSE_EXTENTS,
    RICH_MESSAGES,
    BodyBudget,
    Slot,
    Store,
)
from queues.hosts.found_state import Found, note_stretch
from queues.machine.commands import ACCEPT, Purge
from queues.machine.fifo import Fifo
from queues.machine.options import Options
from queues.machine.traits import Traits, encode_meta
from queues.message import FORMAT_091, FORMAT_10, Chunk
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.messages import table

BOUNDED = settings(max_examples=200, deadline=None, database=None)
SMALL = 4
RECORD_BYTES = 96  # between the messages of two records


def stored(bodies: list[bytes], offset: int, base: int = 0, info: int = 1) -> Chunk:
    """A chunk that is in file 1 alone."""
    chunk = Chunk(FORMAT_091, None, 0, table(bodies, base), info)
    chunk.file_id = 1
    chunk.file_offset = offset
    chunk.durable = True
    return chunk


def row(chunk: Chunk) -> tuple[int, int, int, int, bool, list[int]]:
    """What a chunk on disk is, wherever its table of offsets begins."""
    sizes = [chunk.bytes_between(index, index + 1) for index in range(chunk.count())]
    return chunk.file_id, chunk.file_offset, chunk.format_tag, chunk.info, chunk.lazy, sizes


class Backlog:
    """A store with single messages of 10 bytes, each in a record of its own, on disk alone."""

    def __init__(self, extent_slots: int = SMALL) -> None:
        self.budget = BodyBudget(0, extent_slots)
        self.store = Store(self.budget)
        self.chunks: list[Chunk] = []
        self.offset = 4096

    def add(self, count: int = 1, durable: bool = True) -> None:
        for _ in range(count):
            chunk = stored([b"0123456789"], self.offset)
            chunk.durable = durable
            self.offset += 10 + RECORD_BYTES
            self.chunks.append(chunk)
            self.store.add(len(self.chunks), chunk, 0, 1, True)

    def spans(self) -> list[tuple[int, int]]:
        """Slots and extents that there are."""
        return self.store.journaled_spans()[0]


# Tables


@BOUNDED
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 300), min_size=1, max_size=5),
            st.integers(0, 4),
            st.integers(0, 4),
            st.integers(0, 5000),
            st.integers(0, 255),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_chunks_come_out_of_a_table_as_they_went_in(
    rows: list[tuple[list[int], int, int, int, int]],
) -> None:
    offset = 4096
    chunks: list[Chunk] = []
    indexes: list[int] = []
    counts: list[int] = []
    for sizes, cut_first, cut_last, gap, info in rows:
        bodies = [bytes(size) for size in sizes]
        chunks.append(stored(bodies, offset + gap, gap, info))
        offset += gap + sum(sizes)
        indexes.append(min(cut_first, len(sizes) - 1))
        counts.append(max(1, len(sizes) - indexes[-1] - cut_last))
    whole = stored([b"x"], chunks[0].file_offset + chunks[0].bytes_between(0, indexes[0]))
    found = decode_table(encode_table(chunks, indexes, counts, False), whole)
    expected = []
    for chunk, index, count in zip(chunks, indexes, counts, strict=True):
        file_id, file_offset, tag, info, lazy, sizes = row(chunk)
        begin = file_offset + sum(sizes[:index])
        expected.append((file_id, begin, tag, info, lazy, sizes[index : index + count]))
    assert [row(chunk) for chunk in found] == expected
    assert all(chunk.durable and chunk.data is None for chunk in found)


@pytest.mark.parametrize(("sizes", "bytes_each"), [((100, 100), 0.3), ((100, 2000), 4.0)])
def test_a_table_takes_few_bytes_for_each_message(
    sizes: tuple[int, int], bytes_each: float
) -> None:
    random = Random(1)
    chunks: list[Chunk] = []
    offset = 4096
    for _ in range(EXTENT_SLOTS):
        body = bytes(random.randint(*sizes))
        chunks.append(stored([body], offset))
        offset += (len(body) + RECORD_BYTES + 7) & ~7
    made = encode_table(chunks, [0] * EXTENT_SLOTS, [1] * EXTENT_SLOTS, False)
    assert made.byte_count() < bytes_each * EXTENT_SLOTS


# Folding


def test_nothing_is_folded_while_all_bodies_are_in_memory() -> None:
    budget = BodyBudget(1 << 30, SMALL)
    store = Store(budget)
    for seq in range(1, 40):
        chunk = stored([b"x"], 10 * seq)
        chunk.data = b"x"
        store.add(seq, chunk, 0, 1, True)
    assert store.entry_count() == 39
    budget.has_evicted = True
    for seq in range(40, 80):
        chunk = stored([b"x"], 10 * seq)
        chunk.data = b"x"
        store.add(seq, chunk, 0, 1, True)
    assert store.entry_count() == 79


def test_single_messages_on_disk_become_extents_of_so_many_slots() -> None:
    backlog = Backlog()
    backlog.add(5 * SMALL)
    folded = [(first, SMALL) for first in range(1, 4 * SMALL, SMALL)]
    assert backlog.spans() == [*folded, *[(seq, 1) for seq in range(17, 21)]]
    assert backlog.store.live_bytes == 200
    assert [chunk.holders for chunk in backlog.chunks] == [0] * 16 + [1] * 4


def test_a_million_messages_of_their_own_take_few_entries() -> None:
    backlog = Backlog(EXTENT_SLOTS)
    backlog.add(10_000)
    assert backlog.store.entry_count() < 10_000 / EXTENT_SLOTS + 2 * EXTENT_SLOTS


def test_what_is_not_written_yet_waits_and_all_behind_it() -> None:
    backlog = Backlog()
    backlog.add(2)
    backlog.add(1, durable=False)
    backlog.add(20)
    assert backlog.spans()[:3] == [(1, 2), (3, 1), (4, 1)]
    assert len(backlog.spans()) == 22
    backlog.chunks[2].durable = True
    backlog.add(8)
    assert (3, 4) in backlog.spans()


@pytest.mark.parametrize(
    "why", ["memory", "loading", "file", "gap", "dead", "format", "names", "lazy"]
)
def test_what_is_not_like_the_rest_ends_an_extent(why: str) -> None:
    backlog = Backlog()
    backlog.add(3)
    odd = stored([b"odd", b"one"], backlog.offset)
    match why:
        case "memory":
            odd.data = b"oddone"
        case "loading":
            backlog.store.loading.add(odd)
        case "file":
            odd.file_id = 2
        case "gap":
            odd.file_offset = 4000
        case "format":
            odd.format_tag = FORMAT_10
        case "names":
            odd.names = b"\x00\x03key"
        case _:
            odd.lazy = why == "lazy"
    backlog.store.add(4, odd, 0, 2, True)
    if why == "dead":
        backlog.store.release(4, 1)
    for seq in range(6, 30):
        backlog.offset += 200
        backlog.store.add(seq, stored([b"0123456789"], backlog.offset), 0, 1, True)
    behind = [(4, 5), (9, 4)] if why == "gap" else [(4, 2), (6, 4)]
    assert backlog.spans()[:3] == [(1, 3), *behind]
    assert backlog.store.find(5).chunk.file_id == odd.file_id


def test_a_pinned_chunk_stays_a_slot() -> None:
    backlog = Backlog()
    backlog.add(3)
    chunk = Chunk(FORMAT_091, b"here", 0, table([b"here"], 0), 0)
    backlog.store.add(4, chunk, 0, 1, False)
    for seq in range(5, 30):
        backlog.store.add(seq, stored([b"x"], 50_000 + 10 * seq), 0, 1, True)
    assert backlog.store.find(4).chunk is chunk
    assert backlog.spans()[:2] == [(1, 3), (5, 4)]


def test_one_chunk_of_very_many_messages_is_an_extent_of_its_own() -> None:
    store = Store(BodyBudget(0, SMALL))
    count = EXTENT_MESSAGES - 1
    for number in range(8):
        chunk = stored([b"x"] * count, 1_000_000 * number)
        store.add(1 + number * count, chunk, 0, count, True)
    assert store.covering(1).table is not None
    assert store.covering(1).count == count
    assert count > RICH_MESSAGES


def test_an_extent_that_is_released_as_a_whole_is_not_unfolded() -> None:
    backlog = Backlog()
    backlog.add(12)
    extent = backlog.store.covering(1)
    assert extent.table is not None
    assert extent.pieces(1, 5) == (0, 1)
    assert extent.bytes_of(1, 5) == 40
    assert backlog.store.release(1, 4) == [extent]
    assert extent.table.holes is None
    assert backlog.store.live_bytes == 80
    assert backlog.spans()[0] == (5, 4)


def test_a_message_that_leaves_an_extent_leaves_it_folded() -> None:
    backlog = Backlog()
    backlog.add(12)
    assert backlog.store.covering(2).bytes_of(2, 3) == 10
    assert backlog.store.release(2, 1) == []
    assert backlog.spans()[:2] == [(1, 4), (5, 4)]
    assert backlog.store.live_bytes == 110
    assert backlog.store.places(1, 0)[0][:3] == [backlog.chunks[at].file_offset for at in (0, 2, 3)]
    assert row(backlog.store.find(3).chunk) == row(backlog.chunks[2])
    assert backlog.spans()[:4] == [(1, 1), (3, 1), (4, 1), (5, 4)]
    assert backlog.store.live_bytes == 110


def test_a_chunk_of_which_some_messages_are_gone_comes_whole_out_of_an_extent() -> None:
    backlog = Backlog()
    rich = stored([b"a", b"bcd", b"ef"], 9000)
    backlog.store.add(1, rich, 0, 3, True)
    for seq in range(4, 30):
        backlog.store.add(seq, stored([b"x"], 9000 + 10 * seq), 0, 1, True)
    assert backlog.store.covering(2).bytes_of(2, 4) == 5
    backlog.store.release(2, 2)
    slot = backlog.store.find(1)
    assert (slot.first, slot.count, slot.live) == (1, 3, 1)
    assert row(slot.chunk) == row(rich)
    assert backlog.store.release(1, 1) == [slot]


def test_an_extent_goes_with_the_last_message_in_it() -> None:
    backlog = Backlog()
    backlog.add(12)
    extent = backlog.store.covering(1)
    for seq in (4, 1, 3):
        assert backlog.store.release(seq, 1) == []
    assert backlog.store.release(2, 1) == [extent]
    assert backlog.store.covered_to(2) == 0
    assert (backlog.spans()[0], backlog.store.live_bytes) == ((5, 4), 80)


def test_a_message_that_leaves_an_extent_twice_is_a_fault() -> None:
    backlog = Backlog()
    backlog.add(12)
    backlog.store.release(2, 1)
    with pytest.raises(AssertionError, match="twice"):
        backlog.store.release(2, 1)


def test_nobody_finds_a_message_that_has_left_an_extent() -> None:
    backlog = Backlog()
    backlog.add(12)
    backlog.store.release(1, 2)
    assert backlog.store.find_live(2) is None
    assert backlog.store.find_live(3) is not None
    backlog.store.release(6, 1)
    following = backlog.store.after(backlog.store.find(4))
    assert following is not None
    assert (following.first, following.table) == (5, None)
    assert backlog.store.find_live(6) is None


def test_reading_ahead_passes_over_what_has_left_the_head_of_the_next_extent() -> None:
    backlog = Backlog()
    backlog.add(12)
    backlog.store.release(5, 2)
    following = backlog.store.after(backlog.store.find(4))
    assert following is not None
    assert (following.first, following.table) == (7, None)


def test_a_backlog_of_which_every_tenth_message_leaves_takes_no_more_entries() -> None:
    backlog = Backlog(64)
    backlog.add(4000)
    before = backlog.store.entry_count()
    for seq in range(1, 3000, 10):
        backlog.store.release(seq, 1)
    assert backlog.store.entry_count() == before
    assert backlog.store.live_bytes == 10 * (4000 - 300)


def test_reading_ahead_goes_on_in_the_next_extent() -> None:
    backlog = Backlog()
    backlog.add(12)
    slot = backlog.store.find(4)
    following = backlog.store.after(slot)
    assert following is not None
    assert (following.first, following.count, following.table) == (5, 1, None)


def test_what_was_unfolded_and_is_left_alone_is_folded_again() -> None:
    backlog = Backlog()
    backlog.add(100)
    before = backlog.spans()
    for seq in range(1, 80):
        backlog.store.find(seq)
    assert len(backlog.spans()) >= 79
    read = backlog.store.find(1).chunk
    backlog.store.loading.add(read)
    for _ in range(20):
        backlog.store.tidy()
    after = backlog.spans()
    assert after[:3] == [(1, 1), (2, 4), (6, 4)]
    assert len(after) < len(before) + 2 * SMALL
    backlog.store.tidy()
    assert backlog.spans() == after
    assert backlog.store.find(1).chunk is read


def test_a_long_queue_is_folded_again_one_extent_after_the_other() -> None:
    """Of two hundred thousand messages that were read by a copy, a turn took half a second."""
    slots = 64
    backlog = Backlog(slots)
    backlog.add(20 * slots)
    folded = len(backlog.spans())
    for seq in range(1, 20 * slots + 1):
        backlog.store.find(seq)
    left = len(backlog.spans())
    assert left > 15 * slots
    while left > folded + LOOSE_EXTENTS * slots:
        before = left
        backlog.store.tidy()
        left = len(backlog.spans())
        assert 0 < before - left <= 2 * slots


def test_what_was_being_read_when_it_was_looked_at_is_folded_later() -> None:
    backlog = Backlog()
    backlog.add(100)
    for seq in range(1, 80):
        backlog.store.find(seq)
    read = [backlog.store.find(seq).chunk for seq in (1, 2, 3)]
    backlog.store.loading.update(read)
    for _ in range(20):
        backlog.store.tidy()
    assert backlog.spans()[:4] == [(1, 1), (2, 1), (3, 1), (4, 4)]
    backlog.store.loading.clear()
    for seq in range(20, 80):
        backlog.store.find(seq)
    for _ in range(20):
        backlog.store.tidy()
    assert backlog.spans()[:2] == [(1, 3), (4, 4)]


def test_what_the_log_moves_out_of_memory_is_folded() -> None:
    backlog = Backlog()
    backlog.budget.has_evicted = True
    for seq in range(1, 41):
        chunk = stored([b"0123456789"], 10 * seq)
        chunk.data = b"0123456789"
        backlog.store.add(seq, chunk, 0, 1, True)
    assert len(backlog.spans()) == 40
    for seq in range(1, 41):
        moved = stored([b"0123456789"], 20 * seq)
        backlog.store.relocate(moved, [(seq, 1, 1)], seq)
        backlog.store.tidy_moved()
    assert len(backlog.spans()) < 30


def test_a_queue_that_is_deleted_lets_go_of_what_is_shared_and_of_extents() -> None:
    backlog = Backlog()
    backlog.add(20)
    backlog.store.clear()
    assert backlog.spans() == []
    assert {chunk.holders for chunk in backlog.chunks} == {0}


def test_two_queues_fold_the_same_chunks_each_for_itself() -> None:
    backlog = Backlog()
    other = Store(backlog.budget)
    backlog.add(20)
    for seq, chunk in enumerate(backlog.chunks, start=1):
        other.add(seq, chunk, 0, 1, True)
    assert other.journaled_spans()[0][0] == (1, 4)
    slot = backlog.store.find(2)
    assert slot.chunk is not other.find(2).chunk
    assert row(slot.chunk) == row(other.find(2).chunk)


def test_names_stay_with_messages_that_are_folded_unfolded_and_moved() -> None:
    backlog = Backlog()
    for seq in range(1, 40):
        chunk = stored([b"0123456789"], 200 * seq)
        chunk.names = b"\x00\x03key"
        backlog.store.add(seq, chunk, 0, 1, True)
    assert backlog.spans()[0] == (1, SMALL)
    assert backlog.store.find_live(9) is not None
    backlog.store.relocate(stored([b"0123456789"], 5), [(9, 1, 1)], 9)
    assert {backlog.store.find(seq).chunk.names for seq in range(1, 40)} == {b"\x00\x03key"}


def test_a_place_in_an_extent_can_move_to_another_file() -> None:
    backlog = Backlog()
    backlog.add(12)
    slot = backlog.store.find_live(2)
    assert slot is not None
    moved = stored([b"0123456789"], 5)
    moved.file_id = 9
    backlog.store.relocate(moved, [(2, 1, 1)], 2)
    assert [backlog.store.find(seq).chunk.file_id for seq in (1, 2, 3)] == [1, 9, 1]


def test_a_backlog_that_the_log_moves_message_by_message_is_folded_again() -> None:
    backlog = Backlog()
    backlog.add(200)
    most = 0
    for seq in range(1, 201):
        moved = stored([b"0123456789"], 4096 + 50 * seq)
        moved.file_id = 2
        assert backlog.store.find_live(seq) is not None
        backlog.store.relocate(moved, [(seq, 1, 1)], seq)
        backlog.store.tidy_moved()
        most = max(most, backlog.store.entry_count())
    assert most < 200 / SMALL + 10 * SMALL
    assert {slot.chunk.file_id for slot in backlog.store.slots()} == {2}


# In a queue


def folded_harness() -> Harness:
    """40 single messages of a durable queue, published with a budget of nothing."""
    harness = Harness(budget_bytes=0)
    harness.node.budget.extent_slots = SMALL
    for number in range(40):
        harness.publish([b"%04d" % number])
        harness.turn()
        harness.sync()
    assert harness.host.core.store.entry_count() < 20
    assert harness.node.budget.used_bytes == 0
    return harness


def test_a_folded_backlog_is_delivered_in_order_and_settled_exactly() -> None:
    harness = folded_harness()
    harness.attach(1, 40)
    harness.turn()
    for seq in range(1, 41):
        assert harness.body(seq) == b"%04d" % (seq - 1)
        harness.settle(1, ACCEPT, [(seq, 1)])
        harness.turn()
        assert harness.node.log.live == {1: 4 * (40 - seq)}
    assert (harness.host.core.store.is_empty(), harness.node.budget.used_bytes) == (True, 0)


def test_a_folded_backlog_is_purged_without_reading() -> None:
    harness = folded_harness()
    harness.host.command(harness.sink, Purge(harness.sink.session))
    harness.turn()
    assert harness.node.loads == []
    assert harness.node.log.live == {1: 0}
    assert harness.host.core.store.is_empty()


def test_a_folded_backlog_is_listed_for_a_checkpoint_as_it_is() -> None:
    harness = folded_harness()
    harness.attach(1, 3)
    harness.turn()
    harness.settle(1, ACCEPT, [(2, 1)])
    harness.turn()
    listed = [
        seq
        for first, count in harness.host.core.journaled_from(1)[0]
        for seq in range(first, first + count)
    ]
    assert listed == [1, *range(3, 41)]


def test_what_leaves_the_midst_of_a_folded_backlog_is_accounted_for_exactly() -> None:
    harness = folded_harness()
    before = harness.host.core.store.entry_count()
    harness.attach(1, 40)
    harness.turn()
    for seq in range(3, 33, 5):
        harness.settle(1, ACCEPT, [(seq, 2)])
        harness.turn()
    assert harness.node.log.live == {1: 4 * (40 - 12)}
    assert harness.host.core.store.entry_count() == before
    left = [seq for seq in range(1, 41) if seq > 32 or seq % 5 not in (3, 4)]
    assert harness.bodies() == {seq: b"%04d" % (seq - 1) for seq in left}
    harness.host.delete()
    assert harness.node.log.live == {1: 0}


def test_a_backlog_with_holes_moves_with_the_log() -> None:
    harness = folded_harness()
    harness.attach(1, 40)
    harness.turn()
    harness.settle(1, ACCEPT, [(6, 1), (8, 4)])
    harness.turn()
    harness.node.log.active = 2
    for seq in (5, 6, 7, 12):  # A copy of the sixth was under way when it went.
        place = harness.node.log.put(b"%04d" % (seq - 1), 4)
        harness.relocate(seq, 1, place, table([b"0000"], 0))
        harness.node.log.release(1 if seq != 6 else 2, 4)
    left = [*range(1, 6), 7, *range(12, 41)]
    assert harness.bodies() == {seq: b"%04d" % (seq - 1) for seq in left}
    harness.host.delete()
    assert harness.node.log.live == {1: 0, 2: 0}


def test_a_folded_backlog_moves_with_the_log_and_can_be_read_there() -> None:
    harness = folded_harness()
    harness.node.log.active = 2
    for seq in range(5, 15):
        place = harness.node.log.put(b"%04d" % (seq - 1), 4)
        harness.relocate(seq, 1, place, table([b"0000"], 0))
        harness.node.log.release(1, 4)
    assert harness.bodies() == {seq: b"%04d" % (seq - 1) for seq in range(1, 41)}
    assert harness.host.delete() == 40
    assert harness.node.log.live == {1: 0, 2: 0}


def test_after_a_restart_the_backlog_is_folded_while_it_is_found() -> None:
    harness = Harness()
    harness.node.budget.extent_slots = SMALL
    for seq in range(1, 41):
        place = harness.node.log.put(b"%04d" % seq, 4)
        chunk = stored([b"0000"], place.offset)
        harness.host.core.recover(chunk, seq, [(seq, 1)], b"", 1000 + seq)
    harness.host.recovered(40, 0, 0)
    assert harness.host.core.store.entry_count() < 20
    assert harness.host.ready_count == 40
    assert harness.bodies() == {seq: b"%04d" % seq for seq in range(1, 41)}


def test_after_a_restart_gaps_are_gaps_and_each_message_has_its_traits() -> None:
    harness = Harness()
    harness.host.core.machine = Fifo(Options(levels=10))
    for seq, level in ((1, 0), (2, 0), (4, 0), (5, 3), (6, 0)):
        place = harness.node.log.put(b"%04d" % seq, 4)
        meta = b"" if level == 0 else encode_meta(Traits(priority=level), 1)
        harness.host.core.recover(stored([b"0000"], place.offset), seq, [(seq, 1)], meta, 1000)
    harness.host.recovered(6, 0, 0)
    assert harness.host.core.live_ranges(1, 9) == [(1, 2), (4, 1), (5, 1), (6, 1)]
    harness.attach(1, 2)
    told = [row for row in harness.turn() if row[0] == "delivers"]
    assert [(row[4], row[5]) for row in told] == [(5, 1), (1, 1)]


def test_after_a_restart_each_message_of_a_queue_with_a_ttl_has_its_own_time() -> None:
    harness = Harness()
    harness.host.core.machine = Fifo(Options(ttl_ms=500))
    for seq, arrived_ms in ((1, 1000), (2, 1300)):
        place = harness.node.log.put(b"0000", 4)
        harness.host.core.recover(stored([b"0000"], place.offset), seq, [(seq, 1)], b"", arrived_ms)
    harness.host.recovered(2, 0, 0)
    harness.node.now_ms = 1600
    harness.turn()
    assert harness.host.core.live_ranges(1, 9) == [(2, 1)]


def columns_of(places: list[int], counts: list[int], sizes: list[int], arrived: int) -> Columns:
    """Records as a recovery hands them over."""
    return Columns(
        struct.pack(f"<{len(places)}I", *places),
        struct.pack(f"<{len(counts)}I", *counts),
        struct.pack(f"<{len(sizes)}I", *sizes),
        struct.pack(f"<{len(counts)}Q", *(arrived + number for number in range(len(counts)))),
    )


@pytest.mark.parametrize("records", [1, 20, 511, 512, 513, 1100])
def test_a_stretch_is_as_if_its_records_had_come_one_by_one(records: int) -> None:
    drawn = Random(records)
    counts = [drawn.choice((1, 1, 1, 3)) for _ in range(records)]
    sizes = [drawn.randrange(1, 2000) for _ in range(sum(counts))]
    places: list[int] = []
    singly, whole = Store(BodyBudget(1 << 30)), Store(BodyBudget(1 << 30))
    at, message = 4096, 0
    for count in counts:
        places.append(at)
        own = sizes[message : message + count]
        offsets = struct.pack(f"<{count + 1}I", *accumulate(own, initial=0))
        chunk = Chunk(1, None, 0, offsets, 5)
        chunk.file_id, chunk.file_offset, chunk.durable = 9, at, True
        singly.add(7 + message, chunk, 0, count, True)
        message += count
        at += sum(own) + drawn.randrange(40, 100)
    alike = Chunk(1, None, 0, b"", 5)
    alike.file_id = 9
    whole.add_stretch(7, alike, columns_of(places, counts, sizes, 1))
    assert whole.live_bytes == singly.live_bytes
    assert [row_of(slot) for slot in whole.slots()] == [row_of(slot) for slot in singly.slots()]
    assert whole.entry_count() <= records // 512 + max(records % 512, 1)
    assert len(whole.release(7, message)) == whole.entry_count() or whole.is_empty()
    assert whole.live_bytes == 0


def row_of(slot: Slot) -> tuple[object, ...]:
    chunk = slot.chunk
    place = (chunk.file_id, chunk.file_offset, chunk.durable, chunk.format_tag, chunk.info)
    return (int(slot.first), int(slot.count), bytes(chunk.offsets), slot.journaled, *place)


@pytest.mark.parametrize(("timed", "runs"), [(False, [(3, 6)]), (True, [(3, 3), (6, 3)])])
def test_found_stretches_are_one_run_unless_the_times_matter(
    timed: bool, runs: list[tuple[int, int]]
) -> None:
    columns = columns_of([0, 50], [3, 3], [1] * 6, 1000)
    found: list[Found] = []
    note_stretch(found, columns, 3, True, timed)
    assert [(each.first, each.count) for each in found] == runs
    assert found[-1].arrived_ms == 1001
