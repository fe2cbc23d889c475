"""The ports for clients: take connections, read AMQP's protocol header, hand over to an endpoint.

Behind TLS, or behind a proxy that says who the client is, `node.tls.acceptor` has done its part by
then; what it has found out goes to the endpoint.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final, cast

from node.amqp091.endpoint import WRITE_HIGH_BYTES, Endpoint091
from node.amqp10.endpoint import Endpoint10
from warren.wire.amqp091.header import (
    HEADER_091,
    HEADER_10_SASL,
    HEADER_BYTES,
    Protocol,
    negotiate,
)

if TYPE_CHECKING:
    from node.broker import Broker
    from node.connections.amqp_listeners import Entry
    from node.streams.endpoint import StreamEndpoint
    from node.tls.acceptor import Acceptor
    from node.tls.certificate import LoginName, TlsPeer
    from node.tls.proxy_protocol import Forwarded

log = logging.getLogger("warren.listener")

BACKLOG: Final = 4096


class Greeting(asyncio.Protocol):
    """A connection that has not said its protocol yet."""

    def __init__(
        self,
        broker: "Broker",
        forwarded: "Forwarded | None" = None,
        login: "LoginName | None" = None,
        is_internal: bool = False,
        is_web: bool = False,
        is_stream: bool = False,
    ) -> None:
        """`forwarded`: as a proxy says it; `login`: with TLS, what names the user.

        `is_internal`: the node itself connects, over AMQP 0-9-1, and needs no login.
        `is_web`: over WebSocket. `is_stream`: clients speak the stream protocol, which has no
        header."""
        self._broker = broker
        self._forwarded = forwarded
        self._login = login
        self._is_internal = is_internal
        self._is_web = is_web
        self._is_stream = is_stream
        self._transport: asyncio.Transport | None = None
        self._begun = b""
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._broker.descriptors.is_short(self._transport):
            self._transport.abort()
            return
        if self._is_stream:
            from node.streams.endpoint import StreamEndpoint

            self._hand_over(self._transport, StreamEndpoint, b"")
            return
        loop = asyncio.get_running_loop()
        seconds = self._broker.config.limits.handshake_timeout_ms / 1000
        self._deadline = loop.call_later(seconds, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        assert transport is not None
        self._begun += data
        protocol = negotiate(self._begun)
        if protocol is Protocol.UNDECIDED:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        if protocol is Protocol.AMQP_091:
            self._hand_over(transport, Endpoint091, self._begun[HEADER_BYTES:])
        elif protocol is Protocol.AMQP_10_SASL:
            self._hand_over(transport, Endpoint10, self._begun)
        else:
            # A client of 1.0 must begin with SASL, and TLS has a port of its own.
            is_10 = protocol is Protocol.AMQP_10
            transport.write(HEADER_10_SASL if is_10 else HEADER_091)
            self._broker.connections.half_closed.begin(transport, 0)

    def _hand_over(
        self,
        transport: asyncio.Transport,
        kind: "type[Endpoint091] | type[Endpoint10] | type[StreamEndpoint]",
        rest: bytes,
    ) -> None:
        forwarded = self._forwarded
        peer = _address(transport, "peername") if forwarded is None else forwarded.source
        here = _address(transport, "sockname") if forwarded is None else forwarded.destination
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        endpoint = kind(self._broker, transport, peer, here, self._tls(transport), self._is_web)
        if self._is_internal and isinstance(endpoint, Endpoint091):
            endpoint.is_internal = True
        self._broker.connections.arrived(endpoint)
        transport.set_protocol(cast(asyncio.Protocol, endpoint))
        endpoint.start()
        if rest:
            endpoint.data_received(rest)

    def _tls(self, transport: asyncio.Transport) -> "TlsPeer | None":
        """What TLS says of the client; None: it came without."""
        if self._login is None:
            return None
        from node.tls.certificate import tls_peer

        cipher, shown = transport.get_extra_info("cipher"), transport.get_extra_info("peercert")
        return tls_peer(cipher, shown, self._login)

    def connection_lost(self, error: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


def _address(transport: asyncio.Transport, which: str) -> tuple[str, int]:
    name = transport.get_extra_info(which)
    return (name[0], name[1]) if isinstance(name, tuple) else ("unknown", 0)


async def listen(broker: "Broker", entry: "Entry") -> asyncio.Server:
    """Accept AMQP connections; OSError if the port cannot be had."""
    return await asyncio.get_running_loop().create_server(
        lambda: Greeting(broker, is_stream=entry.is_stream),
        entry.host,
        entry.port,
        backlog=BACKLOG,
        reuse_port=entry.reuse_port or None,
    )


def listen_behind(broker: "Broker", entry: "Entry") -> "Acceptor":
    """The same where TLS or a PROXY header comes first."""
    from node.tls.acceptor import Acceptor, bound_socket

    def greeting(forwarded: "Forwarded | None") -> asyncio.BaseProtocol:
        return Greeting(broker, forwarded, entry.login, is_stream=entry.is_stream)

    bound = bound_socket(entry.host, entry.port, BACKLOG, entry.reuse_port)
    is_short = broker.descriptors.is_short_in_handshake
    acceptor = Acceptor(bound, greeting, entry.tls, entry.proxies, entry.handshake_s, is_short)
    acceptor.start()
    return acceptor
