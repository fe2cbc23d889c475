"""Chunks as Deliver frames carry them, and batches inside an entry.

A chunk is a header of 48 bytes and entries. An entry is a message with a length of four bytes,
whose highest bit is 0, or a batch: a byte with the highest bit and the compression, the count (two
bytes), the uncompressed and the actual size (four bytes each), and messages with their lengths.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from warren.wire.streams.codes import Code, StreamProtocolError
from warren.wire.streams.reading import FieldReader
from warren.wire.streams.requests import Entry

MAGIC_AND_VERSION: Final = 0x50
HEADER_BYTES: Final = 48
USER_CHUNK: Final = 0
NOT_COMPRESSED: Final = 0
GZIP: Final = 1
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ENTRIES_MAX: Final = 0xFFFF  # of one chunk


class BadBatch(Exception):
    """A batch that this broker cannot read; only its messages are refused."""


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    """First fields of a chunk."""

    entry_count: int
    record_count: int
    timestamp_ms: int
    epoch: int
    first_offset: int
    crc: int
    data_bytes: int


def encode_chunk(first_offset: int, timestamp_ms: int, epoch: int, rows: Sequence[bytes]) -> bytes:
    """Encode messages, at most ENTRIES_MAX, as entries of one chunk."""
    assert 0 < len(rows) <= ENTRIES_MAX
    body = b"".join([len(each).to_bytes(4, "big") + each for each in rows])
    return b"".join(
        (
            bytes((MAGIC_AND_VERSION, USER_CHUNK)),
            len(rows).to_bytes(2, "big"),
            len(rows).to_bytes(4, "big"),
            timestamp_ms.to_bytes(8, "big", signed=True),
            epoch.to_bytes(8, "big"),
            first_offset.to_bytes(8, "big"),
            zlib.crc32(body).to_bytes(4, "big"),
            len(body).to_bytes(4, "big"),
            bytes(8),  # no trailer, no Bloom filter
            body,
        )
    )


def decode_chunk(data: bytes, bytes_max: int) -> tuple[ChunkHeader, list[bytes]]:
    """Return the header and all messages; StreamProtocolError where the chunk is damaged."""
    fields = FieldReader(data)
    if fields.u8() != MAGIC_AND_VERSION or fields.u8() != USER_CHUNK:
        raise StreamProtocolError(Code.UNKNOWN_FRAME, f"chunk begins with {data[:2].hex()}")
    head = ChunkHeader(
        fields.u16(),
        fields.u32(),
        fields.i64(),
        fields.u64(),
        fields.u64(),
        fields.u32(),
        fields.u32(),
    )
    fields.raw(8)
    body = fields.raw(head.data_bytes)
    if zlib.crc32(body) != head.crc:
        raise StreamProtocolError(Code.UNKNOWN_FRAME, f"checksum of chunk {head.first_offset}")
    rows = _rows(FieldReader(body), head.entry_count, bytes_max)
    if len(rows) != head.record_count:
        text = f"chunk has {len(rows)} messages and its header {head.record_count}"
        raise StreamProtocolError(Code.UNKNOWN_FRAME, text)
    return head, rows


def _rows(fields: FieldReader, count: int, bytes_max: int) -> list[bytes]:
    rows: list[bytes] = []
    for _ in range(count):
        kind = fields.u8()
        if kind & 0x80 == 0:
            rows.append(fields.raw(kind << 24 | fields.u8() << 16 | fields.u16()))
            continue
        batch_count, uncompressed, size = fields.u16(), fields.u32(), fields.u32()
        batch = Entry(0, fields.raw(size), "", batch_count, kind >> 4 & 7, uncompressed)
        rows.extend(messages_of(batch, bytes_max))
    return rows


def messages_of(entry: Entry, bytes_max: int) -> list[bytes]:
    """The messages of an entry. BadBatch: a compression that this broker does not have, more than
    `bytes_max` bytes without it, or other bytes than the entry claims."""
    if entry.batch_count == 0:
        return [entry.data]
    data = _uncompressed(entry, bytes_max)
    fields = FieldReader(data)
    try:
        rows = [fields.raw(fields.u32()) for _ in range(entry.batch_count)]
    except StreamProtocolError as error:
        raise BadBatch(f"batch of {entry.batch_count} messages: {error.text}") from error
    if not fields.is_at_end:
        raise BadBatch(f"bytes behind the {entry.batch_count} messages of a batch")
    return rows


def _uncompressed(entry: Entry, bytes_max: int) -> bytes:
    if entry.uncompressed_bytes > bytes_max:
        text = f"batch of {entry.uncompressed_bytes} bytes without compression"
        raise BadBatch(f"{text}; allowed: {bytes_max}")
    if entry.compression == NOT_COMPRESSED:
        return entry.data
    if entry.compression != GZIP:
        names = COMPRESSIONS
        kind = entry.compression
        name = names[kind] if kind < len(names) else str(kind)
        raise BadBatch(f"compression {name}; allowed: none, gzip")
    inflate = zlib.decompressobj(wbits=31)
    try:
        data = inflate.decompress(entry.data, entry.uncompressed_bytes + 1)
    except zlib.error as error:
        raise BadBatch(f"gzip: {error}") from error
    if len(data) != entry.uncompressed_bytes or not inflate.eof:
        raise BadBatch(f"gzip: other than {entry.uncompressed_bytes} bytes without compression")
    return data
