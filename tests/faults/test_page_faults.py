"""Every call of the page files that changes the disk, failing: nothing is lost, and it heals.

Page files hold what memory gave up, so that a failed write leaves the bytes with their owner.
"""

import errno
from dataclasses import dataclass
from typing import Final

import pytest

from tests.faults.fault_disk import Call, Fault, FaultDisk
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.pages import PLACE, PROBE, Pages

FILE_BYTES: Final = 1000
# By name of the row: the operation, whether of a probe, and the places in the code.
ROWS: Final = {
    "a page file is made": ("create", False, ("Pages._write create", "Pages._probe create")),
    "bytes are written": ("pwritev", False, ("Pages._write pwritev",)),
    "a probe is written": ("pwritev", True, ("Pages._probe pwritev",)),
    "a file is removed": ("unlink", False, ("Pages._unlink unlink", "Pages._remove_all unlink")),
}
SITES: Final = {site for row in ROWS.values() for site in row[2]}


@dataclass(slots=True)
class Batch:
    """Keeps the `PageBatch` Protocol."""

    place: tuple[int, int] | None = None
    error: Exception | None = None

    def written(self, file_id: int, offset: int) -> None:
        self.place = file_id, offset

    def failed(self, error: Exception) -> None:
        self.error = error


class PageWorld:
    """Page files on a disk that fails."""

    def __init__(self) -> None:
        self.beneath = SimDisk()
        self.disk = FaultDisk(self.beneath)
        self.runner = StepRunner()
        self.faults: set[str] = set()  # as the node keeps them
        self.pages = Pages(
            self.disk,
            "/pages",
            runner=self.runner,
            post=self.runner.post,
            on_alarm=lambda place, error: self.faults.add(place),
            on_healed=self.faults.discard,
            file_bytes=FILE_BYTES,
        )
        self.pages.open()

    def write(self, content: bytes) -> Batch:
        batch = Batch()
        self.pages.write([content], len(content), batch)
        self.runner.settle()
        assert (batch.place is None) != (batch.error is None)
        return batch

    def read(self, batch: Batch, length: int) -> bytes | Exception:
        assert batch.place is not None
        found: list[bytes | Exception] = []
        self.pages.read(batch.place[0], batch.place[1], length, found.append)
        self.runner.settle()
        return found[0]

    def retry(self) -> None:
        self.pages.retry()
        self.runner.settle()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("row", ROWS)
def test_page_files_that_fail_raise_the_alarm_until_they_work_again(
    row: str, short: bool, number: int
) -> None:
    operation, of_probe, _ = ROWS[row]

    def when(call: Call) -> bool:
        matches = call.operation == operation
        return matches and (not of_probe or call.byte_count == len(PROBE))

    world = PageWorld()
    kept = world.write(b"kept".ljust(600))
    begin = Fault(when=lambda call: call.operation == "pwritev", errno=number)
    world.disk.faults = [Fault(when=when, errno=number, short=short), begin]
    given_up = world.write(b"given up".ljust(600))
    assert given_up.error is not None
    assert world.faults == {PLACE}
    world.disk.faults.pop()
    for _ in range(3):
        world.retry()
        assert world.faults == {PLACE}
    assert world.read(kept, 4) == b"kept"
    world.disk.faults.clear()
    world.retry()
    assert world.faults == set()
    again = world.write(b"again".ljust(600))
    assert world.read(again, 5) == b"again"
    assert len(world.beneath.list("/pages")) == 2, "something was left behind"
    assert world.pages.pending_bytes == 0
    assert world.pages.live_bytes == 1200


@pytest.mark.parametrize("fault", [{"errno": errno.EIO}, {"short": True}], ids=["error", "short"])
def test_a_page_that_cannot_be_read_is_told_and_can_be_read_later(fault: dict[str, int]) -> None:
    world = PageWorld()
    batch = world.write(b"content")
    reads = Fault(
        when=lambda call: call.operation == "pread",
        errno=fault.get("errno", 0),
        short=bool(fault.get("short")),
    )
    world.disk.faults = [reads]
    assert isinstance(world.read(batch, 7), Exception)
    assert world.faults == set()
    world.disk.faults.clear()
    assert world.read(batch, 7) == b"content"
