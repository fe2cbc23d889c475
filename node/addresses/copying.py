"""Copies the messages of a ring to a queue that is being bound, as far as the binding means them.

    copying = Copying(broker, exchange, ring, queue, command)
    await copying.run()     # what is in the ring; called again, what has come since
    copying.end()

Limits: SLICE messages, or one answer of the leader of the ring, are on their way at a time.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol, final

from node.events.logs import ids_of
from node.operations.peeking import ANSWER_BYTES, Browsed
from queues.conversion.chunks import names_of
from queues.definitions.broker_objects import Binding, Exchange, Queue, Uid
from queues.definitions.metadata.commands import Bind
from queues.machine.commands import EndSession, SessionId
from queues.message import FORMAT_10, Chunk
from queues.queue_host import PublishingOnly, QueueHost
from queues.routing.content import Content, Content091
from queues.routing.content10 import Content10
from queues.routing.copies import CC, texts_in
from queues.routing.router import Router
from queues.sessions.credit import CreditActor, CreditSpec
from warren.wire.amqp091.deliver import extract
from warren.wire.errors import ProtocolError

if TYPE_CHECKING:
    from node.process_identity import ProcessIdentity
    from node.resources.alarms import Alarms
    from node.turn import Turn
    from queues.definitions.metadata.machine import Metadata

log = logging.getLogger("warren.addresses")

SLICE: Final = 512
RING_LEVEL: Final = 0  # a ring has no levels of priority
PATIENCE_S: Final = 30.0  # for the queue to take a slice
CREDIT: Final = CreditSpec(1 << 20, 1 << 19)


class Hosts(Protocol):
    """See `node.definitions.queue_registry`."""

    def host(self, uid: int) -> QueueHost:
        """The queue as sessions see it."""


class Node(Protocol):
    """The broker, as copies need it."""

    alarms: "Alarms"
    metadata: "Metadata"
    turn: "Turn"
    identity: "ProcessIdentity"

    @property
    def queues(self) -> Hosts: ...

    async def browse(self, queue: Queue, level: int, seq: int, count: int) -> Sequence[Browsed]:
        """LookupError: the leader of the queue has no answer."""


@final
class Copying(PublishingOnly):
    """The copies for one binding, as a session that publishes to the queue."""

    def __init__(
        self, broker: Node, exchange: Exchange, ring: Queue, queue: Queue, command: Bind
    ) -> None:
        self._broker = broker
        self._ring = ring
        self._queue = queue
        self._exchange = exchange
        self._router = _router_of(exchange, queue, command)
        self._session = broker.identity.new_session()
        self._credit = CreditActor("retroactive messages", CREDIT)
        self._host: QueueHost | None = None  # once something was published there
        self._seq = 0  # of the ring: all messages before it were looked at
        self._sent = 0
        self._decided = 0
        self._refused = 0
        self._is_gone = False
        self._answered = asyncio.Event()

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    async def run(self) -> None:
        """Copy what is in the ring and was not looked at."""
        try:
            while not self._is_gone:
                found = await self._broker.browse(self._ring, RING_LEVEL, self._seq, SLICE)
                if found:
                    self._seq = found[-1].seq + 1
                    await self._publish([each for each in found if self._is_meant(each)])
                if len(found) < SLICE and sum(len(each.data) for each in found) < ANSWER_BYTES:
                    return
        except (LookupError, TimeoutError) as error:
            log.warning(
                "queue '%s' in vhost '%s' is bound to exchange '%s' without all of the messages "
                "that the exchange keeps: %s; bind it again to get them",
                *(self._queue.name, self._queue.vhost, self._exchange.name),
                str(error) or "the queue does not answer",
                extra=ids_of(queue=self._queue.name, vhost=self._queue.vhost),
            )

    def end(self) -> None:
        """The queue forgets the session."""
        if self._host is not None and not self._is_gone:
            self._broker.turn.begin()
            self._host.command(self, EndSession(self._session))

    def _is_meant(self, each: Browsed) -> bool:
        """Whether the binding routes the message to the queue."""
        if not each.data:
            return False  # It has left the ring meanwhile.
        try:
            key, content, more_keys = _parts_of(each)
            route = self._router.route(self._exchange.name, key, content, more_keys)
        except ProtocolError:
            return False  # Its headers cannot be read: no binding of that kind matches it.
        return self._queue.uid in route.queues

    async def _publish(self, messages: Sequence[Browsed]) -> None:
        """TimeoutError: the queue did not take them in time."""
        if not messages:
            return
        self._broker.turn.begin()
        self._host = self._broker.queues.host(self._queue.uid)
        self._answered.clear()
        for chunk in _chunks_of(messages):
            first = self._sent + 1
            self._sent += int(chunk.count())
            self._host.publish(self, chunk, first)
        async with asyncio.timeout(PATIENCE_S):
            await self._answered.wait()

    # What the queue tells

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        self._decided = max(self._decided, upto_seq)
        if self._decided >= self._sent:
            self._answered.set()

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        self._refused += count

    def on_gone(self, uid: int) -> None:
        self._is_gone = True
        self._answered.set()


def _router_of(exchange: Exchange, queue: Queue, command: Bind) -> Router:
    """A router that knows this binding alone."""
    router = Router(exchange.vhost)
    router.add(exchange)
    router.add(queue)
    router.add(
        Binding(
            Uid(0),
            command.vhost,
            command.source,
            command.destination_kind,
            command.destination,
            command.binding_key,
            command.arguments,
            queue.uid,
        )
    )
    return router


def _parts_of(each: Browsed) -> tuple[bytes, Content, tuple[bytes, ...]]:
    """The routing key of a message, what else routing may ask, and further keys (BCC has been taken
    out). ProtocolError: its headers are malformed."""
    data = each.data
    content: Content
    if each.format_tag == FORMAT_10:
        key, content = names_of(each.names)[1], Content10(data, 0, len(data))
    else:
        key, content = extract(data, 0, len(data))[1], Content091(data, 0)
    more = content.headers().get(CC.decode())
    return key, content, tuple(texts_in(more)) if isinstance(more, list) else ()


def _chunks_of(messages: Sequence[Browsed]) -> Iterator[Chunk]:
    """Neighbours that are alike, in one chunk each."""
    at = 0
    while at < len(messages):
        kind = _kind_of(messages[at])
        stop = at + 1
        while stop < len(messages) and _kind_of(messages[stop]) == kind:
            stop += 1
        offsets, end = [0], 0
        for each in messages[at:stop]:
            end += len(each.data)
            offsets.append(end)
        data = b"".join(each.data for each in messages[at:stop])
        table = b"".join(offset.to_bytes(4, "little") for offset in offsets)
        tag, names, info = kind
        yield Chunk(tag, data, 0, table, info, names)
        at = stop


def _kind_of(each: Browsed) -> tuple[int, bytes, int]:
    return each.format_tag, each.names, each.info
