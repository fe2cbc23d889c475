"""Snapshots in slices: sent, lost, resumed, dropped, and installed only when whole and durable."""

from typing import Any

import pytest

from raft.core import Raft
from raft.entries import Config, SnapshotPoint
from raft.messages import (
    AppendRequest,
    AppendResponse,
    SliceResponse,
    SnapshotSlice,
    VoteRequest,
)
from raft.ready import LoadSlice, Ready
from tests.unit.raft.cores import (
    THREE,
    answers,
    appends,
    elect,
    entries,
    follower,
    indexes,
    leader,
    restored,
    sent,
    turn,
    turns,
)

FOUR = Config((1, 2, 3, 4))


def part(
    number: int, is_last: bool = False, index: int = 9, term: int = 3, source: int = 2
) -> SnapshotSlice:
    text = f"slice {number}".encode()
    return SnapshotSlice(term, source, index, 2, FOUR, number, is_last, (text,))


def slices(ready: Ready, member: int) -> list[SnapshotSlice]:
    return [message for message in sent(ready, member) if isinstance(message, SnapshotSlice)]


def slice_answers(ready: Ready) -> list[int]:
    found = [message for message in sent(ready) if isinstance(message, SliceResponse)]
    return [int(answer.next_slice) for answer in found]


def numbers(ready: Ready) -> list[int]:
    return [int(one.slice_number) for one in ready.slices]


def sending(**changed: Any) -> tuple[Raft, LoadSlice]:
    """A leader of term 1 with a snapshot at 4 and nothing before, for member 3 that has nothing."""
    raft = leader(trailing_entries_max=0, **changed)
    for _ in range(3):
        assert raft.propose((b"x",)) is not None
    turn(raft)
    raft.step(2, AppendResponse(1, True, 4, 1))
    turns(raft)
    raft.reachable(3, False)
    raft.snapshot_taken(raft.snapshot_point(4))
    raft.reachable(3, True)
    raft.step(3, AppendResponse(1, False, 4, 0, 0, 0))
    ready = turn(raft)
    assert raft.is_sending_snapshot
    return raft, ready.slice_loads[0]


def stored(raft: Raft, next_slice: int, index: int = 4) -> None:
    raft.step(3, SliceResponse(1, 1, index, 1, next_slice))


def test_slices_are_read_one_by_one_and_sent_within_a_window() -> None:
    raft, load = sending(slice_window=2)
    assert (load.member, load.index, load.slice_number) == (3, 4, 0)
    assert not turn(raft).slice_loads
    raft.slice_loaded(load, (b"a",), False)
    ready = turn(raft)
    first = slices(ready, 3)[0]
    assert (first.term, first.source, first.index, first.snapshot_term) == (1, 1, 4, 1)
    assert (first.slice_number, first.is_last, list(first.parts)) == (0, False, [b"a"])
    assert first.config == THREE
    raft.slice_loaded(ready.slice_loads[0], (b"b",), False)
    assert not turn(raft).slice_loads  # the window is full
    stored(raft, 1)
    ready = turn(raft)
    assert [one.slice_number for one in ready.slice_loads] == [2]
    raft.slice_loaded(ready.slice_loads[0], (b"c",), True)
    ready = turn(raft)
    assert slices(ready, 3)[0].is_last
    stored(raft, 3)
    assert not turn(raft).slice_loads  # that was the last one
    assert raft.is_sending_snapshot
    raft.step(3, AppendResponse(1, True, 4, 4))
    assert not raft.is_sending_snapshot
    assert raft.propose((b"x",)) is not None
    assert [indexes(one.entries) for one in appends(turn(raft), 3)] == [[5]]


def test_a_member_that_has_some_slices_gets_the_others() -> None:
    raft, load = sending()
    raft.slice_loaded(load, (b"a",), False)
    turn(raft)
    stored(raft, 7)
    # From the last one that it has on: whether there is one behind it is not known here.
    assert [one.slice_number for one in turn(raft).slice_loads] == [6]


def test_a_member_that_has_lost_its_slices_gets_them_again() -> None:
    raft, load = sending()
    stored(raft, 7)
    turn(raft)
    stored(raft, 0)
    assert [one.slice_number for one in turn(raft).slice_loads] == [0]
    raft.slice_loaded(load, (b"a",), False)  # asked for before all that
    assert not slices(turn(raft), 3)


def test_answers_about_another_stream_are_passed_over() -> None:
    raft, load = sending()
    turns(raft)
    for answer in (
        SliceResponse(1, 2, 4, 1, 5),
        SliceResponse(1, 1, 3, 1, 5),
        SliceResponse(1, 1, 4, 9, 5),
    ):
        raft.step(3, answer)
    raft.step(2, SliceResponse(1, 1, 4, 1, 5))
    raft.step(9, SliceResponse(9, 1, 4, 1, 5))
    assert not turn(raft).slice_loads
    raft.slice_loaded(load, (b"a",), False)
    assert [one.slice_number for one in turn(raft).slice_loads] == [1]
    assert raft.term == 1


def test_slices_that_nobody_acknowledges_are_sent_again() -> None:
    raft, load = sending(heartbeat_ticks=1, election_ticks=3, slice_window=1)
    raft.slice_loaded(load, (b"a",), True)
    turn(raft)
    for _ in range(3):
        raft.step(2, AppendResponse(1, True, 4, 4))
        raft.tick()
        assert not turn(raft).slice_loads
    raft.tick()
    assert [one.slice_number for one in turn(raft).slice_loads] == [0]


def test_the_last_slice_is_sent_again_until_the_member_says_what_it_has() -> None:
    raft, load = sending(heartbeat_ticks=1, election_ticks=3)
    raft.slice_loaded(load, (b"a",), False)
    raft.slice_loaded(turn(raft).slice_loads[0], (b"b",), True)
    turn(raft)
    stored(raft, 2)
    for _ in range(4):
        raft.step(2, AppendResponse(1, True, 4, 4))
        assert not turn(raft).slice_loads
        raft.tick()
    assert [one.slice_number for one in turn(raft).slice_loads] == [1]


def test_a_broken_connection_goes_on_with_the_first_slice_that_is_not_acknowledged() -> None:
    raft, load = sending()
    raft.slice_loaded(load, (b"a",), False)
    raft.slice_loaded(turn(raft).slice_loads[0], (b"b",), False)
    turn(raft)
    stored(raft, 1)
    raft.reachable(3, False)
    raft.reachable(3, True)
    assert [one.slice_number for one in turn(raft).slice_loads] == [1]


def test_a_snapshot_that_is_gone_is_begun_again_with_a_newer_one() -> None:
    raft, load = sending()
    assert raft.propose((b"x",)) is not None
    turn(raft)
    raft.step(2, AppendResponse(1, True, 5, 1))
    turns(raft)
    raft.snapshot_taken(raft.snapshot_point(5))
    raft.slice_lost(load)
    loads = turn(raft).slice_loads
    assert [(one.index, one.slice_number) for one in loads] == [(5, 0)]


def test_a_word_of_what_it_has_ends_the_snapshot_that_a_member_does_not_need() -> None:
    raft, load = sending(heartbeat_ticks=1)
    raft.tick()
    raft.tick()
    ping = appends(turn(raft), 3)[-1]
    assert (ping.previous_index, ping.previous_term, len(ping.entries)) == (0, 0, 0)
    raft.step(3, AppendResponse(1, True, 4, 4))
    assert not raft.is_sending_snapshot
    raft.slice_loaded(load, (b"a",), False)
    assert not slices(turn(raft), 3)


def test_a_log_that_was_released_on_disk_is_sent_as_a_snapshot() -> None:
    point = SnapshotPoint(4, 1, 1, THREE)
    raft = restored((1, 1), term=1, point=point)
    elect(raft, 2)
    raft.step(3, AppendResponse(2, False, 6, 0, 5, 1))
    load = turn(raft).loads[0]
    assert (load.first, load.last) == (6, 6)
    raft.loaded(load, ())
    assert [(one.member, one.index) for one in turn(raft).slice_loads] == [(3, 4)]


def test_slices_in_order_are_staged_and_nothing_counts_before_the_last() -> None:
    raft = follower((1, 1), term=3)
    raft.step(2, part(0))
    ready = turn(raft)
    assert numbers(ready) == [0]
    assert not slice_answers(ready)
    raft.slice_stored(ready.slices[0])
    assert slice_answers(turn(raft)) == [1]
    raft.step(2, part(1))
    raft.step(2, part(2, is_last=True))
    ready = turn(raft)
    assert numbers(ready) == [1, 2]
    assert ready.install is not None
    assert (ready.install.index, ready.install.term, ready.install.appended_term) == (9, 2, 3)
    assert ready.install.config == FOUR
    assert (raft.commit_index, raft.last_index, raft.durable_index) == (0, 2, 2)
    raft.slice_stored(ready.slices[0])
    assert (raft.commit_index, raft.last_index) == (0, 2)
    raft.slice_stored(ready.slices[1])
    assert (raft.commit_index, raft.applied_index, raft.last_index) == (9, 9, 9)
    assert (raft.durable_index, raft.snapshot_index, raft.first_index) == (9, 9, 10)
    ready = turn(raft)
    assert slice_answers(ready) == [2, 3]
    assert [(a.is_matching, a.index, a.commit_index) for a in answers(ready)] == [(True, 9, 9)]
    assert ready.config == FOUR
    assert not ready.committed
    raft.step(2, AppendRequest(3, 9, 2, 10, entries(10, 3)))
    assert indexes(turn(raft).committed) == [10]


def test_slices_that_do_not_follow_are_answered_with_how_far_it_is() -> None:
    raft = follower((1,), term=3)
    raft.step(2, part(1))
    ready = turn(raft)
    assert not ready.slices
    assert slice_answers(ready) == [0]
    raft.step(2, part(0))
    raft.step(2, part(0))
    raft.step(2, part(2))
    ready = turn(raft)
    assert numbers(ready) == [0]
    assert slice_answers(ready) == [0, 0]  # nothing is durable
    raft.slice_stored(ready.slices[0])
    raft.step(2, part(0))
    assert slice_answers(turn(raft)) == [1, 1]


def test_another_stream_drops_what_was_staged() -> None:
    raft = follower((1,), term=3)
    raft.step(2, part(0))
    old = turn(raft).slices[0]
    raft.step(2, part(1, index=10))
    ready = turn(raft)
    assert ready.slices_dropped
    assert slice_answers(ready) == [0]
    raft.step(2, part(0, index=10))
    ready = turn(raft)
    assert not ready.slices_dropped
    assert numbers(ready) == [0]
    raft.slice_stored(old)
    assert not slice_answers(turn(raft))


def three_stored() -> Raft:
    """Slices 0 to 2 of a stream of term 3 are durable."""
    raft = follower((1,), term=3)
    for number in range(3):
        raft.step(2, part(number))
    for one in turn(raft).slices:
        raft.slice_stored(one)
    turn(raft)
    return raft


def test_a_leader_that_was_elected_again_goes_on_with_its_slices() -> None:
    raft = three_stored()
    for first, second in ((part(0), part(0, term=4)), (part(3, term=4), part(0, term=4))):
        raft.step(2, first)
        raft.step(2, second)
        ready = turn(raft)
        assert (ready.slices_dropped, slice_answers(ready)[-1]) == (False, 3)
    assert numbers(ready) == [3]


def test_a_leader_that_cannot_go_on_begins_its_slices_once_more() -> None:
    """It has restarted, cuts its slices in other places, and does not find the one to go on with:
    it sends the first one again when it knows how far things are."""
    raft = three_stored()
    raft.step(2, part(0, term=4))
    ready = turn(raft)
    assert (ready.slices_dropped, slice_answers(ready)) == (False, [3])
    raft.step(2, part(0, term=4))
    ready = turn(raft)
    assert (ready.slices_dropped, numbers(ready)) == (True, [0])


def test_a_drop_and_a_new_stream_in_one_turn_leave_only_the_new_slices() -> None:
    raft = follower((1,), term=3)
    raft.step(2, part(0))
    turn(raft)
    raft.step(2, part(1))
    raft.step(2, part(0, index=10))
    ready = turn(raft)
    assert ready.slices_dropped
    assert [(one.index, one.slice_number) for one in ready.slices] == [(10, 0)]


def test_a_log_that_got_there_by_itself_needs_no_snapshot() -> None:
    raft = follower(term=3)
    raft.step(2, part(0, index=2))
    turn(raft)
    raft.step(2, AppendRequest(3, 0, 0, 2, entries(1, 1, 2)))
    ready = turn(raft)
    assert ready.slices_dropped
    assert indexes(ready.committed) == [1, 2]
    raft.step(2, part(1, is_last=True, index=2))
    ready = turn(raft)
    assert not ready.slices
    assert [(a.is_matching, a.index) for a in answers(ready)] == [(True, 2)]


def test_a_snapshot_that_is_being_installed_is_not_dropped_and_nothing_is_applied_meanwhile() -> (
    None
):
    raft = follower(term=3)
    raft.step(2, AppendRequest(3, 0, 0, 0, entries(1, 1, 2)))
    raft.step(2, part(0, is_last=True, index=2))
    ready = turn(raft)
    last = ready.slices[0]
    assert ready.install is not None
    raft.step(2, AppendRequest(3, 2, 2, 3, entries(3, 3)))
    raft.step(2, part(0, index=9))
    ready = turn(raft)
    assert not ready.slices_dropped
    assert not ready.committed
    assert raft.commit_index == 3
    assert not raft.is_idle
    raft.slice_stored(last)
    ready = turn(raft)
    assert indexes(ready.committed) == [3]
    assert (raft.commit_index, raft.applied_index, raft.last_index) == (3, 3, 3)


def test_a_tail_that_fits_the_snapshot_stays_and_one_that_does_not_goes() -> None:
    for terms, last_index, truncated_from, appended_term in (
        ((1, 1, 2, 2), 4, 0, 2),
        ((1, 1, 1, 1), 3, 4, 3),
        ((1, 1), 3, 0, 3),
    ):
        raft = follower(terms, term=3)
        raft.step(2, part(0, is_last=True, index=3))
        ready = turn(raft)
        assert ready.install is not None
        assert ready.install.appended_term == appended_term
        raft.slice_stored(ready.slices[0])
        ready = turn(raft)
        assert (raft.last_index, raft.commit_index) == (last_index, 3)
        assert ready.truncated_from == truncated_from
        assert not ready.entries


def test_a_snapshot_does_not_commit_the_tail_behind_it() -> None:
    raft = follower((1, 1, 2, 2, 2), term=3)
    raft.step(2, part(0, is_last=True, index=3))
    raft.slice_stored(turn(raft).slices[0])
    assert (raft.commit_index, raft.last_index) == (3, 5)


def test_a_leader_of_before_sends_no_slices_to_anybody() -> None:
    raft = follower(term=5)
    raft.step(3, part(0, term=3))
    ready = turn(raft)
    assert not ready.slices
    assert [answer.term for answer in answers(ready)] == [5]


def test_a_new_leader_during_an_install_is_told_what_is_there() -> None:
    raft = follower((1,), term=3)
    raft.step(2, part(0, is_last=True))
    last = turn(raft).slices[0]
    raft.step(3, AppendRequest(4, 9, 2, 9, ()))
    answer = answers(turn(raft))[0]
    assert (answer.is_matching, answer.term) == (False, 4)
    raft.slice_stored(last)
    ready = turn(raft)
    assert [receiver for receiver, _ in ready.messages_after_sync] == [3]
    assert [(a.term, a.is_matching, a.index) for a in answers(ready)] == [(4, True, 9)]


def test_a_vote_counts_the_log_and_not_what_is_staged() -> None:
    raft = follower((1,), term=3)
    raft.step(2, part(0, is_last=True))
    last = turn(raft).slices[0]
    raft.leader_lost()
    raft.step(3, VoteRequest(4, 1, 1, False, False))
    turn(raft)
    assert raft.vote == 3
    raft.slice_stored(last)
    raft.step(3, VoteRequest(5, 1, 1, False, False))
    turn(raft)
    assert (raft.term, raft.vote) == (5, 0)


def test_slices_for_a_term_that_cannot_be_stop_the_member() -> None:
    with pytest.raises(AssertionError):
        leader().step(2, part(0, term=1))


def test_a_slice_of_a_stream_that_was_dropped_does_not_count_when_it_begins_again() -> None:
    raft = follower((1,), term=3)
    raft.step(2, part(0))
    raft.step(2, part(1))
    old = turn(raft).slices
    raft.step(2, part(0, index=10, source=3))
    turn(raft)
    raft.step(2, part(0))
    raft.step(2, part(1))
    new = turn(raft).slices
    for slice_ in old:
        raft.slice_stored(slice_)
    assert not slice_answers(turn(raft))
    for slice_ in new:
        raft.slice_stored(slice_)
    assert slice_answers(turn(raft)) == [1, 2]


def test_a_late_slice_of_an_older_snapshot_drops_nothing() -> None:
    raft = follower((1,), term=3)
    raft.step(2, part(0, index=10))
    first = turn(raft).slices[0]
    raft.step(2, part(0))
    raft.step(2, part(3))
    ready = turn(raft)
    assert not ready.slices_dropped
    assert not ready.slices
    raft.slice_stored(first)
    assert slice_answers(turn(raft)) == [1]


def test_who_lacks_the_last_entry_of_the_snapshot_gets_the_snapshot() -> None:
    point = SnapshotPoint(4, 1, 1, THREE)
    for hint_index, wants_snapshot in ((4, False), (3, True)):
        raft = restored((1, 1), term=1, point=point)
        elect(raft, 2)
        raft.step(3, AppendResponse(2, False, 6, 0, hint_index, 1))
        ready = turn(raft)
        assert bool(ready.slice_loads) == wants_snapshot
        assert [load.first for load in ready.loads] == ([] if wants_snapshot else [5])


def test_entries_that_were_released_while_they_were_read_are_not_sent() -> None:
    raft = restored((1, 1, 1), term=1, trailing_entries_max=0)
    elect(raft, 2)
    raft.step(2, AppendResponse(2, True, 4, 0))
    raft.step(3, AppendResponse(2, False, 3, 0, 0, 0))
    own, for_3 = turn(raft).loads
    if own.member:
        own, for_3 = for_3, own
    raft.loaded(own, entries(1, 1, 1, 1))
    turns(raft)
    raft.snapshot_taken(raft.snapshot_point(3))
    raft.loaded(for_3, entries(1, 1, 1, 1))
    ready = turn(raft)
    assert not [one for one in appends(ready, 3) if one.entries]
    assert [one.index for one in ready.slice_loads] == [3]
