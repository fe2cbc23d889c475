"""One socket and its protocol core: bytes in, events to the connection, output once per turn.

Messages wait in their sessions while the socket is full.
"""

from typing import TYPE_CHECKING, Final, Protocol, cast

from warren.client.sockets import TICK_S, Socket, now_ms
from warren.wire.amqp10.connection import Connection as Core
from warren.wire.amqp10.events import (
    Ended,
    Event,
)
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.sender import Run

if TYPE_CHECKING:
    from warren.client.links import LinkHandle

WRITE_BYTES: Final = 256 * 1024  # of messages, before the socket is asked whether it is full


class Handler(Protocol):
    """The connection."""

    def on_event(self, event: Event) -> None: ...

    def on_lost(self, error: Exception | None) -> None:
        """The last that is heard of this line."""


class Line:
    """Keeps `SocketUser`."""

    def __init__(self, core: Core, handler: Handler) -> None:
        self.core = core
        self._handler = handler
        self.socket = Socket(self)

    # What the socket tells

    def on_data(self, data: bytes) -> None:
        self._handle(self.core.receive(data, now_ms()))

    def on_tick(self) -> float:
        self._handle(self.core.tick(now_ms()))
        return TICK_S

    def on_writable(self) -> None:
        self.socket.mark()

    def on_lost(self, error: Exception | None) -> None:
        self._handler.on_lost(error)

    def _handle(self, events: list[Event]) -> None:
        """Tell the events, and what waited behind a decision of ours."""
        ended = False
        while events:
            for event in events:
                ended = ended or isinstance(event, Ended)
                self._handler.on_event(event)
            events = self.core.receive(b"", now_ms())
        self.socket.flush()
        if ended:
            self.socket.close()

    def flush(self) -> None:
        self.socket.write(self.core.data_to_send())
        for session in list(self.core.sessions.values()):
            while session.has_work() and not self.socket.is_full:
                session.write(self, WRITE_BYTES)
                self.socket.write(self.core.data_to_send())

    # Sending (`warren.wire.amqp10.departures.Bodies`)

    def fetch(self, link: Link, run: Run) -> bool:
        """Never asked: the bytes are in the run from the beginning."""
        raise AssertionError("a run without its bytes")

    def sent(self, link: Link, run: Run, delivery_id: int, count: int) -> None:
        handle = cast("LinkHandle", link.owner)
        handle.user.on_sent(int(delivery_id), int(count))
