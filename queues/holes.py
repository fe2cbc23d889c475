"""Which messages of an extent are gone, and how many bytes each has. No I/O. Compiled.

Made of the sizes of its messages when the first of them goes alone (an expiration, a message that
is dropped from the head), so that the extent need not become slots again (`queues.extents`): 300
bytes for each of those, and nothing makes them an extent any more. Here it is a bit for each
message, and its size, which the account of the log file wants without decoding anything: up to
KINDS_MAX different sizes are told by an index of 0, 1, 2 or 4 bits, others by 4 bytes each.

Owned by one extent. A message that goes twice is a fault of ours: `AssertionError`.
"""

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr, u8

from warren.wire.buffer import read_i32_le

KINDS_MAX: Final = 16


@final
@mypyc_attr(acyclic=True)
class Holes:
    """Of messages 0..count-1. Invariant: either `_sizes` has the size of each, or `_codes` an index
    of `_bits` bits into `_kinds` for each, packed from the lowest bit of a byte on."""

    def __init__(self, sizes: bytes) -> None:
        """`sizes`: u32 of each message, little-endian."""
        count: i64 = len(sizes) // 4
        self._gone: vec[u8] = vec[u8]([0] * ((count + 7) >> 3))
        self._kinds: vec[i64] = vec[i64]([0] * KINDS_MAX)
        self._bits: i64 = 0
        self._codes: vec[u8] = vec[u8]()
        self._sizes = b""
        known = self._learn(sizes, count)
        if known > KINDS_MAX:
            self._sizes = sizes
        elif known > 1:
            self._bits = 1 if known == 2 else 2 if known <= 4 else 4
            self._encode(sizes, count)

    def _learn(self, sizes: bytes, count: i64) -> i64:
        """Find the different sizes; return how many there are, or more than KINDS_MAX."""
        known: i64 = 0
        place: i64 = 0
        while place < count:
            size = i64(read_i32_le(sizes, 4 * place))
            if self._kind_of(size, known) == known:
                if known == KINDS_MAX:
                    return known + 1
                self._kinds[known] = size
                known += 1
            place += 1
        return known

    def _kind_of(self, size: i64, known: i64) -> i64:
        """The index of a size among those that are known; `known` if it is none of them."""
        kinds = self._kinds
        kind: i64 = 0
        while kind < known and kinds[kind] != size:
            kind += 1
        return kind

    def _encode(self, sizes: bytes, count: i64) -> None:
        bits = self._bits
        codes = vec[u8]([0] * ((count * bits + 7) >> 3))
        place: i64 = 0
        while place < count:
            kind = self._kind_of(i64(read_i32_le(sizes, 4 * place)), KINDS_MAX)
            at = place * bits
            codes[at >> 3] = u8(i64(codes[at >> 3]) | (kind << (at & 7)))
            place += 1
        self._codes = codes

    def size_of(self, index: i64) -> i64:
        """Bytes of a message."""
        if len(self._sizes) > 0:
            return i64(read_i32_le(self._sizes, 4 * index))
        bits = self._bits
        if bits == 0:
            return self._kinds[0]
        at = index * bits
        code = i64(self._codes[at >> 3]) >> (at & 7)
        return self._kinds[code & ((i64(1) << bits) - 1)]

    def bytes_between(self, first: i64, last: i64) -> i64:
        """Bytes of messages first..last-1, gone or not."""
        total: i64 = 0
        index = first
        while index < last:
            total += self.size_of(index)
            index += 1
        return total

    def dig(self, first: i64, last: i64) -> None:
        """Messages first..last-1 are gone."""
        gone = self._gone
        index = first
        while index < last:
            bit = i64(1) << (index & 7)
            byte = i64(gone[index >> 3])
            assert (byte & bit) == 0, "a message of an extent went twice"
            gone[index >> 3] = u8(byte | bit)
            index += 1

    def live_between(self, first: i64, last: i64) -> i64:
        """How many of messages first..last-1 are not gone."""
        gone = self._gone
        live: i64 = 0
        index = first
        while index < last:
            live += 1 - ((i64(gone[index >> 3]) >> (index & 7)) & 1)
            index += 1
        return live
