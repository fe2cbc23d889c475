"""What is left of a data directory after a reset: nothing of the node, all of other programs."""

from pathlib import Path

from node.operations.resetting import mark, unmark, wipe_if_marked
from warren.storage.disk import OsDisk

DISK = OsDisk()


def filled(directory: Path) -> str:
    for name in ("log/000001.log", "keyed/CURRENT", "keyed/deep/FILE", "pages/1.page"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"kept")
    for name in ("node-id", "membership", "lock", "secret", "warren.toml"):
        (directory / name).write_bytes(b"kept")
    return str(directory)


def files(directory: Path) -> list[str]:
    found = (each for each in directory.rglob("*") if each.is_file())
    return sorted(str(each.relative_to(directory)) for each in found)


def test_nothing_is_removed_without_a_mark(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    before = files(tmp_path)
    assert not wipe_if_marked(DISK, directory)
    mark(DISK, directory)
    unmark(DISK, directory)
    unmark(DISK, directory)
    assert not wipe_if_marked(DISK, directory)
    assert files(tmp_path) == before


def test_a_marked_directory_is_emptied_of_what_the_node_kept(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    mark(DISK, directory)
    mark(DISK, directory)
    assert wipe_if_marked(DISK, directory)
    assert files(tmp_path) == ["lock", "secret", "warren.toml"]
    assert not wipe_if_marked(DISK, directory)


def test_a_wipe_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    mark(DISK, directory)
    (tmp_path / "node-id").unlink()
    (tmp_path / "log/000001.log").unlink()
    assert wipe_if_marked(DISK, directory)
    assert files(tmp_path) == ["lock", "secret", "warren.toml"]
