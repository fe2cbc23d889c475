"""One small number per message, in blocks: what runs cannot say (level, size). Compiled.

A block of BLOCK messages that all have the same number is that number; it becomes an array when
they differ, and goes when its last message does.
"""

from array import array
from typing import Final, final

from mypy_extensions import i64

BLOCK_SHIFT: Final = 10
BLOCK: Final = 1 << BLOCK_SHIFT


@final
class Block:
    def __init__(self, value: i64) -> None:
        self.value: i64 = value  # of all messages, while `values` is None
        self.values: array[int] | None = None
        self.live: i64 = 0


@final
class Column:
    """Numbers by message_seq; `typecode` is the array's, `B` or `i`."""

    def __init__(self, typecode: str) -> None:
        self._typecode = typecode
        self._blocks: dict[int, Block] = {}

    def fill(self, first: i64, count: i64, value: i64) -> None:
        """Messages first.. are new and have this number."""
        end = first + count
        while first < end:
            key = first >> BLOCK_SHIFT
            stop = min(end, (key + 1) << BLOCK_SHIFT)
            block = self._blocks.get(key)
            if block is None:
                block = Block(value)
                self._blocks[key] = block
            elif block.values is None and block.value != value:
                block.values = array(self._typecode, [block.value]) * BLOCK
            values = block.values
            if values is not None:
                base = key << BLOCK_SHIFT
                at = first
                while at < stop:
                    values[at - base] = value
                    at += 1
            block.live += stop - first
            first = stop

    def get(self, seq: i64) -> i64:
        block = self._blocks[seq >> BLOCK_SHIFT]
        values = block.values
        return block.value if values is None else i64(values[seq & (BLOCK - 1)])

    def alike(self, first: i64, count: i64) -> i64:
        """How many of first.. have the same number as the first one."""
        value = self.get(first)
        at = first + 1
        end = first + count
        while at < end:
            block = self._blocks[at >> BLOCK_SHIFT]
            if block.values is None and block.value == value:
                at = min(end, ((at >> BLOCK_SHIFT) + 1) << BLOCK_SHIFT)
            elif self.get(at) == value:
                at += 1
            else:
                break
        return at - first

    def sum(self, first: i64, count: i64) -> i64:
        total: i64 = 0
        at = first
        while at < first + count:
            total += self.get(at)
            at += 1
        return total

    def release(self, first: i64, count: i64) -> None:
        """Messages first.. are gone."""
        end = first + count
        while first < end:
            key = first >> BLOCK_SHIFT
            stop = min(end, (key + 1) << BLOCK_SHIFT)
            block = self._blocks[key]
            block.live -= stop - first
            if block.live == 0:
                del self._blocks[key]
            first = stop

    def block_count(self) -> int:
        return len(self._blocks)
