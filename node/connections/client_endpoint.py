"""What the endpoints of all protocols have in common: the client, its login, its socket. Compiled.

`ClientEndpoint` knows who the client is, checks its login, and marks itself in the turn.
`AmqpEndpoint` adds the socket and the end of a connection of AMQP, whose cores are alike. What a
protocol does by itself is in the methods that raise `NotImplementedError` here.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from node.auth.asked_access import Undecided
from node.auth.login import Accepted, LoginOutcome, Refused
from node.auth.login_task import LoginTask
from node.auth.permissions import PermissionCache
from node.auth.source import LoginProtocol, source_of
from node.connections.hand_over import start_hand_over
from node.connections.socket_reading import Reading, Transport
from node.events.authors import AMQP, Author
from node.events.logs import Ids, ids_of
from node.supervision import tick_or_abort
from queues.sessions.credit import CONNECTION, CreditActor
from queues.sessions.publishing import Held, Publisher

if TYPE_CHECKING:
    from node.broker import Broker
    from node.connections.client_connection import ClientConnection
    from node.tls.certificate import TlsPeer

log: Final = logging.getLogger("warren.connection")


class ClientEndpoint:
    """One connection of a client: the parts of `ClientConnection` that no protocol changes."""

    def __init__(
        self,
        broker: "Broker",
        transport: Transport,
        peer: tuple[str, int],
        here: tuple[str, int],
        tls: "TlsPeer | None",
        protocol: str,
    ) -> None:
        """`protocol` as the management API names it."""
        self.broker = broker
        self.tls = tls  # what TLS says of the client; None: it came without
        self.protocol = protocol
        self.transport = transport
        self.peer = peer
        self.here = here
        self.name = f"{peer[0]}:{peer[1]} -> {here[0]}:{here[1]}"
        self.id = broker.identity.new_connection_id()
        self.connected_at_ms = broker.now_ms()
        self.vhost = ""
        self.user = ""
        self.tags: tuple[str, ...] = ()
        self.mechanism = ""
        self.access = broker.access  # or what its token says
        self.permissions: PermissionCache = broker.no_permissions
        self.has_published = False
        self.is_publishing = False  # lately (`node.resources.publish_hold`)
        self.held = Held()
        self.reader = CreditActor(self.name, broker.channel_credit, self.mark, CONNECTION)
        self._login = LoginTask(broker.logins)
        self._ticker: asyncio.TimerHandle | None = None  # with a short heartbeat interval
        self._is_opening = False  # it is asked whether the user may use the vhost
        self._marked = False
        self._writing_paused = False
        self._closing = False
        self._lost = False

    def mark(self) -> None:
        if not self._marked:
            self._marked = True
            self.broker.turn.mark_endpoint(self)

    def flush(self) -> None:
        """Send what the turn produced; judge whether to go on reading."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> None:
        """Heartbeats and deadlines; called about once a second."""
        raise NotImplementedError

    def _tick_quickly(self, seconds: float) -> None:
        """Tick more often than the node does, so that heartbeats leave at half their interval."""
        if tick_or_abort(self, self.broker.monotonic_ms()):
            loop = asyncio.get_running_loop()
            self._ticker = loop.call_later(seconds, self._tick_quickly, seconds)

    def pause_writing(self) -> None:
        self._writing_paused = True

    def abort(self) -> None:
        """Cut the connection."""
        self.transport.abort()

    def ids(self) -> Ids:
        """For its lines in the log."""
        return ids_of(connection=self.name, vhost=self.vhost, user=self.user)

    def author(self) -> Author:
        """Of the definitions that its client changes."""
        return Author(self.user, self.peer[0], AMQP)

    def when(self, undecided: Undecided, call: Callable[[], None]) -> None:
        """Call in a turn in which that is decided, if the connection is still there."""

        def decided() -> None:
            if not self._closing:
                self.broker.turn.begin()
                call()
                self.mark()

        undecided.then(decided)

    # Login

    def _check_login(self, family: LoginProtocol, response: bytes) -> None:
        """Log in by `mechanism`; until a slow check is done nothing else is taken in."""
        source = source_of(family, self.mechanism, self.peer, self.here, self.tls)
        outcome = self._login.begin(self.mechanism, response, source, self._login_decided)
        if outcome is not None:
            self._logged_in(outcome)

    def _login_decided(self, outcome: LoginOutcome) -> None:
        if not self._closing:
            self.broker.turn.begin()
            self._logged_in(outcome)
            self.mark()

    def _logged_in(self, outcome: LoginOutcome) -> None:
        if isinstance(outcome, Accepted):
            self.user = outcome.user
            self.tags = outcome.tags
            self.access = outcome.access or self.broker.access
            me = cast("ClientConnection", self)
            self.broker.connections.logged_in(me, outcome.expires_at_ms)
            self._accept_login()
            return
        is_refused = isinstance(outcome, Refused)
        text = outcome.text if isinstance(outcome, Refused) else "malformed SASL response"
        log.warning("%s: %s", self.name, text, extra=self.ids())
        self._refuse_login(text, is_refused)

    def _accept_login(self) -> None:
        raise NotImplementedError

    def _refuse_login(self, text: str, is_refused: bool) -> None:
        """`is_refused`: the login was understood."""
        raise NotImplementedError


class AmqpEndpoint(ClientEndpoint):
    """A connection of AMQP, whichever version."""

    reading: Reading

    def __init__(
        self,
        broker: "Broker",
        transport: Transport,
        peer: tuple[str, int],
        here: tuple[str, int],
        tls: "TlsPeer | None",
        protocol: str,
    ) -> None:
        super().__init__(broker, transport, peer, here, tls, protocol)
        self.owns_queues = False
        self._output_held = False  # the answer to a close waits for the end of exclusive queues

    # What each version does by itself

    def _take(self, data: bytes) -> None:
        """Let the core have the bytes, and handle what they mean."""
        raise NotImplementedError

    def _end_all(self) -> None:
        """Channels or sessions are over."""
        raise NotImplementedError

    def _tick_core(self, now_ms: int) -> bool:
        """Heartbeats and deadlines; whether the client is overdue."""
        raise NotImplementedError

    def _rest_to_send(self) -> bytes:
        raise NotImplementedError

    def _heartbeat_s(self) -> float:
        """How long the client may take to close its side."""
        raise NotImplementedError

    def hand_over(self, publisher: Publisher, done: Callable[[], None]) -> None:
        """Hand the rest of a publish to its queues in the turns that follow; then `done`."""
        start_hand_over(publisher, self.broker.turn, done)

    # The socket

    def data_received(self, data: bytes) -> None:
        if self._closing and self._lost:
            return
        turn = self.broker.turn
        turn.begin()
        now = self.reading.receive(data)
        if len(now) > 0:
            self._take(now)
        self.mark()
        turn.end_if_long()

    def eof_received(self) -> bool:
        """The client closed its side; so do we.

        What it has not read by then, without a close, it will never read: to wait for that would
        keep its consumers and its exclusive queues.
        """
        if not self._closing:
            self._end_all()
            self.transport.abort()
        return False

    def connection_lost(self, error: Exception | None = None) -> None:
        """The socket is gone: everything that the client held goes back to its queues."""
        if self._lost:
            return
        self._lost = True
        self._closing = True
        self._login.cancel()
        if self._ticker is not None:
            self._ticker.cancel()
        self._end_all()
        self.reader.peer_down_everywhere()
        if self.owns_queues:
            self.broker.connections.delete_queues_of(self.id)
        self.broker.connections.closed(cast("ClientConnection", self))

    def tick(self, now_ms: int) -> None:
        """Heartbeats and deadlines; called about once a second."""
        if self._tick_core(now_ms) and self.transport.get_write_buffer_size() > 0:
            self.transport.abort()  # Who was not heard of for so long will not read that, either.
        self.mark()

    def _go_on(self) -> None:
        """Handle what came behind a login or an open that is decided now."""
        if not self._lost:
            self._take(b"")
            self.mark()

    # The end

    def _end_in_order(self) -> None:
        """The client's exclusive queues are gone before it hears the answer to its close."""
        self._closing = True
        if not self.owns_queues:
            self._close_when_sent()
            return
        self.owns_queues = False
        self._output_held = True
        self.broker.connections.delete_queues_of(self.id, self._close_when_sent)

    def _close_when_sent(self) -> None:
        if self._lost:
            return
        data = self._rest_to_send()
        if data:
            self.transport.write(data)
        self.broker.connections.half_closed.begin(self.transport, self._heartbeat_s())
        self.connection_lost()
