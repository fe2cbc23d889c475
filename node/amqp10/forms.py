"""Messages of a queue in the form in which AMQP 1.0 delivers them. Compiled.

Takes a `View` of messages in either stored form and puts their bytes, in stored form 2, into a
`Run`. Form 2 goes as it is: only what stands before the bare message is rebuilt (`Heads`), with
the annotations `x-exchange` and `x-routing-key`. Form 1 is converted; what comes of
the properties is remembered, for they mostly are the same from message to message. Both memories
are bounded, and start again when full.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i32, i64

from queues.conversion.costs import CONVERTED, REPEATED
from queues.conversion.to_amqp10 import structured_headers, to_amqp10
from queues.message import FORMAT_10, Chunk
from queues.queue_host import View
from warren.wire.amqp091.deliver import build, extract
from warren.wire.amqp10.codec.descriptors import MESSAGE_ANNOTATIONS
from warren.wire.amqp10.codec.values import Symbol
from warren.wire.amqp10.codec.writer import write_ulong, write_value
from warren.wire.amqp10.deliver import Heads
from warren.wire.amqp10.packed import route_annotations
from warren.wire.amqp10.sender import Run
from warren.wire.amqp10.transfers import BARE_BYTES, BARE_HEAD, store
from warren.wire.buffer import BytesWriter, write_i32_be, write_i32_le, write_i64_be

KNOWN_MAX: Final = 64
SENT_TIME: Final = "x-opt-rabbitmq-sent-time"
TRACE: Final = "amq.rabbitmq.trace"  # the exchange of the firehose
COST_MAX: Final = 64 * 1024  # of what is converted at once: a quarter of what a turn may write
COUNT_MAX: Final = 128  # at once: what a link sends before the next one has its turn
SMALL_BODY_MAX: Final = 255
AMQP10_TYPE: Final = b"amqp-1.0"
MARK: Final = b"\x00warren\x00"  # a body whose place in the conversion is looked for


@final
class Forms:
    """What one consumer's link remembers of conversions."""

    def __init__(self, sent_clock: Callable[[], int] | None = None) -> None:
        """`sent_clock`: deliveries say when they are sent; None: they do not."""
        self._sent_clock = sent_clock
        self._sent: dict[str, object] = {}  # the annotation that says so
        self._sent_ms: i64 = 0
        self._heads: dict[bytes, Heads] = {}  # by exchange and routing key
        self._plain = Heads({})
        self._before: dict[tuple[str, bytes, bytes], bytes | None] = {}
        self.cost: i64 = 0  # of what was converted last
        self._least: i64 = 0  # what the last message costs at least

    def put(
        self, run: Run, view: View, cost_max: i64 = COST_MAX, count_max: i64 = COUNT_MAX
    ) -> None:
        """The bytes of the view's messages, which are the run's first; what is converted is limited
        by `convert`."""
        chunk: Chunk = view.chunk
        index: i64 = view.index
        count: i64 = view.count
        if self._sent_clock is not None:
            self._tell_time(self._sent_clock())
        run.heads = self._plain
        if chunk.format_tag == FORMAT_10:
            run.heads = self._heads_of(chunk.names)
        else:
            chunk = self.convert(chunk, index, min(count, count_max), cost_max)
            run.cost = self.cost
            index = 0
            count = chunk.count()
        data = chunk.data
        assert data is not None
        run.put(data, chunk.base, chunk.offsets, index, count)

    def convert(self, chunk: Chunk, index: i64, count: i64, cost_max: i64) -> Chunk:
        """Messages index.. of stored form 1 in form 2: up to `count`, and no more once they cost so
        much (`queues.conversion.costs`); `cost` says how much they did."""
        data = chunk.data
        assert data is not None
        parts: list[bytes] = []
        offsets = BytesWriter()
        write_i32_le(offsets, 0)
        size: i64 = 0
        place: i64 = 0
        self.cost = 0
        while place < count and (place == 0 or self.cost < cost_max):
            start, end = chunk.span(index + place)
            part = self._converted(data, start, end)
            parts.append(part)
            size += len(part)
            self.cost += max(i64(len(part)), self._least)
            write_i32_le(offsets, i32(size))
            place += 1
        return Chunk(FORMAT_10, b"".join(parts), 0, offsets.getvalue(), chunk.info)

    def _tell_time(self, now_ms: i64) -> None:
        """What is sent from now on says that it was sent now."""
        if now_ms != self._sent_ms:
            self._sent_ms = now_ms
            self._sent = {SENT_TIME: int(now_ms)}
            self._heads = {}
            self._plain = Heads(self._sent)

    def _heads_of(self, names: bytes) -> Heads:
        heads = self._heads.get(names)
        if heads is None:
            if len(self._heads) >= KNOWN_MAX:
                self._heads = {}
            heads = Heads(route_annotations(names) | self._sent)
            self._heads[names] = heads
        return heads

    def _converted(self, data: bytes, start: int, end: int) -> bytes:
        """The message in stored form 2."""
        exchange, routing_key, properties, body = extract(data, start, end)
        key = (exchange, routing_key, properties)
        self._least = REPEATED
        if key not in self._before:
            self._least = CONVERTED
            if len(self._before) >= KNOWN_MAX:
                self._before = {}
            self._before[key] = sections_before(exchange, routing_key, properties)
        before = self._before[key]
        if before is None:
            self._least = CONVERTED
            return store(converted(data, start, end, exchange, routing_key))
        return store_with(before, body)


def sections_before(exchange: str, routing_key: bytes, properties: bytes) -> bytes | None:
    """All sections before the body, where the body is one data section; None: it is not."""
    if AMQP10_TYPE in properties:
        return None  # The body may hold sections itself.
    message = build(exchange, routing_key, properties, MARK)
    sections = converted(message, 0, len(message), exchange, routing_key)
    tail = data_section_head(len(MARK)) + MARK
    return sections[: -len(tail)] if sections.endswith(tail) else None


def converted(data: bytes, start: int, end: int, exchange: str, routing_key: bytes) -> bytes:
    """The sections of a message in stored form 1. Unreadable headers are left out."""
    message = to_amqp10(data, start, end)
    annotations = message.annotations
    if exchange == TRACE:  # Copies say in tables and arrays what they are copies of.
        annotations |= structured_headers(data, start, end)
    annotations[Symbol("x-exchange")] = exchange
    annotations[Symbol("x-routing-key")] = routing_key.decode("utf-8", "replace")
    writer = BytesWriter()
    message.header.encode(writer)
    writer.append(0)
    write_ulong(writer, MESSAGE_ANNOTATIONS)
    write_value(writer, annotations)
    writer.write(message.bare)
    return writer.getvalue()


def store_with(before: bytes, body: bytes) -> bytes:
    """A message in stored form 2: the sections before, and the body as a data section."""
    writer = BytesWriter()
    head = data_section_head(len(body))
    write_i32_be(writer, i32(BARE_BYTES + len(before) + len(head) + len(body)))
    write_i64_be(writer, BARE_HEAD)
    writer.write(before)
    writer.write(head)
    writer.write(body)
    return writer.getvalue()


def data_section_head(size: int) -> bytes:
    """Descriptor of a data section, and the head of its binary."""
    if size <= SMALL_BODY_MAX:
        return b"\x00\x53\x75\xa0" + bytes((size,))
    return b"\x00\x53\x75\xb0" + size.to_bytes(4)
