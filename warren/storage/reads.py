"""Reads of a log or page file that lie close together, made one.

A backlog of single messages is read back message by message, in order. `Reads` keeps what was
asked for and not begun; a reader thread takes the next read and those right behind it in the same
file, and makes one call to the disk for all. It is woken once for all of them. Safe to use from
several threads.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

GAP_BYTES: Final = 4096  # between two reads, at most: headers, records of others
RUN_BYTES: Final = 1 << 20
RUN_READS: Final = 256  # their answers are one callback of the loop


class Readable(Protocol):
    """What a read needs of a disk (`warren.storage.disk.Disk`)."""

    def pread_pieces(
        self, handle: int, offset: int, pieces: Sequence[tuple[int, int]]
    ) -> Sequence[bytes]:
        """Pieces of a part of a file that begins at `offset`, as (begin, end) in that part.

        They are ascending, and read with one call. One that is behind the end of the file is cut.
        """


class ReadFile(Protocol):
    """A file as reads see it (`warren.storage.files.LogFile`, `warren.storage.pages.PageFile`)."""

    @property
    def path(self) -> str: ...


class ShortRead(Exception):
    """The file ends before the bytes that were asked for, or is not there any more."""


@final
class Read:
    """So many bytes of a file, for a reader that waits."""

    __slots__ = ("done", "file", "length", "offset")

    def __init__(
        self, file: ReadFile, offset: int, length: int, done: Callable[[bytes | Exception], None]
    ) -> None:
        self.file = file
        self.offset = offset
        self.length = length
        self.done = done


@final
class Reads:
    """Reads in the order in which they were asked for, as runs that one call can do."""

    def __init__(self) -> None:
        self._waiting: deque[list[Read]] = deque()
        self._lock = threading.Lock()

    def add(self, read: Read) -> bool:
        """Whether a run begins with it, so that there is one more to be taken."""
        with self._lock:
            if self._waiting:
                run = self._waiting[-1]
                if len(run) < RUN_READS and joins(run, read):
                    run.append(read)
                    return False
            self._waiting.append([read])
            return True

    def take(self) -> list[Read]:
        """The next run; there is one for each `add` that said so."""
        with self._lock:
            return self._waiting.popleft()


def joins(run: Sequence[Read], read: Read) -> bool:
    """Whether the read lies right behind the run."""
    last = run[-1]
    gap = read.offset - last.offset - last.length
    total = read.offset + read.length - run[0].offset
    return read.file is last.file and 0 <= gap <= GAP_BYTES and total <= RUN_BYTES


def carry_out(disk: Readable, handle: int, run: Sequence[Read]) -> list[bytes | Exception]:
    """The answer to each read of a run; `handle` is of its file.

    What cannot be read as one is read one by one.
    """
    first = run[0]
    pieces = [
        (read.offset - first.offset, read.offset + read.length - first.offset) for read in run
    ]
    try:
        found = disk.pread_pieces(handle, first.offset, pieces)
    except OSError as error:
        if len(run) == 1:
            return [error]
        return [carry_out(disk, handle, [read])[0] for read in run]
    answers: list[bytes | Exception] = []
    for read, piece in zip(run, found, strict=True):
        if len(piece) == read.length:
            answers.append(piece)
        else:
            answers.append(ShortRead(f"{read.file.path} ends before {read.offset + read.length}"))
    return answers
