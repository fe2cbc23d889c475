"""A consumer of AMQP 0-9-1: deliveries as far as its prefetch allows, and their settlement.

    async for delivery in consumer:          # ends when the channel does
        handle(delivery.message)
        delivery.accept()

    await consumer.pause()                   # basic.cancel: from here on nothing new comes
    consumer.resume()                        # basic.consume again

    consumer = await connection.consumer("orders", credit=0)
    deliveries = await consumer.receive(10, timeout_s=1.0)     # what is there within a second
    delivery = await consumer.fetch()                          # basic.get: None if there is none

When the connection is lost, deliveries that were not settled go back to their queue and come again;
those that wait here are forgotten, and settling an old one does nothing. Acknowledgements of one
turn of the loop go out together, as one basic.ack where they are the oldest.
"""

import asyncio
from typing import Final

from warren.client.amqp091.channel import Answer, ChannelHandle, ChannelHome
from warren.client.amqp091.errors import ReplyError
from warren.client.amqp091.message import Message, decode_content
from warren.client.errors import ClientError, ConnectionLost
from warren.client.inbox import Deliveries, Inbox
from warren.wire.amqp091.client_events import Arrived
from warren.wire.amqp091.contents import DELIVER, delivery_tag, method_id, method_payload
from warren.wire.amqp091.events import ACK, NACK, REJECT, Settles
from warren.wire.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    Method,
    decode_method,
)
from warren.wire.buffer import read_i32_le

CREDIT_MAX: Final = 65_535  # basic.qos has 16 bits
SETTLED_WAITING_MAX: Final = 10_000  # of deliveries without acknowledgement: reading stops above it
PRIORITY: Final = "x-priority"


class Delivery:
    """One message, and the way to say what became of it. Only the first word counts."""

    __slots__ = ("_consumer", "_content", "_epoch", "_message", "_method", "_open", "delivery_tag")

    def __init__(
        self, consumer: "Consumer", epoch: int, tag: int, content: bytes, open_: bool
    ) -> None:
        self.delivery_tag = tag
        self._consumer = consumer
        self._epoch = epoch  # of the channel that it came on
        self._content = content
        self._open = open_
        self._message: Message | None = None
        self._method: BasicDeliver | BasicGetOk | None = None

    @property
    def message(self) -> Message:
        if self._message is None:
            self._message = decode_content(self._content)
        return self._message

    @property
    def content(self) -> bytes:
        """The frames as they came, for who forwards them (`warren.wire.amqp091.contents`)."""
        return self._content

    @property
    def redelivered(self) -> bool:
        return self._named().redelivered

    @property
    def exchange(self) -> str:
        return self._named().exchange

    @property
    def routing_key(self) -> str:
        return self._named().routing_key.decode("utf-8", "surrogateescape")

    def accept(self) -> None:
        """basic.ack: it is done with, and leaves the queue."""
        self._settle(ACK, False)

    def release(self) -> None:
        """basic.nack with requeue: back to the queue."""
        self._settle(NACK, True)

    def reject(self) -> None:
        """basic.reject: it cannot be processed; it is dead-lettered, or dropped."""
        self._settle(REJECT, False)

    def _named(self) -> BasicDeliver | BasicGetOk:
        if self._method is None:
            method = decode_method(method_payload(self._content, 0))
            assert isinstance(method, (BasicDeliver, BasicGetOk))
            self._method = method
        return self._method

    def _settle(self, kind: int, requeue: bool) -> None:
        if self._open:
            self._open = False
            self._consumer._settle(self._epoch, self.delivery_tag, kind, requeue)


class Consumer(Deliveries[Delivery]):
    """Made by `Connection.consumer`.

    Invariant: what came and is not settled is at most `_credit` messages of a `basic.consume`.
    Tags up to `_done` are settled, those in `_ahead` too.
    """

    def __init__(
        self,
        connection: ChannelHome,
        queue: str,
        credit: int,
        name: str,
        settled: bool,
        exclusive: bool,
        priority: int | None,
        arguments: dict[str, object],
        paused: bool = False,
    ) -> None:
        if not 0 <= credit <= CREDIT_MAX:
            raise ValueError(f"credit {credit}: allowed: 0 to {CREDIT_MAX}")
        if priority is not None:
            arguments = arguments | {PRIORITY: priority}
        self.queue = queue
        self.handle = ChannelHandle(connection, self)
        self._connection = connection
        self._consume = BasicConsume(
            queue, name, no_ack=settled, exclusive=exclusive, arguments=arguments
        )
        self._name = name
        self._settled = settled
        self._credit = credit
        self._wanted = credit  # prefetch of the basic.consume that is to be there; 0: none
        self._paused = paused
        self._is_up = False  # the channel is open
        self._consuming = False  # basic.consume sent, and no basic.cancel
        self._epoch = 0  # counts the channels
        self._inbox: Inbox[Delivery] = Inbox(self.handle.check)
        self._unsettled = 0
        self._done = 0
        self._ahead: set[int] = set()
        self._acked: list[int] = []  # in this turn

    @property
    def unsettled(self) -> int:
        """Deliveries that came on this connection and have no outcome."""
        return self._unsettled

    # Taking deliveries

    async def receive(self, count: int = 1, *, timeout_s: float = 1.0) -> list[Delivery]:
        """Up to `count` deliveries: at once if they are there, else what comes within the time.

        For a consumer with credit 0. It consumes for that time with a prefetch of what is missing,
        so that nothing comes while no caller waits for it.
        """
        if self._credit:
            raise ClientError("receive is for consumers with credit 0; use get")
        if not 0 < count <= CREDIT_MAX:
            raise ValueError(f"count {count}: allowed: 1 to {CREDIT_MAX}")
        self._wanted = max(0, count - len(self._inbox))
        self._begin()
        try:
            await self._inbox.until(count, timeout_s)
        except TimeoutError:
            await self._cancel()  # What is on its way comes before the answer.
        finally:
            self._wanted = 0
            await self._cancel()
        return [self._take() for _ in range(min(count, len(self._inbox)))]

    async def fetch(self) -> Delivery | None:
        """basic.get: the next message of the queue, or None: there is none at the moment."""
        request = BasicGet(self.queue, self._settled)
        epoch = self._epoch
        answer = await self.handle.ask(request, BasicGetOk.identity, BasicGetEmpty.identity)
        if not isinstance(answer, bytes):
            return None
        method = decode_method(method_payload(answer, 0))
        assert isinstance(method, BasicGetOk)
        return self._made(epoch, method.delivery_tag, answer)

    def _taken(self) -> None:
        if self._settled and len(self._inbox) * 2 < SETTLED_WAITING_MAX:
            self._connection.let_read(self)

    # Consuming

    async def pause(self) -> None:
        """Stop: after this returns nothing comes any more but what is here already."""
        self._paused = True
        await self._cancel()

    def resume(self) -> None:
        """Go on, after `pause`."""
        self._paused = False
        self._begin()

    async def close(self) -> None:
        """Close the channel: deliveries that were not settled go back to the queue."""
        await self.handle.close()

    def _begin(self) -> None:
        """Consume, if that is wanted and possible."""
        if not self._wanted or self._paused or self._consuming or not self._is_up:
            return
        self._consuming = True
        qos = BasicQos(0, self._wanted, False)
        self.handle.request(qos, frozenset({BasicQosOk.identity}), self._ignored)
        answers = frozenset({BasicConsumeOk.identity})
        self.handle.request(self._consume, answers, self._consumed)

    def _consumed(self, answer: Answer) -> None:
        if isinstance(answer, Method) and not self.handle.is_ready:
            self.handle.set_ready()

    def _ignored(self, answer: Answer) -> None:
        """No caller waits for this answer: an error closes the channel."""

    async def _cancel(self) -> None:
        """Consume no more; returns when nothing is on its way."""
        if not self._consuming:
            return
        self._consuming = False
        try:
            await self.handle.ask(BasicCancel(self._name, False), BasicCancelOk.identity)
        except ConnectionLost:
            if self.handle.error is not None:
                raise
            # Nothing comes over a lost connection; with the next one we do not consume.

    # Settling

    def _settle(self, epoch: int, tag: int, kind: int, requeue: bool) -> None:
        core = self.handle.core
        if epoch != self._epoch or core is None or self.handle.error is not None:
            return
        self._unsettled -= 1
        if kind == ACK:
            if not self._acked:
                asyncio.get_running_loop().call_soon(self.flush)
            self._acked.append(tag)
        else:
            core.settle(self.handle.number, kind, tag, False, requeue)
            self._note_done(tag)
            self._connection.mark()

    def flush(self) -> None:
        """Send the acknowledgements of this turn: the oldest deliveries as one."""
        acked, self._acked = self._acked, []
        core, number = self.handle.core, self.handle.number
        if not acked or core is None:
            return
        for tag in acked:
            self._note_done(tag)
        oldest = [tag for tag in acked if tag <= self._done]
        if oldest:
            core.settle(number, ACK, max(oldest), True, False)
        for tag in acked:
            if tag > self._done:
                core.settle(number, ACK, tag, False, False)
        self._connection.mark()

    def _note_done(self, tag: int) -> None:
        ahead = self._ahead
        ahead.add(tag)
        while self._done + 1 in ahead:
            self._done += 1
            ahead.remove(self._done)

    # What the channel tells

    def on_up(self) -> None:
        self._epoch += 1
        self._is_up = True
        if self._wanted and not self._paused:
            self._begin()
        else:
            self.handle.set_ready()

    def on_arrived(self, run: Arrived) -> None:
        offsets, data, epoch = run.offsets, run.data, self._epoch
        start = int(read_i32_le(offsets, 0))
        for place in range(4, len(offsets), 4):
            end = int(read_i32_le(offsets, place))
            content = data[start:end]
            start = end
            if method_id(content, 0) == DELIVER:
                self._inbox.arrived.append(self._made(epoch, delivery_tag(content, 0), content))
            else:
                self.handle.answered(method_id(content, 0), content)
        if self._settled and len(self._inbox) > SETTLED_WAITING_MAX:
            self._connection.stop_reading(self)
        self._inbox.tell()

    def _made(self, epoch: int, tag: int, content: bytes) -> Delivery:
        if not self._settled:
            self._unsettled += 1
        return Delivery(self, epoch, tag, content, not self._settled)

    def on_told(self, method: Method) -> None:
        if isinstance(method, BasicCancel):
            self._consuming = False
            text = f"the broker cancelled the consumer of queue '{self.queue}'"
            self.handle.drop(ReplyError(404, text))

    def on_settled(self, run: Settles) -> None:
        """Never: nothing is published here."""

    def on_writable(self) -> None:
        """Nothing waits to be sent."""

    def on_down(self, error: ClientError, for_good: bool) -> None:
        self._inbox.keep(lambda each: not each._open)
        self._connection.let_read(self)
        self._is_up = self._consuming = False
        self._unsettled = 0
        self._done = 0
        self._ahead = set()
        self._acked = []
        self._inbox.tell()
