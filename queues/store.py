"""Where the bodies of one queue's messages are: chunks in memory or in a log file. Compiled.

Knows message_seqs and chunks, nothing of consumers. A chunk stays while one of its messages is
alive in any queue. Bodies count against a node-wide `BodyBudget`; what is over it leaves memory as
soon as it is durable and is read back in order.
"""

from bisect import bisect_right
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from queues.message import Chunk

HEAD_SLACK: Final = 256


@final
class BodyBudget:
    """Bytes of bodies that the node keeps in memory."""

    def __init__(self, limit_bytes: i64) -> None:
        self.limit_bytes: i64 = limit_bytes
        self.used_bytes: i64 = 0

    def is_over(self) -> bool:
        return self.used_bytes > self.limit_bytes

    def took(self, chunk: Chunk) -> None:
        data = chunk.data
        if data is not None:
            self.used_bytes += len(data)

    def dropped(self, chunk: Chunk) -> None:
        data = chunk.data
        if data is not None:
            self.used_bytes -= len(data)

    def evict(self, chunk: Chunk) -> None:
        """Let go of bytes that are safe in a file."""
        assert chunk.file_id > 0
        self.dropped(chunk)
        chunk.data = None


@final
@mypyc_attr(acyclic=True)
class Slot:
    """The chunk that holds message_seqs first..first+count-1 of this queue."""

    def __init__(self, first: i64, count: i64, chunk: Chunk, index: i64, journaled: bool) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.chunk = chunk
        self.index: i64 = index  # of message `first` in the chunk
        self.live: i64 = count
        self.journaled = journaled  # the queue's copy is in the log


@final
class Store:
    """Slots of one queue, ascending by message_seq."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._slots: list[Slot] = []
        self._firsts: list[int] = []
        self._head: i64 = 0
        self._dead: i64 = 0  # slots past the head without a live message
        self.live_bytes: i64 = 0

    def add(self, first: i64, chunk: Chunk, index: i64, count: i64, journaled: bool) -> None:
        """Messages index..index+count-1 of `chunk` are this queue's first..; first must be new."""
        if chunk.holders == 0:
            self._budget.took(chunk)
        chunk.holders += 1
        if not journaled:
            chunk.pinned = True
        self.live_bytes += chunk.bytes_between(index, index + count)
        slot = Slot(first, count, chunk, index, journaled)
        length: i64 = len(self._firsts)
        if length == 0 or first > i64(self._firsts[length - 1]):
            self._slots.append(slot)
            self._firsts.append(first)
            return
        place = bisect_right(self._firsts, first, self._head)
        self._slots.insert(place, slot)
        self._firsts.insert(place, first)

    def reserve(self, chunk: Chunk) -> None:
        """The chunk is to be added once its messages have their numbers; it must stay so long."""
        if chunk.holders == 0:
            self._budget.took(chunk)
        chunk.holders += 1

    def cancel_reserve(self, chunk: Chunk) -> None:
        """It was added, or never will be."""
        self._let_go(chunk)

    def is_empty(self) -> bool:
        return len(self._slots) == 0

    def find(self, seq: i64) -> Slot:
        """The slot of a message that is alive."""
        head = self._head
        slot = self._slots[head]
        if slot.first <= seq and seq < slot.first + slot.count:
            return slot
        slot = self._slots[bisect_right(self._firsts, seq, head) - 1]
        assert slot.first <= seq and seq < slot.first + slot.count
        return slot

    def after(self, slot: Slot) -> Slot | None:
        """The next slot in order with a live message, for reading ahead."""
        place: i64 = bisect_right(self._firsts, slot.first, self._head)
        while place < len(self._slots) and self._slots[place].live == 0:
            place += 1
        return self._slots[place] if place < len(self._slots) else None

    def release(self, first: i64, count: i64) -> list[Slot]:
        """Messages first.. are gone; return the slots that have no live message left."""
        dead: list[Slot] = []
        seq = first
        end = first + count
        while seq < end:
            slot = self.find(seq)
            stop = min(end, slot.first + slot.count)
            offset = slot.index - slot.first
            self.live_bytes -= slot.chunk.bytes_between(seq + offset, stop + offset)
            slot.live -= stop - seq
            if slot.live == 0:
                dead.append(slot)
                self._dead += 1
                self._let_go(slot.chunk)
            seq = stop
        if len(dead) > 0:
            self._drop_dead()
        return dead

    def _let_go(self, chunk: Chunk) -> None:
        chunk.holders -= 1
        if chunk.holders == 0:
            self._budget.dropped(chunk)
            chunk.data = None

    def _drop_dead(self) -> None:
        """Step over dead slots at the head; sweep the others out when they are the majority."""
        head = self._head
        length: i64 = len(self._slots)
        while head < length and self._slots[head].live == 0:
            head += 1
            self._dead -= 1
        self._head = head
        if head == length:
            self._slots = []
            self._firsts = []
            self._head = 0
        elif head > HEAD_SLACK and head * 2 > length:
            del self._slots[:head]
            del self._firsts[:head]
            self._head = 0
        elif self._dead > HEAD_SLACK and self._dead * 2 > length - head:
            self._slots = self.slots()
            self._firsts = [slot.first for slot in self._slots]
            self._head = 0
            self._dead = 0

    def relocate(self, moved: Chunk, pieces: list[tuple[int, int, int]], at: i64) -> None:
        """Part of a slot is in another file now: replace the slot by its pieces.

        `pieces` are (first, count, live) in ascending order and make up the slot; the one that
        begins at `at` is chunk `moved`, the others stay with the old chunk.
        """
        place: i64 = bisect_right(self._firsts, i64(pieces[0][0]), self._head) - 1
        old = self._slots[place]
        slots: list[Slot] = []
        for first, count, live in pieces:
            if live == 0:
                continue
            if i64(first) == at:
                self._take_bytes(old, first, count, moved)
                slot = Slot(first, count, moved, 0, old.journaled)
                moved.holders += 1
            else:
                slot = Slot(first, count, old.chunk, old.index + first - old.first, old.journaled)
                old.chunk.holders += 1
            slot.live = live
            slots.append(slot)
        self._slots[place : place + 1] = slots
        self._firsts[place : place + 1] = [int(slot.first) for slot in slots]
        self._let_go(old.chunk)

    def _take_bytes(self, old: Slot, first: i64, count: i64, moved: Chunk) -> None:
        """The moved messages keep the bytes that are in memory, unless memory is short.

        The copy is this queue's own: others that hold the old chunk move one by one.
        """
        moved.format_tag = old.chunk.format_tag
        moved.info = old.chunk.info
        moved.lazy = old.chunk.lazy
        data = old.chunk.data
        if data is None or moved.lazy or self._budget.is_over():
            return
        index = old.index + first - old.first
        begin = old.chunk.span(index)[0]
        end = old.chunk.span(index + count - 1)[1]
        moved.data = data[begin:end]
        moved.base = moved.first_offset()
        self._budget.took(moved)

    def find_live(self, seq: i64) -> Slot | None:
        """The slot that has this message_seq, if any of its messages is alive."""
        place: i64 = bisect_right(self._firsts, seq, self._head) - 1
        if place < self._head or place >= len(self._slots):
            return None
        slot = self._slots[place]
        return slot if slot.live > 0 and seq < slot.first + slot.count else None

    def slots(self) -> list[Slot]:
        """Slots that have a live message, ascending."""
        return [slot for slot in self._slots[self._head :] if slot.live > 0]

    def clear(self) -> list[Slot]:
        """Forget everything (the queue is deleted); return what was there."""
        gone = self.slots()
        for slot in gone:
            self._let_go(slot.chunk)
        self._slots = []
        self._firsts = []
        self._head = 0
        self._dead = 0
        self.live_bytes = 0
        return gone
