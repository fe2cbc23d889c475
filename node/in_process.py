"""A broker on the running loop, for tests of asyncio applications.

    async with LoopBroker() as broker:
        connection = await aio_pika.connect(broker.url)
        broker.advance(3600)                              # messages with a TTL of an hour expire

It is a whole node: every protocol on free ports of the loopback, HTTP API, data in memory if the
system has a file system for that. It shares thread and loop with the test, so a client that blocks
the thread (pika's BlockingConnection) waits for ever: `warren.testing.Broker` has a process for it.
Signals, log handlers and the garbage collector stay as the test has them. Where a node would end
its process, for a fault of its own or of its disk, leaving the block raises `BrokerFailed`.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self
from urllib.parse import quote

from node.boot import Node, OwnProcess, run_node
from node.config.settings import load
from node.operations.sighup import SighupHandler
from warren.storage.disk import DirectoryLock
from warren.testing.broker import IN_MEMORY, SETTINGS
from warren.testing.node import free_ports

STOP_S = 30.0


class BrokerFailed(Exception):
    """The broker did not start, or did not go on."""


class SharedProcess(OwnProcess):
    """The process is the test's."""

    def __init__(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Node] = loop.create_future()
        self.failed: asyncio.Future[int] = loop.create_future()

    def started(self, node: Node, line: str) -> None:
        self.ready.set_result(node)

    def end(self, status: int) -> NoReturn:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._note, status)
        raise BrokerFailed(f"the broker ends with status {status}; the log says why")

    def _note(self, status: int) -> None:
        if not self.failed.done():
            self.failed.set_result(status)


class NoSighup(SighupHandler):
    """Nothing is read again: the signal is the test's."""

    def on_signal(self, call: object) -> None:
        """Never called."""


class LoopBroker:
    """A node that is empty at first; `settings` are those of a configuration file, by key.
    `data_dir`: where it keeps its data; it is not removed."""

    def __init__(
        self,
        name: str = "broker",
        *,
        data_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.host = "127.0.0.1"
        self.port, self.management_port = free_ports(2)
        self._settings = {**SETTINGS, **(settings or {})}
        self._given = data_dir

    @property
    def url(self) -> str:
        """AMQP URL of the default user and vhost."""
        return self.url_of("/")

    @property
    def management_url(self) -> str:
        """Root of the HTTP API."""
        return f"http://{self.host}:{self.management_port}"

    def url_of(self, vhost: str) -> str:
        """AMQP URL of that vhost, as `guest`."""
        return f"amqp://guest:guest@{self.host}:{self.port}/{quote(vhost, '')}"

    def advance(self, seconds: float) -> None:
        """Have TTL, delays and the expiry of queues act as if so much time had passed."""
        self._node.clock.advance(round(1000 * seconds))
        self._node.broker.timers.clock_advanced()

    async def __aenter__(self) -> Self:
        self._stopping = asyncio.Event()
        in_memory = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
        self._folder = Path(tempfile.mkdtemp(prefix="warren-broker-", dir=in_memory))
        try:
            await self._start()
        except BaseException:
            self._remove()
            raise
        return self

    async def _start(self) -> None:
        config = load(
            None,
            {
                "node.name": self.name,
                "node.data_dir": str(self._given or self._folder / "data"),
                "listeners.amqp": f"{self.host}:{self.port}",
                "listeners.management": f"{self.host}:{self.management_port}",
            },
            [f"{key}={value}" for key, value in self._settings.items()],
        )
        self._lock = DirectoryLock(str(config.node.data_dir))
        self._process = process = SharedProcess()
        sighup = NoSighup(asyncio.get_running_loop())
        self._running = asyncio.ensure_future(
            run_node(config, None, self._stopping, sighup, process)
        )
        waiting = (self._running, process.ready, process.failed)
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not process.ready.done():
                await self._end()
        if not process.ready.done():
            raise BrokerFailed("the broker did not start; the log says why")
        self._node = process.ready.result()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._end()
        finally:
            self._remove()

    async def _end(self) -> None:
        """Stop it. BrokerFailed: it had ended before, by a fault; or what ended its start."""
        self._stopping.set()
        running, failed = self._running, self._process.failed
        try:
            await asyncio.wait(
                (running, failed), timeout=STOP_S, return_when=asyncio.FIRST_COMPLETED
            )
            if failed.done():
                raise BrokerFailed(f"it ended with status {failed.result()}; the log says why")
            if not running.done():
                raise BrokerFailed(f"it did not stop within {STOP_S:g} s")
            running.result()
        finally:
            running.cancel()
            await asyncio.wait((running,))
            self._lock.release()

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
