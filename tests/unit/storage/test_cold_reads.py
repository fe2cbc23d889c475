"""Segments are read from the page cache where it has them, and past it where it has not."""

import os
from pathlib import Path

import pytest

from tests.sim.storage.sim_disk import SimDisk
from warren.storage.disk import OsDisk
from warren.storage.streams.chunk_format import ChunkHead, encode_head
from warren.storage.streams.cold_reads import ColdReads
from warren.storage.streams.segments import READ_BYTES, Segment, SegmentFiles, Writing


class Counting:
    """A disk that notes the reads of it; its cache has the first bytes of each file."""

    def __init__(self, disk: SimDisk, cached_bytes: int = 0) -> None:
        self.reads: list[tuple[int, int]] = []  # length, place
        self._disk = disk
        self._cached_bytes = cached_bytes

    def open(self, path: str) -> int:
        return self._disk.open(path)

    def close(self, handle: int) -> None:
        self._disk.close(handle)

    def is_cached(self, handle: int, offset: int) -> bool:
        return offset < self._cached_bytes

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        self.reads.append((length, offset))
        return self._disk.pread(handle, length, offset)


def test_what_the_cache_has_is_read_from_it_and_the_rest_past_it() -> None:
    disk = SimDisk()
    disk.pwritev(disk.create("a", 0), [bytes(1000)], 0, False)
    cached, direct = Counting(disk, cached_bytes=100), Counting(disk)
    reads = ColdReads(cached, direct)
    handle = reads.open("a")
    assert len(reads.pread(handle, 100, 0)) == 100
    assert len(reads.pread(handle, 100, 1)) == 100
    reads.close(handle)
    assert (cached.reads, direct.reads) == ([(100, 0)], [(100, 1)])


def test_bytes_that_were_written_of_late_are_in_the_cache(tmp_path: Path) -> None:
    disk = OsDisk()
    path = tmp_path / "segment"
    path.write_bytes(bytes(100_000))
    handle = disk.open(str(path))
    assert disk.is_cached(handle, 0)
    assert disk.is_cached(handle, 200_000)  # There is nothing to be read from the disk.
    disk.close(handle)


def test_bytes_that_left_the_cache_are_not_in_it(tmp_path: Path) -> None:
    disk = OsDisk()
    path = tmp_path / "segment"
    path.write_bytes(bytes(1 << 20))
    handle = disk.open(str(path))
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    if disk.is_cached(handle, 0):
        pytest.skip("this file system keeps all files in memory")
    disk.close(handle)


@pytest.mark.parametrize("size", [100, READ_BYTES, READ_BYTES + 1, 3 * READ_BYTES])
def test_each_chunk_of_a_known_size_is_read_at_once(size: int) -> None:
    disk = SimDisk()
    reads = Counting(disk)
    files = SegmentFiles(disk, "streams", 7, 1, reads)
    at, parts = 0, list[bytes]()
    for number in range(3):
        head = ChunkHead(number, 1, 0, 1, size)
        parts += [encode_head(head, [bytes(size)]), bytes(size)]
        at += head.size
    files.write(Writing(0, 0, 0, parts, b""))
    segment = Segment(0, 3, 0, 0, at, 3)
    position = known = 0
    offsets: list[int] = []
    while position < at:
        before = len(reads.reads)
        chunks, following = files.read(segment, position, known)
        if known > 0:
            assert len(reads.reads) == before + 1
        offsets += [head.first_offset for head, _ in chunks]
        position += sum(head.size for head, _ in chunks)
        known = following
    assert offsets == [0, 1, 2]
