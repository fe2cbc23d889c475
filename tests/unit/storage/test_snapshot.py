"""Snapshots: the newest sound one counts, and there always is one."""

import errno

from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.snapshot import SnapshotStore, encode_snapshot_header


def make(disk: SimDisk) -> tuple[SnapshotStore, StepRunner]:
    runner = StepRunner()
    return SnapshotStore(disk, "/data", runner.background, runner.post), runner


def test_a_snapshot_begins_with_these_bytes() -> None:
    assert encode_snapshot_header(1, 2, [b"st", b"ate"]).hex() == (
        "57415252454e534e"  # magic
        "0100000000000000"  # version, reserved
        "0100000000000000"  # owner
        "0200000000000000"  # index
        "0500000000000000"  # length
        "ef80803300000000"  # crc, reserved
    )


def test_the_newest_snapshot_is_loaded_and_the_older_ones_go() -> None:
    disk = SimDisk()
    store, _ = make(disk)
    assert store.load(1) is None
    store.save_now(1, 5, [b"five"])
    store.save_now(2, 9, [b"other"])
    store.save_now(1, 12, [b"twe", b"lve"])
    assert store.load(1) == (12, b"twelve")
    assert store.load(2) == (9, b"other")
    assert len(disk.names) == 2


def test_a_damaged_snapshot_is_passed_over() -> None:
    for place in range(60):
        disk = SimDisk()
        store, _ = make(disk)
        store.save_now(1, 5, [b"five"])
        older = disk.names.copy()
        store.save_now(1, 6, [b"six" * 5])
        (newer,) = disk.names.values()
        newer.cached[place] ^= 1
        disk.names.update(older)
        assert store.load(1) == (5, b"five"), place


def test_a_crash_at_any_step_leaves_the_old_one_or_the_new_one() -> None:
    from random import Random

    for crash_in in range(8):
        for seed in range(20):
            disk = SimDisk()
            store, _ = make(disk)
            store.save_now(1, 5, [b"five" * 500])
            disk.crash_in = crash_in
            finished = False
            try:
                store.save_now(1, 6, [b"six" * 1000])
                finished = True
            except Crashed:
                disk.crash_in = -1
            after, _ = make(disk.crash(Random(seed)))
            allowed = [(6, b"six" * 1000)] if finished else [(6, b"six" * 1000), (5, b"five" * 500)]
            assert after.load(1) in allowed


def test_a_saved_snapshot_is_told_when_it_is_durable() -> None:
    disk = SimDisk()
    store, runner = make(disk)
    told: list[OSError | None] = []
    store.save(1, 5, [b"five"], told.append)
    assert (told, disk.names) == ([], {})
    runner.settle()
    assert told == [None]
    assert store.load(1) == (5, b"five")


def test_a_snapshot_that_cannot_be_written_is_told_and_the_old_one_stays() -> None:
    disk = SimDisk()
    store, runner = make(disk)
    store.save_now(1, 5, [b"five"])
    told: list[OSError | None] = []
    disk.failures["fsync"] = OSError(errno.EIO, "gone")
    store.save(1, 6, [b"six"], told.append)
    runner.settle()
    assert [type(error) for error in told] == [OSError]
    assert store.load(1) == (5, b"five")
    disk.failures.clear()
    store.save_now(1, 6, [b"six"])
    assert store.load(1) == (6, b"six")
