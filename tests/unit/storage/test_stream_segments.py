"""Segment files of streams: what was recorded is there after any crash, and nothing else."""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from tests.sim.queues.sim_streams import SimStore
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.sim_objects import SimObjects
from warren.storage.record import CorruptRecord
from warren.storage.streams.chunk_format import (
    BadChunk,
    ChunkHead,
    bloom_of,
    decode_chunk,
    encode_head,
    may_contain,
)
from warren.storage.streams.log import Chunks, StreamLog
from warren.storage.streams.segments import Place, Segment, SegmentFiles, remove_unknown

DIRECTORY = "streams"


class Steps:
    """Runs work when told to, in the order of the calls."""

    def __init__(self) -> None:
        self.writes: list[Callable[[], Callable[[], None]]] = []

    def write(self, work: Callable[[], Callable[[], None]]) -> None:
        self.writes.append(work)

    def read(self, work: Callable[[], Callable[[], None]]) -> None:
        work()()

    def run(self) -> None:
        while self.writes:
            self.writes.pop(0)()()


class World:
    def __init__(
        self,
        disk: SimDisk | None = None,
        segments: Sequence[Segment] = (),
        objects: SimObjects | None = None,
    ) -> None:
        """`objects`: of the store with offloaded segments."""
        self.disk = disk or SimDisk()
        self.steps = Steps()
        self.files = SegmentFiles(self.disk, DIRECTORY, 7, 1)
        self.files.open(segments)
        end = segments[-1].end_offset if segments else 0
        store = None if objects is None else SimStore(objects, self.steps.read)
        self.log = StreamLog(self.files, self.steps, segments, end, 300, store)
        self.recorded: Sequence[Segment] = segments

    def append(self, count: int = 3, at_ms: int = 0) -> None:
        payload = [b"%d" % self.log.end_offset, b"x" * 50]
        size = sum(map(len, payload))
        self.log.append(ChunkHead(self.log.end_offset, count, at_ms, 1, size), payload)

    def checkpoint(self) -> None:
        def done(segments: Sequence[Segment]) -> None:
            self.recorded = segments

        self.log.checkpoint(done)
        self.steps.run()

    def read_all(self) -> list[int]:
        """First offsets of all chunks that can be read, in order."""
        found: list[int] = []
        place = Place(self.log.first_offset, -1)
        going = True

        def done(chunks: list[tuple[ChunkHead, bytes]], following: Place) -> None:
            nonlocal place
            for head, payload in chunks:
                assert payload.startswith(b"%d" % head.first_offset)
                found.append(head.first_offset)
            place = following

        def failed(error: Exception) -> None:
            raise error

        while going:
            going = self.log.read(place, whole, done, failed)
        return found


def whole(chunks: Chunks) -> Chunks:
    return chunks


def refuse(error: Exception) -> None:
    raise error


def test_a_chunk_is_what_was_encoded() -> None:
    head = ChunkHead(1 << 40, 3, 1_700_000_000_000, 5, 6, bloom_of([b"eu"], 16))
    whole = b"before" + encode_head(head, [b"abc", b"def"]) + b"abcdef" + b"behind"
    assert decode_chunk(whole, 6) == (head, b"abcdef")


def test_any_changed_byte_of_a_chunk_is_found() -> None:
    head = ChunkHead(9, 2, 1, 1, 4, bloom_of([b"a", b"b"], 16))
    whole = encode_head(head, [b"data"]) + b"data"
    for at in range(len(whole)):
        wrong = whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]
        with pytest.raises(BadChunk):
            decode_chunk(wrong, 0)
    for size in range(len(whole)):
        with pytest.raises(BadChunk):
            decode_chunk(whole[:size], 0)


def test_a_bloom_filter_never_misses_a_value() -> None:
    values = [b"value-%d" % number for number in range(40)]
    bloom = bloom_of(values, 64)
    assert all(may_contain(bloom, [value]) for value in values)
    others = [b"other-%d" % number for number in range(200)]
    assert sum(may_contain(bloom, [value]) for value in others) < 60
    assert not may_contain(b"", [b"value-1"])


def test_chunks_are_read_in_order_across_segments() -> None:
    world = World()
    for _ in range(20):
        world.append()
    world.steps.run()
    assert len(world.log.segments) > 3
    assert world.read_all() == list(range(0, 60, 3))


def test_nothing_is_read_before_it_is_written() -> None:
    world = World()
    world.append()
    assert world.read_all() == []
    world.steps.run()
    assert world.read_all() == [0]


@pytest.mark.parametrize("wanted", range(60))
def test_an_offset_is_found_by_the_index(wanted: int) -> None:
    world = World()
    for _ in range(20):
        world.append()
    world.steps.run()
    heads: list[ChunkHead] = []
    assert world.log.read(
        Place(wanted, -1), whole, lambda chunks, _: heads.extend(head for head, _ in chunks), refuse
    )
    assert heads[0].first_offset == wanted // 3 * 3


def test_a_timestamp_names_the_first_chunk_that_is_not_older() -> None:
    world = World()
    for number in range(10):
        world.append(at_ms=1000 * number)
    world.steps.run()
    found: list[int] = []
    for wanted in (-1, 0, 1, 3500, 9000, 9001):
        world.log.find_time(wanted, found.append, refuse)
    assert found == [0, 0, 3, 12, 27, 30]


def test_retention_by_size_cuts_whole_segments_and_keeps_the_last() -> None:
    world = World()
    for _ in range(20):
        world.append()
    sizes = [each.byte_count for each in world.log.segments]
    gone = world.log.retain(sum(sizes[2:]), -1, 0)
    assert gone == world.log.first_offset > 0
    assert [each.byte_count for each in world.log.segments] == sizes[2:]
    world.log.retain(0, -1, 0)
    assert len(world.log.segments) == 1


def test_retention_by_age_looks_at_the_newest_chunk_of_a_segment() -> None:
    world = World()
    for number in range(20):
        world.append(at_ms=number)
    world.log.retain(-1, 10, 18)
    first, second = world.log.segments[:2]
    assert first.last_ms >= 8 and second.first_ms > 8


def test_the_first_segment_expires_when_its_newest_chunk_is_older_than_the_limit() -> None:
    world = World()
    world.append(at_ms=5)
    assert world.log.expiry_ms(10) is None  # The last segment stays.
    for number in range(20):
        world.append(at_ms=5 + number)
    assert world.log.expiry_ms(-1) is None
    expiry_ms = world.log.expiry_ms(10)
    assert expiry_ms is not None
    assert world.log.retain(-1, 10, expiry_ms - 1) == 0
    assert world.log.retain(-1, 10, expiry_ms) > 0


def test_files_stay_until_a_record_without_them_is_durable() -> None:
    world = World()
    for _ in range(20):
        world.append()
    world.checkpoint()
    before = set(world.disk.names)
    world.log.retain(0, -1, 0)
    world.steps.run()
    assert set(world.disk.names) == before
    world.checkpoint()
    world.log.recorded(world.recorded)
    world.steps.run()
    assert len(world.disk.names) == 2


def test_a_segment_that_is_cut_before_it_is_written_is_removed_later() -> None:
    world = World()
    world.append()
    for _ in range(12):  # Behind the first write, which is under way.
        world.append()
    assert world.log.retain(0, -1, 0) > 0
    world.log.recorded(())
    world.steps.run()
    assert len(world.disk.names) > 2
    world.checkpoint()
    world.log.recorded(world.recorded)
    world.steps.run()
    assert len(world.disk.names) == 2 * len(world.recorded) == 2


@pytest.mark.parametrize("seed", range(150))
def test_after_a_crash_exactly_what_was_recorded_is_there(seed: int) -> None:
    random = Random(seed)
    world = World()
    for _ in range(3):
        for _ in range(random.randint(1, 30)):
            world.append(random.randint(1, 5))
            choice = random.random()
            if choice < 0.1:
                world.checkpoint()
                world.log.recorded(world.recorded)
            elif choice < 0.2:
                world.log.retain(900, -1, 0)
            elif choice < 0.6:
                world.steps.run()
        recorded = world.recorded
        world = World(world.disk.crash(random), recorded)
        found = world.read_all()
        if recorded:
            assert found[0] == recorded[0].first_offset
            assert len(found) == sum(each.chunk_count for each in recorded)
            assert world.log.end_offset == recorded[-1].end_offset
        else:
            assert found == []
        assert len(world.disk.names) == 2 * len(recorded)


@pytest.mark.parametrize("known", [[], [8]])
def test_a_start_removes_the_files_of_streams_that_are_not_known(known: list[int]) -> None:
    world = World()
    world.append()
    other = SegmentFiles(world.disk, DIRECTORY, 8, 1)
    other.open(())
    log = StreamLog(other, world.steps, (), 0, segment_bytes=300)
    log.append(ChunkHead(0, 1, 0, 1, 1), [b"x"])
    world.steps.run()
    remove_unknown(world.disk, DIRECTORY, known)
    left = {name.partition("-")[0] for name in world.disk.list(DIRECTORY)}
    assert left == {f"{uid:016x}" for uid in known}


def test_a_file_that_is_shorter_than_recorded_is_damage() -> None:
    world = World()
    world.append()
    world.checkpoint()
    path = world.files.path(0, "data")
    handle = world.disk.open(path)
    world.disk.truncate(handle, 20)
    with pytest.raises(CorruptRecord, match="20 bytes of"):
        World(world.disk, world.recorded)


def test_a_changed_byte_in_a_segment_is_told_to_the_reader_alone() -> None:
    world = World()
    world.append()
    world.steps.run()
    handle = world.disk.open(world.files.path(0, "data"))
    world.disk.pwritev(handle, [b"!"], 60, False)
    failures: list[Exception] = []
    world.log.read(Place(0, -1), whole, lambda _, __: pytest.fail("read"), failures.append)
    assert isinstance(failures[0], CorruptRecord)
