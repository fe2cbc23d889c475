"""Classic queues that are lazy, share chunks, or dead-letter, over a fake log."""

import pytest

from queues.dead_lettering.dead_letter_reads import BURY_REST_MS
from queues.hosts.classic import SHIFT_SLOTS, ClassicHost
from queues.hosts.queue_core import DEFAULT, LAZY
from queues.machine.commands import (
    REJECT,
)
from queues.machine.fifo import Fifo
from queues.machine.options import REJECT_PUBLISH, Options
from queues.message import Chunk
from tests.unit.queues.at_most_once import AtMostOnce
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.messages import body_of, chunk_of

# Lazy queues


def lazy_harness() -> Harness:
    harness = Harness()
    harness.host = ClassicHost(harness.node.core(5, mode=LAZY))
    return harness


def test_a_lazy_queue_keeps_no_body_in_memory_once_it_is_on_disk() -> None:
    harness = lazy_harness()
    chunks = [harness.publish([b"a"]), harness.publish([b"b"], persistent=False)]
    assert harness.turn() == []
    assert harness.sync() == [("confirms", 5, 1), ("confirms", 5, 2)]
    harness.node.pages.complete()
    assert [chunk.data for chunk in chunks] == [None, None]
    assert harness.node.budget.used_bytes == 0
    assert harness.bodies() == {1: b"a", 2: b"b"}


def test_a_body_that_a_lazy_queue_has_shown_leaves_memory_when_the_next_is_looked_at() -> None:
    harness = lazy_harness()
    chunks = [harness.publish([b"a"]), harness.publish([b"b"])]
    harness.turn()
    harness.sync()
    assert harness.body(1) == b"a"
    assert chunks[0].data == b"a"
    assert harness.body(2) == b"b"
    assert chunks[0].data is None
    assert harness.body(1) == b"a"


def test_a_chunk_that_another_queue_holds_too_is_not_lazy() -> None:
    for lazy_first in (True, False):
        harness = lazy_harness()
        other = harness.node.queue(6)
        chunk = chunk_of([b"a"])
        hosts = [harness.host, other] if lazy_first else [other, harness.host]
        for host in hosts:
            host.publish(harness.sink, chunk, 1)
        harness.turn()
        harness.sync()
        assert chunk.data == b"a"


def test_a_lazy_queue_stays_lazy_when_the_log_moves_its_messages() -> None:
    harness = lazy_harness()
    chunk = harness.publish([b"aa", b"bb"])
    harness.turn()
    place = harness.node.log.put(b"aabb", 4)
    harness.relocate(1, 2, place, chunk.offsets)
    assert harness.host.core.store.find(1).chunk.data is None
    assert harness.bodies() == {1: b"aa", 2: b"bb"}


def test_a_lazy_queue_is_lazy_after_a_restart_and_drops_what_is_transient() -> None:
    harness = lazy_harness()
    chunks: list[Chunk] = []
    for first, body, persistent in ((1, b"aa", True), (2, b"b", False), (3, b"cc", True)):
        place = harness.node.log.put(body, len(body))
        chunk = chunk_of([body], persistent)
        chunk.data = None
        chunk.file_id, chunk.file_offset, chunk.durable = place.file_id, place.offset, True
        harness.host.core.recover(chunk, first, [(first, 1)], b"", 0)
        chunks.append(chunk)
    harness.host.recovered(3, 0, 0)
    harness.turn()
    assert harness.node.log.take() == [("settle", 5, [(2, 1)])]
    assert harness.node.log.live == {1: 4}
    assert harness.body(1) == b"aa"
    assert harness.body(3) == b"cc"
    assert chunks[0].data is None


def become(harness: Harness, mode: int) -> None:
    harness.host.configure(harness.host.core.options, mode, None)


def test_what_is_queued_leaves_memory_in_slices_when_the_queue_becomes_lazy() -> None:
    harness = Harness()
    count = 2 * SHIFT_SLOTS
    chunks = [harness.publish([b"%d" % number]) for number in range(count)]
    harness.turn()
    harness.sync()
    become(harness, LAZY)
    left = []
    for _ in range(4):
        harness.turn()
        left.append(sum(chunk.data is not None for chunk in chunks))
    assert count > left[0] >= count - SHIFT_SLOTS
    assert left[-1] == 0
    assert harness.node.later == []
    assert harness.node.budget.used_bytes == 0
    assert harness.body(1) == b"0"
    assert harness.body(count) == b"%d" % (count - 1)


def test_queued_messages_that_are_in_no_log_go_to_page_files_when_the_queue_becomes_lazy() -> None:
    harness = Harness()
    chunk = harness.publish([b"a"], persistent=False)
    harness.turn()
    become(harness, LAZY)
    harness.turn()
    harness.node.pages.complete()
    assert chunk.data is None
    assert harness.bodies() == {1: b"a"}


def test_a_message_whose_sync_is_under_way_when_the_queue_becomes_lazy_leaves_with_it() -> None:
    harness = Harness()
    chunk = harness.publish([b"a"])
    harness.turn()
    become(harness, LAZY)
    harness.turn()
    assert chunk.data == b"a"
    harness.sync()
    assert chunk.data is None


def test_what_another_queue_holds_stays_in_memory_when_the_queue_becomes_lazy() -> None:
    harness = Harness()
    other = harness.node.queue(6)
    chunk = chunk_of([b"a"])
    for host in (harness.host, other):
        host.publish(harness.sink, chunk, 1)
    harness.turn()
    harness.sync()
    become(harness, LAZY)
    harness.turn()
    assert chunk.data == b"a"


def test_bodies_stay_in_memory_once_read_when_the_queue_is_lazy_no_longer() -> None:
    harness = lazy_harness()
    chunks = [harness.publish([b"a"]), harness.publish([b"b"])]
    harness.turn()
    harness.sync()
    become(harness, DEFAULT)
    harness.turn()
    assert (harness.body(1), harness.body(2)) == (b"a", b"b")
    assert [chunk.data for chunk in chunks] == [b"a", b"b"]


# Chunks that queues share


@pytest.mark.parametrize("refuses_first", [False, True])
def test_a_queue_that_refuses_a_chunk_leaves_the_others_their_copy(refuses_first: bool) -> None:
    harness = Harness()
    other = harness.node.queue(6)
    other.core.machine = Fifo(Options(length_max=0, overflow=REJECT_PUBLISH))
    chunk = chunk_of([b"a", b"b"])
    for host in [other, harness.host] if refuses_first else [harness.host, other]:
        host.publish(harness.sink, chunk, 1)
    harness.turn()
    assert ("settle", 6, [(1, 2)]) in harness.node.log.records
    assert harness.bodies() == {1: b"a", 2: b"b"}
    assert harness.node.log.live == {1: 2}
    assert harness.node.budget.used_bytes == 2


def test_a_chunk_that_waits_for_a_queue_that_is_deleted_is_let_go() -> None:
    harness = Harness()
    chunk = harness.publish([b"a"])
    harness.host.delete()
    harness.turn()
    assert chunk.data is None
    assert harness.node.budget.used_bytes == 0


# Messages that die


class SlowGrave(AtMostOnce):
    """A dead-letter publisher that writes down who came."""

    def __init__(self) -> None:
        self.dead: list[tuple[bytes, str]] = []

    def bury(self, chunk: Chunk, index: int, count: int, reason: str, first: int) -> int:
        self.dead += [(body_of(chunk, at), reason) for at in range(index, index + count)]
        return count

    def close(self) -> None:
        return


def dying_harness(budget_bytes: int = 0) -> tuple[Harness, SlowGrave]:
    """Messages a, b, c of three chunks on disk alone; all are rejected and wait to be read."""
    harness = Harness(budget_bytes)
    grave = SlowGrave()
    harness.host.core.dead_letter_publisher = grave
    for body in (b"a", b"b", b"c"):
        harness.publish([body])
    harness.attach(1, 3)
    harness.turn()
    harness.sync()
    harness.settle(1, REJECT, [(1, 3)])
    harness.turn()
    harness.node.log.take()
    return harness, grave


def test_a_dying_message_that_must_be_read_is_alive_until_it_is_buried() -> None:
    harness, grave = dying_harness()
    assert (grave.dead, harness.host.core.live_ranges(1, 9)) == ([], [(1, 3)])
    assert harness.host.core.journaled_from(1) == ([(1, 3)], 0)
    harness.node.answer_loads()
    harness.turn()
    assert grave.dead == [(b"a", "rejected"), (b"b", "rejected"), (b"c", "rejected")]
    assert harness.node.log.take() == [("settle", 5, [(1, 3)])]
    assert (harness.host.core.live_ranges(1, 9), harness.node.budget.used_bytes) == ([], 0)


def test_a_dying_message_that_cannot_be_read_waits_and_the_others_are_buried() -> None:
    harness, grave = dying_harness()
    broken = harness.host.core.store.find(2).chunk

    def answer(breaks: bool) -> int:
        """Answer all reads and what follows of them; how many failed."""
        failed = 0
        while harness.node.loads:
            loads, harness.node.loads = harness.node.loads, []
            for host, chunk in loads:
                if chunk is broken and breaks:
                    failed += 1
                    host.load_failed(chunk)
                    continue
                harness.node.loads = [(host, chunk)]
                harness.node.answer_loads()
            harness.turn()
        return failed

    assert 1 <= answer(breaks=True) <= 2
    assert [body for body, _ in grave.dead] == [b"a"]
    for _ in range(3):  # It is not tried again and again.
        harness.turn()
        assert harness.node.loads == []
    harness.node.now_ms += BURY_REST_MS
    harness.host.core.on_timer()
    harness.turn()
    assert answer(breaks=True) <= 2
    assert [body for body, _ in grave.dead] == [b"a", b"c"]
    assert harness.host.core.live_ranges(1, 9) == [(2, 1)]
    harness.node.now_ms += BURY_REST_MS
    harness.host.core.on_timer()
    harness.turn()
    assert answer(breaks=False) == 0
    assert [body for body, _ in grave.dead] == [b"a", b"c", b"b"]
    assert harness.host.core.live_ranges(1, 9) == []


def test_a_failed_read_ahead_is_no_matter_of_who_waits_for_another_body() -> None:
    harness = Harness(budget_bytes=0)
    harness.publish([b"a"])
    harness.publish([b"b"])
    harness.attach(1, 2)
    harness.turn()
    harness.sync()
    assert harness.host.view(harness.sink, 1, 1) is None
    (_, first), (_, second) = harness.node.loads
    harness.host.core.load_failed(second)
    assert harness.sink.take() == []
    harness.host.core.load_failed(first)
    assert harness.sink.take() == [("unreadable", 5)]


def test_a_deleted_queue_releases_the_dying_and_buries_nobody() -> None:
    harness, grave = dying_harness()
    assert harness.host.delete() == 0
    harness.node.answer_loads()
    harness.turn()
    assert (grave.dead, harness.node.log.live) == ([], {1: 0})


def test_the_time_of_an_unused_queue_begins_anew_with_a_restart() -> None:
    harness = Harness()
    harness.host.core.machine = Fifo(Options(expires_ms=500))
    harness.host.recovered(0, 0, 0)
    harness.turn()
    assert harness.node.wakes == [(harness.host, 1500)]
    harness.node.now_ms = 1500
    harness.host.on_timer()
    harness.turn()
    assert harness.node.unused == [5]
