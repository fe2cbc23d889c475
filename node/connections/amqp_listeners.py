"""The listeners for clients (AMQP, streams), which can be shut and opened again, for maintenance.

    door = AmqpListeners(broker, entries_of(config, keepers))
    await door.open()             # OSError: a port cannot be had; then none is open
    door.close()                  # no new clients; those that are in stay

Opened again, an entry has the port that it had at first, also where the system chose that.
"""

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from node.connections.bind_errors import taking
from node.connections.listener import listen, listen_behind

if TYPE_CHECKING:
    from node.broker import Broker
    from node.config.settings import Config
    from node.tls.acceptor import Acceptor
    from node.tls.certificate import LoginName
    from node.tls.keeper import TlsKeeper
    from node.tls.proxy_protocol import TrustedProxies

AMQP: Final = "amqp"
AMQP_TLS: Final = "amqp/ssl"  # RabbitMQ's word
STREAM: Final = "stream"
STREAM_TLS: Final = "stream/ssl"
# What the line `ready` calls them.
SHORT_NAMES: Final = {AMQP: "amqp", AMQP_TLS: "amqps", STREAM: "stream", STREAM_TLS: "stream_tls"}


class Entry(Struct):
    """One address for clients."""

    protocol: str
    host: str
    port: int
    tls: "TlsKeeper | None" = None
    login: "LoginName | None" = None  # what of a certificate names the user
    proxies: "TrustedProxies | None" = None
    handshake_s: float = 5.0
    reuse_port: bool = False  # other processes listen there as well

    @property
    def is_stream(self) -> bool:
        return self.protocol in (STREAM, STREAM_TLS)


class AmqpListeners:
    """See the module."""

    def __init__(self, broker: "Broker", entries: Sequence[Entry]) -> None:
        self._broker = broker
        self._servers: list[asyncio.Server | Acceptor] = []
        self.entries = tuple(entries)

    @property
    def is_open(self) -> bool:
        return bool(self._servers)

    async def open(self) -> None:
        """Take clients; nothing changes if it is open."""
        if self._servers:
            return
        try:
            for entry in self.entries:
                server = await self._opened(entry)
                self._servers.append(server)
                entry.port = int(server.sockets[0].getsockname()[1])
        except OSError:
            self.close()
            raise

    async def _opened(self, entry: Entry) -> "asyncio.Server | Acceptor":
        if entry.is_stream:  # The first client does not wait for the import.
            importlib.import_module("node.streams.endpoint")
        with taking(entry.protocol, entry.host, entry.port):
            if entry.tls is None and entry.proxies is None:
                return await listen(self._broker, entry)
            return listen_behind(self._broker, entry)

    def close(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()


def entries_of(config: "Config", keepers: "Mapping[str, TlsKeeper]") -> list[Entry]:
    """Where the configuration lets AMQP clients in."""
    entries = _shared_entries(config, keepers)
    for entry in entries:
        entry.reuse_port = config.listeners.reuse_port
    direct = config.listeners.direct
    if direct is not None:
        entries.append(Entry(AMQP, direct.host, direct.port))
    return entries + _stream_entries(config, keepers)


def _stream_entries(config: "Config", keepers: "Mapping[str, TlsKeeper]") -> list[Entry]:
    listeners = config.listeners
    entries: list[Entry] = []
    if listeners.stream is not None:
        entries.append(Entry(STREAM, listeners.stream.host, listeners.stream.port))
    if listeners.stream_tls is not None:
        from node.tls.tls_listeners import STREAM_TLS as KEY
        from node.tls.tls_listeners import login_name_of

        place, login = listeners.stream_tls, login_name_of(config)
        handshake_s = config.tls.handshake_timeout_ms / 1000
        entry = Entry(STREAM_TLS, place.host, place.port, keepers[KEY], login, None, handshake_s)
        entries.append(entry)
    return entries


def _shared_entries(config: "Config", keepers: "Mapping[str, TlsKeeper]") -> list[Entry]:
    listeners = config.listeners
    if listeners.amqps is None and not listeners.proxy_protocol:
        return [Entry(AMQP, listeners.amqp.host, listeners.amqp.port)]
    from node.tls.tls_listeners import AMQPS, login_name_of, proxies_before

    entries: list[Entry] = []
    handshake_s = config.tls.handshake_timeout_ms / 1000
    if listeners.plain:
        place = listeners.amqp
        proxies = proxies_before(config, "amqp")
        entry = Entry(AMQP, place.host, place.port, proxies=proxies, handshake_s=handshake_s)
        entries.append(entry)
    if listeners.amqps is not None:
        place = listeners.amqps
        tls, login, proxies = keepers[AMQPS], login_name_of(config), proxies_before(config, "amqps")
        entry = Entry(AMQP_TLS, place.host, place.port, tls, login, proxies, handshake_s)
        entries.append(entry)
    return entries
