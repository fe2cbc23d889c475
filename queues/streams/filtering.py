"""Filter values of the messages of a stream, and which messages a consumer wants by them.

A publisher puts `x-stream-filter-value` into the headers (AMQP 0-9-1) or message annotations (1.0).
A chunk's Bloom filter has the values of its messages, and the empty value for those without one. It
is empty if no message has one. So a reader skips chunks that hold nothing for it, and then looks at
each message: a consumer gets what it asked for and nothing else. No I/O.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from mypy_extensions import i64

from queues.message import FORMAT_10, Chunk
from queues.selectors.message_fields import Selector
from warren.storage.streams.chunk_format import may_contain
from warren.wire.amqp091.fields import decode_table
from warren.wire.amqp091.rewrite import raw_headers
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.values import Symbol
from warren.wire.amqp10.transfers import is_unannotated, payload_at
from warren.wire.buffer import read_i32_le
from warren.wire.errors import ProtocolError

VALUE_KEY: Final = "x-stream-filter-value"
KEY_BYTES: Final = VALUE_KEY.encode()
UNFILTERED: Final = b""  # the value of messages without one
VALUES_MAX: Final = 1024  # that one consumer may name


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """What a consumer wants: messages with one of these values, and perhaps those without any; of
    those, what its selector selects."""

    values: frozenset[bytes] | None  # None: any, or none
    selector: Selector | None = None

    def wants_chunk(self, bloom: bytes) -> bool:
        """Whether a chunk with this Bloom filter may hold something for the consumer."""
        if self.values is None:
            return True
        return may_contain(bloom, self.values) if bloom else UNFILTERED in self.values

    def run_in(self, chunk: Chunk, index: int, limit: int) -> tuple[int, int]:
        """The first wanted messages from `index` on: their index and count.

        Looks at `limit` messages; count 0: none of them is wanted.
        """
        stop = min(int(chunk.count()), index + limit)
        while index < stop and not self._wants(chunk, index):
            index += 1
        end = index
        while end < stop and self._wants(chunk, end):
            end += 1
        return index, end - index

    def _wants(self, chunk: Chunk, index: int) -> bool:
        if self.values is not None and filter_value(chunk, index) not in self.values:
            return False
        return self.selector is None or self.selector(chunk, index)


def parse_filter(values: object, match_unfiltered: object) -> StreamFilter | None:
    """The filter for a value or a list of values; None: they are neither.

    An absent filter (`values` None) must not be passed.
    """
    listed = [values] if isinstance(values, str) else values
    if not isinstance(listed, list) or len(listed) > VALUES_MAX:
        return None
    found: set[bytes] = set()
    for value in listed:
        if not isinstance(value, str):
            return None
        found.add(value.encode("utf-8", "surrogateescape"))
    if match_unfiltered is True:
        found.add(UNFILTERED)
    return StreamFilter(frozenset(found))


def values_of(chunks: Collection[Chunk]) -> set[bytes]:
    """The filter values in these chunks; empty if no message has one."""
    if not any(may_have_value(chunk) for chunk in chunks):
        return set()
    found = {filter_value(chunk, index) for chunk in chunks for index in range(chunk.count())}
    return set() if found == {UNFILTERED} else found


def may_have_value(chunk: Chunk) -> bool:
    """Whether that key is in a message of the chunk. Bodies of AMQP 1.0 behind no annotations, as
    most are, need not be searched."""
    data = chunk.data
    if data is None or chunk.format_tag != FORMAT_10:
        return data is not None and KEY_BYTES in data
    offsets = chunk.offsets
    base: i64 = chunk.base
    count = chunk.count()
    index: i64 = 0
    while index < count:
        start = i64(read_i32_le(offsets, 4 * index)) - base
        end = i64(read_i32_le(offsets, 4 * index + 4)) - base
        index += 1
        is_plain = is_unannotated(data, payload_at(data, start), end)
        if not is_plain and data.find(KEY_BYTES, start, end) >= 0:
            return True
    return False


def filter_value(chunk: Chunk, index: int) -> bytes:
    """The filter value of a message; UNFILTERED if it has none, or none that can be read."""
    data = chunk.data
    assert data is not None
    start, end = chunk.span(index)
    if data.find(KEY_BYTES, start, end) < 0:
        return UNFILTERED
    value = _annotation(data, start, end) if chunk.format_tag == FORMAT_10 else _header(data, start)
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else UNFILTERED


def _header(data: bytes, start: int) -> object:
    try:
        headers = raw_headers(data, start)
        return decode_table(len(headers).to_bytes(4) + headers).get(VALUE_KEY)
    except ProtocolError:
        return None


def _annotation(data: bytes, start: int, end: int) -> object:
    sections = Sections()
    if sections.walk_head(data, payload_at(data, start), end) < 0:
        return None
    annotations = sections.annotations(data)
    return annotations.get(Symbol(VALUE_KEY)) if isinstance(annotations, dict) else None
