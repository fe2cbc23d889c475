"""Snapshots in slices: of this node, and from others. One whole one counts, whatever crashes."""

from collections.abc import Callable
from random import Random

import pytest

from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.sim_keyed import SimKeyed
from tests.sim.storage.steps import StepRunner
from warren.storage.keyed import SNAPSHOTS, KeyedDamaged
from warren.storage.snapshot import SnapshotStore
from warren.storage.snapshot_slices import (
    HEAD_NUMBER,
    KEY,
    SLICE_BYTES_MAX,
    STAGED,
    SnapshotHead,
    decode_head,
    encode_head,
)

OWNER = 500
SOURCE = 7


class Place:
    """A store on a simulated disk; what is read back is what counts after a restart."""

    def __init__(self, disk: SimDisk | None = None) -> None:
        self.disk = SimDisk() if disk is None else disk
        self.runner = StepRunner()
        self.store = SnapshotStore(SimKeyed(self.disk, self.runner))
        self.told: list[str] = []

    def tell(self, what: str) -> Callable[[], None]:
        return lambda: self.told.append(what)

    def write(self, index: int, slices: list[bytes], point: bytes = b"point") -> None:
        writer = self.store.begin(OWNER, index, point)
        for each in slices:
            writer.add([each[:2], each[2:]])
        writer.commit(self.tell(f"committed {index}"))
        self.runner.settle()

    def stage(self, index: int, slices: list[bytes], term: int = 3) -> None:
        for number, each in enumerate(slices):
            done = self.tell(f"stored {number}")
            assert self.store.stage(OWNER, SOURCE, index, term, number, [each], done)

    def read(self, index: int, number: int) -> tuple[bytes | Exception | None, bool]:
        answers: list[tuple[bytes | Exception | None, bool]] = []
        self.store.read_slice(
            OWNER, index, number, lambda found, is_last: answers.append((found, is_last))
        )
        assert not answers
        self.runner.settle()
        return answers[0]

    def rows(self) -> list[tuple[int, int]]:
        """(index, number) of all rows of the owner."""
        keys = [KEY.unpack(key) for key in sorted(self.disk.keyed.written[SNAPSHOTS])]
        return [(index, number) for owner, index, number in keys if owner == OWNER]

    def restarted(self) -> "Place":
        return Place(self.disk)

    def found(self) -> tuple[int, bytes, list[bytes]] | None:
        """Index, point and slices of what a start finds."""
        head = self.store.open(OWNER)
        return (
            None if head is None else (head.index, head.point, list(self.store.slices(OWNER, head)))
        )


def test_a_head_has_these_bytes() -> None:
    assert encode_head(SnapshotHead(2, 9, 5, 0x01020304, 2, STAGED, b"pt")).hex() == (
        "00000002"  # version
        "3b529b38"  # crc of the rest
        "0000000000000005"  # length
        "01020304"  # crc of the slices
        "00000002"  # slices
        "80000000"  # number of the first one
        "7074"  # point
    )


def test_a_head_with_any_byte_changed_or_cut_is_refused() -> None:
    head = encode_head(SnapshotHead(2, 9, 5, 1, 2, 0, b"point"))
    assert decode_head(1, 9, head).point == b"point"
    for place in range(len(head)):
        changed = head[:place] + bytes((head[place] ^ 1,)) + head[place + 1 :]
        for bad in (changed, head[:place]):
            with pytest.raises(KeyedDamaged, match="owner 1 at 9"):
                decode_head(1, 9, bad)


def test_a_snapshot_is_there_once_it_is_committed_with_its_slices_as_they_were_added() -> None:
    place = Place()
    assert place.found() is None
    slices = [b"first", b"", bytes(SLICE_BYTES_MAX), b"last"]
    place.write(5, slices)
    assert place.told == ["committed 5"]
    assert [place.read(5, number) for number in range(4)] == [
        (slices[0], False),
        (b"", False),
        (slices[2], False),
        (b"last", True),
    ]
    assert place.restarted().found() == (5, b"point", slices)
    assert place.restarted().store.load(OWNER) == (5, b"".join(slices))


def test_a_slice_may_not_be_longer_than_a_batch() -> None:
    writer = Place().store.begin(OWNER, 5, b"")
    with pytest.raises(AssertionError):
        writer.add([bytes(SLICE_BYTES_MAX), b"1"])


def test_a_newer_snapshot_takes_the_older_ones_away() -> None:
    place = Place()
    place.write(5, [b"five"] * 3)
    place.write(9, [b"nine"])
    assert place.rows() == [(9, 0), (9, HEAD_NUMBER)]
    assert place.read(5, 0) == (None, False)
    assert place.read(9, 0) == (b"nine", True)
    assert place.read(9, 1) == (None, False)
    with pytest.raises(AssertionError):
        place.store.begin(OWNER, 9, b"")


def test_a_snapshot_that_is_not_finished_does_not_count_and_goes_at_the_next_start() -> None:
    place = Place()
    place.write(5, [b"five"])
    writer = place.store.begin(OWNER, 9, b"")
    writer.add([b"nine"], place.tell("slice"))
    place.runner.settle()
    assert place.told == ["committed 5", "slice"]
    assert place.read(9, 0) == (None, False)
    after = place.restarted()
    assert after.found() == (5, b"point", [b"five"])
    after.runner.settle()
    assert after.rows() == [(5, 0), (5, HEAD_NUMBER)]


def test_one_that_is_given_up_leaves_nothing_and_says_nothing() -> None:
    place = Place()
    dropped = place.store.begin(OWNER, 5, b"")
    dropped.add([b"five"])
    dropped.drop()
    replaced = place.store.begin(OWNER, 6, b"")
    replaced.add([b"six"])
    place.write(7, [b"seven"])
    for writer in (dropped, replaced):
        assert not writer.is_open
        writer.add([b"more"])
        writer.commit(place.tell("never"))
    place.runner.settle()
    assert place.told == ["committed 7"]
    assert place.rows() == [(7, 0), (7, HEAD_NUMBER)]


# From other nodes


def test_what_is_staged_counts_from_its_installation_on() -> None:
    place = Place()
    place.write(5, [b"five"])
    place.stage(9, [b"ni", b"ne"])
    assert place.store.staged(OWNER) == (SOURCE, 9, 3, 0)
    place.runner.settle()
    assert place.told == ["committed 5", "stored 0", "stored 1"]
    assert place.store.staged(OWNER) == (SOURCE, 9, 3, 2)
    assert place.restarted().store.load(OWNER) == (5, b"five")
    place.store.install(OWNER, b"at nine", place.tell("installed"))
    assert place.store.staged(OWNER) is None
    place.runner.settle()
    assert place.told[-1] == "installed"
    assert place.rows() == [(9, STAGED), (9, STAGED + 1), (9, HEAD_NUMBER)]
    assert [place.read(9, 0), place.read(9, 1)] == [(b"ni", False), (b"ne", True)]
    assert place.restarted().found() == (9, b"at nine", [b"ni", b"ne"])


def test_only_the_next_slice_is_taken() -> None:
    place = Place()
    store = place.store

    def stage(index: int, term: int, number: int) -> bool:
        return store.stage(OWNER, SOURCE, index, term, number, [b"slice"], place.tell("stored"))

    assert not stage(9, 3, 1)
    assert stage(9, 3, 0)
    assert not stage(9, 3, 0)
    assert not stage(9, 3, 2)
    assert not stage(9, 4, 1)
    assert stage(9, 3, 1)
    place.runner.settle()
    assert place.told == ["stored", "stored"]


def test_another_snapshot_drops_what_was_staged() -> None:
    place = Place()
    place.stage(9, [b"a", b"b", b"c"])
    place.stage(12, [b"twelve"])
    assert place.store.staged(OWNER) == (SOURCE, 12, 3, 0)
    place.runner.settle()
    assert place.rows() == [(12, STAGED)]
    place.stage(12, [b"again"], term=4)
    place.store.install(OWNER, b"", place.tell("installed"))
    place.runner.settle()
    assert place.restarted().found() == (12, b"", [b"again"])


def test_staged_slices_do_not_outlive_the_process() -> None:
    place = Place()
    place.stage(9, [b"a", b"b"])
    place.runner.settle()
    after = place.restarted()
    assert after.found() is None
    assert after.store.staged(OWNER) is None
    after.runner.settle()
    assert after.rows() == []


def test_staged_slices_that_are_dropped_go() -> None:
    place = Place()
    place.stage(9, [b"a", b"b"])
    place.store.drop_staged(OWNER)
    place.store.drop_staged(OWNER)
    place.runner.settle()
    assert place.rows() == []


def test_a_snapshot_of_this_node_and_one_from_another_at_the_same_index_do_not_meet() -> None:
    place = Place()
    writer = place.store.begin(OWNER, 9, b"own")
    writer.add([b"own 0"])
    place.stage(9, [b"other 0", b"other 1"])
    writer.add([b"own 1"])
    writer.commit(place.tell("committed"))
    assert place.store.staged(OWNER) is None
    place.runner.settle()
    assert place.restarted().found() == (9, b"own", [b"own 0", b"own 1"])
    assert place.rows() == [(9, 0), (9, 1), (9, HEAD_NUMBER)]
    assert not place.store.stage(OWNER, SOURCE, 8, 3, 0, [b"late"], place.tell("never"))


def test_a_snapshot_from_another_node_replaces_one_of_this_node_at_the_same_index_once() -> None:
    place = Place()
    writer = place.store.begin(OWNER, 9, b"empty")
    writer.add([b"empty"])
    writer.commit(place.tell("committed"))
    place.stage(9, [b"whole 0", b"whole 1"])
    place.store.install(OWNER, b"whole", place.tell("installed"))
    place.runner.settle()
    assert place.restarted().found() == (9, b"whole", [b"whole 0", b"whole 1"])
    assert place.rows() == [(9, STAGED), (9, STAGED + 1), (9, HEAD_NUMBER)]
    assert not place.store.stage(OWNER, SOURCE, 9, 4, 0, [b"again"], place.tell("never"))


def test_a_crash_while_a_snapshot_is_staged_at_the_same_index_leaves_that_of_this_node() -> None:
    place = Place()
    writer = place.store.begin(OWNER, 9, b"own")
    writer.add([b"own"])
    writer.commit(place.tell("committed"))
    place.stage(9, [b"whole 0", b"whole 1"])
    place.runner.settle()
    assert place.restarted().found() == (9, b"own", [b"own"])


def test_an_installed_snapshot_ends_the_one_that_was_being_written() -> None:
    place = Place()
    writer = place.store.begin(OWNER, 6, b"own")
    writer.add([b"own"])
    place.stage(9, [b"nine"])
    place.store.install(OWNER, b"nine", place.tell("installed"))
    writer.add([b"more"])
    writer.commit(place.tell("never"))
    place.runner.settle()
    assert place.told == ["stored 0", "installed"]
    assert place.rows() == [(9, STAGED), (9, HEAD_NUMBER)]


def test_a_damaged_slice_or_one_that_is_missing_is_said_and_not_passed_over() -> None:
    place = Place()
    place.write(5, [b"one", b"two", b"three"])
    rows = place.disk.keyed.written[SNAPSHOTS]
    for key in [key for key in sorted(rows) if KEY.unpack(key)[2] != HEAD_NUMBER]:
        value = rows.pop(key)
        with pytest.raises(KeyedDamaged):
            place.restarted().found()
        rows[key] = value + b"!"
        with pytest.raises(KeyedDamaged):
            place.restarted().found()
        rows[key] = value
    assert place.restarted().found() == (5, b"point", [b"one", b"two", b"three"])


def test_an_owner_that_is_forgotten_leaves_nothing_and_can_begin_anew() -> None:
    place = Place()
    place.write(5, [b"five"])
    place.store.begin(OWNER, 9, b"").add([b"nine"])
    place.stage(12, [b"twelve"])
    place.store.forget(OWNER)
    assert place.read(5, 0) == (None, False)
    assert place.rows() == []
    place.write(2, [b"two"])
    assert place.restarted().found() == (2, b"point", [b"two"])


@pytest.mark.parametrize("staged", [False, True], ids=["written here", "from another node"])
def test_a_crash_at_any_step_leaves_the_old_one_or_the_new_one(staged: bool) -> None:
    old = (5, b"point", [b"five" * 100])
    new = (9, b"at nine", [b"nine" * 200, b"more", b"last"])
    finished = False
    crash_in = 0
    while not finished:
        for seed in range(6):
            place = Place()
            place.write(5, old[2])
            place.disk.crash_in = crash_in
            try:
                if staged:
                    place.stage(9, new[2])
                    place.store.install(OWNER, new[1], place.tell("new"))
                    place.runner.settle()
                else:
                    place.write(9, new[2], new[1])
                finished = place.told[-1] in ("new", "committed 9")
            except Crashed:
                assert "new" not in place.told and "committed 9" not in place.told
            after = Place(place.disk.crash(Random(seed)))
            assert after.found() in ([new] if finished else [old, new])
            after.runner.settle()
            after.write(20, [b"later"])
            assert after.rows() == [(20, 0), (20, HEAD_NUMBER)]
        crash_in += 1
    assert crash_in > 5
