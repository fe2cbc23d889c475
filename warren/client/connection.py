"""The connection: dials, logs in, carries links, and dials again when it is lost.

Everything runs on one event loop. Waits have deadlines (`timeout_s`, 10 s unless told).
"""

import ssl
import uuid
from collections.abc import Sequence
from typing import Final, cast

from warren.client.consumer import Consumer
from warren.client.dialled import Dialled
from warren.client.dialling import TIMEOUT_S, Backoff, socket_dial
from warren.client.errors import ClientError, ConnectionLost, LoginFailed, PeerError, peer_error
from warren.client.following import Follow, Following
from warren.client.line import Line
from warren.client.links import LinkHandle, OnLinkState, SessionHome, attach_together
from warren.client.management import Management
from warren.client.publisher import Publisher
from warren.client.sockets import Dial, now_ms
from warren.client.url import BrokerUrl, parse_url
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import Open
from warren.wire.amqp10.connection import Connection as Core
from warren.wire.amqp10.events import (
    Closed,
    Ended,
    Event,
    Failed,
    Flowed,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    LoginRefused,
    MechanismsOffered,
    Opened,
    SessionEnded,
    SessionFailed,
    Settled,
    Withdrawn,
)
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.session import Session

CAPABILITIES: Final = ("LINK_PAIR_V1_0", "queue-locality:v1", "leader-hints")

FOLLOW: Final = Follow()


async def connect(
    url: str,
    *,
    container_id: str = "",
    reconnect: bool = False,
    backoff: Backoff | None = None,
    timeout_s: float = TIMEOUT_S,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    dial: Dial | None = None,
    follow: Follow | None = FOLLOW,
    mechanisms: Sequence[str] = (),
) -> "Connection":
    """Connect and log in. OSError, TimeoutError, LoginFailed or PeerError if that fails.

    connection = await connect("amqp://guest:guest@localhost/%2F", reconnect=True)

    `reconnect`: a connection that is lost later is reopened, for as long as it takes. `dial`:
    another way to the broker than a socket. `follow`: links move to the leaders of their queues,
    over connections of their own (`warren.client.following`); None: they stay on this one.
    `mechanisms`: PLAIN, EXTERNAL and ANONYMOUS, the first one that the broker offers logs in; none:
    see `warren.client.url`.
    """
    where = parse_url(url)
    connection = Connection(
        where,
        container_id or f"warren-{uuid.uuid4()}",
        backoff or Backoff() if reconnect else None,
        timeout_s,
        limits or Limits(max_link_credit=0, max_queue_credit=0),
        dial or socket_dial(where, tls),
        mechanisms,
    )
    if follow is not None and (dial is None or follow.dial is not None):
        connection.follow(follow, tls)
    await connection._dial()
    return connection


class Connection(Dialled[Line]):
    """Made by `connect`. Use it as a context manager, or `close` it."""

    def __init__(
        self,
        url: BrokerUrl,
        container_id: str,
        backoff: Backoff | None,
        timeout_s: float,
        limits: Limits,
        dial: Dial,
        mechanisms: Sequence[str] = (),
    ) -> None:
        super().__init__(url, backoff, timeout_s, dial)
        self._mechanisms = tuple(mechanisms)
        self._container_id = container_id
        self._limits = limits
        self.detaching: set[LinkHandle] = set()  # closed here, and the broker has not answered
        self._groups: list[list[LinkHandle]] = []  # links that share a session
        self.following: Following | None = None
        self.heir: Connection | None = None  # who has the links when this one is over

    @property
    def node(self) -> str:
        """Name of the node at the other end; '': it did not tell."""
        return str(self.server_properties.get("node", ""))

    # Links

    async def publisher(
        self,
        address: str | None,
        *,
        name: str = "",
        settled: bool = False,
        waiting_max: int = 65_536,
        window_bytes: int | None = None,
        on_link_state: OnLinkState | None = None,
    ) -> Publisher:
        """A publisher to `/queues/:queue` or `/exchanges/:exchange/:routing-key` (each part
        percent-encoded), or to None: then every message says in `to` where it goes.

        `settled`: outcomes are not asked for. `waiting_max`: so many messages wait for credit.
        `window_bytes`: so many bytes of messages, 1 KiB or more, are under way at most; a message
        that is larger goes alone. The address may have a smaller window.
        """
        publisher = Publisher(
            self,
            address,
            name or str(uuid.uuid4()),
            settled,
            waiting_max,
            window_bytes,
            on_link_state,
        )
        await self.attach([publisher.handle])
        return publisher

    async def consumer(
        self,
        address: str,
        *,
        credit: int = 100,
        name: str = "",
        settled: bool = False,
        priority: int | None = None,
        filters: dict[object, object] | None = None,
        window_bytes: int | None = None,
        on_link_state: OnLinkState | None = None,
    ) -> Consumer:
        """A consumer of `/queues/:queue`. No more than `credit` messages wait here for the program;
        with 0 nothing comes but for `receive`. `settled`: they need no outcome, and may be lost.
        `window_bytes`: a message comes while those that have no outcome have fewer bytes together;
        0: one at a time, None: as the queue's settings say.
        """
        consumer = Consumer(
            self,
            address,
            name or str(uuid.uuid4()),
            credit,
            settled,
            priority,
            filters,
            window_bytes,
            on_link_state,
        )
        await self.attach([consumer.handle])
        return consumer

    async def management(self) -> Management:
        """Declares, binds, deletes and looks at queues and exchanges."""
        management = Management(self)
        await self.attach(management.handles)
        return management

    async def attach(self, group: list[LinkHandle]) -> None:
        """Attach links together; raise why they are not up in time."""
        self._check()
        self._groups.append(group)
        line = self._line
        try:
            if line is not None and self.is_open and line.core.is_running:
                line.socket.mark()
                attach_together(line.core, group)
            for handle in group:
                await handle.wait_up(self.timeout_s)
        except BaseException:
            if group in self._groups:
                self._groups.remove(group)
            raise

    def forget(self, handle: LinkHandle) -> None:
        """The link does not come back with the next connection."""
        self._groups = [group for group in self._groups if handle not in group]
        if self.following is not None:
            self.following.forget(handle)

    def take_over(self, arriving: LinkHandle, handle: LinkHandle) -> None:
        """`handle` has the link of `arriving` now."""
        self._groups = [[handle] if arriving in group else group for group in self._groups]

    def inherit(self, groups: list[list[LinkHandle]], error: ClientError) -> None:
        """Links of a connection that is over are to be on this one."""
        for group in groups:
            for handle in group:
                handle.lost(ConnectionLost(str(error)))
                handle.connection = self
            self._groups.append(group)
            line = self._line
            if line is not None and self.is_open:
                self._attach_again(line.core, group)
                line.socket.mark()

    @property
    def has_links(self) -> bool:
        return bool(self._groups or self.detaching)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    # Dialling and closing

    def follow(self, follow: Follow, tls: ssl.SSLContext | None) -> None:
        """Have links follow the leaders of their queues from now on."""

        async def open_to(url: BrokerUrl) -> Connection:
            dial = socket_dial(url, tls) if follow.dial is None else follow.dial(url)
            other = Connection(
                url,
                self._container_id,
                None,
                self.timeout_s,
                self._limits,
                dial,
                self._mechanisms,
            )
            other.following = self.following
            other.heir = self
            await other._dial()
            return other

        self.following = Following(self, follow, open_to)

    async def _prepare_close(self) -> None:
        if self.following is not None and self.following.home is self:
            await self.following.close()

    def _new_line(self) -> Line:
        return Line(Core(self._limits, now_ms(), None, self._open_frame()), self)

    def _carry(self, line: Line) -> None:
        for group in list(self._groups):
            self._attach_again(line.core, group)
        line.socket.mark()

    def _attach_again(self, core: Core, group: list[LinkHandle]) -> None:
        """What the new connection has no room for is over; the others are not."""
        try:
            attach_together(core, group)
        except ClientError as error:
            self._groups.remove(group)
            for handle in group:
                handle.over(error)

    def _open_frame(self) -> Open:
        return Open(
            container_id=self._container_id,
            hostname=self.url.hostname,
            desired_capabilities=list(CAPABILITIES),
            properties={"product": "warren.client"},
        )

    def abort(self, error: ClientError) -> None:
        """Cut the connection: it is over."""
        if self._line is not None:
            self._line.socket.abort()
            self._line = None
        self._end(error)

    def _end(self, error: ClientError) -> None:
        """Nothing comes back any more."""
        if self.error is None:
            self.error = error
        groups, self._groups = self._groups, []
        if self.heir is not None and self.heir.error is None:
            self.heir.inherit(groups, error)
            return
        for group in groups:
            for handle in group:
                handle.over(error)
        if self.following is not None and self.following.home is self:
            self.following.end(error)

    # What the line tells

    def on_lost(self, error: Exception | None) -> None:
        self._closed.set()
        reason = self._reason or ConnectionLost(str(error or "the broker closed the socket"))
        self._line = None
        for handle in list(self.detaching):
            handle.gone()
            handle.over(reason)
        if self._opening is not None:
            self._fail_opening(reason)
            return
        if self._is_closing or self._redial.is_off:
            self._end(reason)
            return
        for group in self._groups:
            for handle in group:
                handle.lost(ConnectionLost(str(reason)))
        self._redial.begin()

    def on_event(self, event: Event) -> None:
        match event:
            case Received():
                _handle_of(event.link.owner).user.on_received(event.transfers)
            case Settled():
                for handle in _home_of(event.session).handles:
                    handle.user.on_settled(event)
            case Flowed():
                _handle_of(event.link.owner).on_flow(event.flow)
            case Withdrawn():
                count = sum(count for _, _, count in event.runs)
                _handle_of(event.link.owner).user.on_withdrawn(count)
            case LinkAttached():
                _handle_of(event.link.owner).on_attached(event.attach)
            case LinkDetached():
                error = peer_error(event.error, "amqp:link:detach-forced")
                self._link_over(_handle_of(event.link.owner), error)
            case LinkFailed():
                failed = PeerError(event.error.condition.value, event.error.text)
                self._link_over(_handle_of(event.link.owner), failed)
            case SessionEnded():
                ended = peer_error(event.error, "amqp:session:ended")
                self._session_over(event.session, ended)
            case SessionFailed():
                broken = PeerError(event.error.condition.value, event.error.text)
                self._session_over(event.session, broken)
            case _:
                self._on_own_event(event)

    def _on_own_event(self, event: Event) -> None:
        """Of the connection itself."""
        match event:
            case MechanismsOffered():
                self._login(event.mechanisms)
            case LoginRefused():
                text = f"the broker refused the login (code {event.code})"
                self._fail_opening(LoginFailed(text))
            case Opened():
                self.server_properties = event.open.properties or {}
                if self._opening is not None and not self._opening.done():
                    self._opening.set_result(None)
            case Closed():
                self._reason = peer_error(event.error, "amqp:connection:closed")
            case Failed():
                self._reason = PeerError(event.error.condition.value, event.error.text)
            case Ended():
                self._reason = self._reason or ConnectionLost("the connection was closed")

    def _login(self, mechanisms: list[str]) -> None:
        line, url = self._line, self.url
        assert line is not None
        responses = {"EXTERNAL": b"", "ANONYMOUS": b"anonymous"}  # EXTERNAL: by the certificate.
        if url.user:
            responses["PLAIN"] = f"\0{url.user}\0{url.password}".encode()
        by_certificate = ("EXTERNAL",) if url.tls else ()
        usual = ("PLAIN",) if url.user else (*by_certificate, "ANONYMOUS")
        for mechanism in self._mechanisms or usual:
            if mechanism in mechanisms and mechanism in responses:
                line.core.login(mechanism, responses[mechanism], url.hostname)
                return
        wanted = ", ".join(self._mechanisms or usual)
        text = f"no mechanism fits: {wanted}: the broker offers {mechanisms}"
        self._fail_opening(LoginFailed(text))

    def _link_over(self, handle: LinkHandle, error: ClientError) -> None:
        """A link ends; its session goes with the last of them."""
        session = handle.session
        handle.on_detached(error)
        if session is not None:
            home = _home_of(session)
            home.handles = [each for each in home.handles if each is not handle]
            if not home.handles:
                session.end()

    def _session_over(self, session: Session, error: ClientError) -> None:
        for handle in _home_of(session).handles:
            handle.on_detached(error)


def _handle_of(owner: object) -> LinkHandle:
    assert isinstance(owner, LinkHandle)
    return owner


def _home_of(session: Session) -> SessionHome:
    return cast(SessionHome, session.owner)
