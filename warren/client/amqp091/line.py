"""One socket and its protocol core: bytes in, events to the connection, output once per turn.

Owns the transport and the timer of the core. Output waits in the transport while the socket is
full: publishers look at `is_full` before they add to it.
"""

import asyncio
import time
from typing import Final, Protocol, cast

from warren.wire.amqp091.client import CLOSED, ClientConnection
from warren.wire.amqp091.client_events import ClientEvent
from warren.wire.amqp091.events import Ended

TICK_S: Final = 0.4


class Handler(Protocol):
    """The connection."""

    def on_event(self, event: ClientEvent) -> None: ...

    def on_writable(self) -> None:
        """The socket takes more again."""

    def on_lost(self, error: Exception | None) -> None:
        """The last that is heard of this line."""


def now_ms() -> int:
    return int(time.monotonic() * 1000)


class Line(asyncio.Protocol):
    """Invariant: after `on_lost` the handler hears nothing."""

    def __init__(self, core: ClientConnection, handler: Handler) -> None:
        self.core = core
        self.is_full = False
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._marked = False
        self._over = False

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._handle(self.core.receive(data, now_ms()))

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._handler.on_writable()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._over:
            self._over = True
            self._handler.on_lost(error)

    # What the connection calls

    def mark(self) -> None:
        """There may be something to send: look at the end of this turn."""
        if not self._marked and not self._over:
            self._marked = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what there is now."""
        self._marked = False
        transport = self._transport
        if transport is None or self._over:
            return
        output = self.core.data_to_send()
        if output:
            transport.write(output)

    def pause_reading(self) -> None:
        """Take nothing more off the socket, until `resume_reading`."""
        self.core.pause_reading()
        if self._transport is not None and not self._over:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self.core.resume_reading(now_ms())
        if self._transport is not None and not self._over:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the socket now; nothing more is told."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _handle(self, events: list[ClientEvent]) -> None:
        ended = self.core.state == CLOSED
        for event in events:
            ended = ended or isinstance(event, Ended)
            self._handler.on_event(event)
        self.flush()
        if ended and self._transport is not None:
            self._transport.close()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._handle(self.core.tick(now_ms()))
