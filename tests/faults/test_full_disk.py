"""A real node on a small file system of its own that becomes full. Mounting one needs root."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.faults.nodes import (
    WAL_FILE_BYTES,
    Publisher,
    connect,
    consume,
    long,
)
from tests.waiting import eventually
from warren.testing import Node, NodeFailed

VOLUME_BYTES: Final = 20 * WAL_FILE_BYTES
EXT4_BYTES: Final = 12 * WAL_FILE_BYTES  # about so much it keeps for itself
STEP_BYTES: Final = 65_536
EFFECTIVE_LIMIT_BYTES: Final = 2 * WAL_FILE_BYTES
SETTINGS: Final = {
    "storage.wal_file_bytes": str(WAL_FILE_BYTES),
    "disk_free_limit.absolute": "0",
}

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(params=["tmpfs", pytest.param("ext4", marks=long)])
def volume(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of VOLUME_BYTES: in memory, or ext4 in a file."""
    path = tmp_path / "volume"
    path.mkdir()
    if request.param == "ext4":
        image = tmp_path / "image"
        with image.open("wb") as file:
            file.truncate(VOLUME_BYTES + EXT4_BYTES)
        run_or_skip("mkfs.ext4", "-q", "-m", "0", str(image))
        run_or_skip("mount", "-o", "loop", str(image), str(path))
    else:
        run_or_skip("mount", "-t", "tmpfs", "-o", f"size={VOLUME_BYTES}", "warren-test", str(path))
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True, timeout=20)


def run_or_skip(*command: str) -> None:
    """Only root may mount, and not everywhere."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except FileNotFoundError:
        pytest.skip(f"there is no {command[0]} to make a small file system with")
    if done.returncode:
        pytest.skip(f"a small file system cannot be made here: {done.stderr.strip()}")


def free_bytes(volume: Path) -> int:
    found = os.statvfs(volume)
    return found.f_bavail * found.f_frsize


def eat(volume: Path, leave_bytes: int) -> Path:
    """A foreign file, which leaves about as much as this."""
    path = volume / "filler"
    size = free_bytes(volume) - leave_bytes
    with path.open("ab") as filler:
        while size > 0:
            try:
                os.posix_fallocate(filler.fileno(), 0, size)
            except OSError as error:
                assert error.errno == errno.ENOSPC
                size -= STEP_BYTES  # The file system needs some of it for itself.
            else:
                break
    return path


def node_row(node: Node) -> Any:
    return node.api("GET", f"/api/nodes/{node.name}")


@long
def test_a_volume_filled_by_publishing_blocks_publishers_until_consumers_made_room(
    volume: Path,
) -> None:
    with Node(name="full", data_dir=volume / "data", settings=SETTINGS) as node:
        connection = connect(node)
        connection.channel().queue_declare("q", durable=True)
        connection.close()
        publisher = Publisher(node, "q", 60_000)
        eventually(lambda: bool(publisher.blocked_reasons), lambda: publisher.confirmed)
        assert set(publisher.blocked_reasons) == {"low on disk"}
        shown = node_row(node)
        assert (shown["disk_free_alarm"], shown["disk_free_limit"]) == (True, EFFECTIVE_LIMIT_BYTES)
        with pytest.raises(NodeFailed, match=": 503 "):
            node.api("GET", "/api/health/checks/alarms")
        count = publisher.confirmed
        assert consume(node, "q", count) == list(range(1, count + 1))
        eventually(lambda: publisher.unblocked > 0, lambda: node_row(node))
        eventually(lambda: publisher.confirmed >= count + 50, lambda: publisher.confirmed)
        publisher.stop()
        rest = publisher.confirmed - count
        assert consume(node, "q", rest) == list(range(count + 1, count + rest + 1))
        node.stop()


def declare_until_refused(node: Node) -> tuple[int, str]:
    """Declare queues with long names; how many were accepted, and why the next one was not."""
    connection = connect(node)
    channel = connection.channel()
    for number in range(10_000):
        try:
            channel.queue_declare(f"{number:0>200}", durable=True)
        except ChannelClosedByBroker as error:
            connection.close()
            return number, f"{error.reply_code} {error.reply_text}"
    raise AssertionError("no declare was refused")


def test_a_full_disk_holds_publishers_and_definitions_and_the_node_goes_on(volume: Path) -> None:
    with Node(name="full", data_dir=volume / "data", settings=SETTINGS) as node:
        connection = connect(node)
        connection.channel().queue_declare("q", durable=True)
        connection.close()
        publisher = Publisher(node, "q", 10_000)
        eventually(lambda: publisher.confirmed > 20, lambda: publisher.confirmed)
        eventually(lambda: list(volume.glob("data/log/spare-*.log")))  # The reserve is complete.
        filler = eat(volume, 0)
        eventually(lambda: bool(publisher.blocked_reasons), lambda: publisher.confirmed)
        late = Publisher(node, "q", 10_000)
        eventually(lambda: bool(late.blocked_reasons), lambda: late.confirmed)
        assert late.confirmed == 0
        declared, refusal = declare_until_refused(node)
        assert refusal.startswith(
            "406 PRECONDITION_FAILED - the disk is full: new definitions are"
        ), refusal
        connection = connect(node)
        channel = connection.channel()
        for number in range(declared):
            channel.queue_delete(f"{number:0>200}")
        connection.close()
        count = publisher.confirmed
        assert consume(node, "q", count) == list(range(1, count + 1))
        assert node.is_running()
        filler.unlink()
        eventually(lambda: publisher.unblocked > 0, lambda: node_row(node))
        eventually(lambda: publisher.confirmed > count, lambda: publisher.confirmed)
        eventually(lambda: late.confirmed > 0, lambda: late.confirmed)
        publisher.stop()
        late.stop()
        node.stop()


def test_a_data_directory_that_cannot_be_used_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data" / "lock").mkdir(parents=True)
    node = Node(name="none", data_dir=tmp_path / "data")
    with pytest.raises(NodeFailed, match="ended with code 1"):
        node.start()
    (line,) = node.log().strip().splitlines()
    assert f"data directory {tmp_path}/data: [Errno 21] Is a directory" in line
    node.close()
