"""`warren check-data` on the directory of a real node: before and after damage."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.broker import take
from tests.conformance.test_damage import KINDS, connect, damage, declare
from warren.testing import Node

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture
def node() -> Iterator[Node]:
    settings = {"storage.wal_file_bytes": str(1024 * 1024)}
    with Node(name="checked", settings=settings) as started:
        yield started


def check(directory: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "node", "check-data", str(directory), *more]
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)


def checked(directory: Path) -> tuple[int, Any]:
    done = check(directory, "--formatter", "json")
    return done.returncode, json.loads(done.stdout)


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and "lock" not in path.name.lower()
    }


def test_a_sound_directory_is_told_in_full_and_nothing_in_it_changes(node: Node) -> None:
    declare(node, **KINDS)
    channel = connect(node).channel()
    channel.basic_ack(take(channel, "classic").delivery_tag)
    running = check(node.data_dir)
    assert (running.returncode, "in use by process" in running.stderr) == (75, True)
    node.kill9()
    before = contents(node.data_dir)
    code, found = checked(node.data_dir)
    assert contents(node.data_dir) == before
    assert (code, found["verdict"], found["clean"]) == (0, "sound", False)
    assert (found["corrupt"], found["problems"]) == ([], [])
    messages = {row["name"]: row["messages"] for row in found["queues"]}
    assert messages.keys() == KINDS.keys()
    assert (messages["lazy"], messages["quorum"]) == (10, 10)
    assert messages["classic"] in (9, 10)  # Whether the settlement was written yet.
    assert sum(row["records"].get("PUBLISH", 0) for row in found["files"]) == 30
    assert all(row["live_bytes"] > 0 for row in found["queues"])
    text = check(node.data_dir).stdout
    assert text.endswith("verdict: sound\n")
    assert "quorum\t10\t" in text


def test_every_bad_place_is_told_with_whom_it_hits(node: Node) -> None:
    declare(node, **KINDS)
    node.kill9()
    places = {name: damage(node, b"%s-4." % name.encode()) for name in KINDS}
    before = contents(node.data_dir)
    code, found = checked(node.data_dir)
    assert contents(node.data_dir) == before
    assert (code, found["verdict"]) == (1, "damaged")
    assert [
        (row["file"], row["offset"], row["record"], row["queues"]) for row in found["corrupt"]
    ] == [
        (str(path), offset, "PUBLISH", [{"vhost": "/", "name": name}])
        for name, (path, offset) in places.items()
    ]
    text = check(node.data_dir).stdout
    for name, (path, offset) in places.items():
        line = f"corrupt: {path} at offset {offset}, record PUBLISH, hits queue '{name}'"
        assert line in text
    assert text.endswith("verdict: damaged\n")


def test_what_is_no_data_directory_is_said_to_be_none(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert (done.returncode, done.stdout) == (66, "")
    assert done.stderr == f"warren: {tmp_path} is not the data directory of a node\n"
    assert list(tmp_path.iterdir()) == []
