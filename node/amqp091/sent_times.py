"""The header x-opt-rabbitmq-sent-time: when a delivery was sent, in milliseconds since 1970.

Deliveries have it where the setting `message_interceptors.outgoing.timestamp.enabled` is on. It
replaces a header of that name.
"""

from collections.abc import Callable
from typing import Final

from queues.message import FORMAT_091, Chunk
from warren.wire.amqp091.rewrite import raw_headers, rewrite, without_keys
from warren.wire.errors import ProtocolError

Clock = Callable[[], int]  # in milliseconds

HEADER: Final = b"x-opt-rabbitmq-sent-time"
SIGNED_64: Final = b"l"


def timed(chunk: Chunk, index: int, count: int, now_ms: int) -> Chunk:
    """`count` messages from `index` on, in stored form 1, each with the header."""
    data = chunk.data
    assert data is not None
    offsets, parts = [0], []
    for place in range(index, index + count):
        start, end = chunk.span(place)
        parts.append(with_sent_time(data, start, end, now_ms))
        offsets.append(offsets[-1] + len(parts[-1]))
    encoded = b"".join(offset.to_bytes(4, "little") for offset in offsets)
    return Chunk(FORMAT_091, b"".join(parts), 0, encoded, chunk.info)


def with_sent_time(data: bytes, start: int, end: int, now_ms: int) -> bytes:
    """The message with the header; one whose headers cannot be read is delivered as it is."""
    try:
        kept = without_keys(raw_headers(data, start), (HEADER,))
    except ProtocolError:
        return data[start:end]
    name = bytes([len(HEADER)]) + HEADER
    table = kept + name + SIGNED_64 + now_ms.to_bytes(8, "big")
    return rewrite(data, start, end, None, None, table, 0, None)
