"""Dead letters on their way back (Q-92): messages of a queue, published anew and then accepted.

    done = await Redriver(broker, queue, order, permit).run()

Takes messages from the head of the queue, SLICE at a time, publishes each to the queue in which it
first died (or to the exchange and key of the order), and accepts those, and only those, that all
target queues have taken: nothing is lost, and what is interrupted may come twice. A message that
has nowhere to go, or may not, stays: it is held until the end, so that each is looked at once, and
is then ready again, as redelivered. A message gets a new life: without the headers (annotations)
that tell of its deaths, unless the order keeps them. Works for queues of other nodes as well.

Limits: COUNT_MAX messages an order; at most SLICE publishes under way; PATIENCE_S for each slice.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from node.operator_session import OperatorSession, QueueGone
from queues.commands import ACCEPT
from queues.conversion.chunks import names_for, names_of
from queues.conversion.values import pairs_of
from queues.definitions import Queue
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.routing.content import Content091
from queues.routing.content10 import Content10
from queues.routing.router import Route
from warren.wire.amqp091.deliver import build, extract
from warren.wire.amqp091.properties import decode_properties
from warren.wire.amqp10.descriptors import MESSAGE_ANNOTATIONS
from warren.wire.amqp10.message import Sections
from warren.wire.amqp10.transfers import payload_at, store
from warren.wire.amqp10.writer import write_ulong, write_value
from warren.wire.buffer import BytesWriter

if TYPE_CHECKING:
    from node.broker import Broker

Permit = Callable[[str, bytes], bool]  # whether whoever asks may publish there

SLICE: Final = 64
COUNT_MAX: Final = 100_000
PATIENCE_S: Final = 30.0
FIRST_QUEUE: Final = "x-first-death-queue"
DEATHS: Final = frozenset(
    (
        "x-death", "x-opt-deaths", "x-first-death-exchange", FIRST_QUEUE, "x-first-death-reason",
        "x-last-death-exchange", "x-last-death-queue", "x-last-death-reason",
    )
)  # fmt: skip

UNKNOWN_ORIGIN: Final = "it does not say in which queue it died"
UNREADABLE: Final = "it cannot be read"
UNROUTABLE: Final = "it would be in no queue"
NOT_PERMITTED: Final = "not permitted"
REFUSED: Final = "the target queue did not take it"
LATE: Final = "no confirm in time"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be moved, and where. `exchange` None: to where each message died."""

    count: int = COUNT_MAX
    exchange: str | None = None
    routing_key: bytes | None = None  # None: the message's own
    keep_deaths: bool = False


@dataclass(slots=True)
class Redriven:
    """What came of an order."""

    moved: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # why messages stay

    @property
    def kept(self) -> int:
        return self.reasons.total()


class Stays(Exception):
    """The message is not moved; the text says why."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A message as it is to be published: a copy, for the bytes of the queue may leave memory."""

    chunk: Chunk
    route: Route


Taken = tuple[int, Ready | Stays]  # its number in the queue


class Redriver:
    """One order for one queue."""

    def __init__(self, broker: "Broker", queue: Queue, order: Order, permit: Permit) -> None:
        self._broker = broker
        self._queue = queue
        self._order = order
        self._permit = permit
        self._done = Redriven()

    async def run(self) -> Redriven:
        session = OperatorSession(self._broker.new_session())
        left = min(self._order.count, COUNT_MAX)
        is_first = True
        try:
            while left > 0:
                taken, ready = await self._take(session, min(left, SLICE))
                if is_first:  # What comes in from now on is not looked at.
                    left = min(left, len(taken) + ready)
                    is_first = False
                if not taken:
                    break
                left -= len(taken)
                await self._move(session, taken)
        finally:
            self._broker.turn.begin()
            session.end()
        return self._done

    async def _take(self, session: OperatorSession, count: int) -> tuple[list[Taken], int]:
        """Messages from the head of the queue; and how many are still ready."""
        host = self._broker.host(self._queue.uid)
        taken: list[Taken] = []
        ready = 0
        for _ in range(count):
            self._broker.turn.begin()
            message, _, ready = await session.get(host)
            if message == 0:
                break
            try:
                view = await session.view(host, message)
                taken.append((message, self._made(view.chunk, view.index)))
            except QueueGone:
                taken.append((message, Stays(UNREADABLE)))
            except Stays as reason:
                taken.append((message, reason))
        return taken, ready

    async def _move(self, session: OperatorSession, taken: Sequence[Taken]) -> None:
        """Publish them in their order, all at the same time, and accept what was taken."""
        outcomes = await asyncio.gather(*(self._publish(made) for _, made in taken))
        moved: list[int] = []
        for (message, _), outcome in zip(taken, outcomes, strict=True):
            if outcome:
                self._done.reasons[outcome] += 1
            else:
                moved.append(message)
        self._broker.turn.begin()
        session.settle(self._broker.host(self._queue.uid), moved, ACCEPT)
        self._done.moved += len(moved)

    async def _publish(self, made: Ready | Stays) -> str:
        """Why the target has not taken it, as far as is known; or ""."""
        if isinstance(made, Stays):
            return str(made)
        session = OperatorSession(self._broker.new_session())
        try:
            self._broker.turn.begin()
            hosts = [self._broker.host(uid) for uid in made.route.queues]
            async with asyncio.timeout(PATIENCE_S):
                return "" if await session.publish(hosts, made.chunk) else REFUSED
        except TimeoutError:
            return LATE
        finally:
            self._broker.turn.begin()
            session.end()

    def _made(self, chunk: Chunk, index: int) -> Ready:
        if chunk.format_tag == FORMAT_10:
            return self._made_10(chunk, index)
        return self._made_091(chunk, index)

    def _made_091(self, chunk: Chunk, index: int) -> Ready:
        data = chunk.data
        assert data is not None
        _, key, encoded, payload = extract(data, *chunk.span(index))
        properties = decode_properties(encoded)
        headers = properties.headers or {}
        exchange, key = self._target(headers.get(FIRST_QUEUE), key)
        if not self._order.keep_deaths and DEATHS.intersection(headers):
            properties.headers = without_deaths(headers) or None
            encoded = properties.encode()
        new = build(exchange, key, encoded, payload)
        route = self._route(exchange, key, Content091(new, 0))
        return Ready(Chunk(FORMAT_091, new, 0, whole(new), chunk.info), route)

    def _made_10(self, chunk: Chunk, index: int) -> Ready:
        data = chunk.data
        assert data is not None
        start, end = chunk.span(index)
        sections = Sections()
        if not sections.walk(data, int(payload_at(data, start)), end):
            raise Stays(UNREADABLE)
        annotations = {str(name): each for name, each in pairs_of(sections.annotations(data))}
        exchange, key = self._target(annotations.get(FIRST_QUEUE), names_of(chunk.names)[1])
        writer = BytesWriter()
        sections.header(data).encode(writer)
        kept = dict(pairs_of(sections.annotations(data)))
        if not self._order.keep_deaths:
            kept = {name: each for name, each in kept.items() if str(name) not in DEATHS}
        if kept:
            writer.append(0)
            write_ulong(writer, MESSAGE_ANNOTATIONS)
            write_value(writer, kept)
        writer.write(data[sections.bare_at : end])
        new = store(writer.getvalue())
        route = self._route(exchange, key, Content10(new, 0, len(new)))
        made = Chunk(FORMAT_10, new, 0, whole(new), chunk.info, names_for(exchange, key))
        return Ready(made, route)

    def _target(self, first_queue: object, key: bytes) -> tuple[str, bytes]:
        order = self._order
        if order.exchange is not None:
            return order.exchange, key if order.routing_key is None else order.routing_key
        if isinstance(first_queue, (bytes, bytearray)):
            first_queue = first_queue.decode("utf-8", "replace")
        if not isinstance(first_queue, str):
            raise Stays(UNKNOWN_ORIGIN)
        return "", str(first_queue).encode()

    def _route(self, exchange: str, key: bytes, content: Content091 | Content10) -> Route:
        if not self._permit(exchange, key):
            raise Stays(NOT_PERMITTED)
        route = self._broker.router(self._queue.vhost).route(exchange, key, content, ())
        if not route.exchange_found or route.internal or not route.queues:
            raise Stays(UNROUTABLE)
        return route


def without_deaths(headers: Mapping[str, object]) -> dict[str, object]:
    return {name: each for name, each in headers.items() if name not in DEATHS}


def whole(data: bytes) -> bytes:
    """The offsets of a chunk of one message."""
    return bytes(4) + len(data).to_bytes(4, "little")
