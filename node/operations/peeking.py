"""Messages of a queue by their position, without touching them. Not compiled.

    peeking = Peeking(broker)
    peeking.serve(operating.status)                    # for the other nodes
    found = await peeking.peek(queue, offset, count)   # PeekFailed: no node can answer

Position 0 is the message that the next consumer would get; messages that are with a consumer, that
wait for their time or are dying have no position. Nothing of the queue changes: no message is
taken, counted or marked as delivered, and a body on disk is read beside the queue's own reading and
stays there. Positions are those of the moment: messages that leave while a body is being read, or
between two questions, move the others up.

The leader of the queue answers, asked from any node by the question `peek` [uid, offset, count,
payload bytes]; its answer has a part for each message, the fields of `Peeked`. Messages of AMQP 1.0
are shown as a client of AMQP 0-9-1 would get them, with what consumers have noted on them.

Browsing (`browse`) asks for whole messages in stored form behind a cursor: the level and the
message_seq where to go on. Messages that leave do not move the others, so that each is seen once.

Limits: COUNT_MAX messages and about ANSWER_BYTES of one question, but one message at least; who
wants more asks again from behind the last. The walk to an offset looks at RUNS runs in a turn. A
body that cannot be read within READ_S is sent as `is_readable` False; the others are not held up.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import astuple

from node.cluster.services.status_channel import NoAnswer, StatusChannel, Unanswerable
from node.operations.body_access import BodyReads, BodySite
from queues.conversion.annotated import annotated
from queues.conversion.chunks import in_form_1
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.machine import Metadata
from queues.hosts.queue_core import QueueCore
from queues.machine.delays import FAILED_MASK
from queues.message import FORMAT_10, Chunk
from warren.wire.amqp091.deliver import extract

if TYPE_CHECKING:
    from node.cluster.services.cluster_services import Operating

PEEK: Final = "peek"
BROWSE: Final = "browse"
COUNT_MAX: Final = 1000
ANSWER_BYTES: Final = 8 << 20
PAYLOAD_MAX: Final = 4 << 20  # of one message; the rest is cut off
RUNS: Final = 1000
TRIES: Final = 3  # a body may move to another file while it is looked for
PATIENCE_S: Final = 30.0  # for the answer of another node


class PeekFailed(LookupError):
    """No node can answer; the text says why."""


class Peeked(Struct, frozen=True):
    """A message that stays where it is."""

    position: int
    redelivered: bool  # as the next consumer would be told
    failures: int  # deliveries that have failed
    exchange: str
    routing_key: bytes
    properties: bytes  # encoded as in form 1
    payload: bytes  # as much of it as was asked for
    payload_bytes: int  # of all of it
    is_readable: bool = True


class Browsed(Struct, frozen=True):
    """A message in the form in which the queue has it. Without `data` it is gone, or lost."""

    level: int  # of its priority
    seq: int
    redelivered: bool
    failures: int
    format_tag: int
    names: bytes  # exchange and routing key, in stored form 2
    data: bytes
    info: int = 0  # bits of `Chunk.info`


class Awake(Protocol):
    @property
    def awake(self) -> Mapping[int, QueueCore]:
        """Queues that are in use, or have messages, by uid."""


class Queues(Protocol):
    """See `node.definitions.queue_registry`."""

    @property
    def hosts(self) -> Awake: ...


class Site(BodySite, Protocol):
    """What it needs of the broker."""

    @property
    def queues(self) -> Queues: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def operating(self) -> "Operating": ...


class Peeking:
    """See the module."""

    def __init__(self, broker: Site) -> None:
        self._broker = broker
        self._reads = BodyReads(broker)

    def serve(self, status: StatusChannel) -> None:
        status.serve(PEEK, self._asked)
        status.serve(BROWSE, self._asked_browse)

    async def peek(
        self, queue: Queue, offset: int, count: int, payload_bytes: int = PAYLOAD_MAX
    ) -> list[Peeked]:
        """Messages at positions offset.. : fewer than asked for only at the end of the queue, or
        if they are large."""
        about = (queue.uid, offset, min(count, COUNT_MAX), min(payload_bytes, PAYLOAD_MAX))
        operating = self._broker.operating
        if operating.is_led_here(int(queue.uid)):
            return [each async for each in self.messages(*about)]
        return [Peeked(*part) for part in await ask_leader(operating, queue, PEEK, about)]

    async def browse(self, queue: Queue, level: int, seq: int, count: int) -> list[Browsed]:
        """Messages from this one on in the order of service, levels from `level` down. None: there
        are no more. PeekFailed: the leader does not answer."""
        about = (queue.uid, level, seq, min(count, COUNT_MAX))
        operating = self._broker.operating
        if operating.is_led_here(int(queue.uid)):
            return [each async for each in self._browsed(*about)]
        return [Browsed(*part) for part in await ask_leader(operating, queue, BROWSE, about)]

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        uid, offset, count, payload_bytes = about
        self._check_led(uid)
        async for each in self.messages(uid, offset, count, payload_bytes):
            yield astuple(each)

    async def _asked_browse(self, asker: int, about: Any) -> AsyncIterator[object]:
        uid, level, seq, count = about
        self._check_led(uid)
        async for each in self._browsed(uid, level, seq, count):
            yield astuple(each)

    def _check_led(self, uid: int) -> None:
        queue = self._broker.metadata.queue(uid)
        operating = self._broker.operating
        if queue is None or not operating.is_led_here(uid):
            raise Unanswerable("it does not lead the queue")

    async def _browsed(self, uid: int, level: int, seq: int, count: int) -> AsyncIterator[Browsed]:
        host = self._broker.queues.hosts.awake.get(uid)
        if host is None:
            return
        size = 0
        for place, number in ready_after(host, level, seq, count):
            redelivered, failures = history(host, number)
            chunk = await self.message_chunk(host, number)
            if chunk is None:
                yield Browsed(place, number, redelivered, failures, 0, b"", b"")
                continue
            assert chunk.data is not None
            start, end = chunk.span(0)
            data, tag = chunk.data[start:end], int(chunk.format_tag)
            info = int(chunk.info)
            yield Browsed(place, number, redelivered, failures, tag, chunk.names, data, info)
            size += len(data)
            if size >= ANSWER_BYTES:
                return

    async def messages(
        self, uid: int, offset: int, count: int, payload_bytes: int
    ) -> AsyncIterator[Peeked]:
        host = self._broker.queues.hosts.awake.get(uid)
        if host is None:
            return  # It is at rest, and has no message.
        size = 0
        for seq in await ready_from(host, offset, count):
            found = await self._message(host, seq, offset, payload_bytes)
            if found is None:
                continue  # Gone meanwhile; the next one has its position.
            size += len(found.payload) + len(found.properties)
            yield found
            if size >= ANSWER_BYTES:
                return
            offset += 1

    async def _message(
        self, host: QueueCore, seq: int, position: int, payload_bytes: int
    ) -> Peeked | None:
        """None: it is not ready any more."""
        chunk = await self.message_chunk(host, seq)
        if chunk is None and not host.machine.ready.within(seq, 1):
            return None
        redelivered, failures = history(host, seq)
        if chunk is None:
            return Peeked(position, redelivered, failures, "", b"", b"", b"", 0, False)
        if chunk.format_tag == FORMAT_10:
            chunk = in_form_1(chunk, 0, 1)
        data = chunk.data
        assert data is not None
        exchange, key, properties, payload = extract(data, *chunk.span(0))
        cut = payload[:payload_bytes]
        return Peeked(
            position, redelivered, failures, exchange, key, properties, cut, len(payload)
        )  # fmt: skip

    async def message_chunk(self, host: QueueCore, seq: int) -> Chunk | None:
        """The message alone, with what consumers noted on it. None: it is not ready any more, or
        it cannot be read."""
        machine = host.machine
        for _ in range(TRIES):
            slot = host.store.find_live(seq) if machine.ready.within(seq, 1) else None
            if slot is None:
                return None  # It has left, or its body was lost with a damaged part of the log.
            found = await self._reads.alone(slot.chunk, int(slot.index + seq - slot.first))
            if isinstance(found, Chunk):
                words = machine.annotations.words.get(seq)
                return found if words is None else annotated(found, 0, words)
        return None

    async def is_refused(self, host: QueueCore, seq: int) -> bool:
        """Whether the disk refuses each time to give this ready message, read alone; those in one
        piece of a page file share their fate. One that takes long is not refused.
        """
        for _ in range(TRIES):
            slot = host.store.find_live(seq) if host.machine.ready.within(seq, 1) else None
            if slot is None:
                return False
            chunk = slot.chunk
            if chunk.page_id > 0 and chunk.data is None:
                found = await self._reads.read(chunk, 0, int(chunk.count()))
            else:
                alone = await self._reads.alone(chunk, int(slot.index + seq - slot.first))
                found = alone if isinstance(alone, Exception) else b""
            if not isinstance(found, Exception) or isinstance(found, TimeoutError):
                return False
        return True


async def ask_leader(
    operating: "Operating", queue: Queue, question: str, about: tuple[int, ...]
) -> list[Any]:
    """The parts of the leader's answer."""
    leader = operating.leader_of(queue.vhost, queue.name)
    if not leader:
        raise PeekFailed(f"queue '{queue.name}' has no leader that this node knows of")
    try:
        return list(await operating.status.ask(leader, question, about, PATIENCE_S))
    except NoAnswer as error:
        name = operating.cluster_snapshot.name_of(leader)
        raise PeekFailed(f"node {name}, which leads the queue: {error}") from error


def history(host: QueueCore, seq: int) -> tuple[bool, int]:
    """Of a ready message: whether it is redelivered next, and how many deliveries failed."""
    machine = host.machine
    return bool(machine.redelivered.contains(seq)), machine.attempts.get(seq) & FAILED_MASK


def ready_after(host: QueueCore, level: int, seq: int, count: int) -> list[tuple[int, int]]:
    """(level, message_seq) of ready messages: of `level` from `seq` on, then of those below it."""
    lanes = list(host.machine.ready.lanes)
    found: list[tuple[int, int]] = []
    highest = min(level, len(lanes) - 1)
    for place in range(highest, -1, -1):
        start = seq if place == level else 0
        for first, length in lanes[place].runs_from(start, count - len(found)):
            wanted = min(length, count - len(found))
            found += [(place, number) for number in range(first, first + wanted)]
        if len(found) >= count:
            break
    return found


async def ready_from(host: QueueCore, offset: int, count: int) -> list[int]:
    """The message_seqs at these positions: levels from the highest down, each in its order."""
    found: list[int] = []
    for lane in reversed(list(host.machine.ready.lanes)):
        if lane.count <= offset:
            offset -= int(lane.count)
            continue
        at = int(lane.first())
        while len(found) < count and lane.count > 0:
            runs = lane.runs_from(at, RUNS)
            for first, length in runs:
                skipped = min(offset, length)
                offset -= skipped
                wanted = min(length - skipped, count - len(found))
                found += range(first + skipped, first + skipped + wanted)
            if len(runs) < RUNS:
                break
            at = runs[-1][0] + runs[-1][1]
            await asyncio.sleep(0)
    return found
