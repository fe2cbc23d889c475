"""The real Toxiproxy between two nodes: its process, and the little of its API that tests need."""

import asyncio
import contextlib
import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.peer_nodes import LOOPBACK, free_port
from tests.conformance.programs import missing, tools_folder

START_S: Final = 10.0
PROGRAM: Final = "toxiproxy-server"


def server_program() -> str:
    """Path of the server that `make tools` builds; without it the test is skipped, or fails in CI.

    WARREN_NO_TOXIPROXY=1 says that it cannot be built there, which needs Go.
    """
    found: Path = tools_folder() / "bin" / PROGRAM
    if not found.exists():
        if os.environ.get("WARREN_NO_TOXIPROXY") == "1":
            pytest.skip(f"{PROGRAM} could not be built here")
        missing(f"{PROGRAM} is not there (make tools; needs Go)")
    return str(found)


class Proxy:
    """One listening port before one address; toxics are of this proxy alone.

    Calls are made from a thread: the server may answer only when the nodes have read more.
    """

    def __init__(self, server: "Toxiproxy", name: str, target: int) -> None:
        self.port = free_port()
        self._server = server
        self._name = name
        address = {"listen": f"{LOOPBACK}:{self.port}", "upstream": f"{LOOPBACK}:{target}"}
        server.call("POST", "/proxies", {"name": name, "enabled": True, **address})

    async def _call(self, method: str, path: str, body: object) -> None:
        await asyncio.to_thread(self._server.call, method, f"/proxies/{self._name}{path}", body)

    async def add(self, toxic: str, stream: str = "downstream", **attributes: int) -> None:
        """Begin to do that to one direction."""
        name = f"{toxic}-{stream}"
        body = {"name": name, "type": toxic, "stream": stream, "attributes": attributes}
        await self._call("POST", "/toxics", body)

    async def down(self) -> None:
        """Close all connections and take no new ones."""
        await self._call("POST", "", {"enabled": False})

    async def up(self) -> None:
        await self._call("POST", "", {"enabled": True})


class Toxiproxy:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._proxies = 0

    def call(self, method: str, path: str, body: object) -> None:
        """One request; anything but success is a failure of the test."""
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=5)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status < 300, f"{method} {path}: {answer.status} {text}"

    def proxy(self, target: int) -> Proxy:
        self._proxies += 1
        return Proxy(self, f"proxy{self._proxies}", target)


@contextlib.contextmanager
def running() -> Iterator[Toxiproxy]:
    """A server for as long as the block lasts."""
    port = free_port()
    command = [server_program(), "-host", LOOPBACK, "-port", str(port)]
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
    try:
        _await_port(port, process)
        yield Toxiproxy(port)
    finally:
        process.terminate()
        process.wait(10)


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"{PROGRAM} ended by itself"
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 1):
            return
        time.sleep(0.01)
    raise AssertionError(f"{PROGRAM} did not listen within {START_S} s")
