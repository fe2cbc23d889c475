"""Writes past the page cache: they come back whole, on whatever file system the tests run."""

import errno
import os
from pathlib import Path
from random import Random

import pytest

from warren.storage.disk import DIRECT_BUFFER_BYTES, DIRECT_BYTES, DirectDisk, OsDisk


@pytest.mark.parametrize("folder", ["disk", "memory"])
def test_what_is_written_is_read_back(tmp_path: Path, folder: str) -> None:
    shared = Path("/dev/shm")
    if folder == "memory" and not os.access(shared, os.W_OK):
        pytest.skip("no file system in memory")
    path = str((tmp_path if folder == "disk" else shared) / f"direct-{os.getpid()}")
    disk = DirectDisk(OsDisk())
    random = Random(1)
    handle = disk.create(path, 0)
    offset = 0
    for size in (1, DIRECT_BYTES, 100_000, DIRECT_BUFFER_BYTES, 2 * DIRECT_BUFFER_BYTES + 77):
        content = random.randbytes(size)
        cuts = sorted({0, size, *(random.randrange(size) for _ in range(5))})
        parts = [content[cuts[i] : cuts[i + 1]] for i in range(len(cuts) - 1)]
        disk.pwritev(handle, parts, offset, False)
        reader = disk.open(path)
        assert disk.pread(reader, size, offset) == content
        disk.close(reader)
        offset += -(-size // DIRECT_BYTES) * DIRECT_BYTES
    disk.close(handle)
    disk.unlink(path)


def test_a_full_disk_is_told() -> None:
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("no /dev/full")
    disk = DirectDisk(OsDisk())
    handle = disk.open("/dev/full")
    with pytest.raises(OSError) as caught:
        disk.pwritev(handle, [b"x"], 0, False)
    assert caught.value.errno == errno.ENOSPC
    disk.close(handle)


def test_a_write_that_fails_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    handle = os.open(path, os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        DirectDisk(OsDisk()).pwritev(handle, [b"x"], 0, False)
    assert caught.value.filename == str(path)
    os.close(handle)
