"""What a scan makes of a file that is whole, cut short, stale or damaged."""

import errno
from concurrent.futures import Executor, ThreadPoolExecutor
from random import Random

import pytest

from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.steps import AtOnce
from warren.storage.files import BLOCK_BYTES
from warren.storage.record import (
    ENTRY,
    PUBLISH,
    SEAL,
    SETTLE,
    CorruptRecord,
    encode_header,
    encode_publish_prefix,
    encode_settle,
    padded,
)
from warren.storage.recovery.scan import WHOLE, Scan

EPOCH = 0x4D4D4D4D
SIZE = 16_384
PATH = "/data/file"


def record(kind: int, owner: int, payload: bytes, durable: int = 4096, epoch: int = EPOCH) -> bytes:
    header = encode_header(epoch, durable, owner, 1, kind, 0, [payload], len(payload))
    return (header + payload).ljust(padded(len(payload)), b"\0")


def publish(owner: int, targets: list[tuple[int, int]], durable: int = 4096) -> bytes:
    prefix = encode_publish_prefix(1, 0, 0, targets, b"", bytes(4) + b"\x05\0\0\0", 5)
    return record(PUBLISH, owner, prefix + b"hello", durable)


def scanned(
    content: bytes, whole: bool = False, size: int = SIZE
) -> tuple[list[int], Scan, list[CorruptRecord]]:
    """(owners of the records, the scan, what was corrupt)."""
    disk = SimDisk()
    handle = disk.create(PATH, size)
    disk.pwritev(handle, [content], BLOCK_BYTES, True)
    scan = Scan(disk, handle, PATH, size, EPOCH)
    records = scan.records(WHOLE if whole else 0)
    return [found.owner for found in records], scan, scan.corrupt


def test_a_last_record_cut_anywhere_is_a_torn_tail() -> None:
    first = record(ENTRY, 1, b"first")
    last = record(ENTRY, 2, b"a last record with some length")
    for cut in range(len(last) - 2):  # The last two bytes are padding.
        owners, scan, corrupt = scanned(first + last[:cut])
        assert (owners, corrupt) == ([1], [])
        assert scan.end == BLOCK_BYTES + len(first)
        assert scan.torn == (cut >= 12)  # Before, not even the epoch was written.


def test_records_of_an_earlier_life_of_the_file_do_not_count() -> None:
    new = record(ENTRY, 1, b"12345678")
    old = record(ENTRY, 2, b"12345678", durable=SIZE - 8, epoch=EPOCH - 1)
    owners, scan, corrupt = scanned(new + old * 5)
    assert (owners, corrupt, scan.torn) == ([1], [], False)


def test_nothing_behind_a_seal_counts() -> None:
    owners, scan, _ = scanned(record(ENTRY, 1, b"") + record(SEAL, 0, b"") + record(ENTRY, 2, b""))
    assert owners == [1]
    assert scan.sealed


def test_a_flipped_byte_that_was_durable_is_reported_with_file_and_offset() -> None:
    first = record(ENTRY, 1, b"first")
    second = record(SETTLE, 22, encode_settle([(5, 1)]))
    durable = BLOCK_BYTES + len(first) + len(second)
    third = record(ENTRY, 3, b"third", durable)
    for place in range(len(second)):
        damaged = bytearray(second)
        damaged[place] ^= 0x10
        owners, _, corrupt = scanned(first + damaged + third)
        assert owners == [1, 3]
        assert [(found.path, found.offset) for found in corrupt] == [
            (PATH, BLOCK_BYTES + len(first))
        ]
        assert corrupt[0].owners in ((22,), ())
        if place >= 40:
            assert corrupt[0].owners == (22,)


def test_a_damaged_owner_is_not_believed() -> None:
    damaged = bytearray(record(SETTLE, 22, encode_settle([(5, 1)])))
    damaged[16] ^= 1
    _, _, corrupt = scanned(bytes(damaged) + record(ENTRY, 3, b"", BLOCK_BYTES + len(damaged)))
    assert corrupt[0].owners == ()


def test_the_owners_of_a_damaged_publish_are_named() -> None:
    for targets, owners in (([(22, 1)], (22,)), ([(22, 1), (23, 1)], (22, 23))):
        damaged = bytearray(publish(22, targets))
        damaged[-4] ^= 1
        _, _, corrupt = scanned(bytes(damaged) + record(ENTRY, 3, b"", BLOCK_BYTES + len(damaged)))
        assert corrupt[0].owners == owners


def test_a_flipped_byte_of_a_publish_never_names_somebody_else() -> None:
    whole = publish(22, [(22, 7)])
    behind = record(ENTRY, 3, b"", BLOCK_BYTES + len(whole))
    named = 0
    for place in range(len(whole) - 3):
        for bit in (1, 0x80):
            damaged = bytearray(whole)
            damaged[place] ^= bit
            _, _, corrupt = scanned(bytes(damaged) + behind)
            assert corrupt[0].owners in ((22,), ())
            named += corrupt[0].owners == (22,)
    assert named > 2 * len(whole) * 0.9


def test_a_damaged_length_or_epoch_does_not_hide_the_owner() -> None:
    for place in (4, 8, 16, 34, 40, 42, 44, 48, 52):
        damaged = bytearray(publish(22, [(22, 7)]))
        damaged[place] ^= 1
        behind = record(ENTRY, 3, b"", BLOCK_BYTES + len(damaged))
        _, _, corrupt = scanned(bytes(damaged) + behind)
        assert (place, corrupt[0].owners) == (place, (22,))


def test_two_records_that_are_gone_name_nobody() -> None:
    gone = bytes(len(publish(22, [(22, 7)])) * 2)
    _, _, corrupt = scanned(gone + record(ENTRY, 3, b"", BLOCK_BYTES + len(gone)))
    assert (corrupt[0].owners, corrupt[0].kind) == ((), 0)


def test_a_bad_record_before_one_of_the_same_write_is_a_torn_tail() -> None:
    first = record(ENTRY, 1, b"first")
    damaged = bytearray(record(ENTRY, 2, b"second"))
    damaged[-4] ^= 1
    third = record(ENTRY, 3, b"third", BLOCK_BYTES + len(first))
    owners, scan, corrupt = scanned(first + damaged + third)
    assert (owners, corrupt) == ([1], [])
    assert scan.torn


def test_a_whole_file_without_a_seal_is_corrupt_at_its_end() -> None:
    first = record(ENTRY, 1, b"first")
    _, _, corrupt = scanned(first, whole=True)
    assert [found.offset for found in corrupt] == [BLOCK_BYTES + len(first)]


def test_a_record_longer_than_the_window_is_read() -> None:
    long = record(ENTRY, 1, bytes(5 << 20))
    owners, _, corrupt = scanned(long + record(ENTRY, 2, b""), size=8 << 20)
    assert (owners, corrupt) == ([1, 2], [])


def test_a_file_whose_first_write_was_torn_has_no_records() -> None:
    damaged = bytearray(record(ENTRY, 1, b"first"))
    damaged[-4] ^= 1
    for following, expected in (
        (b"", False),
        (record(ENTRY, 2, b""), False),
        (record(ENTRY, 2, b"", BLOCK_BYTES + len(damaged)), True),
    ):
        _, scan, _ = scanned(bytes(damaged) + following)
        assert scan.has_records() == expected


def told(content: bytes, size: int, window_bytes: int, ahead: Executor | None) -> list[object]:
    """All that a scan of the file says, with its payloads."""
    disk = SimDisk()
    handle = disk.create(PATH, size)
    disk.pwritev(handle, [content], BLOCK_BYTES, True)
    scan = Scan(disk, handle, PATH, size, EPOCH, window_bytes, ahead)
    found = [(record.offset, record.owner, bytes(record.payload)) for record in scan.records(0)]
    scan.close()
    bad = [(each.offset, each.kind, each.targets) for each in scan.corrupt]
    return [found, bad, scan.end, scan.torn, scan.sealed]


@pytest.mark.parametrize("seed", range(20))
def test_a_scan_that_reads_ahead_finds_the_same(seed: int) -> None:
    """Records longer and shorter than what is read at a time, some of them damaged."""
    random = Random(seed)
    content = bytearray()
    for owner in range(1, random.randrange(2, 60)):
        payload = random.randbytes(random.choice((0, 5, 700, 3000)))
        content += record(ENTRY, owner, payload, BLOCK_BYTES + len(content))
    for _ in range(random.randrange(4)):
        content[random.randrange(len(content))] ^= 1
    size = BLOCK_BYTES + len(content) + random.choice((0, 9000))
    expected = told(bytes(content), size, 1 << 20, None)
    for window_bytes in (64, 1000, 4096, 1 << 20):
        assert told(bytes(content), size, window_bytes, AtOnce()) == expected
        with ThreadPoolExecutor(1) as threads:
            assert told(bytes(content), size, window_bytes, threads) == expected


def test_what_cannot_be_read_ahead_matters_when_it_is_wanted() -> None:
    first = record(ENTRY, 1, bytes(1000))
    disk = SimDisk()
    handle = disk.create(PATH, SIZE)
    disk.pwritev(handle, [first + record(ENTRY, 2, bytes(5000))], BLOCK_BYTES, True)
    scan = Scan(disk, handle, PATH, SIZE, EPOCH, 2000, AtOnce())
    records = scan.records(0)
    disk.failures["pread"] = OSError(errno.EIO, "bad sector")
    with pytest.raises(OSError, match="bad sector"):
        next(records)
    disk.failures.clear()
    scan = Scan(disk, handle, PATH, SIZE, EPOCH, 2000, AtOnce())
    records = scan.records(0)
    assert next(records).owner == 1
    disk.failures["pread"] = OSError(errno.EIO, "bad sector")
    with pytest.raises(OSError, match="bad sector"):
        next(records)
    scan.close()
