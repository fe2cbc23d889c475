"""What a node makes of a data directory: of an earlier version, damaged, or left in good order."""

import os
import re
import shutil
from pathlib import Path

import pika
import pytest

from queues import metadata_commands as commands
from queues.definitions import Destination
from queues.metadata import Metadata
from tests.conformance.test_check_data import checked
from tests.waiting import eventually
from warren.storage.snapshot import encode_file_header
from warren.testing import Node, NodeFailed


def test_definitions_in_a_snapshot_file_are_taken_over_for_good(tmp_path: Path) -> None:
    machine = Metadata()
    machine.apply(1, commands.DeclareQueue("/", "kept", True, node="test"))
    machine.apply(9, commands.Bind("/", "amq.fanout", Destination.QUEUE, "kept", b""))
    state = machine.snapshot()
    (tmp_path / "log").mkdir()
    path = tmp_path / "log" / f"snap-{1:020d}-{9:020d}.bin"
    path.write_bytes(encode_file_header(1, 9, state) + state)
    with Node(data_dir=tmp_path) as node:
        for _ in range(2):
            connection = pika.BlockingConnection(pika.URLParameters(node.url))
            channel = connection.channel()
            channel.confirm_delivery()
            persistent = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("amq.fanout", "", b"body", persistent, mandatory=True)
            connection.close()
            assert not [name for name in os.listdir(tmp_path / "log") if name.startswith("snap-")]
            node.restart()
        connection = pika.BlockingConnection(pika.URLParameters(node.url))
        assert connection.channel().queue_declare("kept", passive=True).method.message_count == 2
        connection.close()


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
