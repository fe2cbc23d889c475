"""Snapshots: the newest whole one counts, and there always is one."""

from random import Random

import pytest

from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.sim_keyed import SimKeyed
from tests.sim.storage.steps import StepRunner
from warren.storage.keyed import SNAPSHOTS, KeyedDamaged
from warren.storage.snapshot import (
    CHUNK_BYTES,
    SnapshotStore,
    batches_of,
    encode_head,
)

LONG = bytes(range(256)) * 1000  # several chunks


def make(disk: SimDisk) -> tuple[SnapshotStore, StepRunner]:
    runner = StepRunner()
    return SnapshotStore(SimKeyed(disk, runner)), runner


def save(disk: SimDisk, owner: int, index: int, state: list[bytes]) -> None:
    """Write it and wait until it is durable."""
    store, runner = make(disk)
    told: list[bool] = []
    store.save(owner, index, state, lambda: told.append(True))
    assert not told
    runner.settle()
    assert told


def load(disk: SimDisk, owner: int) -> tuple[int, bytes] | None:
    return make(disk)[0].load(owner)


def test_a_snapshot_is_these_rows() -> None:
    operations = [one for batch in batches_of(1, 2, [b"st", b"ate"]) for one in batch.operations]
    rows = {key.hex(): value.hex() for _, key, value, _ in operations if value is not None}
    prefix = "0000000000000001" + "0000000000000002"  # owner, index
    assert rows == {
        prefix + "00000000": b"st".hex(),
        prefix + "00000001": b"ate".hex(),
        prefix + "ffffffff": "00000001" + "0000000000000005" + "66db68df",  # version, length, crc
    }


def test_the_newest_snapshot_is_loaded_and_the_older_ones_go() -> None:
    disk = SimDisk()
    assert load(disk, 1) is None
    save(disk, 1, 5, [b"five"])
    save(disk, 2, 9, [b"other"])
    save(disk, 1, 12, [b"twe", b"lve"])
    assert load(disk, 1) == (12, b"twelve")
    assert load(disk, 2) == (9, b"other")
    assert len(disk.keyed.durable[SNAPSHOTS]) == 5


def test_states_of_any_length_are_kept() -> None:
    disk = SimDisk()
    for index, state in enumerate((b"", b"a", bytes(CHUNK_BYTES), bytes(CHUNK_BYTES + 1), LONG), 1):
        save(disk, 7, index, [state])
        assert load(disk, 7) == (index, state)


def test_a_damaged_snapshot_is_said_and_not_passed_over() -> None:
    disk = SimDisk()
    save(disk, 1, 6, [b"six" * 5])
    rows = disk.keyed.written[SNAPSHOTS]
    for key, value in list(rows.items()):
        rows[key] = bytes((value[0] ^ 1,)) + value[1:]
        with pytest.raises(KeyedDamaged, match="owner 1 at 6"):
            load(disk, 1)
        rows[key] = value


def test_a_crash_at_any_step_leaves_the_old_one_or_the_new_one() -> None:
    for crash_in in range(9):
        for seed in range(10):
            disk = SimDisk()
            save(disk, 1, 5, [b"five" * 500])
            disk.crash_in = crash_in
            finished = True
            try:
                save(disk, 1, 6, [LONG])
            except Crashed:
                finished = False
            after = disk.crash(Random(seed))
            allowed = [(6, LONG)] if finished else [(6, LONG), (5, b"five" * 500)]
            assert load(after, 1) in allowed
            save(after, 1, 6, [b"less than before"])
            assert load(after, 1) == (6, b"less than before")
    assert finished, "the last one must have been let through"


def test_owners_that_are_gone_are_swept() -> None:
    disk = SimDisk()
    for owner in (1, 20, 30, 2**63):
        save(disk, owner, 5, [b"state"])
    store, runner = make(disk)
    assert store.sweep({1, 30, 99}) == 2
    runner.settle()
    assert [load(disk, owner) is None for owner in (1, 20, 30, 2**63)] == [False, True, False, True]


def test_the_head_has_the_length_and_a_checksum_of_all_parts() -> None:
    assert encode_head([b"ab", b"c"]) == encode_head([b"abc"]) != encode_head([b"abd"])
