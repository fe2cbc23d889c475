"""What both clients' connections have in common: dialled, lost, dialled again, closed.

`Dialled` owns the line (a socket and its protocol core) and the attempts to get one; what a
protocol carries on it is in the methods that raise `NotImplementedError` here.
"""

import asyncio
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from warren.client.dialling import Backoff, Redial
from warren.client.errors import ClientError, ConnectionLost
from warren.client.flag import Flag
from warren.client.sockets import Dial, Socket
from warren.client.url import BrokerUrl


class Core(Protocol):
    """The protocol core of a line."""

    def close(self) -> None:
        """Tell the broker; it answers, and closes the socket."""


class AnyLine(Protocol):
    @property
    def core(self) -> Core: ...

    @property
    def socket(self) -> Socket: ...


Line = TypeVar("Line", bound=AnyLine)


class Dialled(Generic[Line]):
    """Use it as a context manager, or `close` it.

    Invariant: `_line` is there from dialling until it is lost; `is_open` while it carries links.
    """

    def __init__(
        self, url: BrokerUrl, backoff: Backoff | None, timeout_s: float, dial: Dial
    ) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self.server_properties: dict[str, object] = {}
        self.error: ClientError | None = None  # why it is over for good
        self._dial_out = dial
        self._line: Line | None = None
        self._opening: asyncio.Future[None] | None = None
        self._reason: ClientError | None = None  # why the line will be lost
        self._redial = Redial(backoff, self._dial, self._end)
        self._closed = Flag()  # no line
        self._is_closing = False

    # What each protocol does by itself

    def _new_line(self) -> Line:
        """A line with a core of its own, not dialled."""
        raise NotImplementedError

    def _carry(self, line: Line) -> None:
        """The line is open: put on it what there is to be."""
        raise NotImplementedError

    async def _prepare_close(self) -> None:
        """Before the end: who dials anything else stops."""

    def _last_words(self, line: Line) -> None:
        """Before the core closes."""

    def _end(self, error: ClientError) -> None:
        """Nothing comes back any more."""
        raise NotImplementedError

    # For all

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        return self._line is not None and self._opening is None

    def mark(self) -> None:
        """A link or channel has something to send."""
        if self._line is not None:
            self._line.socket.mark()

    async def wait_lost(self) -> None:
        """Until the connection is lost or closed; without `reconnect` it does not come back."""
        await self._closed.wait()

    async def close(self) -> None:
        """Close all on it and the connection; returns when the broker has answered, or in time.

        Outcomes that have not come by then are lost.
        """
        self._is_closing = True
        await self._prepare_close()
        await self._redial.stop()
        line = self._line
        if line is not None:
            self._last_words(line)
            line.core.close()
            line.socket.mark()
            try:
                async with asyncio.timeout(self.timeout_s):
                    await self._closed.wait()
            except TimeoutError:
                line.socket.abort()
            self._line = None
        self._end(ConnectionLost("the connection was closed"))

    async def _dial(self) -> None:
        """One attempt. The line is gone if it fails."""
        self._reason = None
        self._opening = asyncio.get_running_loop().create_future()
        line = self._new_line()
        try:
            async with asyncio.timeout(self.timeout_s):
                self._line = line
                self._closed.clear()
                await self._dial_out(line.socket)
                await self._opening
            if self._line is None:  # Lost again in the same turn.
                raise self._reason or ConnectionLost("the broker closed the socket")
        except BaseException:
            line.socket.abort()
            self._line = None
            raise
        finally:
            self._opening = None
        self._carry(line)

    def _fail_opening(self, error: ClientError) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.set_exception(error)
