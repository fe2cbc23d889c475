"""A real RabbitMQ for tests, where Debian has it installed: `apt-get install rabbitmq-server`.

It runs as root from a directory of its own, on free ports of the loopback interface. Tests that
need it are skipped without the package.
"""

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.conformance.http_api import HttpApi
from tests.waiting import eventually
from warren.testing import free_ports

PROGRAM: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
PLUGINS: Final = (
    "rabbitmq_management",
    "rabbitmq_federation",
    "rabbitmq_federation_management",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
)
START_S: Final = 90.0


def is_installed() -> bool:
    return PROGRAM.exists() and os.geteuid() == 0


class RabbitMq:
    """One node. Has what `federation_pair.Cluster` uses of a Warren node."""

    def __init__(self, folder: Path, name: str) -> None:
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
        (folder / "plugins").write_text(f"[{','.join(PLUGINS)}].\n")
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
            self._process = subprocess.Popen(
                [str(PROGRAM)],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        api = HttpApi(self.management_url)
        eventually(lambda: self._answers(api), self._output, seconds=START_S)

    def _answers(self, api: HttpApi) -> bool:
        try:
            return api.ask("GET", "/overview")[0] == 200
        except OSError:
            return False

    def _output(self) -> str:
        return (self._folder / "output").read_text()[-2000:]

    def _environment(self) -> dict[str, str]:
        folder = self._folder
        loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
        return os.environ | {
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": f"{self._name}@localhost",
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": loopback,
        }

    def stop(self) -> None:
        """End the node, and the port mapper that it has started."""
        process = self._process
        if process is not None:
            for each in self._own_processes():
                os.kill(each, signal.SIGKILL)
            process.wait(30)
            subprocess.run(["epmd", "-kill"], env=self._environment(), check=False)
            self._process = None

    def _own_processes(self) -> list[int]:
        """Those with the directory of this node in their words."""
        done = subprocess.run(
            ["ps", "-eww", "-o", "pid=", "-o", "args="], capture_output=True, text=True, check=True
        )
        rows = (line.strip().partition(" ") for line in done.stdout.splitlines())
        return [
            int(pid) for pid, _, words in rows if str(self._folder) in words and "beam" in words
        ]
