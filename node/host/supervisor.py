"""Runs the nodes of a host as processes of its own and starts those again that end.

A node that fails before it was ever ready ends the host, with its exit status: the log of that
node says why. One that fails later is started again, after 1 to 16 s. One that ends with status 0,
by a signal to it, stays down. SIGTERM and SIGINT stop all nodes, SIGHUP goes to all of them, and
SIGUSR2 restarts them one at a time, each when the one before is ready again.
"""

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from node.host.plan import NodePlan
from node.service_manager import ALIVE, READY, STOPPING, is_watched, notify
from node.supervision import supervised

log = logging.getLogger("warren.node")

EXIT_FAILED: Final = 1
ALIVE_S: Final = 1.0
PR_SET_PDEATHSIG: Final = 1
FOR_THE_HOST: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class NodeEnded(Exception):
    """A node was ready and has ended by itself."""


class NodeProcess:
    """One node. Invariant: `is_ready` is set only while its process runs."""

    def __init__(
        self, plan: NodePlan, common: Sequence[str], failed: Callable[[int], None]
    ) -> None:
        self.name = plan.name
        self.is_ready = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._command = [sys.executable, "-P", "-m", "node", "server", *common]
        for key, value in plan.settings.items():
            self._command += ["--set", f"{key}={value}"]
        self._failed = failed
        self._process: asyncio.subprocess.Process | None = None
        self._was_ready = False
        self._is_stopping = False
        self._is_restarting = False

    def begin(self) -> None:
        self.task = asyncio.get_running_loop().create_task(supervised(self.name, self._keep))

    def signal(self, number: signal.Signals) -> None:
        """Send it, if the node runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def stop(self) -> None:
        """Ask the node to stop; `task` ends when it has."""
        self._is_stopping = True
        self.signal(signal.SIGTERM)
        if self._process is None and self.task is not None:
            self.task.cancel()  # It waits for the time of its next start.

    def restart(self) -> None:
        """Stop the node and start it at once. `is_ready` is cleared."""
        self.is_ready.clear()
        if self._process is not None:
            self._is_restarting = True
            self.signal(signal.SIGTERM)

    async def _keep(self) -> None:
        """Run the node until it stops. NodeEnded: it is to be started again."""
        while not self._is_stopping:
            status = await self._run()
            if self._is_restarting:
                self._is_restarting = False
            elif self._is_stopping or status == 0:
                if not self._is_stopping:
                    log.warning("node %s was stopped; the host does not start it again", self.name)
                return
            elif not self._was_ready:
                self._failed(status)
                return
            else:
                raise NodeEnded(f"node {self.name} ended with {_words(status)}")

    async def _run(self) -> int:
        """Start the process and wait for its end; return the status, negative for a signal."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=_environment(os.environ),
            start_new_session=True,  # Ctrl-C goes to the host alone.
            preexec_fn=_end_with_parent,
        )
        self._process = process
        if self._is_stopping:
            process.terminate()
        try:
            assert process.stdout is not None
            while line := await process.stdout.readline():
                print(line.decode(errors="replace"), end="", flush=True)
                if line.startswith(b"ready "):
                    self._was_ready = True
                    self.is_ready.set()
            return await process.wait()
        finally:
            self.is_ready.clear()
            self._process = None


class Host:
    """The nodes of this machine; `run` returns the exit status."""

    def __init__(self, plans: Sequence[NodePlan], common: Sequence[str]) -> None:
        self._status = 0
        self._stopping = asyncio.Event()
        self._nodes = [NodeProcess(plan, common, self._failed) for plan in plans]
        self._rolling: asyncio.Task[None] | None = None

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        loop.add_signal_handler(signal.SIGUSR2, self._restart_all)
        for node in self._nodes:
            node.begin()
        ready = loop.create_task(self._report_ready())
        alive = loop.create_task(supervised("reports to the service manager", _report_alive))
        everything = asyncio.gather(*self._tasks())
        stopping = loop.create_task(self._stopping.wait())
        await asyncio.wait((everything, stopping), return_when=asyncio.FIRST_COMPLETED)
        notify(STOPPING)
        for task in (ready, alive, stopping, self._rolling):
            if task is not None:
                task.cancel()
        for node in self._nodes:
            node.stop()
        await asyncio.gather(*self._tasks(), return_exceptions=True)
        return self._status

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [node.task for node in self._nodes if node.task is not None]

    def _failed(self, status: int) -> None:
        """A node did not become ready at the first start."""
        self._status = status if status > 0 else EXIT_FAILED
        self._stopping.set()

    def _reload(self) -> None:
        for node in self._nodes:
            node.signal(signal.SIGHUP)

    def _restart_all(self) -> None:
        if self._rolling is None or self._rolling.done():
            self._rolling = asyncio.get_running_loop().create_task(self._restart_in_turn())

    async def _restart_in_turn(self) -> None:
        for node in self._nodes:
            if node.task is not None and not node.task.done():
                log.info("restarting node %s", node.name)
                node.restart()
                await node.is_ready.wait()
        log.info("all nodes were restarted")

    async def _report_ready(self) -> None:
        for node in self._nodes:
            await node.is_ready.wait()
        log.info("all %d nodes of this host are ready", len(self._nodes))
        notify(READY)


async def _report_alive() -> None:
    while is_watched():
        notify(ALIVE)
        await asyncio.sleep(ALIVE_S)


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a node gets: the host reports to the service manager, not its nodes."""
    return {name: value for name, value in environment.items() if name not in FOR_THE_HOST}


def _end_with_parent() -> None:
    """The kernel stops the node when the host is killed: nothing would start it again."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _words(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"
