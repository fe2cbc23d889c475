"""Messages as the stream protocol carries them: entries of Publish, chunks of Deliver. No I/O.

An entry is a message with a length i32, or a batch: a byte with its highest bit set and the
compression in the next three, count u16, uncompressed bytes u32, bytes u32, and the messages, each
with a length i32, compressed as a whole. A chunk is a header of 48 bytes and entries; there is one
per Deliver frame. Warren stores and delivers single messages, whatever they came in.
"""

import zlib
from struct import Struct
from typing import Final

from warren.wire.stream.frames import BadFrame

CHUNK_MAGIC_AND_VERSION: Final = 0x50
USER_CHUNK: Final = 0
# magic and version, kind, entries, records, timestamp, epoch, first offset, crc, data and trailer
# bytes, Bloom bytes and three reserved ones
CHUNK_HEAD: Final = Struct(">BBHIqQQIIII")
NONE: Final = 0
NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
UNPACKED_BYTES_MAX: Final = 16 << 20  # of one batch
ENTRIES_MAX: Final = 65_535  # of a chunk: its count is a u16


class Unsupported(Exception):
    """A batch is compressed in a way that this node cannot undo; the text names it."""


def unpacked(kind: int, packed: bytes, size: int) -> bytes:
    """The messages of a batch, each with a length i32. Unsupported: see there. BadFrame: they are
    other than `size` bytes; no more of them are ever unpacked."""
    if size > UNPACKED_BYTES_MAX:
        text = f"a batch of {size} bytes; allowed: at most {UNPACKED_BYTES_MAX}"
        raise BadFrame(text, is_too_large=True)
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


def chunk_head(first_offset: int, timestamp_ms: int, epoch: int, count: int, data: bytes) -> bytes:
    """The header of a chunk of single messages whose offsets count up, at most ENTRIES_MAX: each
    has a length i32 in `data`, which follows."""
    return CHUNK_HEAD.pack(
        *(CHUNK_MAGIC_AND_VERSION, USER_CHUNK, count, count, timestamp_ms, epoch),
        *(first_offset, zlib.crc32(data), len(data), 0, 0),
    )
