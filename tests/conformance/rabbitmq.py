"""Real RabbitMQ nodes for tests: 3.10.8 and 4.0.5, each from a Debian system of its own.

`make rabbitmq3 rabbitmq4` gets the systems, and needs root. WARREN_RABBITMQ3_ROOT and
WARREN_RABBITMQ4_ROOT name them where they are elsewhere; `/` is the host's own RabbitMQ. Without
one its tests are skipped, except in CI without WARREN_NO_RABBITMQ=1. A node runs as root on free
ports of the loopback interface, in namespaces of its own, so that its mounts and processes end
with it.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from tests.conformance.programs import missing, tools_folder
from tests.waiting import eventually
from warren.testing import free_ports
from warren.testing.http_api import HttpApi

PROGRAM: Final = "usr/lib/rabbitmq/bin/rabbitmq-server"
INSIDE: Final = "/srv"  # where the node sees its folder
# $1: the root directory, $2: the folder of the node.
ENTER: Final = f"""mount -t proc proc "$1/proc" && mount --bind "$2" "$1{INSIDE}" \
  && exec chroot "$1" /{PROGRAM}"""
PLUGINS: Final = (
    "rabbitmq_management",
    "rabbitmq_federation",
    "rabbitmq_federation_management",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
)
START_S: Final = 90.0


@dataclass(frozen=True)
class Release:
    version: str
    major: int

    def root(self) -> Path:
        """The system that contains it; without one the test is skipped, or fails in CI."""
        variable = f"WARREN_RABBITMQ{self.major}_ROOT"
        found = Path(os.environ.get(variable) or tools_folder() / f"rabbitmq{self.major}")
        if os.environ.get("WARREN_NO_RABBITMQ") == "1":
            pytest.skip(f"RabbitMQ {self.version}: WARREN_NO_RABBITMQ=1 says that it is not there")
        if os.geteuid() != 0:
            missing(f"RabbitMQ {self.version} needs root")
        if not (found / PROGRAM).exists():
            how = f"`make rabbitmq{self.major}`, or set {variable}"
            missing(f"RabbitMQ {self.version} is not in {found}: {how}")
        return found


RABBITMQ_3: Final = Release("3.10.8", 3)
RABBITMQ_4: Final = Release("4.0.5", 4)
RELEASES: Final = (RABBITMQ_3, RABBITMQ_4)


class RabbitMq:
    """One node. Has what `federation_pair.Cluster` uses of a Warren node."""

    def __init__(self, release: Release, folder: Path, name: str) -> None:
        self._root = release.root()
        self.release = release
        self.host = "127.0.0.1"
        self.port, self._management_port, self._dist_port, self._epmd_port = free_ports(4)
        self._folder = folder
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.host}:{self.port}/%2F"

    @property
    def management_url(self) -> str:
        return f"http://{self.host}:{self._management_port}"

    def __enter__(self) -> Self:
        folder = self._folder
        (folder / "home").mkdir(parents=True)
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {self._management_port}\n"
            "management.rates_mode = none\ncollect_statistics_interval = 1000\n"
        )
        names = [*PLUGINS, *(["rabbitmq_amqp1_0"] if self.release.major == 3 else [])]
        (folder / "plugins").write_text(f"[{','.join(names)}].\n")
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        with (self._folder / "output").open("ab") as output:
            own = ("unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL")
            self._process = subprocess.Popen(
                [*own, "sh", "-c", ENTER, "sh", str(self._root), str(self._folder)],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        api = HttpApi(self.management_url)
        eventually(lambda: self._answers(api), self._output, seconds=START_S)

    def _answers(self, api: HttpApi) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._output()
        try:
            return api.ask("GET", "/overview")[0] == 200
        except OSError:
            return False

    def _output(self) -> str:
        return (self._folder / "output").read_text()[-2000:]

    def _environment(self) -> dict[str, str]:
        loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
        return os.environ | {
            "HOME": f"{INSIDE}/home",
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_CRASH_DUMP_SECONDS": "0",
            "RABBITMQ_NODENAME": f"{self._name}@localhost",
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_MNESIA_BASE": f"{INSIDE}/mnesia",
            "RABBITMQ_LOG_BASE": f"{INSIDE}/log",
            "RABBITMQ_CONFIG_FILE": f"{INSIDE}/rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{INSIDE}/plugins",
            "RABBITMQ_PID_FILE": f"{INSIDE}/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": loopback,
        }

    def stop(self) -> None:
        """Kill the node, with all processes that it has started."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait(30)
            self._process = None
