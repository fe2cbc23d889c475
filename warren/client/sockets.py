"""A client's socket with its timer: what asyncio tells of it, and output once per turn.

The line that owns it has the core of its protocol, and is asked for output (`flush`) when a part
has said that there may be some (`mark`), at the end of that turn of the loop. What is written while
the socket is full waits in the transport; callers that limit themselves read `is_full`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

TICK_S: Final = 0.4
STEADY_TICK_S: Final = 2.0  # at most, of a connection that is open


def now_ms() -> int:
    return int(time.monotonic() * 1000)


class SocketUser(Protocol):
    """The line."""

    def on_data(self, data: bytes) -> None: ...

    def on_tick(self) -> float:
        """Deadlines and heartbeats; in how many seconds to be called again."""

    def on_writable(self) -> None:
        """The socket takes more again."""

    def on_lost(self, error: Exception | None) -> None:
        """The last that is heard of the socket."""

    def flush(self) -> None:
        """Write what there is; `is_open` was true just now."""


class Socket(asyncio.Protocol):
    """Invariant: after `on_lost` or `abort` the user hears nothing."""

    def __init__(self, user: SocketUser) -> None:
        self.is_full = False
        self._user = user
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._is_marked = False
        self._is_over = False

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._user.on_data(data)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._user.on_writable()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_over:
            self._is_over = True
            self._user.on_lost(error)

    def _tick(self) -> None:
        wait_s = self._user.on_tick()
        if not self._is_over:
            self._timer = self._loop.call_later(wait_s, self._tick)

    # What the line calls

    def mark(self) -> None:
        """There may be something to send: look at the end of this turn."""
        if not self._is_marked and not self._is_over:
            self._is_marked = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what there is now."""
        self._is_marked = False
        if self._transport is not None and not self._is_over:
            self._user.flush()

    def write(self, output: bytes) -> None:
        """Only while the user is asked to `flush`."""
        assert self._transport is not None
        if output:
            self._transport.write(output)

    def pause_reading(self) -> None:
        if self._transport is not None and not self._is_over:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._is_over:
            self._transport.resume_reading()

    def close(self) -> None:
        """End it when all is written; `on_lost` follows."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it now, without further events."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()


Dial = Callable[[Socket], Awaitable[None]]  # connects it; OSError if that cannot be done
