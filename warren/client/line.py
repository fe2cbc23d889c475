"""One socket and its protocol core: bytes in, events to the connection, output once per turn.

Owns the transport and the timer of the core. Output waits while the socket is full.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Final, Protocol, cast

from warren.wire.amqp10.connection import Connection as Core
from warren.wire.amqp10.events import Ended, Event
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.sender import Run

if TYPE_CHECKING:
    from warren.client.links import LinkHandle

TICK_S: Final = 0.4
WRITE_BYTES: Final = 256 * 1024  # of messages, before the socket is asked whether it is full


class Handler(Protocol):
    """The connection."""

    def on_event(self, event: Event) -> None: ...

    def on_lost(self, error: Exception | None) -> None:
        """The last that is heard of this line."""


def now_ms() -> int:
    return int(time.monotonic() * 1000)


class Line(asyncio.Protocol):
    """Invariant: after `on_lost` the handler hears nothing."""

    def __init__(self, core: Core, handler: Handler) -> None:
        self.core = core
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._marked = False
        self._full = False
        self._over = False

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._handle(self.core.receive(data, now_ms()))

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self.mark()

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
            self._loop.call_soon(self._flush)

    def abort(self) -> None:
        """Close the socket now; nothing more is told."""
        self._over = True
        if self._transport is not None:
            self._transport.abort()

    # The core

    def _handle(self, events: list[Event]) -> None:
        """Tell the events, and what waited behind a decision of ours."""
        ended = False
        while events:
            for event in events:
                ended = ended or isinstance(event, Ended)
                self._handler.on_event(event)
            events = self.core.receive(b"", now_ms())
        self._flush()
        if ended and self._transport is not None:
            self._transport.close()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._handle(self.core.tick(now_ms()))

    def _flush(self) -> None:
        self._marked = False
        transport = self._transport
        if transport is None or self._over:
            return
        self._write(transport)
        for session in list(self.core.sessions.values()):
            while session.has_work() and not self._full:
                session.write(self, WRITE_BYTES)
                self._write(transport)

    def _write(self, transport: asyncio.Transport) -> None:
        output = self.core.data_to_send()
        if output:
            transport.write(output)

    # Sending (`warren.wire.amqp10.departures.Bodies`)

    def fetch(self, link: Link, run: Run) -> bool:
        """Never asked: the bytes are in the run from the beginning."""
        raise AssertionError("a run without its bytes")

    def sent(self, link: Link, run: Run, delivery_id: int, count: int) -> None:
        handle = cast("LinkHandle", link.owner)
        handle.user.on_sent(int(delivery_id), int(count))
