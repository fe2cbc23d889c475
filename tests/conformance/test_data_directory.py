"""What a node makes of a data directory: of an earlier version, damaged, or left in good order."""

import re
import shutil
from pathlib import Path

import pika
import pytest

from tests.conformance.test_check_data import checked
from tests.waiting import eventually
from warren.testing import Node, NodeFailed


def test_directory_of_an_earlier_version_is_refused_with_its_reason(tmp_path: Path) -> None:
    with Node(data_dir=tmp_path) as node:
        node.stop()
        (tmp_path / "membership").unlink()  # Earlier versions wrote none for a single node.
        with pytest.raises(NodeFailed, match="code 1"):
            node.start()
        (line,) = [line for line in node.log().splitlines() if "[ERROR]" in line]
        assert f"data directory {tmp_path} was written by an earlier version of Warren" in line
        assert "begin with an empty data directory" in line


def test_node_keeps_the_name_with_which_its_data_directory_began(tmp_path: Path) -> None:
    with Node(name="first", data_dir=tmp_path) as node:
        node.stop()
    with pytest.raises(NodeFailed) as caught, Node(name="second", data_dir=tmp_path):
        pass
    assert "belongs to node 'first'" in str(caught.value)


def test_a_damaged_keyed_state_stops_the_start_and_is_named(tmp_path: Path) -> None:
    with Node(data_dir=tmp_path) as node:
        node.stop()
        (tmp_path / "keyed" / "CURRENT").write_text("damaged")
        process = node.launch()
        assert process.wait(30) == 1
        assert process.stdout is not None and process.stdout.read() == b""
        process.stdout.close()
        lines = [line for line in node.log().splitlines() if "cannot be read" in line]
        assert len(lines) == 1 and str(tmp_path / "keyed") in lines[0]
        assert "Traceback" not in node.log()


def test_a_keyed_state_of_before_stops_the_start_and_is_blamed(tmp_path: Path) -> None:
    keyed = tmp_path / "keyed"
    with Node(data_dir=tmp_path) as node:
        node.stop()
        older = shutil.copytree(keyed, tmp_path / "older")
        node.start()
        since = set((tmp_path / "log").glob("wal-*.log"))
        node.restart()  # What has changed since is in the keyed state alone.
        eventually(lambda: not since & set((tmp_path / "log").glob("wal-*.log")))
        node.stop()
        shutil.rmtree(keyed)
        older.rename(keyed)
        with pytest.raises(NodeFailed, match="code 1"):
            node.start()
        (line,) = [line for line in node.log().splitlines() if "[ERROR]" in line]
        assert re.search(r"entry \d+ of the definitions is missing; the log is sound, so the", line)


def test_a_clean_stop_leaves_no_definitions_to_be_replayed(tmp_path: Path) -> None:
    with Node(data_dir=tmp_path) as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.url))
        for number in range(30):
            connection.channel().queue_declare(f"q{number}", durable=True)
        connection.close()
        with_entries = set((tmp_path / "log").glob("wal-*.log"))
        node.restart()  # The files with the entries are read for the last time.
        eventually(lambda: not with_entries & set((tmp_path / "log").glob("wal-*.log")))
        node.stop()
        _, report = checked(tmp_path)
        entries = sum(file["records"].get("ENTRY", 0) for file in report["files"])
        assert entries < 5  # What a restart means, each time.
        node.start()
        assert "recovered 30 queues" in node.log()
