"""Sets of message_seqs as ascending runs: what is contiguous costs nothing per message.

A first-in first-out queue is one run however long it is. Holes (messages settled, expired or
taken out of order) cost one run each, 16 bytes and some slack: a million of them are about 20 MB.
Runs stand in blocks of at most `BLOCK_RUNS`, so that any single operation moves one block and
finds it by halving. What a call takes or gives as (first, count) runs is linear in those runs;
callers that owe the loop short turns go in slices (`take_head`, `split_below`, `runs_from`). A
`copy` shares the blocks: a set copies a block that is shared before it changes it (0009).

Encoded, a set is the number of its runs and then, run by run, the gap since the end of the run
before (or since 0) and the length of the run. All three are varints: seven bits a byte, the
lowest first, the high bit set on all but the last byte; no longer than needed, below 2**63. Bytes
that are not such an encoding are a `ValueError`. Only sets of positive members are encoded.

Owned by the queue machine; a broken rule of a caller is an `AssertionError`. Compiled: the flat
buffers are native arrays there, and slow but equal ones uncompiled.
"""

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr, u8

from warren.wire.buffer import BytesWriter

BLOCK_RUNS: Final = 128  # most runs of one block
START_RUNS: Final = 4  # room of the block that a small set has
SLACK_RUNS: Final = 16  # free room that a block is given when it is too full or too empty
SPARSE_RUNS: Final = 32  # a block with fewer is joined with a neighbour, if they fit
JOINED_RUNS: Final = 96  # most runs of two blocks that are joined
VARINT_BITS: Final = 63
SEQ_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF
SEQ_MIN: Final = -0x7FFF_FFFF_FFFF_FFFF


@final
@mypyc_attr(acyclic=True)
class Block:
    """PeerQueuesOf runs of a set in one flat buffer.

    Run i is [bounds[2 * i], bounds[2 * i + 1]) for head <= i < tail; what else the buffer holds
    is void. Runs ascend, none is empty, and between two there is a gap of at least one.
    """

    def __init__(self, room: i64) -> None:
        self.bounds: vec[i64] = vec[i64]([0] * (2 * room))
        self.head: i64 = 0
        self.tail: i64 = 0
        self.shared = False  # other sets may have it too, so it stays as it is

    def run_count(self) -> i64:
        return self.tail - self.head

    def first(self) -> i64:
        assert self.head < self.tail
        return self.bounds[2 * self.head]

    def place(self, seq: i64) -> i64:
        """Index of the last run that begins at or before `seq`; head - 1 if there is none."""
        bounds = self.bounds
        low = self.head
        high = self.tail
        while low < high:
            middle = (low + high) >> 1
            if bounds[2 * middle] > seq:
                high = middle
            else:
                low = middle + 1
        return low - 1

    def place_from(self, seq: i64) -> i64:
        """Index of the first run that has a member not below `seq`; tail if there is none."""
        place = self.place(seq)
        return place if place >= self.head and self.bounds[2 * place + 1] > seq else place + 1

    def members(self) -> i64:
        """How many numbers are in all its runs."""
        bounds = self.bounds
        found: i64 = 0
        for place in range(self.head, self.tail):
            found += bounds[2 * place + 1] - bounds[2 * place]
        return found

    def bound_after(self, count: i64) -> i64:
        """The number that has exactly `count` members of this block below it."""
        bounds = self.bounds
        place = self.head
        left = count
        while True:
            assert place < self.tail
            length = bounds[2 * place + 1] - bounds[2 * place]
            if length >= left:
                return bounds[2 * place] + left
            left -= length
            place += 1

    def gather(self, found: list[tuple[int, int]], first: i64, end: i64, limit: i64) -> None:
        """Append the parts of its runs in [first, end) while `found` has fewer than `limit`."""
        bounds = self.bounds
        for place in range(self.place_from(first), self.tail):
            run_first = max(first, bounds[2 * place])
            if run_first >= end or len(found) >= limit:
                return
            found.append((run_first, min(end, bounds[2 * place + 1]) - run_first))

    # Changing it

    def resize(self, room: i64) -> None:
        """Move the runs to the start of a buffer for `room` runs."""
        assert self.tail - self.head <= room
        old = self.bounds
        made = vec[i64]([0] * (2 * room))
        start = 2 * self.head
        for place in range(start, 2 * self.tail):
            made[place - start] = old[place]
        self.bounds = made
        self.tail -= self.head
        self.head = 0

    def shift(self, low: i64, high: i64, by: i64) -> None:
        """Move the runs low..high-1 by so many places; head and tail are the caller's to set."""
        bounds = self.bounds
        distance = 2 * by
        if by < 0:
            place = 2 * low
            while place < 2 * high:
                bounds[place + distance] = bounds[place]
                place += 1
        else:
            place = 2 * high - 1
            while place >= 2 * low:
                bounds[place + distance] = bounds[place]
                place -= 1

    def append(self, first: i64, end: i64) -> None:
        """Put a run in after all others; the block must not be full."""
        if 2 * self.tail == len(self.bounds):
            self._make_room()
        place = 2 * self.tail
        self.bounds[place] = first
        self.bounds[place + 1] = end
        self.tail += 1

    def _make_room(self) -> None:
        length = self.tail - self.head
        assert length < BLOCK_RUNS
        if 2 * (length + SLACK_RUNS) <= len(self.bounds):
            self.shift(self.head, self.tail, -self.head)
            self.head = 0
            self.tail = length
        else:
            self.resize(min(length + SLACK_RUNS, BLOCK_RUNS))

    def insert(self, place: i64, first: i64, end: i64) -> i64:
        """Put a run in before the run at `place`; the block must not be full. Gives its place."""
        if 2 * self.tail == len(self.bounds) and self.head == 0:
            self._make_room()
        room_above = 2 * self.tail < len(self.bounds)
        if self.head > 0 and (place - self.head < self.tail - place or not room_above):
            self.shift(self.head, place, -1)
            self.head -= 1
            place -= 1
        else:
            self.shift(place, self.tail, 1)
            self.tail += 1
        self.bounds[2 * place] = first
        self.bounds[2 * place + 1] = end
        return place

    def delete(self, low: i64, high: i64) -> None:
        """Take the runs low..high-1 out."""
        if low - self.head < self.tail - high:
            self.shift(self.head, low, high - low)
            self.head += high - low
        else:
            self.shift(high, self.tail, low - high)
            self.tail -= high - low

    def cut(self, first: i64, end: i64) -> i64:
        """Take [first, end) out, which is not inside of one run; return how many members went."""
        bounds = self.bounds
        gone: i64 = 0
        low = self.place(first)
        if low < self.head:
            low = self.head
        elif bounds[2 * low] < first:
            if bounds[2 * low + 1] > first:
                assert bounds[2 * low + 1] <= end
                gone = bounds[2 * low + 1] - first
                bounds[2 * low + 1] = first
            low += 1
        high = low
        while high < self.tail and bounds[2 * high + 1] <= end:
            gone += bounds[2 * high + 1] - bounds[2 * high]
            high += 1
        if high < self.tail and bounds[2 * high] < end:
            gone += end - bounds[2 * high]
            bounds[2 * high] = end
        self.delete(low, high)
        return gone

    def shrink(self) -> None:
        """Give room back when that makes the buffer smaller by more than a quarter."""
        room = self.tail - self.head + SLACK_RUNS
        if 8 * room < 3 * len(self.bounds):
            self.resize(room)

    def split_at(self, place: i64) -> "Block":
        """Move the runs from `place` on to a new block."""
        upper = Block(min(self.tail - place + SLACK_RUNS, BLOCK_RUNS))
        upper.take_over(self, place, self.tail)
        self.tail = place
        self.resize(place - self.head + SLACK_RUNS)
        return upper

    def copy(self) -> "Block":
        """Another block with the same runs."""
        made = Block(min(self.tail - self.head + SLACK_RUNS, BLOCK_RUNS))
        made.take_over(self, self.head, self.tail)
        return made

    def split_below(self, seq: i64) -> "Block":
        """Move what is below `seq`, which is something, to a new block."""
        upto = self.place(seq - 1) + 1
        lower = Block(upto - self.head)
        lower.take_over(self, self.head, upto)
        last = 2 * lower.tail - 1
        if lower.bounds[last] > seq:
            lower.bounds[last] = seq
            upto -= 1
            self.bounds[2 * upto] = seq
        self.head = upto
        return lower

    def take_over(self, other: "Block", low: i64, high: i64) -> None:
        """Append the runs low..high-1 of another block, which are above all runs of this one."""
        length = self.tail - self.head + high - low
        assert length <= BLOCK_RUNS
        if 2 * (self.tail + high - low) > len(self.bounds):
            self.resize(min(length + SLACK_RUNS, BLOCK_RUNS))
        bounds = self.bounds
        source = other.bounds
        distance = 2 * (self.tail - low)
        for place in range(2 * low, 2 * high):
            bounds[place + distance] = source[place]
        self.tail += high - low


@final
@mypyc_attr(acyclic=True)
class SeqSet:
    """An ordered set of integers.

    Invariant: blocks ascend, and so do the runs through all blocks with gaps of at least one. No
    block is empty but the only one of an empty set. `_head` and `_tail` are the outer blocks. Who
    changes a block has it from `_own`, or has made it.
    """

    def __init__(self) -> None:
        block = Block(START_RUNS)
        self._blocks: list[Block] = [block]
        self._head: Block = block
        self._tail: Block = block
        self.count: i64 = 0

    def copy(self) -> "SeqSet":
        """Another set with the same members; it costs a pointer for each block."""
        made = SeqSet()
        for block in self._blocks:
            block.shared = True
        made._blocks = list(self._blocks)
        made._mark()
        made.count = self.count
        return made

    def _own(self, at: i64) -> Block:
        """The block at that place, to be changed."""
        block = self._blocks[at]
        if block.shared:
            block = block.copy()
            self._blocks[at] = block
            self._mark()
        return block

    # Reading

    def runs(self) -> list[tuple[int, int]]:
        """All runs as (first, count), ascending."""
        found: list[tuple[int, int]] = []
        for block in self._blocks:
            block.gather(found, SEQ_MIN, SEQ_MAX, SEQ_MAX)
        return found

    def run_count(self) -> int:
        found: i64 = 0
        for block in self._blocks:
            found += block.run_count()
        return found

    def first(self) -> i64:
        """The lowest member; the set must not be empty."""
        assert self.count > 0
        head = self._head
        return head.bounds[2 * head.head]

    def head_run(self) -> i64:
        """Length of the run that begins at `first()`."""
        assert self.count > 0
        head = self._head
        place = 2 * head.head
        return head.bounds[place + 1] - head.bounds[place]

    def last(self) -> i64:
        """The highest member; the set must not be empty."""
        assert self.count > 0
        tail = self._tail
        return tail.bounds[2 * tail.tail - 1] - 1

    def contains(self, seq: i64) -> bool:
        block = self._blocks[self._find(seq)]
        place = block.place(seq)
        return place >= block.head and block.bounds[2 * place + 1] > seq

    def first_from(self, seq: i64) -> i64:
        """The lowest member that is not below `seq`, or -1."""
        at = self._find(seq)
        block = self._blocks[at]
        place = block.place_from(seq)
        if place < block.tail:
            return max(seq, block.bounds[2 * place])
        return self._blocks[at + 1].first() if at + 1 < len(self._blocks) else -1

    def runs_from(self, seq: i64, limit: i64) -> list[tuple[int, int]]:
        """The first `limit` runs of what is not below `seq`, as (first, count).

        A run that `seq` stands in is given from `seq` on. The walk goes on after the end of the
        last run given; it is over when fewer than `limit` come.
        """
        found: list[tuple[int, int]] = []
        at = self._find(seq)
        while at < len(self._blocks) and len(found) < limit:
            self._blocks[at].gather(found, seq, SEQ_MAX, limit)
            at += 1
        return found

    def within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """What of first..first+count-1 is a member, as (first, count) runs; nothing is changed."""
        found: list[tuple[int, int]] = []
        if self.count == 0 or count <= 0:
            return found
        end = first + count
        at = self._find(first)
        while at < len(self._blocks) and self._blocks[at].first() < end:
            self._blocks[at].gather(found, first, end, SEQ_MAX)
            at += 1
        return found

    def _find(self, seq: i64) -> i64:
        """Index of the last block that begins at or before `seq`; 0 if there is none."""
        low: i64 = 1
        high: i64 = len(self._blocks)
        while low < high:
            middle = (low + high) >> 1
            block = self._blocks[middle]
            if block.bounds[2 * block.head] > seq:
                high = middle
            else:
                low = middle + 1
        return low - 1

    # Putting in

    def add(self, first: i64, count: i64) -> None:
        """Put first..first+count-1 in; none of them may be a member already."""
        assert count > 0
        end = first + count
        tail = self._tail
        if tail.shared:
            tail = self._own(len(self._blocks) - 1)
        if self.count == 0:
            self.count = count
            tail.append(first, end)
            return
        self.count += count
        tail_end = tail.bounds[2 * tail.tail - 1]
        if first == tail_end:
            tail.bounds[2 * tail.tail - 1] = end
        elif first > tail_end:
            self._append(first, end)
        else:
            self._insert(first, end)

    def join(self, other: "SeqSet") -> None:
        """Put all members of another set in, none of which may be a member already.

        The other one is used up; of both, only that with fewer runs is gone through.
        """
        self._take_more_runs(other)
        for first, count in other.runs():
            self.add(first, count)

    def unite(self, other: "SeqSet") -> None:
        """The same where members may be in both."""
        self._take_more_runs(other)
        for first, count in other.runs():
            self.remove(first, count)
            self.add(first, count)

    def _take_more_runs(self, other: "SeqSet") -> None:
        """Change places with the other set if that has more runs."""
        if other.run_count() <= self.run_count():
            return
        blocks = self._blocks
        count = self.count
        self._blocks = other._blocks
        self.count = other.count
        other._blocks = blocks
        other.count = count
        self._mark()
        other._mark()

    def _append(self, first: i64, end: i64) -> None:
        """Put a run in after all others."""
        tail = self._tail
        if tail.tail == BLOCK_RUNS and tail.head < BLOCK_RUNS // 2:
            tail = Block(BLOCK_RUNS)
            self._blocks.append(tail)
            self._tail = tail
        tail.append(first, end)

    def _insert(self, first: i64, end: i64) -> None:
        """Put a run in somewhere before the tail, joined with its neighbours where they touch."""
        at = self._find(first)
        block = self._own(at)
        place = block.place(first)
        above = block
        right = place + 1
        if right == block.tail:  # There is a block above: the run is not the last one.
            above = self._own(at + 1)
            right = above.head
        assert place < block.head or block.bounds[2 * place + 1] <= first
        assert above.bounds[2 * right] >= end
        joins_left = place >= block.head and block.bounds[2 * place + 1] == first
        joins_right = above.bounds[2 * right] == end
        if joins_left and joins_right:
            block.bounds[2 * place + 1] = above.bounds[2 * right + 1]
            above.delete(right, right + 1)
            self._tidy(at if above is block else at + 1)
        elif joins_left:
            block.bounds[2 * place + 1] = end
        elif joins_right:
            above.bounds[2 * right] = first
        else:
            self._insert_run(at, place + 1, first, end)

    def _insert_run(self, at: i64, place: i64, first: i64, end: i64) -> None:
        """Put a run that touches no other in before the run at `place` of a block."""
        block = self._own(at)
        if block.run_count() < BLOCK_RUNS:
            block.insert(place, first, end)
        elif place < block.tail:
            middle = 0 if place == 0 else BLOCK_RUNS // 2  # A full block has its head at 0.
            upper = block.split_at(middle)
            self._blocks.insert(at + 1, upper)
            if place <= middle:
                block.insert(place, first, end)
            else:
                upper.insert(place - middle, first, end)
        else:
            if at + 1 == len(self._blocks) or self._blocks[at + 1].run_count() == BLOCK_RUNS:
                self._blocks.insert(at + 1, Block(SLACK_RUNS))
            above = self._own(at + 1)
            above.insert(above.head, first, end)
        self._mark()

    def _mark(self) -> None:
        """Note the outer blocks after the list of them was changed."""
        self._head = self._blocks[0]
        self._tail = self._blocks[len(self._blocks) - 1]

    # Taking out

    def clear(self) -> None:
        self._blocks = [self._tail]
        self._head = self._tail
        self._empty()

    def _empty(self) -> None:
        """Start again in the only block."""
        if self._head.shared:
            self._blocks[0] = Block(START_RUNS)
            self._mark()
        block = self._head
        block.head = 0
        block.tail = 0
        self.count = 0
        if len(block.bounds) > 2 * (START_RUNS + SLACK_RUNS):
            block.resize(START_RUNS)

    def drop_head(self, count: i64) -> None:
        """Take the `count` lowest members away; they must be one run (see `head_run`)."""
        assert self.count > 0
        head = self._head
        if head.shared:
            head = self._own(0)
        bounds = head.bounds
        place = 2 * head.head
        first = bounds[place] + count
        assert first <= bounds[place + 1]
        self.count -= count
        if first < bounds[place + 1]:
            bounds[place] = first
            return
        head.head += 1
        if head.head == head.tail:
            if self.count == 0:
                self._empty()
            else:
                del self._blocks[0]
                self._head = self._blocks[0]

    def remove(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Take out what of first..first+count-1 is a member; return that as (first, count) runs."""
        gone: list[tuple[int, int]] = []
        if self.count == 0 or count <= 0:
            return gone
        end = first + count
        head = self._head
        lowest = 2 * head.head
        if first == head.bounds[lowest] and end <= head.bounds[lowest + 1]:
            self.drop_head(count)
            gone.append((first, count))
            return gone
        at = self._find(first)
        block = self._blocks[at]
        place = block.place(first)
        if place >= block.head and block.bounds[2 * place + 1] > end:
            if block.shared:
                block = self._own(at)
                place = block.place(first)
            run_end = block.bounds[2 * place + 1]
            gone.append((first, count))
            self.count -= count
            if block.bounds[2 * place] == first:
                block.bounds[2 * place] = end
            else:
                block.bounds[2 * place + 1] = first
                self._insert_run(at, place + 1, end, run_end)
            return gone
        self._remove_from(at, first, end, gone)
        return gone

    def _remove_from(self, low: i64, first: i64, end: i64, gone: list[tuple[int, int]]) -> None:
        """Take [first, end), which is not inside of one run, out of the blocks from `low` on."""
        high = low
        while high < len(self._blocks) and self._blocks[high].first() < end:
            block = self._own(high)
            block.gather(gone, first, end, SEQ_MAX)
            self.count -= block.cut(first, end)
            high += 1
        if self.count == 0:
            self.clear()
            return
        if high - low > 1:  # All between the first and the last of them are empty now.
            emptied_upto = high - 1 if self._blocks[high - 1].run_count() > 0 else high
            del self._blocks[low + 1 : emptied_upto]
            self._mark()
        if low < len(self._blocks):
            self._tidy(low)

    def _tidy(self, at: i64) -> None:
        """Drop a block that was emptied, join one that has become sparse with a neighbour."""
        block = self._blocks[at]
        length = block.run_count()
        if length == 0:
            del self._blocks[at]
        elif length >= SPARSE_RUNS or len(self._blocks) == 1:
            block.shrink()
            return
        elif at + 1 < len(self._blocks) and self._fit(at):
            self._join(at)
        elif at > 0 and self._fit(at - 1):
            self._join(at - 1)
        self._mark()

    def _fit(self, at: i64) -> bool:
        """Whether a block and the next one are small enough to be one."""
        return self._blocks[at].run_count() + self._blocks[at + 1].run_count() <= JOINED_RUNS

    def _join(self, at: i64) -> None:
        """Make a block and the next one into one."""
        above = self._blocks[at + 1]
        self._own(at).take_over(above, above.head, above.tail)
        del self._blocks[at + 1]

    def split_below(self, seq: i64) -> "SeqSet":
        """Take the members below `seq` out; they are returned as a set of their own."""
        taken = SeqSet()
        if self.count == 0 or self.first() >= seq:
            return taken
        at = self._find(seq - 1)
        block = self._own(at)
        lower = block.split_below(seq)
        taken._blocks = self._blocks[:at]
        taken._blocks.append(lower)
        taken._mark()
        for moved in taken._blocks:
            taken.count += moved.members()
        self.count -= taken.count
        if self.count == 0:
            self.clear()
            return taken
        del self._blocks[: at + 1 if block.run_count() == 0 else at]
        self._mark()
        return taken

    def take_head(self, limit: i64) -> "SeqSet":
        """Take the `limit` lowest members out, or all when there are fewer; returned as a set."""
        if limit <= 0 or self.count == 0:
            return SeqSet()
        left = limit
        for block in self._blocks:
            members = block.members()
            if members >= left:
                return self.split_below(block.bound_after(left))
            left -= members
        return self.split_below(self.last() + 1)

    # As bytes

    def encode(self) -> bytes:
        """The set as bytes; see the top of this file."""
        out = BytesWriter()
        write_varint(out, i64(self.run_count()))
        before: i64 = 0
        for block in self._blocks:
            bounds = block.bounds
            for place in range(block.head, block.tail):
                first = bounds[2 * place]
                assert first > before
                write_varint(out, first - before)
                before = bounds[2 * place + 1]
                write_varint(out, before - first)
        return out.getvalue()

    def encode_from(self, seq: i64, limit: i64) -> tuple[bytes, i64]:
        """The first `limit` runs of what is not below `seq` as bytes of a set of their own, and the
        number to go on at; -1: these were all."""
        runs = BytesWriter()
        found: i64 = 0
        before: i64 = 0
        at = self._find(seq)
        place = self._blocks[at].place_from(seq)
        while at < len(self._blocks):
            block = self._blocks[at]
            bounds = block.bounds
            while place < block.tail and found < limit:
                first = max(seq, bounds[2 * place])
                write_varint(runs, first - before)
                before = bounds[2 * place + 1]
                write_varint(runs, before - first)
                found += 1
                place += 1
            if place < block.tail:
                break
            at += 1
            if at < len(self._blocks):
                place = self._blocks[at].head
        head = BytesWriter()
        write_varint(head, found)
        return head.getvalue() + runs.getvalue(), before if at < len(self._blocks) else -1

    @staticmethod
    def decode(encoded: bytes) -> "SeqSet":
        """The set that `encode` gave as these bytes; `ValueError` for any other bytes."""
        made = SeqSet()
        made.append_encoded(encoded, SEQ_MAX)
        return made

    def append_encoded(self, encoded: bytes, end: i64) -> i64:
        """Put in what `encode` gave as these bytes; how many members that were. `ValueError`: they
        are others, or do not all come behind those of this set and before `end`."""
        old = self.count
        least = self.last() + 1 if old > 0 else 1
        left, at = read_varint(encoded, 0)
        before: i64 = 0
        while left > 0:
            gap, at = read_varint(encoded, at)
            count, at = read_varint(encoded, at)
            if gap == 0 or count == 0 or gap > end - before:
                raise ValueError("runs of a set that are empty, touch or pass the highest number")
            first = before + gap
            if first < least or count > end - first:
                raise ValueError("a run of a set that comes too early, or passes the highest")
            self.add(first, count)
            before = first + count
            left -= 1
        if at != len(encoded):
            raise ValueError("bytes after the last run of a set")
        return self.count - old


def write_varint(out: BytesWriter, value: i64) -> None:
    """Append a number that is not negative."""
    left = value
    while left >= 0x80:
        out.append(u8((left & 0x7F) | 0x80))
        left >>= 7
    out.append(u8(left))


def read_varint(encoded: bytes, start: i64) -> tuple[i64, i64]:
    """The number at `start`, and where the next one begins."""
    value: i64 = 0
    bits: i64 = 0
    at = start
    while at < len(encoded) and bits < VARINT_BITS:
        byte: i64 = encoded[at]
        at += 1
        if byte < 0x80:
            if byte == 0 and bits > 0:
                raise ValueError("a number of a set that is longer than it need be")
            return value | (byte << bits), at
        value |= (byte & 0x7F) << bits
        bits += 7
    raise ValueError("a number of a set that is cut off or too high")


def missing(seqs: SeqSet, first: i64, count: i64) -> list[tuple[int, int]]:
    """Which of first..first+count-1 are not in the set, as ascending runs."""
    found: list[tuple[int, int]] = []
    at = first
    for run_first, run_count in seqs.within(first, count):
        if run_first > at:
            found.append((at, run_first - at))
        at = run_first + run_count
    if at < first + count:
        found.append((at, first + count - at))
    return found
