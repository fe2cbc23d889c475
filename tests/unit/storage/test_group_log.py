"""Where the entries of a group are: columns against a table of them one by one."""

from hypothesis import given
from hypothesis import strategies as st

from warren.storage.files import LogFile
from warren.storage.group_log import JOIN_PLACES, TRIM_PLACES, EntryRun, GroupLog

# index -> (file id, offset, size)
Table = dict[int, tuple[int, int, int]]


def files(count: int) -> list[LogFile]:
    return [LogFile(number + 1, f"wal-{number}", 7, 1 << 20) for number in range(count)]


class Pair:
    """A `GroupLog`, and the same as a table; the books of the files beside."""

    def __init__(self) -> None:
        self.files = files(4)
        self.ends = [4096] * 4
        self.group = GroupLog()
        self.table: Table = {}

    def append(self, number: int, index: int, *sizes: int) -> None:
        file, offset = self.files[number], self.ends[number]
        self.ends[number] += sum(sizes)
        file.live += sum(sizes)
        self.group.append(index, file, offset, list(sizes))
        for size in sizes:
            self.table[index] = (file.id, offset, size)
            index += 1
            offset += size

    def bury(self, died: list[tuple[LogFile, int]]) -> None:
        for file, byte_count in died:
            file.live -= byte_count

    def release(self, index: int) -> None:
        self.bury(self.group.release(index))
        self.table = {each: place for each, place in self.table.items() if each > index}

    def truncate(self, index: int) -> None:
        self.bury(self.group.truncate(index))
        self.table = {each: place for each, place in self.table.items() if each < index}

    def move(self, target: int, first: int, count: int, sources: set[int]) -> None:
        """All of that part that is in these files is copied; what died meanwhile is not asked."""
        file = self.files[target]
        run: EntryRun | None = None
        for index in range(first, first + count):
            place = self.table.get(index)
            if place is None or place[0] not in sources:
                self.moved(run, sources)
                run = None
                continue
            if run is None:
                run = EntryRun(file, index)
            run.add(self.ends[target], place[2])
            self.table[index] = (file.id, self.ends[target], place[2])
            self.ends[target] += place[2]
        self.moved(run, sources)

    def moved(self, run: EntryRun | None, sources: set[int]) -> None:
        if run is not None:
            self.group.move(run, sources)

    def check(self) -> None:
        assert self.group.indexes() == sorted(self.table)
        assert self.group.count() == len(self.table)
        assert self.group.end == max(self.table, default=-1) + 1
        assert self.group.byte_count() == sum(size for _, _, size in self.table.values())
        for index, (file_id, offset, size) in self.table.items():
            run = self.group.run_of(index)
            assert run is not None
            assert (run.file.id, run.offset_of(index), run.size_of(index)) == (
                file_id,
                offset,
                size,
            )
            assert self.group.is_at(index, self.files[file_id - 1], offset)
            assert not self.group.is_at(index, self.files[file_id - 1], offset + 8)
        for file in self.files:
            here = [place for place in self.table.values() if place[0] == file.id]
            assert file.live == sum(size for _, _, size in here)
            assert sorted(self.group.places_in(file, 100)) == sorted(place[1] for place in here)


steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "skip", "release", "truncate", "move"]),
        st.integers(0, 3),
        st.integers(0, 30),
        st.integers(1, 12),
    ),
    max_size=40,
)


@given(steps)
def test_columns_say_what_a_table_of_entries_would_say(
    steps: list[tuple[str, int, int, int]],
) -> None:
    pair = Pair()
    end = 1
    for what, number, index, count in steps:
        if what in ("append", "skip"):
            end += what == "skip"
            pair.append(number, end, *(48 + 8 * (index + each) for each in range(count)))
            end += count
        elif what == "release":
            pair.release(index)
        elif what == "truncate":
            pair.truncate(index)
            end = max(pair.table, default=0) + 1
        else:
            pair.move(3, index, count, {1, 2})
        pair.check()


def test_a_file_that_holds_an_index_twice_counts_the_record_that_was_appended_last() -> None:
    pair = Pair()
    for index in (1, 2, 3):
        pair.append(0, index, 48)
    pair.truncate(2)
    pair.append(0, 2, 64)
    assert not pair.group.is_at(2, pair.files[0], 4096 + 48)
    pair.check()


def test_millions_of_entries_are_a_run_and_die_in_one_step() -> None:
    (file,) = files(1)
    group = GroupLog()
    for index in range(1, 200_001):
        group.append(index, file, 4096 + 48 * index, [48])
    assert len(group.runs) == 1
    assert group.release(150_000) == [(file, 150_000 * 48)]
    assert len(group.runs[0].offsets) == 50_000
    assert group.truncate(199_000) == [(file, 1001 * 48)]
    assert group.indexes() == list(range(150_001, 199_000))


def test_what_little_died_at_the_beginning_is_kept_until_it_is_worth_a_move() -> None:
    (file,) = files(1)
    group = GroupLog()
    for index in range(1, 5001):
        group.append(index, file, 4096 + 48 * index, [48])
    group.release(TRIM_PLACES)
    assert len(group.runs[0].offsets) == 5000
    group.release(2600)
    assert len(group.runs[0].offsets) == 2400
    assert group.is_at(2601, file, 4096 + 48 * 2601)


def test_runs_that_meet_in_a_file_become_one_unless_they_are_long() -> None:
    for count, runs in ((10, 1), (JOIN_PLACES + 1, 2)):
        old, other, fresh = files(3)
        group = GroupLog()
        for index in range(1, count + 1):
            group.append(index, old, 48 * index, [48])
        for index in range(count + 1, 2 * count + 1):
            group.append(index, other, 48 * index, [48])
        copied = EntryRun(fresh, 1)
        for index in range(1, 2 * count + 1):
            copied.add(8 * index, 48)
        group.move(copied, {old.id, other.id})
        assert len(group.runs) == runs
        assert group.indexes() == list(range(1, 2 * count + 1))
        assert group.is_at(count + 2, fresh, 8 * (count + 2))
        assert fresh.live == 2 * count * 48
