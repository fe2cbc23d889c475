"""One link of the client, over all connections that carry it: attached, lost, attached again.

A `LinkHandle` knows the link of the present connection, if there is one, and tells its `user` (a
publisher, a consumer, a half of management) what comes for it. Every link has a session to itself,
but for the two of management, so that windows and errors of one are nothing to the others.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from warren.client.errors import ClientError, ConnectionLost, PeerError
from warren.client.state import LinkState
from warren.wire.amqp10.connection import Connection as Core
from warren.wire.amqp10.errors import ProtocolError
from warren.wire.amqp10.events import Settled
from warren.wire.amqp10.link import ATTACHED, Link
from warren.wire.amqp10.performatives import Attach, Flow, Source, Target
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.transfers import Transfers

if TYPE_CHECKING:
    from warren.client.connection import Connection

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
        connection: "Connection",
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
        session, link = self.session, self.link
        self.connection.forget(self)
        self.over(PeerError("amqp:link:detach-forced", "the link was closed"))
        if session is None or link is None or not self.connection.is_open:
            return
        session.detach(link)
        self.connection.detaching.add(self)
        self.connection.mark()
        async with asyncio.timeout(timeout_s):
            await self._detached.wait()

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
            self.state = self.state.merged(flow.properties)
            if self._on_link_state is not None:
                self._on_link_state(self.state)
        self.user.on_flow(flow)

    def gone(self) -> None:
        """Nothing is known of the link on the other side any more."""
        self.link = self.session = None
        self.connection.detaching.discard(self)
        self._detached.set()

    def lost(self, error: ConnectionLost) -> None:
        """The connection is gone, and will be made anew."""
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
