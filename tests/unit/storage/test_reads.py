"""Reads that lie close together are one call to the disk, and each has its own answer."""

import errno
from collections.abc import Sequence

import pytest

from tests.sim.storage.sim_disk import SimDisk
from warren.storage.files import LogFile
from warren.storage.reads import (
    GAP_BYTES,
    RUN_BYTES,
    RUN_READS,
    Read,
    Reads,
    ShortRead,
    carry_out,
)

Answer = bytes | Exception


class BadSector:
    """A disk that cannot read bytes 12..15 of any file."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk

    def pread_pieces(
        self, handle: int, offset: int, pieces: Sequence[tuple[int, int]]
    ) -> Sequence[bytes]:
        if offset < 16 and offset + pieces[-1][1] > 12:
            raise OSError(errno.EIO, "bad sector")
        return self._disk.pread_pieces(handle, offset, pieces)


class Harness:
    """Two files, and reads of them."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.reads = Reads()
        self.woken = 0  # readers
        self.content = bytes(range(256)) * 64
        self.files = [self.file(1), self.file(2)]

    def file(self, number: int) -> LogFile:
        made = LogFile(number, f"/{number}", 1, len(self.content))
        made.handle = self.disk.create(made.path, 0)
        self.disk.pwritev(made.handle, [self.content], 0, True)
        return made

    def ask(self, *places: tuple[int, int], file: int = 0) -> None:
        for offset, length in places:
            read = Read(self.files[file], offset, length, lambda answer: None)
            self.woken += self.reads.add(read)

    def taken(self) -> list[list[tuple[int, int]]]:
        """The runs that readers take until nothing is left."""
        runs: list[list[tuple[int, int]]] = []
        while self.woken:
            self.woken -= 1
            runs.append([(read.offset, read.length) for read in self.reads.take()])
        return runs

    def answers(self) -> list[Answer]:
        return carry_out(self.disk, self.files[0].handle, self.reads.take())


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_nothing_is_taken_when_nothing_was_asked_for(harness: Harness) -> None:
    assert harness.taken() == []


def test_reads_right_behind_each_other_are_taken_together(harness: Harness) -> None:
    harness.ask((0, 10), (10, 20), (30 + GAP_BYTES, 5))
    assert harness.taken() == [[(0, 10), (10, 20), (30 + GAP_BYTES, 5)]]


@pytest.mark.parametrize("second", [(31 + GAP_BYTES, 5), (29, 5), (0, 30), (RUN_BYTES, 10)])
def test_reads_far_apart_backwards_or_too_long_are_taken_alone(
    harness: Harness, second: tuple[int, int]
) -> None:
    harness.ask((10, 20), second)
    assert harness.taken() == [[(10, 20)], [second]]


def test_a_run_ends_at_the_end_of_its_file(harness: Harness) -> None:
    harness.ask((0, 10))
    harness.ask((10, 10), file=1)
    assert harness.taken() == [[(0, 10)], [(10, 10)]]


def test_a_run_has_only_so_many_reads_and_bytes(harness: Harness) -> None:
    harness.ask(*[(at, 1) for at in range(RUN_READS + 1)])
    assert [len(run) for run in harness.taken()] == [RUN_READS, 1]
    harness.ask((0, RUN_BYTES - 1), (RUN_BYTES - 1, 1), (RUN_BYTES, 1))
    assert [len(run) for run in harness.taken()] == [2, 1]


def test_each_read_of_a_run_gets_its_own_bytes(harness: Harness) -> None:
    harness.ask((3, 4), (7, 1), (200, 100))
    content = harness.content
    assert harness.answers() == [content[3:7], content[7:8], content[200:300]]


def test_what_lies_behind_the_end_of_the_file_is_short_and_the_rest_is_there(
    harness: Harness,
) -> None:
    end = len(harness.content)
    harness.ask((end - 8, 4), (end - 4, 2), (end - 2, 4), (end + 2, 1))
    first, second, *others = harness.answers()
    assert (first, second) == (harness.content[-8:-4], harness.content[-4:-2])
    assert [type(answer) for answer in others] == [ShortRead, ShortRead]
    harness.ask((end - 1, 2))
    assert [type(answer) for answer in harness.answers()] == [ShortRead]


def test_a_bad_sector_fails_its_own_read_and_no_other(harness: Harness) -> None:
    harness.ask((0, 10), (10, 5), (16, 4))
    first, bad, last = carry_out(
        BadSector(harness.disk), harness.files[0].handle, harness.reads.take()
    )
    assert (first, last) == (harness.content[:10], harness.content[16:20])
    assert isinstance(bad, OSError)


def test_a_reader_is_woken_once_for_a_run_and_again_for_what_came_when_it_was_taken(
    harness: Harness,
) -> None:
    harness.ask((0, 10), (10, 10), (20, 10))
    assert harness.woken == 1
    assert len(harness.reads.take()) == 3
    harness.ask((30, 10))
    assert harness.woken == 2
