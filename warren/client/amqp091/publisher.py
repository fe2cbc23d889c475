"""A publisher of AMQP 0-9-1: messages out, the broker's confirms back as outcomes.

    publisher = await connection.publisher("", "orders")        # exchange and routing key
    outcome = await publisher.publish(Message(b"hello"))
    outcomes = await publisher.publish_many([Message(b"a"), Message(b"b")])

A basic.ack is `accepted`, a basic.nack `rejected`; a message that no queue took comes back and is
`released`, with the broker's reply code. No more than `window` messages are on their way without a
confirm; the others wait here, at most `waiting_max` of them, while the socket is full or the broker
has blocked the connection. When that is lost, those that were not sent stay and go out with the
next one; what was sent and has no confirm yet fails with ConnectionLost: it may have arrived.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from warren.client.amqp091.channel import Answer, ChannelHandle, ChannelHome
from warren.client.amqp091.errors import ReplyError
from warren.client.amqp091.message import Message, decode_content
from warren.client.errors import ClientError
from warren.client.outbox import Outbox
from warren.client.outcome import ACCEPTED_OUTCOME, Outcome
from warren.wire.amqp091.client_events import Arrived
from warren.wire.amqp091.contents import content_parts, method_payload
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.events import ACK, Settles
from warren.wire.amqp091.methods import (
    BasicReturn,
    ChannelFlow,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    decode_method,
)
from warren.wire.buffer import read_i32_le

TAG_MASK: Final = (1 << 63) - 1
WRITE_BYTES: Final = 256 * 1024  # before the socket is asked whether it is full
SLICE_MAX: Final = 256  # messages in one go
REJECTED_OUTCOME: Final = Outcome("rejected")

OnReturned = Callable[[Message, ReplyError], None]


class Publisher:
    """Made by `Connection.publisher`.

    Invariant: `_returnable` are the mandatory messages on their way that have not come back;
    `_returned` are outcomes of those that have, until their confirm.
    """

    def __init__(
        self,
        connection: ChannelHome,
        exchange: str,
        routing_key: str,
        mandatory: bool,
        settled: bool,
        window: int,
        waiting_max: int,
        on_returned: OnReturned | None,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.handle = ChannelHandle(connection, self)
        self._connection = connection
        self._mandatory = mandatory
        self._settled = settled
        self._window = window
        self._on_returned = on_returned
        self._outbox = Outbox(waiting_max, TAG_MASK)
        self._next_tag = 1
        self._returnable: dict[int, bytes] = {}
        self._returned: dict[int, Outcome] = {}
        self._slice = 16  # messages, so that they are about WRITE_BYTES
        self._flow = True  # channel.flow
        self._scheduled = False

    @property
    def waiting(self) -> int:
        """Messages that have not been sent."""
        return self._outbox.waiting_count

    @property
    def accepted(self) -> int:
        """Messages that were accepted so far, over all connections."""
        return self._outbox.accepted_count

    @property
    def unconfirmed(self) -> int:
        """Messages without an outcome, sent or not."""
        return self._outbox.unconfirmed

    async def publish(
        self, message: Message, *, routing_key: str | None = None, timeout_s: float | None = None
    ) -> Outcome:
        """Send the message and wait for its outcome. TimeoutError: it may have arrived."""
        async with asyncio.timeout(timeout_s):
            await self.ready()
            return await self.send(message, routing_key=routing_key)

    async def publish_many(
        self, messages: Iterable[Message], *, timeout_s: float | None = None
    ) -> list[Outcome]:
        """The same for many at once; outcomes in order."""
        encoded = [self.encode(each) for each in messages]
        sent: list[asyncio.Future[list[Outcome]]] = []
        async with asyncio.timeout(timeout_s):
            while encoded:
                room = await self.ready()
                sent.append(self.send_encoded(encoded[:room]))
                encoded = encoded[room:]
            return [outcome for future in sent for outcome in await future]

    def send(
        self, message: Message, *, routing_key: str | None = None
    ) -> "asyncio.Future[Outcome]":
        """Have the message sent; the future has its outcome. PublisherFull: too many wait."""
        self.handle.check()
        future = self._outbox.put_one(self.encode(message, routing_key=routing_key))
        self._schedule()
        return future

    def send_encoded(self, messages: list[bytes]) -> "asyncio.Future[list[Outcome]]":
        """The same for many messages of `encode`, with one future for all of their outcomes."""
        self.handle.check()
        future = self._outbox.put(messages)
        self._schedule()
        return future

    def encode(self, message: Message, *, routing_key: str | None = None) -> bytes:
        """The message for `send_encoded`, any number of times."""
        key = self.routing_key if routing_key is None else routing_key
        return message.encode(self.exchange, key, self._mandatory)

    async def ready(self) -> int:
        """Wait until fewer than `waiting_max` messages wait to be sent; how many more may."""
        room = await self._outbox.wait_room()
        self.handle.check()
        return room

    async def close(self) -> None:
        """Close the channel. Outcomes that are not there yet are lost."""
        await self.handle.close()

    # Sending

    def _schedule(self) -> None:
        """Send at the end of this turn of the loop."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Send as much as window, socket and broker allow."""
        self._scheduled = False
        handle, core, outbox = self.handle, self.handle.core, self._outbox
        while core is not None and handle.is_ready and self._flow and self._connection.may_publish:
            room = self._window - outbox.unsettled_count
            taken = outbox.take(min(room, self._slice))
            if not taken:
                return
            first = self._next_tag
            self._next_tag += len(taken)
            core.publish(handle.number, taken)
            outbox.sent(first, len(taken), self._settled)
            if self._mandatory and not self._settled:
                self._returnable.update(zip(range(first, self._next_tag), taken, strict=True))
            self._slice = max(1, min(SLICE_MAX, WRITE_BYTES // len(taken[-1])))
            self._connection.flush()

    # What the channel tells

    def on_up(self) -> None:
        if self._settled:
            self.handle.set_ready()
        else:
            answers = frozenset({ConfirmSelectOk.identity})
            self.handle.request(ConfirmSelect(), answers, self._selected)

    def _selected(self, answer: Answer) -> None:
        if isinstance(answer, Method):
            self.handle.set_ready()

    def on_writable(self) -> None:
        self._schedule()

    def flush(self) -> None:
        """Nothing is gathered but messages, and they wait for outcomes."""

    def on_told(self, method: Method) -> None:
        if isinstance(method, ChannelFlow):
            self._flow = method.active
            self._schedule()

    def on_settled(self, run: Settles) -> None:
        outbox = self._outbox
        first = outbox.first_unsettled if run.multiple else int(run.first)
        last = int(run.last) or self._next_tag - 1  # With 0 all are meant.
        if not 0 < first <= last:
            return  # Of what has its outcome already.
        outcome = ACCEPTED_OUTCOME if run.kind == ACK else REJECTED_OUTCOME
        if self._mandatory:
            for tag in _within(self._returned, first, last):
                outbox.settled(tag, tag, self._returned.pop(tag))
            for tag in _within(self._returnable, first, last):
                del self._returnable[tag]
        outbox.settled(first, last, outcome)
        if outbox.waiting_count:
            self._schedule()

    def on_arrived(self, run: Arrived) -> None:
        for place in range(int(run.count)):
            start = int(read_i32_le(run.offsets, 4 * place))
            end = int(read_i32_le(run.offsets, 4 * place + 4))
            content = run.data[start:end]
            method = decode_method(method_payload(content, 0))
            if isinstance(method, BasicReturn):
                self._take_back(method, content)

    def _take_back(self, method: BasicReturn, content: bytes) -> None:
        """A mandatory message has come back; its confirm follows."""
        error = ReplyError(method.reply_code, method.reply_text)
        if self._on_returned is not None:
            self._on_returned(decode_content(content), error)
        tag = self._tag_of(method, content)
        if tag:
            del self._returnable[tag]
            self._returned[tag] = Outcome("released", error)

    def _tag_of(self, method: BasicReturn, content: bytes) -> int:
        """Which message came back, for the broker does not say: the oldest that is equal to it.

        0: none. Where a broker changes properties, one that is equal but for these.
        """
        properties, body = content_parts(content, 0, len(content))
        alike = 0
        for tag, message in self._returnable.items():
            exchange, key, own_properties, own_body = extract(message, 0, len(message))
            if exchange == method.exchange and key == method.routing_key and own_body == body:
                if own_properties == properties:
                    return tag
                alike = alike or tag
        return alike

    def on_down(self, error: ClientError, for_good: bool) -> None:
        self._outbox.lost(error, for_good)
        self._next_tag = 1
        self._returnable = {}
        self._returned = {}
        self._flow = True


def _within(tags: Mapping[int, object], first: int, last: int) -> list[int]:
    """Those of first..last."""
    if last - first < len(tags):
        return [tag for tag in range(first, last + 1) if tag in tags]
    return [tag for tag in tags if first <= tag <= last]
