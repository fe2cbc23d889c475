"""A sync that hangs, on real files and threads: the loop goes on, and nothing is confirmed."""

import asyncio
import threading
from pathlib import Path

from tests.faults.fault_disk import Call, Fault, FaultDisk, kind_of
from tests.sim.storage.queues_model import Queues
from tests.waiting import until
from warren.storage.disk import OsDisk
from warren.storage.wal import Wal

FILE_BYTES = 256 * 1024


def records(call: Call) -> bool:
    return call.operation == "pwritev" and call.dsync and kind_of(call.name) == "wal-"


async def hang(directory: Path) -> None:
    loop = asyncio.get_running_loop()
    disk = FaultDisk(OsDisk())
    queues = Queues({10})
    failures: list[BaseException] = []
    durable: list[int] = []
    wal = Wal(
        disk,
        str(directory),
        post=loop.call_soon_threadsafe,
        on_failure=failures.append,
        file_bytes=FILE_BYTES,
    )
    queues.wal = wal
    wal.open(queues)
    wal.attach(queues)
    wal.on_durable.append(durable.append)
    queues.publish_bodies([10], [b"before"], 0)
    wal.flush()
    await until(lambda: wal.pending_bytes == 0)
    gate = threading.Event()
    fault = disk.arm(Fault(when=records, gate=gate))
    before = len(durable)
    for number in range(2 * FILE_BYTES // 1000):  # Over two files, while the first sync hangs.
        queues.publish_bodies([10], [b"%1000d" % number], 0)
        wal.flush()
    await until(lambda: fault.hits == 1)
    pending = wal.pending_bytes
    held = queues.live[10][1]
    found: list[bytes | Exception] = []
    wal.read(held.file_id, held.offset, held.length, found.append)
    await until(lambda: bool(found))
    assert found == [b"before"]
    assert len(durable) == before
    # The head of a file that was prepared meanwhile may have come on top.
    assert wal.pending_bytes >= pending
    gate.set()
    await until(lambda: wal.pending_bytes == 0)
    assert failures == []
    wal.close(clean=True)


def test_reads_and_appends_go_on_while_a_sync_hangs_and_nothing_is_durable(tmp_path: Path) -> None:
    asyncio.run(hang(tmp_path))
