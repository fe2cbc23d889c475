"""Dead letters on their way back: messages of a queue, republished and then accepted.

    done = await Redriver(broker, queue, order, permit).run()

Takes messages from the head of the queue, some at a time, publishes each to the queue in which it
first died (or to the exchange and key of the order), and accepts those, and only those, that all
target queues have taken: nothing is lost, and what is interrupted may come twice. A message that
has nowhere to go, or may not, stays: it is held until the end, so that each is looked at once, and
is then ready again, as redelivered. A message gets a new life: without the headers (annotations)
that tell of its deaths, unless the order keeps them. What a filter does not mean stays as well, and
is held until then. Works for queues of other nodes as well.

With a rate the slices are smaller, a few in a second, and each waits for its time. A dry run takes
nothing: it peeks, and says what would become of each message as things stand; whether the target
queues would take it is unknown.

Limits: COUNT_MAX messages an order; at most SLICE publishes under way; PATIENCE_S for each slice;
RUN_S for all of it, after which it tells what it has done. `told`, if there is one, hears of the
progress after each slice; what it raises ends the run.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from node.auth.asked_access import Undecided
from node.operations.message_filter import FIRST_QUEUE, MessageFilter
from node.operations.operator_session import OperatorSession, QueueGone
from node.operations.peeking import Peeked, Peeking
from queues.conversion.chunks import in_form_1, names_for, names_of
from queues.conversion.values import dict_of, pairs_of
from queues.definitions.broker_objects import Queue
from queues.machine.commands import ACCEPT
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.routing.content import Content091
from queues.routing.content10 import Content10
from queues.routing.router import Route
from warren.wire.amqp091.deliver import build, extract
from warren.wire.amqp091.properties import readable_properties
from warren.wire.amqp10.codec.descriptors import MESSAGE_ANNOTATIONS
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.writer import write_ulong, write_value
from warren.wire.amqp10.transfers import payload_at, store
from warren.wire.buffer import BytesWriter

if TYPE_CHECKING:
    from node.broker import Broker

Permit = Callable[[str, bytes], bool]  # whether the user may publish there; Undecided

SLICE: Final = 64
COUNT_MAX: Final = 100_000
PATIENCE_S: Final = 30.0
RUN_S: Final = 1200.0  # below the time in which a consumer has to settle
SLICES_A_SECOND: Final = 10  # or fewer, of an order with a rate
DEATHS: Final = frozenset(
    (
        "x-death", "x-opt-deaths", "x-first-death-exchange", FIRST_QUEUE, "x-first-death-reason",
        "x-last-death-exchange", "x-last-death-queue", "x-last-death-reason",
    )
)  # fmt: skip

UNKNOWN_ORIGIN: Final = "it does not say in which queue it died"
UNREADABLE: Final = "it cannot be read"
UNROUTABLE: Final = "it would be in no queue"
NOT_MEANT: Final = "the filter does not mean it"
NOT_PERMITTED: Final = "not permitted"
REFUSED: Final = "the target queue did not take it"
LATE: Final = "no confirm in time"


class Order(Struct, frozen=True):
    """What is to be moved, and where. `exchange` None: to where each message died."""

    count: int = COUNT_MAX
    exchange: str | None = None
    routing_key: bytes | None = None  # None: the message's own
    keep_deaths: bool = False
    filter: MessageFilter | None = None  # None: any message
    rate: int = 0  # messages a second; 0: as fast as they go
    is_dry: bool = False  # nothing is moved: what would become of it?


class Redriven(Struct):
    """What came of an order; of a dry run, what would."""

    moved: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # why messages stay

    @property
    def kept(self) -> int:
        return self.reasons.total()


class Stays(Exception):
    """The message is not moved; the text says why."""


class Ready(Struct, frozen=True):
    """A message as it is to be published: a copy, for the bytes of the queue may leave memory."""

    chunk: Chunk
    route: Route


Taken = tuple[int, Ready | Stays]  # its number in the queue
Told = Callable[[Redriven], Awaitable[None]]


class Pace:
    """How many messages a slice has, and when the next one may go."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._begun = monotonic()
        self.slice = min(SLICE, max(1, rate // SLICES_A_SECOND)) if rate else SLICE

    def is_over(self) -> bool:
        return monotonic() - self._begun > RUN_S

    async def keep(self, moved: int) -> None:
        """Wait until so many messages are no more than the rate."""
        if self._rate:
            early_s = self._begun + moved / self._rate - monotonic()
            await asyncio.sleep(max(0.0, early_s))


class Redriver:
    """One order for one queue."""

    def __init__(
        self,
        broker: "Broker",
        queue: Queue,
        order: Order,
        permit: Permit,
        told: Told | None = None,
    ) -> None:
        self._broker = broker
        self._told = told
        self._queue = queue
        self._order = order
        self._permit = permit
        self._done = Redriven()

    async def run(self) -> Redriven:
        """QueueGone, PeekFailed: the queue cannot be had, and nothing more was done."""
        if self._order.is_dry:
            await self._rehearse()
        else:
            await self._carry_out()
        return self._done

    async def _carry_out(self) -> None:
        session = OperatorSession(self._broker.identity.new_session())
        left = min(self._order.count, COUNT_MAX)
        pace = Pace(self._order.rate)
        is_first = True
        try:
            while left > 0 and not pace.is_over():
                if self._broker.alarms.is_set():
                    break  # The rest stays: what is moved is written again.
                taken, ready = await self._take(session, min(left, pace.slice))
                if is_first:  # What comes in from now on is not looked at.
                    left = min(left, len(taken) + ready)
                    is_first = False
                if not taken:
                    break
                left -= len(taken)
                await self._move(session, taken)
                await self._tell()
                await pace.keep(self._done.moved)
        finally:
            self._broker.turn.begin()
            session.end()

    async def _tell(self) -> None:
        if self._told is not None:
            await self._told(self._done)

    async def _rehearse(self) -> None:
        """Look at each message where it is."""
        peeking = Peeking(self._broker)
        at, end = 0, min(self._order.count, COUNT_MAX)
        while at < end:
            found = await peeking.peek(self._queue, at, min(SLICE, end - at), payload_bytes=0)
            for each in found:
                outcome = await self._would_be(each)
                if outcome:
                    self._done.reasons[outcome] += 1
                else:
                    self._done.moved += 1
            if not found:
                break
            at = found[-1].position + 1
            await self._tell()

    async def _would_be(self, peeked: Peeked) -> str:
        """Why the message would stay, or ""."""
        if not peeked.is_readable:
            return UNREADABLE
        data = build(peeked.exchange, peeked.routing_key, peeked.properties, b"")
        try:
            await self._decided(Chunk(FORMAT_091, data, 0, whole(data), 0), 0)
        except Stays as reason:
            return str(reason)
        return ""

    async def _take(self, session: OperatorSession, count: int) -> tuple[list[Taken], int]:
        """Messages from the head of the queue; and how many are still ready."""
        host = self._broker.queues.host(self._queue.uid)
        taken: list[Taken] = []
        ready = 0
        for _ in range(count):
            self._broker.turn.begin()
            message, _, ready = await session.get(host)
            if message == 0:
                break
            try:
                view = await session.view(host, message)
                taken.append((message, await self._decided(view.chunk, view.index)))
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
        session.settle(self._broker.queues.host(self._queue.uid), moved, ACCEPT)
        self._done.moved += len(moved)

    async def _publish(self, made: Ready | Stays) -> str:
        """Why the target has not taken it, as far as is known; or ""."""
        if isinstance(made, Stays):
            return str(made)
        session = OperatorSession(self._broker.identity.new_session())
        try:
            self._broker.turn.begin()
            hosts = [self._broker.queues.host(uid) for uid in made.route.queues]
            async with asyncio.timeout(PATIENCE_S):
                return (
                    "" if await session.publish(hosts, made.chunk, self._broker.turn) else REFUSED
                )
        except TimeoutError:
            return LATE
        finally:
            self._broker.turn.begin()
            session.end()

    async def _decided(self, chunk: Chunk, index: int) -> Ready:
        """The message as it is to be published, when it is known whether the user may."""
        while True:
            try:
                return self._made(chunk, index)
            except Undecided as undecided:
                await undecided.wait()

    def _made(self, chunk: Chunk, index: int) -> Ready:
        self._check_meant(chunk, index)
        if chunk.format_tag == FORMAT_10:
            return self._made_10(chunk, index)
        return self._made_091(chunk, index)

    def _check_meant(self, chunk: Chunk, index: int) -> None:
        wanted = self._order.filter
        if wanted is None:
            return
        if chunk.format_tag == FORMAT_10:
            chunk, index = in_form_1(chunk, index, 1), 0
        data = chunk.data
        assert data is not None
        exchange, key, encoded, _ = extract(data, *chunk.span(index))
        if not wanted.matches(exchange, key, readable_properties(encoded)):
            raise Stays(NOT_MEANT)

    def _made_091(self, chunk: Chunk, index: int) -> Ready:
        data = chunk.data
        assert data is not None
        _, key, encoded, payload = extract(data, *chunk.span(index))
        properties = readable_properties(encoded)
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
        kept = dict_of(sections.annotations(data))
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
        router = self._broker.routers.of(self._queue.vhost)
        route = self._broker.turn.routing.route(router, exchange, key, content)
        if not route.exchange_found or route.internal or not route.queues:
            raise Stays(UNROUTABLE)
        return route


def without_deaths(headers: Mapping[str, object]) -> dict[str, object]:
    return {name: each for name, each in headers.items() if name not in DEATHS}


def whole(data: bytes) -> bytes:
    """The offsets of a chunk of one message."""
    return bytes(4) + len(data).to_bytes(4, "little")
