"""What a leader sends, counts and believes."""

import pytest

from raft.core import Raft
from raft.entries import Config, SnapshotPoint
from raft.messages import AppendRequest, AppendResponse, TimeoutNow, VoteRequest
from raft.ready import Load
from raft.status import FOLLOWER, LEADER
from tests.unit.raft.cores import (
    THREE,
    appends,
    elect,
    entries,
    follower,
    indexes,
    leader,
    make,
    restored,
    sent,
    settings,
    turn,
    turns,
)

FIVE = Config((1, 2, 3, 4, 5))


def match(raft: Raft, member: int, index: int) -> None:
    raft.step(member, AppendResponse(raft.term, True, index, raft.commit_index))


def reject(raft: Raft, member: int, index: int, hint_index: int, hint_term: int) -> None:
    raft.step(member, AppendResponse(raft.term, False, index, 0, hint_index, hint_term))


def propose(raft: Raft, count: int = 1) -> None:
    for _ in range(count):
        assert raft.propose((b"x",)) is not None


def test_entries_go_to_the_others_and_to_the_own_disk_at_the_same_time() -> None:
    raft = leader()
    assert raft.propose((b"a", b"b"), (b"body",)) == (2, 1)
    propose(raft)
    ready = raft.ready()
    assert indexes(ready.entries) == [2, 3]
    assert list(ready.entries[0].attached) == [b"body"]
    for member in (2, 3):
        message = appends(ready, member)[0]
        assert (message.previous_index, message.previous_term, message.commit_index) == (1, 1, 1)
        assert indexes(message.entries) == [2, 3]
    assert not ready.messages_after_sync


def test_members_at_the_same_place_get_the_same_message() -> None:
    raft = leader()
    propose(raft)
    ready = turn(raft)
    assert appends(ready, 2)[0] is appends(ready, 3)[0]
    assert appends(ready, 2)[0].entries is ready.entries


def test_the_own_log_counts_when_it_is_durable_and_not_before() -> None:
    raft = leader()
    propose(raft)
    raft.ready()
    raft.durable(2, 1)
    assert raft.commit_index == 1
    match(raft, 2, 2)
    assert raft.commit_index == 2
    propose(raft)
    ready = raft.ready()
    assert (indexes(ready.entries), indexes(ready.committed)) == ([3], [2])
    match(raft, 2, 3)
    assert raft.commit_index == 2
    raft.durable(3, 9)
    assert raft.commit_index == 2
    raft.durable(3, 1)
    assert raft.commit_index == 3
    assert indexes(turn(raft).committed) == [3]


def test_others_may_commit_what_the_own_disk_has_not() -> None:
    raft = leader()
    propose(raft)
    raft.ready()
    match(raft, 2, 2)
    match(raft, 3, 2)
    assert (raft.commit_index, raft.durable_index) == (2, 1)


def test_entries_of_older_terms_are_not_committed_by_counting() -> None:
    raft = restored((1, 2), term=3, config=FIVE)  # figure 8 of the paper
    elect(raft, 2, 3)
    assert (raft.term, raft.last_index) == (4, 3)
    for member in (2, 3, 4, 5):
        match(raft, member, 2)
    assert raft.commit_index == 0
    match(raft, 2, 3)
    assert raft.commit_index == 0
    match(raft, 4, 3)
    assert raft.commit_index == 3


def test_answers_of_other_terms_of_strangers_and_absurd_ones_are_not_believed() -> None:
    raft = restored((), term=3)
    elect(raft, 2)
    propose(raft)
    turn(raft)
    raft.step(2, AppendResponse(3, True, 2, 0))
    raft.step(9, AppendResponse(4, True, 2, 0))
    raft.step(2, AppendResponse(4, True, 3, 0))
    raft.step(2, AppendResponse(4, True, 1 << 61, 0))
    raft.step(2, AppendResponse(4, False, 1 << 61, 0, 1 << 61, 3))
    raft.step(9, AppendResponse(5, True, 2, 0))
    assert (raft.commit_index, raft.term, raft.role) == (0, 4, LEADER)
    raft.step(2, AppendResponse(4, True, 2, 0))
    assert raft.commit_index == 2


def test_an_old_answer_does_not_take_back_a_newer_one() -> None:
    raft = leader()
    propose(raft, 3)
    turn(raft)
    match(raft, 2, 4)
    match(raft, 2, 2)
    reject(raft, 2, 3, 0, 0)
    assert raft.commit_index == 4
    propose(raft)
    assert indexes(appends(turn(raft), 2)[0].entries) == [5]


def test_a_higher_term_in_an_answer_ends_the_leadership() -> None:
    raft = leader()
    assert raft.read(7)
    raft.step(2, AppendResponse(4, False, 0, 0))
    ready = turn(raft)
    assert (raft.role, raft.term, raft.leader) == (FOLLOWER, 4, 0)
    assert [(read.context, read.index) for read in ready.reads] == [(7, -1)]
    assert ready.lead is not None
    assert raft.propose((b"x",)) is None


def test_a_window_of_messages_is_not_exceeded() -> None:
    raft = leader(window_messages=2)
    counts: list[int] = []
    for _ in range(4):
        propose(raft)
        counts.append(len(appends(turn(raft), 2)))
    assert counts == [1, 1, 0, 0]
    match(raft, 2, 2)
    assert [indexes(message.entries) for message in appends(turn(raft), 2)] == [[4, 5]]


def test_a_window_of_bytes_is_not_exceeded_and_messages_have_a_size() -> None:
    raft = leader(append_bytes_max=140, window_bytes=260)
    propose(raft, 7)
    assert [indexes(message.entries) for message in appends(turn(raft), 2)] == [[2, 3], [4, 5]]
    match(raft, 2, 3)
    assert [indexes(message.entries) for message in appends(turn(raft), 2)] == [[6, 7]]
    match(raft, 2, 7)
    assert [indexes(message.entries) for message in appends(turn(raft), 2)] == [[8]]


def test_messages_have_a_number_of_entries_at_most() -> None:
    raft = leader(append_entries_max=2)
    propose(raft, 5)
    sizes = [indexes(message.entries) for message in appends(turn(raft), 2)]
    assert sizes == [[2, 3], [4, 5], [6]]


def test_no_more_is_read_for_who_is_behind_than_goes_into_a_message() -> None:
    raft = restored((1, 1, 1, 1, 1), term=1, append_entries_max=2)
    elect(raft, 2)
    reject(raft, 3, 5, 0, 0)
    turn(raft)
    match(raft, 3, 0)
    assert [(load.first, load.last) for load in turn(raft).loads] == [(1, 2)]


def test_one_entry_may_be_larger_than_a_message() -> None:
    raft = leader(append_bytes_max=100)
    assert raft.propose((b"x" * 5000,)) is not None
    propose(raft)
    assert [indexes(message.entries) for message in appends(turn(raft), 2)] == [[2], [3]]


def test_too_much_that_is_not_committed_refuses_more() -> None:
    raft = leader(uncommitted_bytes_max=200)
    propose(raft, 4)
    assert raft.is_full
    assert raft.propose((b"x",)) is None
    turn(raft)
    match(raft, 2, 5)
    assert not raft.is_full
    propose(raft)


def test_followers_and_candidates_take_no_proposals() -> None:
    raft = follower((1,))
    assert raft.propose((b"x",)) is None
    raft.campaign()
    assert raft.propose((b"x",)) is None
    assert not raft.read(1)


def test_after_a_refusal_one_message_goes_from_the_last_place_that_may_be_alike() -> None:
    raft = restored((1, 1, 2, 2, 4, 4), term=4)
    elect(raft, 2)
    reject(raft, 2, 6, 5, 3)  # it has an entry of 3 at 5: alike at 4 at the most
    ready = turn(raft)
    assert [(load.member, load.first, load.last) for load in ready.loads] == [(2, 5, 6)]
    raft.loaded(ready.loads[0], entries(5, 4, 4))
    message = appends(turn(raft), 2)[0]
    assert (message.previous_index, message.previous_term) == (4, 2)
    propose(raft)
    assert not appends(turn(raft), 2)  # one at a time
    reject(raft, 2, 6, 5, 3)  # the old one again
    ready = turn(raft)
    assert not appends(ready, 2)
    assert not ready.loads
    match(raft, 2, 6)
    assert [indexes(one.entries) for one in appends(turn(raft), 2)] == [[7, 8]]


def test_a_refusal_within_the_stream_begins_to_probe() -> None:
    raft = leader()
    propose(raft)
    turn(raft)  # lost on its way to 3
    propose(raft)
    turn(raft)
    reject(raft, 3, 2, 1, 1)
    assert [indexes(one.entries) for one in appends(turn(raft), 3)] == [[2, 3]]
    propose(raft)
    assert not appends(turn(raft), 3)


def test_what_was_lost_is_found_out_by_a_heartbeat() -> None:
    raft = leader(heartbeat_ticks=1)
    propose(raft)
    turn(raft)
    raft.tick()
    assert not appends(turn(raft), 3)  # it got entries since the last one
    raft.tick()
    message = appends(turn(raft), 3)[0]
    assert (message.previous_index, len(message.entries)) == (2, 0)


def test_a_probe_without_answer_is_repeated_without_entries() -> None:
    raft = leader(heartbeat_ticks=3)
    reject(raft, 3, 1, 0, 0)
    propose(raft)
    assert appends(turn(raft), 3)  # 1 was there: that was an old answer
    reject(raft, 3, 2, 1, 1)
    assert [indexes(one.entries) for one in appends(turn(raft), 3)] == [[2]]
    raft.tick()
    assert not appends(turn(raft), 3)
    raft.tick()
    assert [(one.previous_index, len(one.entries)) for one in appends(turn(raft), 3)] == [(1, 0)]


def test_a_commit_is_told_at_the_next_tick_or_at_once_if_wanted() -> None:
    for at_once in (False, True):
        raft = leader(tells_commits_at_once=at_once)
        propose(raft)
        turn(raft)
        match(raft, 2, 2)
        told = [message.commit_index for message in appends(turn(raft), 3)]
        assert told == ([2] if at_once else [])
        raft.tick()
        told = [message.commit_index for message in appends(turn(raft), 3)]
        assert told == ([] if at_once else [2])


def test_entries_below_memory_are_read_for_who_lacks_them() -> None:
    raft = restored((1, 1, 1), term=1)
    elect(raft, 2)
    reject(raft, 3, 3, 0, 0)
    ready = turn(raft)
    assert [(load.member, load.first, load.last) for load in ready.loads] == [(3, 1, 3)]
    assert not appends(ready, 3)
    assert not turn(raft).loads
    raft.loaded(Load(3, 1, 3, 99), entries(1, 1, 1, 1))  # unasked
    assert not appends(turn(raft), 3)
    raft.loaded(ready.loads[0], entries(1, 1, 1))
    assert [indexes(one.entries) for one in appends(turn(raft), 3)] == [[1, 2]]
    match(raft, 3, 2)
    assert [(load.first, load.last) for load in turn(raft).loads] == [(3, 3)]


def test_an_answer_of_the_disk_that_comes_too_late_is_passed_over() -> None:
    raft = restored((1, 1, 1), term=1)
    elect(raft, 2)
    reject(raft, 3, 3, 0, 0)
    load = turn(raft).loads[0]
    match(raft, 3, 3)  # an answer to something older
    raft.loaded(load, entries(1, 1, 1, 1))
    assert [indexes(one.entries) for one in appends(turn(raft), 3)] == [[4]]
    other = restored((1, 1, 1), term=1)
    elect(other, 2)
    reject(other, 3, 3, 0, 0)
    load = turn(other).loads[0]
    other.step(2, AppendResponse(9, False, 0, 0))
    other.loaded(load, entries(1, 1, 1, 1))
    assert not appends(turn(other), 3)


def test_wrong_entries_of_the_disk_are_not_sent() -> None:
    for wrong in (entries(2, 1, 1), entries(1, 1, 2)):
        raft = restored((1, 1, 1), term=2)
        elect(raft, 2)
        reject(raft, 3, 3, 0, 0)
        load = turn(raft).loads[0]
        with pytest.raises(AssertionError):
            raft.loaded(load, wrong)


def test_a_member_that_can_be_reached_again_is_asked_where_it_is() -> None:
    raft = leader()
    raft.reachable(3, False)
    assert turn(raft) is not None
    assert raft.is_idle  # an unreachable member keeps no group awake
    raft.reachable(3, True)
    assert [len(one.entries) for one in appends(turn(raft), 3)] == [0]
    assert not raft.is_idle
    match(raft, 3, 1)
    turn(raft)
    assert raft.is_idle


def test_a_new_leader_knows_who_cannot_be_reached() -> None:
    raft = make()
    raft.reachable(3, False)
    elect(raft, 2)
    match(raft, 2, 1)
    turns(raft)
    raft.tick()
    turns(raft)
    match(raft, 2, 1)
    turns(raft)
    assert [one.is_reachable for one in raft.status().members] == [True, False]
    assert raft.is_idle


def test_a_leader_without_a_reachable_majority_does_not_rest() -> None:
    raft = leader()
    raft.reachable(2, False)
    raft.reachable(3, False)
    turns(raft)
    assert not raft.is_idle


def test_a_full_way_holds_entries_back_and_nothing_else() -> None:
    raft = leader()
    raft.hold(3, True)
    propose(raft)
    ready = turn(raft)
    assert appends(ready, 2)
    assert not appends(ready, 3)
    raft.hold(3, False)
    assert [indexes(one.entries) for one in appends(turn(raft), 3)] == [[2]]


def test_a_leader_rests_when_all_know_that_all_is_committed() -> None:
    raft = leader()
    assert raft.is_idle
    propose(raft)
    assert not raft.is_idle
    turns(raft)
    for member in (2, 3):
        raft.step(member, AppendResponse(1, True, 2, 1))
    turns(raft)
    assert raft.commit_index == 2
    assert not raft.is_idle  # they do not know
    raft.tick()
    assert len(sent(turn(raft))) == 2
    for member in (2, 3):
        assert not raft.is_idle
        match(raft, member, 2)
        turns(raft)
    assert raft.is_idle


def test_a_rest_does_not_count_as_silence_of_the_others() -> None:
    raft = leader(election_ticks=4)
    for _ in range(3):
        raft.tick()  # with the last one there was a look: both were heard of
    for _ in range(3):
        raft.tick()
    turns(raft)
    assert raft.is_idle
    propose(raft)
    for _ in range(3):
        raft.tick()
    assert raft.role == LEADER
    raft.tick()
    assert raft.role == FOLLOWER


def test_reads_of_a_turn_wait_for_one_round_of_answers() -> None:
    raft = leader(FIVE)
    assert raft.read(10)
    assert raft.read(11)
    ready = turn(raft)
    seqs = {message.read_seq for message in appends(ready, 2) + appends(ready, 5)}
    assert seqs == {1}
    assert not ready.reads
    raft.step(2, AppendResponse(1, True, 1, 1, read_seq=0))
    raft.step(2, AppendResponse(1, True, 1, 1, read_seq=1))
    raft.step(2, AppendResponse(1, True, 1, 1, read_seq=1))
    raft.step(9, AppendResponse(1, True, 1, 1, read_seq=1))
    assert raft.read(12)
    assert not turn(raft).reads
    raft.step(3, AppendResponse(1, False, 1, 1, read_seq=1))  # no match, but an answer
    ready = turn(raft)
    assert [(read.context, read.index) for read in ready.reads] == [(10, 1), (11, 1)]
    assert not raft.is_idle
    for member in (4, 5):
        raft.step(member, AppendResponse(1, True, 1, 1, read_seq=2))
    assert [read.context for read in turn(raft).reads] == [12]


def test_an_answer_to_a_round_that_never_was_is_not_believed() -> None:
    raft = leader()
    assert raft.read(10)
    turn(raft)
    raft.step(2, AppendResponse(1, True, 1, 1, read_seq=77))
    assert not turn(raft).reads
    raft.step(2, AppendResponse(1, True, 1, 1, read_seq=1))
    assert turn(raft).reads


def test_a_read_is_refused_until_something_is_committed_in_the_term() -> None:
    raft = restored((1,), term=1)
    elect(raft, 2)
    assert not raft.read(1)
    match(raft, 2, 2)
    assert raft.read(1)


def test_a_read_of_a_member_alone_needs_no_others() -> None:
    raft = make(Config((1,)))
    raft.campaign()
    turns(raft)
    assert raft.read(5)
    assert [(read.context, read.index) for read in turn(raft).reads] == [(5, 1)]


def test_a_read_that_nobody_answers_is_asked_again_with_the_heartbeat() -> None:
    raft = leader(heartbeat_ticks=1)
    assert raft.read(5)
    turn(raft)
    raft.tick()
    turn(raft)
    raft.tick()
    assert [message.read_seq for message in appends(turn(raft), 2)] == [1]


def test_a_transfer_waits_until_the_other_has_everything() -> None:
    raft = leader()
    propose(raft)
    turn(raft)
    assert raft.transfer(3)
    assert raft.propose((b"x",)) is None
    assert raft.status().transferee == 3
    assert not [one for one in sent(turn(raft), 3) if isinstance(one, TimeoutNow)]
    match(raft, 2, 2)
    assert not [one for one in sent(turn(raft)) if isinstance(one, TimeoutNow)]
    match(raft, 3, 2)
    assert [one for one in sent(turn(raft), 3) if isinstance(one, TimeoutNow)]
    raft.step(3, VoteRequest(2, 2, 1, False, True))
    assert (raft.role, raft.term, raft.vote) == (FOLLOWER, 2, 3)


def test_a_transfer_that_fails_ends_with_an_election_timeout() -> None:
    raft = leader(election_ticks=4)
    assert raft.transfer(3)
    for _ in range(4):
        assert raft.propose((b"x",)) is None
        assert not raft.is_idle
        match(raft, 2, 1)
        raft.tick()
    propose(raft)


def test_nobody_takes_over_who_may_not_or_cannot() -> None:
    raft = leader(Config((1, 2, 3), (4,)))
    raft.reachable(3, False)
    for member in (1, 3, 4, 9):
        assert not raft.transfer(member)
    assert raft.transfer(2)
    assert not raft.transfer(2)
    assert not follower().transfer(2)


def test_what_a_snapshot_covers_is_kept_for_who_is_a_little_behind() -> None:
    raft = leader(trailing_entries_max=3)
    propose(raft, 5)
    turn(raft)
    match(raft, 2, 6)
    match(raft, 3, 4)
    turns(raft)
    raft.snapshot_taken(raft.snapshot_point(6))
    assert (raft.snapshot_index, raft.first_index) == (6, 5)
    propose(raft, 5)
    turn(raft)
    match(raft, 2, 11)
    turns(raft)
    raft.snapshot_taken(raft.snapshot_point(11))
    assert raft.first_index == 9  # so far and no further


def test_a_snapshot_point_says_what_the_log_had_there() -> None:
    raft = follower((1, 1, 2), term=3)
    raft.step(2, AppendRequest(3, 3, 2, 4, entries(4, 2)))
    load = turn(raft).loads[0]
    raft.loaded(load, entries(1, 1, 1, 2))
    turns(raft)
    point = raft.snapshot_point(4)
    assert (point.index, point.term, point.appended_term) == (4, 2, 3)
    assert point.config == THREE
    raft.snapshot_taken(point)
    raft.snapshot_taken(SnapshotPoint(2, 1, 1, THREE))  # an older one
    assert (raft.snapshot_index, raft.first_index, raft.last_index) == (4, 5, 4)
    raft.step(2, AppendRequest(3, 4, 2, 5, entries(5, 3)))
    assert indexes(turn(raft).committed) == [5]


def test_a_snapshot_beyond_what_was_handed_out_is_a_fault() -> None:
    raft = leader()
    propose(raft)
    turn(raft)
    with pytest.raises(AssertionError):
        raft.snapshot_taken(SnapshotPoint(2, 1, 1, THREE))
    with pytest.raises(AssertionError):
        raft.snapshot_point(2)


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in (
        {"election_ticks": 2, "heartbeat_ticks": 2},
        {"heartbeat_ticks": 0},
        {"suspicion_ticks": 0},
        {"window_messages": 0},
        {"append_bytes_max": 0},
        {"append_entries_max": 0},
        {"apply_entries_max": 0},
    ):
        with pytest.raises(AssertionError):
            settings(**wrong)


def test_a_snapshot_may_be_taken_of_what_is_applied_and_durable() -> None:
    raft = leader()
    propose(raft)
    raft.ready()
    match(raft, 2, 2)
    match(raft, 3, 2)
    raft.ready()
    assert (raft.applied_index, raft.snapshot_limit) == (2, 1)
    raft.durable(2, 1)
    assert raft.snapshot_limit == 2
