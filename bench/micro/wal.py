"""What the write-ahead log costs: latency and rate of group commits, CPU per record, recovery.

    python bench/micro/wal.py DIRECTORY [--seconds 3]

`raw` is one synced write into the same kind of file without the log. By hand, on a quiet machine.
"""

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

from warren.storage import record
from warren.storage.direct import DirectDisk
from warren.storage.disk import OsDisk
from warren.storage.files import LogFile
from warren.storage.ledger import Ledger
from warren.storage.recovery.recovery import RecoveredPublish
from warren.storage.recovery.stretches import Stretch
from warren.storage.wal import Wal

MIB = 1 << 20


class Counting:
    """Takes what recovery finds."""

    def __init__(self) -> None:
        self.messages = 0

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        self.messages += 1

    def raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        self.messages += 1

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        self.messages += 0

    def knows(self, owner: int) -> bool:
        return True

    def all_owners(self) -> tuple[list[int], list[int]]:
        return [], []

    def saved_index(self, owner: int) -> int:
        return 0

    def accepted_file_id(self, owner: int) -> int:
        return 0

    def owner(self, owner: int, last_seq: int, mark: int) -> None:
        self.messages += 0

    def publish(self, found: RecoveredPublish) -> None:
        self.messages += found.count

    def stretch(self, found: Stretch) -> None:
        self.messages += found.count


def stop(error: BaseException) -> None:
    print("log failed:", error, file=sys.stderr)
    os._exit(1)


def percentiles(samples: list[float]) -> str:
    samples.sort()
    count = len(samples)
    return (
        f"p50 {samples[count // 2] * 1e6:7.0f} us  p99 {samples[count * 99 // 100] * 1e6:7.0f} us"
    )


def raw(directory: str, size: int, seconds: float) -> None:
    path = os.path.join(directory, "raw")
    disk = OsDisk()
    handle = disk.create(path, 64 * MIB)
    for offset in range(0, 64 * MIB, MIB):
        disk.pwritev(handle, [bytes(MIB)], offset, False)
    disk.fsync(handle)
    body = os.urandom(size)
    samples: list[float] = []
    offset = 0
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        began = time.perf_counter()
        disk.pwritev(handle, [body], offset, True)
        samples.append(time.perf_counter() - began)
        offset = (offset + size) % (64 * MIB - size) & ~7
    disk.close(handle)
    disk.unlink(path)
    print(f"raw dsync write, {size:8d} B      {percentiles(samples)}")


async def commits(directory: str, size: int, records: int, seconds: float) -> None:
    """One group of `records` records in flight: the next is appended when it is durable."""
    loop = asyncio.get_running_loop()
    wal = Wal(DirectDisk(OsDisk()), directory, post=loop.call_soon_threadsafe, on_failure=stop)
    wal.open(Counting())
    durable = asyncio.Event()
    wal.on_durable.append(lambda lsn: durable.set() if lsn == wal.appended_lsn else None)
    body = os.urandom(size)
    offsets = bytes(4) + size.to_bytes(4, "little")
    await warm_up(wal, durable, offsets, body)
    samples: list[float] = []
    seq = 2
    cpu = time.process_time()
    began_all = time.perf_counter()
    while time.perf_counter() - began_all < seconds:
        durable.clear()
        began = time.perf_counter()
        for _ in range(records):
            place = wal.append_publish(1, 0, 0, [(10, seq)], b"", offsets, body, 0)
            wal.release(place.file_id, size)
            seq += 1
        wal.append_settle(10, [(seq - records, records)])
        wal.flush()
        await durable.wait()
        samples.append(time.perf_counter() - began)
    wall = time.perf_counter() - began_all
    cpu = time.process_time() - cpu
    done = len(samples) * records
    name = f"{records} x {size} B"
    print(
        f"groups of {name:18s}    {percentiles(samples)}  {done / wall:9.0f} records/s "
        f"{done * size / wall / 1e6:7.0f} MB/s  {cpu / done * 1e6:6.1f} us CPU per record"
    )
    wal.close(clean=True)


async def warm_up(wal: Wal, durable: asyncio.Event, offsets: bytes, body: bytes) -> None:
    """Wait until the log works in a file that was written before, as after the first minute."""
    place = wal.append_publish(1, 0, 0, [(10, 1)], b"", offsets, body, 0)
    wal.release(place.file_id, len(body))
    wal.append_settle(10, [(1, 1)])
    wal.flush()
    await durable.wait()
    while wal.reserve_count < 2:
        await asyncio.sleep(0.05)


def append_cost(directory: str, size: int) -> None:
    """CPU of append and flush alone, on the calling thread."""
    wal = Wal(DirectDisk(OsDisk()), directory, post=lambda work: None, on_failure=stop)
    wal.open(Counting())
    body = os.urandom(size)
    offsets = bytes(4) + size.to_bytes(4, "little")
    rounds: list[float] = []
    for _ in range(20):
        began = time.thread_time()
        for seq in range(1, 501):
            wal.append_publish(1, 0, 0, [(10, seq)], b"", offsets, body, 0)
            wal.flush()
        rounds.append((time.thread_time() - began) / 500)
        wal.append_settle(10, [(1, 500)])
    print(f"append_publish + flush, {size:5d} B: {statistics.median(rounds) * 1e6:.2f} us CPU")
    wal.close(clean=False)


def entry_cost(directory: str, size: int) -> None:
    """The same of entries of log groups, of one member and of several."""
    wal = Wal(DirectDisk(OsDisk()), directory, post=lambda work: None, on_failure=stop)
    wal.open(Counting())
    parts = (os.urandom(size),)
    alone: list[float] = []
    among: list[float] = []
    together: list[float] = []
    index = 0
    for _ in range(20):
        began = time.thread_time()
        for each in range(index + 1, index + 501):
            wal.append_entry(1, each, parts)
            wal.flush()
        alone.append((time.thread_time() - began) / 500)
        began = time.thread_time()
        for each in range(index + 1, index + 501):
            wal.append_raft_entries(2, 1, each, 3, 3, 0, [parts])
            wal.flush()
        among.append((time.thread_time() - began) / 500)
        began = time.thread_time()
        for each in range(index + 1, index + 501, 20):
            wal.append_raft_entries(3, 1, each, 3, 3, 0, [parts] * 20)
            wal.flush()
        together.append((time.thread_time() - began) / 500)
        index += 500
        wal.release_log(1, index)
        wal.release_log(2, index)
        wal.release_log(3, index)
    print(f"append_entry + flush, {size:5d} B: {statistics.median(alone) * 1e6:.2f} us CPU")
    print(f"append_raft_entries + flush, {size:5d} B: {statistics.median(among) * 1e6:.2f} us CPU")
    print(
        f"the same of 20 at once, {size:5d} B: {statistics.median(together) * 1e6:.2f} us CPU each"
    )
    wal.close(clean=False)


def books(entries: int) -> None:
    """What the ledger keeps of live entries: memory, and the time to note and to release them."""
    ledger = Ledger()
    per_file = 1_000_000
    files = [LogFile(number + 1, "", 7, 1 << 27) for number in range(entries // per_file + 1)]
    for file in files:
        ledger.adopt(file)
    before = resident_bytes()
    began = time.perf_counter()
    for index in range(1, entries + 1):
        file = files[index // per_file]
        ledger.place_entries(1, index, file, 4096 + 128 * (index % per_file), [128])
    noted = time.perf_counter() - began
    grown = resident_bytes() - before
    began = time.perf_counter()
    ledger.release_entries(1, entries)
    released = time.perf_counter() - began
    print(
        f"ledger, {entries} entries: {grown / entries:.0f} B each, noted in "
        f"{noted / entries * 1e6:.2f} us each, released in {released * 1e3:.2f} ms in all"
    )


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def recovery(directory: str, size: int, per_record: int, total_bytes: int) -> None:
    """Write live messages, then open the log again."""
    wal = Wal(DirectDisk(OsDisk()), directory, post=lambda work: None, on_failure=stop)
    wal.open(Counting())
    data = os.urandom(size * per_record)
    offsets = b"".join((size * i).to_bytes(4, "little") for i in range(per_record + 1))
    for number in range(total_bytes // len(data)):
        wal.append_publish(1, 0, 0, [(10, 1 + number * per_record)], b"", offsets, data, 0)
        wal.flush()
    wal.close(clean=True)
    began = time.perf_counter()
    wal = Wal(DirectDisk(OsDisk()), directory, post=lambda work: None, on_failure=stop)
    counting = Counting()
    report = wal.open(counting)
    took = time.perf_counter() - began
    print(
        f"recovery, {per_record} x {size} B a record: {report.bytes_read / took / 1e6:.0f} MB/s, "
        f"{report.records / took:.0f} records/s, {counting.messages} messages in {took:.3f} s"
    )
    wal.close(clean=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    sys.setswitchinterval(0.0005)
    print(f"{platform.platform()}, Python {platform.python_version()}")
    compiled = "compiled" if record.__file__.endswith(".so") else "pure"
    print(f"{os.cpu_count()} CPUs, {compiled} build, {arguments.seconds} s each")
    with tempfile.TemporaryDirectory(dir=arguments.directory) as base:
        for size in (4096, 65_536, MIB):
            raw(base, size, arguments.seconds)
        runs = ((4096, 1), (1024, 64), (4096, 16), (65_536, 16))
        for number, (size, records) in enumerate(runs):
            directory = os.path.join(base, f"commits-{number}")
            os.mkdir(directory)
            runner = asyncio.Runner(loop_factory=new_loop)
            with runner:
                runner.run(commits(directory, size, records, arguments.seconds))
        for size in (100, 1024, 16_384):
            directory = os.path.join(base, f"append-{size}")
            os.mkdir(directory)
            append_cost(directory, size)
        directory = os.path.join(base, "entries")
        os.mkdir(directory)
        entry_cost(directory, 100)
        for entries in (1_000_000, 5_000_000):
            books(entries)
        for size, per_record in ((1024, 1), (100, 100)):
            directory = os.path.join(base, f"recovery-{size}")
            os.mkdir(directory)
            recovery(directory, size, per_record, 256 * MIB)


def new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


if __name__ == "__main__":
    main()
