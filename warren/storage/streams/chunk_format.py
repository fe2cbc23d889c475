"""Chunks of a stream as they are on disk: a header, a Bloom filter, and a payload.

A chunk holds the messages of one committed entry. Its header says the offset of the first message,
how many there are, when the leader made it and in which term. The Bloom filter has the filter
values of its messages; it is empty if no message has one. The checksum covers all but itself and
the magic number. Layout: docs/formats/stream-segment.md. No I/O.
"""

from collections.abc import Collection, Sequence
from struct import Struct
from typing import Final

import msgspec

from warren.checksum import crc32c

MAGIC: Final = 0x31435357  # "WSC1"
VERSION: Final = 1
# magic, crc, version, Bloom bytes, reserved, messages, offset, timestamp, term, payload bytes
HEAD: Final = Struct("<IIBBHIQqQI4x")
HEAD_BYTES: Final = HEAD.size
CHECKED_FROM: Final = 8
PAYLOAD_BYTES_MAX: Final = (1 << 32) - 1
PROBES: Final = 4  # bits that one value sets
SECOND_SEED: Final = 0x9747B28C


class BadChunk(Exception):
    """Bytes that are no chunk; the text says why."""


class ChunkHead(msgspec.Struct, frozen=True):
    """What the header of a chunk says."""

    first_offset: int
    message_count: int
    timestamp_ms: int
    term: int
    payload_bytes: int
    bloom: bytes = b""

    @property
    def end_offset(self) -> int:
        """Of the message behind the last one."""
        return self.first_offset + self.message_count

    @property
    def size(self) -> int:
        """Bytes of the whole chunk on disk."""
        return HEAD_BYTES + len(self.bloom) + self.payload_bytes


def encode_head(head: ChunkHead, payload: Sequence[bytes]) -> bytes:
    """Encode header and Bloom filter; the payload, in parts, follows them on disk."""
    if sum(map(len, payload)) != head.payload_bytes:
        raise ValueError(f"a payload of other than {head.payload_bytes} bytes")
    packed = _pack(head, 0)
    crc = crc32c(packed[CHECKED_FROM:] + head.bloom)
    for part in payload:
        crc = crc32c(part, crc)
    return _pack(head, crc) + head.bloom


def _pack(head: ChunkHead, crc: int) -> bytes:
    return HEAD.pack(
        MAGIC,
        crc,
        VERSION,
        len(head.bloom),
        0,
        head.message_count,
        head.first_offset,
        head.timestamp_ms,
        head.term,
        head.payload_bytes,
    )


def decode_size(content: bytes, at: int) -> int:
    """Return how many bytes the chunk at `at` has, by its header. BadChunk: there is none."""
    return _unpack(content, at)[0].size


def _unpack(content: bytes, at: int) -> tuple[ChunkHead, int]:
    """The header at `at`, without its Bloom filter's bytes, and its checksum."""
    if len(content) - at < HEAD_BYTES:
        raise BadChunk(f"a header cut short at byte {at}")
    fields = HEAD.unpack_from(content, at)
    magic, crc, version, bloom_bytes, _, count, first, timestamp, term, payload_bytes = fields
    if magic != MAGIC or version != VERSION:
        raise BadChunk(f"no chunk at byte {at}: magic {magic:#x}, version {version}")
    bloom = bytes(content[at + HEAD_BYTES : at + HEAD_BYTES + bloom_bytes])
    if len(bloom) < bloom_bytes:
        bloom = bytes(bloom_bytes)
    return ChunkHead(first, count, timestamp, term, payload_bytes, bloom), crc


def decode_chunk(content: bytes, at: int) -> tuple[ChunkHead, bytes]:
    """Return header and payload of the chunk at `at`. BadChunk: it is not whole or not sound."""
    head, crc = _unpack(content, at)
    end = at + head.size
    if len(content) < end:
        raise BadChunk(f"a chunk cut short at byte {at}: {len(content) - at} of {head.size} bytes")
    if crc32c(memoryview(content)[at + CHECKED_FROM : end]) != crc:
        raise BadChunk(f"wrong checksum of the chunk of offset {head.first_offset} at byte {at}")
    return head, content[end - head.payload_bytes : end]


def bloom_of(values: Collection[bytes], size: int) -> bytes:
    """Make the Bloom filter of these filter values, of `size` bytes; empty without values."""
    if not values:
        return b""
    bits = bytearray(size)
    for value in values:
        for bit in _bits(value, size):
            bits[bit >> 3] |= 1 << (bit & 7)
    return bytes(bits)


def may_contain(bloom: bytes, values: Collection[bytes]) -> bool:
    """Whether a chunk with this Bloom filter may hold a message with one of these values."""
    size = len(bloom)
    if size == 0:
        return False
    return any(all(bloom[bit >> 3] & 1 << (bit & 7) for bit in _bits(v, size)) for v in values)


def _bits(value: bytes, size: int) -> list[int]:
    first = crc32c(value)
    step = crc32c(value, SECOND_SEED) | 1
    return [(first + probe * step) % (8 * size) for probe in range(PROBES)]
