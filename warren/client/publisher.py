"""A publisher: messages out as the broker gives credit, outcomes back.

    outcome = await publisher.publish(Message(b"hello"))
    outcomes = await publisher.publish_many([Message(b"a"), Message(b"b")])

Messages wait here for credit in the order in which they were published, at most `waiting_max` of
them: then `send` raises PublisherFull, and `publish` and `ready` wait. When the connection is
lost, those that were not sent stay and go out with the next one; what was sent and has no outcome
yet fails with ConnectionLost: it may have arrived.
"""

import asyncio
import struct
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate
from typing import Final

from warren.client.errors import ClientError
from warren.client.links import LinkHandle, LinkHome, OnLinkState, Terms
from warren.client.message import Message
from warren.client.outbox import Outbox
from warren.client.outcome import Outcome, outcome_of
from warren.client.state import LinkState
from warren.wire.amqp10.codec.performatives import Attach, Flow, Source, Target
from warren.wire.amqp10.codec.serial import ahead
from warren.wire.amqp10.codec.values import ULong
from warren.wire.amqp10.events import Settled
from warren.wire.amqp10.link import SENDER_SETTLED, SENDER_UNSETTLED, Link
from warren.wire.amqp10.sender import Run
from warren.wire.amqp10.transfers import Transfers, store

ID_MASK: Final = 0xFFFFFFFF  # delivery-ids wrap
WINDOW_BYTES: Final = "warren:producer-window-bytes"


class Publisher:
    """Made by `Connection.publisher`.

    Invariant: the outbox holds a message until its outcome is known: it waits for credit, the core
    has it and has not sent it, or it was sent.
    """

    def __init__(
        self,
        connection: LinkHome,
        address: str | None,
        name: str,
        settled: bool,
        waiting_max: int,
        window_bytes: int | None,
        on_link_state: OnLinkState | None,
    ) -> None:
        terms = Terms(
            name=name,
            as_receiver=False,
            source=Source(),
            target=Target(address=address),
            snd_settle_mode=SENDER_SETTLED if settled else SENDER_UNSETTLED,
            properties=None if window_bytes is None else {WINDOW_BYTES: ULong(window_bytes)},
        )
        self.handle = LinkHandle(connection, terms, self, on_link_state)
        self.handle.movable = self
        self.address = address
        self._connection = connection
        self._settled = settled
        self._outbox = Outbox(waiting_max, ID_MASK)
        self._counted: Link | None = None
        self._sent_bytes = 0  # on that link
        self._scheduled = False
        self._is_resting = False
        self._calm = asyncio.Event()  # less is under way

    @property
    def state(self) -> LinkState:
        """What the broker told last of this link."""
        return self.handle.state

    @property
    def credit(self) -> int:
        """How many messages may be sent now."""
        link = self.handle.link
        if link is None or link.sender is None:
            return 0
        return max(0, int(link.sender.credit - link.sender.waiting))

    @property
    def waiting(self) -> int:
        """Messages that wait for credit."""
        return self._outbox.waiting_count

    @property
    def accepted(self) -> int:
        """Messages that were accepted so far, over all connections."""
        return self._outbox.accepted_count

    @property
    def unconfirmed(self) -> int:
        """Messages without an outcome, sent or not."""
        return self._outbox.unconfirmed

    async def publish(self, message: Message, *, timeout_s: float | None = None) -> Outcome:
        """Send the message and wait for its outcome. TimeoutError: it may have arrived."""
        async with asyncio.timeout(timeout_s):
            await self.ready()
            return await self.send(message)

    async def publish_many(
        self, messages: Iterable[Message], *, timeout_s: float | None = None
    ) -> list[Outcome]:
        """The same for many at once: as fast as credit comes, outcomes in order."""
        encoded = [each.encode() for each in messages]
        sent: list[asyncio.Future[list[Outcome]]] = []
        async with asyncio.timeout(timeout_s):
            while encoded:
                room = await self.ready()
                sent.append(self.send_encoded(encoded[:room]))
                encoded = encoded[room:]
            return [outcome for future in sent for outcome in await future]

    def send(self, message: Message) -> "asyncio.Future[Outcome]":
        """Have the message sent; the future has its outcome. PublisherFull: too many wait."""
        self.handle.check()
        future = self._outbox.put_one(message.encode())
        self._schedule()
        return future

    def send_encoded(self, messages: list[bytes]) -> "asyncio.Future[list[Outcome]]":
        """The same for many messages of `Message.encode`, with one future for all outcomes."""
        self.handle.check()
        future = self._outbox.put(messages)
        self._schedule()
        return future

    async def ready(self, count: int = 1) -> int:
        """Wait until `count` more messages may wait for credit; how many more may."""
        room = await self._outbox.wait_room(count)
        self.handle.check()
        return room

    async def close(self) -> None:
        """Detach the link. Outcomes that are not there yet are lost."""
        await self.handle.close(self._connection.timeout_s)

    def _schedule(self) -> None:
        """Offer at the end of this turn of the loop."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Offer as many messages as there is credit for, as one run."""
        self._scheduled = False
        handle = self.handle
        if self._is_resting or handle.session is None or handle.link is None:
            return
        if self._counted is not handle.link:
            self._counted, self._sent_bytes = handle.link, 0
        limit = handle.state.limit_bytes
        room_bytes = None if limit is None else limit - self._sent_bytes
        taken = self._outbox.take(self.credit, room_bytes)
        if taken:
            if limit is not None:
                self._sent_bytes += sum(map(len, taken))
            handle.session.offer(handle.link, run_of(taken, self._settled))
            handle.connection.mark()

    # Following the leader (`warren.client.links.Movable`)

    async def rest(self, timeout_s: float) -> bool:
        """Send nothing until `go_on`; True once all that was sent has its outcome."""
        self._is_resting = True
        link = self.handle.link
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.handle.link is link and self._outbox.in_flight:
                    self._calm.clear()
                    await self._calm.wait()
        return self.handle.link is link and not self._outbox.in_flight

    def leave(self, left: LinkHandle) -> None:
        left.drop()

    def go_on(self) -> None:
        self._is_resting = False
        self._pump()

    # What the link tells

    def on_up(self, attach: Attach) -> None:
        self._pump()

    def on_flow(self, flow: Flow) -> None:
        self._pump()

    def on_sent(self, delivery_id: int, count: int) -> None:
        self._outbox.sent(delivery_id, count, self._settled)
        self._calm.set()

    def on_withdrawn(self, count: int) -> None:
        self._sent_bytes -= self._outbox.withdrawn(count)
        self._calm.set()

    def on_settled(self, event: Settled) -> None:
        outcome = outcome_of(event)
        if outcome is None or not event.sent:
            return
        self._outbox.settled(int(event.first), int(event.last), outcome)
        self._calm.set()
        if self.handle.state.limit_bytes is not None:
            self._schedule()  # A message larger than the window may go when nothing else is out.
        if not event.settled:
            count = int(ahead(event.last, event.first)) + 1
            event.session.settle_sent(event.first, count)
            self.handle.connection.mark()

    def on_received(self, run: Transfers) -> None:
        raise AssertionError("a sender received")

    def on_down(self, error: ClientError, for_good: bool) -> None:
        self._outbox.lost(error, for_good)
        self._calm.set()


def run_of(payloads: list[bytes], settled: bool) -> Run:
    """The messages as one run with their bytes."""
    stored = [store(each) for each in payloads]
    offsets = list(accumulate(map(len, stored), initial=0))
    run = Run(1, 1, len(stored), settled)
    table = struct.pack(f"<{len(offsets)}I", *offsets)
    run.put(b"".join(stored), 0, table, 0, len(stored))
    return run
