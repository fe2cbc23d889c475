"""Runs of stored messages in the other protocol's stored form."""

from queues.conversion.to_amqp091 import to_amqp091
from queues.message import FORMAT_091, Chunk
from warren.wire.amqp10.transfers import payload_at
from warren.wire.buffer import BytesWriter, write_i32_le


def names_of(names: bytes) -> tuple[str, bytes]:
    """Exchange and routing key of a chunk whose messages do not say them."""
    length = names[0]
    return names[1 : 1 + length].decode(), names[2 + length :]


def names_for(exchange: str, routing_key: bytes) -> bytes:
    """The same the other way; ValueError: one has more than 255 bytes."""
    encoded = exchange.encode()
    if len(encoded) > 255 or len(routing_key) > 255:
        raise ValueError("a short string holds at most 255 bytes")
    return bytes([len(encoded)]) + encoded + bytes([len(routing_key)]) + routing_key


def in_form_1(chunk: Chunk, index: int, count: int) -> Chunk:
    """Messages index.. of a chunk in stored form 2, whose bytes are in memory, as a new chunk."""
    data = chunk.data
    assert data is not None
    exchange, routing_key = names_of(chunk.names)
    offsets = BytesWriter()
    parts: list[bytes] = []
    size = 0
    for place in range(index, index + count):
        start, end = chunk.span(place)
        part = to_amqp091(data, int(payload_at(data, start)), end, exchange, routing_key)
        write_i32_le(offsets, size)
        parts.append(part)
        size += len(part)
    write_i32_le(offsets, size)
    return Chunk(FORMAT_091, b"".join(parts), 0, offsets.getvalue(), chunk.info)
