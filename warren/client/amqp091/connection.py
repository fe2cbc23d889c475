"""The connection over AMQP 0-9-1: dials, logs in, carries channels, dials again when it is lost.

Everything runs on one event loop. Waits have deadlines (`timeout_s`, 10 s unless told).
"""

import ssl
import uuid
from collections.abc import Callable, Sequence
from typing import Final

from warren.client.amqp091.channel import ChannelHandle, unasked
from warren.client.amqp091.consumer import Consumer
from warren.client.amqp091.errors import ReplyError
from warren.client.amqp091.line import Line
from warren.client.amqp091.management import Management
from warren.client.amqp091.publisher import OnReturned, Publisher
from warren.client.dialled import Dialled
from warren.client.dialling import TIMEOUT_S, Backoff, socket_dial
from warren.client.errors import ClientError, ConnectionLost, LoginFailed
from warren.client.sockets import Dial, now_ms
from warren.client.url import BrokerUrl, parse_url
from warren.wire.amqp091.client import ClientConnection, ClientLimits
from warren.wire.amqp091.client_events import (
    Arrived,
    ChannelClosed,
    ClientEvent,
    Closed,
    Opened,
    StartRequested,
)
from warren.wire.amqp091.events import Called, Ended, Failed, Settles
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp091.methods import (
    BasicCancel,
    ChannelFlow,
    ConnectionBlocked,
    ConnectionUnblocked,
    Method,
)
from warren.wire.errors import ProtocolError, ReplyCode

ACCESS_REFUSED: Final = int(ReplyCode.ACCESS_REFUSED)
CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "exchange_exchange_bindings",
    "publisher_confirms",
)

OnBlocked = Callable[[str | None], None]  # the broker's reason; None: no more


async def connect(
    url: str,
    *,
    name: str = "",
    reconnect: bool = False,
    backoff: Backoff | None = None,
    timeout_s: float = TIMEOUT_S,
    limits: ClientLimits | None = None,
    on_blocked: OnBlocked | None = None,
    tls: ssl.SSLContext | None = None,
    dial: Dial | None = None,
    mechanisms: Sequence[str] = (),
) -> "Connection":
    """Connect and log in. OSError, TimeoutError, LoginFailed or ReplyError if that fails.

    connection = await connect("amqp://guest:guest@localhost/%2F", reconnect=True)

    `name`: shown by the broker. `reconnect`: a connection that is lost later is reopened, for as
    long as it takes. `on_blocked`: told when the broker stops taking messages, and when it goes
    on. `dial`: another way to the broker than a socket. `mechanisms`: PLAIN, AMQPLAIN and EXTERNAL,
    the first one that the broker offers logs in; none: see `warren.client.url`.
    """
    where = parse_url(url)
    connection = Connection(
        where,
        name,
        backoff or Backoff() if reconnect else None,
        timeout_s,
        limits or ClientLimits(),
        on_blocked,
        dial or socket_dial(where, tls),
        mechanisms,
    )
    await connection._dial()
    return connection


class Connection(Dialled[Line]):
    """Made by `connect`. Use it as a context manager, or `close` it."""

    def __init__(
        self,
        url: BrokerUrl,
        name: str,
        backoff: Backoff | None,
        timeout_s: float,
        limits: ClientLimits,
        on_blocked: OnBlocked | None,
        dial: Dial,
        mechanisms: Sequence[str] = (),
    ) -> None:
        super().__init__(url, backoff, timeout_s, dial)
        by_certificate = ("EXTERNAL",) if url.tls and not url.user else ()
        self._mechanisms = tuple(mechanisms) or (*by_certificate, "PLAIN")
        self.blocked: str | None = None  # why the broker takes no messages
        self._name = name
        self._limits = limits
        self._on_blocked = on_blocked
        self._logged_in = False  # credentials sent on this line
        self._handles: list[ChannelHandle] = []  # that are to be there
        self._by_number: dict[int, ChannelHandle] = {}
        self._silent: set[object] = set()  # who wants nothing read

    @property
    def core(self) -> ClientConnection | None:
        """The protocol core, while the connection is open."""
        return self._line.core if self._line is not None and self.is_open else None

    @property
    def may_publish(self) -> bool:
        """The broker takes messages, and the socket does."""
        return self.blocked is None and self._line is not None and not self._line.socket.is_full

    # Channels

    async def publisher(
        self,
        exchange: str = "",
        routing_key: str = "",
        *,
        mandatory: bool = True,
        settled: bool = False,
        window: int = 2_000,
        waiting_max: int = 65_536,
        on_returned: OnReturned | None = None,
    ) -> Publisher:
        """A publisher to an exchange; '' is the default one, whose routing keys are queues.

        `mandatory`: what no queue takes is `released`, not lost. `settled`: no confirms, outcomes
        are `sent`. `window`: so many messages are on their way without a confirm; `waiting_max`: so
        many wait to be sent. `on_returned` is called with each message that comes back.
        """
        publisher = Publisher(
            self, exchange, routing_key, mandatory, settled, window, waiting_max, on_returned
        )
        await self._add(publisher.handle)
        return publisher

    async def consumer(
        self,
        queue: str,
        *,
        credit: int = 100,
        name: str = "",
        settled: bool = False,
        exclusive: bool = False,
        priority: int | None = None,
        arguments: dict[str, object] | None = None,
        paused: bool = False,
    ) -> Consumer:
        """A consumer of a queue. No more than `credit` messages (prefetch) are unsettled; with 0
        nothing comes but for `receive` and `fetch`, and `paused` nothing until `resume`.
        `settled`: they need no acknowledgement, and may be lost; `credit` means nothing then, but
        0.
        """
        tag = name or f"warren-{uuid.uuid4()}"
        consumer = Consumer(
            self, queue, credit, tag, settled, exclusive, priority, arguments or {}, paused
        )
        await self._add(consumer.handle)
        return consumer

    async def management(self) -> Management:
        """Declares, binds, purges, deletes and looks at queues and exchanges."""
        management = Management(self)
        await self._add(management.handle)
        return management

    async def _add(self, handle: ChannelHandle) -> None:
        if self.error is not None:
            raise self.error
        if self.is_open:
            self.reopen(handle)
        self._handles.append(handle)
        try:
            await handle.wait_ready(self.timeout_s)
        except BaseException:
            if handle in self._handles:
                self._handles.remove(handle)
            raise

    def reopen(self, handle: ChannelHandle) -> None:
        """Open the channel on the present line. ClientError: no number is left."""
        if self._line is not None:
            handle.open(self._line.core)
            self._by_number[handle.number] = handle
            self._line.socket.mark()

    def forget(self, handle: ChannelHandle) -> None:
        """The channel does not come back with the next connection."""
        if handle in self._handles:
            self._handles.remove(handle)

    def unmap(self, handle: ChannelHandle) -> None:
        """Its number means nothing any more."""
        self._by_number.pop(handle.number, None)

    def flush(self) -> None:
        """Send what there is now, so that `may_publish` knows of it."""
        if self._line is not None:
            self._line.socket.flush()

    def stop_reading(self, who: object) -> None:
        """Take nothing more off the socket, until `let_read` of all who said so."""
        if not self._silent and self._line is not None:
            self._line.pause_reading()
        self._silent.add(who)

    def let_read(self, who: object) -> None:
        if who in self._silent:
            self._silent.remove(who)
            if not self._silent and self._line is not None:
                self._line.resume_reading()

    # Dialling and closing

    def _last_words(self, line: Line) -> None:
        for handle in self._handles:
            handle.user.flush()
        if self._silent:  # Else the answer is not read.
            line.resume_reading()

    def _new_line(self) -> Line:
        self._logged_in = False
        return Line(ClientConnection(self._limits, now_ms()), self)

    def _carry(self, line: Line) -> None:
        for handle in list(self._handles):
            try:
                self.reopen(handle)
            except ClientError as error:
                self.forget(handle)
                handle.over(error)

    def _end(self, error: ClientError) -> None:
        """Nothing comes back any more."""
        if self.error is None:
            self.error = error
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.over(error)

    # What the line tells

    def on_lost(self, error: Exception | None) -> None:
        self._closed.set()
        reason = self._reason or ConnectionLost(str(error or "the broker closed the socket"))
        if self._logged_in and self._opening is not None and self._reason is None:
            reason = LoginFailed("the broker closed the socket after the login")
        self._line = None
        self._silent.clear()
        carried, self._by_number = list(self._by_number.values()), {}
        if self._opening is not None:
            self._fail_opening(reason)
            return
        for_good = self._is_closing or self._redial.is_off
        for handle in carried:
            if for_good:
                handle.gone()
            else:
                handle.lost(ConnectionLost(str(reason)))
        self._tell_blocked(None)
        if for_good:
            self._end(reason)
            return
        self._redial.begin()

    def on_writable(self) -> None:
        for handle in list(self._by_number.values()):
            handle.user.on_writable()

    def on_event(self, event: ClientEvent) -> None:
        try:
            self._take(event)
        except ProtocolError as error:
            if self._line is not None:
                self._reason = ReplyError(int(error.code), error.reply_text)
                self._line.core.close(int(error.code), error.reply_text)

    def _take(self, event: ClientEvent) -> None:
        match event:
            case Arrived():
                self._handle(int(event.channel)).user.on_arrived(event)
            case Settles():
                self._handle(int(event.channel)).user.on_settled(event)
            case Called():
                self._called(int(event.channel), event.method)
            case ChannelClosed():
                self._handle(int(event.channel)).on_closed(event)
            case StartRequested():
                self._login(event)
            case Opened():
                if self._opening is not None and not self._opening.done():
                    self._opening.set_result(None)
            case Closed():
                self._reason = self._closed_error(event)
            case Failed():
                self._reason = ReplyError(int(event.error.code), event.error.reply_text)
            case Ended():
                self._reason = self._reason or ConnectionLost("the connection was closed")

    def _called(self, channel: int, method: Method) -> None:
        if isinstance(method, ConnectionBlocked):
            self._tell_blocked(method.reason)
        elif isinstance(method, ConnectionUnblocked):
            self._tell_blocked(None)
        elif isinstance(method, (BasicCancel, ChannelFlow)):
            self._handle(channel).user.on_told(method)
        else:
            self._handle(channel).on_called(method)

    def _handle(self, channel: int) -> ChannelHandle:
        handle = self._by_number.get(channel)
        if handle is None:
            raise unasked(channel, 0)
        return handle

    def _tell_blocked(self, reason: str | None) -> None:
        if reason == self.blocked:
            return
        self.blocked = reason
        if self._on_blocked is not None:
            self._on_blocked(reason)
        if reason is None:
            self.on_writable()

    # Login

    def _login(self, start: StartRequested) -> None:
        self.server_properties = start.server_properties
        line, url = self._line, self.url
        assert line is not None
        mechanism = next((each for each in self._mechanisms if each in start.mechanisms), None)
        if mechanism is None:
            wanted = ", ".join(self._mechanisms)
            text = f"no mechanism fits: {wanted}: the broker offers {start.mechanisms}"
            self._fail_opening(LoginFailed(text))
            return
        self._logged_in = True
        properties: dict[str, object] = {
            "product": "warren.client",
            "capabilities": dict.fromkeys(CAPABILITIES, True),
        }
        if self._name:
            properties["connection_name"] = self._name
        line.core.login(mechanism, _response(mechanism, url), url.vhost or "/", properties)

    def _closed_error(self, event: Closed) -> ClientError:
        refused = self._opening is not None and event.reply_code == ACCESS_REFUSED
        if refused and "Login was refused" in event.reply_text:
            return LoginFailed(event.reply_text)
        return ReplyError(event.reply_code, event.reply_text)


def _response(mechanism: str, url: BrokerUrl) -> bytes:
    """What logs in by that mechanism; as guest if the URL names no user."""
    if mechanism == "EXTERNAL":
        return b""
    user, password = (url.user, url.password) if url.user else ("guest", "guest")
    if mechanism == "AMQPLAIN":
        return encode_table({"LOGIN": user, "PASSWORD": password})[4:]  # Without its length.
    return f"\0{user}\0{password}".encode()
