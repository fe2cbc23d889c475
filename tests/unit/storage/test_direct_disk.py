"""Reads and writes past the page cache: they come back whole, on whatever file system tests run."""

import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.sim.storage.block_disk import BlockCalls
from tests.sim.storage.sim_disk import SimDisk
from warren.storage.direct import (
    DIRECT_BYTES,
    LEAST_READ_BYTES,
    MEMORY_BYTES_MAX,
    DirectDisk,
    Memories,
)
from warren.storage.disk import OsDisk
from warren.storage.recall import Recall

FOLDERS = ("disk", "memory")
END = 4 * MEMORY_BYTES_MAX


@pytest.fixture(params=FOLDERS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of a file that is not there, on a file system that has direct calls, or maybe not."""
    shared = Path("/dev/shm")
    if request.param == "memory" and not os.access(shared, os.W_OK):
        pytest.skip("no file system in memory")
    found = (tmp_path if request.param == "disk" else shared) / f"direct-{os.getpid()}"
    yield str(found)
    found.unlink(missing_ok=True)


def cut(random: Random, content: bytes) -> list[bytes]:
    """In pieces, some of them empty."""
    cuts = sorted((0, len(content), *(random.randrange(len(content) + 1) for _ in range(5))))
    return [content[begin:end] for begin, end in pairwise(cuts)]


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_is_written_is_read_back(path: str, seed: int) -> None:
    """As the log writes: each write goes on where the last one ended, and ends at a border."""
    random = Random(seed)
    disk = DirectDisk(OsDisk())
    handle = disk.create(path, END)
    sizes = [
        1,
        DIRECT_BYTES,
        100_000,
        MEMORY_BYTES_MAX,
        MEMORY_BYTES_MAX - 77,
        MEMORY_BYTES_MAX + 77,
    ]
    random.shuffle(sizes)
    expected = bytearray()
    for size in sizes:
        content = random.randbytes(size)
        offset = len(expected)
        expected += content
        zeros = bytes(-len(expected) % DIRECT_BYTES)
        disk.pwritev(handle, [*cut(random, content), zeros], offset, True)
        assert disk.pread(handle, size, offset) == content
    assert disk.pread(handle, END, 0) == bytes(expected).ljust(END, b"\0")
    disk.close(handle)
    assert Path(path).read_bytes() == bytes(expected).ljust(END, b"\0")


def test_writes_anywhere_are_read_back(path: str) -> None:
    """Whatever was cached, padded or cut off before: what was written last is what is there."""
    random = Random(5)
    disk = DirectDisk(OsDisk())
    size = 64 * DIRECT_BYTES
    handle = disk.create(path, size)
    expected = bytearray(size)
    for _ in range(300):
        borders = random.random() < 0.5
        offset = random.randrange(size)
        offset -= offset % DIRECT_BYTES if borders else 0
        content = random.randbytes(random.randrange(min(size - offset, 9 * DIRECT_BYTES)) + 1)
        end = offset + len(content)
        if borders:
            content += bytes(min(-end % DIRECT_BYTES, size - end))
        expected[offset : offset + len(content)] = content
        disk.pwritev(handle, cut(random, content), offset, True)
        begin = random.randrange(size)
        length = random.randrange(2 * size)
        assert disk.pread(handle, length, begin) == expected[begin : begin + length]
    disk.close(handle)


def test_padded_writes_are_read_back(path: str) -> None:
    """As page files are written: at borders, with nothing behind the end."""
    random = Random(1)
    disk = DirectDisk(OsDisk(), pads=True)
    handle = disk.create(path, 0)
    offset = 0
    for size in (1, DIRECT_BYTES, 100_000, MEMORY_BYTES_MAX, 2 * MEMORY_BYTES_MAX + 77):
        content = random.randbytes(size)
        disk.pwritev(handle, cut(random, content), offset, False)
        reader = disk.open(path)
        assert disk.pread(reader, size, offset) == content
        disk.close(reader)
        offset += -(-size // DIRECT_BYTES) * DIRECT_BYTES
    disk.close(handle)


def test_threads_read_beside_each_other(path: str) -> None:
    disk = DirectDisk(OsDisk())
    content = Random(2).randbytes(END)
    handle = disk.create(path, END)
    disk.pwritev(handle, [content], 0, True)
    wrong: list[int] = []

    def read(seed: int) -> None:
        random = Random(seed)
        for _ in range(200):
            at = random.randrange(END - 2 * LEAST_READ_BYTES)
            length = random.randrange(LEAST_READ_BYTES, 2 * LEAST_READ_BYTES)
            if disk.pread(handle, length, at) != content[at : at + length]:
                wrong.append(at)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    disk.close(handle)


def padded_to_block(content: bytes) -> bytes:
    return content.ljust(-(-len(content) // DIRECT_BYTES) * DIRECT_BYTES, b"\0")


def test_memory_of_calls_may_be_huge_pages() -> None:
    """The kernel does not make huge pages of shared memory unless an operator says so."""
    memory = Memories().take(MEMORY_BYTES_MAX)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory.map))
    found = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            begin, end = (int(word, 16) for word in words[0].split("-"))
            found = "this one" if begin <= address < end else ""
        elif found and words[0] == "THPeligible:":
            found = words[1]
            break
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not enabled.exists() or "[never]" in enabled.read_text():
        pytest.skip("a kernel without huge pages")
    assert found == "1"


def test_what_goes_past_the_cache() -> None:
    """Writes that go on where the last one has ended, and long reads; nothing else does."""
    beneath = SimDisk()
    calls = BlockCalls(beneath)
    disk = DirectDisk(beneath, calls)
    handle = disk.create("/log", END)
    disk.pwritev(handle, [padded_to_block(b"a" * 5000)], 0, True)
    disk.pwritev(handle, [bytes(2 * DIRECT_BYTES - 5000), bytes(DIRECT_BYTES)], 5000, True)
    assert calls.writes == 2
    disk.pwritev(handle, [b"in the midst"], 100, True)
    disk.pwritev(handle, [bytes(DIRECT_BYTES - 112)], 112, True)  # What was before is unknown.
    disk.pwritev(handle, [b"no border behind it"], 3 * DIRECT_BYTES, True)
    assert calls.writes == 2
    disk.pread(handle, LEAST_READ_BYTES, 5)
    assert calls.reads == 1
    disk.pread(handle, LEAST_READ_BYTES - 1, 5)
    assert calls.reads == 1
    assert disk.pread_pieces(handle, 0, [(0, 3), (4990, 5001), (90_000, 90_001)]) == [
        b"aaa",
        b"a" * 10 + b"\0",
        b"\0",
    ]
    assert calls.reads == 2


def test_while_the_cache_keeps_what_is_written_only_old_bytes_are_read_past_it() -> None:
    beneath = SimDisk()
    calls = BlockCalls(beneath)
    disk = DirectDisk(beneath, calls)
    disk.recall = Recall(SPAN, 10 * LEAST_READ_BYTES)
    old = disk.create("/old", LEAST_READ_BYTES)
    disk.pwritev(old, [bytes(LEAST_READ_BYTES)], 0, True)
    new = disk.create("/new", 10 * LEAST_READ_BYTES)
    disk.recall.keeps = True
    for number in range(10):
        disk.recall.read(10 * LEAST_READ_BYTES, 0)
        disk.recall.took(100 << 20, 1.0)
        disk.pwritev(new, [bytes(LEAST_READ_BYTES)], number * LEAST_READ_BYTES, True)
    assert (disk.recall.keeps, calls.writes) == (True, 1)
    disk.pread(new, LEAST_READ_BYTES, 9 * LEAST_READ_BYTES)
    assert calls.reads == 0
    disk.pread(old, LEAST_READ_BYTES, 0)
    assert calls.reads == 1
    disk.close(old)
    disk.pread(disk.open("/old"), LEAST_READ_BYTES, 0)  # of an earlier process, for all we know
    assert calls.reads == 2


def test_a_file_system_that_refuses_gets_ordinary_calls() -> None:
    """After the handle was made, or with it; with a part of a write done, or nothing."""
    for refusal in ("open", "write", "read", "half"):
        beneath = SimDisk()
        calls = BlockCalls(beneath, refusal)
        disk = DirectDisk(beneath, calls)
        handle = disk.create("/log", END)
        content = Random(3).randbytes(END)
        disk.pwritev(handle, [content], 0, True)
        assert disk.pread(handle, END - 5, 5) == content[5:], refusal
        disk.pwritev(handle, [content[:DIRECT_BYTES]], DIRECT_BYTES, True)
        assert disk.pread(handle, END, 0)[DIRECT_BYTES:][:DIRECT_BYTES] == content[:DIRECT_BYTES]
        disk.close(handle)
        assert calls.open_handles == set()


def test_handles_are_closed(tmp_path: Path) -> None:
    disk = DirectDisk(OsDisk())
    before = len(os.listdir("/proc/self/fd"))
    for number in range(3):
        handle = disk.create(str(tmp_path / f"{number}"), END)
        disk.pwritev(handle, [bytes(DIRECT_BYTES)], 0, True)
        disk.close(handle)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_full_disk_is_told() -> None:
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("no /dev/full")
    disk = DirectDisk(OsDisk(), pads=True)
    handle = disk.open("/dev/full")
    with pytest.raises(OSError) as caught:
        disk.pwritev(handle, [b"x"], 0, False)
    assert caught.value.errno == errno.ENOSPC
    disk.close(handle)


def test_a_call_that_fails_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    disk = DirectDisk(OsDisk(), BlockCalls(SimDisk(), "write read", errno.EIO))
    handle = disk.create(str(path), END)
    with pytest.raises(OSError) as caught:
        disk.pwritev(handle, [bytes(DIRECT_BYTES)], 0, True)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))
    with pytest.raises(OSError) as caught:
        disk.pread(handle, LEAST_READ_BYTES, 0)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))
    disk.close(handle)


# When the page cache is to keep what is written.

SPAN = 1000


def lagging(recall: Recall, age: int, per_s: float, spans: int = 1) -> bool:
    """All that is written is read back when so many bytes more have been written."""
    for _ in range(spans):
        recall.read(SPAN, age)
        recall.took(SPAN, SPAN / per_s)
        recall.wrote(SPAN)
    return recall.keeps


def test_the_cache_keeps_what_is_soon_read_from_a_slow_disk() -> None:
    slow, quick = 100 << 20, 900 << 20
    assert lagging(Recall(SPAN, 5000), 4000, slow)
    assert not lagging(Recall(SPAN, 5000), 4000, quick), "a quick disk needs no cache"
    assert not lagging(Recall(SPAN, 5000), 6000, slow), "it would not be there any more"
    mixed = Recall(SPAN, 5000)
    mixed.took(SPAN, SPAN / quick)
    assert not lagging(mixed, 4000, slow), "one quick read shows what the disk can do"


def test_the_cache_is_given_up_when_nobody_reads_soon() -> None:
    recall = Recall(SPAN, 5000)
    assert lagging(recall, 4000, 100 << 20, spans=4)
    spans = 0
    while recall.keeps:
        recall.wrote(SPAN)
        spans += 1
    assert spans == 4, "what was read of late counts less from span to span"


def test_a_slow_disk_is_tried_again() -> None:
    recall = Recall(SPAN, 5000)
    assert lagging(recall, 4000, 100 << 20)
    spans = 0
    while recall.keeps and spans < 1000:
        recall.read(SPAN, 4000)  # answered by the cache, which says nothing about the disk
        recall.wrote(SPAN)
        spans += 1
    assert spans == 64
