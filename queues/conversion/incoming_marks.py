"""What a node marks messages with as it takes them: when that was, and the node's name. Compiled.

As RabbitMQ's message interceptors do. In stored form 1 the time is the header `timestamp_in_ms` and
the property `timestamp`, in form 2 the annotation `x-opt-rabbitmq-received-time`; the node is the
header or annotation `x-routed-by`. Each mark either replaces what the publisher has set, or is left
out where the publisher has set it. All messages of a chunk get the same time. A message whose
headers or annotations cannot be read stays as it is.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i32, i64

from queues.conversion.annotated import annotated_form_10, annotated_if_absent
from queues.conversion.ingress_times import LENGTH_BYTES, Fronts
from queues.conversion.to_amqp091 import RECEIVED_TIME, TIMESTAMP_IN_MS
from queues.message import FORMAT_10, Chunk
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp091.properties import TIMESTAMP, find_property
from warren.wire.amqp091.rewrite import NO_TIMESTAMP, raw_headers, rewrite, value_of, without_keys
from warren.wire.amqp091.values import Int64
from warren.wire.amqp10.codec.values import Timestamp
from warren.wire.amqp10.codec.writer import write_value
from warren.wire.buffer import BytesWriter, write_i32_le
from warren.wire.errors import ProtocolError

ROUTED_BY: Final = "x-routed-by"
MS: Final = 1000


@final
class Mark:
    """One header: its name, its entry in a table, and whether it replaces another."""

    def __init__(self, name: str, value: object, replaces: bool) -> None:
        self.name: bytes = name.encode()
        self.entry: bytes = encode_table({name: value})[LENGTH_BYTES:]
        self.replaces = replaces

    def put(self, table: bytes) -> bytes:
        """The table with the entry. ProtocolError 501: it cannot be read."""
        if self.replaces:
            return without_keys(table, (self.name,)) + self.entry
        is_there, _ = value_of(table, self.name)
        return table if is_there else table + self.entry


@final
class IncomingMarks:
    """Marks the chunks of one set of targets."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        node_name: str,
        timestamp: bool | None,
        routing_node: bool | None,
    ) -> None:
        """`timestamp`, `routing_node`: whether the mark replaces that of the publisher; None: there
        is no such mark."""
        self._clock = now_ms
        self._node_name = node_name
        self._timestamp = timestamp
        self._routing_node = routing_node
        self._fronts = Fronts(self._annotated)

    def mark(self, chunk: Chunk) -> Chunk:
        """The same messages, whose bytes are in memory, with the marks."""
        data = chunk.data
        assert data is not None
        now_ms = self._clock()
        is_10 = chunk.format_tag == FORMAT_10
        marks = [] if is_10 else self._marks(now_ms)
        writer, offsets = BytesWriter(), BytesWriter()
        write_i32_le(offsets, 0)
        count = chunk.count()
        place: i64 = 0
        while place < count:
            begin, after = chunk.span(place)
            if is_10:
                self._fronts.write(writer, data, begin, after, now_ms)
            else:
                writer.write(self._marked_091(data, begin, after, marks, now_ms))
            write_i32_le(offsets, i32(len(writer)))
            place += 1
        made = offsets.getvalue()
        return Chunk(chunk.format_tag, writer.getvalue(), 0, made, chunk.info, chunk.names)

    def _marks(self, now_ms: i64) -> list[Mark]:
        marks: list[Mark] = []
        if self._timestamp is not None:
            marks.append(Mark(TIMESTAMP_IN_MS, Int64(now_ms), self._timestamp))
        if self._routing_node is not None:
            marks.append(Mark(ROUTED_BY, self._node_name, self._routing_node))
        return marks

    def _marked_091(
        self, data: bytes, begin: i64, after: i64, marks: list[Mark], now_ms: i64
    ) -> bytes:
        try:
            table = raw_headers(data, begin)
            for mark in marks:
                table = mark.put(table)
        except ProtocolError:
            return data[begin:after]
        seconds: i64 = NO_TIMESTAMP
        replaces = self._timestamp
        if replaces is not None and (replaces or find_property(data, begin, TIMESTAMP) < 0):
            seconds = now_ms // MS
        return rewrite(data, begin, after, None, None, table, 0, None, seconds)

    def _annotated(self, message: bytes, now_ms: int) -> bytes:
        """A message of form 2 with the annotations."""
        given: tuple[tuple[str, object, bool | None], ...] = (
            (RECEIVED_TIME, Timestamp(now_ms), self._timestamp),
            (ROUTED_BY, self._node_name, self._routing_node),
        )
        for name, value, replaces in given:
            if replaces is None:
                continue
            encoded = BytesWriter()
            write_value(encoded, value)
            words = {name.encode(): encoded.getvalue()}
            annotate = annotated_form_10 if replaces else annotated_if_absent
            message = annotate(message, words)
        return message
