"""Page files on a simulated disk: what is written comes back, what is dead goes."""

import errno
from random import Random

from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.pages import PLACE, Pages
from warren.storage.reads import ShortRead

FILE_BYTES = 1000
DIRECTORY = "/pages"


class Batch:
    """Keeps the `PageBatch` Protocol."""

    def __init__(self) -> None:
        self.place: tuple[int, int] | None = None
        self.error: Exception | None = None

    def written(self, file_id: int, offset: int) -> None:
        self.place = file_id, offset

    def failed(self, error: Exception) -> None:
        self.error = error


class Harness:
    """Page files over a disk whose threads run when told."""

    def __init__(self, disk: SimDisk | None = None) -> None:
        self.disk = disk or SimDisk()
        self.runner = StepRunner()
        self.alarms: list[str] = []
        self.pages = Pages(
            self.disk,
            DIRECTORY,
            runner=self.runner,
            post=self.runner.post,
            on_alarm=lambda place, error: self.alarms.append(f"{place}: {error.errno}"),
            on_healed=lambda place: self.alarms.append(f"{place} healed"),
            file_bytes=FILE_BYTES,
        )
        self.pages.open()

    def write(self, *parts: bytes) -> Batch:
        batch = Batch()
        self.pages.write(parts, sum(map(len, parts)), batch)
        return batch

    def read(self, place: tuple[int, int] | None, length: int) -> bytes | Exception:
        assert place is not None
        found: list[bytes | Exception] = []
        self.pages.read(place[0], place[1], length, found.append)
        self.runner.settle()
        return found[0]

    def names(self) -> list[str]:
        return self.disk.list(DIRECTORY)


def test_what_is_written_can_be_read_and_a_dead_file_goes() -> None:
    harness = Harness()
    random = Random(1)
    alive: dict[tuple[int, int], bytes] = {}
    for number in range(300):
        parts = [random.randbytes(random.randint(1, 150)) for _ in range(random.randint(1, 3))]
        batch = harness.write(*parts)
        harness.runner.settle()
        assert batch.place is not None
        alive[batch.place] = b"".join(parts)
        while len(alive) > number % 17:
            place = random.choice(sorted(alive))
            assert harness.read(place, len(alive[place])) == alive[place]
            harness.pages.release(place[0], len(alive.pop(place)))
        harness.runner.settle()
        assert harness.pages.live_bytes == sum(map(len, alive.values()))
        files = {place[0] for place in alive}
        assert len(harness.names()) <= len(files) + 1
        assert harness.pages.file_count <= len(files) + 1
    assert harness.disk.handles == {} or len(harness.disk.handles) == 1


def test_what_an_earlier_process_left_is_removed_and_its_names_are_not_used_again() -> None:
    first = Harness()
    first.write(b"a")
    first.runner.settle()
    handle = first.disk.create(f"{DIRECTORY}/note.txt", 0)
    first.disk.close(handle)
    left = first.names()
    second = Harness(first.disk)
    batch = second.write(b"bb")
    second.runner.settle()
    assert "note.txt" in second.names()
    assert not set(second.names()) & (set(left) - {"note.txt"})
    assert second.read(batch.place, 2) == b"bb"


def test_a_file_stays_until_a_read_of_it_is_done() -> None:
    harness = Harness()
    batch = harness.write(b"x" * FILE_BYTES)
    harness.write(b"next")
    harness.runner.settle()
    assert batch.place is not None
    found: list[bytes | Exception] = []
    harness.pages.read(batch.place[0], batch.place[1], 5, found.append)
    harness.pages.release(batch.place[0], FILE_BYTES)
    assert len(harness.names()) == 2
    harness.runner.settle()
    assert found == [b"xxxxx"]
    assert len(harness.names()) == 1


def test_a_failed_write_is_told_and_another_file_is_taken_when_it_heals() -> None:
    for method in ("create", "pwritev"):
        harness = Harness()
        harness.disk.failures[method] = OSError(errno.ENOSPC, "no space")
        batches = [harness.write(b"abc"), harness.write(b"def")]
        harness.runner.settle()
        assert all(batch.error is not None for batch in batches)
        assert harness.pages.live_bytes == harness.pages.pending_bytes == 0
        harness.pages.retry()
        harness.runner.settle()
        assert set(harness.alarms) == {f"{PLACE}: {errno.ENOSPC}"}
        del harness.disk.failures[method]
        harness.pages.retry()
        harness.runner.settle()
        assert harness.alarms[-1] == f"{PLACE} healed"
        batch = harness.write(b"ghi")
        harness.runner.settle()
        assert harness.read(batch.place, 3) == b"ghi"
        assert len(harness.names()) == 1


def test_a_read_that_fails_is_told_to_whoever_asked() -> None:
    harness = Harness()
    batch = harness.write(b"abc")
    harness.runner.settle()
    assert isinstance(harness.read((99, 0), 3), ShortRead)
    assert isinstance(harness.read(batch.place, 30), ShortRead)
    harness.disk.failures["pread"] = OSError(errno.EIO, "bad sector")
    assert isinstance(harness.read(batch.place, 3), OSError)
