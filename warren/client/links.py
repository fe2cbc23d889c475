"""One link of the client, over all connections that carry it: attached, lost, attached again.

A `LinkHandle` knows the link of the present connection, if there is one, and tells its `user` (a
publisher, a consumer, a half of management) what comes for it. Every link has a session to itself,
but for the two of management, so that windows and errors of one are nothing to the others.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from warren.client.errors import ClientError, ConnectionLost, PeerError
from warren.client.state import LinkState
from warren.wire.amqp10.codec.performatives import Attach, Flow, Source, Target
from warren.wire.amqp10.connection import Connection as Core
from warren.wire.amqp10.errors import ProtocolError
from warren.wire.amqp10.events import Settled
from warren.wire.amqp10.link import ATTACHED, Link
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.transfers import Transfers

OnLinkState = Callable[[LinkState], None]


class LinkUser(Protocol):
    """What a link is for."""

    def on_up(self, attach: Attach) -> None:
        """The link is attached, perhaps again."""

    def on_down(self, error: ClientError, for_good: bool) -> None:
        """The link is gone; unless for good it will come back."""

    def on_received(self, run: Transfers) -> None: ...

    def on_flow(self, flow: Flow) -> None: ...

    def on_settled(self, event: Settled) -> None: ...

    def on_sent(self, delivery_id: int, count: int) -> None:
        """The next messages that were offered are on their way."""

    def on_withdrawn(self, count: int) -> None:
        """The last messages that were offered are not sent, for the broker took credit back."""


class Movable(Protocol):
    """What a link must be able to do so as to move: a publisher, a consumer."""

    async def rest(self, timeout_s: float) -> bool:
        """Send nothing, ask for nothing. True once nothing is under way any more; False: that has
        not come to be, or the link is gone."""

    def leave(self, left: "LinkHandle") -> None:
        """`left` is the old link now; it is to be detached when nothing needs it."""

    def go_on(self) -> None:
        """After `rest`: on the new link, or on the old one."""


class Follower(Protocol):
    """Moves links to their leaders (`warren.client.following`)."""

    def told(self, handle: "LinkHandle") -> None:
        """The broker has told something of the link."""


class LinkHome(Protocol):
    """The connection of a link (`warren.client.connection`)."""

    timeout_s: float
    detaching: "set[LinkHandle]"

    @property
    def following(self) -> Follower | None: ...

    @property
    def is_open(self) -> bool: ...

    def forget(self, handle: "LinkHandle") -> None: ...

    def take_over(self, arriving: "LinkHandle", handle: "LinkHandle") -> None: ...

    def mark(self) -> None:
        """A link has something to send."""


class Quiet:
    """The user of a link that is not in use yet, or any more."""

    def on_up(self, attach: Attach) -> None:
        """It waits."""

    def on_down(self, error: ClientError, for_good: bool) -> None:
        """Ignore it."""

    def on_received(self, run: Transfers) -> None:
        """It has no credit, so nothing comes."""

    def on_flow(self, flow: Flow) -> None:
        """Its credit is in the link."""

    def on_settled(self, event: Settled) -> None:
        """Nothing was sent."""

    def on_sent(self, delivery_id: int, count: int) -> None:
        """Nothing is sent."""

    def on_withdrawn(self, count: int) -> None:
        """Nothing was offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How the link is attached, each time."""

    name: str
    as_receiver: bool
    source: Source
    target: Target
    snd_settle_mode: int
    properties: dict[str, object] | None = None
    desired_capabilities: list[str] | None = None


class SessionHome:
    """Whose a session is: `Session.owner`."""

    def __init__(self, handles: list["LinkHandle"]) -> None:
        self.handles = handles


class LinkHandle:
    """Invariant: `link` is there while a connection carries it; `error` is set for good."""

    def __init__(
        self,
        connection: LinkHome,
        terms: Terms,
        user: LinkUser,
        on_link_state: OnLinkState | None = None,
    ) -> None:
        self.connection = connection
        self.terms = terms
        self.user = user
        self.state = LinkState()
        self.link: Link | None = None
        self.session: Session | None = None
        self.error: ClientError | None = None
        self.movable: Movable | None = None  # where the link may follow its leader
        self._on_link_state = on_link_state
        self._changed = asyncio.Event()  # up, or over for good
        self._detached = asyncio.Event()

    @property
    def is_up(self) -> bool:
        return self.link is not None and self.link.status == ATTACHED

    def attach(self, session: Session) -> None:
        """Ask the broker for the link in this session."""
        terms = self.terms
        self.session = session
        self.state = replace(self.state, limit_bytes=None)
        self.link = session.attach(
            terms.name,
            terms.as_receiver,
            terms.source,
            terms.target,
            terms.snd_settle_mode,
            terms.properties,
            terms.desired_capabilities,
        )
        self.link.owner = self

    async def wait_up(self, timeout_s: float) -> None:
        """Until the link is attached; raise why it will not be."""
        async with asyncio.timeout(timeout_s):
            while not self.is_up:
                self.check()
                self._changed.clear()
                await self._changed.wait()

    def check(self) -> None:
        """Raise if the link is over for good."""
        if self.error is not None:
            raise self.error

    async def close(self, timeout_s: float) -> None:
        """Detach; the link does not come back."""
        if self.error is not None:
            return
        self.connection.forget(self)
        if self.drop():
            async with asyncio.timeout(timeout_s):
                await self._detached.wait()

    def drop(self) -> bool:
        """Detach, and wait for nothing; whether there is an answer to be waited for."""
        if self.error is not None:
            return False
        session, link = self.session, self.link
        self.over(PeerError("amqp:link:detach-forced", "the link was closed"))
        if session is None or link is None or not self.connection.is_open:
            return False
        session.detach(link)
        self.connection.detaching.add(self)
        self.connection.mark()
        return True

    def replace_by(self, arriving: "LinkHandle") -> "LinkHandle":
        """Be carried by what carries `arriving` from now on; the old link, in a handle of its own.

        Both must be up, and alone in their sessions.
        """
        left = LinkHandle(self.connection, self.terms, Quiet())
        assert self.link is not None and self.session is not None
        assert arriving.link is not None and arriving.session is not None
        left.link, left.session = self.link, self.session
        left.link.owner = left
        left.session.owner = SessionHome([left])
        self.connection.forget(self)
        self.connection.detaching.add(left)
        self.link, self.session = arriving.link, arriving.session
        self.link.owner = self
        self.session.owner = SessionHome([self])
        self.connection = arriving.connection
        self.connection.take_over(arriving, self)
        arriving.link = arriving.session = None
        self._see(arriving.state)
        return left

    # What the connection tells

    def on_attached(self, attach: Attach) -> None:
        self._changed.set()
        self.user.on_up(attach)

    def on_detached(self, error: ClientError) -> None:
        """Refused, or ended by the broker, or the answer to our detach."""
        self.gone()
        self.connection.forget(self)
        self.over(error)

    def on_flow(self, flow: Flow) -> None:
        if flow.properties:
            self._see(self.state.merged(flow.properties))
        self.user.on_flow(flow)

    def _see(self, state: LinkState) -> None:
        """Of the link, as the broker tells it."""
        self.state = state
        if self._on_link_state is not None:
            self._on_link_state(state)
        if self.connection.following is not None:
            self.connection.following.told(self)

    def gone(self) -> None:
        """Nothing is known of the link on the other side any more."""
        self.link = self.session = None
        self.connection.detaching.discard(self)
        self._detached.set()

    def lost(self, error: ConnectionLost) -> None:
        """The connection is gone, and will be reopened."""
        self.gone()
        if self.error is None:
            self.user.on_down(error, False)

    def over(self, error: ClientError) -> None:
        """The link is gone for good."""
        if self.error is None:
            self.error = error
            self.link = None
            self._changed.set()
            self.user.on_down(error, True)


def attach_together(core: Core, handles: list[LinkHandle]) -> None:
    """Attach the links in one new session. ClientError: no session is left, or an attach is larger
    than the broker's frames.
    """
    try:
        session = core.begin()
    except ProtocolError as error:
        raise ClientError(f"too many links on one connection: {error.text}") from error
    session.owner = SessionHome(handles)
    for handle in handles:
        try:
            handle.attach(session)
        except ProtocolError as error:
            session.end()
            raise ClientError(error.text) from error
