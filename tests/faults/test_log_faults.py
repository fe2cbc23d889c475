"""Every call of the log that changes the disk, failing: what stops the node and what does not.

The rows name the places in the code that they reach; a place that no row names fails the test, so
that no change adds a call to the disk without saying what happens when it fails.
"""

import ast
import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import warren
from tests.faults import test_page_faults as page_faults
from tests.faults.fault_disk import Call, Fault, kind_of
from tests.faults.log_world import FILE_BYTES, LogWorld
from warren.storage.files import name_of
from warren.storage.manifest import NAME as LIST_NAME
from warren.storage.upkeep import PLACE as UPKEEP
from warren.storage.upkeep import UNREAD
from warren.storage.wal import LIST, RESERVE

WRITES: Final = (
    "create", "pwritev", "fsync", "fsync_directory", "rename", "unlink", "truncate",
)  # fmt: skip
When = Callable[[Call], bool]
FULL: Final = "full"
BROKEN: Final = "broken"
SHORT: Final = "short"
UNSYNCED: Final = "unsynced"
ERRNOS: Final = {
    FULL: errno.ENOSPC, BROKEN: errno.EIO, SHORT: errno.ENOSPC, UNSYNCED: errno.EIO,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A call that fails, the load under which it is made, and the place of the alarm."""

    name: str
    when: When
    sites: tuple[str, ...]
    place: str = ""  # "": the node stops
    nth: int = 1
    without_spares: bool = False  # there is no space for those either

    def kinds(self) -> tuple[str, ...]:
        if "pwritev" not in self.sites[0]:
            return (FULL, BROKEN)
        return (FULL, BROKEN, SHORT, UNSYNCED)


def on(operation: str, kind: str, new: str = "") -> When:
    def when(call: Call) -> bool:
        named = kind_of(call.name) == kind and (not new or kind_of(call.new_name) == new)
        return call.operation == operation and named

    return when


def synced_after(change: str) -> When:
    return lambda call: call.operation == "fsync_directory" and call.after == change


def written(kind: str, dsync: bool) -> When:
    def when(call: Call) -> bool:
        return call.operation == "pwritev" and kind_of(call.name) == kind and call.dsync is dsync

    return when


def is_list_write(call: Call) -> bool:
    return (call.operation, call.name) == ("pwritev", LIST_NAME)


def is_list_sync(call: Call) -> bool:
    return (call.operation, call.name) == ("fsync", LIST_NAME)


def listed_after(change: str) -> When:
    return lambda call: is_list_write(call) and call.after == change


def created(whole: bool) -> When:
    return lambda call: call.operation == "create" and (call.byte_count > 0) is whole


def header_of_next(call: Call) -> bool:
    return call.operation == "pwritev" and kind_of(call.name) == "spare-" and call.offset == 0


RESERVE_ROWS: Final = (
    Row("a spare is made", created(True), ("FilePool.begin_spare create",), RESERVE),
    Row(
        "a spare is written over",
        written("tmp-", True),
        ("FilePool._write_slice pwritev",),
        RESERVE,
    ),
    Row(
        "a spare gets its name",
        on("rename", "tmp-", "spare-"),
        ("FilePool._write_slice rename",),
        RESERVE,
    ),
    Row(
        "the name of a spare is synced",
        synced_after("rename tmp- spare-"),
        ("FilePool._write_slice fsync_directory",),
        RESERVE,
    ),
    Row("the next file gets its header", header_of_next, ("FilePool.make_ready pwritev",), RESERVE),
    Row(
        "the next file gets its name",
        on("rename", "spare-", "wal-"),
        ("FilePool._rename rename",),
        RESERVE,
    ),
    Row(
        "the name of the next file is synced",
        synced_after("rename spare- wal-"),
        ("FilePool.make_ready fsync_directory",),
        RESERVE,
    ),
    Row(
        "the next file is listed",
        listed_after("rename spare- wal-"),
        ("Manifest._write pwritev",),
        RESERVE,
    ),
)

DROP_ROWS: Final = (
    Row(
        "a dead file leaves the list",
        is_list_write,
        ("Manifest._write pwritev",),
        UPKEEP,
    ),
    Row("a dead file is removed", on("unlink", "wal-"), ("FilePool.take_back unlink",), UPKEEP),
    Row(
        "its removal is synced",
        synced_after("unlink wal-"),
        ("FilePool.take_back fsync_directory",),
        UPKEEP,
    ),
    Row(
        "a dead file becomes a spare",
        on("rename", "wal-", "spare-"),
        ("FilePool.take_back rename",),
        UPKEEP,
        without_spares=True,
    ),
    Row(
        "its new name is synced",
        synced_after("rename wal- spare-"),
        ("FilePool.take_back fsync_directory",),
        UPKEEP,
        without_spares=True,
    ),
)

COPY_ROWS: Final = (
    Row("a segment is made", created(False), ("Compaction._begin create",), UPKEEP),
    Row("it gets its header", written("tmp-", False), ("Compaction._begin pwritev",), UPKEEP),
    Row(
        "messages are copied",
        written("tmp-", False),
        ("Compaction.write_slice pwritev",),
        UPKEEP,
        2,
    ),
    Row(
        "it is sealed",
        lambda call: written("tmp-", False)(call) and call.byte_count == 40,
        ("Compaction.finish pwritev",),
        UPKEEP,
    ),
    Row("it is synced", on("fsync", "tmp-"), ("Compaction.finish fsync",), UPKEEP),
    Row(
        "it gets its name",
        on("rename", "tmp-", "seg-"),
        ("Compaction.finish rename",),
        UPKEEP,
    ),
    Row(
        "its name is synced",
        synced_after("rename tmp- seg-"),
        ("Compaction.finish fsync_directory",),
        UPKEEP,
    ),
)

FATAL_ROWS: Final = (
    Row("records are written", written("wal-", True), ("LogWriter._write pwritev",)),
    Row("a file is made in time of need", created(True), ("FilePool._blank create",)),
)

START_ROWS: Final = (
    Row("the list of files is synced", is_list_sync, ("Manifest.load fsync",)),
    Row(
        "the names of the files are synced",
        lambda call: call.operation == "fsync_directory",
        ("Opening._open_files fsync_directory",),
    ),
    Row("a half-made file is removed", on("unlink", "tmp-"), ("Opening._open_files unlink",)),
    Row("a spare too many is removed", on("unlink", "spare-"), ("FilePool.adopt_spare unlink",)),
    Row("the last log is synced", on("fsync", "wal-"), ("Recovery._read fsync",)),
    Row("the last log is sealed", written("wal-", True), ("Recovery._seal pwritev",)),
    Row("the end of the last log is given back", on("truncate", "wal-"), ("Wal._trim truncate",)),
)


def cases(*tables: tuple[Row, ...]) -> list[object]:
    return [
        pytest.param(row, kind, id=f"{row.name}, {kind}")
        for table in tables
        for row in table
        for kind in row.kinds()
    ]


def fault_of(row: Row, kind: str) -> Fault:
    return Fault(
        when=row.when,
        errno=ERRNOS[kind],
        short=kind == SHORT,
        unsynced=kind == UNSYNCED,
        nth=row.nth,
    )


def assert_goes_on(world: LogWorld, fault: Fault, places: set[str]) -> None:
    """The fault was met and is known; when it is over, everything is made up for."""
    assert fault.hits > 0
    assert world.failures == []
    assert set(world.wal.faults) == places
    hits = fault.hits
    world.settle(7)  # Consumers go on, and the log with them.
    world.rest()
    world.wal.retry()
    world.rest()
    assert fault.hits > hits, "it was not tried again"
    assert set(world.wal.faults) == places
    world.disk.faults.clear()
    world.wal.retry()
    world.rest()
    assert world.wal.faults == {}
    assert world.failures == []
    world.assert_readable()


def assert_disk_is_small(world: LogWorld) -> None:
    """Nothing that was begun and given up takes room for ever."""
    world.publish(2 * FILE_BYTES // 1000)
    world.rest()
    world.settle(0)
    world.rest()
    world.wal.roll()
    world.rest()
    names = world.beneath.list("/data")
    assert len([name for name in names if name.startswith("spare-")]) <= 1
    assert [name for name in names if name.startswith("tmp-")] == []
    size = sum(world.beneath.size(f"/data/{name}") for name in names)
    assert size <= 3 * world.wal.disk_use().live_record_bytes + 5 * FILE_BYTES, names


def started() -> LogWorld:
    world = LogWorld()
    world.open()
    return world


@pytest.mark.parametrize(("row", "kind"), cases(RESERVE_ROWS))
def test_without_a_reserve_the_log_goes_on_in_the_file_it_has(row: Row, kind: str) -> None:
    world = started()
    fault = world.disk.arm(fault_of(row, kind))
    world.publish(1)
    world.rest()
    assert world.wal.pending_bytes == 0
    assert_goes_on(world, fault, {RESERVE})
    assert world.wal.reserve_count == 2
    for seed in range(3):
        world.crash(seed)
    assert_disk_is_small(world)


@pytest.mark.parametrize(("row", "kind"), cases(DROP_ROWS, COPY_ROWS))
def test_upkeep_that_fails_loses_nothing_and_is_made_up_for(row: Row, kind: str) -> None:
    world = started()
    if row.without_spares:
        world.publish(1)
        world.rest()
        world.disk.arm(Fault(when=created(True), errno=errno.ENOSPC))
    world.publish((1 if row.without_spares else 3) * FILE_BYTES // 1000)
    world.rest()
    fault = world.disk.arm(fault_of(row, kind))
    world.settle(0 if row in DROP_ROWS else 10)
    world.rest()
    world.publish(1)
    for seed in range(3):
        world.crash(seed)
    assert_goes_on(world, fault, {UPKEEP})
    for seed in range(3):
        world.crash(seed)
    assert_disk_is_small(world)


@pytest.mark.parametrize(("row", "kind"), cases(FATAL_ROWS))
def test_a_log_that_cannot_be_written_confirms_nothing_more(row: Row, kind: str) -> None:
    world = started()
    world.publish(5)
    world.rest()
    world.disk.arm(fault_of(row, kind))
    world.disk.arm(Fault(when=created(True), errno=errno.ENOSPC))
    durable_lsn = -1
    for _ in range(8 * FILE_BYTES // 1000):
        world.publish(1)
        world.rest()
        if world.failures:
            durable_lsn = world.wal.durable_lsn
            break
    assert [type(failure) for failure in world.failures] == [OSError]
    assert "-0000" in str(world.failures[0]), "the path is not told"
    world.disk.faults.clear()
    world.publish(3)
    world.rest()
    assert world.wal.durable_lsn == durable_lsn
    assert len(world.failures) == 1
    for seed in range(5):
        assert_disk_is_small(world.crash(seed))


@pytest.mark.parametrize(("row", "kind"), cases(START_ROWS))
def test_a_start_that_fails_says_so_and_the_next_one_finds_everything(row: Row, kind: str) -> None:
    world = started()
    for _ in range(3):
        world.publish(3)
        world.rest()
    world.publish(3)
    after = LogWorld(world.beneath)
    for name in ("tmp-00000000000000000900.log", "spare-00000000000000000901.log"):
        handle = world.beneath.create(f"/data/{name}", 4096)
        world.beneath.close(handle)
    for path in [path for path in world.beneath.names if "spare-0000000000000000000" in path]:
        world.beneath.unlink(path)
    fault = after.disk.arm(fault_of(row, kind))
    with pytest.raises(OSError, match=f"-0000|{LIST_NAME}|'data'"):
        after.open()
    assert fault.hits == 1
    for seed in range(3):
        assert_disk_is_small(world.crash(seed))


def test_a_first_start_without_space_names_the_file_that_it_wanted() -> None:
    world = LogWorld()
    world.disk.arm(Fault(when=created(True), errno=errno.ENOSPC))
    with pytest.raises(OSError, match="tmp-0000"):
        world.open()
    after = LogWorld(world.beneath)
    after.open()
    assert_disk_is_small(after)


def test_what_cannot_be_removed_now_is_removed_later() -> None:
    world = started()
    fault = Fault(when=written("tmp-", True), errno=errno.ENOSPC)
    stuck = Fault(when=on("unlink", "tmp-"), errno=errno.EIO)
    world.disk.faults = [fault, stuck]
    world.publish(1)
    world.rest()
    for _ in range(5):
        world.wal.retry()
        world.rest()
    assert stuck.hits > 1
    left = [name for name in world.beneath.list("/data") if name.startswith("tmp-")]
    assert len(left) == 1, "each attempt left a file behind"
    world.disk.faults.clear()
    world.wal.retry()
    world.rest()
    assert world.wal.faults == {}
    assert_disk_is_small(world)


def test_a_sealed_file_that_cannot_be_read_is_set_aside_and_the_others_go_on() -> None:
    world = started()
    world.publish(3 * FILE_BYTES // 1000)
    world.rest()
    fault = world.disk.arm(Fault(when=on("pread", "wal-"), errno=errno.EIO))
    world.settle(10)
    world.rest()
    assert fault.hits > 0
    assert (world.failures, set(world.wal.faults)) == ([], {UNREAD})
    assert "is set aside" in str(world.alarms[0][1])
    hits, alarms = fault.hits, len(world.alarms)
    world.wal.retry()
    world.rest()
    assert fault.hits > hits, "it was not tried again"
    assert (set(world.wal.faults), len(world.alarms) > alarms) == ({UNREAD}, True)
    world.disk.faults.clear()
    world.wal.retry()
    world.rest()
    assert world.wal.faults == {}
    assert world.wal.tally.finished > 0
    world.assert_readable()
    assert_disk_is_small(world)
    for seed in range(3):
        assert_disk_is_small(world.crash(seed))


def test_a_file_that_is_never_read_again_stays_for_as_long_as_anything_in_it_is_alive() -> None:
    world = started()
    world.publish(3 * FILE_BYTES // 1000)
    world.rest()
    held = world.queues.live[10][40]
    bad = name_of("wal-", held.file_id)
    unreadable = Fault(when=lambda call: (call.operation, call.name) == ("pread", bad), errno=5)
    world.disk.arm(unreadable)
    world.settle(10)
    world.rest()
    assert set(world.wal.faults) == {UNREAD}
    for _ in range(4):
        world.publish(2 * FILE_BYTES // 1000)
        world.settle(10)
        world.rest()
        world.wal.retry()
        world.rest()
    assert world.wal.tally.finished > 2, "others are rewritten, whatever is found beside them"
    assert bad in world.beneath.list("/data")
    for seed in range(3):
        world.crash(seed)
    for owner in (10, 11):
        world.queues.settle(owner, [seq for seq in world.queues.live[owner] if seq < 100])
    world.rest()
    assert bad not in world.beneath.list("/data")
    assert world.wal.faults == {}


def test_a_list_that_cannot_be_written_after_a_roll_is_an_alarm_until_it_is_written() -> None:
    world = started()
    world.publish(1)
    world.rest()
    writes: list[Call] = []

    def is_later_write(call: Call) -> bool:
        """The log itself does the first two, which stop the node if they fail."""
        writes.extend([call] if is_list_write(call) else [])
        return is_list_write(call) and len(writes) in (3, 4)

    world.disk.arm(Fault(when=is_later_write, errno=errno.EIO))
    world.publish(FILE_BYTES // 1000)
    world.rest()
    assert len(writes) > 4
    assert world.failures == []
    assert LIST in {place for place, _ in world.alarms}
    world.disk.faults.clear()
    world.wal.retry()
    world.rest()
    assert world.wal.faults == {}
    for seed in range(3):
        world.crash(seed)


def test_a_failed_sync_during_a_clean_stop_is_told_too() -> None:
    world = started()
    world.publish(1)
    world.disk.arm(Fault(when=written("wal-", True), errno=errno.EIO, unsynced=True))
    world.wal.close(clean=True)
    assert [type(failure) for failure in world.failures] == [OSError]


@pytest.mark.source
def test_every_call_of_the_log_that_changes_the_disk_is_in_the_table() -> None:
    named = {site for table in TABLES for row in table for site in row.sites}
    assert set(sites()) == named | OTHER_SITES | page_faults.SITES


DISKS: Final = ("OsDisk", "DirectDisk")  # they are what is called
TABLES: Final = (RESERVE_ROWS, DROP_ROWS, COPY_ROWS, FATAL_ROWS, START_ROWS)
OTHER_SITES: Final = {
    # `test_proof_that_cannot_be_made_is_reported_once` of `test_log_proof`, and the one below it
    "LogProof._create unlink",
    "LogProof._create create",
    "LogProof._create fsync",
    "LogProof._create rename",
    "LogProof._create fsync_directory",
    "LogProof.load fsync",  # `test_a_proof_that_cannot_be_synced_at_a_start_is_read_at_the_next`
    "LogProof.note_end pwritev",
    "LogProof.note_list pwritev",
    # `test_what_cannot_be_removed_now_is_removed_later`
    "FilePool.begin_spare unlink",
    "FilePool.discard unlink",
    # `test_list_that_cannot_be_made_larger_is_written_later` of `test_manifest`
    "Manifest._grow unlink",
    "Manifest._grow create",
    "Manifest._grow pwritev",
    "Manifest._grow fsync",
    "Manifest._grow rename",
    "Manifest._grow fsync_directory",
}


def sites() -> Iterator[str]:
    """Class, function and operation of each call to a disk that changes it."""
    storage = Path(warren.__file__ or "").parent / "storage"
    folders = (storage, storage / "recovery", storage / "writing")
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        for owner in ast.walk(ast.parse(path.read_text())):
            if not isinstance(owner, ast.ClassDef) or owner.name in DISKS:
                continue
            for function in (each for each in owner.body if isinstance(each, ast.FunctionDef)):
                for call in (each for each in ast.walk(function) if isinstance(each, ast.Call)):
                    called = call.func
                    if not isinstance(called, ast.Attribute) or called.attr not in WRITES:
                        continue
                    if "disk" in ast.unparse(called.value):
                        yield f"{owner.name}.{function.name} {called.attr}"
