"""Puts the management listener before the broker.

The port is bound at once, so that `ready` can name it; aiohttp, which takes longer to import than
the rest of the node to start, is imported in a thread and takes the port over when it is there.
"""

import asyncio
import gc
import importlib
import os
import signal
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from node.broker import Broker
    from node.event_feed import EventFeed
    from node.management.view import ListenerView

BACKLOG: Final = 128


class ManagementFront:
    """The management listener in the making, and then running."""

    def __init__(self, broker: "Broker", amqp_port: int) -> None:
        self._broker = broker
        self._amqp_port = amqp_port
        self._socket: socket.socket | None = None
        self._metrics_socket: socket.socket | None = None
        self._metrics: Any = None
        self._task: asyncio.Task[None] | None = None
        self._server: Any = None

    def bind(self, host: str, port: int) -> int:
        """Take the port; clients that connect wait in its backlog. OSError if it is taken."""
        self._socket = bound_socket(host, port)
        return int(self._socket.getsockname()[1])

    def bind_metrics(self, host: str, port: int) -> int:
        """Take the port for metrics alone, in the same way."""
        self._metrics_socket = bound_socket(host, port)
        return int(self._metrics_socket.getsockname()[1])

    def start(self, host: str, build: str) -> None:
        """Serve the port as soon as the library is there."""
        self._task = asyncio.get_running_loop().create_task(self._serve(host, build))

    async def _serve(self, host: str, build: str) -> None:
        bound = self._socket
        assert bound is not None
        await asyncio.to_thread(importlib.import_module, "node.management.server")
        from node import __main__ as program
        from node.broker_view import LiveView
        from node.cluster.operating import Operating
        from node.live_controls import LiveControls
        from node.live_meter import LiveMeter
        from node.management.access import Context
        from node.management.cluster_desk import ClusterDesk
        from node.management.sampling import Rates
        from node.management.server import ManagementServer, make_metrics_app
        from node.operations import LiveOperations
        from node.tallies import LiveTallies
        from warren.storage.disk import OsDisk

        broker = self._broker
        view = LiveView(broker, tuple(self._listeners(host)), build, program.installed_version())
        section = broker.config.management
        rates = Rates(LiveTallies(broker, view), broker.now_ms, section.rates_interval_ms)
        operations = LiveOperations(broker)
        operating = broker.operating or Operating.alone(
            broker, broker.lone_groups.get, asyncio.get_running_loop().call_later
        )
        broker.operating = operating
        if broker.door is not None:
            operating.open_to(broker.door)
        directory = str(broker.config.node.data_dir)
        operating.stop_by(partial(os.kill, os.getpid(), signal.SIGTERM), OsDisk(), directory)
        context = Context(
            view,
            broker.access,
            broker.logins,
            operations,
            section.metrics_need_login,
            ClusterDesk(view, operating, operations.close_connections, rates),
            self._make_feed(),
            broker.observers.audit,
            rates,
            meter=LiveMeter(broker),
            controls=LiveControls(broker),
        )
        self._server = ManagementServer(context)
        await self._server.serve(bound)
        if self._metrics_socket is not None:
            self._metrics = ManagementServer(context, make_metrics_app)
            await self._metrics.serve(self._metrics_socket)
        gc.freeze()  # What came with the library stays; a full collection takes 20 ms less.

    def _make_feed(self) -> "EventFeed":
        from node.event_feed import EventFeed

        broker, loop = self._broker, asyncio.get_running_loop()
        return EventFeed(
            broker.events, broker.events_elsewhere, broker.incarnation, loop.call_later
        )

    def _listeners(self, host: str) -> "Iterator[ListenerView]":
        """All ports, for listings."""
        from node.management.view import ListenerView

        listeners = self._broker.config.listeners
        yield ListenerView(protocol="amqp", host=listeners.amqp.host, port=self._amqp_port)
        if self._socket is not None:
            yield ListenerView(protocol="http", host=host, port=self._socket.getsockname()[1])
        peers = listeners.cluster
        if peers is not None:
            yield ListenerView(protocol="clustering", host=peers.host, port=peers.port)
        if self._metrics_socket is not None:
            at = self._metrics_socket.getsockname()
            yield ListenerView(protocol="http/prometheus", host=str(at[0]), port=at[1])

    async def stop(self) -> None:
        """Close the listener and its connections."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for server in (self._server, self._metrics):
            if server is not None:
                await server.stop()
        for bound in (self._socket, self._metrics_socket):
            if bound is not None:
                bound.close()


def bound_socket(host: str, port: int) -> socket.socket:
    """That listens, and is served later."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound
