"""Segments in an object store: what is stored is what the files have, and is found by place."""

from random import Random

import pytest

from tests.sim.storage.sim_objects import SimObjects, on_no_thread, run_at_once
from tests.unit.storage.test_stream_segments import World
from warren.storage.objects.store import NoSuchObject
from warren.storage.record import CorruptRecord
from warren.storage.streams.offloaded import OffloadedSegment, WrongContent
from warren.storage.streams.segment_objects import SegmentObjects

UID = 7
TERM = 5


class Store:
    """A stream of some segments, and a store."""

    def __init__(self, chunks: int = 20) -> None:
        self.objects = SimObjects(Random(1))
        self.world = World(objects=self.objects)
        for number in range(chunks):
            self.world.append(at_ms=10 * number)
        self.world.checkpoint()
        self.log = self.world.log
        self.segments = SegmentObjects(self.objects, "c1", on_no_thread)

    def upload(self, number: int = 0, offset: int = -1, term: int = TERM) -> OffloadedSegment:
        segment = self.log.segments[number]
        begin = segment.first_offset if offset < 0 else offset
        upload = self.segments.upload(self.world.files, segment, begin, term)
        return run_at_once(upload)

    def read(self, row: OffloadedSegment, offset: int, position: int = -1) -> list[int]:
        """First offsets of the chunks that are read there."""
        chunks, _ = run_at_once(self.segments.read(UID, row, offset, position))
        for head, payload in chunks:
            assert payload.startswith(b"%d" % head.first_offset)
        return [head.first_offset for head, _ in chunks]


def test_a_segment_is_stored_whole() -> None:
    store = Store()
    segment = store.log.segments[0]
    row = store.upload()
    assert (row.first_offset, row.end_offset) == (segment.first_offset, segment.end_offset)
    assert (row.first_ms, row.last_ms) == (segment.first_ms, segment.last_ms)
    assert (row.byte_count, row.chunk_count) == (segment.byte_count, segment.chunk_count)
    assert store.read(row, 0) == [3 * number for number in range(row.chunk_count)]


@pytest.mark.parametrize("wanted", range(9))
def test_an_offset_is_found_in_the_store(wanted: int) -> None:
    store = Store()
    row = store.upload()
    assert row.end_offset >= 9
    assert store.read(row, wanted)[0] == wanted // 3 * 3


@pytest.mark.parametrize(("wanted_ms", "offset"), [(0, 0), (1, 3), (10, 3), (11, 6), (20, 6)])
def test_a_time_is_found_in_the_store(wanted_ms: int, offset: int) -> None:
    store = Store()
    row = store.upload()
    assert run_at_once(store.segments.find_time(UID, row, wanted_ms)) == offset


def test_the_rest_of_a_segment_is_stored_by_a_leader_with_other_segments() -> None:
    store = Store()
    row = store.upload(0, 6)
    assert row.first_offset == 6
    assert store.read(row, 7)[0] == 6
    assert store.read(row, 6, 0)[0] == 6


def test_a_damaged_file_is_not_stored() -> None:
    store = Store()
    path = store.world.files.path(0, "data")
    handle = store.world.disk.open(path)
    store.world.disk.pwritev(handle, [b"!"], 60, False)
    with pytest.raises(CorruptRecord, match="checksum"):
        store.upload()
    assert store.objects.objects == {}


def test_content_that_reads_back_other_than_it_was_written_does_not_count() -> None:
    store = Store()
    store.objects.tears = 1.0
    with pytest.raises(WrongContent, match="reads back as"):
        store.upload()
    store.objects.tears = 0.0
    assert store.read(store.upload(), 0)


def test_a_damaged_object_is_an_error_and_a_missing_one_too() -> None:
    store = Store()
    row = store.upload()
    key = store.segments.key_of(UID, row)
    content = store.objects.objects[key]
    store.objects.objects[key] = content[:60] + b"!" + content[61:]
    with pytest.raises(CorruptRecord, match="checksum"):
        store.read(row, 0)
    del store.objects.objects[key]
    with pytest.raises(NoSuchObject):
        store.read(row, 0)


def test_a_sweep_removes_what_the_stream_does_not_name_but_nothing_of_a_later_leader() -> None:
    store = Store()
    kept = store.upload(0)
    store.upload(1, term=TERM - 1)
    later = store.upload(1, term=TERM + 1)
    store.objects.objects["c1/0000000000000007/note.txt"] = b"of an operator"
    store.objects.objects["c2/0000000000000007/00-01.segment"] = b"of another cluster"
    run_at_once(store.segments.sweep(UID, [kept], TERM))
    assert sorted(store.objects.objects) == sorted(
        [
            store.segments.key_of(UID, kept),
            store.segments.key_of(UID, later),
            "c1/0000000000000007/note.txt",
            "c2/0000000000000007/00-01.segment",
        ]
    )
    assert run_at_once(store.segments.streams()) == [UID]
    run_at_once(store.segments.remove_stream(UID))
    assert list(store.objects.objects) == ["c2/0000000000000007/00-01.segment"]


def test_messages_are_read_across_the_border_of_store_and_files() -> None:
    store = Store()
    rows = [store.upload(number) for number in range(3)]
    log = store.log
    everything = store.world.read_all()
    segments_before = len(log.segments)
    log.offloaded = rows
    assert log.drop_offloaded(0) and len(log.segments) == segments_before - 3
    assert log.first_offset == 0 and log.local_offset == rows[-1].end_offset
    assert store.world.read_all() == everything
    found: list[int] = []
    log.find_time(10, found.append, fail)
    log.find_time(rows[-1].last_ms + 1, found.append, fail)
    assert found == [3, rows[-1].end_offset]


def fail(error: Exception) -> None:
    raise error
