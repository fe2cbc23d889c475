"""One socket and its protocol core: bytes in, events to the connection, output once per turn.

Publishers look at `is_full` of the socket before they add to what waits for it.
"""

from typing import Protocol

from warren.client.sockets import STEADY_TICK_S, TICK_S, Socket, now_ms
from warren.wire.amqp091.client import CLOSED, RUNNING, ClientConnection
from warren.wire.amqp091.client_events import ClientEvent
from warren.wire.amqp091.events import Ended


class Handler(Protocol):
    """The connection."""

    def on_event(self, event: ClientEvent) -> None: ...

    def on_writable(self) -> None:
        """The socket takes more again."""

    def on_lost(self, error: Exception | None) -> None:
        """The last that is heard of this line."""


class Line:
    """Keeps `SocketUser`."""

    def __init__(self, core: ClientConnection, handler: Handler) -> None:
        self.core = core
        self._handler = handler
        self.socket = Socket(self)

    def pause_reading(self) -> None:
        """Take nothing more off the socket, until `resume_reading`."""
        self.core.pause_reading()
        self.socket.pause_reading()

    def resume_reading(self) -> None:
        self.core.resume_reading(now_ms())
        self.socket.resume_reading()

    # What the socket tells

    def on_data(self, data: bytes) -> None:
        self._handle(self.core.receive(data, now_ms()))

    def on_tick(self) -> float:
        core = self.core
        self._handle(core.tick(now_ms()))
        if core.state != RUNNING:
            return TICK_S
        # A heartbeat is due after half of the interval without output, and may be late by half.
        return min(STEADY_TICK_S, core.heartbeat_s / 4) if core.heartbeat_s else STEADY_TICK_S

    def on_writable(self) -> None:
        self._handler.on_writable()

    def on_lost(self, error: Exception | None) -> None:
        self._handler.on_lost(error)

    def flush(self) -> None:
        self.socket.write(self.core.data_to_send())

    def _handle(self, events: list[ClientEvent]) -> None:
        ended = self.core.state == CLOSED
        for event in events:
            ended = ended or isinstance(event, Ended)
            self._handler.on_event(event)
        self.socket.flush()
        if ended:
            self.socket.close()
