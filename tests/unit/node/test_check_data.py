"""`warren check-data` without a node: how far it is, on a terminal; what it does not touch."""

import io
from pathlib import Path

from node.check_data import check, progress, run
from warren.storage.disk import OsDisk
from warren.storage.wal import Wal


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Nobody:
    """Takes nothing of an empty log."""

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        raise AssertionError

    knows = owner = publish = stretch = entry


def fail(error: BaseException) -> None:
    raise error


def filled(directory: Path) -> None:
    """A data directory with a log of one message."""
    place = directory / "log"
    place.mkdir()
    wal = Wal(OsDisk(), str(place), post=lambda work: None, on_failure=fail, file_bytes=1 << 20)
    wal.open(Nobody())  # type: ignore[arg-type]
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


def test_messages_of_no_defined_queue_are_told_by_their_uid(tmp_path: Path) -> None:
    filled(tmp_path)
    out = io.StringIO()
    assert run(str(tmp_path), "table", out, io.StringIO()) == 0
    assert "10\t\t\t1\t5\t1\t-1\n" in out.getvalue()
