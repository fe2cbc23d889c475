"""Alarms by readings and by faults of the disk, and how often the disk is looked at."""

import asyncio
import errno
import logging
from pathlib import Path

import pytest

from node.resources.alarms import Alarms
from node.resources.disk_monitor import DiskMonitor, DiskPace, DiskReading

FULL = OSError(errno.ENOSPC, "No space left on device", "/data/log/tmp-1.log")


class Watched:
    """Alarms with limits of 100 bytes of memory and 50 of disk; counts changes and retries."""

    def __init__(self) -> None:
        self.changes = 0
        self.retries = 0
        self.alarms = Alarms(100, 50, self.on_change)
        self.alarms.observe_memory(10)
        self.alarms.observe_disk(DiskReading(1000))

    def on_change(self) -> None:
        self.changes += 1

    def retry(self) -> None:
        self.retries += 1

    def fail(self, place: str) -> None:
        self.alarms.disk_failed(place, FULL, self.retry)


def test_the_reason_names_each_alarm_that_is_set_and_the_details_say_why() -> None:
    watched = Watched()
    alarms = watched.alarms
    assert (alarms.is_set(), alarms.reason(), alarms.details()) == (False, "", ())
    alarms.observe_disk(DiskReading(49))
    assert (alarms.reason(), watched.changes) == ("low on disk", 1)
    alarms.observe_memory(100)
    assert alarms.reason() == "low on memory & low on disk"
    assert alarms.details() == (
        "memory: 100 bytes are used, the limit is 100",
        "disk: 49 bytes are free, the limit is 50",
    )
    alarms.observe_disk(DiskReading(50))
    alarms.observe_memory(99)
    assert (alarms.is_set(), watched.changes) == (False, 4)


def test_a_fault_sets_the_disk_alarm_until_it_is_healed_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched()
    with caplog.at_level(logging.WARNING, "warren.alarms"):
        for _ in range(3):
            watched.fail("reserve")
        watched.fail("upkeep")
    assert [record.message.split(":")[0] for record in caplog.records] == ["reserve", "upkeep"]
    assert watched.changes == 1
    assert watched.alarms.details() == (f"reserve: {FULL}", f"upkeep: {FULL}")
    assert "/data/log/tmp-1.log" in watched.alarms.details()[0]
    watched.alarms.disk_healed("reserve")
    assert watched.alarms.disk
    watched.alarms.disk_healed("upkeep")
    watched.alarms.disk_healed("upkeep")
    assert (watched.alarms.disk, watched.changes) == (False, 2)


def test_space_that_is_back_does_not_end_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.alarms.observe_disk(DiskReading(1))
    watched.fail("reserve")
    watched.alarms.observe_disk(DiskReading(1000))
    assert watched.alarms.disk
    watched.alarms.disk_healed("reserve")
    assert not watched.alarms.disk


def test_a_fault_is_tried_again_after_one_second_and_then_less_and_less_often() -> None:
    watched = Watched()
    watched.fail("reserve")
    times: list[int] = []
    for second in range(100):
        before = watched.retries
        watched.alarms.retry_due(1000.0 + second)
        if watched.retries > before:
            times.append(second)
    assert times == [1, 3, 7, 15, 31, 47, 63, 79, 95]
    watched.alarms.disk_healed("reserve")
    watched.alarms.retry_due(5000.0)
    assert watched.retries == len(times)


def test_a_fault_for_which_nobody_has_to_wait_is_told_and_tried_again_and_sets_no_alarm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched()
    alarms = watched.alarms
    with caplog.at_level(logging.WARNING, "warren.alarms"):
        alarms.disk_failed("files", FULL, watched.retry, holds=False)
    assert (alarms.is_set(), watched.changes) == (False, 0)
    assert alarms.details() == (f"files: {FULL}",)
    assert [record.message for record in caplog.records] == [f"files: {FULL}; it is tried again"]
    for second in range(4):
        alarms.retry_due(1000.0 + second)
    assert watched.retries == 2
    watched.fail("reserve")
    assert alarms.disk
    alarms.disk_healed("reserve")
    alarms.disk_healed("files")
    assert (alarms.is_set(), watched.changes, alarms.details()) == (False, 2, ())


def test_the_disk_is_looked_at_more_often_the_nearer_the_limit_is() -> None:
    pace = DiskPace(50_000_000)
    assert pace.interval_s(60_000_000_000, 0.0) == 10.0
    assert pace.interval_s(1_050_000_000, 1000.0) == 2.0
    assert pace.interval_s(60_000_000, 2000.0) == 0.1
    assert pace.interval_s(49_000_000, 2001.0) == 1.0


def test_a_disk_that_fills_up_quickly_is_looked_at_more_often() -> None:
    pace = DiskPace(0)
    assert pace.interval_s(9_000_000_000, 0.0) == 10.0
    assert pace.interval_s(4_000_000_000, 5.0) == 2.0  # 1 GB/s.


class Volumes:
    """Free bytes by the name of the folder; a negative number is an error."""

    def __init__(self, free: dict[str, int]) -> None:
        self.free = free
        self.total = dict.fromkeys(free, 1000)

    def free_bytes(self, directory: str) -> int:
        free = self.free[Path(directory).name]
        if free < 0:
            raise OSError(errno.EIO, "cannot tell", directory)
        return free

    def total_bytes(self, directory: str) -> int:
        return self.total[Path(directory).name]


def test_the_least_of_all_folders_of_the_data_directory_counts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("log", "pages"):
        (data / name).mkdir(parents=True)
    volumes = Volumes({"data": 900, "log": 70, "pages": 800})
    assert DiskMonitor(volumes, str(data), 50, print).read() == DiskReading(70)


def test_usage_of_the_fullest_disk_counts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "log").mkdir(parents=True)
    volumes = Volumes({"data": 900, "log": 300})
    volumes.total["data"] = 10_000
    monitor = DiskMonitor(volumes, str(data), 50, print, 90)
    assert monitor.read() == DiskReading(300, 91.0, -100)
    volumes.free["data"] = 1000
    assert monitor.read() == DiskReading(300, 90.0, 0)


def test_usage_alarm_has_its_own_reason() -> None:
    watched = Watched()
    alarms = watched.alarms
    alarms.disk_usage_max = 90
    alarms.observe_disk(DiskReading(1000, 91.04, -1))
    assert (alarms.reason(), alarms.disk, watched.changes) == ("max-disk-usage exceeded", True, 1)
    assert alarms.is_low_on_disk()  # Dead letters stop as well.
    assert alarms.details() == ("disk: 91.0 % is used, addresses.max_disk_usage is 90 %",)
    alarms.observe_disk(DiskReading(1, 99.9, -1))
    assert alarms.reason() == "low on disk & max-disk-usage exceeded"
    alarms.observe_disk(DiskReading(1000, 90.0, 0))
    assert (alarms.is_set(), alarms.details(), watched.changes) == (False, (), 2)


def test_a_monitor_that_fails_keeps_the_last_reading(tmp_path: Path) -> None:
    readings: list[int] = []
    volumes = Volumes({tmp_path.name: 100})

    def on_reading(reading: DiskReading) -> None:
        readings.append(reading.free_bytes)
        volumes.free[tmp_path.name] = -1

    async def watch() -> None:
        task = asyncio.create_task(DiskMonitor(volumes, str(tmp_path), 50, on_reading).run())
        async with asyncio.timeout(10):
            while not readings:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.25)  # At least one more look, which fails.
        assert not task.done()
        task.cancel()

    asyncio.run(watch())
    assert readings == [100]
