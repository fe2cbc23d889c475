"""A publisher: messages out as the broker gives credit, outcomes back.

    outcome = await publisher.publish(Message(b"hello"))
    outcomes = await publisher.publish_many([Message(b"a"), Message(b"b")])

Messages wait here for credit in the order in which they were published. When the connection is
lost, those that were not sent stay and go out with the next one; what was sent and has no outcome
yet fails with ConnectionLost: it may have arrived.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from warren.client.errors import ClientError
from warren.client.links import LinkHandle, OnLinkState, Terms
from warren.client.message import Message
from warren.client.outcome import SENT, Outcome, outcome_of
from warren.client.state import LinkState
from warren.wire.amqp10.events import Settled
from warren.wire.amqp10.link import SENDER_SETTLED, SENDER_UNSETTLED
from warren.wire.amqp10.performatives import Attach, Flow, Source, Target
from warren.wire.amqp10.sender import Run
from warren.wire.amqp10.serial import ahead, plus
from warren.wire.amqp10.transfers import Transfers, store

if TYPE_CHECKING:
    from warren.client.connection import Connection


class _Pending:
    """A message, and who waits for its outcome."""

    __slots__ = ("future", "payload")

    def __init__(self, payload: bytes, future: "asyncio.Future[Outcome]") -> None:
        self.payload = payload
        self.future = future


class Publisher:
    """Made by `Connection.publisher`.

    Invariant: a message is in one of `_waiting`, `_offered` (the core has it, and has not sent it)
    and `_unsettled` until its outcome is known.
    """

    def __init__(
        self,
        connection: "Connection",
        address: str | None,
        name: str,
        settled: bool,
        on_link_state: OnLinkState | None,
    ) -> None:
        terms = Terms(
            name=name,
            as_receiver=False,
            source=Source(),
            target=Target(address=address),
            snd_settle_mode=SENDER_SETTLED if settled else SENDER_UNSETTLED,
        )
        self.handle = LinkHandle(connection, terms, self, on_link_state)
        self.address = address
        self._connection = connection
        self._settled = settled
        self._waiting: deque[_Pending] = deque()
        self._offered: deque[_Pending] = deque()
        self._unsettled: dict[int, _Pending] = {}  # by delivery-id

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
    def unconfirmed(self) -> int:
        """Messages without an outcome, sent or not."""
        return len(self._waiting) + len(self._offered) + len(self._unsettled)

    async def publish(self, message: Message, *, timeout_s: float | None = None) -> Outcome:
        """Send the message and wait for its outcome. TimeoutError: it may have arrived."""
        async with asyncio.timeout(timeout_s):
            return await self.send(message)

    async def publish_many(
        self, messages: Iterable[Message], *, timeout_s: float | None = None
    ) -> list[Outcome]:
        """The same for many at once: as fast as credit comes, outcomes in order."""
        futures = [self.send(each) for each in messages]
        async with asyncio.timeout(timeout_s):
            return list(await asyncio.gather(*futures))

    def send(self, message: Message) -> "asyncio.Future[Outcome]":
        """Have the message sent; the future has its outcome. There is no limit to what waits."""
        self.handle.check()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Pending(message.encode(), future))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._pump)
        return future

    async def close(self) -> None:
        """Detach the link. Outcomes that are not there yet are lost."""
        await self.handle.close(self._connection.timeout_s)

    def _pump(self) -> None:
        """Offer as many messages as there is credit for, as one run."""
        handle = self.handle
        room = self.credit
        taken: list[_Pending] = []
        while self._waiting and len(taken) < room:
            pending = self._waiting.popleft()
            if not pending.future.done():  # Else it was given up before it was sent.
                taken.append(pending)
        if not taken or handle.session is None or handle.link is None:
            return
        self._offered.extend(taken)
        handle.session.offer(handle.link, run_of([each.payload for each in taken], self._settled))
        self._connection.mark()

    # What the link tells

    def on_up(self, attach: Attach) -> None:
        self._pump()

    def on_flow(self, flow: Flow) -> None:
        self._pump()

    def on_sent(self, delivery_id: int, count: int) -> None:
        for place in range(count):
            pending = self._offered.popleft()
            if self._settled:
                _resolve(pending, SENT)
            else:
                self._unsettled[int(plus(delivery_id, place))] = pending

    def on_withdrawn(self, count: int) -> None:
        for _ in range(count):
            self._waiting.appendleft(self._offered.pop())

    def on_settled(self, event: Settled) -> None:
        outcome = outcome_of(event)
        if outcome is None or not event.sent:
            return
        for delivery_id in self._named(int(event.first), int(event.last)):
            _resolve(self._unsettled.pop(delivery_id), outcome)
        if not event.settled:
            count = int(ahead(event.last, event.first)) + 1
            event.session.settle_sent(event.first, count)
            self._connection.mark()

    def _named(self, first: int, last: int) -> list[int]:
        """The deliveries first..last that have no outcome yet."""
        count = int(ahead(last, first)) + 1
        if count <= len(self._unsettled):
            ids = (int(plus(first, place)) for place in range(count))
            return [each for each in ids if each in self._unsettled]
        return [each for each in self._unsettled if 0 <= ahead(each, first) < count]

    def on_received(self, run: Transfers) -> None:
        raise AssertionError("a sender received")

    def on_down(self, error: ClientError, for_good: bool) -> None:
        while self._offered:
            self._waiting.appendleft(self._offered.pop())
        lost, self._unsettled = list(self._unsettled.values()), {}
        if for_good:
            lost += self._waiting
            self._waiting.clear()
        for pending in lost:
            if not pending.future.done():
                pending.future.set_exception(error)


def run_of(payloads: list[bytes], settled: bool) -> Run:
    """The messages as one run with their bytes."""
    stored = [store(each) for each in payloads]
    offsets = [0]
    for each in stored:
        offsets.append(offsets[-1] + len(each))
    run = Run(1, 1, len(stored), settled)
    table = b"".join(each.to_bytes(4, "little") for each in offsets)
    run.put(b"".join(stored), 0, table, 0, len(stored))
    return run


def _resolve(pending: _Pending, outcome: Outcome) -> None:
    if not pending.future.done():  # Whoever waited may have given up.
        pending.future.set_result(outcome)
