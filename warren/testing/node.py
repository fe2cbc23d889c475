"""One broker process under the control of a test. Imports nothing of the broker itself.

A `Node` owns a folder (given, or temporary), two ports that stay the same over restarts, and at
most one process. The process is of the environment that runs the test: the same interpreter, and
the packages beside this one. Its log is the file `node.log` in the folder; stdout carries nothing
but the ready line.
"""

import json
import os
import random
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

PORT_FIRST: Final = 20_000  # Below the range from which systems take the ports of clients.
PORT_LAST: Final = 32_000
RECENT: Final[deque[int]] = deque(maxlen=500)  # ports that this process has drawn
LOG_TAIL_CHARS: Final = 4_000
PACKAGES_DIR: Final = Path(__file__).resolve().parent.parent.parent


class NodeFailed(Exception):
    """The process did not do what was asked of it; the text ends with the tail of its log."""


def free_port() -> int:
    """A loopback port that is free now and no outgoing connection will be given.

    A port is not bound before its node starts. Each worker of pytest-xdist therefore has ports of
    its own, and a process does not return a port again soon.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    width = (PORT_LAST - PORT_FIRST) // workers
    drawn = random.SystemRandom()
    for _ in range(200):
        port = PORT_FIRST + width * worker + drawn.randrange(width)
        if port in RECENT:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            RECENT.append(port)
            return port
    raise NodeFailed("no free loopback port found")


def free_ports(count: int, others: Iterable[int] = ()) -> list[int]:
    """So many free ports, no two of them the same and none of `others`."""
    taken = set(others)
    ports: list[int] = []
    while len(ports) < count:
        port = free_port()
        if port not in taken:
            taken.add(port)
            ports.append(port)
    return ports


class Node:
    """A broker to test against; use it as a context manager.

    `config` is the text of its TOML file and `settings` what `--set` is given at each
    start; `data_dir` outlives the node when it is given and goes with it when it is not.

    Invariant: `process` is None or a child that this object will end.
    """

    def __init__(
        self,
        name: str = "test",
        *,
        port: int | None = None,
        management_port: int | None = None,
        data_dir: Path | None = None,
        log_path: Path | None = None,
        config: str = "",
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        ready_seconds: float = 60.0,
    ) -> None:
        self.name = name
        self.host = "127.0.0.1"
        self.port = port or free_port()
        self.management_port = management_port or free_ports(1, [self.port])[0]
        self.ready_seconds = ready_seconds
        self.ready_line = ""
        self.process: subprocess.Popen[bytes] | None = None
        self.is_paused = False
        self._python = python
        self._config = config
        self.settings = dict(settings or {})
        self._environment = dict(environment or {})
        self._folder = Path(tempfile.mkdtemp(prefix="warren-node-"))
        self.data_dir = data_dir or self._folder / "data"
        self.log_path = log_path or self._folder / "node.log"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """AMQP URL of the default user and vhost."""
        return f"amqp://guest:guest@{self.host}:{self.port}/%2F"

    @property
    def management_url(self) -> str:
        """Root of the HTTP API."""
        return f"http://{self.host}:{self.management_port}"

    @property
    def pid(self) -> int:
        """Process id of the running node."""
        return self._running().pid

    @property
    def build(self) -> str:
        """`compiled` or `pure`, as the node said in its ready line."""
        return dict(word.split("=", 1) for word in self.ready_line.split()[1:]).get("build", "")

    def is_running(self) -> bool:
        """Whether there is a process and it has not ended."""
        return self.process is not None and self.process.poll() is None

    def rss_bytes(self) -> int:
        """Resident memory of the process."""
        import psutil

        return int(psutil.Process(self.pid).memory_info().rss)

    def log(self) -> str:
        """All that the node has written to stderr, over all its starts."""
        return self.log_path.read_text("utf-8", "replace") if self.log_path.exists() else ""

    def api(self, method: str, path: str, body: object = None, seconds: float = 30.0) -> Any:
        """One request to the HTTP API as guest; what it answers, decoded. OSError: no answer;
        NodeFailed: the answer is an error."""
        text = self._request(method, path, body, seconds)
        return json.loads(text) if text else None

    def metrics(self, path: str = "/metrics", seconds: float = 30.0) -> dict[str, float]:
        """All samples of the metrics, by name and labels as they stand there. Errors as `api`."""
        lines = self._request("GET", path, None, seconds).splitlines()
        samples = (line.rpartition(" ") for line in lines if line and line[0] != "#")
        return {name: float(value) for name, _, value in samples}

    def _request(self, method: str, path: str, body: object, seconds: float) -> str:
        from warren.testing.http_api import HttpApi

        api = HttpApi(self.management_url)
        status, content = api.page(method, path, body, seconds)
        text = content.decode("utf-8", "replace")
        if status >= 300:
            raise NodeFailed(f"{method} {path}: {status} {text}")
        return text

    def command(self) -> list[str]:
        """The command line of the node."""
        words = [self._python, "-P", "-m", "node", "server", "--name", self.name]
        words += ["--data", str(self.data_dir), "--listen", f"{self.host}:{self.port}"]
        words += ["--management", f"{self.host}:{self.management_port}"]
        if self._config:
            path = self._folder / "warren.toml"
            path.write_text(self._config, "utf-8")
            words += ["--config", str(path)]
        for key, value in self.settings.items():
            words += ["--set", f"{key}={value}"]
        return words

    def start(self) -> None:
        """Start the process and wait for its ready line; `NodeFailed` if none comes in time."""
        self.begin()
        self.await_ready()

    def begin(self) -> None:
        """Start the process and do not wait: `await_ready` does."""
        assert not self.is_running(), "the node runs already"
        self.is_paused = False
        self.ready_line = ""
        self.process = self.launch()

    def await_ready(self, seconds: float | None = None) -> None:
        """Wait for the ready line; `NodeFailed` if it does not come in time or is another one."""
        assert self.process is not None, "the node was not begun"
        limit = self.ready_seconds if seconds is None else seconds
        self.ready_line = self._wait_for_ready(self.process, limit)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start a process with this node's command and return it at once; the caller ends it."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        paths = [str(PACKAGES_DIR), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                env=environment | self._environment,
            )

    def kill9(self, wait: bool = True) -> None:
        """End the process at once, as a power cut of the program would; returns when it is gone."""
        process = self._running()
        process.send_signal(signal.SIGKILL)
        if wait:
            self.await_end()

    def stop(self, seconds: float = 30.0, wait: bool = True) -> None:
        """Ask the process to end (SIGTERM); `NodeFailed` unless it exits with 0 in time."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        if not wait:
            return
        code = self.await_end(seconds)
        if code != 0:
            raise NodeFailed(f"exit code {code} after SIGTERM\n{self._log_tail()}")

    def await_end(self, seconds: float = 30.0) -> int:
        """Wait until the process has ended; its exit code. `NodeFailed` if it goes on."""
        assert self.process is not None, "the node was not begun"
        return self._reap(self.process, seconds)

    def pause(self) -> None:
        """Halt the process (SIGSTOP): its sockets stay open and nothing answers."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)  # Until it has stopped.
        self.is_paused = True

    def resume(self) -> None:
        """Let a process that was paused go on."""
        self._running().send_signal(signal.SIGCONT)
        self.is_paused = False

    def wipe(self) -> None:
        """Remove the data directory of a node that does not run: a disk that was replaced."""
        assert not self.is_running(), "only the data of a node that does not run is removed"
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def restart(self) -> None:
        """Stop cleanly if it runs, then start on the same data and ports."""
        if self.is_running():
            self.stop()
        self.start()

    def close(self) -> None:
        """End the process if it still runs and remove the temporary folder."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.send_signal(signal.SIGCONT)  # One that is paused would not see the other.
            try:
                self._reap(self.process, 10.0)
            except NodeFailed:
                self.process.kill()
                self._reap(self.process, 10.0)
        self.process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None:
            raise NodeFailed(f"the node is not running\n{self._log_tail()}")
        return self.process

    def _reap(self, process: subprocess.Popen[bytes], seconds: float) -> int:
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired as late:
            raise NodeFailed(f"still running after {seconds} s\n{self._log_tail()}") from late
        if process.stdout is not None:
            process.stdout.close()
        return code

    def _wait_for_ready(self, process: subprocess.Popen[bytes], seconds: float) -> str:
        assert process.stdout is not None
        deadline = time.monotonic() + seconds
        received = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in received:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise NodeFailed(f"not ready in {seconds} s\n{self._log_tail()}")
                chunk = os.read(process.stdout.fileno(), 4096)
                if not chunk:
                    code = self._reap(process, 10.0)
                    raise NodeFailed(f"ended with code {code} at start\n{self._log_tail()}")
                received += chunk
        line = received.split(b"\n", 1)[0].decode("utf-8", "replace")
        if not line.startswith("ready "):
            raise NodeFailed(f"the first line was not the ready line: {line!r}")
        return line

    def _log_tail(self) -> str:
        return self.log()[-LOG_TAIL_CHARS:]
