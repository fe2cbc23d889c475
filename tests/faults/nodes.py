"""Real nodes on a disk that fails as the test orders it: `disk_faults.c`, preloaded."""

import os
import subprocess
import threading
from pathlib import Path
from typing import Any, Final

import pika
import pytest

from tests.conformance.programs import program
from warren.testing import Node

SOURCE: Final = Path(__file__).resolve().parent / "disk_faults.c"
PATIENCE_SECONDS: Final = 20.0
WAL_FILE_BYTES: Final = 1024 * 1024
PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)


LONG: Final = os.environ.get("WARREN_LONG") == "1"
long = pytest.mark.skipif(not LONG, reason="takes long: `make faults` runs it")


def build_library(folder: Path) -> Path:
    """Compile the library; without a compiler the test is skipped."""
    path = folder / "disk_faults.so"
    compiler = program("gcc", "gcc")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(path), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return path


class FaultyNode:
    """A node whose disk obeys `order`; small log files."""

    def __init__(self, folder: Path, library: Path, **settings: str) -> None:
        self._control = folder / "faults"
        data_dir = folder / "data"
        self.node = Node(
            name="faults",
            data_dir=data_dir,
            settings={"storage.wal_file_bytes": str(WAL_FILE_BYTES), **settings},
            environment={
                "LD_PRELOAD": str(library),
                "DISK_FAULTS": str(self._control),
                "DISK_FAULTS_UNDER": str(data_dir.resolve()),
            },
        )

    def order(self, *lines: str) -> None:
        """From now on these faults and no others; see the library."""
        fresh = self._control.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.replace(self._control)

    def alarms(self) -> list[str]:
        """What is wrong, by what the node says."""
        details: list[str] = self.node.api("GET", "/api/nodes/faults")["alarm_details"]
        return details

    def hits(self) -> int:
        """Calls that were hit so far."""
        path = self._control.with_suffix(".hits")
        return path.stat().st_size if path.exists() else 0


def connect(node: Node, **options: Any) -> Any:
    parameters = pika.URLParameters(node.url)
    for name, value in options.items():
        setattr(parameters, name, value)
    return pika.BlockingConnection(parameters)


def closed_with(node: Node, queue: str, by_get: bool = False) -> tuple[int, str]:
    """How a channel ends that consumes from the queue and settles nothing, or gets one message."""
    connection = connect(node)
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        if by_get:
            channel.basic_get(queue)
        else:
            for _ in channel.consume(queue, inactivity_timeout=PATIENCE_SECONDS):
                continue
    assert connection.is_open
    connection.close()
    return caught.value.reply_code, caught.value.reply_text


def end_of(node: Node) -> int:
    """Exit code of a node that ends by itself."""
    process = node.process
    assert process is not None
    code = process.wait(PATIENCE_SECONDS)
    assert process.stdout is not None
    process.stdout.close()
    return code


class Publisher(threading.Thread):
    """Publishes numbered messages with confirms until `stop` or the connection ends.

    They are persistent unless other properties are given. Message n is `n`, padded to `size`.
    Knows how many are confirmed, and when it is blocked.
    """

    def __init__(
        self,
        node: Node,
        queue: str,
        size: int,
        count: int = 1 << 30,
        properties: pika.BasicProperties = PERSISTENT,
    ) -> None:
        super().__init__(daemon=True)
        self.properties = properties
        self.queue = queue
        self.size = size
        self.count = count
        self.confirmed = 0
        self.sent = 0
        self.blocked_reasons: list[str] = []
        self.unblocked = 0
        self.stopping = False
        self.connection = connect(node)
        # Of the connection inside: the outer one tells it only between two calls.
        inside = self.connection._impl
        inside.add_on_connection_blocked_callback(self._on_blocked)
        inside.add_on_connection_unblocked_callback(self._on_unblocked)
        self.start()

    def run(self) -> None:
        try:
            channel = self.connection.channel()
            channel.confirm_delivery()
            while not self.stopping and self.sent < self.count:
                self.sent += 1
                body = (b"%d" % self.sent).ljust(self.size)
                channel.basic_publish("", self.queue, body, self.properties, mandatory=True)
                self.confirmed += 1
            self.connection.close()
        except (pika.exceptions.AMQPError, ConnectionError):
            return  # The node has ended, as the test wants it.

    def stop(self) -> None:
        self.stopping = True
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()

    def _on_blocked(self, connection: Any, frame: Any) -> None:
        self.blocked_reasons.append(frame.method.reason)

    def _on_unblocked(self, connection: Any, frame: Any) -> None:
        self.unblocked += 1


def consume(node: Node, queue: str, count: int) -> list[int]:
    """The numbers of so many messages, in the order in which they came, settled."""
    connection = connect(node)
    channel = connection.channel()
    found: list[int] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=PATIENCE_SECONDS):
        assert body is not None, f"only {len(found)} of {count} messages came"
        found.append(int(body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    connection.close()
    return found
