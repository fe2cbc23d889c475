"""Puts the management listener before the broker.

The ports, plain and over TLS, are bound at once, so that `ready` can name them. aiohttp takes 14 MB
and longer to import than the rest of the node to start: it is imported in a thread, by a node that
may have a cluster at once and by others when the first client connects, and takes the ports over
when it is there.
"""

import asyncio
import gc
import importlib
import logging
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from node.connections.bind_errors import taking
from node.supervision import supervised
from node.tls.acceptor import bound_socket

if TYPE_CHECKING:
    from node.broker import Broker
    from node.connections.amqp_listeners import AmqpListeners
    from node.federating.link_service import LinkService
    from node.management.access import Context
    from node.management.api_sources import ApiSources
    from node.management.rows.view import ListenerView
    from node.tls.keeper import TlsKeeper

log = logging.getLogger("warren.management")

BACKLOG: Final = 128
HTTP: Final = "http"
HTTPS: Final = "https"
METRICS: Final = "http/prometheus"  # RabbitMQ's word
WEB_AMQP: Final = "http/web-amqp"


class Place(Struct, frozen=True):
    """One bound port."""

    protocol: str
    host: str
    bound: socket.socket
    tls: "TlsKeeper | None"

    @property
    def port(self) -> int:
        return int(self.bound.getsockname()[1])


class ManagementFront:
    """The management listeners in the making, and then running."""

    def __init__(
        self,
        broker: "Broker",
        keepers: "Mapping[str, TlsKeeper]",
        listeners: "AmqpListeners",
        links: "LinkService",
        stop: Callable[[], None],
        fail: Callable[[str], None],
    ) -> None:
        """`stop` begins an orderly stop of the node, `fail` one with an exit code that says so."""
        self._broker = broker
        self._stop = stop
        self._fail = fail
        self._amqp = listeners
        self._links = links
        self._keepers = keepers
        self._places: list[Place] = []
        self._apart: dict[str, socket.socket] = {}  # ports of one application, by their protocol
        self._task: asyncio.Task[None] | None = None
        self._sources: ApiSources | None = None
        self._servers: list[Any] = []

    def bind_apart(self) -> None:
        """Take the ports for metrics alone and for AMQP over WebSocket alone, if set."""
        listeners = self._broker.config.listeners
        web_amqp = listeners.web_amqp if listeners.plain else None
        for protocol, place in ((METRICS, listeners.metrics), (WEB_AMQP, web_amqp)):
            if place is not None:
                with taking(protocol, place.host, place.port):
                    self._apart[protocol] = bound_socket(place.host, place.port, BACKLOG)

    def bind(self) -> str:
        """Take the ports; clients that connect wait in their backlogs. OSError if one is taken.

        Gives what `ready` tells of them.
        """
        listeners = self._broker.config.listeners
        if listeners.plain:
            place = listeners.management
            self._bind(HTTP, place.host, place.port, None)
        if listeners.management_tls is not None:
            from node.tls.tls_listeners import MANAGEMENT_TLS

            place = listeners.management_tls
            self._bind(HTTPS, place.host, place.port, self._keepers[MANAGEMENT_TLS])
        words = {HTTP: "management", HTTPS: "management_tls"}
        return "".join(f" {words[each.protocol]}={each.host}:{each.port}" for each in self._places)

    def _bind(self, protocol: str, host: str, port: int, tls: "TlsKeeper | None") -> None:
        with taking(protocol, host, port):
            self._places.append(Place(protocol, host, bound_socket(host, port, BACKLOG), tls))

    def start(self, build: str) -> None:
        """Serve the ports as soon as the library is there, and other nodes."""
        self._task = asyncio.get_running_loop().create_task(self._serve_or_fail(build))

    async def _serve_or_fail(self, build: str) -> None:
        try:
            await asyncio.to_thread(importlib.import_module, "node.management.api_sources")
            from node.management.api_sources import ApiSources

            self._sources = sources = ApiSources(
                self._broker, self._amqp, self._listeners(), build, self._stop
            )
            await supervised("start of the management API", self._load)
            await self._take_ports(self._make_context(sources))
            if self._loads_at_once:
                gc.freeze()  # What came with the library stays; a full collection takes 20 ms less.
        except Exception:
            log.critical("the management ports cannot be served, the node stops", exc_info=True)
            self._fail("no management")

    @property
    def _loads_at_once(self) -> bool:
        """A node that other nodes may ask: the resources of the API answer them."""
        return self._broker.config.listeners.cluster is not None

    async def _load(self) -> None:
        """Import the HTTP library in a thread, at once or when the first client connects."""
        if not self._loads_at_once:
            await self._first_client()
        await asyncio.to_thread(importlib.import_module, "node.management.server")

    async def _first_client(self) -> None:
        loop = asyncio.get_running_loop()
        connected = asyncio.Event()
        ports = [*(each.bound for each in self._places), *self._apart.values()]
        for port in ports:
            loop.add_reader(port.fileno(), connected.set)
        try:
            await connected.wait()
        finally:
            for port in ports:
                loop.remove_reader(port.fileno())

    def _make_context(self, sources: "ApiSources") -> "Context":
        from node.connections.web_amqp import WebAmqp
        from node.management.access import Context

        broker = self._broker
        return Context(
            sources.view,
            broker.access,
            broker.logins,
            sources.operations,
            broker.config.management.metrics_need_login,
            sources.cluster,
            sources.feed,
            broker.observers.audit,
            sources.rates,
            meter=sources.meter,
            controls=sources.controls,
            config=broker.config,
            links=self._links,
            leases=broker.leases,
            keepers=self._keepers,
            web_amqp=WebAmqp(broker, self._amqp),
        )

    async def _take_ports(self, context: "Context") -> None:
        """Serve each port with its application."""
        from node.management.server import (
            ManagementServer,
            make_app,
            make_metrics_app,
            make_web_amqp_app,
        )

        broker = self._broker
        is_short = broker.descriptors.is_short_for_operator
        server = ManagementServer(context, make_app, is_short)
        self._servers.append(server)
        handshake_s = broker.config.tls.handshake_timeout_ms / 1000
        is_short_before = broker.descriptors.is_short_in_operators_handshake
        for each in self._places:
            await server.serve(each.bound, each.tls, handshake_s, is_short_before)
        makers = {METRICS: make_metrics_app, WEB_AMQP: make_web_amqp_app}
        for protocol, bound in self._apart.items():
            apart = ManagementServer(context, makers[protocol], is_short)
            self._servers.append(apart)
            await apart.serve(bound)

    def _listeners(self) -> "tuple[ListenerView, ...]":
        """All ports of the node, as listings show them."""
        from node.management.rows.view import ListenerView

        broker = self._broker
        places = [(each.protocol, each.host, each.port) for each in self._amqp.entries]
        places += [(each.protocol, each.host, each.port) for each in self._places]
        peers = broker.config.listeners.cluster
        if peers is not None:
            places.append(("clustering", peers.host, peers.port))
        for protocol, bound in self._apart.items():
            at = bound.getsockname()
            places.append((protocol, str(at[0]), int(at[1])))
        return tuple(
            ListenerView(protocol=protocol, host=host, port=port) for protocol, host, port in places
        )

    async def stop(self) -> None:
        """Close the listeners and their connections."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for server in self._servers:
            await server.stop()
        if self._sources is not None:
            await self._sources.close()
        for each in self._places:
            each.bound.close()
        for bound in self._apart.values():
            bound.close()
