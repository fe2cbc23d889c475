"""Sockets of connections that are over, until their clients have closed them.

A socket that is closed while its client still sends answers with a reset, and the client may lose
what it has not read yet: the close-ok, or the reason why its connection was closed. So the node
only ends its own side (TLS has no half-close: there it waits without), reads and drops what comes,
and closes once the client has. It waits for the heartbeat of the connection or WAIT_S, whichever is
shorter, as RabbitMQ does; at more than PARTINGS_MAX sockets the oldest one is cut.
"""

import asyncio
from typing import Final, cast, final

from node.connections.socket_reading import Transport

WAIT_S: Final = 30.0
PARTINGS_MAX: Final = 1024


@final
class Parting(asyncio.Protocol):
    """One such socket."""

    def __init__(self, partings: "Partings", transport: Transport, wait_s: float) -> None:
        self._partings = partings
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(wait_s, transport.abort)

    def data_received(self, data: bytes) -> None:
        """The client sent this before it knew of the end: drop it."""

    def eof_received(self) -> bool:
        """The client has closed its side; the transport closes."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._deadline.cancel()
        self._partings.gone(self)

    def abort(self) -> None:
        self._transport.abort()


@final
class Partings:
    """All such sockets of a node."""

    def __init__(self, count_max: int = PARTINGS_MAX) -> None:
        self._count_max = count_max
        self._waiting: dict[Parting, None] = {}  # the oldest first

    def begin(self, transport: Transport, heartbeat_s: float) -> None:
        """All that the client is to be sent has been written; the socket belongs to this from now
        on. `heartbeat_s`: 0 for none."""
        if transport.is_closing():
            return
        if len(self._waiting) >= self._count_max:
            next(iter(self._waiting)).abort()
        parting = Parting(self, transport, min(heartbeat_s or WAIT_S, WAIT_S))
        self._waiting[parting] = None
        transport.set_protocol(cast(asyncio.BaseProtocol, parting))
        if transport.can_write_eof():
            transport.write_eof()
        transport.resume_reading()

    def gone(self, parting: Parting) -> None:
        self._waiting.pop(parting, None)

    def abort_all(self) -> None:
        """The node stops."""
        for parting in list(self._waiting):
            parting.abort()
