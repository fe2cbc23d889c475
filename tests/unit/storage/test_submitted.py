"""Synced writes without a thread: by the kernel, through `DirectDisk`, and from the log."""

import asyncio
import ctypes
import errno
import os
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from random import Random
from typing import Any, ParamSpec

import pytest

from tests.sim.storage.block_disk import BlockCalls, StepWrites
from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.direct import AGAIN_MAX, DIRECT_BYTES, MEMORY_BYTES_LEAST, DirectDisk
from warren.storage.disk import OsDisk
from warren.storage.wal import Wal
from warren.storage.writing.submitted import Done, KernelWrites, kernel_writes

SIZE = 64 * DIRECT_BYTES
P = ParamSpec("P")


def on_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def writes_here(path: Path) -> KernelWrites:
    """Those of this machine, if it has them for files like this one."""
    writes = kernel_writes(asyncio.get_running_loop())
    if writes is None:
        pytest.skip("no asynchronous I/O here")
    disk = DirectDisk(OsDisk(), writes=writes)
    handle = disk.create(str(path), SIZE)
    disk.pwritev(handle, [bytes(SIZE)], 0, True)
    told = await submitted(disk, handle, [bytes(DIRECT_BYTES)], 2 * DIRECT_BYTES)
    disk.close(handle)
    if told is not None:
        pytest.skip(f"not on this file system: {told}")
    path.unlink()
    return writes


async def submitted(
    disk: DirectDisk, handle: int, parts: list[bytes], offset: int
) -> OSError | str | None:
    """What became of it; "not begun"."""
    done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    if not disk.submit(handle, parts, offset, done.set_result):
        return "not begun"
    return await asyncio.wait_for(done, 10)


@pytest.mark.parametrize("seed", range(4))
@on_loop
async def test_what_is_submitted_is_there_beside_what_a_thread_writes(
    tmp_path: Path, seed: int
) -> None:
    """As the log writes: each goes on where the last one ended, and ends at a border."""
    random = Random(seed)
    writes = await writes_here(tmp_path / "tried")
    path = tmp_path / "log"
    disk = DirectDisk(OsDisk(), writes=writes)
    handle = disk.create(str(path), SIZE)
    disk.pwritev(handle, [bytes(SIZE)], 0, True)
    expected = bytearray(b"h" * 2 * DIRECT_BYTES)
    disk.pwritev(handle, [bytes(expected)], 0, True)
    begun = 0
    while len(expected) < SIZE - 4 * DIRECT_BYTES:
        content = random.randbytes(random.choice((1, 100, DIRECT_BYTES, 9000)))
        offset = len(expected)
        expected += content
        parts = [content[:50], content[50:], bytes(-len(expected) % DIRECT_BYTES)]
        told = await submitted(disk, handle, parts, offset) if random.random() < 0.7 else ""
        begun += told is None
        if told is not None:
            disk.pwritev(handle, parts, offset, True)
    assert begun > 5
    assert path.read_bytes() == bytes(expected).ljust(SIZE, b"\0")
    disk.close(handle)


@on_loop
async def test_the_end_waits_for_what_is_under_way_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    writes = await writes_here(tmp_path / "tried")
    disk = DirectDisk(OsDisk(), writes=writes)
    handle = disk.create(str(tmp_path / "log"), SIZE)
    disk.pwritev(handle, [bytes(SIZE)], 0, True)
    told: list[OSError | None] = []
    assert disk.submit(handle, [b"x" * DIRECT_BYTES], 2 * DIRECT_BYTES, told.append)
    disk.end_submits()
    assert told == [None]
    assert not disk.submit(handle, [b"y" * DIRECT_BYTES], 3 * DIRECT_BYTES, told.append)
    disk.end_submits()
    assert disk.pread(handle, DIRECT_BYTES, 2 * DIRECT_BYTES) == b"x" * DIRECT_BYTES
    disk.close(handle)
    assert len(os.listdir("/proc/self/fd")) == before


@on_loop
async def test_an_error_of_the_kernel_is_told(tmp_path: Path) -> None:
    """A handle that cannot be written to; memory and place are as they must be."""
    writes = await writes_here(tmp_path / "tried")
    path = tmp_path / "log"
    path.write_bytes(bytes(SIZE))
    memory = bytearray(2 * DIRECT_BYTES)
    begin = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % DIRECT_BYTES
    view = memoryview(memory)[begin : begin + DIRECT_BYTES]
    reader = os.open(path, os.O_RDONLY | os.O_DIRECT)
    assert not writes.begin(reader, view, 0, lambda result: None)
    os.close(reader)
    assert not writes.begin(reader, view, 0, lambda result: None)


class Scripted:
    """Keeps `SyncedWrites`: each is begun, and ends as the next result says; None: not begun."""

    def __init__(self, results: list[int | None]) -> None:
        self.results = results
        self.begun = 0

    def begin(self, direct: int, view: memoryview, offset: int, done: Done) -> bool:
        self.begun += 1
        result = self.results.pop(0)
        if result is not None:
            done(result)
        return result is not None

    def soon(self, work: Callable[[], None]) -> None:
        work()

    def close(self) -> None: ...


def scripted(results: list[int | None]) -> tuple[DirectDisk, int, Scripted, list[Any]]:
    beneath = SimDisk()
    writes = Scripted(results)
    disk = DirectDisk(beneath, BlockCalls(beneath), writes=writes)
    handle = disk.create("/log", SIZE)
    disk.pwritev(handle, [bytes(2 * DIRECT_BYTES)], 0, True)
    return disk, handle, writes, []


@pytest.mark.parametrize("result", [-errno.EAGAIN, -errno.EINVAL, -errno.EOPNOTSUPP, 100, 0])
def test_what_the_kernel_does_not_begin_is_for_the_thread(result: int) -> None:
    disk, handle, _, told = scripted([result])
    assert disk.submit(handle, [bytes(DIRECT_BYTES)], 2 * DIRECT_BYTES, told.append)
    assert isinstance(told[0], BlockingIOError)
    assert disk.can_submit == (result not in (-errno.EINVAL, -errno.EOPNOTSUPP))
    disk.pwritev(handle, [b"x" * DIRECT_BYTES], 2 * DIRECT_BYTES, True)
    assert disk.pread(handle, DIRECT_BYTES, 2 * DIRECT_BYTES) == b"x" * DIRECT_BYTES


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_write_that_fails_is_told(number: int) -> None:
    disk, handle, _, told = scripted([-number])
    assert disk.submit(handle, [bytes(DIRECT_BYTES)], 2 * DIRECT_BYTES, told.append)
    assert told[0].errno == number
    assert not isinstance(told[0], BlockingIOError)


@pytest.mark.parametrize("refusal", [None, -errno.EAGAIN])
def test_who_refuses_again_and_again_is_not_asked_any_more(refusal: int | None) -> None:
    one_less = [refusal] * (AGAIN_MAX - 1)
    disk, handle, writes, told = scripted([*one_less, DIRECT_BYTES, *one_less, refusal])
    for _ in range(2 * AGAIN_MAX + 5):
        disk.submit(handle, [bytes(DIRECT_BYTES)], 2 * DIRECT_BYTES, told.append)
    assert writes.begun == 2 * AGAIN_MAX
    assert not disk.can_submit


def test_only_small_writes_that_go_on_and_end_at_a_border_are_submitted() -> None:
    disk, handle, writes, told = scripted([])
    at = 2 * DIRECT_BYTES
    for parts, offset in (
        ([bytes(MEMORY_BYTES_LEAST + DIRECT_BYTES)], at),
        ([bytes(100)], at),
        ([bytes(DIRECT_BYTES - 100)], at + 100),
        ([bytes(DIRECT_BYTES)], DIRECT_BYTES),
    ):
        assert not disk.submit(handle, parts, offset, told.append)
    disk.recall.keeps = True
    assert not disk.submit(handle, [bytes(DIRECT_BYTES)], at, told.append)
    assert writes.begun == 0


def test_simulated_writes_end_on_the_loop() -> None:
    beneath, runner, random = SimDisk(), StepRunner(), Random(1)
    calls = BlockCalls(beneath)
    disk = DirectDisk(beneath, calls, writes=StepWrites(calls, runner, random))
    handle = disk.create("/log", SIZE)
    disk.pwritev(handle, [bytes(2 * DIRECT_BYTES)], 0, True)
    told: list[OSError | None] = []
    while not disk.submit(handle, [b"x" * DIRECT_BYTES], 2 * DIRECT_BYTES, told.append):
        pass
    assert told == []
    runner.settle()
    assert len(told) == 1


class OnceBegun:
    """Keeps `SyncedWrites`: a write that is begun ends on the loop, with this errno if it is not
    0."""

    def __init__(self, runner: StepRunner, calls: BlockCalls, fault: int) -> None:
        self.runner = runner
        self.calls = calls
        self.fault = fault
        self.begun = 0

    def begin(self, direct: int, view: memoryview, offset: int, done: Done) -> bool:
        self.begun += 1
        result = -self.fault
        if not self.fault:
            result = self.calls.pwrite_direct(direct, view, offset, True)
        self.runner.post(lambda: done(result))
        return True

    def soon(self, work: Callable[[], None]) -> None:
        self.runner.post(work)

    def close(self) -> None: ...


def log_with(fault: int) -> tuple[Wal, Queues, OnceBegun, list[BaseException]]:
    """A log whose active file was written before, so that small writes are submitted."""
    beneath, runner = SimDisk(), StepRunner()
    calls = BlockCalls(beneath)
    writes = OnceBegun(runner, calls, 0)
    failures: list[BaseException] = []
    wal = Wal(
        DirectDisk(beneath, calls, writes=writes),
        "/data",
        post=runner.post,
        on_failure=failures.append,
        file_bytes=32_768,
        runner=runner,
        draw_epoch=lambda: 7,
    )
    queues = Queues({10})
    wal.open(queues)
    queues.wal = wal
    wal.attach(queues)
    for _ in range(3):  # The first makes the spare, to which the log goes over.
        publish(wal, queues, writes)
    assert writes.begun > 0
    assert wal.durable_lsn == wal.appended_lsn
    writes.fault = fault
    return wal, queues, writes, failures


def publish(wal: Wal, queues: Queues, writes: OnceBegun) -> None:
    queues.publish_bodies([10], [b"body" * 9], 0)
    wal.flush()
    writes.runner.settle()


def test_the_log_ends_with_a_submitted_write_that_fails() -> None:
    wal, queues, writes, failures = log_with(errno.EIO)
    begun, durable = writes.begun, wal.durable_lsn
    told: list[int] = []
    wal.on_durable.append(told.append)
    publish(wal, queues, writes)
    publish(wal, queues, writes)
    assert [error.errno for error in failures if isinstance(error, OSError)] == [errno.EIO]
    assert (wal.durable_lsn, told, writes.begun) == (durable, [], begun + 1)


def test_the_thread_writes_what_the_kernel_refuses() -> None:
    wal, queues, writes, failures = log_with(errno.EAGAIN)
    begun = writes.begun
    publish(wal, queues, writes)
    assert (writes.begun, failures) == (begun + 1, [])
    assert wal.durable_lsn == wal.appended_lsn
