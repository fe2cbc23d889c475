"""`warren host`: several nodes of one machine behind one address, as an operator uses it."""

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import requests

from node.host.plan import PEER_PORTS_ABOVE
from tests.waiting import eventually
from warren.testing.node import PACKAGES_DIR

SECONDS = 60.0
NODES = 2
ABOVE = (0, 10_000, PEER_PORTS_ABOVE)  # clients, management, peers
COUNT = 300


EPHEMERAL_FROM = 32_768  # the system gives these to any connection


def free_base() -> int:
    """A port of which all that the nodes derive from it are free, and stay so."""
    highest = EPHEMERAL_FROM - PEER_PORTS_ABOVE - NODES - 1
    for port in random.sample(range(8_000, highest), 100):
        if all(map(is_free, (port + above + n for above in ABOVE for n in range(NODES + 1)))):
            return port
    raise AssertionError("no row of free ports")


def is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Host:
    """The command, its ports, and what its management API says."""

    def __init__(self, folder: Path, *sets: str) -> None:
        self.port = free_base()
        self.management = self.port + 10_000
        command = [sys.executable, "-P", "-m", "node", "host", "--nodes", str(NODES)]
        command += ["--data", str(folder / "data"), "--name", "w"]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        command += ["--management", f"127.0.0.1:{self.management}"]
        for each in sets:
            command += ["--set", each]
        self.log_path = folder / "log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env={"PYTHONPATH": str(PACKAGES_DIR), "PATH": "/usr/bin:/bin"},
            )

    def log(self) -> str:
        return self.log_path.read_text()

    def await_ready(self) -> None:
        eventually(lambda: "nodes of this host are ready" in self.log(), self.log, seconds=SECONDS)

    def connect(self) -> pika.BlockingConnection:
        url = f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"
        return pika.BlockingConnection(pika.URLParameters(url))

    def get(self, path: str, node: int = 1) -> Any:
        url = f"http://127.0.0.1:{self.management + node - 1}/api/{path}"
        return requests.get(url, auth=("guest", "guest"), timeout=10).json()

    def pid(self, node: int) -> int:
        rows = {row["name"]: row for row in self.get("nodes", node)}
        return int(rows[f"w-{node}"]["os_pid"])

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    try:
        made.await_ready()
        yield made
    finally:
        if made.process.poll() is None:
            made.end()


def connected(call: Callable[[], pika.BlockingConnection]) -> pika.BlockingConnection | None:
    try:
        return call()
    except pika.exceptions.AMQPConnectionError:
        return None


def test_nodes_share_an_address_and_nothing_is_lost_when_one_is_killed(host: Host) -> None:
    connections = [host.connect() for _ in range(16)]
    names = {f"w-{number}" for number in (1, 2)}
    eventually(lambda: {row["node"] for row in host.get("connections")} == names)
    for number, connection in enumerate(connections[:4]):
        channel = connection.channel()
        arguments = {"x-queue-type": "quorum"} if number % 2 else {}
        channel.queue_declare(f"q{number}", durable=True, arguments=arguments)
        channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2)
        for index in range(COUNT):
            channel.basic_publish("", f"q{number}", b"%d" % index, persistent)
    killed = host.pid(2)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: "is restarted in 1 s" in host.log(), seconds=SECONDS)
    eventually(lambda: host.log().count("ready node=w-2") == 2, seconds=SECONDS)
    assert host.pid(2) != killed
    connection = eventually(lambda: connected(host.connect), seconds=SECONDS)
    assert connection is not None
    for number in range(4):
        channel = connection.channel()
        found = [body for _ in range(COUNT) if (body := taken(host, channel, f"q{number}"))]
        assert found == [b"%d" % index for index in range(COUNT)]
    assert host.end() == 0


def taken(host: Host, channel: Any, queue: str) -> bytes:
    """The next message; a quorum queue may have no leader for a moment."""

    def got() -> bytes | None:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        return None if method is None else bytes(body)

    body = eventually(got, host.log, seconds=SECONDS)
    assert body is not None
    return body


def test_sigusr2_restarts_one_node_after_the_other(host: Host) -> None:
    before = [host.pid(1), host.pid(2)]
    host.process.send_signal(signal.SIGUSR2)
    eventually(lambda: "all nodes were restarted" in host.log(), host.log, seconds=SECONDS)
    log = host.log()
    second = log.index("restarting node w-2")
    assert log.index("restarting node w-1") < log.rindex("ready node=w-1") < second
    assert log.rindex("ready node=w-2") > second
    assert not set(before) & {host.pid(1), host.pid(2)}


def test_nodes_end_when_their_host_is_killed(host: Host) -> None:
    pids = [host.pid(1), host.pid(2)]
    host.process.kill()
    host.process.wait(SECONDS)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), seconds=SECONDS)


def test_a_node_that_cannot_start_ends_the_host_with_its_status(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("short")
    host = Host(tmp_path, f"cluster.secret_file={tmp_path / 'secret'}")
    assert host.process.wait(SECONDS) == 1
    assert "secret" in host.log()


def test_a_wrong_setting_is_answered_at_once(tmp_path: Path) -> None:
    host = Host(tmp_path, "listeners.metrics=127.0.0.1:65535")
    assert host.process.wait(SECONDS) == 78
    assert "would need port 65536" in host.log()
