"""A consumer: deliveries as far as it grants credit, and their outcomes.

    async for delivery in consumer:          # ends when the link does
        handle(delivery.message)
        delivery.accept()

    await consumer.pause()                   # from here on nothing new comes
    consumer.resume()

    consumer = await connection.consumer("/queues/q", credit=0)
    deliveries = await consumer.receive(10, timeout_s=1.0)     # what is there within a second

When the connection is lost, deliveries without an outcome go back to their queue and come again;
those that wait here are forgotten, and settling an old one does nothing.
"""

import asyncio
from typing import Final

from warren.client.errors import ClientError
from warren.client.inbox import Deliveries, Inbox
from warren.client.links import LinkHandle, LinkHome, OnLinkState, Terms
from warren.client.message import Message, try_decode
from warren.client.state import LinkState
from warren.wire.amqp10.codec.performatives import (
    Attach,
    DeliveryState,
    Error,
    Flow,
    Modified,
    Rejected,
    Source,
    Target,
)
from warren.wire.amqp10.codec.values import Int
from warren.wire.amqp10.events import Settled
from warren.wire.amqp10.link import SENDER_SETTLED, SENDER_UNSETTLED
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.settling import (
    ACCEPTED,
    MODIFIED,
    REJECTED,
    RELEASED,
)
from warren.wire.amqp10.transfers import Transfers, payload_at
from warren.wire.buffer import read_i32_le

PRIORITY: Final = "rabbitmq:priority"
WINDOW_BYTES: Final = "warren:consumer-window-bytes"
RENEWALS: Final = 16  # of a large credit in a round trip, so that a slow line is never idle
RENEWED_MIN: Final = 32  # messages of a small credit, at most half of it: each flow costs CPU


class Hold:
    """Deliveries of one link that have no outcome."""

    __slots__ = ("count", "handle")

    def __init__(self, handle: LinkHandle) -> None:
        self.handle = handle
        self.count = 0


class Delivery:
    """One message, and the way to say what became of it. Only the first word counts."""

    __slots__ = ("_consumer", "_message", "_open", "_payload", "_session", "delivery_id")

    def __init__(
        self,
        consumer: "Consumer",
        session: Session,
        delivery_id: int,
        payload: bytes,
        open_: bool,
    ) -> None:
        self.delivery_id = delivery_id
        self._payload = payload
        self._message: Message | None = None
        self._consumer = consumer
        self._session = session
        self._open = open_

    @property
    def message(self) -> Message:
        if self._message is None:
            self._message = try_decode(self._payload, 0, len(self._payload))
        return self._message

    @property
    def payload(self) -> bytes:
        """The sections as they came, for a program that forwards them."""
        return self._payload

    def accept(self) -> None:
        """It is done with, and leaves the queue."""
        self._settle(ACCEPTED)

    def release(self) -> None:
        """Back to the queue, as if it had not been delivered."""
        self._settle(RELEASED)

    def reject(self, condition: str = "", description: str = "") -> None:
        """It cannot be processed: it is dead-lettered, or dropped."""
        error = Error(condition=condition, description=description) if condition else None
        self._settle(REJECTED, Rejected(error=error))

    def modify(
        self,
        *,
        failed: bool = True,
        undeliverable_here: bool = False,
        annotations: dict[str, object] | None = None,
    ) -> None:
        """Back to the queue as a failed attempt; or not to come here again: dead-lettered."""
        state = Modified(
            delivery_failed=failed,
            undeliverable_here=undeliverable_here,
            message_annotations=annotations,
        )
        self._settle(MODIFIED, state)

    def _settle(self, outcome: int, state: DeliveryState | None = None) -> None:
        if self._open:
            self._open = False
            self._consumer._settle(self._session, self.delivery_id, outcome, state)


class Left:
    """The user of a link that its consumer has left, while it holds deliveries of it."""

    def __init__(self, consumer: "Consumer", session: Session, handle: LinkHandle) -> None:
        self._consumer = consumer
        self._session = session
        self._handle = handle

    def on_received(self, run: Transfers) -> None:
        """It came although credit had been taken back."""
        self._consumer.take_in(run, self._session, self._handle)

    def on_down(self, error: ClientError, for_good: bool) -> None:
        self._consumer.lost(self._handle)

    def on_up(self, attach: Attach) -> None:
        """It was."""

    def on_flow(self, flow: Flow) -> None:
        """It asks for nothing."""

    def on_settled(self, event: Settled) -> None:
        """Ours say what they say."""

    def on_sent(self, delivery_id: int, count: int) -> None:
        raise AssertionError("a receiver sent")

    def on_withdrawn(self, count: int) -> None:
        raise AssertionError("a receiver sent")


class Consumer(Deliveries[Delivery]):
    """Made by `Connection.consumer`.

    Invariant: granted credit and what waits here are together at most `_credit`, while it is not
    paused and nothing is asked for by `receive`.
    """

    def __init__(
        self,
        connection: LinkHome,
        address: str,
        name: str,
        credit: int,
        settled: bool,
        priority: int | None,
        filters: dict[object, object] | None,
        window_bytes: int | None,
        on_link_state: OnLinkState | None,
    ) -> None:
        properties: dict[str, object] = {}
        if priority is not None:
            properties[PRIORITY] = Int(priority)
        if window_bytes is not None:
            properties[WINDOW_BYTES] = window_bytes
        terms = Terms(
            name=name,
            as_receiver=True,
            source=Source(address=address, filter=filters),
            target=Target(),
            snd_settle_mode=SENDER_SETTLED if settled else SENDER_UNSETTLED,
            properties=properties or None,
        )
        self.handle = LinkHandle(connection, terms, self, on_link_state)
        self.handle.movable = self
        self.address = address
        self._connection = connection
        self._credit = credit
        self._renewed = renewed_by(credit)
        self._paused = False
        self._wanted = 0  # by `receive`
        self._is_resting = False
        self._inbox: Inbox[Delivery] = Inbox(self.handle.check)
        self._holds: dict[Session, Hold] = {}  # of links that live

    @property
    def state(self) -> LinkState:
        """What the broker told last of this link."""
        return self.handle.state

    @property
    def available(self) -> int:
        """Messages that the queue had ready when the broker told last."""
        link = self.handle.link
        return 0 if link is None or link.receiver is None else int(link.receiver.available)

    @property
    def unsettled(self) -> int:
        """Deliveries that came on a link that lives and have no outcome."""
        return sum(each.count for each in self._holds.values())

    # Taking deliveries

    async def receive(self, count: int = 1, *, timeout_s: float = 1.0) -> list[Delivery]:
        """Up to `count` deliveries: at once if they are there, else what comes within the time.

        For a consumer with credit 0. What the broker may not have sent by then is called off by a
        drain, so that nothing comes while no caller waits for it.
        """
        if self._credit:
            raise ClientError("receive is for consumers with credit 0; use get")
        self._wanted = count
        self._grant(count - len(self._inbox))
        try:
            await self._inbox.until(count, timeout_s)
        except TimeoutError:
            await self._drain()
        finally:
            self._wanted = 0
        return [self._take() for _ in range(min(count, len(self._inbox)))]

    async def _drain(self) -> None:
        """Use up the credit: what is on its way comes, then nothing more."""
        link, session = self.handle.link, self.handle.session
        if link is None or link.receiver is None or session is None:
            return
        session.grant(link, link.receiver.credit, True)
        self.handle.connection.mark()
        async with asyncio.timeout(self._connection.timeout_s):
            while self.handle.link is link and link.receiver.credit > 0:
                await self._inbox.wait()
        if self.handle.link is link:
            session.grant(link, 0)

    # Credit

    async def pause(self) -> None:
        """Stop: after this returns nothing comes any more but what is here already."""
        self._paused = True
        await self._take_back(self._connection.timeout_s)

    async def _take_back(self, timeout_s: float) -> bool:
        """Ask for nothing, and wait until the broker knows; whether the link is still there."""
        link, session = self.handle.link, self.handle.session
        if link is None or link.receiver is None or session is None:
            return False
        session.grant(link, 0, False, True)
        self.handle.connection.mark()
        async with asyncio.timeout(timeout_s):
            while self.handle.link is link and link.receiver.overrun > 0:
                await self._inbox.wait()
        return self.handle.link is link

    def resume(self) -> None:
        """Go on, after `pause`."""
        self._paused = False
        self._taken()

    def set_credit(self, credit: int) -> None:
        """How many deliveries may wait here from now on."""
        self._credit = credit
        self._renewed = renewed_by(credit)
        if not self._paused:
            self._grant(max(0, credit - len(self._inbox)))

    def _taken(self) -> None:
        """Fill the credit up again when `renewed_by` of it is used."""
        link = self.handle.link
        if self._paused or not self._credit or link is None or link.receiver is None:
            return
        wanted = self._credit - len(self._inbox)
        if wanted - link.receiver.credit >= self._renewed:
            self._grant(wanted)

    def _grant(self, credit: int) -> None:
        link, session = self.handle.link, self.handle.session
        if self._is_resting or link is None or session is None:
            return
        if credit >= 0 and self.handle.is_up:
            session.grant(link, credit)
            self.handle.connection.mark()

    # Outcomes

    def _settle(
        self, session: Session, delivery_id: int, outcome: int, state: DeliveryState | None
    ) -> None:
        hold = self._holds.get(session)
        if hold is None:
            return
        hold.count -= 1
        session.settle(delivery_id, 1, outcome, state)
        hold.handle.connection.mark()
        self._let_go(session, hold)

    def _let_go(self, session: Session, hold: "Hold") -> None:
        """Detach a link that was left, once nothing is held of it."""
        if hold.handle is not self.handle and not hold.count:
            del self._holds[session]
            hold.handle.drop()

    async def close(self) -> None:
        """Detach the link: deliveries without an outcome go back to the queue."""
        for hold in list(self._holds.values()):
            if hold.handle is not self.handle:
                hold.handle.drop()
        await self.handle.close(self._connection.timeout_s)

    # Following the leader (`warren.client.links.Movable`)

    async def rest(self, timeout_s: float) -> bool:
        """Ask for nothing until `go_on`; True once nothing is on its way any more. Not while
        `receive` waits."""
        self._is_resting = True
        if self._wanted:
            return False
        try:
            return await self._take_back(timeout_s)
        except TimeoutError:
            return False

    def leave(self, left: LinkHandle) -> None:
        """What is held of the old link is settled there, and then it goes."""
        session = left.session
        assert session is not None
        left.user = Left(self, session, left)
        hold = self._holds.setdefault(session, Hold(left))
        hold.handle = left
        self._let_go(session, hold)

    def go_on(self) -> None:
        self._is_resting = False
        if self._wanted:
            self._grant(self._wanted - len(self._inbox))
        else:
            self._taken()

    # What the link tells

    def on_up(self, attach: Attach) -> None:
        self._grant(0 if self._paused else self._credit)

    def on_received(self, run: Transfers) -> None:
        session = self.handle.session
        if session is not None:
            self.take_in(run, session, self.handle)
            self._taken()

    def take_in(self, run: Transfers, session: Session, handle: LinkHandle) -> None:
        """Messages came on this link."""
        for place in range(int(run.count)):
            start = int(read_i32_le(run.offsets, 4 * place))
            end = int(read_i32_le(run.offsets, 4 * place + 4))
            payload = run.data[int(payload_at(run.data, start)) : end]
            delivery_id = int(run.id_at(place))
            delivery = Delivery(self, session, delivery_id, payload, not run.settled)
            self._inbox.arrived.append(delivery)
        if not run.settled:
            self._holds.setdefault(session, Hold(handle)).count += int(run.count)
        link = handle.link
        if link is not None and link.receiver is not None:
            link.receiver.unconfirmed = 0  # Grants are our own, and do not wait for outcomes.
        self._inbox.tell()

    def on_flow(self, flow: Flow) -> None:
        link = self.handle.link
        if link is not None and link.receiver is not None and flow.link_credit == 0:
            link.receiver.overrun = 0  # The broker has seen that we took credit back.
        self._inbox.tell()

    def on_settled(self, event: Settled) -> None:
        """The broker settled deliveries by itself; ours say what they say."""

    def on_sent(self, delivery_id: int, count: int) -> None:
        raise AssertionError("a receiver sent")

    def on_withdrawn(self, count: int) -> None:
        raise AssertionError("a receiver sent")

    def on_down(self, error: ClientError, for_good: bool) -> None:
        self.lost(self.handle)

    def lost(self, handle: LinkHandle) -> None:
        """The link is gone, and what is held of it goes back to the queue."""
        for session, hold in list(self._holds.items()):
            if hold.handle is handle:
                del self._holds[session]
        self._inbox.keep(lambda each: not each._open or each._session in self._holds)
        self._inbox.tell()


def renewed_by(credit: int) -> int:
    """Messages to be used of a credit before it is filled up again. What was used and not granted
    again is missing on the line for a round trip."""
    return max(credit // RENEWALS, min((credit + 1) // 2, RENEWED_MIN))
