"""The AMQP port: takes connections, reads the protocol header, hands over to an endpoint."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final, cast

from node.amqp10.endpoint import Endpoint10
from node.endpoint091 import WRITE_HIGH_BYTES, Endpoint091
from warren.wire.amqp091.header import (
    HEADER_091,
    HEADER_10_SASL,
    HEADER_BYTES,
    Protocol,
    negotiate,
)

if TYPE_CHECKING:
    from node.broker import Broker

log = logging.getLogger("warren.listener")

BACKLOG: Final = 4096


class Greeting(asyncio.Protocol):
    """A connection that has not said its protocol yet."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._transport: asyncio.Transport | None = None
        self._begun = b""
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
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
            # Whoever speaks 1.0 must begin with SASL, and TLS has a port of its own (B-03).
            is_10 = protocol is Protocol.AMQP_10
            transport.write(HEADER_10_SASL if is_10 else HEADER_091)
            transport.close()

    def _hand_over(
        self,
        transport: asyncio.Transport,
        kind: type[Endpoint091] | type[Endpoint10],
        rest: bytes,
    ) -> None:
        peer = _address(transport, "peername")
        here = _address(transport, "sockname")
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        endpoint = kind(self._broker, transport, peer, here)
        self._broker.arrived(endpoint)
        transport.set_protocol(cast(asyncio.Protocol, endpoint))
        endpoint.start()
        if rest:
            endpoint.data_received(rest)

    def connection_lost(self, error: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


def _address(transport: asyncio.Transport, which: str) -> tuple[str, int]:
    name = transport.get_extra_info(which)
    return (name[0], name[1]) if isinstance(name, tuple) else ("unknown", 0)


async def listen(broker: "Broker", host: str, port: int) -> asyncio.Server:
    """Accept AMQP connections; OSError if the port cannot be had."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: Greeting(broker), host, port, backlog=BACKLOG)
