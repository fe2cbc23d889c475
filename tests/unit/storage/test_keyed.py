"""The keyed state on the real RocksDB."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest

from warren.storage.keyed import (
    METADATA,
    SNAPSHOTS,
    Batch,
    KeyedDamaged,
    KeyedReader,
    RocksKeyed,
)

END = b"\xff"


class Loop:
    """Runs what is posted, when the test says so."""

    def __init__(self) -> None:
        self.posted: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.alarms: list[OSError | None] = []  # None: the fault is over

    def open(self, path: Path) -> RocksKeyed:
        healed = partial(self.alarms.append, None)
        return RocksKeyed(str(path), self.posted.put, self.alarms.append, healed, retry_s=0.05)

    def run_until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not reached():
            assert time.monotonic() < deadline
            self.posted.get(timeout=20)()


def puts(family: str, *keys: bytes) -> Batch:
    batch = Batch()
    for key in keys:
        batch.put(family, key, b"value of " + key)
    return batch


def keys(keyed: RocksKeyed, family: str, first: bytes = b"", end: bytes = END) -> list[bytes]:
    return [key for key, _ in keyed.rows(family, first, end)]


def test_rows_come_back_in_order_within_their_bounds(tmp_path: Path) -> None:
    keyed = Loop().open(tmp_path / "keyed")
    keyed.save_now([puts(METADATA, b"b", b"a", b"c\x00", b"c"), puts(SNAPSHOTS, b"b")])
    assert keys(keyed, METADATA) == [b"a", b"b", b"c", b"c\x00"]
    assert keys(keyed, METADATA, b"b", b"c\x00") == [b"b", b"c"]
    assert list(keyed.rows(SNAPSHOTS, b"", END)) == [(b"b", b"value of b")]
    keyed.close()


def test_the_operations_of_a_batch_are_carried_out_in_order(tmp_path: Path) -> None:
    keyed = Loop().open(tmp_path / "keyed")
    batch = puts(METADATA, b"a1", b"a2", b"a3", b"b")
    batch.delete_range(METADATA, b"a2", b"b")
    batch.put(METADATA, b"a3", b"again")
    batch.delete(METADATA, b"b")
    keyed.save_now([batch])
    assert list(keyed.rows(METADATA, b"", END)) == [(b"a1", b"value of a1"), (b"a3", b"again")]
    keyed.close()


def test_saves_are_told_in_order_when_they_are_durable(tmp_path: Path) -> None:
    loop = Loop()
    keyed = loop.open(tmp_path / "keyed")
    told: list[int] = []
    for number in range(20):
        batches = [puts(METADATA, b"%d-%d" % (number, each)) for each in range(3)]
        keyed.save(batches, lambda number=number: told.append(number))  # type: ignore[misc]
    loop.run_until(lambda: len(told) == 20)
    assert told == list(range(20))
    keyed.close()
    again = loop.open(tmp_path / "keyed")
    assert len(keys(again, METADATA)) == 60
    again.close()


def test_what_was_told_survives_the_death_of_the_process(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from queue import SimpleQueue\n"
        "from warren.storage.keyed import METADATA, Batch, RocksKeyed\n"
        "posted = SimpleQueue()\n"
        "keyed = RocksKeyed(sys.argv[1], posted.put, print, print)\n"
        "batch = Batch()\n"
        "batch.put(METADATA, b'key', b'value')\n"
        "keyed.save([batch], lambda: os.kill(os.getpid(), 9))\n"
        "posted.get(timeout=20)()\n"
    )
    path = tmp_path / "keyed"
    run = subprocess.run([sys.executable, "-c", script, str(path)], timeout=60)
    assert run.returncode == -9
    keyed = Loop().open(path)
    assert keys(keyed, METADATA) == [b"key"]
    keyed.close()


def test_a_damaged_database_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "keyed"
    keyed = Loop().open(path)
    keyed.save_now([puts(METADATA, b"a")])
    keyed.close()
    (path / "CURRENT").write_text("damaged")
    with pytest.raises(KeyedDamaged, match=str(path)):
        Loop().open(path)


def test_its_own_files_of_messages_do_not_pile_up(tmp_path: Path) -> None:
    path = tmp_path / "keyed"
    for _ in range(6):
        Loop().open(path).close()
    assert len([name for name in os.listdir(path) if name.startswith("LOG")]) <= 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB; skipped where none may be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_raises_an_alarm_and_is_tried_again_until_there_is_room(
    small_disk: Path,
) -> None:
    loop = Loop()
    keyed = loop.open(small_disk / "keyed")
    keyed.save_now([puts(SNAPSHOTS, b"before")])
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while file.write(bytes(4096)) == 4096 and os.statvfs(small_disk).f_bavail > 1:
            pass
    told: list[bool] = []
    batches = []
    for number in range(20):
        batch = Batch()
        batch.put(SNAPSHOTS, b"%02d" % number, os.urandom(40_000))
        batches.append(batch)
    keyed.save(batches, lambda: told.append(True))
    loop.run_until(lambda: len(loop.alarms) > 0)
    assert "No space left" in str(loop.alarms[0])
    assert not told
    filler.unlink()
    loop.run_until(lambda: len(told) == 1)
    keyed.close()
    again = loop.open(small_disk / "keyed")
    assert len(keys(again, SNAPSHOTS)) == 21
    assert len(loop.alarms) == 2 and loop.alarms[1] is None
    again.close()


def test_a_row_that_is_looked_up_is_told_behind_what_was_saved_before(tmp_path: Path) -> None:
    loop = Loop()
    keyed = loop.open(tmp_path / "keyed")
    keyed.save_now([puts(SNAPSHOTS, b"old")])
    found: list[bytes | Exception | None] = []
    keyed.look_up(SNAPSHOTS, b"old", found.append)
    keyed.look_up(SNAPSHOTS, b"none", found.append)
    keyed.look_up(METADATA, b"old", found.append)
    loop.run_until(lambda: len(found) == 3)
    assert found == [b"value of old", None, None]
    told: list[bool] = []
    keyed.save([puts(SNAPSHOTS, b"new")], lambda: told.append(True))
    loop.run_until(lambda: len(told) == 1)
    keyed.look_up(SNAPSHOTS, b"new", found.append)
    loop.run_until(lambda: len(found) == 4)
    assert found[3] == b"value of new"
    keyed.close()


def test_the_end_of_a_save_is_told_while_others_go_on(tmp_path: Path) -> None:
    loop = Loop()
    keyed = loop.open(tmp_path / "keyed")
    told: list[int] = []
    drawn: list[int] = []

    def endless() -> Iterator[Batch]:
        """Comes to its end when the save before it, and a row, have been told."""
        deadline = time.monotonic() + 20
        while len(told) < 2:
            assert time.monotonic() < deadline
            batch = Batch()
            batch.put(SNAPSHOTS, b"key", bytes(60_000))
            drawn.append(1)
            yield batch
            while not loop.posted.empty():
                loop.posted.get()()

    keyed.save([puts(SNAPSHOTS, b"first")], lambda: told.append(1))
    keyed.save(endless(), lambda: told.append(3))
    keyed.look_up(SNAPSHOTS, b"first", lambda found: told.append(2))
    loop.run_until(lambda: len(told) == 3)
    assert told[2] == 3
    keyed.close()


def test_a_library_that_is_not_there_is_not_taken_for_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(ImportError):
        Loop().open(tmp_path)
    with pytest.raises(ImportError):
        KeyedReader(str(tmp_path))
