"""Store against a dict of bodies, with relocations; and the node's budget of bytes in memory."""

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.message import Chunk
from queues.store import HEAD_SLACK, BodyBudget, Slot, Store
from tests.unit.queues.messages import body_of, chunk_of, table
from tests.unit.queues.runs import runs_of

BOUNDED = settings(max_examples=250, deadline=None, database=None)
Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "release", "release", "evict", "load", "move", "move"]),
        st.integers(0, 30),
        st.integers(1, 6),
    ),
    max_size=40,
)


class Both:
    """The same messages in a `Store` and in a dict, and the files that bodies were put into."""

    def __init__(self) -> None:
        self.budget = BodyBudget(1 << 30)
        self.store = Store(self.budget)
        self.bodies: dict[int, bytes] = {}
        self.files: dict[int, bytes] = {}
        self.next_seq = 1
        self.next_file = 1

    def write(self, chunk: Chunk, data: bytes) -> None:
        """The chunk is in a file of its own from now on."""
        chunk.file_id = self.next_file
        chunk.file_offset = 3
        self.files[self.next_file] = b"---" + data
        self.next_file += 1

    def add(self, gap: int, count: int) -> None:
        """Part of a chunk; the rest of it went to other queues or is dead."""
        self.next_seq += gap % 3
        bodies = [b"%d:%d" % (self.next_seq + place, gap) for place in range(count)]
        before = [b"other"] * (gap % 2)
        chunk = chunk_of([*before, *bodies, *before], base=gap)
        data = chunk.data
        assert data is not None
        self.write(chunk, data)
        self.store.add(self.next_seq, chunk, len(before), count, True)
        for place, body in enumerate(bodies):
            self.bodies[self.next_seq + place] = body
        self.next_seq += count

    def release(self, first: int, count: int) -> None:
        for run_first, run_count in runs_of(set(range(first, first + count)) & set(self.bodies)):
            dead = self.store.release(run_first, run_count)
            for seq in range(run_first, run_first + run_count):
                del self.bodies[seq]
            for slot in dead:
                assert not set(range(slot.first, slot.first + slot.count)) & set(self.bodies)

    def evict(self, seq: int) -> None:
        if seq in self.bodies:
            chunk = self.store.find(seq).chunk
            if chunk.data is not None:
                self.budget.evict(chunk)

    def load(self, seq: int) -> None:
        if seq in self.bodies:
            chunk = self.store.find(seq).chunk
            if chunk.data is None:
                chunk.data = self.files[chunk.file_id][3:]
                chunk.base = chunk.first_offset()
                self.budget.took(chunk)

    def move(self, seq: int, count: int) -> None:
        """A compaction copies the alive run that begins at `seq` to another file."""
        if seq not in self.bodies:
            return
        slot = self.store.find(seq)
        end = seq
        while end in self.bodies and end < min(seq + count, slot.first + slot.count):
            end += 1
        bodies = [self.bodies[each] for each in range(seq, end)]
        moved = Chunk(0, None, 0, table(bodies, 50), 0)
        self.write(moved, b"".join(bodies))
        bounds = (slot.first, seq), (seq, end), (end, slot.first + slot.count)
        pieces = [(begin, stop - begin, self.live(begin, stop)) for begin, stop in bounds]
        self.store.relocate(moved, [piece for piece in pieces if piece[1]], seq)

    def live(self, begin: int, stop: int) -> int:
        return sum(1 for seq in range(begin, stop) if seq in self.bodies)

    def body(self, seq: int) -> bytes:
        """The message, from memory or from the file that the store names."""
        slot = self.store.find(seq)
        index = slot.index + seq - slot.first
        if slot.chunk.data is not None:
            return body_of(slot.chunk, index)
        whole = self.files[slot.chunk.file_id][slot.chunk.file_offset :]
        begin = slot.chunk.bytes_between(0, index)
        return whole[begin : begin + slot.chunk.bytes_between(index, index + 1)]

    def check(self) -> None:
        assert {seq: self.body(seq) for seq in self.bodies} == self.bodies
        assert self.store.live_bytes == sum(map(len, self.bodies.values()))
        slots = self.store.slots()
        assert [slot.live for slot in slots] == [
            self.live(slot.first, slot.first + slot.count) for slot in slots
        ]
        assert sum(slot.live for slot in slots) == len(self.bodies)
        assert [slot.first for slot in slots] == sorted(slot.first for slot in slots)
        assert self.budget.used_bytes == in_memory(slots)
        for seq in range(1, self.next_seq + 2):
            found = self.store.find_live(seq)
            assert found is not None or seq not in self.bodies
            assert found is None or found.live > 0


def in_memory(slots: list[Slot]) -> int:
    """Bytes of the chunks that the slots keep in memory."""
    chunks = {id(slot.chunk): slot.chunk for slot in slots}
    return sum(len(chunk.data) for chunk in chunks.values() if chunk.data is not None)


@BOUNDED
@given(ACTIONS)
def test_it_finds_every_live_message_wherever_it_went(actions: list[Action]) -> None:
    both = Both()
    for kind, a, b in actions:
        if kind == "add":
            both.add(a, b)
        elif kind == "release":
            both.release(a, b)
        elif kind == "evict":
            both.evict(a)
        elif kind == "load":
            both.load(a)
        else:
            both.move(a, b)
        both.check()
    both.store.clear()
    assert both.budget.used_bytes == 0
    assert both.store.slots() == []


def test_dead_slots_are_swept_out_from_the_head_and_from_the_middle() -> None:
    both = Both()
    for _ in range(4 * HEAD_SLACK):
        both.add(0, 1)
    middle = both.next_seq // 2
    for seq in range(middle, both.next_seq - 1):
        both.release(seq, 1)
    both.check()
    for seq in range(1, middle):
        both.release(seq, 1)
        if seq % 97 == 0:
            both.check()
    both.check()
    assert len(both.bodies) == 1


def test_a_chunk_leaves_memory_when_its_last_queue_lets_go() -> None:
    budget = BodyBudget(1 << 30)
    stores = [Store(budget), Store(budget)]
    chunk = chunk_of([b"one", b"two"])
    for store in stores:
        store.add(1, chunk, 0, 2, True)
    assert budget.used_bytes == 6
    stores[0].release(1, 2)
    stores[1].release(2, 1)
    assert body_of(chunk, 0) == b"one"
    stores[1].release(1, 1)
    assert chunk.data is None
    assert budget.used_bytes == 0


def test_messages_that_move_while_memory_is_short_are_left_in_their_file() -> None:
    both = Both()
    both.add(0, 3)
    both.budget.limit_bytes = 1
    both.move(1, 3)
    assert both.budget.used_bytes == 0
    both.check()


def test_the_next_slot_follows_in_order_for_reading_ahead() -> None:
    both = Both()
    for _ in range(3):
        both.add(0, 2)
    first = both.store.find(2)
    second = both.store.after(first)
    assert second is not None
    assert second.first == 3
    third = both.store.after(second)
    assert third is not None
    assert both.store.after(third) is None


def test_a_chunk_that_is_expected_stays_until_it_was_taken_or_is_not_expected_any_more() -> None:
    budget = BodyBudget(1 << 30)
    stores = [Store(budget), Store(budget)]
    chunk = chunk_of([b"a", b"bc"])
    for store in stores:
        store.reserve(chunk)
    assert budget.used_bytes == 3
    stores[0].add(1, chunk, 0, 2, True)
    stores[0].cancel_reserve(chunk)
    stores[0].release(1, 2)
    assert (chunk.data, budget.used_bytes) == (b"abc", 3)
    assert stores[0].is_empty()
    stores[1].cancel_reserve(chunk)
    assert (chunk.data, budget.used_bytes) == (None, 0)


def test_lazy_messages_that_move_leave_memory_and_stay_lazy() -> None:
    budget = BodyBudget(1 << 30)
    store = Store(budget)
    chunk = chunk_of([b"a", b"bc"])
    chunk.lazy = True
    store.add(1, chunk, 0, 2, True)
    moved = Chunk(0, None, 0, chunk.offsets, 0)
    moved.file_id = 7
    store.relocate(moved, [(1, 2, 2)], 1)
    assert (moved.lazy, moved.data, budget.used_bytes) == (True, None, 0)
