"""Clusters to measure: Warren's by `warren.testing`, RabbitMQ's by `rmq.sh`; both on loopback.

Nodes are numbered from 1. A cluster is started on empty data and runs until it is stopped; a node
of it may be killed and started again.
"""

import asyncio
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import psutil

from bench.run import HERE
from warren.client import ClientError, amqp091
from warren.testing import ClusterOfNodes

RMQ_TAG: Final = "benchc"
RMQ_BASE_PORT: Final = 5720
SCRIPT_SECONDS: Final = 180
# RabbitMQ 3.10 does not have the first function.
LIST_RUNNING: Final = (
    "code:ensure_loaded(rabbit_nodes), case erlang:function_exported(rabbit_nodes, list_running, 0)"
    " of true -> rabbit_nodes:list_running(); false -> rabbit_mnesia:cluster_nodes(running) end."
)
DECLARE_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 0.2
MIRRORED: Final = "mirrored"  # classic queues under MIRROR_POLICY
MIRROR_POLICY: Final = {"ha-mode": "all", "ha-sync-mode": "automatic"}

Answer = TypeVar("Answer")


class BrokerCluster(Protocol):
    """Several nodes of one broker."""

    name: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def ports(self) -> list[int]:
        """AMQP ports, in the order of the nodes."""

    def pids(self) -> list[int]: ...
    def kill9(self, number: int) -> None: ...
    def start_again(self, number: int) -> None: ...
    def pause(self, number: int) -> None: ...
    def resume(self, number: int) -> None: ...
    def mirror_all(self) -> None:
        """Have every classic queue mirrored on all nodes."""


class WarrenCluster:
    """Nodes of a given interpreter's environment."""

    def __init__(
        self, count: int, python: Path, folder: Path, sets: Sequence[str], proxied: bool = False
    ) -> None:
        self.name = "warren"
        self.build = ""
        self._cluster: ClusterOfNodes | None = None
        self._count = count
        self._python = python
        self._folder = folder
        self._settings = dict(each.split("=", 1) for each in sets)
        self._proxied = proxied

    @property
    def cluster(self) -> ClusterOfNodes:
        assert self._cluster is not None, "the cluster does not run"
        return self._cluster

    def start(self) -> None:
        data = Path(tempfile.mkdtemp(prefix="warren-", dir=self._folder))
        self._cluster = ClusterOfNodes(
            self._count,
            data_dir=data,
            settings=self._settings,
            environment={"PYTHONPATH": ""},  # What that environment has installed, not sources.
            python=str(self._python),
            proxied=self._proxied,
        )
        try:
            self._cluster.start()
        except BaseException:
            self._cluster.close()
            raise
        self.build = self._cluster.node(1).build

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def ports(self) -> list[int]:
        return [node.port for node in self.cluster.nodes]

    def pids(self) -> list[int]:
        return [node.pid for node in self.cluster.nodes if node.is_running()]

    def kill9(self, number: int) -> None:
        self.cluster.node(number).kill9()

    def start_again(self, number: int) -> None:
        self.cluster.node(number).start()

    def pause(self, number: int) -> None:
        self.cluster.node(number).pause()

    def resume(self, number: int) -> None:
        self.cluster.node(number).resume()

    def mirror_all(self) -> None:
        policy = {"pattern": "", "apply-to": "queues", "definition": MIRROR_POLICY}
        self.cluster.node(1).api("PUT", "/api/policies/%2F/mirrored", policy)


class RabbitCluster:
    """Nodes by `rmq.sh`, out of the chroot that `RMQ_ROOT` names, if any."""

    def __init__(self, count: int) -> None:
        self.name = "rabbitmq"
        self._count = count
        self._environment = os.environ | {
            "RMQ_TAG": RMQ_TAG,
            "RMQ_BASE": str(RMQ_BASE_PORT),
            "RMQ_DATA": os.environ.get("RMQ_DATA", "/var/tmp/warren-bench-rmq"),
        }

    def start(self) -> None:
        for number in self._numbers():
            self._script("wipe", number)
            self._script("start", number)
        for number in self._numbers()[1:]:
            self._script("join", number)
        self._await_members()

    def stop(self) -> None:
        """End all nodes: by SIGTERM, and those that wait for others by SIGKILL."""
        processes = [psutil.Process(pid) for pid in self.pids()]
        for process in processes:
            process.terminate()
        _, late = psutil.wait_procs(processes, timeout=30)
        for process in late:
            process.kill()
        psutil.wait_procs(late, timeout=10)

    def ports(self) -> list[int]:
        return [RMQ_BASE_PORT + number for number in self._numbers()]

    def pids(self) -> list[int]:
        found = [self._pid(number) for number in self._numbers()]
        return [pid for pid in found if pid]

    def kill9(self, number: int) -> None:
        pid = self._pid(number)
        os.kill(pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=10)

    def start_again(self, number: int) -> None:
        self._script("start", number)

    def pause(self, number: int) -> None:
        os.kill(self._pid(number), signal.SIGSTOP)

    def resume(self, number: int) -> None:
        os.kill(self._pid(number), signal.SIGCONT)

    def mirror_all(self) -> None:
        definition = json.dumps(MIRROR_POLICY)
        self._script("ctl", 1, "set_policy", "--apply-to", "queues", "mirrored", "^", definition)

    def _numbers(self) -> list[int]:
        return list(range(1, self._count + 1))

    def _pid(self, number: int) -> int:
        """Of the node's process; 0 if it does not run."""
        text = self._script("pid", number, check=False).strip()
        pid = int(text) if text.isdecimal() else 0
        return pid if pid and psutil.pid_exists(pid) else 0

    def _await_members(self) -> None:
        """Until every node has all others as running members."""
        deadline = time.monotonic() + SCRIPT_SECONDS
        wanted = {f"{RMQ_TAG}{number}@localhost" for number in self._numbers()}
        while time.monotonic() < deadline:
            told = self._script("ctl", 1, "eval", LIST_RUNNING, check=False)
            if all(name in told for name in wanted):
                return
            time.sleep(RETRY_SECONDS)  # Nothing tells when a cluster has formed.
        raise SystemExit("the RabbitMQ nodes did not form a cluster")

    def _script(self, command: str, number: int, *more: str, check: bool = True) -> str:
        # Through a file: the shell that `start` leaves behind would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            subprocess.run(
                ["sh", str(HERE / "rmq.sh"), command, str(number), *more],
                env=self._environment,
                stdout=output,
                stderr=None if check else subprocess.DEVNULL,
                timeout=SCRIPT_SECONDS,
                check=check,
            )
            output.seek(0)
            return output.read()


def declare(port: int, queues: Sequence[str], type_: str, members: int) -> None:
    """Fresh queues, declared at the node of that port: their leaders begin there.

    A cluster that has just lost a node may refuse for a while; it is asked again.
    """
    broker_type = "classic" if type_ == MIRRORED else type_
    arguments = {"x-queue-type": broker_type}
    if type_ != MIRRORED:  # RabbitMQ 3.10 refuses it for classic queues; they begin there anyway.
        arguments["x-queue-leader-locator"] = "client-local"
    if type_ == "quorum":
        arguments["x-quorum-initial-group-size"] = members  # type: ignore[assignment]

    async def ask(management: amqp091.Management) -> None:
        for queue in queues:
            await management.delete_queue(queue)
            await management.declare_queue(queue, arguments=dict(arguments))

    _run(_with_management(port, ask))


def delete(port: int, queues: Sequence[str]) -> None:
    async def ask(management: amqp091.Management) -> None:
        for queue in queues:
            await management.delete_queue(queue)

    _run(_with_management(port, ask))


async def _with_management(port: int, ask: Any) -> None:
    """Let `ask` have a channel for definitions, as often as it takes."""
    async with asyncio.timeout(DECLARE_SECONDS):
        while True:
            try:
                url = f"amqp://guest:guest@127.0.0.1:{port}/%2F"
                async with await amqp091.connect(url) as connection:
                    await ask(await connection.management())
                    return
            except (ClientError, OSError):
                await asyncio.sleep(RETRY_SECONDS)  # Nothing tells when it takes commands again.


def _run(work: Coroutine[Any, Any, Answer]) -> Answer:
    return asyncio.run(work)
