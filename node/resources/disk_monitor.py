"""Watches the free bytes of the disks that hold the data directory.

Looks every 10 s while the limit is far, and up to ten times a second when it is near: half of the
time that it takes to fill what is left, at the speed seen last and not less than 250 MB/s. While
too little is free it looks once a second. Folders of the data directory may be mounts of their
own: the least counts. With `max_disk_usage` it also reads what share of each disk
is used; the fullest counts. The question may wait for the disk, so a thread asks it; if it fails,
it is asked again every 120 s, and the last reading stays.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

log = logging.getLogger("warren.alarms")

INTERVAL_S_MIN: Final = 0.1
INTERVAL_S_MAX: Final = 10.0
INTERVAL_S_LOW: Final = 1.0  # while the alarm is set
FILL_BYTES_PER_S: Final = 250_000_000  # taken as the least speed at which a disk may fill up
FAILED_INTERVAL_S: Final = 120.0
NO_USAGE_LIMIT: Final = 100  # percent


class Statable(Protocol):
    """What it needs of a disk (`warren.storage.disk.Disk`)."""

    def free_bytes(self, directory: str) -> int: ...

    def total_bytes(self, directory: str) -> int:
        """What files may fill altogether, used or free."""


class DiskReading(Struct, frozen=True):
    """Free bytes of the disk with the least, and the used share of the fullest disk in percent."""

    free_bytes: int
    used_percent: float = 0.0
    room_bytes: int = 1 << 62  # until the fullest disk reaches its usage limit; below 0: beyond it


class DiskPace:
    """How long to wait until the next look. Told each reading; pure."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._free_bytes = -1
        self._now_s = 0.0

    def interval_s(self, free_bytes: int, now_s: float) -> float:
        """Seconds until the next look, after a reading."""
        speed = float(FILL_BYTES_PER_S)
        if self._free_bytes >= 0 and now_s > self._now_s:
            speed = max(speed, (self._free_bytes - free_bytes) / (now_s - self._now_s))
        self._free_bytes = free_bytes
        self._now_s = now_s
        room = free_bytes - self._limit_bytes
        if room < 0:
            return INTERVAL_S_LOW
        return min(max(room / speed / 2, INTERVAL_S_MIN), INTERVAL_S_MAX)


class DiskMonitor:
    """Reads, and tells `on_reading`."""

    def __init__(
        self,
        disk: Statable,
        directory: str,
        limit_bytes: int,
        on_reading: Callable[[DiskReading], None],
        usage_max: int = NO_USAGE_LIMIT,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._usage_max = usage_max
        self._pace = DiskPace(limit_bytes)
        self._on_reading = on_reading

    def read(self) -> DiskReading:
        """Read the disks where data lies."""
        with os.scandir(self._directory) as entries:
            folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=True)]
        folders.append(self._directory)
        free = [self._disk.free_bytes(folder) for folder in folders]
        if self._usage_max == NO_USAGE_LIMIT:
            return DiskReading(min(free))
        totals = [max(self._disk.total_bytes(folder), 1) for folder in folders]
        pairs = list(zip(free, totals, strict=True))
        used = max(100 * (total - each) / total for each, total in pairs)
        room = min(each - total * (100 - self._usage_max) // 100 for each, total in pairs)
        return DiskReading(min(free), used, room)

    async def run(self) -> None:
        """Watch until cancelled. A reading that fails is logged once, until one succeeds."""
        loop = asyncio.get_running_loop()
        fault = ""
        while True:
            try:
                reading = await asyncio.to_thread(self.read)
            except OSError as error:
                if str(error) != fault:
                    fault = str(error)
                    log.error("free disk space is unknown and is read again: %s", error)
                await asyncio.sleep(FAILED_INTERVAL_S)
                continue
            if fault:
                fault = ""
                log.warning("free disk space is known again: %d bytes", reading.free_bytes)
            self._on_reading(reading)
            room = min(reading.free_bytes, self._limit_bytes + reading.room_bytes)
            await asyncio.sleep(self._pace.interval_s(room, loop.time()))
