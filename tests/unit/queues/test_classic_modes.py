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
from tests.unit.queues.classic_desk import Desk
from tests.unit.queues.messages import body_of, chunk_of

# Lazy queues


def lazy_desk() -> Desk:
    desk = Desk()
    desk.host = ClassicHost(desk.node.core(5, mode=LAZY))
    return desk


def test_a_lazy_queue_keeps_no_body_in_memory_once_it_is_on_disk() -> None:
    desk = lazy_desk()
    chunks = [desk.publish([b"a"]), desk.publish([b"b"], persistent=False)]
    assert desk.turn() == []
    assert desk.sync() == [("confirms", 5, 1), ("confirms", 5, 2)]
    desk.node.pages.complete()
    assert [chunk.data for chunk in chunks] == [None, None]
    assert desk.node.budget.used_bytes == 0
    assert desk.bodies() == {1: b"a", 2: b"b"}


def test_a_body_that_a_lazy_queue_has_shown_leaves_memory_when_the_next_is_looked_at() -> None:
    desk = lazy_desk()
    chunks = [desk.publish([b"a"]), desk.publish([b"b"])]
    desk.turn()
    desk.sync()
    assert desk.body(1) == b"a"
    assert chunks[0].data == b"a"
    assert desk.body(2) == b"b"
    assert chunks[0].data is None
    assert desk.body(1) == b"a"


def test_a_chunk_that_another_queue_holds_too_is_not_lazy() -> None:
    for lazy_first in (True, False):
        desk = lazy_desk()
        other = desk.node.queue(6)
        chunk = chunk_of([b"a"])
        hosts = [desk.host, other] if lazy_first else [other, desk.host]
        for host in hosts:
            host.publish(desk.sink, chunk, 1)
        desk.turn()
        desk.sync()
        assert chunk.data == b"a"


def test_a_lazy_queue_stays_lazy_when_the_log_moves_its_messages() -> None:
    desk = lazy_desk()
    chunk = desk.publish([b"aa", b"bb"])
    desk.turn()
    place = desk.node.log.put(b"aabb", 4)
    desk.host.core.relocated(1, 2, place.file_id, place.offset, chunk.offsets)
    assert desk.host.core.store.find(1).chunk.data is None
    assert desk.bodies() == {1: b"aa", 2: b"bb"}


def test_a_lazy_queue_is_lazy_after_a_restart_and_drops_what_is_transient() -> None:
    desk = lazy_desk()
    chunks: list[Chunk] = []
    for first, body, persistent in ((1, b"aa", True), (2, b"b", False), (3, b"cc", True)):
        place = desk.node.log.put(body, len(body))
        chunk = chunk_of([body], persistent)
        chunk.data = None
        chunk.file_id, chunk.file_offset, chunk.durable = place.file_id, place.offset, True
        desk.host.core.recover(chunk, first, [(first, 1)], b"", 0)
        chunks.append(chunk)
    desk.host.recovered(3, 0, 0)
    desk.turn()
    assert desk.node.log.take() == [("settle", 5, [(2, 1)])]
    assert desk.node.log.live == {1: 4}
    assert desk.body(1) == b"aa"
    assert desk.body(3) == b"cc"
    assert chunks[0].data is None


def become(desk: Desk, mode: int) -> None:
    desk.host.configure(desk.host.core.options, mode, None)


def test_what_is_queued_leaves_memory_in_slices_when_the_queue_becomes_lazy() -> None:
    desk = Desk()
    count = 2 * SHIFT_SLOTS
    chunks = [desk.publish([b"%d" % number]) for number in range(count)]
    desk.turn()
    desk.sync()
    become(desk, LAZY)
    left = []
    for _ in range(4):
        desk.turn()
        left.append(sum(chunk.data is not None for chunk in chunks))
    assert count > left[0] >= count - SHIFT_SLOTS
    assert left[-1] == 0
    assert desk.node.later == []
    assert desk.node.budget.used_bytes == 0
    assert desk.body(1) == b"0"
    assert desk.body(count) == b"%d" % (count - 1)


def test_queued_messages_that_are_in_no_log_go_to_page_files_when_the_queue_becomes_lazy() -> None:
    desk = Desk()
    chunk = desk.publish([b"a"], persistent=False)
    desk.turn()
    become(desk, LAZY)
    desk.turn()
    desk.node.pages.complete()
    assert chunk.data is None
    assert desk.bodies() == {1: b"a"}


def test_a_message_whose_sync_is_under_way_when_the_queue_becomes_lazy_leaves_with_it() -> None:
    desk = Desk()
    chunk = desk.publish([b"a"])
    desk.turn()
    become(desk, LAZY)
    desk.turn()
    assert chunk.data == b"a"
    desk.sync()
    assert chunk.data is None


def test_what_another_queue_holds_stays_in_memory_when_the_queue_becomes_lazy() -> None:
    desk = Desk()
    other = desk.node.queue(6)
    chunk = chunk_of([b"a"])
    for host in (desk.host, other):
        host.publish(desk.sink, chunk, 1)
    desk.turn()
    desk.sync()
    become(desk, LAZY)
    desk.turn()
    assert chunk.data == b"a"


def test_bodies_stay_in_memory_once_read_when_the_queue_is_lazy_no_longer() -> None:
    desk = lazy_desk()
    chunks = [desk.publish([b"a"]), desk.publish([b"b"])]
    desk.turn()
    desk.sync()
    become(desk, DEFAULT)
    desk.turn()
    assert (desk.body(1), desk.body(2)) == (b"a", b"b")
    assert [chunk.data for chunk in chunks] == [b"a", b"b"]


# Chunks that queues share


@pytest.mark.parametrize("refuses_first", [False, True])
def test_a_queue_that_refuses_a_chunk_leaves_the_others_their_copy(refuses_first: bool) -> None:
    desk = Desk()
    other = desk.node.queue(6)
    other.core.machine = Fifo(Options(length_max=0, overflow=REJECT_PUBLISH))
    chunk = chunk_of([b"a", b"b"])
    for host in [other, desk.host] if refuses_first else [desk.host, other]:
        host.publish(desk.sink, chunk, 1)
    desk.turn()
    assert ("settle", 6, [(1, 2)]) in desk.node.log.records
    assert desk.bodies() == {1: b"a", 2: b"b"}
    assert desk.node.log.live == {1: 2}
    assert desk.node.budget.used_bytes == 2


def test_a_chunk_that_waits_for_a_queue_that_is_deleted_is_let_go() -> None:
    desk = Desk()
    chunk = desk.publish([b"a"])
    desk.host.delete()
    desk.turn()
    assert chunk.data is None
    assert desk.node.budget.used_bytes == 0


# Messages that die


class SlowGrave(AtMostOnce):
    """An undertaker that writes down who came."""

    def __init__(self) -> None:
        self.dead: list[tuple[bytes, str]] = []

    def bury(self, chunk: Chunk, index: int, count: int, reason: str) -> int:
        self.dead += [(body_of(chunk, at), reason) for at in range(index, index + count)]
        return count

    def close(self) -> None:
        return


def dying_desk(budget_bytes: int = 0) -> tuple[Desk, SlowGrave]:
    """Messages a, b, c of three chunks on disk alone; all are rejected and wait to be read."""
    desk = Desk(budget_bytes)
    grave = SlowGrave()
    desk.host.core.dead_letter_publisher = grave
    for body in (b"a", b"b", b"c"):
        desk.publish([body])
    desk.attach(1, 3)
    desk.turn()
    desk.sync()
    desk.settle(1, REJECT, [(1, 3)])
    desk.turn()
    desk.node.log.take()
    return desk, grave


def test_a_dying_message_that_must_be_read_is_alive_until_it_is_buried() -> None:
    desk, grave = dying_desk()
    assert (grave.dead, desk.host.core.live_ranges(1, 9)) == ([], [(1, 3)])
    assert desk.host.core.journaled_from(1) == ([(1, 3)], 0)
    desk.node.answer_loads()
    desk.turn()
    assert grave.dead == [(b"a", "rejected"), (b"b", "rejected"), (b"c", "rejected")]
    assert desk.node.log.take() == [("settle", 5, [(1, 3)])]
    assert (desk.host.core.live_ranges(1, 9), desk.node.budget.used_bytes) == ([], 0)


def test_a_dying_message_that_cannot_be_read_waits_and_the_others_are_buried() -> None:
    desk, grave = dying_desk()
    broken = desk.host.core.store.find(2).chunk

    def answer(breaks: bool) -> int:
        """Answer all reads and what follows of them; how many failed."""
        failed = 0
        while desk.node.loads:
            loads, desk.node.loads = desk.node.loads, []
            for host, chunk in loads:
                if chunk is broken and breaks:
                    failed += 1
                    host.load_failed(chunk)
                    continue
                desk.node.loads = [(host, chunk)]
                desk.node.answer_loads()
            desk.turn()
        return failed

    assert 1 <= answer(breaks=True) <= 2
    assert [body for body, _ in grave.dead] == [b"a"]
    for _ in range(3):  # It is not tried again and again.
        desk.turn()
        assert desk.node.loads == []
    desk.node.now_ms += BURY_REST_MS
    desk.host.core.on_timer()
    desk.turn()
    assert answer(breaks=True) <= 2
    assert [body for body, _ in grave.dead] == [b"a", b"c"]
    assert desk.host.core.live_ranges(1, 9) == [(2, 1)]
    desk.node.now_ms += BURY_REST_MS
    desk.host.core.on_timer()
    desk.turn()
    assert answer(breaks=False) == 0
    assert [body for body, _ in grave.dead] == [b"a", b"c", b"b"]
    assert desk.host.core.live_ranges(1, 9) == []


def test_a_failed_read_ahead_is_no_matter_of_who_waits_for_another_body() -> None:
    desk = Desk(budget_bytes=0)
    desk.publish([b"a"])
    desk.publish([b"b"])
    desk.attach(1, 2)
    desk.turn()
    desk.sync()
    assert desk.host.view(desk.sink, 1, 1) is None
    (_, first), (_, second) = desk.node.loads
    desk.host.core.load_failed(second)
    assert desk.sink.take() == []
    desk.host.core.load_failed(first)
    assert desk.sink.take() == [("unreadable", 5)]


def test_a_deleted_queue_releases_the_dying_and_buries_nobody() -> None:
    desk, grave = dying_desk()
    assert desk.host.delete() == 0
    desk.node.answer_loads()
    desk.turn()
    assert (grave.dead, desk.node.log.live) == ([], {1: 0})


def test_the_time_of_an_unused_queue_begins_anew_with_a_restart() -> None:
    desk = Desk()
    desk.host.core.machine = Fifo(Options(expires_ms=500))
    desk.host.recovered(0, 0, 0)
    desk.turn()
    assert desk.node.wakes == [(desk.host, 1500)]
    desk.node.now_ms = 1500
    desk.host.on_timer()
    desk.turn()
    assert desk.node.unused == [5]
