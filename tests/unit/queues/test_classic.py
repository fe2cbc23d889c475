"""The host of a classic queue over a fake log: confirms, settlements, bodies that move or leave
memory, recovery, deletion.
"""

import pytest

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
from tests.unit.queues.classic_desk import Desk
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import body_of, chunk_of, table


def test_a_persistent_message_in_a_durable_queue_is_confirmed_after_the_sync() -> None:
    desk = Desk()
    desk.publish([b"a", b"b"])
    assert desk.turn() == []
    assert desk.node.log.take() == [("publish", [(5, 1)], [b"a", b"b"])]
    assert desk.sync() == [("confirms", 5, 2)]


@pytest.mark.parametrize(("durable", "persistent"), [(True, False), (False, True), (False, False)])
def test_other_messages_are_confirmed_as_soon_as_they_are_in_the_queue(
    durable: bool, persistent: bool
) -> None:
    desk = Desk(durable=durable)
    desk.publish([b"a"], persistent)
    assert desk.turn() == [("confirms", 5, 1)]
    desk.attach(1, 1)
    desk.turn()
    desk.settle(1, ACCEPT, [(1, 1)])
    desk.turn()
    assert desk.node.log.take() == []


def test_the_confirm_of_a_transient_message_does_not_overtake_that_of_a_persistent_one() -> None:
    """Confirms go up to a number: the later one would confirm what is not synced yet."""
    desk = Desk()
    desk.publish([b"persistent"])
    desk.publish([b"transient"], persistent=False)
    assert desk.turn() == []
    desk.publish([b"transient too"], persistent=False)
    assert desk.turn() == []
    assert desk.sync() == [("confirms", 5, 1), ("confirms", 5, 2), ("confirms", 5, 3)]
    desk.publish([b"later"], persistent=False)
    assert desk.turn() == [("confirms", 5, 4)]
    other = FakeSink(2)
    desk.publish([b"persistent"])
    desk.host.publish(other, chunk_of([b"of another"], persistent=False), 1)
    assert desk.turn() == []
    assert other.take() == [("confirms", 5, 1)]


def test_a_message_is_delivered_in_the_turn_of_its_publish() -> None:
    desk = Desk()
    desk.attach(1, 10)
    desk.publish([b"a", b"b"])
    assert desk.turn() == [("attached", 5, 1), ("delivers", 5, 1, 1, 1, 2, False)]
    assert desk.body(2) == b"b"
    assert desk.sync() == [("confirms", 5, 2)]


def test_a_settlement_in_the_turn_of_the_publish_cancels_both() -> None:
    desk = Desk()
    desk.publish([b"a", b"b"])
    desk.attach(1, 10)
    desk.host.step(1000)
    desk.settle(1, ACCEPT, [(1, 2)])
    desk.turn()
    assert "publish" not in [record[0] for record in desk.node.log.take()]
    assert desk.sync() == [("confirms", 5, 2)]
    assert desk.node.log.live == {}


def test_accepted_and_rejected_messages_are_settled_in_the_log_and_released_ones_are_not() -> None:
    desk = Desk()
    desk.publish([b"a", b"bb", b"ccc", b"dddd"])
    desk.attach(1, 4)
    desk.turn()
    desk.node.log.take()
    desk.settle(1, ACCEPT, [(1, 1)])
    desk.settle(1, REJECT, [(3, 1)])
    desk.settle(1, RELEASE, [(2, 1)])
    assert desk.turn() == [("delivers", 5, 1, 5, 2, 1, True)]
    assert desk.node.log.take() == [("settle", 5, [(1, 1), (3, 1)])]
    assert desk.node.log.live == {1: len(b"bbdddd")}
    assert desk.host.core.redelivered_count == 1


def test_transient_messages_among_persistent_ones_are_not_settled_in_the_log() -> None:
    desk = Desk()
    desk.publish([b"a"], persistent=False)
    desk.publish([b"b"])
    desk.publish([b"c"], persistent=False)
    desk.attach(1, 4)
    desk.turn()
    desk.node.log.take()
    assert desk.host.core.journaled_from(1)[0] == [(2, 1)]
    desk.settle(1, ACCEPT, [(1, 3)])
    desk.turn()
    assert desk.node.log.take() == [("settle", 5, [(2, 1)])]
    assert desk.host.core.journaled_from(1)[0] == []


def test_get_purge_inspect_and_consumer_answers_reach_the_session() -> None:
    desk = Desk()
    session = desk.sink.session
    desk.publish([b"a", b"b", b"c"])
    desk.host.command(desk.sink, Get(session))
    desk.host.command(desk.sink, Inspect(session))
    desk.host.command(desk.sink, Purge(session))
    desk.host.command(desk.sink, Get(session))
    assert desk.turn() == [
        ("got", 5, 1, False, 2),
        ("inspected", 5, 2, 0),
        ("purged", 5, 2),
        ("got", 5, 0, False, 0),
    ]
    desk.attach(1, 3, exclusive=True)
    desk.attach(2, 3)
    key = consumer_key(session, 1)
    desk.host.command(desk.sink, Credit(key, 0, 3, True, False))
    desk.host.command(desk.sink, Detach(key))
    assert desk.turn() == [
        ("attached", 5, 1),
        ("attach refused", 5, 2),
        ("drained", 5, 1, 3),
        ("detached", 5, 1, False),
    ]


def test_a_purge_settles_what_was_ready_in_the_log() -> None:
    desk = Desk()
    desk.publish([b"a", b"bb", b"ccc"])
    desk.host.command(desk.sink, Get(desk.sink.session))
    desk.turn()
    desk.node.log.take()
    desk.host.command(desk.sink, Purge(desk.sink.session))
    desk.turn()
    assert desk.node.log.take() == [("settle", 5, [(2, 2)])]
    assert desk.node.log.live == {1: 1}


def test_an_ended_session_hears_nothing_more_but_its_confirms() -> None:
    desk = Desk()
    desk.attach(1, 1)
    desk.publish([b"a", b"b"])
    desk.host.command(desk.sink, EndSession(desk.sink.session))
    told = [each[0] for each in desk.turn()]
    assert told == ["attached"]
    assert desk.host.ready_count == 2
    assert desk.sync() == [("confirms", 5, 2)]
    other = FakeSink(2)
    desk.host.command(other, Get(other.session))
    desk.node.turn()
    assert other.take() == [("got", 5, 1, False, 1)]


def test_an_ended_session_is_forgotten() -> None:
    desk = Desk()
    desk.publish([b"a"])
    desk.host.command(desk.sink, EndSession(desk.sink.session))
    desk.turn()
    desk.host.delete()
    assert desk.sink.take() == []


def test_the_last_consumer_of_an_auto_delete_queue_has_it_deleted() -> None:
    for auto_delete in (False, True):
        desk = Desk(auto_delete=auto_delete)
        desk.attach(1, 1)
        desk.attach(2, 1)
        desk.host.command(desk.sink, Detach(consumer_key(desk.sink.session, 1)))
        desk.turn()
        assert desk.node.unused == []
        desk.host.command(desk.sink, Detach(consumer_key(desk.sink.session, 2)))
        assert desk.turn() == [("detached", 5, 2, auto_delete)]
        assert desk.node.unused == [5] * auto_delete


def test_a_session_is_charged_until_the_queue_has_taken_its_messages() -> None:
    desk = Desk()
    desk.publish([b"a"] * 400)
    assert desk.sink.credit.is_blocked()
    desk.turn()
    assert not desk.sink.credit.is_blocked()


# Bodies


def test_bodies_over_the_budget_are_read_back_when_they_are_wanted() -> None:
    desk = Desk(budget_bytes=0)
    desk.publish([b"one", b"two"])
    desk.publish([b"three"])
    desk.turn()
    desk.sync()
    assert desk.node.budget.used_bytes == 0
    desk.attach(1, 3)
    desk.turn()
    assert desk.host.view(desk.sink, 1, 3) is None
    assert [chunk.count() for _, chunk in desk.node.loads] == [2, 1]
    assert desk.host.view(desk.sink, 2, 2) is None
    assert len(desk.node.loads) == 2
    desk.node.answer_loads()
    assert desk.sink.take()[0] == ("loaded", 5)
    assert desk.bodies() == {1: b"one", 2: b"two", 3: b"three"}
    desk.settle(1, ACCEPT, [(1, 3)])
    desk.turn()
    assert desk.node.budget.used_bytes == 0


def test_reading_ahead_leaves_out_what_is_dead() -> None:
    """The file of a dead message may be gone, and then the read would fail for everybody."""
    desk = Desk(budget_bytes=0)
    for body in (b"one", b"two", b"three"):
        desk.publish([body])
    desk.attach(1, 3)
    desk.turn()
    desk.sync()
    desk.settle(1, ACCEPT, [(2, 1)])
    desk.turn()
    assert desk.host.view(desk.sink, 1, 1) is None
    assert [chunk.count() for _, chunk in desk.node.loads] == [1, 1]
    desk.node.answer_loads()
    assert desk.bodies() == {1: b"one", 3: b"three"}


def backlog(count: int, byte_count: int) -> Desk:
    """Messages that have left memory, all of them delivered."""
    desk = Desk(budget_bytes=0)
    for _ in range(count):
        desk.publish([bytes(byte_count)])
    desk.attach(1, count)
    desk.turn()
    desk.sync()
    assert desk.node.budget.used_bytes == 0
    return desk


def test_a_backlog_that_is_read_in_order_is_missed_once() -> None:
    """More is asked for when half of what was read ahead was looked at, and never too much: the
    answer may come four messages later."""
    size = 100_000
    desk = backlog(100, size)
    misses = 0
    for seq in range(1, 101):
        if desk.host.view(desk.sink, seq, 1) is None:
            misses += 1
            desk.node.answer_loads()
            assert desk.host.view(desk.sink, seq, 1) is not None
        if seq % 4 == 0:
            desk.node.answer_loads()
        assert desk.node.budget.used_bytes <= READ_AHEAD_BYTES + 2 * size
    assert misses == 1


def test_nobody_reads_ahead_where_too_many_do() -> None:
    desk = backlog(50, 100_000)
    desk.node.budget.used_bytes += CROWDED_BYTES + 1
    for seq in range(1, 51):
        assert desk.host.view(desk.sink, seq, 1) is None
        assert [chunk.count() for _, chunk in desk.node.loads] == [1]
        desk.node.answer_loads()
        assert desk.host.view(desk.sink, seq, 1) is not None
    desk.node.budget.used_bytes -= CROWDED_BYTES + 1
    assert desk.node.budget.used_bytes == 100_000


def test_what_is_looked_at_once_more_reads_nothing_ahead() -> None:
    desk = backlog(50, 100_000)
    assert desk.host.view(desk.sink, 1, 1) is None
    desk.node.answer_loads()
    desk.node.budget.limit_bytes = 1 << 30
    for seq in (1, 2) * 20:
        assert desk.host.view(desk.sink, seq, 1) is not None
    assert desk.node.loads == []


def test_reading_on_is_given_up_where_the_next_message_is_gone() -> None:
    desk = backlog(30, 100_000)
    assert desk.host.view(desk.sink, 1, 1) is None
    asked = len(desk.node.loads)
    desk.node.answer_loads()
    desk.settle(1, ACCEPT, [(asked + 1, 3)])
    desk.turn()
    for seq in (*range(1, asked + 1), *range(asked + 4, 31)):
        desk.body(seq)
        desk.node.answer_loads()


def test_a_body_that_a_transient_queue_shares_stays_in_memory() -> None:
    """That queue has no claim on the file, which goes when the durable queue has settled."""
    desk = Desk(budget_bytes=0)
    transient = desk.node.queue(6, durable=False)
    chunk = desk.publish([b"shared"])
    transient.publish(desk.sink, chunk, 1)
    desk.host.command(desk.sink, Get(desk.sink.session))
    desk.turn()
    desk.sync()
    desk.settle(0, ACCEPT, [(1, 1)])
    desk.turn()
    assert desk.node.log.live == {1: 0}
    view = transient.view(desk.sink, 1, 1)
    assert view is not None
    assert body_of(view.chunk, view.index) == b"shared"


def test_queues_that_wait_for_a_body_that_they_share_are_both_told() -> None:
    desk = Desk(budget_bytes=0)
    other = desk.node.queue(6)
    chunk = desk.publish([b"shared"])
    other.publish(desk.sink, chunk, 1)
    desk.turn()
    desk.sync()
    assert desk.host.view(desk.sink, 1, 1) is None
    assert other.view(desk.sink, 1, 1) is None
    desk.node.answer_loads()
    assert desk.sink.take() == [("loaded", 5), ("loaded", 6)]
    assert desk.node.budget.used_bytes == len(b"shared")


def test_bodies_that_come_when_nobody_needs_them_any_more_take_no_memory() -> None:
    desk = Desk(budget_bytes=0)
    desk.publish([b"one"])
    desk.turn()
    desk.sync()
    desk.host.command(desk.sink, Get(desk.sink.session))
    desk.turn()
    assert desk.host.view(desk.sink, 1, 1) is None
    desk.settle(0, ACCEPT, [(1, 1)])
    desk.turn()
    desk.node.answer_loads()
    assert desk.node.budget.used_bytes == 0


def test_a_body_that_cannot_be_read_is_reported_to_who_waits_for_it() -> None:
    desk = Desk(budget_bytes=0)
    desk.publish([b"one"])
    desk.turn()
    desk.sync()
    desk.host.command(desk.sink, Get(desk.sink.session))
    desk.turn()
    assert desk.host.view(desk.sink, 1, 1) is None
    for host, chunk in desk.node.loads:
        host.load_failed(chunk)
    assert desk.sink.take() == [("unreadable", 5)]
    desk.publish([b"two"])  # The queue lives on, and so do the numbers of its sessions.
    desk.turn()
    assert desk.host.ready_count == 1


def test_a_view_ends_where_the_chunk_ends() -> None:
    desk = Desk()
    desk.publish([b"a", b"b", b"c"])
    desk.publish([b"d"])
    desk.attach(1, 4)
    desk.turn()
    view = desk.host.view(desk.sink, 2, 3)
    assert view is not None
    assert (view.first, view.count, view.index) == (2, 2, 1)


# Relocation: a compaction copies what is alive


def compact(desk: Desk, first: int, count: int, die: list[tuple[int, int]] | None = None) -> None:
    """Copy messages first.. to the next file; `die` are settled between the copy and the news."""
    before = desk.bodies()
    bodies = [before[seq] for seq in range(first, first + count)]
    desk.node.log.active += 1
    place = desk.node.log.put(b"".join(bodies), 0)
    if die:
        desk.settle(1, ACCEPT, die)
        desk.turn()
    host = desk.host
    source = host.core.store.find_live(first)
    old_file = source.chunk.file_id if source is not None else place.file_id
    host.core.relocated(first, count, place.file_id, place.offset, table(bodies, 31))
    for run_first, run_count in host.core.live_ranges(first, count):
        alive = bodies[run_first - first : run_first - first + run_count]
        desk.node.log.live[old_file] -= sum(map(len, alive))
        desk.node.log.live[place.file_id] += sum(map(len, alive))


@pytest.mark.parametrize("budget_bytes", [0, 1 << 30])
def test_messages_that_were_copied_are_found_and_released_where_they_are(budget_bytes: int) -> None:
    desk = Desk(budget_bytes)
    bodies = [b"%d" % 10**place for place in range(8)]
    desk.publish(bodies)
    desk.attach(1, 8)
    desk.turn()
    desk.sync()
    expected = {place + 1: body for place, body in enumerate(bodies)}
    desk.settle(1, ACCEPT, [(4, 1)])
    desk.turn()
    del expected[4]
    compact(desk, 5, 3, die=[(6, 1)])
    del expected[6]
    assert desk.bodies() == expected
    compact(desk, 1, 3)
    assert desk.bodies() == expected
    desk.settle(1, ACCEPT, [(1, 1), (2, 6)])
    desk.turn()
    assert desk.node.log.live == {1: len(expected[8]), 2: 0, 3: 0}
    assert desk.bodies() == {8: expected[8]}
    assert desk.host.core.journaled_from(1)[0] == [(8, 1)]
    desk.settle(1, ACCEPT, [(8, 1)])
    desk.turn()
    assert desk.node.log.live == {1: 0, 2: 0, 3: 0}
    assert desk.node.budget.used_bytes == 0


def test_news_of_copied_messages_that_are_all_dead_change_nothing() -> None:
    desk = Desk()
    desk.publish([b"a", b"b", b"c"])
    desk.attach(1, 3)
    desk.turn()
    compact(desk, 1, 2, die=[(1, 2)])
    assert desk.bodies() == {3: b"c"}
    compact(desk, 3, 1, die=[(3, 1)])
    assert desk.bodies() == {}
    assert desk.node.log.live == {1: 0, 2: 0, 3: 0}


def test_a_body_that_is_being_read_when_it_moves_is_read_from_the_new_place() -> None:
    desk = Desk(budget_bytes=0)
    desk.publish([b"one", b"two"])
    desk.attach(1, 2)
    desk.turn()
    desk.sync()
    assert desk.host.view(desk.sink, 1, 2) is None
    place = desk.node.log.put(b"two", 0)
    desk.host.core.relocated(2, 1, place.file_id, place.offset, table([b"two"], 0))
    desk.node.answer_loads()
    assert desk.bodies() == {1: b"one", 2: b"two"}


def test_queues_that_share_a_chunk_move_one_by_one() -> None:
    desk = Desk()
    other = desk.node.queue(6)
    chunk = desk.publish([b"one", b"two"])
    other.publish(desk.sink, chunk, 1)
    desk.turn()
    compact(desk, 1, 2)
    assert desk.bodies() == {1: b"one", 2: b"two"}
    view = other.view(desk.sink, 1, 2)
    assert view is not None
    assert body_of(view.chunk, view.index) == b"one"
    assert view.chunk is chunk


# Marks and recovery


def test_a_new_durable_queue_says_that_nothing_was_delivered() -> None:
    desk = Desk()
    desk.host.begin()
    desk.turn()
    assert desk.node.log.take() == [("mark", 5, 0)]
    desk = Desk(durable=False)
    desk.host.begin()
    desk.host.end_cleanly()
    desk.turn()
    assert desk.node.log.take() == []


def test_marks_are_written_as_deliveries_go_on_and_exactly_at_the_end() -> None:
    desk = Desk()
    desk.attach(1, 3 * MARK_STRIDE)
    for _ in range(3):
        desk.publish([b"a"] * (MARK_STRIDE - 1))
        desk.turn()
    marks = [record for record in desk.node.log.take() if record[0] == "mark"]
    assert marks == [("mark", 5, 2 * (MARK_STRIDE - 1))]
    desk.host.end_cleanly()
    desk.turn()
    assert desk.node.log.take() == [("mark", 5, 3 * (MARK_STRIDE - 1))]


def test_what_lies_above_the_durable_mark_waits_until_the_log_knows_of_it() -> None:
    desk = Desk()
    desk.publish([b"a"] * 10_000)
    desk.attach(1, 10_000)
    desk.turn()
    view = desk.host.view(desk.sink, UNSEEN_SLACK - 1, 100)
    assert view is not None
    assert view.count == 2  # up to the slack and no further
    assert desk.host.view(desk.sink, UNSEEN_SLACK + 1, 1) is None
    desk.sink.take()
    assert ("loaded", 5) in desk.sync()
    assert desk.host.view(desk.sink, 10_000, 1) is not None


def test_transient_messages_wait_for_no_mark() -> None:
    desk = Desk()
    desk.publish([b"a"] * 10_000, persistent=False)
    desk.attach(1, 10_000)
    desk.turn()
    assert desk.host.view(desk.sink, 10_000, 1) is not None


def recovered(mark: int, redelivered_upto: int) -> Desk:
    """A queue of which the log knows two records with holes: 3, 4 and 6 of one, 9 of the other."""
    desk = Desk()
    bodies = [b"%d" % seq for seq in range(2, 8)]
    for first, runs, each in ((2, [(3, 2), (6, 1)], bodies), (9, [(9, 1)], [b"9"])):
        place = desk.node.log.put(b"".join(each), sum(count for _, count in runs))
        chunk = Chunk(1, None, 0, table(each, 50), 1)
        chunk.file_id = place.file_id
        chunk.file_offset = place.offset
        chunk.durable = True
        desk.host.core.recover(chunk, first, runs, b"", 0)
    desk.host.recovered(11, mark, redelivered_upto)
    return desk


def test_recovered_messages_are_ready_in_order_with_their_bytes() -> None:
    desk = recovered(0, 4)
    assert desk.host.ready_count == 4
    assert desk.host.core.journaled_from(1)[0] == [(3, 2), (6, 1), (9, 1)]
    desk.attach(1, 10)
    desk.publish([b"new"])
    assert desk.turn() == [
        ("attached", 5, 1),
        ("delivers", 5, 1, 1, 3, 2, True),
        ("delivers", 5, 1, 3, 6, 1, False),
        ("delivers", 5, 1, 4, 9, 1, False),
        ("delivers", 5, 1, 5, 12, 1, False),
    ]
    assert desk.bodies() == {3: b"3", 4: b"4", 6: b"6", 9: b"9", 12: b"new"}
    desk.settle(1, ACCEPT, [(3, 7)])
    desk.turn()
    assert desk.node.log.live == {1: len(b"new")}


def test_after_a_recovery_the_mark_is_never_lower_than_what_was_delivered_before() -> None:
    desk = recovered(3, 7)
    assert desk.host.core.machine.delivered_high == 7
    desk.host.end_cleanly()
    desk.turn()
    assert desk.node.log.take() == [("mark", 5, 7)]


def test_after_a_recovery_marks_go_on_from_the_one_that_is_in_the_log() -> None:
    """The slack above the mark belongs to the process that is gone; this one starts again."""
    desk = Desk()
    desk.host.recovered(10_000, 0, 4_096)
    desk.attach(1, 1)
    desk.turn()
    assert desk.node.log.take() == [("mark", 5, 4_096)]


# Deletion


def test_a_deleted_queue_frees_everything_and_tells_its_sessions() -> None:
    desk = Desk()
    desk.publish([b"a", b"b"])
    desk.publish([b"c"], persistent=False)
    desk.attach(1, 1)
    desk.turn()
    desk.node.log.take()
    desk.publish([b"never stepped"])
    assert desk.host.delete() == 2
    assert desk.sink.take() == [("gone", 5)]
    desk.turn()
    assert desk.node.log.take() == [("deleted", 5)]
    assert desk.node.log.live == {1: 0}
    assert desk.node.budget.used_bytes == 0
    assert not desk.sink.credit.is_blocked()
    assert desk.sink.credit.credit_towards(desk.host.core.credit) == 400


def test_a_queue_deleted_in_the_turn_of_a_publish_leaves_the_others_their_copy() -> None:
    desk = Desk()
    other = desk.node.queue(6)
    chunk = desk.publish([b"a", b"bb"])
    other.publish(desk.sink, chunk, 1)
    desk.host.step(1000)
    other.step(1000)
    desk.host.delete()
    desk.turn()
    written = desk.node.log.take()
    assert [record[0] for record in written] == ["publish", "deleted"]
    assert desk.node.log.live == {1: 3}
    assert ("confirms", 6, 2) in desk.sync()
    assert live(other) == [(1, 2)]


def live(host: ClassicHost) -> list[tuple[int, int]]:
    return host.core.live_ranges(1, 100)


def test_a_session_that_ends_during_a_long_purge_hears_nothing_of_it() -> None:
    desk = Desk()
    for _ in range(3):
        desk.publish([b"a"] * 4000)
    desk.turn()
    session = desk.sink.session
    desk.host.command(desk.sink, Purge(session))
    desk.host.command(desk.sink, EndSession(session))
    told = desk.turn()
    while desk.host.core.machine.has_more():
        told += desk.turn()
    assert "purged" not in [each[0] for each in told]
    assert desk.host.core.live_ranges(1, 12_000) == []


def test_only_what_was_accepted_counts_as_acknowledged() -> None:
    desk = Desk()
    desk.attach(1, 2)
    desk.publish([b"a", b"b", b"c", b"d"])
    desk.turn()
    desk.settle(1, ACCEPT, [(1, 1)])
    desk.settle(1, REJECT, [(2, 1)])
    desk.host.command(desk.sink, Purge(desk.sink.session))
    desk.turn()
    assert (desk.host.core.accepted_count, desk.host.ready_count) == (1, 0)
