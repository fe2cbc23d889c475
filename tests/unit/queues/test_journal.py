"""The journal of classic queues: what is written, in what order, and what is confirmed when."""

from collections.abc import Callable

import pytest

from queues.bodies.store import BodyBudget, Store
from queues.hosts.journal import Journal
from queues.sessions.credit import CreditActor, CreditSpec
from tests.unit.queues.fake_log import FakeLog
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import chunk_of


class Marks:
    """What a host learns of its marks."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def mark_durable(self, message_seq: int) -> None:
        self.told.append(message_seq)


class Harness:
    """A journal over a fake log, and one queue's credit account."""

    def __init__(self, budget_bytes: int = 1 << 30) -> None:
        self.log = FakeLog()
        self.budget = BodyBudget(budget_bytes)
        self.journal = Journal(self.log, self.budget, CreditActor("log", CreditSpec(8, 4)))
        self.queue = CreditActor("queue", CreditSpec(400, 200))
        self.sink = FakeSink()
        self.marked = Marks()

    def confirm(self, upto: int, count: int = 1) -> None:
        self.journal.confirm(self.sink, 5, upto, self.queue, count)

    def end_turn(self) -> int:
        self.journal.end_turn(1000)
        return self.log.appended_lsn


def test_nothing_is_confirmed_before_its_record_is_durable() -> None:
    harness = Harness()
    harness.journal.publish(chunk_of([b"a"]), 5, 1)
    harness.confirm(1)
    first = harness.end_turn()
    harness.journal.publish(chunk_of([b"b"]), 5, 2)
    harness.confirm(2)
    second = harness.end_turn()
    harness.journal.on_durable(first - 1)
    assert harness.sink.told == []
    harness.journal.on_durable(first)
    assert harness.sink.take() == [("confirms", 5, 1)]
    harness.journal.on_durable(second)
    assert harness.sink.take() == [("confirms", 5, 2)]


def test_a_chunk_for_several_queues_is_one_record() -> None:
    harness = Harness()
    chunk = chunk_of([b"a", b"bc"], base=9)
    for uid, first in ((5, 1), (6, 40), (7, 3)):
        harness.journal.publish(chunk, uid, first)
    harness.end_turn()
    assert harness.log.take() == [("publish", [(5, 1), (6, 40), (7, 3)], [b"a", b"bc"])]
    assert harness.log.live == {1: 9}
    assert (chunk.file_id, chunk.file_offset) == (1, 4)


def test_a_turn_is_written_as_publishes_then_settlements_then_marks_then_deletions() -> None:
    harness = Harness()
    harness.journal.deleted(9)
    harness.journal.mark(5, 3, harness.marked)
    harness.journal.settle(5, 1, 1)
    harness.journal.publish(chunk_of([b"a"]), 5, 4)
    harness.end_turn()
    assert [record[0] for record in harness.log.records] == ["publish", "settle", "mark", "deleted"]
    assert harness.log.flushes == 1


def test_settlements_of_a_queue_are_joined_in_one_record() -> None:
    harness = Harness()
    for first, count in ((4, 1), (5, 2), (9, 1), (1, 2), (3, 1)):
        harness.journal.settle(5, first, count)
    harness.journal.settle(6, 7, 1)
    harness.end_turn()
    assert harness.log.take() == [
        ("settle", 5, [(4, 3), (9, 1), (1, 3)]),
        ("settle", 6, [(7, 1)]),
    ]


def test_only_the_last_mark_of_a_turn_is_written() -> None:
    harness = Harness()
    harness.journal.mark(5, 3, harness.marked)
    harness.journal.mark(5, 8, harness.marked)
    harness.end_turn()
    assert harness.log.take() == [("mark", 5, 8)]


def test_a_turn_without_anything_to_write_wakes_no_disk() -> None:
    harness = Harness()
    harness.end_turn()
    harness.end_turn()
    assert harness.log.flushes == 0


def test_what_a_log_group_appended_is_handed_over_too() -> None:
    harness = Harness()
    harness.log.put(b"entry", 0)
    harness.end_turn()
    assert harness.log.flushes == 1


def test_a_publish_that_is_settled_before_it_was_written_is_not_written() -> None:
    harness = Harness()
    store = Store(harness.budget)
    chunk = chunk_of([b"a", b"b"])
    store.add(1, chunk, 0, 2, True)
    harness.journal.publish(chunk, 5, 1)
    harness.confirm(2, 2)
    harness.journal.settle(5, 1, 2)
    harness.journal.release(chunk, 2)
    store.release(1, 2)
    lsn = harness.end_turn()
    assert [record[0] for record in harness.log.take()] == ["settle"]
    assert harness.log.live == {}
    harness.journal.on_durable(lsn)
    assert harness.sink.take() == [("confirms", 5, 2)]


def test_what_was_settled_before_the_rest_was_written_is_released_with_it() -> None:
    harness = Harness()
    chunk = chunk_of([b"aaa", b"bb", b"c"])
    harness.journal.publish(chunk, 5, 1)
    harness.journal.release(chunk, 3)
    harness.journal.release(chunk, 1)
    harness.end_turn()
    assert harness.log.live == {1: 2}
    harness.journal.release(chunk, 2)
    assert harness.log.live == {1: 0}


def test_a_confirm_with_nothing_left_to_write_does_not_wait_for_ever() -> None:
    harness = Harness()
    harness.journal.publish(chunk_of([b"a"]), 5, 1)
    harness.journal.on_durable(harness.end_turn())
    harness.confirm(2)
    harness.end_turn()
    assert harness.sink.take() == [("confirms", 5, 2)]


def test_a_deleted_queue_leaves_one_record_and_no_settlements() -> None:
    harness = Harness()
    harness.journal.settle(5, 1, 4)
    harness.journal.mark(5, 4, harness.marked)
    harness.journal.settle(6, 1, 1)
    harness.journal.deleted(5)
    harness.end_turn()
    assert harness.log.take() == [("settle", 6, [(1, 1)]), ("deleted", 5)]


def test_the_queue_is_charged_until_the_record_is_durable() -> None:
    harness = Harness()
    harness.journal.publish(chunk_of([b"a"] * 9), 5, 1)
    harness.confirm(9, 9)
    assert harness.queue.is_blocked()
    lsn = harness.end_turn()
    assert harness.queue.is_blocked()
    harness.journal.on_durable(lsn)
    assert not harness.queue.is_blocked()


def test_bodies_over_the_budget_leave_memory_once_they_are_durable() -> None:
    harness = Harness(budget_bytes=4)
    chunks = [chunk_of([b"aaaa"]), chunk_of([b"bbbb"])]
    store = Store(harness.budget)
    for place, chunk in enumerate(chunks):
        store.add(1 + place, chunk, 0, 1, True)
        harness.journal.publish(chunk, 5, 1 + place)
        harness.confirm(1 + place)
    lsn = harness.end_turn()
    assert [chunk.data for chunk in chunks] == [b"aaaa", b"bbbb"]
    harness.journal.on_durable(lsn)
    assert [chunk.data for chunk in chunks] == [None, b"bbbb"]
    assert all(chunk.durable for chunk in chunks)
    assert harness.budget.used_bytes == 4


def test_a_host_hears_of_its_mark_when_it_is_durable_even_if_nothing_else_waits() -> None:
    harness = Harness()
    harness.journal.mark(5, 3, harness.marked)
    lsn = harness.end_turn()
    harness.journal.on_durable(lsn - 1)
    assert harness.marked.told == []
    harness.journal.on_durable(lsn)
    assert harness.marked.told == [3]


class Entries:
    """A proposer that appends one entry when it is its turn (`queues.hosts.journal.Proposer`)."""

    def __init__(self, log: FakeLog, index: int) -> None:
        self._log = log
        self._index = index

    def propose(self) -> None:
        self._log.append_entry(7, self._index, [b""])


def test_entries_come_behind_the_messages_of_their_turn_and_before_settlements() -> None:
    harness = Harness()
    harness.journal.settle(6, 1, 1)
    harness.journal.entry(Entries(harness.log, 1))
    harness.journal.entry(Entries(harness.log, 2))
    harness.journal.publish(chunk_of([b"a"]), 5, 1)
    harness.end_turn()
    kinds = [record[0] for record in harness.log.take()]
    assert kinds == ["publish", "entry", "entry", "settle"]
    harness.end_turn()
    assert harness.log.take() == []


def test_a_chunk_that_was_written_is_not_written_again() -> None:
    """Its second place would be that of the first, and be released for both."""
    harness = Harness()
    chunk = chunk_of([b"a"])
    harness.journal.publish(chunk, 5, 1)
    harness.end_turn()
    harness.journal.publish(chunk, 6, 1)
    with pytest.raises(AssertionError, match="one place"):
        harness.end_turn()


def test_a_lazy_chunk_leaves_memory_once_it_is_durable_although_there_is_room() -> None:
    harness = Harness()
    chunk = chunk_of([b"a"])
    chunk.lazy = True
    Store(harness.budget).add(1, chunk, 0, 1, True)
    harness.journal.publish(chunk, 5, 1)
    lsn = harness.end_turn()
    assert chunk.data == b"a"
    harness.journal.on_durable(lsn)
    assert chunk.data is None


def test_settlements_alone_wait_for_company() -> None:
    harness = Harness()
    asked: list[Callable[[], None]] = []
    harness.journal.settle_later = asked.append
    for seq in (1, 2):
        harness.journal.settle(5, seq, 1)
        harness.end_turn()
    assert (harness.log.flushes, len(asked)) == (0, 1)
    asked[0]()
    assert harness.log.flushes == 1
    harness.journal.settle(5, 3, 1)
    harness.end_turn()
    harness.journal.publish(chunk_of([b"a"]), 5, 4)
    harness.confirm(1)
    harness.end_turn()
    assert (harness.log.flushes, len(asked)) == (2, 2)
    asked[1]()  # All of it went with the publish.
    assert harness.log.flushes == 2


def test_what_a_log_group_appends_does_not_wait() -> None:
    harness = Harness()
    asked: list[Callable[[], None]] = []
    harness.journal.settle_later = asked.append
    harness.log.append_mark(9, 1)
    harness.end_turn()
    assert (harness.log.flushes, asked) == (1, [])


def test_who_waits_for_the_disk_is_called_when_what_was_there_is_durable() -> None:
    harness = Harness()
    told: list[str] = []
    harness.journal.write_now(chunk_of([b"a", b"b"]), 5, 7, 1000)
    harness.journal.when_durable(lambda: told.append("first"))
    lsn = harness.end_turn()
    assert harness.log.take() == [("publish", [(5, 7)], [b"a", b"b"])]
    harness.journal.on_durable(lsn - 1)
    assert told == []
    harness.journal.on_durable(lsn)
    assert told == ["first"]


def test_who_waits_for_what_was_durable_before_the_start_is_called_at_once() -> None:
    harness = Harness()
    harness.log.append_mark(5, 1)  # of an earlier life
    harness.log.durable_lsn = harness.log.appended_lsn
    told: list[str] = []
    harness.journal.when_durable(lambda: told.append("all"))
    harness.end_turn()
    assert told == ["all"]
