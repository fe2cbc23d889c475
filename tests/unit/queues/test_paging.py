"""Bodies that are in no log go to page files and come back: stores and hosts against naive ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.bodies.paging import BATCH_BYTES, BEHIND_BYTES, REST_CHUNKS, Pager
from queues.bodies.store import EXTENT_SLOTS, BodyBudget, Store
from queues.machine.commands import ACCEPT, Attach, Purge, consumer_key
from queues.message import BEING_PAGED, Chunk
from queues.sessions.credit import CreditActor, CreditSpec
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.fake_pages import FakePages
from tests.unit.queues.messages import body_of, chunk_of

BOUNDED = settings(max_examples=200, deadline=None, database=None)
Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "add", "add", "share", "release", "write", "fail", "shed", "look", "tidy"]
        ),
        st.integers(0, 30),
        st.integers(1, 5),
    ),
    max_size=50,
)


class Queues:
    """Two stores that share a budget and page files, and the same messages in dicts."""

    def __init__(self) -> None:
        self.budget = BodyBudget(0, 3)
        self.pages = FakePages()
        self.pager = Pager(self.pages, self.budget, 20)
        self.log: dict[int, bytes] = {}
        self.stores = [Store(self.budget), Store(self.budget)]
        self.bodies: list[dict[int, bytes]] = [{}, {}]
        self.next_seq = [1, 1]
        self.in_log: list[Chunk] = []

    def apply(self, action: Action) -> None:
        kind, number, count = action
        if kind in ("add", "share"):
            self.add(kind == "share", number, count)
        elif kind == "release":
            self.release(number % 2, number // 2, count)
        elif kind == "write":
            self.pages.complete(count)
        elif kind == "fail":
            self.pages.fail()
            self.pager.try_again()
        elif kind == "shed":
            self.shed(number % 2, count)
        elif kind == "look":
            self.look(number % 2, number // 2)
        else:
            self.stores[number % 2].tidy()
        self.pager.end_turn()

    def add(self, shared: bool, number: int, count: int) -> None:
        """Messages for one store or for both, of which the second one may have them in the log."""
        bodies = [b"%d:%d" % (self.next_seq[0] + place, number) for place in range(count)]
        chunk = chunk_of(bodies, base=number)
        in_log = shared and number % 2 == 0
        if in_log:
            chunk.file_id = len(self.log) + 1
            chunk.durable = True
            self.log[chunk.file_id] = b"".join(bodies)
        for queue in (0, 1) if shared else (number % 2,):
            first = self.next_seq[queue]
            journaled = in_log and queue == 1
            self.stores[queue].add(first, chunk, 0, count, journaled)
            if not journaled and number % 5:
                self.budget.offer(chunk)
            self.bodies[queue].update(enumerate(bodies, first))
            self.next_seq[queue] += count

    def release(self, queue: int, nth: int, count: int) -> None:
        alive = sorted(self.bodies[queue])
        for seq in alive[nth : nth + count]:
            del self.bodies[queue][seq]
            self.stores[queue].release(seq, 1)

    def shed(self, queue: int, slots_max: int) -> None:
        end = 1 << 40
        while end:
            end = self.stores[queue].shed(end, slots_max)

    def look(self, queue: int, nth: int) -> None:
        """Find a message; it stays in memory, as if it were delivered."""
        alive = sorted(self.bodies[queue])
        if nth < len(alive):
            self.check(queue, alive[nth])

    def check(self, queue: int, seq: int) -> None:
        slot = self.stores[queue].find(seq)
        chunk = slot.chunk
        if chunk.data is None:
            if chunk.page_id > 0:
                content, begin = bytes(self.pages.files[chunk.page_id]), chunk.page_offset
            else:
                content, begin = self.log[chunk.file_id], chunk.file_offset
            chunk.data = content[begin : begin + chunk.size()]
            chunk.base = chunk.first_offset()
            self.budget.took(chunk)
        assert body_of(chunk, slot.index + seq - slot.first) == self.bodies[queue][seq]

    def check_all(self) -> None:
        for queue in (0, 1):
            for seq in self.bodies[queue]:
                self.check(queue, seq)

    def end(self) -> None:
        """Nothing is left behind, in memory or in the files."""
        for store in self.stores:
            store.clear()
        self.pages.complete()
        assert self.budget.used_bytes == 0
        assert self.pages.live_bytes() == 0


@BOUNDED
@given(ACTIONS)
def test_paged_bodies_are_those_that_came_whatever_happens(actions: list[Action]) -> None:
    queues = Queues()
    for action in actions:
        queues.apply(action)
    queues.check_all()
    queues.end()


def test_paged_chunks_are_folded_and_unfolded_with_their_claims() -> None:
    queues = Queues()
    for _ in range(60):
        queues.apply(("add", 2, 4))
        queues.pages.complete()
    store = queues.stores[0]
    assert store.entry_count() < 40
    assert queues.budget.used_bytes < 200
    assert queues.pages.live_bytes() == store.live_bytes
    queues.check_all()
    queues.release(0, 0, 100)
    assert queues.pages.live_bytes() == store.live_bytes
    queues.end()


def test_a_store_tells_how_much_of_it_is_in_memory() -> None:
    queues = Queues()
    store = queues.stores[0]
    assert store.in_memory() == (0, 0)
    for _ in range(8):
        queues.apply(("add", 2, 5))
        queues.pages.complete()
    queues.apply(("add", 10, 20))  # Not offered, so it stays.
    held = [slot for slot in store.slots() if slot.chunk.data is not None]
    assert 0 < len(held) < 9
    share, bytes_share = store.in_memory()
    assert share == sum(int(slot.live) for slot in held) / 60
    held_bytes = sum(int(slot.chunk.size()) for slot in held)
    assert bytes_share == held_bytes / int(store.live_bytes)


def test_what_is_paged_for_want_of_memory_is_folded_afterwards() -> None:
    queues = Queues()
    store = queues.stores[0]
    for _ in range(100):
        queues.apply(("add", 10, 1))  # Not offered yet.
    assert store.entry_count() == 100
    for _ in range(6):  # Some in each call.
        queues.shed(0, 20)
        queues.pager.end_turn()
        queues.pages.complete()
    assert store.entry_count() < 60
    queues.check_all()
    queues.end()


# The pager


def pager_of(limit_bytes: int = 0, rest_bytes: int = 0) -> tuple[Pager, FakePages, Store]:
    budget = BodyBudget(limit_bytes)
    pages = FakePages()
    return Pager(pages, budget, rest_bytes), pages, Store(budget)


def test_what_comes_in_large_runs_is_folded_as_fast_as_it_comes() -> None:
    """Of 12 million messages a second, their places took 30 MB of memory in each second."""
    pager, pages, store = pager_of()
    bodies = [b"x"] * 2_000
    chunks = 0
    for _ in range(100):
        for _ in range(40):
            chunk = chunk_of(bodies, persistent=False)
            store.add(1 + chunks * len(bodies), chunk, 0, len(bodies), False)
            pager.offer(chunk)
            chunks += 1
        store.tidy()
        pager.end_turn()
        pages.complete()
    assert store.entry_count() < chunks // 8 + 2 * EXTENT_SLOTS


def test_what_is_settled_while_it_rests_is_never_written() -> None:
    pager, pages, store = pager_of(rest_bytes=10)
    for seq in range(1, 5):
        chunk = chunk_of([b"12345678"], persistent=False)
        store.add(seq, chunk, 0, 1, False)
        pager.offer(chunk)
        if seq % 2:
            store.release(seq, 1)
        pager.end_turn()
    pages.complete()
    assert bytes(pages.files[1][3:]) == b"12345678" * 2


def test_what_is_settled_does_not_pile_up_while_little_is_paged() -> None:
    pager, pages, store = pager_of(rest_bytes=1 << 30)
    chunks = [chunk_of([b"x"], persistent=False) for _ in range(REST_CHUNKS + 1)]
    for seq, chunk in enumerate(chunks, 1):
        store.add(seq, chunk, 0, 1, False)
        pager.offer(chunk)
        store.release(seq, 1)
    assert pager.leaving_bytes == len(chunks)
    pager.end_turn()
    assert pager.leaving_bytes == 0
    assert pages.write_count == 0


def test_a_queue_deleted_while_its_page_is_written_leaves_nothing() -> None:
    pager, pages, store = pager_of()
    chunk = chunk_of([b"abc"], persistent=False)
    store.add(1, chunk, 0, 1, False)
    pager.offer(chunk)
    pager.end_turn()
    assert chunk.page_id == BEING_PAGED
    store.clear()
    pages.complete()
    assert pages.live_bytes() == 0


def test_a_failed_write_leaves_the_bodies_in_memory_until_it_is_tried_again() -> None:
    pager, pages, store = pager_of()
    chunks = [chunk_of([b"%d" % seq], persistent=False) for seq in range(4)]
    for seq, chunk in enumerate(chunks):
        store.add(seq + 1, chunk, 0, 1, False)
    pager.offer(chunks[0])
    pager.end_turn()
    pages.fail()
    pager.offer(chunks[1])
    pager.end_turn()
    assert pages.write_count == 1
    assert [chunk.data for chunk in chunks] == [b"0", b"1", b"2", b"3"]
    pager.try_again()
    assert store.shed(1 << 40, 100) == 0
    pager.end_turn()
    pages.complete()
    assert [chunk.data for chunk in chunks] == [None] * 4


def test_publishers_wait_while_the_page_files_are_behind() -> None:
    pager, pages, store = pager_of()
    host = CreditActor("queue", CreditSpec(400, 200))
    assert not pager.is_behind()
    size = BATCH_BYTES
    for seq in range(1, BEHIND_BYTES // size + 2):
        chunk = chunk_of([bytes(size)], persistent=False)
        store.add(seq, chunk, 0, 1, False)
        pager.offer(chunk)
        pager.end_turn()
    assert pager.is_behind()
    pager.hold(host, 3)
    assert host.is_blocked()
    pages.complete(4)
    assert host.is_blocked()
    pages.complete()
    assert not host.is_blocked()


# Hosts


def test_transient_messages_over_the_budget_leave_memory_and_come_back_in_order() -> None:
    harness = Harness(budget_bytes=100)
    for seq in range(1, 201):
        harness.publish([b"message %d" % seq], persistent=seq % 3 == 0)
        harness.turn()
        harness.sync()
        harness.node.pages.complete()
    assert harness.node.budget.used_bytes < 200
    assert harness.host.core.store.entry_count() == 200  # Two kinds in turn cannot be folded.
    assert harness.bodies() == {seq: b"message %d" % seq for seq in range(1, 201)}


def test_a_transient_queue_pages_persistent_messages_too() -> None:
    harness = Harness(budget_bytes=0, durable=False)
    chunk = harness.publish([b"a", b"b"])
    harness.turn()
    harness.node.pages.complete()
    assert chunk.data is None
    assert harness.node.log.take() == []
    assert harness.bodies() == {1: b"a", 2: b"b"}


def test_a_message_of_a_durable_and_a_transient_queue_leaves_memory_and_both_have_it() -> None:
    harness = Harness(budget_bytes=0)
    other = harness.node.queue(6, durable=False)
    chunk = chunk_of([b"a", b"b"])
    for host in (harness.host, other):
        host.publish(harness.sink, chunk, 1)
    harness.turn()
    harness.sync()
    assert chunk.data == b"ab"  # In the log, and still to be paged for the other one.
    harness.node.pages.complete()
    assert chunk.data is None
    assert harness.bodies() == {1: b"a", 2: b"b"}
    harness.host.delete()
    harness.host = other
    assert harness.bodies() == {1: b"a", 2: b"b"}
    other.delete()
    assert harness.node.pages.live_bytes() == 0


@pytest.mark.parametrize("way", ["settle", "purge", "delete"])
def test_paged_messages_leave_their_files_whichever_way_they_go(way: str) -> None:
    harness = Harness(budget_bytes=0)
    for seq in range(40):
        harness.publish([b"%d" % seq] * 3, persistent=False)
        harness.turn()
        harness.node.pages.complete()
    assert harness.node.pages.live_bytes() > 0
    if way == "settle":
        harness.host.command(
            harness.sink, Attach(consumer_key(harness.sink.session, 1), 200, False, False, 0)
        )
        harness.turn()
        harness.settle(1, ACCEPT, [(1, 120)])
    elif way == "purge":
        harness.host.command(harness.sink, Purge(harness.sink.session))
    else:
        harness.host.delete()
    harness.turn()
    assert harness.node.pages.live_bytes() == 0
