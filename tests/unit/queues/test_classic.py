"""The host of a classic queue over a fake log: confirms, settlements, bodies that move or leave
memory, recovery, deletion.
"""

import pytest

from queues.bodies.store import SPAN_SLOTS
from queues.hosts.body_reads import CROWDED_BYTES, READ_AHEAD_BYTES, UNSEEN_SLACK
from queues.hosts.classic import MARK_STRIDE, ClassicHost
from queues.machine.commands import (
    ACCEPT,
    REJECT,
    RELEASE,
    Credit,
    Detach,
    EndSession,
    Get,
    Inspect,
    Purge,
    consumer_key,
)
from queues.message import Chunk
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import body_of, chunk_of, table


def test_a_persistent_message_in_a_durable_queue_is_confirmed_after_the_sync() -> None:
    harness = Harness()
    harness.publish([b"a", b"b"])
    assert harness.turn() == []
    assert harness.node.log.take() == [("publish", [(5, 1)], [b"a", b"b"])]
    assert harness.sync() == [("confirms", 5, 2)]


@pytest.mark.parametrize(("durable", "persistent"), [(True, False), (False, True), (False, False)])
def test_other_messages_are_confirmed_as_soon_as_they_are_in_the_queue(
    durable: bool, persistent: bool
) -> None:
    harness = Harness(durable=durable)
    harness.publish([b"a"], persistent)
    assert harness.turn() == [("confirms", 5, 1)]
    harness.attach(1, 1)
    harness.turn()
    harness.settle(1, ACCEPT, [(1, 1)])
    harness.turn()
    assert harness.node.log.take() == []


def test_the_confirm_of_a_transient_message_does_not_overtake_that_of_a_persistent_one() -> None:
    """Confirms go up to a number: the later one would confirm what is not synced yet."""
    harness = Harness()
    harness.publish([b"persistent"])
    harness.publish([b"transient"], persistent=False)
    assert harness.turn() == []
    harness.publish([b"transient too"], persistent=False)
    assert harness.turn() == []
    assert harness.sync() == [("confirms", 5, 1), ("confirms", 5, 2), ("confirms", 5, 3)]
    harness.publish([b"later"], persistent=False)
    assert harness.turn() == [("confirms", 5, 4)]
    other = FakeSink(2)
    harness.publish([b"persistent"])
    harness.host.publish(other, chunk_of([b"of another"], persistent=False), 1)
    assert harness.turn() == []
    assert other.take() == [("confirms", 5, 1)]


def test_a_message_is_delivered_in_the_turn_of_its_publish() -> None:
    harness = Harness()
    harness.attach(1, 10)
    harness.publish([b"a", b"b"])
    assert harness.turn() == [("attached", 5, 1), ("delivers", 5, 1, 1, 1, 2, False)]
    assert harness.body(2) == b"b"
    assert harness.sync() == [("confirms", 5, 2)]


def test_a_settlement_in_the_turn_of_the_publish_cancels_both() -> None:
    harness = Harness()
    harness.publish([b"a", b"b"])
    harness.attach(1, 10)
    harness.host.step(1000)
    harness.settle(1, ACCEPT, [(1, 2)])
    harness.turn()
    assert "publish" not in [record[0] for record in harness.node.log.take()]
    assert harness.sync() == [("confirms", 5, 2)]
    assert harness.node.log.live == {}


def test_accepted_and_rejected_messages_are_settled_in_the_log_and_released_ones_are_not() -> None:
    harness = Harness()
    harness.publish([b"a", b"bb", b"ccc", b"dddd"])
    harness.attach(1, 4)
    harness.turn()
    harness.node.log.take()
    harness.settle(1, ACCEPT, [(1, 1)])
    harness.settle(1, REJECT, [(3, 1)])
    harness.settle(1, RELEASE, [(2, 1)])
    assert harness.turn() == [("delivers", 5, 1, 5, 2, 1, True)]
    assert harness.node.log.take() == [("settle", 5, [(1, 1), (3, 1)])]
    assert harness.node.log.live == {1: len(b"bbdddd")}
    assert harness.host.core.redelivered_count == 1


def test_transient_messages_among_persistent_ones_are_not_settled_in_the_log() -> None:
    harness = Harness()
    harness.publish([b"a"], persistent=False)
    harness.publish([b"b"])
    harness.publish([b"c"], persistent=False)
    harness.attach(1, 4)
    harness.turn()
    harness.node.log.take()
    assert harness.host.core.journaled_from(1)[0] == [(2, 1)]
    harness.settle(1, ACCEPT, [(1, 3)])
    harness.turn()
    assert harness.node.log.take() == [("settle", 5, [(2, 1)])]
    assert harness.host.core.journaled_from(1)[0] == []


def test_get_purge_inspect_and_consumer_answers_reach_the_session() -> None:
    harness = Harness()
    session = harness.sink.session
    harness.publish([b"a", b"b", b"c"])
    harness.host.command(harness.sink, Get(session))
    harness.host.command(harness.sink, Inspect(session))
    harness.host.command(harness.sink, Purge(session))
    harness.host.command(harness.sink, Get(session))
    assert harness.turn() == [
        ("got", 5, 1, False, 2),
        ("inspected", 5, 2, 0),
        ("purged", 5, 2),
        ("got", 5, 0, False, 0),
    ]
    harness.attach(1, 3, exclusive=True)
    harness.attach(2, 3)
    key = consumer_key(session, 1)
    harness.host.command(harness.sink, Credit(key, 0, 3, True, False))
    harness.host.command(harness.sink, Detach(key))
    assert harness.turn() == [
        ("attached", 5, 1),
        ("attach refused", 5, 2),
        ("drained", 5, 1, 3),
        ("detached", 5, 1, False),
    ]


def test_a_purge_settles_what_was_ready_in_the_log() -> None:
    harness = Harness()
    harness.publish([b"a", b"bb", b"ccc"])
    harness.host.command(harness.sink, Get(harness.sink.session))
    harness.turn()
    harness.node.log.take()
    harness.host.command(harness.sink, Purge(harness.sink.session))
    harness.turn()
    assert harness.node.log.take() == [("settle", 5, [(2, 2)])]
    assert harness.node.log.live == {1: 1}


def test_an_ended_session_hears_nothing_more_but_its_confirms() -> None:
    harness = Harness()
    harness.attach(1, 1)
    harness.publish([b"a", b"b"])
    harness.host.command(harness.sink, EndSession(harness.sink.session))
    told = [each[0] for each in harness.turn()]
    assert told == ["attached"]
    assert harness.host.ready_count == 2
    assert harness.sync() == [("confirms", 5, 2)]
    other = FakeSink(2)
    harness.host.command(other, Get(other.session))
    harness.node.turn()
    assert other.take() == [("got", 5, 1, False, 1)]


def test_an_ended_session_is_forgotten() -> None:
    harness = Harness()
    harness.publish([b"a"])
    harness.host.command(harness.sink, EndSession(harness.sink.session))
    harness.turn()
    harness.host.delete()
    assert harness.sink.take() == []


def test_the_last_consumer_of_an_auto_delete_queue_has_it_deleted() -> None:
    for auto_delete in (False, True):
        harness = Harness(auto_delete=auto_delete)
        harness.attach(1, 1)
        harness.attach(2, 1)
        harness.host.command(harness.sink, Detach(consumer_key(harness.sink.session, 1)))
        harness.turn()
        assert harness.node.unused == []
        harness.host.command(harness.sink, Detach(consumer_key(harness.sink.session, 2)))
        assert harness.turn() == [("detached", 5, 2, auto_delete)]
        assert harness.node.unused == [5] * auto_delete


def test_a_session_is_charged_until_the_queue_has_taken_its_messages() -> None:
    harness = Harness()
    harness.publish([b"a"] * 400)
    assert harness.sink.credit.is_blocked()
    harness.turn()
    assert not harness.sink.credit.is_blocked()


# Bodies


def test_bodies_over_the_budget_are_read_back_when_they_are_wanted() -> None:
    harness = Harness(budget_bytes=0)
    harness.publish([b"one", b"two"])
    harness.publish([b"three"])
    harness.turn()
    harness.sync()
    assert harness.node.budget.used_bytes == 0
    harness.attach(1, 3)
    harness.turn()
    assert harness.host.view(harness.sink, 1, 3) is None
    assert [chunk.count() for _, chunk in harness.node.loads] == [2, 1]
    assert harness.host.view(harness.sink, 2, 2) is None
    assert len(harness.node.loads) == 2
    harness.node.answer_loads()
    assert harness.sink.take()[0] == ("loaded", 5)
    assert harness.bodies() == {1: b"one", 2: b"two", 3: b"three"}
    harness.settle(1, ACCEPT, [(1, 3)])
    harness.turn()
    assert harness.node.budget.used_bytes == 0


def test_reading_ahead_leaves_out_what_is_dead() -> None:
    """The file of a dead message may be gone, and then the read would fail for all readers."""
    harness = Harness(budget_bytes=0)
    for body in (b"one", b"two", b"three"):
        harness.publish([body])
    harness.attach(1, 3)
    harness.turn()
    harness.sync()
    harness.settle(1, ACCEPT, [(2, 1)])
    harness.turn()
    assert harness.host.view(harness.sink, 1, 1) is None
    assert [chunk.count() for _, chunk in harness.node.loads] == [1, 1]
    harness.node.answer_loads()
    assert harness.bodies() == {1: b"one", 3: b"three"}


def backlog(count: int, byte_count: int) -> Harness:
    """Messages that have left memory, all of them delivered."""
    harness = Harness(budget_bytes=0)
    for _ in range(count):
        harness.publish([bytes(byte_count)])
    harness.attach(1, count)
    harness.turn()
    harness.sync()
    assert harness.node.budget.used_bytes == 0
    return harness


def test_a_backlog_that_is_read_in_order_is_missed_once() -> None:
    """More is asked for when half of what was read ahead was looked at, and never too much: the
    answer may come four messages later."""
    size = 100_000
    harness = backlog(100, size)
    misses = 0
    for seq in range(1, 101):
        if harness.host.view(harness.sink, seq, 1) is None:
            misses += 1
            harness.node.answer_loads()
            assert harness.host.view(harness.sink, seq, 1) is not None
        if seq % 4 == 0:
            harness.node.answer_loads()
        assert harness.node.budget.used_bytes <= READ_AHEAD_BYTES + 2 * size
    assert misses == 1


def test_nobody_reads_ahead_where_too_many_do() -> None:
    harness = backlog(50, 100_000)
    harness.node.budget.used_bytes += CROWDED_BYTES + 1
    for seq in range(1, 51):
        assert harness.host.view(harness.sink, seq, 1) is None
        assert [chunk.count() for _, chunk in harness.node.loads] == [1]
        harness.node.answer_loads()
        assert harness.host.view(harness.sink, seq, 1) is not None
    harness.node.budget.used_bytes -= CROWDED_BYTES + 1
    assert harness.node.budget.used_bytes == 100_000


def test_what_is_looked_at_once_more_reads_nothing_ahead() -> None:
    harness = backlog(50, 100_000)
    assert harness.host.view(harness.sink, 1, 1) is None
    harness.node.answer_loads()
    harness.node.budget.limit_bytes = 1 << 30
    for seq in (1, 2) * 20:
        assert harness.host.view(harness.sink, seq, 1) is not None
    assert harness.node.loads == []


def test_reading_on_is_given_up_where_the_next_message_is_gone() -> None:
    harness = backlog(30, 100_000)
    assert harness.host.view(harness.sink, 1, 1) is None
    asked = len(harness.node.loads)
    harness.node.answer_loads()
    harness.settle(1, ACCEPT, [(asked + 1, 3)])
    harness.turn()
    for seq in (*range(1, asked + 1), *range(asked + 4, 31)):
        harness.body(seq)
        harness.node.answer_loads()


def test_a_body_that_a_transient_queue_shares_stays_in_memory() -> None:
    """That queue has no claim on the file, which goes when the durable queue has settled."""
    harness = Harness(budget_bytes=0)
    transient = harness.node.queue(6, durable=False)
    chunk = harness.publish([b"shared"])
    transient.publish(harness.sink, chunk, 1)
    harness.host.command(harness.sink, Get(harness.sink.session))
    harness.turn()
    harness.sync()
    harness.settle(0, ACCEPT, [(1, 1)])
    harness.turn()
    assert harness.node.log.live == {1: 0}
    view = transient.view(harness.sink, 1, 1)
    assert view is not None
    assert body_of(view.chunk, view.index) == b"shared"


def test_queues_that_wait_for_a_body_that_they_share_are_both_told() -> None:
    harness = Harness(budget_bytes=0)
    other = harness.node.queue(6)
    chunk = harness.publish([b"shared"])
    other.publish(harness.sink, chunk, 1)
    harness.turn()
    harness.sync()
    assert harness.host.view(harness.sink, 1, 1) is None
    assert other.view(harness.sink, 1, 1) is None
    harness.node.answer_loads()
    assert harness.sink.take() == [("loaded", 5), ("loaded", 6)]
    assert harness.node.budget.used_bytes == len(b"shared")


def test_bodies_that_come_when_nobody_needs_them_any_more_take_no_memory() -> None:
    harness = Harness(budget_bytes=0)
    harness.publish([b"one"])
    harness.turn()
    harness.sync()
    harness.host.command(harness.sink, Get(harness.sink.session))
    harness.turn()
    assert harness.host.view(harness.sink, 1, 1) is None
    harness.settle(0, ACCEPT, [(1, 1)])
    harness.turn()
    harness.node.answer_loads()
    assert harness.node.budget.used_bytes == 0


def test_a_body_that_cannot_be_read_is_reported_to_who_waits_for_it() -> None:
    harness = Harness(budget_bytes=0)
    harness.publish([b"one"])
    harness.turn()
    harness.sync()
    harness.host.command(harness.sink, Get(harness.sink.session))
    harness.turn()
    assert harness.host.view(harness.sink, 1, 1) is None
    for host, chunk in harness.node.loads:
        host.load_failed(chunk)
    assert harness.sink.take() == [("unreadable", 5)]
    harness.publish([b"two"])  # The queue lives on, and so do the numbers of its sessions.
    harness.turn()
    assert harness.host.ready_count == 1


def test_a_view_ends_where_the_chunk_ends() -> None:
    harness = Harness()
    harness.publish([b"a", b"b", b"c"])
    harness.publish([b"d"])
    harness.attach(1, 4)
    harness.turn()
    view = harness.host.view(harness.sink, 2, 3)
    assert view is not None
    assert (view.first, view.count, view.index) == (2, 2, 1)


# Relocation: a compaction copies what is alive


def compact(
    harness: Harness, first: int, count: int, die: list[tuple[int, int]] | None = None
) -> None:
    """Copy messages first.. to the next file; `die` are settled between the copy and the news."""
    before = harness.bodies()
    bodies = [before[seq] for seq in range(first, first + count)]
    harness.node.log.active += 1
    place = harness.node.log.put(b"".join(bodies), 0)
    if die:
        harness.settle(1, ACCEPT, die)
        harness.turn()
    old_file, _ = harness.place_of(first)
    for run_first, run_count in harness.relocate(first, count, place, table(bodies, 31)):
        alive = bodies[run_first - first : run_first - first + run_count]
        harness.node.log.live[old_file] -= sum(map(len, alive))
        harness.node.log.live[place.file_id] += sum(map(len, alive))


@pytest.mark.parametrize("budget_bytes", [0, 1 << 30])
def test_messages_that_were_copied_are_found_and_released_where_they_are(budget_bytes: int) -> None:
    harness = Harness(budget_bytes)
    bodies = [b"%d" % 10**place for place in range(8)]
    harness.publish(bodies)
    harness.attach(1, 8)
    harness.turn()
    harness.sync()
    expected = {place + 1: body for place, body in enumerate(bodies)}
    harness.settle(1, ACCEPT, [(4, 1)])
    harness.turn()
    del expected[4]
    compact(harness, 5, 3, die=[(6, 1)])
    del expected[6]
    assert harness.bodies() == expected
    compact(harness, 1, 3)
    assert harness.bodies() == expected
    harness.settle(1, ACCEPT, [(1, 1), (2, 6)])
    harness.turn()
    assert harness.node.log.live == {1: len(expected[8]), 2: 0, 3: 0}
    assert harness.bodies() == {8: expected[8]}
    assert harness.host.core.journaled_from(1)[0] == [(8, 1)]
    harness.settle(1, ACCEPT, [(8, 1)])
    harness.turn()
    assert harness.node.log.live == {1: 0, 2: 0, 3: 0}
    assert harness.node.budget.used_bytes == 0


def test_news_of_copied_messages_that_are_all_dead_change_nothing() -> None:
    harness = Harness()
    harness.publish([b"a", b"b", b"c"])
    harness.attach(1, 3)
    harness.turn()
    compact(harness, 1, 2, die=[(1, 2)])
    assert harness.bodies() == {3: b"c"}
    compact(harness, 3, 1, die=[(3, 1)])
    assert harness.bodies() == {}
    assert harness.node.log.live == {1: 0, 2: 0, 3: 0}


def test_messages_that_are_in_another_place_than_what_was_copied_stay_there() -> None:
    """A member of a group that joined again has them from there; its older copies are dead."""
    harness = Harness()
    harness.publish([b"one", b"two"])
    harness.turn()
    harness.sync()
    core, held = harness.host.core, harness.place_of(1)
    target = harness.node.log.put(b"onetwo", 0)
    place = (target.file_id, target.offset)
    for other in ((held[0] + 1, held[1]), (held[0], held[1] - 6), (held[0], held[1] + 3)):
        assert core.relocated(1, 2, other, place, table([b"one", b"two"], 0)) == []
    assert harness.place_of(1) == held
    assert core.live_in(1, 9, held[0]) == [(1, 2)]
    assert core.live_in(1, 9, held[0] + 1) == []


def test_a_body_that_is_being_read_when_it_moves_is_read_from_the_new_place() -> None:
    harness = Harness(budget_bytes=0)
    harness.publish([b"one", b"two"])
    harness.attach(1, 2)
    harness.turn()
    harness.sync()
    assert harness.host.view(harness.sink, 1, 2) is None
    place = harness.node.log.put(b"two", 0)
    harness.relocate(2, 1, place, table([b"two"], 0))
    harness.node.answer_loads()
    assert harness.bodies() == {1: b"one", 2: b"two"}


def test_queues_that_share_a_chunk_move_one_by_one() -> None:
    harness = Harness()
    other = harness.node.queue(6)
    chunk = harness.publish([b"one", b"two"])
    other.publish(harness.sink, chunk, 1)
    harness.turn()
    compact(harness, 1, 2)
    assert harness.bodies() == {1: b"one", 2: b"two"}
    view = other.view(harness.sink, 1, 2)
    assert view is not None
    assert body_of(view.chunk, view.index) == b"one"
    assert view.chunk is chunk


# Marks and recovery


def test_a_new_durable_queue_says_that_nothing_was_delivered() -> None:
    harness = Harness()
    harness.host.begin()
    harness.turn()
    assert harness.node.log.take() == [("mark", 5, 0)]
    harness = Harness(durable=False)
    harness.host.begin()
    harness.host.end_cleanly()
    harness.turn()
    assert harness.node.log.take() == []


def test_marks_are_written_as_deliveries_go_on_and_exactly_at_the_end() -> None:
    harness = Harness()
    harness.attach(1, 3 * MARK_STRIDE)
    for _ in range(3):
        harness.publish([b"a"] * (MARK_STRIDE - 1))
        harness.turn()
    marks = [record for record in harness.node.log.take() if record[0] == "mark"]
    assert marks == [("mark", 5, 2 * (MARK_STRIDE - 1))]
    harness.host.end_cleanly()
    harness.turn()
    assert harness.node.log.take() == [("mark", 5, 3 * (MARK_STRIDE - 1))]


def test_what_lies_above_the_durable_mark_waits_until_the_log_knows_of_it() -> None:
    harness = Harness()
    harness.publish([b"a"] * 10_000)
    harness.attach(1, 10_000)
    harness.turn()
    view = harness.host.view(harness.sink, UNSEEN_SLACK - 1, 100)
    assert view is not None
    assert view.count == 2  # up to the slack and no further
    assert harness.host.view(harness.sink, UNSEEN_SLACK + 1, 1) is None
    harness.sink.take()
    assert ("loaded", 5) in harness.sync()
    assert harness.host.view(harness.sink, 10_000, 1) is not None


def test_transient_messages_wait_for_no_mark() -> None:
    harness = Harness()
    harness.publish([b"a"] * 10_000, persistent=False)
    harness.attach(1, 10_000)
    harness.turn()
    assert harness.host.view(harness.sink, 10_000, 1) is not None


def recovered(mark: int, redelivered_upto: int) -> Harness:
    """A queue of which the log knows two records with holes: 3, 4 and 6 of one, 9 of the other."""
    harness = Harness()
    bodies = [b"%d" % seq for seq in range(2, 8)]
    for first, runs, each in ((2, [(3, 2), (6, 1)], bodies), (9, [(9, 1)], [b"9"])):
        place = harness.node.log.put(b"".join(each), sum(count for _, count in runs))
        chunk = Chunk(1, None, 0, table(each, 50), 1)
        chunk.file_id = place.file_id
        chunk.file_offset = place.offset
        chunk.durable = True
        harness.host.core.recover(chunk, first, runs, b"", 0)
    harness.host.recovered(11, mark, redelivered_upto)
    return harness


def test_recovered_messages_are_ready_in_order_with_their_bytes() -> None:
    harness = recovered(0, 4)
    assert harness.host.ready_count == 4
    assert harness.host.core.journaled_from(1)[0] == [(3, 2), (6, 1), (9, 1)]
    harness.attach(1, 10)
    harness.publish([b"new"])
    assert harness.turn() == [
        ("attached", 5, 1),
        ("delivers", 5, 1, 1, 3, 2, True),
        ("delivers", 5, 1, 3, 6, 1, False),
        ("delivers", 5, 1, 4, 9, 1, False),
        ("delivers", 5, 1, 5, 12, 1, False),
    ]
    assert harness.bodies() == {3: b"3", 4: b"4", 6: b"6", 9: b"9", 12: b"new"}
    harness.settle(1, ACCEPT, [(3, 7)])
    harness.turn()
    assert harness.node.log.live == {1: len(b"new")}


def test_after_a_recovery_the_mark_is_never_lower_than_what_was_delivered_before() -> None:
    harness = recovered(3, 7)
    assert harness.host.core.machine.delivered_high == 7
    harness.host.end_cleanly()
    harness.turn()
    assert harness.node.log.take() == [("mark", 5, 7)]


def test_after_a_recovery_marks_go_on_from_the_one_that_is_in_the_log() -> None:
    """The slack above the mark belongs to the process that is gone; this one starts again."""
    harness = Harness()
    harness.host.recovered(10_000, 0, 4_096)
    harness.attach(1, 1)
    harness.turn()
    assert harness.node.log.take() == [("mark", 5, 4_096)]


# Deletion


def test_a_deleted_queue_frees_everything_and_tells_its_sessions() -> None:
    harness = Harness()
    harness.publish([b"a", b"b"])
    harness.publish([b"c"], persistent=False)
    harness.attach(1, 1)
    harness.turn()
    harness.node.log.take()
    harness.publish([b"never stepped"])
    assert harness.host.delete() == 2
    assert harness.sink.take() == [("gone", 5)]
    harness.turn()
    assert harness.node.log.take() == [("deleted", 5)]
    assert harness.node.log.live == {1: 0}
    assert harness.node.budget.used_bytes == 0
    assert not harness.sink.credit.is_blocked()
    assert harness.sink.credit.credit_towards(harness.host.core.credit) == 400


def test_a_long_queue_that_is_deleted_says_so_while_it_frees_what_it_had() -> None:
    harness = Harness()
    for number in range(SPAN_SLOTS + 1):
        harness.publish([b"%d" % number])
        harness.turn()
    harness.host.delete()
    log = harness.node.log
    assert (log.freeing, log.live[1] > 0) == (1, True)
    harness.turn()
    assert (log.freeing, log.live[1]) == (0, 0)


def test_a_queue_deleted_in_the_turn_of_a_publish_leaves_the_others_their_copy() -> None:
    harness = Harness()
    other = harness.node.queue(6)
    chunk = harness.publish([b"a", b"bb"])
    other.publish(harness.sink, chunk, 1)
    harness.host.step(1000)
    other.step(1000)
    harness.host.delete()
    harness.turn()
    written = harness.node.log.take()
    assert [record[0] for record in written] == ["publish", "deleted"]
    assert harness.node.log.live == {1: 3}
    assert ("confirms", 6, 2) in harness.sync()
    assert live(other) == [(1, 2)]


def live(host: ClassicHost) -> list[tuple[int, int]]:
    return host.core.live_ranges(1, 100)


def test_a_session_that_ends_during_a_long_purge_hears_nothing_of_it() -> None:
    harness = Harness()
    for _ in range(3):
        harness.publish([b"a"] * 4000)
    harness.turn()
    session = harness.sink.session
    harness.host.command(harness.sink, Purge(session))
    harness.host.command(harness.sink, EndSession(session))
    told = harness.turn()
    while harness.host.core.machine.has_more():
        told += harness.turn()
    assert "purged" not in [each[0] for each in told]
    assert harness.host.core.live_ranges(1, 12_000) == []


def test_only_what_was_accepted_counts_as_acknowledged() -> None:
    harness = Harness()
    harness.attach(1, 2)
    harness.publish([b"a", b"b", b"c", b"d"])
    harness.turn()
    harness.settle(1, ACCEPT, [(1, 1)])
    harness.settle(1, REJECT, [(2, 1)])
    harness.host.command(harness.sink, Purge(harness.sink.session))
    harness.turn()
    assert (harness.host.core.accepted_count, harness.host.ready_count) == (1, 0)
