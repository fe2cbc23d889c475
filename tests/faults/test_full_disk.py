"""A real node on a small file system of its own that becomes full. Mounting one needs root."""

import errno
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance import raw
from tests.conformance.raw import RawClient
from tests.faults.nodes import (
    WAL_FILE_BYTES,
    Publisher,
    connect,
    consume,
    end_of,
    long,
)
from tests.waiting import eventually
from warren.testing import Node, NodeFailed

CONFIRM_SELECT: Final = (85, 10)
CONFIRM_SELECT_OK: Final = (85, 11)
BASIC_ACK: Final = (60, 80)
PERSISTENT: Final = b"\x10\x00\x02"
VOLUME_BYTES: Final = 20 * WAL_FILE_BYTES
EXT4_BYTES: Final = 12 * WAL_FILE_BYTES  # about so much it keeps for itself
STEP_BYTES: Final = 65_536
EFFECTIVE_LIMIT_BYTES: Final = 2 * WAL_FILE_BYTES
SETTINGS: Final = {
    "storage.wal_file_bytes": str(WAL_FILE_BYTES),
    "disk_free_limit.absolute": "0",
}

pytestmark = [pytest.mark.timeout(120)]


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
    """Somebody else's file, which leaves about as much as this."""
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


def publish_once(node: Node, body: bytes) -> bool:
    """One message with a confirm, over a connection of its own; False if the node has ended.

    The connection is dropped: it is blocked, so that the node would not hear its farewell.
    """
    header = raw.content_header(1, len(body), PERSISTENT)
    try:
        with RawClient(node.host, node.port).begin_channel() as client:
            client.send(raw.method(1, CONFIRM_SELECT, b"\x00")).expect(CONFIRM_SELECT_OK)
            client.send(raw.publish_method(1, "", "q"), header, raw.body(1, body))
            client.expect(BASIC_ACK)
    except (raw.PeerClosed, ConnectionError):
        return False
    return True


def test_a_log_without_room_ends_the_node_and_with_room_again_everything_is_there(
    volume: Path,
) -> None:
    with Node(name="full", data_dir=volume / "data", settings=SETTINGS) as node:
        connection = connect(node)
        connection.channel().queue_declare("q", durable=True)
        connection.close()
        filler = eat(volume, EFFECTIVE_LIMIT_BYTES // 2)
        eventually(lambda: bool(node_row(node)["disk_free_alarm"]), lambda: node_row(node))
        assert node_row(node)["disk_free_limit"] == EFFECTIVE_LIMIT_BYTES
        filler.unlink()
        eventually(lambda: not node_row(node)["disk_free_alarm"], lambda: node_row(node))
        eat(volume, 0)
        confirmed = 0
        # A connection is blocked by its first publish: each brings one more message.
        while publish_once(node, (b"%d" % (confirmed + 1)).ljust(100_000)):
            confirmed += 1
            assert confirmed < 100
        assert confirmed > 5
        assert end_of(node) == 1
        last = node.log().strip().splitlines()[-1]
        failed = r"the write-ahead log failed, the node stops: \[Errno 28\] .*/tmp-\d{20}\.log'$"
        assert re.search(failed, last), last
        with pytest.raises(NodeFailed, match="ended with code 1"):
            node.start()
        assert "No space left on device" in node.log().strip().splitlines()[-1]
        filler.unlink()
        node.start()
        assert node.api("GET", "/api/queues/%2F/q")["messages"] in (confirmed, confirmed + 1)
        assert consume(node, "q", confirmed) == list(range(1, confirmed + 1))
        node.stop()


def test_a_data_directory_that_cannot_be_used_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data" / "lock").mkdir(parents=True)
    node = Node(name="none", data_dir=tmp_path / "data")
    with pytest.raises(NodeFailed, match="ended with code 1"):
        node.start()
    (line,) = node.log().strip().splitlines()
    assert f"data directory {tmp_path}/data: [Errno 21] Is a directory" in line
    node.close()
