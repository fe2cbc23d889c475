"""Which messages of an extent are gone, and how many bytes each has. No I/O. Compiled.

`Sizes` is made with the extent and kept in few bits: nothing is unpacked when a message goes alone
(an expiration, a message that is dropped from the head), for hundreds of extents may be hit for the
first time in one turn. Up to KINDS_MAX different sizes are encoded by an index of 0, 1, 2 or 4
bits, others by 2 bytes each, or 4 where one has 64 KiB or more.

`Holes` is made when the first message goes alone, a bit for each, so that the extent need not
become slots again (`queues.bodies.extents`): 300 bytes for each of those.

Both are owned by one extent. A message that goes twice is a fault of ours: `AssertionError`.
"""

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i16, i64, mypyc_attr, u8

from warren.wire.buffer import BytesWriter, read_i16_be, read_i32_le, write_i16_be

KINDS_MAX: Final = 16
SHORT_BITS: Final = 16  # of a size that is stored as it is
LONG_BITS: Final = 32
SHORT_MAX: Final = 0xFFFF


@final
@mypyc_attr(acyclic=True)
class Sizes:
    """Of messages 0..count-1. Invariant: with up to 4 `_bits`, `_codes` has an index of so many
    bits into `_kinds` for each, packed from the lowest bit of a byte on; with 16 or 32 `_plain` has
    the size itself, big-endian (16) or little-endian (32)."""

    def __init__(self, sizes: bytes) -> None:
        """`sizes`: u32 of each message, little-endian."""
        count: i64 = len(sizes) // 4
        self._kinds: vec[i64] = vec[i64]()
        self._codes: vec[u8] = vec[u8]()
        self._plain = b""
        self.bits: i64 = 0
        known = self._learn(sizes, count)
        if known > KINDS_MAX:
            self._kinds = vec[i64]()
            self._keep_plain(sizes, count)
        elif known > 1:
            self.bits = 1 if known == 2 else 2 if known <= 4 else 4
            self._encode(sizes, count)

    def _learn(self, sizes: bytes, count: i64) -> i64:
        """Find the different sizes; return how many there are, or more than KINDS_MAX."""
        kinds = vec[i64]([0] * KINDS_MAX)
        known: i64 = 0
        last: i64 = -1
        place: i64 = 0
        while place < count:
            size = i64(read_i32_le(sizes, 4 * place))
            if size != last:
                last = size
                kind: i64 = 0
                while kind < known and kinds[kind] != size:
                    kind += 1
                if kind == KINDS_MAX:
                    return known + 1
                if kind == known:
                    kinds[known] = size
                    known += 1
            place += 1
        self._kinds = vec[i64]([kinds[kind] for kind in range(known)])
        return known

    def _encode(self, sizes: bytes, count: i64) -> None:
        kinds = self._kinds
        bits = self.bits
        codes = vec[u8]([0] * ((count * bits + 7) >> 3))
        place: i64 = 0
        while place < count:
            size = i64(read_i32_le(sizes, 4 * place))
            kind: i64 = 0
            while kinds[kind] != size:
                kind += 1
            at = place * bits
            codes[at >> 3] = u8(i64(codes[at >> 3]) | (kind << (at & 7)))
            place += 1
        self._codes = codes

    def _keep_plain(self, sizes: bytes, count: i64) -> None:
        self.bits = SHORT_BITS
        writer = BytesWriter()
        place: i64 = 0
        while place < count:
            size = i64(read_i32_le(sizes, 4 * place))
            if size > SHORT_MAX:
                self.bits = LONG_BITS
                self._plain = sizes
                return
            write_i16_be(writer, i16(size if size < 0x8000 else size - 0x10000))
            place += 1
        self._plain = writer.getvalue()

    def size_of(self, index: i64) -> i64:
        """Bytes of a message."""
        bits = self.bits
        if bits == 0:
            return self._kinds[0]
        if bits == SHORT_BITS:
            return i64(read_i16_be(self._plain, 2 * index)) & SHORT_MAX
        if bits == LONG_BITS:
            return i64(read_i32_le(self._plain, 4 * index))
        at = index * bits
        code = i64(self._codes[at >> 3]) >> (at & 7)
        return self._kinds[code & ((i64(1) << bits) - 1)]

    def bytes_between(self, first: i64, last: i64) -> i64:
        """Bytes of messages first..last-1, gone or not."""
        if self.bits == 0:
            return (last - first) * self._kinds[0] if last > first else 0
        total: i64 = 0
        index = first
        while index < last:
            total += self.size_of(index)
            index += 1
        return total

    def byte_count(self) -> int:
        """What they take themselves."""
        return len(self._codes) + len(self._plain) + 8 * len(self._kinds)


@final
@mypyc_attr(acyclic=True)
class Holes:
    """Of messages 0..count-1."""

    def __init__(self, count: i64) -> None:
        self._gone: vec[u8] = vec[u8]([0] * ((count + 7) >> 3))

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
