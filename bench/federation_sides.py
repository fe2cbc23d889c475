"""Two single nodes of one broker, for `bench.federation`: an upstream and a downstream."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import psutil

from bench.run import HERE, ROOT
from warren.testing import Node

RMQ_TAG: Final = "benchf"
RMQ_BASE_PORT: Final = 5760
SCRIPT_SECONDS: Final = 120
LOOK_SECONDS: Final = 0.5
# Unquoted atoms only: the expression passes through a shell.
RUNNING_LINKS: Final = (
    "length([1 || S <- rabbit_federation_status:status(),"
    " proplists:get_value(status, S) =:= running])."
)


class TooSlow(Exception):
    """Something did not happen within its bound; the text says what."""


class Side(Protocol):
    """One node."""

    broker: str
    port: int

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def pid(self) -> int: ...
    def put(self, component: str, name: str, value: Mapping[str, object]) -> None:
        """Set a runtime parameter of the vhost /."""

    def clear(self, component: str, name: str) -> None: ...
    def put_policy(self, name: str, apply_to: str, pattern: str, upstream: str) -> None: ...
    def clear_policy(self, name: str) -> None: ...
    def running_links(self) -> int: ...


def until(found: Callable[[], bool], seconds: float, what: str) -> None:
    """Ask until it is so. TooSlow: it is not in time."""
    deadline = time.monotonic() + seconds
    while not found():
        if time.monotonic() > deadline:
            raise TooSlow(f"not within {seconds:g} s: {what}")
        time.sleep(LOOK_SECONDS)  # Neither broker tells when its links run.


class WarrenSide:
    """A node of a given interpreter's environment."""

    def __init__(self, name: str, python: Path, folder: Path) -> None:
        self.broker = "warren"
        data = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
        self.node = Node(name, data_dir=data, python=str(python), environment={"PYTHONPATH": ""})
        self.port = self.node.port

    def start(self) -> None:
        self.node.start()

    def stop(self) -> None:
        self.node.close()

    def pid(self) -> int:
        return self.node.pid

    def put(self, component: str, name: str, value: Mapping[str, object]) -> None:
        self._api("PUT", f"parameters/{component}/%2F/{quote(name, safe='')}", {"value": value})

    def clear(self, component: str, name: str) -> None:
        self._api("DELETE", f"parameters/{component}/%2F/{quote(name, safe='')}")

    def put_policy(self, name: str, apply_to: str, pattern: str, upstream: str) -> None:
        definition = {"federation-upstream": upstream}
        body = {"pattern": pattern, "apply-to": apply_to, "definition": definition}
        self._api("PUT", f"policies/%2F/{name}", body)

    def clear_policy(self, name: str) -> None:
        self._api("DELETE", f"policies/%2F/{name}")

    def running_links(self) -> int:
        return sum(each["status"] == "running" for each in self._api("GET", "federation-links"))

    def _api(self, method: str, path: str, body: object = None) -> Any:
        return self.node.api(method, f"/api/{path}", body)


class RabbitSide:
    """A node by `rmq.sh`, out of the chroot that `RMQ_ROOT` names, else of `make rabbitmq4`."""

    def __init__(self, number: int) -> None:
        self.broker = "rabbitmq"
        self.port = RMQ_BASE_PORT + number
        self._number = number
        tools = os.environ.get("WARREN_TOOLS") or str(ROOT / ".tools")
        root = os.environ.get("RMQ_ROOT", str(Path(tools, "rabbitmq4")))
        self._environment = os.environ | {
            "RMQ_ROOT": "" if root == "/" else root,
            "RMQ_TAG": RMQ_TAG,
            "RMQ_BASE": str(RMQ_BASE_PORT),
            "RMQ_DATA": os.environ.get("RMQ_DATA", "/var/tmp/warren-bench-rmq"),
            "RMQ_PLUGINS": "rabbitmq_federation,rabbitmq_shovel",
        }

    def start(self) -> None:
        self._script("wipe")
        self._script("start")
        # Without a name RabbitMQ resolves the name of its host for each message of a link.
        self._script("ctl", "set_cluster_name", f"{RMQ_TAG}-{self._number}")

    def stop(self) -> None:
        try:
            os.kill(self.pid(), signal.SIGKILL)
        except (OSError, subprocess.CalledProcessError):
            return  # It did not start, or has ended.

    def pid(self) -> int:
        return int(self._script("pid"))

    def put(self, component: str, name: str, value: Mapping[str, object]) -> None:
        self._script("ctl", "set_parameter", component, name, json.dumps(value))

    def clear(self, component: str, name: str) -> None:
        self._script("ctl", "clear_parameter", component, name)

    def put_policy(self, name: str, apply_to: str, pattern: str, upstream: str) -> None:
        definition = json.dumps({"federation-upstream": upstream})
        self._script("ctl", "set_policy", "--apply-to", apply_to, name, pattern, definition)

    def clear_policy(self, name: str) -> None:
        self._script("ctl", "clear_policy", name)

    def running_links(self) -> int:
        return int(self._script("ctl", "eval", RUNNING_LINKS).split()[-1])

    def _script(self, command: str, *more: str) -> str:
        # Through a file: the shell that `start` leaves behind would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            subprocess.run(
                ["sh", str(HERE / "rmq.sh"), command, str(self._number), *more],
                env=self._environment,
                stdout=output,
                timeout=SCRIPT_SECONDS,
                check=True,
            )
            output.seek(0)
            return output.read()


def cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def rss_bytes(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)
