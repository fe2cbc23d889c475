"""Runs of publishes: what is alive of them comes back whole, wherever the dead are."""

import random
import struct

import pytest

from warren.storage.files import LogFile
from warren.storage.ranges import RangeSet
from warren.storage.record import PUBLISH, Record, data_bytes_of, encode_publish_prefix
from warren.storage.recovery.stretches import Run, Runs, Stretch, cuts_of

OWNER = 7


def publish(index: int, offset: int, first: int, sizes: list[int]) -> Record:
    offsets = struct.pack(
        f"<{len(sizes) + 1}I", *(9 + sum(sizes[:i]) for i in range(len(sizes) + 1))
    )
    prefix = encode_publish_prefix(1, 3, 50 + index, [(OWNER, first)], b"", offsets, sum(sizes))
    payload = memoryview(prefix + bytes(sum(sizes)))
    return Record(offset, 0, OWNER, index, PUBLISH, 0, payload)


def run_of(sizes: list[list[int]]) -> Run:
    """One run of a record for each list of sizes, from message 1 on."""
    runs = Runs(LogFile(1, "/data/wal-1.log", 5, 1 << 20))
    first, offset = 1, 4096
    for number, own in enumerate(sizes):
        assert runs.add(publish(10 + number, offset, first, own))
        first += len(own)
        offset += 200 + sum(own)
    (run,) = runs.found
    return run


def alive_of(run: Run) -> dict[int, tuple[int, int]]:
    """(place in the file, size) by message, as it is handed over."""
    found: dict[int, tuple[int, int]] = {}
    for cut in cuts_of(run):
        if cut.stretch is None:
            assert cut.payload is not None
            (_, first) = cut.payload.targets[0]
            for start, count in cut.live:
                for seq in range(start, start + count):
                    before = data_bytes_of(cut.payload.offsets, 0, seq - first)
                    size = data_bytes_of(cut.payload.offsets, seq - first, seq - first + 1)
                    found[seq] = (cut.offset + before, size)
            continue
        stretch = Stretch(run, *cut.stretch)
        sizes = iter(memoryview(stretch.sizes).cast("I"))
        seq = stretch.first
        places = memoryview(stretch.places).cast("I")
        for place, count in zip(places, memoryview(stretch.counts).cast("I"), strict=True):
            at = place
            for _ in range(count):
                found[seq] = (at, next(sizes))
                at += found[seq][1]
                seq += 1
        assert (seq - stretch.first, next(sizes, None)) == (stretch.count, None)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_what_is_alive_comes_back_whatever_is_dead(seed: int) -> None:
    drawn = random.Random(seed)
    sizes = [[drawn.randrange(1, 90) for _ in range(drawn.choice((1, 1, 2, 5)))] for _ in range(30)]
    run = run_of(sizes)
    whole = dict(every(run, sizes))
    dead = RangeSet()
    for _ in range(drawn.choice((0, 1, 4, 20))):
        dead.add(drawn.randrange(1, run.end), drawn.randrange(1, 9))
    run.live = dead.missing(run.first, run.end - run.first)
    alive = {seq for first, count in run.live for seq in range(first, first + count)}
    assert alive_of(run) == {seq: whole[seq] for seq in sorted(alive)}
    assert list(alive_of(run)) == sorted(alive)
    live_bytes = sum(run.bytes_of(first, count) for first, count in run.live)
    assert live_bytes == sum(whole[seq][1] for seq in alive)


def every(run: Run, sizes: list[list[int]]) -> list[tuple[int, tuple[int, int]]]:
    found: list[tuple[int, tuple[int, int]]] = []
    seq = 1
    for place, own in zip(run.places, sizes, strict=True):
        at = place
        for size in own:
            found.append((seq, (at, size)))
            at += size
            seq += 1
    return found


def test_what_does_not_follow_is_another_run() -> None:
    runs = Runs(LogFile(1, "/data/wal-1.log", 5, 1 << 20))
    for index, first in ((1, 1), (2, 2), (3, 5), (4, 3)):
        assert runs.add(publish(index, 4096 + 200 * index, first, [10]))
    assert [(run.first, run.end) for run in runs.found] == [(1, 3), (5, 6), (3, 4)]


def test_several_targets_and_what_is_known_of_messages_make_no_run() -> None:
    runs = Runs(LogFile(1, "/data/wal-1.log", 5, 1 << 20))
    offsets = struct.pack("<2I", 0, 1)
    for targets, meta in (([(7, 1), (8, 1)], b""), ([(7, 1)], b"meta")):
        prefix = encode_publish_prefix(1, 0, 0, targets, meta, offsets, 1)
        assert not runs.add(Record(4096, 0, 7, 1, PUBLISH, 0, memoryview(prefix + b"x")))
    assert runs.found == []
