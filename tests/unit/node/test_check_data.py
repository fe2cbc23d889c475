"""`warren check-data` without a node: how far it is, on a terminal; what it does not touch."""

import io
import json
from pathlib import Path

from node.recovery.check_data import check, progress, run
from warren.storage.disk import OsDisk
from warren.storage.keyed import RocksKeyed
from warren.storage.snapshot_slices import Stream
from warren.storage.wal import Wal


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class EmptyOwner:
    """Takes nothing of an empty log."""

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        raise AssertionError

    raft_entry = hard_state = knows = owner = publish = stretch = entry


def fail(error: BaseException) -> None:
    raise error


def filled(directory: Path) -> None:
    """A data directory with a log of one message."""
    place = directory / "log"
    place.mkdir()
    wal = Wal(OsDisk(), str(place), post=lambda work: None, on_failure=fail, file_bytes=1 << 20)
    wal.open(EmptyOwner())  # type: ignore[arg-type]
    wal.append_publish(1, 1, 5, [(10, 1)], b"", bytes(4) + b"\x05\0\0\0", b"hello", 0)
    wal.close(clean=True)


def test_a_bar_is_drawn_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    filled(tmp_path)
    terminal, pipe = Terminal(), io.StringIO()
    for errors in (terminal, pipe):
        with progress(errors, str(tmp_path)) as on_read:
            assert check(str(tmp_path), on_read).is_sound
    assert "reading" in terminal.getvalue()
    assert pipe.getvalue() == ""


def test_a_file_that_cannot_be_read_is_named_in_one_line(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / "log" / "wal-00000000000000000099.log"
    path.mkdir()
    out, errors = io.StringIO(), io.StringIO()
    assert run(str(tmp_path), "table", out, errors) == 74
    told = f"warren: {tmp_path} cannot be read: [Errno 21] Is a directory: '{path}'\n"
    assert (out.getvalue(), errors.getvalue()) == ("", told)


def test_messages_of_no_defined_queue_are_told_by_their_uid(tmp_path: Path) -> None:
    filled(tmp_path)
    out = io.StringIO()
    assert run(str(tmp_path), "table", out, io.StringIO()) == 0
    assert "10\t\t\t1\t5\t1\t-1\n" in out.getvalue()


def with_members(directory: Path) -> Wal:
    """A log with members of two groups, the one of 501 with a snapshot."""
    for name in ("log", "keyed"):
        (directory / name).mkdir()
    keyed = RocksKeyed(str(directory / "keyed"), lambda work: None, fail, lambda: None)
    stream = Stream(501, 4, 0)
    first = stream.add([b"slice"])
    keyed.save_now([first, stream.finish(b"point")[1]])
    keyed.close()
    place = str(directory / "log")
    wal = Wal(OsDisk(), place, post=lambda work: None, on_failure=fail, file_bytes=1 << 20)
    wal.open(EmptyOwner())  # type: ignore[arg-type]
    for owner in (500, 501):
        wal.append_hard_state(owner, 1, 3, 2)
        for index in range(3, 7):
            wal.append_raft_entries(owner, 1, index, 3, 3, 0, [(b"content",)])
    wal.roll()
    wal.append_mark(10, 1)  # So that the file before is known to be whole.
    return wal


def test_members_of_log_groups_are_listed(tmp_path: Path) -> None:
    with_members(tmp_path).close(clean=True)
    out = io.StringIO()
    assert run(str(tmp_path), "json", out, io.StringIO()) == 0
    told = json.loads(out.getvalue())
    known = {"vhost": None, "name": None, "incarnation": 1, "term": 3, "vote": 2, "entries": 4}
    known |= {"first_index": 3, "last_index": 6}
    assert told["members"] == [
        {"uid": 500, **known, "snapshot_index": 0},
        {"uid": 501, **known, "snapshot_index": 4},
    ]
    counts = [each["records"] for each in told["files"]]
    assert sum(each.get("RAFT_ENTRY", 0) for each in counts) == 8
    assert sum(each.get("HARD_STATE", 0) for each in counts) == 2
    out = io.StringIO()
    assert run(str(tmp_path), "table", out, io.StringIO()) == 0
    assert "501\t\t\t1\t3\t2\t4\t3\t6\t4\n" in out.getvalue()


def test_a_lost_entry_hits_the_member_unless_its_snapshot_has_it(tmp_path: Path) -> None:
    for owner, index, is_hit in ((500, 3, True), (501, 4, False), (501, 5, True)):
        directory = tmp_path / f"{owner}-{index}"
        directory.mkdir()
        wal = with_members(directory)
        run_of = wal.ledger.entries[owner].run_of(index)
        assert run_of is not None
        path, offset = run_of.file.path, run_of.offset_of(index)
        wal.close(clean=True)
        with open(path, "r+b") as file:
            file.seek(offset + 65)
            file.write(b"?")
        out = io.StringIO()
        assert run(str(directory), "table", out, io.StringIO()) == 1
        hit = f"the member of log group {owner}" if is_hit else "no queue"
        assert f"record RAFT_ENTRY, hits {hit}\n" in out.getvalue()
