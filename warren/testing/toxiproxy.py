"""Toxiproxy processes: a server of the real Toxiproxy, and the little of its API that tests need.

Takes proxies (a port to listen on, an address behind it) and toxics by direction; gives a network
that is as bad as that. `upstream` is from who dialed to who was dialed. The program is looked for
in WARREN_TOXIPROXY, in `bin` of WARREN_TOOLS and of `.tools`, and in PATH; `make tools` builds it.

Toxiproxy may wait for ever when a toxic is taken away, or added while connections come and go (its
issue 558). So nothing is ever taken away here: a server is restarted on the same ports, which
ends its connections; and one that does not answer within a second is restarted as well.
"""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

PROGRAM: Final = "toxiproxy-server"
LOOPBACK: Final = "127.0.0.1"
MISSING: Final = (
    f"{PROGRAM} is not there: make tools builds it (needs Go); or put it in PATH, or name it in "
    "WARREN_TOXIPROXY"
)
START_SECONDS: Final = 10.0
CALL_SECONDS: Final = 1.0
SOURCE_DIR: Final = Path(__file__).resolve().parent.parent.parent


class ToxiproxyFailed(Exception):
    """The server is not there, did not start, or refused a request; the text says which."""


def find_server() -> str | None:
    """Path of the server's program, or None where there is none."""
    named = os.environ.get("WARREN_TOXIPROXY")
    if named:
        return named
    for folder in (os.environ.get("WARREN_TOOLS"), str(SOURCE_DIR / ".tools")):
        if folder and os.access(Path(folder, "bin", PROGRAM), os.X_OK):
            return str(Path(folder, "bin", PROGRAM))
    return shutil.which(PROGRAM)


@dataclass(frozen=True, slots=True)
class Toxic:
    """One fault of one direction, as Toxiproxy names them."""

    type: str
    stream: str  # "upstream" or "downstream"
    attributes: dict[str, int]
    toxicity: float = 1.0


@dataclass(slots=True)
class Proxy:
    """One port before one address."""

    name: str
    listen_port: int
    upstream: str  # host:port
    is_up: bool = True
    toxics: list[Toxic] = field(default_factory=list)


class ToxiproxyServer:
    """A server and its proxies.

    Invariant: a running server has exactly `proxies`, with their toxics, whatever became of it.
    """

    def __init__(self, api_port: int, proxies: list[Proxy], program: str | None = None) -> None:
        found = program or find_server()
        if found is None:
            raise ToxiproxyFailed(MISSING)
        self.proxies = {proxy.name: proxy for proxy in proxies}
        self._program = found
        self._port = api_port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Start the server with all proxies as they are now."""
        assert self._process is None, "the server runs already"
        command = [self._program, "-host", LOOPBACK, "-port", str(self._port)]
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)
        self._await_port(self._process)
        for proxy in self.proxies.values():
            self._make(proxy)

    def stop(self) -> None:
        """End the server and every connection through it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        """Halt the server: nothing passes, and it answers no request. The next change ends it."""
        assert self._process is not None, "the server does not run"
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)  # Until it has stopped.

    def add_proxy(self, proxy: Proxy) -> None:
        """Begin to listen for one more proxy."""
        self.proxies[proxy.name] = proxy
        self._make(proxy)

    def add(self, name: str, toxic: Toxic) -> None:
        """Begin to do that to one direction of a proxy."""
        self.proxies[name].toxics.append(toxic)
        self._change("POST", f"/proxies/{name}/toxics", _toxic_body(toxic))

    def down(self, name: str) -> None:
        """Close the proxy's connections and take no new ones."""
        self.proxies[name].is_up = False
        self._change("POST", f"/proxies/{name}", {"enabled": False})

    def up(self, name: str) -> None:
        """Take connections again."""
        self.proxies[name].is_up = True
        self._change("POST", f"/proxies/{name}", {"enabled": True})

    def heal(self) -> None:
        """All proxies up and without toxics. Connections stay if there were no toxics."""
        if any(proxy.toxics for proxy in self.proxies.values()):
            for proxy in self.proxies.values():
                proxy.toxics.clear()
                proxy.is_up = True
            self._restart()
            return
        for proxy in self.proxies.values():
            if not proxy.is_up:
                self.up(proxy.name)

    def _restart(self) -> None:
        self.stop()
        self.start()

    def _make(self, proxy: Proxy) -> None:
        """Toxics first, then the port: so none is added while connections come."""
        listen = f"{LOOPBACK}:{proxy.listen_port}"
        body = {"name": proxy.name, "listen": listen, "upstream": proxy.upstream}
        self._call("POST", "/proxies", {**body, "enabled": False})
        for toxic in proxy.toxics:
            self._call("POST", f"/proxies/{proxy.name}/toxics", _toxic_body(toxic))
        if proxy.is_up:
            self._call("POST", f"/proxies/{proxy.name}", {"enabled": True})

    def _change(self, method: str, path: str, body: object) -> None:
        """A request to a server that may hang; then it is restarted, which applies the change."""
        try:
            self._call(method, path, body)
        except TimeoutError:
            self._restart()

    def _call(self, method: str, path: str, body: object) -> None:
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=CALL_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        if answer.status >= 300:
            raise ToxiproxyFailed(f"{method} {path}: {answer.status} {text}")

    def _await_port(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                self._process = None
                raise ToxiproxyFailed(f"{PROGRAM} ended with code {process.returncode} at start")
            with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self._port), 1):
                return
            time.sleep(0.01)  # Nothing tells when it listens.
        raise ToxiproxyFailed(f"{PROGRAM} did not listen within {START_SECONDS} s")


def _toxic_body(toxic: Toxic) -> dict[str, Any]:
    return {
        "name": f"{toxic.type}-{toxic.stream}",
        "type": toxic.type,
        "stream": toxic.stream,
        "toxicity": toxic.toxicity,
        "attributes": toxic.attributes,
    }
