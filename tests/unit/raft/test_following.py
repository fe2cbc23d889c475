"""What a follower does with entries: takes, refuses, replaces, and says only what is durable."""

import pytest

from raft.entries import CONFIG, Config, Entry
from raft.membership import encode_config
from raft.messages import AppendRequest
from tests.unit.raft.cores import answers, entries, entry, follower, indexes, restored, turn

OTHERS = Config((1, 2, 3, 4))


def config_entry(index: int, term: int, config: Config) -> Entry:
    return Entry(index, term, CONFIG, (encode_config(config),), (), term)


def test_entries_go_to_the_log_and_their_answer_waits_for_the_sync() -> None:
    raft = follower(term=2)
    raft.step(2, AppendRequest(2, 0, 0, 0, entries(1, 1, 2)))
    ready = raft.ready()
    assert [(one.index, one.term, one.appended_term) for one in ready.entries] == [
        (1, 1, 2),
        (2, 2, 2),
    ]
    assert not ready.messages
    assert [(answer.is_matching, answer.index) for answer in answers(ready)] == [(True, 2)]
    assert raft.durable_index == 0
    raft.durable(2, 2)
    assert raft.durable_index == 2


def test_the_objects_of_the_leader_stay_as_they_are() -> None:
    raft = follower(term=3)
    theirs = entries(1, 1, 2)
    raft.step(2, AppendRequest(3, 0, 0, 0, theirs))
    assert [one.appended_term for one in raft.ready().entries] == [3, 3]
    assert [one.appended_term for one in theirs] == [1, 2]


def test_several_messages_of_a_turn_get_one_answer() -> None:
    raft = follower(term=1)
    raft.step(2, AppendRequest(1, 0, 0, 0, entries(1, 1), read_seq=4))
    raft.step(2, AppendRequest(1, 1, 1, 0, entries(2, 1, 1), read_seq=5))
    raft.step(2, AppendRequest(1, 1, 1, 1, (), read_seq=3))
    ready = turn(raft)
    assert [(a.index, a.read_seq, a.commit_index) for a in answers(ready)] == [(3, 5, 1)]
    assert indexes(ready.committed) == [1]


def test_a_message_doubled_or_late_never_cuts_the_log() -> None:
    raft = follower((1, 1, 1, 1), term=1)
    for first, count in ((1, 2), (1, 4), (3, 1), (2, 3)):
        raft.step(
            2, AppendRequest(1, first - 1, min(first - 1, 1), 0, entries(first, *[1] * count))
        )
        ready = turn(raft)
        assert (raft.last_index, ready.truncated_from, len(ready.entries)) == (4, 0, 0)
        assert answers(ready)[0].index == first + count - 1
    raft.step(2, AppendRequest(1, 2, 1, 0, entries(3, 1, 1, 1)))
    assert indexes(turn(raft).entries) == [5]


def test_a_tail_that_differs_is_replaced_from_there_on() -> None:
    raft = follower((1, 1, 2, 2, 2), term=2)
    raft.step(3, AppendRequest(3, 1, 1, 0, entries(2, 1, 3, 3)))
    ready = raft.ready()
    assert ready.truncated_from == 3
    assert [(one.index, one.term, one.appended_term) for one in ready.entries] == [
        (3, 3, 3),
        (4, 3, 3),
    ]
    assert (raft.last_index, raft.durable_index) == (4, 2)
    assert answers(ready)[0].index == 4


def test_entries_replaced_before_the_log_got_them_leave_no_trace() -> None:
    raft = follower((1,), term=1)
    raft.step(2, AppendRequest(1, 1, 1, 0, entries(2, 1, 1)))
    raft.step(3, AppendRequest(2, 1, 1, 0, entries(2, 2)))
    ready = turn(raft)
    assert ready.truncated_from == 0
    assert [(one.index, one.term) for one in ready.entries] == [(2, 2)]
    assert [answer.index for answer in answers(ready)] == [2]


def test_what_is_committed_is_never_replaced() -> None:
    raft = follower((1, 1), term=1)
    raft.step(2, AppendRequest(1, 2, 1, 2, ()))
    with pytest.raises(AssertionError):
        raft.step(3, AppendRequest(2, 0, 0, 0, entries(1, 1, 2)))
    assert raft.last_index == 2


def test_a_sync_of_what_was_replaced_meanwhile_says_nothing() -> None:
    raft = follower((1,), term=1)
    raft.step(2, AppendRequest(1, 1, 1, 0, entries(2, 1, 1)))
    raft.ready()
    raft.step(3, AppendRequest(2, 1, 1, 0, entries(2, 2, 2, 2)))
    raft.ready()
    raft.durable(3, 1)
    assert raft.durable_index == 1
    raft.durable(9, 1)
    assert raft.durable_index == 1
    raft.durable(4, 2)
    assert raft.durable_index == 4


def test_commits_go_as_far_as_what_is_known_to_be_the_leaders() -> None:
    raft = follower((1, 1, 1), term=2)
    raft.step(2, AppendRequest(2, 1, 1, 3, ()))
    assert raft.commit_index == 1
    raft.step(2, AppendRequest(2, 1, 1, 9, entries(2, 1)))
    assert raft.commit_index == 2
    raft.step(2, AppendRequest(2, 2, 1, 0, ()))
    assert raft.commit_index == 2  # never back


def test_what_does_not_fit_is_refused_with_the_last_place_that_may_be_alike() -> None:
    raft = follower((1, 1, 3, 3, 3), term=5)
    for index, term, hint_index, hint_term in (
        (9, 5, 5, 3),  # behind the end
        (5, 5, 5, 3),  # the leader's term is higher: perhaps at its last entry of 3 or lower
        (5, 2, 2, 1),  # none of 3 can be the leader's
        (3, 2, 2, 1),
    ):
        raft.step(2, AppendRequest(5, index, term, 0, ()))
        answer = answers(turn(raft))[-1]
        assert not answer.is_matching
        assert (answer.index, answer.hint_index, answer.hint_term) == (index, hint_index, hint_term)
    assert raft.last_index == 5


def test_a_hint_is_never_below_what_is_committed() -> None:
    raft = follower((1, 1, 3), term=5)
    raft.step(2, AppendRequest(5, 2, 1, 2, ()))
    turn(raft)
    raft.step(2, AppendRequest(5, 3, 2, 2, ()))
    answer = answers(turn(raft))[-1]
    assert (answer.is_matching, answer.hint_index) == (False, 2)


def test_a_message_about_what_is_committed_matches_up_to_there() -> None:
    raft = follower((1, 1, 1), term=1)
    raft.step(2, AppendRequest(1, 3, 1, 3, ()))
    turn(raft)
    for previous_index, sent in ((0, ()), (0, entries(1, 1)), (1, entries(2, 1, 1))):
        raft.step(2, AppendRequest(1, previous_index, min(previous_index, 1), 0, sent))
        assert [(a.is_matching, a.index) for a in answers(turn(raft))] == [(True, 3)]
    raft.step(2, AppendRequest(1, 1, 1, 0, entries(2, 1, 1, 1, 1)))
    assert indexes(turn(raft).entries) == [4, 5]


def test_entries_with_a_hole_or_in_disorder_stop_the_member() -> None:
    for wrong in (entries(2, 1), [entry(1, 1), entry(3, 1)], [entry(1, 2), entry(2, 1)]):
        raft = follower(term=2)
        with pytest.raises(AssertionError):
            raft.step(2, AppendRequest(2, 0, 0, 0, wrong))
    raft = follower(term=2)
    with pytest.raises(AssertionError):
        raft.step(2, AppendRequest(2, 0, 0, 0, entries(1, 3)))


def test_a_configuration_counts_when_it_is_in_the_log_and_not_when_it_is_cut_off() -> None:
    raft = follower((1,), term=1)
    before = raft.config
    raft.step(2, AppendRequest(1, 1, 1, 0, [config_entry(2, 1, OTHERS)]))
    ready = turn(raft)
    assert raft.config == OTHERS
    assert ready.config == OTHERS
    raft.step(3, AppendRequest(2, 1, 1, 0, entries(2, 2)))
    ready = turn(raft)
    assert raft.config == before
    assert ready.config == before


def test_committed_entries_below_memory_are_asked_for_and_handed_out_in_order() -> None:
    raft = restored((1, 1, 1), term=1)
    raft.step(2, AppendRequest(1, 3, 1, 4, entries(4, 1)))
    ready = turn(raft)
    assert [(load.member, load.first, load.last) for load in ready.loads] == [(0, 1, 3)]
    assert not ready.committed
    assert not turn(raft).loads  # one at a time
    raft.loaded(ready.loads[0], entries(1, 1, 1))
    ready = turn(raft)
    assert indexes(ready.committed) == [1, 2]
    assert raft.applied_index == 2
    ready = turn(raft)
    assert [(load.first, load.last) for load in ready.loads] == [(3, 3)]
    raft.loaded(ready.loads[0], entries(3, 1))
    assert indexes(turn(raft).committed) == [3]
    assert indexes(turn(raft).committed) == [4]
    assert not raft.has_ready


def test_wrong_answers_of_the_disk_stop_the_member() -> None:
    for wrong in ([], entries(2, 1), entries(1, 1, 1, 1, 1)):
        raft = restored((1, 1, 1), term=1)
        raft.step(2, AppendRequest(1, 3, 1, 3, ()))
        load = turn(raft).loads[0]
        with pytest.raises(AssertionError):
            raft.loaded(load, wrong)


def test_much_that_is_committed_at_once_is_handed_out_in_portions() -> None:
    raft = follower(term=1, apply_bytes_max=200)
    raft.step(2, AppendRequest(1, 0, 0, 7, entries(1, *[1] * 7)))
    portions: list[list[int]] = []
    while raft.has_ready:
        portions.append(indexes(turn(raft).committed))
    assert portions == [[1, 2, 3], [4, 5, 6], [7]]


def test_many_entries_that_are_committed_at_once_are_handed_out_in_portions() -> None:
    raft = restored((1, 1, 1, 1), term=1, apply_entries_max=3)
    raft.step(2, AppendRequest(1, 4, 1, 8, entries(5, 1, 1, 1, 1)))
    load = turn(raft).loads[0]
    assert (load.first, load.last) == (1, 3)
    raft.loaded(load, entries(1, 1, 1, 1))
    assert indexes(turn(raft).committed) == [1, 2, 3]
    load = turn(raft).loads[0]
    assert (load.first, load.last) == (4, 4)
    raft.loaded(load, entries(4, 1))
    portions: list[list[int]] = []
    while raft.has_ready:
        portions.append(indexes(turn(raft).committed))
    assert portions == [[4], [5, 6, 7], [8]]


def test_contents_leave_memory_only_when_applied_and_durable() -> None:
    raft = follower(term=1)
    raft.step(2, AppendRequest(1, 0, 0, 2, entries(1, 1, 1, 1)))
    raft.ready()
    raft.forget(3)
    raft.durable(3, 1)
    raft.forget(3)  # 1 and 2
    raft.step(2, AppendRequest(1, 3, 1, 3, ()))
    assert indexes(turn(raft).committed) == [3]


def test_a_follower_at_rest_is_one_that_has_and_knows_all() -> None:
    raft = follower(term=1)
    assert raft.is_idle
    raft.step(2, AppendRequest(1, 0, 0, 0, entries(1, 1)))
    turn(raft)
    assert not raft.is_idle
    raft.step(2, AppendRequest(1, 1, 1, 1, ()))
    turn(raft)
    assert raft.is_idle
    raft.reachable(2, False)
    assert not raft.is_idle
    raft.reachable(2, True)
    assert raft.is_idle
    raft.leader_lost()
    turn(raft)
    assert not raft.is_idle


def test_a_follower_of_one_that_is_no_voter_any_more_does_not_rest() -> None:
    raft = follower(term=1)
    raft.step(2, AppendRequest(1, 0, 0, 1, [config_entry(1, 1, Config((1, 3)))]))
    turn(raft)
    assert raft.commit_index == 1
    assert not raft.is_idle


def test_a_sync_of_what_came_back_and_was_not_handed_over_again_says_nothing() -> None:
    raft = follower((1,), term=2)
    raft.step(2, AppendRequest(2, 1, 1, 0, entries(2, 2)))
    raft.ready()
    raft.step(3, AppendRequest(3, 1, 1, 0, entries(2, 3)))
    raft.ready()
    raft.step(2, AppendRequest(4, 1, 1, 0, entries(2, 2)))
    raft.durable(2, 2)
    assert raft.durable_index == 1
