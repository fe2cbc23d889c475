"""Numbers of messages, in blocks: what runs cannot say. Compiled.

`Column` has a small number of every message (level, size). A block of BLOCK messages that all have
the same number is that number; it becomes an array when they differ, and goes when its last message
does. `Sparse` has numbers of some messages. A `copy` of either costs little (0009): it shares the
blocks, of which those of a column never change for a message that is there. `alike_runs` makes runs
of values by message.
"""

from array import array
from typing import Final, TypeVar, final

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

    def copy(self) -> "Column":
        """The numbers of the messages that are there now, to be read alone."""
        made = Column(self._typecode)
        made._blocks = dict(self._blocks)
        return made

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
        end = first + count
        while at < end:
            block = self._blocks[at >> BLOCK_SHIFT]
            stop = min(end, ((at >> BLOCK_SHIFT) + 1) << BLOCK_SHIFT)
            values = block.values
            if values is None:
                total += block.value * (stop - at)
            else:
                for place in range(at & (BLOCK - 1), (at & (BLOCK - 1)) + stop - at):
                    total += i64(values[place])
            at = stop
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


@final
class Sparse:
    """Numbers, none of them 0, of some messages. Invariant: a part that is in `_shared` may be
    another one's too, and stays as it is; none is empty."""

    def __init__(self) -> None:
        self._parts: dict[int, dict[int, int]] = {}  # by message_seq >> BLOCK_SHIFT
        self._shared: set[int] = set()
        self.count: i64 = 0

    def copy(self) -> "Sparse":
        """The same, whatever becomes of this one."""
        made = Sparse()
        made._parts = dict(self._parts)
        made._shared = set(self._parts)
        made.count = self.count
        self._shared = set(self._parts)
        return made

    def get(self, seq: i64) -> i64:
        """0: it has none."""
        part = self._parts.get(seq >> BLOCK_SHIFT)
        return 0 if part is None else i64(part.get(seq, 0))

    def put(self, seq: i64, value: i64) -> None:
        assert value != 0
        key = seq >> BLOCK_SHIFT
        part = self._parts.get(key)
        if part is None:
            part = {}
            self._parts[key] = part
            self._shared.discard(key)
        else:
            part = self._own(key, part)
        if seq not in part:
            self.count += 1
        part[seq] = value

    def take(self, seq: i64) -> i64:
        """It has none any more; the one that it had, or 0."""
        key = seq >> BLOCK_SHIFT
        part = self._parts.get(key)
        if part is None or seq not in part:
            return 0
        part = self._own(key, part)
        value: i64 = part.pop(seq)
        self.count -= 1
        if len(part) == 0:
            del self._parts[key]
        return value

    def forget(self, first: i64, count: i64) -> None:
        """Messages first.. have none any more."""
        seq = first
        end = first + count
        while seq < end and self.count > 0:
            if seq >> BLOCK_SHIFT in self._parts:
                self.take(seq)
                seq += 1
            else:
                seq = ((seq >> BLOCK_SHIFT) + 1) << BLOCK_SHIFT

    def _own(self, key: i64, part: dict[int, int]) -> dict[int, int]:
        """The part, to be changed."""
        if key in self._shared:
            self._shared.discard(key)
            part = dict(part)
            self._parts[key] = part
        return part

    def keys(self) -> list[int]:
        """Of its parts, ascending."""
        return sorted(self._parts)

    def part(self, key: int) -> list[tuple[int, int]]:
        """(message_seq, number) of a part, ascending."""
        return sorted(self._parts[key].items())

    def items(self) -> list[tuple[int, int]]:
        """All, ascending."""
        found: list[tuple[int, int]] = []
        for key in sorted(self._parts):
            found.extend(sorted(self._parts[key].items()))
        return found


Value = TypeVar("Value")


def alike_runs(values: dict[int, Value]) -> list[tuple[int, int, Value]]:
    """Return values by message as runs (first, count, value of each), ascending."""
    runs: list[tuple[int, int, Value]] = []
    for seq in sorted(values):
        value = values[seq]
        if len(runs) > 0:
            first, count, before = runs[len(runs) - 1]
            if first + count == seq and before == value:
                runs[len(runs) - 1] = (first, count + 1, before)
                continue
        runs.append((seq, 1, value))
    return runs
