"""One channel of the client, over all connections that carry it: opened, lost, opened again.

A `ChannelHandle` knows the number of its channel in the present connection, if it has one, and
tells its `user` (a publisher, a consumer, management) what comes on it. Every user has a channel to
itself, so that errors of one are nothing to the others. Requests of a channel are answered in the
order in which they were sent: those that wait for their answers stand in a row.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from warren.client.amqp091.errors import ReplyError
from warren.client.errors import ClientError, ConnectionLost, PeerError
from warren.client.flag import Flag
from warren.wire.amqp091.client import ClientConnection
from warren.wire.amqp091.client_events import Arrived, ChannelClosed
from warren.wire.amqp091.events import Settles
from warren.wire.amqp091.methods import ChannelCloseOk, ChannelOpenOk, Method
from warren.wire.errors import ProtocolError, ReplyCode, Scope

Answer = Method | bytes | ClientError  # bytes: a whole content, of basic.get-ok
OnAnswer = Callable[[Answer], None]


class ChannelUser(Protocol):
    """What a channel is for."""

    def on_up(self) -> None:
        """The channel is open, perhaps again: set it up, then call `set_ready`."""

    def on_down(self, error: ClientError, for_good: bool) -> None:
        """The channel is gone; unless for good it will come back."""

    def on_arrived(self, run: Arrived) -> None: ...

    def on_settled(self, run: Settles) -> None: ...

    def on_told(self, method: Method) -> None:
        """What the broker says unasked: basic.cancel, channel.flow."""

    def on_writable(self) -> None:
        """More may be sent than before."""

    def flush(self) -> None:
        """The channel is about to be closed: what was gathered goes out first."""


class ChannelHome(Protocol):
    """The connection of a channel (`warren.client.amqp091.connection`)."""

    timeout_s: float

    @property
    def core(self) -> ClientConnection | None: ...

    @property
    def may_publish(self) -> bool: ...

    def reopen(self, handle: "ChannelHandle") -> None: ...

    def forget(self, handle: "ChannelHandle") -> None: ...

    def unmap(self, handle: "ChannelHandle") -> None: ...

    def mark(self) -> None:
        """A channel has something to send."""

    def flush(self) -> None:
        """Send what there is now, so that `may_publish` takes it into account."""

    def stop_reading(self, who: object) -> None: ...

    def let_read(self, who: object) -> None: ...


class ChannelHandle:
    """Invariant: `number` is not 0 while a connection carries the channel; `error` is for good."""

    def __init__(self, connection: ChannelHome, user: ChannelUser, reopens: bool = False) -> None:
        self.connection = connection
        self.user = user
        self.number = 0
        self.error: ClientError | None = None
        self.is_ready = False  # open and set up
        self._reopens = reopens  # after the broker has closed it
        self._asked: list[tuple[frozenset[int], OnAnswer]] = []  # few: those that wait
        self._changed = Flag()  # ready, or over for good
        self._closed = Flag()

    @property
    def core(self) -> ClientConnection | None:
        """The core of the connection that carries the channel."""
        return self.connection.core if self.number else None

    def open(self, core: ClientConnection) -> None:
        """Ask the broker for the channel. ClientError: no number is left."""
        try:
            self.number = core.open_channel()
        except ProtocolError as error:
            raise ClientError(f"too many channels on one connection: {error.text}") from error
        self._asked.append((frozenset({ChannelOpenOk.identity}), self._opened))

    def _opened(self, answer: Answer) -> None:
        if isinstance(answer, Method):
            self.user.on_up()

    def set_ready(self) -> None:
        """The user has set the channel up."""
        self.is_ready = True
        self._changed.set()
        self.user.on_writable()

    async def wait_ready(self, timeout_s: float) -> None:
        """Until the channel is set up; raise why it will not be."""
        async with asyncio.timeout(timeout_s):
            while not self.is_ready:
                self.check()
                self._changed.clear()
                await self._changed.wait()

    def check(self) -> None:
        """Raise if the channel is over for good."""
        if self.error is not None:
            raise self.error

    # Requests

    def request(self, method: Method, answers: frozenset[int], on_answer: OnAnswer) -> None:
        """Send a method, and have the answer told: one of those methods, or why none comes."""
        core = self.core
        if core is None or self.error is not None:
            on_answer(self.error or ConnectionLost("the connection is lost"))
            return
        core.send(self.number, method)
        self._asked.append((answers, on_answer))
        self.connection.mark()

    async def ask(self, method: Method, *answers: int) -> Method | bytes:
        """The same, awaited; ClientError: no answer comes. TimeoutError."""
        future: asyncio.Future[Method | bytes] = asyncio.get_running_loop().create_future()

        def on_answer(answer: Answer) -> None:
            if future.done():
                return
            if isinstance(answer, ClientError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.request(method, frozenset(answers), on_answer)
        async with asyncio.timeout(self.connection.timeout_s):
            return await future

    def answered(self, identity: int, answer: Method | bytes) -> None:
        """An answer came. ProtocolError: nothing of the kind was asked for."""
        if not self._asked or identity not in self._asked[0][0]:
            raise unasked(self.number, identity)
        self._asked.pop(0)[1](answer)

    # The end

    async def close(self) -> None:
        """Close the channel; it does not come back."""
        if self.error is not None:
            return
        self.user.flush()
        core, number = self.core, self.number
        self.connection.forget(self)
        self.over(PeerError("channel-closed", "the channel was closed by this client"))
        if core is None:
            return
        core.close_channel(number)
        self.connection.mark()
        async with asyncio.timeout(self.connection.timeout_s):
            await self._closed.wait()

    def drop(self, error: ClientError) -> None:
        """The same for a reason of ours, without waiting for the broker."""
        core, number = self.core, self.number
        self.connection.forget(self)
        self.over(error)
        if core is not None:
            core.close_channel(number)
            self.connection.mark()

    # What the connection tells

    def on_called(self, method: Method) -> None:
        if isinstance(method, ChannelCloseOk):
            self.gone()
        else:
            self.answered(method.identity, method)

    def on_closed(self, event: ChannelClosed) -> None:
        """By the broker, which says why."""
        error = ReplyError(event.reply_code, event.reply_text)
        self.gone()
        if self.error is not None:
            return  # Ours has crossed it.
        core = self.connection.core
        if self._reopens and core is not None:
            self._fail_asked(error)
            self.user.on_down(error, False)
            self.connection.reopen(self)
        else:
            self.connection.forget(self)
            self.over(error)

    def gone(self) -> None:
        """Nothing is known of the channel on the other side any more."""
        self.connection.unmap(self)
        self.number = 0
        self.is_ready = False
        self._closed.set()

    def lost(self, error: ConnectionLost) -> None:
        """The connection is gone, and will be reopened."""
        self.gone()
        self._fail_asked(error)
        if self.error is None:
            self.user.on_down(error, False)

    def over(self, error: ClientError) -> None:
        """The channel is gone for good."""
        if self.error is None:
            self.error = error
            self.is_ready = False
            self._changed.set()
            self._fail_asked(error)
            self.user.on_down(error, True)

    def _fail_asked(self, error: ClientError) -> None:
        asked, self._asked = self._asked, []
        for _, on_answer in asked:
            on_answer(error)


def unasked(channel: int, identity: int) -> ProtocolError:
    """The broker answers what was not asked."""
    text = f"method {identity >> 16}.{identity & 0xFFFF} on channel {channel} answers no request"
    return ProtocolError(ReplyCode.UNEXPECTED_FRAME, text, Scope.CONNECTION)
