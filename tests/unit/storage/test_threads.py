"""The log as a node runs it: real files, real threads, an asyncio loop."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.storage.queues_model import Queues
from tests.waiting import until
from warren.storage.disk import PARTS_MAX, DirectoryInUse, DirectoryLock, OsDisk
from warren.storage.runner import HURRIED_PART, REST_MS_MAX, rest_s
from warren.storage.wal import Wal

FILE_BYTES = 256 * 1024


def make(directory: Path, queues: Queues, failures: list[BaseException]) -> Wal:
    loop = asyncio.get_running_loop()
    wal = Wal(
        OsDisk(),
        str(directory),
        post=loop.call_soon_threadsafe,
        on_failure=failures.append,
        file_bytes=FILE_BYTES,
        slack_bytes=0,
    )
    queues.wal = wal
    wal.open(queues)
    wal.attach(queues)
    return wal


async def load(directory: Path) -> dict[int, list[bytes]]:
    """Publish and settle over many files; what is left, by queue."""
    queues = Queues({10, 11})
    failures: list[BaseException] = []
    wal = make(directory, queues, failures)
    left: dict[int, list[bytes]] = {10: [], 11: []}
    for number in range(600):
        body = (b"%06d" % number).ljust(4000, b".")
        (first, _) = queues.publish_bodies([10, 11], [body], 0)
        if number % 50:
            queues.settle(10, [first])
            queues.settle(11, [first])
        else:
            left[10].append(body)
            left[11].append(body)
        wal.flush()
        if number % 20 == 0:
            await until(lambda: wal.pending_bytes == 0)
    await until(lambda: wal.pending_bytes == 0 and wal.ledger.disk_bytes() < 4 * FILE_BYTES)
    assert failures == []
    wal.close(clean=True)
    return left


async def read_all(directory: Path) -> dict[int, list[bytes]]:
    queues = Queues({10, 11})
    failures: list[BaseException] = []
    wal = make(directory, queues, failures)
    found: dict[int, list[bytes | Exception]] = {10: [], 11: []}
    for owner, live in queues.live.items():
        for held in live.values():
            wal.read(held.file_id, held.offset, held.length, found[owner].append)
    await until(lambda: sum(map(len, found.values())) == sum(map(len, queues.live.values())))
    wal.close(clean=True)
    assert failures == []
    return {
        owner: sorted(each for each in bodies if isinstance(each, bytes))
        for owner, bodies in found.items()
    }


def test_a_log_on_real_files_keeps_what_is_alive_and_gives_back_the_rest(tmp_path: Path) -> None:
    left = asyncio.run(load(tmp_path))
    assert asyncio.run(read_all(tmp_path)) == left
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 8 * FILE_BYTES


def test_more_parts_than_one_call_takes_are_written_in_order(tmp_path: Path) -> None:
    disk = OsDisk()
    path = str(tmp_path / "file")
    handle = disk.create(path, 0)
    parts = [b"%05d" % number for number in range(3 * PARTS_MAX + 1)]
    disk.pwritev(handle, parts, 4096, True)
    assert disk.pread(handle, 1 << 20, 4096) == b"".join(parts)
    disk.truncate(handle, 4100)
    assert disk.pread(handle, 1 << 20, 4090) == bytes(6) + b"0000"
    disk.fsync(handle)
    disk.close(handle)
    assert disk.size(path) == 4100
    assert disk.free_bytes(str(tmp_path)) > 0


def test_a_new_file_must_not_exist_and_is_as_long_as_asked(tmp_path: Path) -> None:
    disk = OsDisk()
    path = str(tmp_path / "file")
    disk.close(disk.create(path, 8192))
    assert disk.size(path) == 8192
    with pytest.raises(FileExistsError):
        disk.create(path, 1)
    disk.rename(path, path + "2")
    disk.fsync_directory(str(tmp_path))
    assert disk.list(str(tmp_path)) == ["file2"]
    disk.unlink(path + "2")
    assert disk.list(str(tmp_path)) == []


def test_a_directory_belongs_to_one_process(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    program = (
        "import sys\n"
        "from warren.storage.disk import DirectoryInUse, DirectoryLock\n"
        "try:\n"
        "    DirectoryLock(sys.argv[1])\n"
        "except DirectoryInUse as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == (f"data directory {tmp_path} is in use by process {os.getpid()}")
    lock.release()
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == ""


def test_a_second_lock_of_this_process_is_refused_too(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    with pytest.raises(DirectoryInUse):
        DirectoryLock(str(tmp_path))
    lock.release()


def test_who_works_beside_the_log_rests_as_long_and_a_quarter_of_it_in_a_hurry() -> None:
    assert rest_s(0.02, False) == 0.02
    assert rest_s(0.02, True) == 0.02 / HURRIED_PART
    assert rest_s(9.0, False) == rest_s(9.0, True) == REST_MS_MAX / 1000
