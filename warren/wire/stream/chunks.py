"""Messages as the stream protocol carries them: entries of Publish, chunks of Deliver. No I/O.

An entry is a message with a length i32, or a batch: a byte with its highest bit set and the
compression in the next three, count u16, uncompressed bytes u32, bytes u32, and the messages, each
with a length i32, compressed as a whole. A chunk is a header of 48 bytes and entries; there is one
per Deliver frame. Warren stores and delivers single messages, whatever they came in.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from warren.wire.stream.frames import I32, BadFrame, Fields

CHUNK_MAGIC_AND_VERSION: Final = 0x50
USER_CHUNK: Final = 0
# magic and version, kind, entries, records, timestamp, epoch, first offset, crc, data and trailer
# bytes, Bloom bytes and three reserved ones
CHUNK_HEAD: Final = Struct(">BBHIqQQIIII")
SINGLE_HEAD: Final = Struct(">QI")  # publishing id, bytes; of a batch these are 2 GB or more
BATCH: Final = 0x80
NONE: Final = 0
NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
UNPACKED_BYTES_MAX: Final = 16 << 20  # of one batch
ENTRIES_MAX: Final = 65_535  # of a chunk: its count is a u16


@dataclass(slots=True)
class Entry:
    """What Publish has under one publishing id."""

    publishing_id: int
    filter_value: str  # "": none
    messages: tuple[bytes, ...]  # several: they came as one batch


class Unsupported(Exception):
    """A batch is compressed in a way that this node cannot undo; the text names it."""


def take_entry(fields: Fields, has_filter: bool) -> Entry:
    """The next entry of Publish. BadFrame: there is none. Unsupported: see there."""
    body, at = fields.body, fields.at
    if not has_filter and at + SINGLE_HEAD.size <= len(body):  # What most are, in one step.
        publishing_id, length = SINGLE_HEAD.unpack_from(body, at)
        end = at + SINGLE_HEAD.size + length
        if end <= len(body):
            fields.at = end
            return Entry(publishing_id, "", (body[at + SINGLE_HEAD.size : end],))
    publishing_id = fields.u64()
    filter_value = fields.string() if has_filter else ""
    if fields.is_at_end:
        raise BadFrame("a frame of command 2 is cut short")
    if fields.body[fields.at] & BATCH:
        return Entry(publishing_id, filter_value, _take_batch(fields))
    return Entry(publishing_id, filter_value, (fields.blob(),))


def _take_batch(fields: Fields) -> tuple[bytes, ...]:
    kind = fields.u8() >> 4 & 0x7
    count, unpacked_bytes = fields.u16(), fields.u32()
    packed = fields.blob()
    if unpacked_bytes > UNPACKED_BYTES_MAX:
        text = f"a batch of {unpacked_bytes} bytes; allowed: at most {UNPACKED_BYTES_MAX}"
        raise BadFrame(text, is_too_large=True)
    content = _unpacked(kind, packed, unpacked_bytes)
    messages: list[bytes] = []
    at = 0
    for _ in range(count):
        if at + I32.size > len(content):
            raise BadFrame("a batch has fewer messages than it says")
        (length,) = I32.unpack_from(content, at)
        at += I32.size
        if length < 0 or at + length > len(content):
            raise BadFrame("a batch has fewer messages than it says")
        messages.append(content[at : at + length])
        at += length
    if not messages:
        raise BadFrame("a batch without messages")
    return tuple(messages)


def _unpacked(kind: int, packed: bytes, size: int) -> bytes:
    """BadFrame also if there are other than `size` bytes; no more of them are ever unpacked."""
    if kind == NONE:
        return packed
    if kind >= len(NAMES):
        raise Unsupported(f"compression {kind}; allowed: {', '.join(NAMES)}")
    import cramjam  # Few publishers compress, and each start would pay for it.

    codec = (cramjam.gzip, cramjam.snappy, cramjam.lz4, cramjam.zstd)[kind - 1]
    content = bytearray(size)
    try:
        count = codec.decompress_into(packed, content)
    except cramjam.DecompressionError as error:
        raise BadFrame(f"a batch cannot be unpacked by {NAMES[kind]}: {error}") from None
    if count != size:
        raise BadFrame(f"a batch has other than the {size} bytes that it says")
    return bytes(content)


def encode_chunk(
    first_offset: int, timestamp_ms: int, epoch: int, messages: Sequence[bytes]
) -> bytes:
    """A chunk of single messages whose offsets count up; at most ENTRIES_MAX."""
    parts: list[bytes] = []
    for message in messages:
        parts.append(I32.pack(len(message)))
        parts.append(message)
    data = b"".join(parts)
    count = len(messages)
    head = CHUNK_HEAD.pack(
        *(CHUNK_MAGIC_AND_VERSION, USER_CHUNK, count, count, timestamp_ms, epoch),
        *(first_offset, zlib.crc32(data), len(data), 0, 0),
    )
    return head + data
