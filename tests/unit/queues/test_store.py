"""Store against a dict of bodies and a naive account of the files, with extents and relocations;
and the node's budget of bytes in memory.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.bodies.store import HEAD_SLACK, BodyBudget, Slot, Store
from queues.message import Chunk
from tests.unit.queues.messages import body_of, chunk_of, table
from tests.unit.queues.runs import runs_of

BOUNDED = settings(max_examples=250, deadline=None, database=None)
Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "add", "backlog", "release", "release", "evict", "load", "move", "tidy", "look"]
        ),
        st.integers(0, 30),
        st.integers(1, 6),
    ),
    max_size=40,
)
SMALL_EXTENTS = 3


class Both:
    """The same messages in a `Store` and in a dict, and the files that bodies were put into.

    `live_bytes` is what the log reckons to be alive of each file, by what the store says of the
    messages that leave; `places` has the file of each message.
    """

    def __init__(self, extent_slots: int = SMALL_EXTENTS) -> None:
        self.budget = BodyBudget(1 << 30, extent_slots)
        self.store = Store(self.budget)
        self.bodies: dict[int, bytes] = {}
        self.files: dict[int, bytes] = {}
        self.places: dict[int, int] = {}
        self.live_bytes: dict[int, int] = {}
        self.next_seq = 1
        self.next_file = 1

    def write(self, chunk: Chunk, data: bytes, first: int, bodies: list[bytes]) -> None:
        """The chunk is in the newest file from now on, behind something of another queue.

        `bodies` of it are this queue's messages first...
        """
        file = self.next_file
        before = self.files.get(file, b"") + b"---"
        chunk.file_id = file
        chunk.file_offset = len(before)
        chunk.durable = True
        self.files[file] = before + data
        for place, body in enumerate(bodies):
            self.claim(first + place, file, len(body))

    def claim(self, seq: int, file: int, byte_count: int) -> None:
        old = self.places.get(seq)
        if old is not None:
            self.live_bytes[old] -= byte_count
        self.places[seq] = file
        self.live_bytes[file] = self.live_bytes.get(file, 0) + byte_count

    def roll(self) -> None:
        self.next_file += 1

    def add(self, gap: int, count: int) -> None:
        """Part of a chunk; the rest of it went to other queues or is dead."""
        self.next_seq += gap % 3
        bodies = [b"%d:%d" % (self.next_seq + place, gap) for place in range(count)]
        before = [b"other"] * (gap % 2)
        chunk = chunk_of([*before, *bodies, *before], base=gap)
        data = chunk.data
        assert data is not None
        self.write(chunk, data, self.next_seq, bodies)
        self.store.add(self.next_seq, chunk, len(before), count, True)
        for place, body in enumerate(bodies):
            self.bodies[self.next_seq + place] = body
        self.next_seq += count

    def backlog(self, count: int) -> None:
        """Single messages that leave memory as soon as they are durable."""
        for _ in range(count):
            self.add(0, 1)
            self.evict(self.next_seq - 1)

    def release_claims(self, first: int, count: int) -> None:
        """As a host does it, by what the store knows of the places."""
        seq = first
        while seq < first + count:
            slot = self.store.covering(seq)
            stop = min(first + count, slot.first + slot.count)
            self.live_bytes[slot.chunk.file_id] -= slot.bytes_of(seq, stop)
            seq = stop

    def release(self, first: int, count: int) -> None:
        for run_first, run_count in runs_of(set(range(first, first + count)) & set(self.bodies)):
            self.release_claims(run_first, run_count)
            dead = self.store.release(run_first, run_count)
            for seq in range(run_first, run_first + run_count):
                del self.bodies[seq]
                del self.places[seq]
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
                begin = chunk.file_offset
                chunk.data = self.files[chunk.file_id][begin : begin + chunk.size()]
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
        if count % 2:
            self.roll()
        self.write(moved, b"".join(bodies), seq, bodies)
        bounds = (slot.first, seq), (seq, end), (end, slot.first + slot.count)
        pieces = [(begin, stop - begin, self.live(begin, stop)) for begin, stop in bounds]
        self.store.relocate(moved, [piece for piece in pieces if piece[1]], seq)

    def live(self, begin: int, stop: int) -> int:
        return sum(1 for seq in range(begin, stop) if seq in self.bodies)

    def body(self, seq: int, slot: Slot) -> bytes:
        """The message, from memory or from the file that the store names."""
        index = slot.index + seq - slot.first
        if slot.chunk.data is not None:
            return body_of(slot.chunk, index)
        whole = self.files[slot.chunk.file_id][slot.chunk.file_offset :]
        begin = slot.chunk.bytes_between(0, index)
        return whole[begin : begin + slot.chunk.bytes_between(index, index + 1)]

    def check(self) -> None:
        """What can be seen without unfolding anything."""
        slots = self.store.slots()
        by_seq = {seq: slot for slot in slots for seq in range(slot.first, slot.first + slot.count)}
        assert {seq: self.body(seq, by_seq[seq]) for seq in self.bodies} == self.bodies
        assert {seq: by_seq[seq].chunk.file_id for seq in self.bodies} == self.places
        assert self.store.live_bytes == sum(map(len, self.bodies.values()))
        assert self.store.journaled_bytes == self.store.live_bytes
        assert self.store.journaled_count == len(self.bodies)
        claims = dict.fromkeys(self.live_bytes, 0)
        for seq, file in self.places.items():
            claims[file] += len(self.bodies[seq])
        assert self.live_bytes == claims
        assert [slot.live for slot in slots] == [
            self.live(slot.first, slot.first + slot.count) for slot in slots
        ]
        assert sum(slot.live for slot in slots) == len(self.bodies)
        assert [slot.first for slot in slots] == sorted(slot.first for slot in slots)
        assert self.budget.used_bytes == in_memory(slots)
        spans = self.store.journaled_spans()[0]
        covered = {seq for first, count in spans for seq in range(first, first + count)}
        assert covered >= set(by_seq)  # An extent has its holes in it.
        assert [first for first, _ in spans] == sorted(first for first, _ in spans)
        for file in self.live_bytes:
            wanted = sum(slot.chunk.file_id == file for slot in slots)
            assert len(self.places_in(file)) == wanted

    def places_in(self, file: int) -> set[int]:
        """The places that the log got as alive; some places twice."""
        found, after = self.store.places(file, 0)
        while after > 0:
            more, after = self.store.places(file, after)
            found += more
        return set(found)

    def look(self) -> None:
        """Every message can be found; all extents are unfolded by that."""
        for seq in self.bodies:
            assert self.body(seq, self.store.find(seq)) == self.bodies[seq]
        assert self.folded() == 0
        for seq in range(1, self.next_seq + 2):
            found = self.store.find_live(seq)
            assert found is not None or seq not in self.bodies
            assert found is None or found.live > 0

    def folded(self) -> int:
        """Messages that are in extents."""
        slots = [self.store.covering(first) for first, _ in self.store.journaled_spans()[0]]
        return sum(slot.count for slot in slots if slot.table is not None)


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
        elif kind == "backlog":
            both.backlog(a)
        elif kind == "tidy":
            both.store.tidy()
        elif kind == "look":
            both.look()
        else:
            both.move(a, b)
        both.check()
    both.look()
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
