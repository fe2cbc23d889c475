"""Where the bodies of one queue's messages are: chunks in memory or in a log file. Compiled.

Knows message_seqs and chunks, nothing of consumers. A chunk stays while one of its messages is
alive in any queue. Bodies count against a node-wide `BodyBudget`; what is over it leaves memory as
soon as it is durable, or in a page file (`queues.bodies.paging`), and is read back in order.

A slot takes about 300 bytes, so that a backlog of messages that came one by one would not fit.
Slots that follow each other, are whole and have nothing in memory are *folded* into an extent: one
slot with a table (`queues.bodies.extents`) for up to EXTENT_SLOTS. An extent is unfolded in memory,
without reading, as soon as one of its messages is looked for; it stays folded while messages are
released or passed over. `add` folds behind the publishers, `tidy` what was unfolded or moved and is
still there; both do a bounded piece of work at a time, and none while all bodies are in memory.
"""

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, mypyc_attr

from queues.bodies.extents import (
    GAP_MAX,
    Columns,
    Table,
    data_begin,
    decode_table,
    encode_columns,
    encode_table,
    offsets_of,
)
from queues.message import BEING_PAGED, Chunk
from warren.wire.buffer import read_i32_le

if TYPE_CHECKING:
    from queues.bodies.paging import Pager

HEAD_SLACK: Final = 256
EXTENT_SLOTS: Final = 512  # slots in one extent, at most
EXTENT_MESSAGES: Final = 16_384  # its messages, at most; a single slot may have more
EXTENT_LEAST: Final = 16  # a stretch that has ended is folded if it has 1/16 of the slots,
RICH_MESSAGES: Final = 1024  # or so many messages
WALK_EXTENTS: Final = 8  # a walk looks at so many times EXTENT_SLOTS slots at most,
FOLD_STEPS: Final = 3  # and at so many fewer for each that it folds,
FOLD_PART: Final = 4  # and at one fewer for so many messages in them: that costs most
LOOSE_EXTENTS: Final = 4  # so many times EXTENT_SLOTS slots are worth a walk of `tidy`
TIDY_PART: Final = 8  # of EXTENT_SLOTS runs are moved before `tidy` looks for what may be folded
LOOKED_AT: Final = 1024  # slots, to tell how much of a queue is in memory
SHED_BYTES: Final = 1 << 14  # so many count as one more slot when bodies are to leave memory
SPAN_SLOTS: Final = 2048  # looked at for one answer of `journaled_spans`
SPAN_MESSAGES: Final = 8192  # in one, but for the last slot
PLACE_SLOTS: Final = 8192  # looked at for one answer of `places`
EXTENT_ROOM: Final = 1024  # an extent counts as so many more
FAR: Final = 1 << 62


@final
class BodyBudget:
    """Bytes of bodies that the node keeps in memory."""

    def __init__(self, limit_bytes: i64, extent_slots: i64 = EXTENT_SLOTS) -> None:
        self.limit_bytes: i64 = limit_bytes
        self.used_bytes: i64 = 0
        self.extent_slots: i64 = extent_slots
        self.has_evicted = False  # some bodies are on disk alone
        self.is_pressed = False  # memory is short: nothing stays that need not
        self.pager: Pager | None = None  # takes what is in no log; None: that stays

    def is_over(self) -> bool:
        return self.used_bytes > self.limit_bytes or self.is_pressed

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
        assert chunk.file_id > 0 or chunk.page_id > 0
        self.dropped(chunk)
        chunk.data = None
        self.has_evicted = True

    def offer(self, chunk: Chunk) -> None:
        """These bytes, which are in no log, or not for all queues that hold them, may leave."""
        pager = self.pager
        if pager is not None:
            pager.offer(chunk)

    def claim_page(self, chunk: Chunk) -> None:
        """The chunk, a new one, lies in a page file."""
        pager = self.pager
        assert pager is not None
        pager.files.claim(chunk.page_id, chunk.size())

    def leave_page(self, chunk: Chunk) -> None:
        """The chunk has no holder any more, so its page need not keep it."""
        pager = self.pager
        assert pager is not None
        pager.files.release(chunk.page_id, chunk.size())
        chunk.page_id = 0


def is_safe(chunk: Chunk) -> bool:
    """Whether the bytes can be read back for all queues that hold the chunk."""
    return chunk.page_id > 0 or (chunk.durable and chunk.file_id > 0 and not chunk.pinned)


@final
@mypyc_attr(acyclic=True)
class Slot:
    """The chunk that holds message_seqs first..first+count-1 of this queue.

    With a table it is an extent: all its messages, of which the table knows the dead ones, are, if
    they are journaled, in one file of the log, else in one page file; and `chunk` is a single piece
    as long as all of them, which has no bytes and has no other holder.
    """

    def __init__(self, first: i64, count: i64, chunk: Chunk, index: i64, journaled: bool) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.chunk = chunk
        self.index: i64 = index  # of message `first` in the chunk
        self.live: i64 = count
        self.journaled = journaled  # the queue's copy is in the log
        self.table: Table | None = None

    def pieces(self, seq: i64, stop: i64) -> tuple[i64, i64]:
        """Messages seq..stop-1 as pieces first..last-1 of the chunk; of an extent, all."""
        if self.table is not None:
            assert seq == self.first and stop == seq + self.count
            return 0, 1
        offset = self.index - self.first
        return seq + offset, stop + offset

    def bytes_of(self, seq: i64, stop: i64) -> i64:
        """Bytes of messages seq..stop-1, which are alive."""
        table = self.table
        if table is None:
            offset = self.index - self.first
            return self.chunk.bytes_between(seq + offset, stop + offset)
        if stop - seq == self.count:
            return self.chunk.bytes_between(0, 1)
        return table.sizes.bytes_between(seq - self.first, stop - self.first)


@final
class Store:
    """Slots of one queue, ascending by message_seq: `_slots`, and behind them `_newest`.

    What comes and goes before the next one comes never gets into the lists (0009); readers
    of the lists call `_spread` first.
    """

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._slots: list[Slot] = []
        self._firsts: list[int] = []
        self._newest: Slot | None = None
        self._high: i64 = 0  # no slot in the lists begins behind this message_seq
        self._head: i64 = 0
        self._dead: i64 = 0  # slots past the head without a live message
        self.live_bytes: i64 = 0
        self.journaled_count: i64 = 0  # messages of which the queue's copy is in the log,
        self.journaled_bytes: i64 = 0  # which is so for persistent ones of durable queues
        self.loading: set[Chunk] = set()  # being read for this queue; these are not folded
        self._added: i64 = 0  # since `_join` was last called by `add`: what folding it takes
        self._join_at: i64 = 0  # what comes before this message_seq was looked at
        self._loose: i64 = 0  # slots that were unfolded or moved, and not looked at since,
        self._loose_first: i64 = FAR  # all of them between these message_seqs
        self._loose_end: i64 = 0
        self._passed: i64 = FAR  # of the first slot that the last `_join` could not fold yet
        self._cut = False  # it had looked at enough, or met what is being written
        self._untidied: i64 = 0  # runs that were moved since `tidy`
        self._left: i64 = FAR  # the least `_passed` of a walk of `tidy` that takes several calls

    def add(self, first: i64, chunk: Chunk, index: i64, count: i64, journaled: bool) -> None:
        """Messages index..index+count-1 of `chunk` are this queue's first..; first must be new."""
        self._added += 1 + FOLD_STEPS + count // FOLD_PART
        if self._added >= (1 + FOLD_STEPS) * self._budget.extent_slots and (
            self._budget.has_evicted or chunk.data is None
        ):
            self._added = 0
            self._join_at = self._join(self._join_at, FAR)
        if chunk.holders == 0:
            self._budget.took(chunk)
        chunk.holders += 1
        if not journaled:
            chunk.pinned = True
        byte_count = chunk.bytes_between(index, index + count)
        self.live_bytes += byte_count
        if journaled:
            self.journaled_count += count
            self.journaled_bytes += byte_count
        self._insert(Slot(first, count, chunk, index, journaled))

    def _insert(self, slot: Slot) -> None:
        first = slot.first
        newest = self._newest
        if first > (self._high if newest is None else newest.first):
            self._spread()
            self._newest = slot
            return
        self._spread()
        place = bisect_right(self._firsts, first, self._head)
        self._slots.insert(place, slot)
        self._firsts.insert(place, first)

    def _spread(self) -> None:
        """All slots are in the lists."""
        newest = self._newest
        if newest is not None:
            self._newest = None
            self._high = newest.first
            self._slots.append(newest)
            self._firsts.append(newest.first)

    def add_stretch(self, first: i64, whole: Chunk, columns: Columns) -> None:
        """Chunks that are on disk alone, one behind the other in one file: extents at once.

        They are this queue's first.., and journaled; `whole` says what is the same for all.
        """
        counts = columns.counts
        records: i64 = len(counts) // 4
        least = max(self._budget.extent_slots // EXTENT_LEAST, 2)
        begin: i64 = 0
        message: i64 = 0  # before record `begin`
        while begin < records:
            end = begin
            messages: i64 = 0
            start = columns.place(begin)
            while end < records and end - begin < self._budget.extent_slots:
                more = i64(read_i32_le(counts, 4 * end))
                far = columns.place(end) - start
                if end > begin and (messages + more > EXTENT_MESSAGES or far > GAP_MAX // 2):
                    break
                messages += more
                end += 1
            if end - begin >= least or (messages >= RICH_MESSAGES and end - begin > 1):
                self._add_extent(first, whole, columns, begin, end, message)
            else:
                self._add_singly(first, whole, columns, begin, end, message)
            first += messages
            message += messages
            begin = end

    def _add_extent(
        self, first: i64, whole: Chunk, columns: Columns, begin: i64, end: i64, message: i64
    ) -> None:
        table, messages, byte_count = encode_columns(columns, begin, end, message, whole.info)
        chunk = chunk_like(whole, bytes(4) + byte_count.to_bytes(4, "little"))
        chunk.info = 0
        chunk.file_offset = columns.place(begin)
        chunk.holders = 1
        extent = Slot(first, messages, chunk, 0, True)
        extent.table = table
        self.live_bytes += byte_count
        self.journaled_count += messages
        self.journaled_bytes += byte_count
        self._insert(extent)

    def _add_singly(
        self, first: i64, whole: Chunk, columns: Columns, begin: i64, end: i64, message: i64
    ) -> None:
        while begin < end:
            count = i64(read_i32_le(columns.counts, 4 * begin))
            chunk = chunk_like(whole, offsets_of(columns.sizes, 4 * message, count))
            chunk.file_offset = columns.place(begin)
            self.add(first, chunk, 0, count, True)
            first += count
            message += count
            begin += 1

    def reserve(self, chunk: Chunk) -> None:
        """The chunk is to be added once its messages have their numbers; it must stay so long."""
        if chunk.holders == 0:
            self._budget.took(chunk)
        chunk.holders += 1

    def cancel_reserve(self, chunk: Chunk) -> None:
        """It was added, or never will be."""
        self._let_go(chunk)

    def is_empty(self) -> bool:
        return self._newest is None and len(self._slots) == 0

    def find(self, seq: i64) -> Slot:
        """The slot of a message that is alive."""
        slot = self.covering(seq)
        if slot.table is None:
            return slot
        slot = self._unfold(self._place(seq), seq)
        assert seq < slot.first + slot.count
        return slot

    def covering(self, seq: i64) -> Slot:
        """The slot or extent of a message that is alive; nothing is unfolded."""
        newest = self._newest
        if newest is not None and newest.first <= seq:
            assert seq < newest.first + newest.count
            return newest
        slot = self._slots[self._head]
        if slot.first <= seq and seq < slot.first + slot.count:
            return slot
        slot = self._slots[i64(bisect_right(self._firsts, seq, self._head)) - 1]
        assert slot.first <= seq and seq < slot.first + slot.count
        return slot

    def _place(self, seq: i64) -> i64:
        """Of the last slot or extent that begins at or before this message_seq."""
        self._spread()
        return i64(bisect_right(self._firsts, seq, self._head)) - 1

    def after(self, slot: Slot) -> Slot | None:
        """The next slot in order with a live message, for reading ahead."""
        self._spread()
        place: i64 = bisect_right(self._firsts, slot.first, self._head)
        while place < len(self._slots) and self._slots[place].live == 0:
            place += 1
        if place >= len(self._slots):
            return None
        following = self._slots[place]
        return following if following.table is None else self._unfold(place, following.first)

    def bytes_of(self, runs: list[tuple[int, int]]) -> i64:
        """Bytes of what is there of these messages, (first, count)."""
        byte_count: i64 = 0
        for first, count in runs:
            for at, some in self.spans_within(first, count):
                byte_count += self.covering(at).bytes_of(at, at + some)
        return byte_count

    def release(self, first: i64, count: i64) -> list[Slot]:
        """Messages first.. are gone; return the slots that have no live message left."""
        dead: list[Slot] = []
        seq = first
        end = first + count
        while seq < end:
            slot = self.covering(seq)
            stop = min(end, slot.first + slot.count)
            byte_count = slot.bytes_of(seq, stop)
            self.live_bytes -= byte_count
            if slot.journaled:
                self.journaled_count -= stop - seq
                self.journaled_bytes -= byte_count
            slot.live -= stop - seq
            if slot.live == 0:
                dead.append(slot)
                self._dead += 1
                self._let_go(slot.chunk)
            elif slot.table is not None:
                slot.table.dig(seq - slot.first, stop - slot.first, slot.count)
            seq = stop
        if len(dead) > 0:
            self._drop_dead()
        return dead

    def _let_go(self, chunk: Chunk) -> None:
        chunk.holders -= 1
        if chunk.holders == 0:
            self._budget.dropped(chunk)
            chunk.data = None
            if chunk.page_id > 0:
                self._budget.leave_page(chunk)

    def _drop_dead(self) -> None:
        """Step over dead slots at the head; sweep the others out when they are the majority."""
        newest = self._newest
        if newest is not None and newest.live == 0:
            self._newest = None
            self._dead -= 1
        if self._dead == 0:
            return
        head = self._head
        length: i64 = len(self._slots)
        while head < length and self._slots[head].live == 0:
            head += 1
            self._dead -= 1
        self._head = head
        if head == length:
            self._slots.clear()
            self._firsts.clear()
            self._head = 0
        elif head > HEAD_SLACK and head * 2 > length:
            del self._slots[:head]
            del self._firsts[:head]
            self._head = 0
        elif self._dead > HEAD_SLACK and self._dead * 2 > length - head:
            self._slots = [slot for slot in self._slots[head:] if slot.live > 0]
            self._firsts = [slot.first for slot in self._slots]
            self._head = 0
            self._dead = 0

    def relocate(self, moved: Chunk, pieces: list[tuple[int, int, int]], at: i64) -> None:
        """Part of a slot is in another file now: replace the slot by its pieces.

        `pieces` are (first, count, live) in ascending order and make up the slot; the one that
        begins at `at` is chunk `moved`, the others stay with the old chunk.
        """
        self._spread()
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
        self._note_loose(old, len(slots))

    def _take_bytes(self, old: Slot, first: i64, count: i64, moved: Chunk) -> None:
        """The moved messages keep the bytes that are in memory, unless memory is short.

        The copy is this queue's own: others that hold the old chunk move one by one.
        """
        moved.format_tag = old.chunk.format_tag
        moved.names = old.chunk.names
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
        if self.covered_to(seq) == 0:
            return None
        slot = self.covering(seq)
        if slot.table is None:
            return slot
        self._unfold(self._place(seq), seq)
        return self.covering(seq) if self.covered_to(seq) > 0 else None

    def next_slot(self, seq: i64) -> Slot | None:
        """The first slot that has a live message and does not end before this message_seq."""
        self._spread()
        place = max(i64(bisect_right(self._firsts, seq, self._head)) - 1, self._head)
        while place < len(self._slots):
            slot = self._slots[place]
            if slot.live == 0 or slot.first + slot.count <= seq:
                place += 1
            elif slot.table is None:
                return slot
            else:
                self._unfold(place, max(seq, slot.first))
        return None

    def covered_to(self, seq: i64) -> i64:
        """The end of the slot or extent that has this message_seq; 0 if there is none alive."""
        self._spread()
        place: i64 = bisect_right(self._firsts, seq, self._head) - 1
        if place < self._head or place >= len(self._slots):
            return 0
        slot = self._slots[place]
        end = slot.first + slot.count
        return end if slot.live > 0 and seq < end else 0

    def spans_within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """What of these messages is in slots and extents that have a live message, ascending."""
        return self._spans_within(first, count, -1)

    def spans_in(self, file_id: i64, first: i64, count: i64) -> list[tuple[int, int]]:
        """The same, but only what is in this file of the log."""
        return self._spans_within(first, count, file_id)

    def _spans_within(self, first: i64, count: i64, file_id: i64) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        end = first + count
        self._spread()
        place: i64 = max(bisect_right(self._firsts, first) - 1, self._head)
        while place < len(self._slots) and self._slots[place].first < end:
            slot = self._slots[place]
            place += 1
            at = max(slot.first, first)
            stop = min(slot.first + slot.count, end)
            if slot.live > 0 and stop > at and (file_id < 0 or slot.chunk.file_id == file_id):
                found.append((at, stop - at))
        return found

    def slots(self) -> list[Slot]:
        """Slots that have a live message, ascending; extents are written out and stay folded."""
        found: list[Slot] = []
        self._spread()
        for slot in self._slots[self._head :]:
            if slot.live == 0:
                continue
            if slot.table is None:
                found.append(slot)
            else:
                found.extend(unfolded(slot, slot.table))
        return found

    def pieces(self) -> list[Slot]:
        """Slots and extents that have a live message, ascending."""
        self._spread()
        return [slot for slot in self._slots[self._head :] if slot.live > 0]

    def journaled_spans(
        self, first: i64 = 1, slots_max: i64 = SPAN_SLOTS
    ) -> tuple[list[tuple[int, int]], int]:
        """(first, count) of slots and extents that have live messages in the log, ascending, from
        message_seq `first` on; and the message_seq to go on at, or 0 if these were all.
        """
        return self._spans_from(first, True, slots_max)

    def spans_from(
        self, first: i64, slots_max: i64 = SPAN_SLOTS
    ) -> tuple[list[tuple[int, int]], int]:
        """The same, whether they are in the log or not."""
        return self._spans_from(first, False, slots_max)

    def _spans_from(
        self, first: i64, journaled: bool, slots_max: i64
    ) -> tuple[list[tuple[int, int]], int]:
        found: list[tuple[int, int]] = []
        self._spread()
        slots = self._slots
        place: i64 = max(bisect_right(self._firsts, first) - 1, self._head)
        stop = min(place + slots_max, len(slots))
        messages: i64 = 0
        while place < stop and messages < SPAN_MESSAGES:
            slot = slots[place]
            place += 1
            end = slot.first + slot.count
            if slot.live > 0 and (slot.journaled or not journaled) and end > first:
                at = max(slot.first, first)
                found.append((at, end - at))
                messages += end - at
        return found, int(slots[place].first) if place < len(slots) else 0

    def places(self, file_id: i64, after: i64) -> tuple[list[int], int]:
        """Where records of live messages behind message_seq `after` have data in this file; and the
        message_seq to go on behind, or 0 if these were all. Extents stay folded.
        """
        found: list[int] = []
        self._spread()
        slots = self._slots
        place: i64 = max(bisect_right(self._firsts, after) - 1, self._head)
        room: i64 = PLACE_SLOTS
        last: i64 = after
        while place < len(slots) and room > 0:
            slot = slots[place]
            place += 1
            room -= 1
            last = slot.first + slot.count - 1
            if slot.live == 0 or not slot.journaled or slot.chunk.file_id != file_id:
                continue
            if slot.table is None:
                found.append(data_begin(slot.chunk, slot.index, False))
                continue
            room -= EXTENT_ROOM
            for piece in unfolded(slot, slot.table):
                found.append(piece.chunk.file_offset)
        return found, int(last) if place < len(slots) else 0

    def in_memory(self) -> tuple[float, float]:
        """Shares of the messages, and of their bytes, whose bodies are in memory.

        Of a queue with more than LOOKED_AT slots so many are looked at, evenly spread.
        """
        self._spread()
        length: i64 = len(self._slots)
        stride = max((length - self._head) // LOOKED_AT, 1)
        counts: list[int] = [0, 0]  # on disk alone, in memory
        sizes: list[int] = [0, 0]
        place = self._head
        while place < length:
            slot = self._slots[place]
            place += stride
            if slot.live > 0:
                index, last = slot.pieces(slot.first, slot.first + slot.count)
                kind = 0 if slot.chunk.data is None else 1
                counts[kind] += slot.live
                sizes[kind] += slot.chunk.bytes_between(index, last)
        return counts[1] / max(sum(counts), 1), sizes[1] / max(sum(sizes), 1)

    def entry_count(self) -> int:
        """Slots and extents that are kept: what the index takes in memory."""
        return len(self._slots) + (0 if self._newest is None else 1)

    def clear(self) -> None:
        """Forget everything (the queue is deleted)."""
        self._spread()
        for slot in self._slots[self._head :]:
            if slot.live > 0:
                self._let_go(slot.chunk)
        self._slots = []
        self._firsts = []
        self._head = 0
        self._dead = 0
        self.live_bytes = 0
        self.journaled_count = 0
        self.journaled_bytes = 0

    def shed(self, end: i64, slots_max: i64, lazy: i64 = -1) -> i64:
        """Let bodies of messages before `end` leave memory, the last first, or be paged.

        `lazy`: 1 or 0 if the queue has become lazy or is so no longer; then only its own leave.
        Looks at so many slots at most, and at fewer if much leaves. Returns the `end` to go on
        with; 0 at the head.
        """
        self._spread()
        stop: i64 = bisect_left(self._firsts, end, self._head)
        place = stop
        while place > self._head and slots_max > 0:
            place -= 1
            data = self._slots[place].chunk.data
            slots_max -= 1 if data is None else 1 + len(data) // SHED_BYTES
        at = self._slots[place].first if place > self._head else 0
        budget = self._budget
        while place < stop:  # In this order, or what is paged could not be folded.
            slot = self._slots[place]
            place += 1
            chunk = slot.chunk
            if lazy >= 0:
                chunk.lazy = lazy == 1 and chunk.holders <= 1
            if slot.live == 0 or chunk.data is None or (lazy >= 0 and not chunk.lazy):
                continue
            if is_safe(chunk):
                budget.evict(chunk)
            elif chunk.pinned:
                budget.offer(chunk)
            self._note_loose(slot, 1)
        self.tidy()
        return at

    # Extents

    def tidy(self) -> None:
        """Fold what was unfolded or moved, and has been left alone since."""
        if self._loose < LOOSE_EXTENTS * self._budget.extent_slots:
            return
        at = self._join(self._loose_first, self._loose_end)
        self._left = min(self._left, self._passed)
        self._loose_first = at
        if self._cut:
            return  # The next call goes on there.
        self._loose = 0
        self._loose_first = self._left if at >= self._loose_end else min(at, self._left)
        self._left = FAR
        if self._loose_first == FAR:
            self._loose_end = 0

    def tidy_moved(self) -> None:
        """The log has moved a run of messages: now and then fold what was left alone."""
        self._untidied += 1
        if self._untidied >= self._budget.extent_slots // TIDY_PART:
            self._untidied = 0
            self.tidy()

    def _note_loose(self, slot: Slot, count: i64) -> None:
        """`count` slots are there now instead of this one."""
        self._loose += count
        self._loose_first = min(self._loose_first, slot.first)
        self._loose_end = max(self._loose_end, slot.first + slot.count)

    def _join(self, first: i64, end: i64) -> i64:
        """Fold slots between these message_seqs; return the message_seq to go on at.

        Stops at what is not written yet. A stretch that may still become longer waits.
        """
        self._spread()
        slots = self._slots
        extent_slots = self._budget.extent_slots
        steps = WALK_EXTENTS * extent_slots
        place: i64 = max(bisect_left(self._firsts, first), self._head)
        begin = place  # of the stretch: slots begin..place-1 are to be folded together
        messages: i64 = 0
        self._passed = FAR
        self._cut = False
        while steps > 0 and place < len(slots) and slots[place].first < end:
            steps -= 1
            slot = slots[place]
            folds = self._may_fold(slot)
            fits = place == begin or (
                place - begin < extent_slots
                and messages + slot.count <= EXTENT_MESSAGES
                and follows(slots[place - 1], slot)
            )
            if folds and fits:
                messages += slot.count
                place += 1
                continue
            after = self._fold(begin, place, messages)
            if after < place:
                steps -= FOLD_STEPS * (place - begin) + messages // FOLD_PART
            place = after
            messages = 0
            begin = place
            if not folds:
                if slot.live > 0 and is_on_its_way(slot):
                    self._cut = True
                    break
                if slot.live == slot.count and slot.table is None and self._passed == FAR:
                    self._passed = slot.first
                place += 1
                begin = place
        self._cut = self._cut or steps <= 0
        return slots[begin].first if begin < len(slots) else self._end_seq()

    def _end_seq(self) -> i64:
        """Behind the last message."""
        length = len(self._slots)
        if length == 0:
            return 0
        slot = self._slots[length - 1]
        return slot.first + slot.count

    def _may_fold(self, slot: Slot) -> bool:
        """Whole, and on disk alone."""
        chunk = slot.chunk
        return (
            slot.live == slot.count
            and slot.table is None
            and chunk.data is None
            and (chunk.durable and chunk.file_id > 0 if slot.journaled else chunk.page_id > 0)
            and chunk not in self.loading
        )

    def _fold(self, begin: i64, end: i64, messages: i64) -> i64:
        """Make an extent of the slots begin..end-1, if that saves memory; return its end."""
        least = max(self._budget.extent_slots // EXTENT_LEAST, 2)
        if end == begin or (end - begin < least and messages < RICH_MESSAGES):
            return end
        slots = self._slots[begin:end]
        first = slots[0]
        byte_count: i64 = 0
        for slot in slots:
            index, last = slot.pieces(slot.first, slot.first + slot.count)
            byte_count += slot.chunk.bytes_between(index, last)
        if byte_count > GAP_MAX:
            return end
        table = encode_table(
            [slot.chunk for slot in slots],
            [int(slot.index) for slot in slots],
            [int(slot.count) for slot in slots],
            not first.journaled,
        )
        offsets = bytes(4) + int(byte_count).to_bytes(4, "little")
        whole = Chunk(first.chunk.format_tag, None, 0, offsets, 0, first.chunk.names)
        if first.journaled:
            whole.file_id = first.chunk.file_id
            whole.file_offset = data_begin(first.chunk, first.index, False)
            whole.durable = True
        else:
            whole.page_id = first.chunk.page_id
            whole.page_offset = data_begin(first.chunk, first.index, True)
            whole.pinned = True
            self._budget.claim_page(whole)
        whole.lazy = first.chunk.lazy
        whole.holders = 1
        extent = Slot(first.first, messages, whole, 0, first.journaled)
        extent.table = table
        for slot in slots:
            self._let_go(slot.chunk)
        self._slots[begin:end] = [extent]
        self._firsts[begin:end] = [int(extent.first)]
        return begin + 1

    def _unfold(self, place: i64, seq: i64) -> Slot:
        """Make the extent at `place` slots again; return the one that has this message_seq, or, if
        that chunk is dead, one beside it."""
        extent = self._slots[place]
        assert extent.table is not None
        slots = unfolded(extent, extent.table)
        firsts = [int(slot.first) for slot in slots]
        for slot in slots:
            slot.chunk.holders = 1
            if slot.chunk.page_id > 0:
                self._budget.claim_page(slot.chunk)
        self._let_go(extent.chunk)
        self._slots[place : place + 1] = slots
        self._firsts[place : place + 1] = firsts
        self._note_loose(extent, len(slots))
        return slots[max(i64(bisect_right(firsts, seq)) - 1, 0)]


def unfolded(extent: Slot, table: Table) -> list[Slot]:
    """The slots that an extent was made of, but for dead ones."""
    found: list[Slot] = []
    holes = table.holes
    first: i64 = 0  # in the extent
    for chunk in decode_table(table, extent.chunk):
        count = chunk.count()
        slot = Slot(extent.first + first, count, chunk, 0, extent.journaled)
        if holes is not None:
            slot.live = holes.live_between(first, first + count)
        if slot.live > 0:
            found.append(slot)
        first += count
    assert first == extent.count
    return found


def is_on_its_way(slot: Slot) -> bool:
    """Whether the slot's messages are being written, so that it may be folded before long."""
    if slot.journaled:
        return not slot.chunk.durable
    return slot.chunk.page_id == BEING_PAGED


def chunk_like(whole: Chunk, offsets: bytes) -> Chunk:
    """A chunk on disk alone, in the same file and of the same kind."""
    chunk = Chunk(whole.format_tag, None, 0, offsets, whole.info, whole.names)
    chunk.file_id = whole.file_id
    chunk.lazy = whole.lazy
    chunk.durable = True
    return chunk


def follows(before: Slot, slot: Slot) -> bool:
    """Whether the second one can be behind the first one in an extent."""
    old = before.chunk
    new = slot.chunk
    if (
        slot.first != before.first + before.count
        or slot.journaled != before.journaled
        or (new.file_id != old.file_id if slot.journaled else new.page_id != old.page_id)
        or new.format_tag != old.format_tag
        or new.names != old.names
        or new.lazy != old.lazy
    ):
        return False
    paged = not slot.journaled
    gap = data_begin(new, slot.index, paged) - data_begin(old, before.index + before.count, paged)
    return gap >= 0 and gap <= GAP_MAX
