"""Where the live entries of a log group are, as columns: one run for each stretch in a file.

A *run* is entries of one file whose indexes follow each other. It keeps 8 bytes for an entry (where
its record begins, and the bytes of the run up to its end), so that a prefix or a tail of any length
dies in one step: 5 million entries in 40 files are 40 runs and 40 MB. Takes what was appended, what
died at either end, and what was copied elsewhere; says where an entry is. No I/O. The bytes that
die are reported to the accounts of the files (`ledger`). Compiled.
"""

from array import array
from itertools import accumulate
from typing import Final, final

from mypy_extensions import i64

from warren.storage.files import LogFile

TRIM_PLACES: Final = 1024  # dead places at the beginning of a run are kept up to so many, or a half
JOIN_PLACES: Final = 4096  # a run that follows another one in its file becomes part of it


@final
class EntryRun:
    """Entries `begin`..`end` - 1, alive, in one file.

    The columns begin with the entry `first`: that at index `i` is at place `i - first`. `sums` are
    bytes of whole records, counted from wherever the run began: `base` at `begin`, `total` at
    `end`.
    """

    __slots__ = ("base", "begin", "end", "file", "first", "offsets", "sums", "total")

    def __init__(self, file: LogFile, begin: i64) -> None:
        self.file = file
        self.first: i64 = begin
        self.begin: i64 = begin
        self.end: i64 = begin
        self.base: i64 = 0
        self.total: i64 = 0
        self.offsets: array[int] = array("I")
        self.sums: array[int] = array("I")

    @property
    def byte_count(self) -> int:
        """Of its live records."""
        return self.total - self.base

    def add(self, offset: i64, size: i64) -> None:
        """The entry `end` is at `offset`; its record takes `size` bytes."""
        self.total += size
        self.end += 1
        self.offsets.append(offset)
        self.sums.append(self.total)

    def extend(self, offset: i64, sizes: list[int]) -> None:
        """Entries from `end` on follow each other at `offset`; their records take these sizes."""
        if len(sizes) == 1:
            self.add(offset, sizes[0])
            return
        self.offsets.extend(accumulate(sizes[:-1], initial=offset))
        self.sums.extend(accumulate(sizes[1:], initial=self.total + sizes[0]))
        self.total = self.sums[-1]
        self.end += len(sizes)

    def offset_of(self, index: i64) -> int:
        place: i64 = index - self.first
        return self.offsets[place]

    def size_of(self, index: i64) -> int:
        place: i64 = index - self.first
        size: i64 = self.sums[place]
        return size - self._sum_before(index)

    def _sum_before(self, index: i64) -> i64:
        if index == self.begin:
            return self.base
        place: i64 = index - self.first - 1
        return self.sums[place]

    def cut_before(self, index: i64) -> int:
        """Entries before `index`, which is one of it, are dead; how many bytes that were."""
        base = self._sum_before(index)
        died: i64 = base - self.base
        self.base = base
        self.begin = index
        dead: i64 = index - self.first
        if dead > TRIM_PLACES and dead * 2 > len(self.offsets):
            del self.offsets[:dead]
            del self.sums[:dead]
            self.first = index
        return died

    def cut_from(self, index: i64) -> int:
        """Entries from `index` on, which is one of it, are dead; how many bytes that were."""
        total = self._sum_before(index)
        died: i64 = self.total - total
        self.total = total
        self.end = index
        place: i64 = index - self.first
        del self.offsets[place:]
        del self.sums[place:]
        return died

    def part(self, begin: i64, end: i64) -> "EntryRun":
        """Entries `begin`..`end` - 1 of it as a run of their own."""
        made = EntryRun(self.file, begin)
        low: i64 = begin - self.first
        high: i64 = end - self.first
        made.end = end
        made.offsets = self.offsets[low:high]
        made.sums = self.sums[low:high]
        made.base = self._sum_before(begin)
        made.total = self.sums[high - 1]
        return made

    def join(self, following: "EntryRun") -> bool:
        """Take in the run right behind this one, if it is in the same file and not long."""
        if (
            following.file is not self.file
            or following.begin != self.end
            or following.end - following.begin > JOIN_PLACES
        ):
            return False
        index = following.begin
        while index < following.end:
            self.add(following.offset_of(index), following.size_of(index))
            index += 1
        return True


@final
class GroupLog:
    """The live entries of one group. Invariant: its runs are ascending and do not overlap."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: list[EntryRun] = []

    @property
    def end(self) -> int:
        """Behind the last entry; 0 if there is none."""
        return self.runs[-1].end if self.runs else 0

    def count(self) -> int:
        """How many entries are alive."""
        found: i64 = 0
        for run in self.runs:
            found += run.end - run.begin
        return found

    def indexes(self) -> list[int]:
        """All indexes; for tests and reports."""
        found: list[int] = []
        for run in self.runs:
            found.extend(range(run.begin, run.end))
        return found

    def byte_count(self) -> int:
        """What the live records take."""
        found: i64 = 0
        for run in self.runs:
            found += run.byte_count
        return found

    def number_of(self, index: i64) -> int:
        """Place in `runs` of the first run that ends behind `index`; their count if none does."""
        low: i64 = 0
        high: i64 = len(self.runs)
        while low < high:
            middle: i64 = (low + high) // 2
            if self.runs[middle].end <= index:
                low = middle + 1
            else:
                high = middle
        return low

    def run_of(self, index: i64) -> EntryRun | None:
        """The run with that entry, if it is alive."""
        number: i64 = self.number_of(index)
        if number == len(self.runs):
            return None
        run = self.runs[number]
        return run if run.begin <= index else None

    def is_at(self, index: i64, file: LogFile, offset: i64) -> bool:
        """Whether the live entry at `index` is the record at `offset` of `file`."""
        run = self.run_of(index)
        return run is not None and run.file is file and run.offset_of(index) == offset

    def places_in(self, file: LogFile, most: i64) -> list[int]:
        """Where live entries begin in the file; `most` of them are enough."""
        found: list[int] = []
        for run in self.runs:
            if run.file is file and len(found) < most:
                begin: i64 = run.begin - run.first
                room: i64 = most - len(found)
                found.extend(run.offsets[begin : begin + room])
        return found

    def append(self, first: i64, file: LogFile, offset: i64, sizes: list[int]) -> bool:
        """Entries from `first` on, behind the last one, each record behind the one before. True if
        that began a run."""
        if self.runs:
            run = self.runs[-1]
            if run.file is file and run.end == first:
                run.extend(offset, sizes)
                return False
            assert run.end <= first
        begun = EntryRun(file, first)
        begun.extend(offset, sizes)
        self.runs.append(begun)
        return True

    def release(self, index: i64) -> list[tuple[LogFile, int]]:
        """Entries up to `index` are dead; the bytes of each file."""
        died: list[tuple[LogFile, int]] = []
        whole: i64 = self.number_of(index + 1)
        place: i64 = 0
        while place < whole:
            died.append((self.runs[place].file, self.runs[place].byte_count))
            place += 1
        if whole < len(self.runs) and self.runs[whole].begin <= index:
            died.append((self.runs[whole].file, self.runs[whole].cut_before(index + 1)))
        del self.runs[:whole]
        return died

    def truncate(self, index: i64) -> list[tuple[LogFile, int]]:
        """Entries from `index` on are dead; the bytes of each file."""
        died: list[tuple[LogFile, int]] = []
        while self.runs and self.runs[-1].end > index:
            run = self.runs[-1]
            if run.begin < index:
                died.append((run.file, run.cut_from(index)))
            else:
                died.append((run.file, run.byte_count))
                self.runs.pop()
        return died

    def move(self, copied: EntryRun, sources: set[int]) -> None:
        """What is still alive in files with these ids of the entries of `copied` is there now."""
        found: list[EntryRun] = []
        for run in self.runs:
            low: i64 = max(run.begin, copied.begin)
            high: i64 = min(run.end, copied.end)
            if low >= high or run.file.id not in sources:
                found.append(run)
                continue
            if run.begin < low:
                found.append(run.part(run.begin, low))
            moved = copied.part(low, high)
            run.file.live -= moved.byte_count
            moved.file.live += moved.byte_count
            if not (found and found[-1].join(moved)):
                found.append(moved)
            if high < run.end:
                found.append(run.part(high, run.end))
        self.runs = found
