"""The list of the log files: its bytes, its two copies, and what a failing disk does to it."""

import errno
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.storage.sim_disk import Crashed, SimDisk
from warren.storage.manifest import (
    CAPACITY_BYTES,
    NAME,
    OPEN,
    READY,
    SEALED,
    Listed,
    Manifest,
    decode,
    encode,
)

PATH = f"/data/{NAME}"
U64 = st.integers(0, (1 << 64) - 1)
ROWS = st.builds(
    Listed,
    U64,
    st.integers(0, (1 << 32) - 1),
    st.booleans(),
    st.sampled_from((READY, OPEN, SEALED)),
    U64,
    U64,
    U64,
    st.none() | st.frozensets(U64, max_size=5),
    st.none() | st.dictionaries(U64, U64, max_size=5),
)


def shape(row: Listed) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in sorted(Listed.__slots__))


def sealed(file_id: int, queue_count: int = 3) -> Listed:
    queues = frozenset(range(queue_count))
    return Listed(file_id, 7, True, SEALED, 5000, 1, 9, queues, {1: 4})


def reloaded(disk: SimDisk) -> dict[int, tuple[object, ...]]:
    manifest = Manifest(disk, "/data")
    assert manifest.load()
    rows = {file_id: shape(row) for file_id, row in manifest.rows.items()}
    manifest.close()
    return rows


@given(st.lists(ROWS, max_size=6), U64)
def test_list_is_read_as_it_was_written(rows: list[Listed], number: int) -> None:
    content = encode(rows, number, True)
    found = decode(content + bytes(100))
    assert found is not None
    assert (found[0], list(map(shape, found[1]))) == (number, list(map(shape, rows)))
    assert decode(content[:-1]) is None


def test_bytes_of_the_list_are_golden() -> None:
    row = Listed(2, 0x01020304, True, SEALED, 4176, 5, 6, frozenset((10,)), {1: 4})
    assert encode([row], 3, True).hex(" ", -8).split() == [
        "57415252454e464c", "0100000001000000", "4800000000000000", "0300000000000000",
        "a87de44502000000", "0000000005000000", "0000000006000000", "0000000050100000",
        "0000000004030201", "0102010001000000", "010000000a000000", "0000000001000000",
        "0000000004000000", "00000000",
    ]  # fmt: skip


def test_each_flipped_byte_is_found() -> None:
    content = bytearray(encode([sealed(1), sealed(2)], 1, True))
    for place in range(len(content)):
        content[place] ^= 0x10
        assert decode(bytes(content)) is None
        content[place] ^= 0x10


def test_one_damaged_copy_does_no_harm() -> None:
    disk = SimDisk()
    manifest = Manifest(disk, "/data")
    manifest.add(sealed(1))
    manifest.write()
    manifest.add(sealed(2))
    manifest.write()
    for at in (0, CAPACITY_BYTES):
        damaged = disk.left_behind()
        damaged.names[PATH].cached[at + 50] ^= 1
        assert sorted(reloaded(damaged)) == [1, 2]


def test_update_of_a_removed_file_does_not_bring_it_back() -> None:
    manifest = Manifest(SimDisk(), "/data")
    manifest.add(sealed(1))
    manifest.remove(1)
    manifest.update(sealed(1))
    assert manifest.rows == {}


def test_list_grows_and_then_leaves_out_owners_when_the_disk_is_full() -> None:
    disk = SimDisk()
    manifest = Manifest(disk, "/data")
    for number in range(1, 40):
        manifest.add(sealed(number, 30))
        manifest.write()
    assert disk.size(PATH) > 2 * CAPACITY_BYTES
    assert sorted(reloaded(disk)) == list(range(1, 40))
    disk.space_bytes = 0
    while len(encode(manifest.rows.values(), 0, True)) * 2 <= disk.size(PATH):
        manifest.add(sealed(len(manifest.rows) + 1, 30))
        manifest.write()
    count = len(manifest.rows)
    manifest.close()
    again = Manifest(disk, "/data")
    assert again.load()
    assert len(again.rows) == count
    assert {row.queues for row in again.rows.values()} == {None}


@pytest.mark.parametrize("call", ["create", "pwritev", "fsync", "rename", "fsync_directory"])
def test_list_that_cannot_be_made_larger_is_written_later(call: str) -> None:
    disk = SimDisk()
    manifest = Manifest(disk, "/data")
    manifest.add(sealed(1))
    manifest.write()
    manifest.add(sealed(2, 4000))
    disk.failures[call] = OSError(errno.EIO, "broken")
    with suppress(OSError):  # None if it is written without the queues, which needs no room.
        manifest.write()
    assert 1 in reloaded(disk.left_behind())
    disk.failures.clear()
    manifest.add(sealed(3))
    manifest.write()
    assert sorted(reloaded(disk.left_behind())) == [1, 2, 3]
    assert disk.list("/data") == [NAME]


def halves(disk: SimDisk) -> list[bytes]:
    content = bytes(disk.names[PATH].cached)
    return [content[: len(content) // 2], content[len(content) // 2 :]]


def write_torn(disk: SimDisk, files: int, crash_in: int) -> SimDisk:
    """Start on this disk, write a longer list, and cut the power at that step of the disk."""
    manifest = Manifest(disk, "/data")
    assert manifest.load()
    for file_id in range(1, files + 1):
        manifest.add(sealed(file_id, 20))
    disk.crash_in = crash_in
    with suppress(Crashed):
        manifest.write()
    return disk


@pytest.mark.parametrize("second", range(6))
@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize("is_killed", [False, True])
def test_two_crashes_leave_a_sound_copy(first: int, second: int, is_killed: bool) -> None:
    """After the first crash one copy may be torn, or be in the cache alone: the next write must
    not begin with the other one."""
    random = Random(first * 6 + second)
    for _ in range(20):
        disk = SimDisk()
        manifest = Manifest(disk, "/data")
        for file_id in range(1, 8):
            manifest.add(sealed(file_id, 20))
        manifest.write()
        write_torn(disk, 9, first)
        again = write_torn(disk.left_behind() if is_killed else disk.crash(random), 12, second)
        image = again.crash(random)
        sound = [found for found in map(decode, halves(image)) if found is not None]
        assert sound, f"both copies are torn: crashes at steps {first} and {second}"
