"""Elections: who asks, who gets votes, and who keeps quiet."""

from itertools import pairwise

import pytest

from raft.entries import Config
from raft.messages import (
    AppendRequest,
    AppendResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raft.status import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE
from tests.unit.raft.cores import (
    answers,
    appends,
    elect,
    entries,
    follower,
    leader,
    make,
    requests,
    restored,
    sent,
    turn,
    turns,
    votes,
)

FIVE = Config((1, 2, 3, 4, 5))


def test_a_pre_vote_that_is_granted_changes_nothing() -> None:
    raft = restored((1, 1), term=1)
    raft.step(2, VoteRequest(2, 2, 1, True, False))
    ready = turn(raft)
    assert [(vote.term, vote.is_granted) for vote in votes(ready)] == [(2, True)]
    assert ready.hard_state is None
    assert (raft.term, raft.vote, raft.role) == (1, 0, FOLLOWER)


def test_a_pre_vote_is_refused_to_who_has_less_or_asks_for_no_new_term() -> None:
    raft = restored((1, 2), term=2)
    for term, last_index, last_term in ((3, 1, 2), (3, 9, 1), (2, 2, 2), (1, 9, 0)):
        raft.step(2, VoteRequest(term, last_index, last_term, True, False))
    assert [(vote.term, vote.is_granted) for vote in votes(turn(raft))] == [(2, False)] * 4
    assert raft.term == 2


def test_a_candidate_asks_whether_before_it_asks_for_votes() -> None:
    raft = make()
    raft.campaign()
    ready = turn(raft)
    assert raft.role == PRE_CANDIDATE
    assert ready.hard_state is None
    assert [(ask.term, ask.is_pre_vote) for ask in requests(ready)] == [(1, True)] * 2
    raft.step(3, VoteResponse(1, True, True))
    ready = turn(raft)
    assert raft.role == CANDIDATE
    assert ready.hard_state is not None
    assert (ready.hard_state.term, ready.hard_state.vote) == (1, 1)
    asked = [message for _, message in ready.messages_after_sync]
    assert [isinstance(ask, VoteRequest) and not ask.is_pre_vote for ask in asked] == [True, True]
    assert not ready.messages


def test_a_candidate_that_is_to_campaign_again_waits_for_its_votes() -> None:
    """To ask again would be another term, and a slow disk would never be waited for."""
    raft = make()
    raft.campaign()
    raft.campaign()
    raft.step(3, VoteResponse(1, True, True))
    turn(raft)
    assert (raft.role, raft.term) == (CANDIDATE, 1)
    raft.campaign()
    assert (raft.role, raft.term) == (CANDIDATE, 1)
    raft.step(3, VoteResponse(1, False, True))
    assert (raft.role, raft.term) == (LEADER, 1)


def test_votes_of_strangers_learners_and_the_same_voter_twice_do_not_count() -> None:
    raft = make(Config((1, 2, 3, 4, 5), (6,)))
    raft.campaign()
    for member in (2, 2, 2, 6, 9):
        raft.step(member, VoteResponse(1, True, True))
    assert raft.role == PRE_CANDIDATE
    raft.step(3, VoteResponse(1, True, True))
    assert raft.role == CANDIDATE
    for member in (2, 2, 6, 9):
        raft.step(member, VoteResponse(1, False, True))
    assert raft.role == CANDIDATE
    raft.step(5, VoteResponse(1, False, True))
    assert raft.role == LEADER


def test_votes_of_another_term_or_of_the_other_kind_do_not_count() -> None:
    raft = restored((1,), term=4)
    raft.campaign()
    for response in (
        VoteResponse(4, True, True),
        VoteResponse(6, True, True),
        VoteResponse(5, False, True),
    ):
        raft.step(2, response)
    assert raft.role == PRE_CANDIDATE
    raft.step(2, VoteResponse(5, True, True))
    for response in (VoteResponse(4, False, True), VoteResponse(6, True, True)):
        raft.step(2, response)
    assert raft.role == CANDIDATE


def test_a_vote_is_given_once_in_a_term_and_to_the_same_again() -> None:
    raft = make()
    raft.step(2, VoteRequest(1, 0, 0, False, False))
    raft.step(3, VoteRequest(1, 0, 0, False, False))
    raft.step(2, VoteRequest(1, 0, 0, False, False))
    ready = turn(raft)
    assert [vote.is_granted for vote in votes(ready)] == [True, False, True]
    assert ready.hard_state is not None
    assert (ready.hard_state.term, ready.hard_state.vote) == (1, 2)
    assert not ready.messages  # all of it waits for the sync


def test_a_vote_is_kept_over_a_restart() -> None:
    raft = restored((), term=3, vote=2)
    raft.step(3, VoteRequest(3, 5, 2, False, False))
    raft.step(2, VoteRequest(3, 5, 2, False, False))
    assert [vote.is_granted for vote in votes(turn(raft))] == [False, True]


def test_no_vote_for_who_has_less_in_its_log() -> None:
    raft = restored((1, 2, 2), term=2)
    for term, last_index, last_term in ((3, 2, 2), (4, 9, 1), (5, 0, 0)):
        raft.step(2, VoteRequest(term, last_index, last_term, False, False))
    assert [(vote.term, vote.is_granted) for vote in votes(turn(raft))] == [
        (3, False),
        (4, False),
        (5, False),
    ]
    assert (raft.term, raft.vote) == (5, 0)
    raft.step(3, VoteRequest(5, 3, 2, False, False))
    assert votes(turn(raft))[0].is_granted


def test_an_old_request_is_answered_with_the_term() -> None:
    raft = restored((1,), term=7)
    raft.step(2, VoteRequest(6, 9, 5, False, False))
    assert [(vote.term, vote.is_granted) for vote in votes(turn(raft))] == [(7, False)]


def test_while_its_leader_lives_a_member_does_not_look_at_requests() -> None:
    raft = follower((1,), term=1)
    for is_pre_vote in (True, False):
        raft.step(3, VoteRequest(9, 9, 8, is_pre_vote, False))
    assert not sent(turn(raft))
    assert (raft.term, raft.leader) == (1, 2)


def test_after_an_election_timeout_of_silence_it_looks_at_them() -> None:
    raft = follower((1,), term=1, election_ticks=4)
    for _ in range(3):
        raft.tick()
    raft.step(3, VoteRequest(2, 1, 1, True, False))
    assert not votes(turn(raft))
    raft.tick()
    raft.step(3, VoteRequest(2, 1, 1, True, False))
    assert votes(turn(raft))[0].is_granted


def test_a_suspicion_of_the_leader_makes_it_look_at_them_at_once() -> None:
    raft = follower((1,), term=1)
    raft.leader_lost()
    ready = turn(raft)
    assert ready.lead is not None
    assert (ready.lead.leader, ready.lead.term) == (0, 1)
    raft.step(3, VoteRequest(2, 1, 1, False, False))
    assert votes(turn(raft))[0].is_granted
    assert raft.vote == 3


def test_a_request_of_the_leader_itself_says_that_it_leads_no_more() -> None:
    raft = follower((1,), term=1)
    raft.step(2, VoteRequest(1, 1, 0, True, False))  # from before it was elected
    assert raft.leader == 2
    raft.step(2, VoteRequest(2, 1, 1, True, False))
    assert raft.leader == 0
    assert votes(turn(raft))[0].is_granted


def test_a_transfer_is_looked_at_while_the_leader_lives() -> None:
    raft = follower((1,), term=1)
    raft.step(3, VoteRequest(2, 1, 1, False, True))
    assert votes(turn(raft))[0].is_granted
    assert (raft.term, raft.vote, raft.leader) == (2, 3, 0)


def test_a_leader_answers_a_request_with_a_word_to_that_member() -> None:
    raft = leader()
    assert raft.is_idle
    raft.step(3, VoteRequest(2, 1, 1, True, False))
    ready = turn(raft)
    assert (raft.role, raft.term) == (LEADER, 1)
    assert [message.commit_index for message in appends(ready, 3)] == [1]
    assert not sent(ready, 2)
    assert not raft.is_idle  # until 3 has said what it knows
    raft.step(3, AppendResponse(1, True, 1, 1))
    turns(raft)
    assert raft.is_idle


def test_a_leader_stays_awake_until_a_learner_that_can_be_reached_is_a_voter() -> None:
    raft = make(Config((1, 2, 3), (4,), (4,)), tells_commits_at_once=True)
    elect(raft, 2, 3)
    for commit_index in (0, 1):
        for member in (2, 3, 4):
            raft.step(member, AppendResponse(1, True, 1, commit_index))
        turns(raft)
    assert not raft.is_idle
    raft.reachable(4, False)
    turns(raft)
    assert raft.is_idle


def test_a_candidate_that_too_many_have_refused_tries_again_soon() -> None:
    raft = make(FIVE, election_ticks=10)
    raft.campaign()
    for member in (2, 3):
        raft.step(member, VoteResponse(1, True, True))
    turns(raft)
    assert raft.role == CANDIDATE
    for member in (2, 3):
        raft.step(member, VoteResponse(1, False, False))
        raft.step(member, VoteResponse(1, False, False))
        raft.tick()
        assert raft.role == CANDIDATE
    raft.step(4, VoteResponse(1, False, False))
    raft.tick()
    assert raft.role == PRE_CANDIDATE


def test_a_leader_does_not_answer_a_request_of_a_stranger() -> None:
    raft = leader()
    raft.step(9, VoteRequest(5, 9, 4, False, False))
    assert not sent(turn(raft))
    assert raft.term == 1


def test_a_refusal_with_a_higher_term_is_followed_and_one_with_none_is_not() -> None:
    raft = restored((1,), term=2)
    raft.campaign()
    raft.step(2, VoteResponse(2, True, False))
    assert raft.role == PRE_CANDIDATE
    raft.step(2, VoteResponse(6, True, False))
    ready = turn(raft)
    assert (raft.role, raft.term, raft.vote) == (FOLLOWER, 6, 0)
    assert ready.hard_state is not None


def test_a_member_alone_elects_itself_and_commits_what_its_disk_has() -> None:
    raft = make(Config((1,)), election_ticks=3)
    for _ in range(3):
        raft.tick()
    ready = raft.ready()
    assert ready.hard_state is not None
    assert [entry.index for entry in ready.entries] == [1]
    assert not ready.messages
    assert (raft.role, raft.commit_index) == (CANDIDATE, 0)
    for _ in range(100):
        raft.tick()
    assert raft.term == 1
    raft.durable(1, 1)
    assert (raft.role, raft.commit_index) == (LEADER, 1)
    ready = turn(raft)
    assert [entry.index for entry in ready.committed] == [1]
    assert ready.lead is not None
    assert ready.lead.is_ready


def test_members_that_were_told_nothing_never_try() -> None:
    raft = make(Config(()))
    raft.campaign()
    for _ in range(100):
        raft.tick()
    assert not sent(turn(raft))
    assert raft.role == FOLLOWER


def test_learners_ask_who_leads_and_for_no_vote_that_anybody_would_give() -> None:
    raft = make(Config((2, 3), (1,)))
    raft.campaign()
    assert not sent(turn(raft))
    for _ in range(100):
        raft.tick()
    asked = [message for _, message in turn(raft).messages]
    assert asked
    voter = make(Config((1, 2, 3)))
    for message in asked:
        assert isinstance(message, VoteRequest)
        assert (message.term, message.is_pre_vote) == (raft.term, True)
        voter.step(2, message)
        assert not votes(turn(voter))[0].is_granted
    assert (raft.role, raft.term) == (FOLLOWER, 0)


def test_a_learner_votes_for_it_may_be_a_voter_without_knowing() -> None:
    raft = make(Config((2, 3), (1,)))
    raft.step(2, VoteRequest(1, 0, 0, False, False))
    assert votes(turn(raft))[0].is_granted


def test_after_a_suspicion_it_tries_soon_and_then_less_and_less_often() -> None:
    raft = follower((1,), term=1, election_ticks=16, suspicion_ticks=2)
    raft.leader_lost()
    turn(raft)
    asked: list[int] = []
    for tick in range(60):
        raft.tick()
        if requests(turn(raft)):
            asked.append(tick)
    waits = [later - earlier for earlier, later in pairwise(asked)]
    assert asked[0] == 0
    assert waits == [3, 5, 9, 17, 17]


def test_a_suspicion_means_nothing_to_a_leader_or_without_one() -> None:
    raft = leader()
    raft.leader_lost()
    assert raft.role == LEADER
    other = make(election_ticks=5)
    other.leader_lost()
    for _ in range(4):
        other.tick()
    assert not requests(turn(other))


def test_a_leader_that_no_majority_answers_steps_down() -> None:
    raft = leader(FIVE, election_ticks=4)
    for round_number in range(3):
        raft.step(2, AppendResponse(1, True, 1, 1))
        if round_number < 2:
            raft.step(3, AppendResponse(1, True, 1, 1))
        for _ in range(4):
            raft.tick()
        assert (raft.role == LEADER) == (round_number < 2)
    ready = turn(raft)
    assert ready.lead is not None
    assert (ready.lead.leader, ready.lead.is_ready) == (0, False)
    assert raft.term == 1


def test_learners_do_not_keep_a_leader_up() -> None:
    raft = leader(Config((1, 2, 3), (4, 5)), election_ticks=4)
    for _ in range(8):
        for member in (4, 5):
            raft.step(member, AppendResponse(1, True, 1, 1))
        raft.tick()
    assert raft.role != LEADER


def test_a_leader_of_before_is_told_the_term() -> None:
    raft = restored((1,), term=5)
    raft.step(2, AppendRequest(3, 1, 1, 1, entries(2, 3)))
    ready = turn(raft)
    assert [(answer.term, answer.is_matching) for answer in answers(ready)] == [(5, False)]
    assert raft.last_index == 1


def test_two_leaders_of_one_term_stop_the_member() -> None:
    raft = follower((1,), term=1)
    with pytest.raises(AssertionError):
        raft.step(3, AppendRequest(1, 1, 1, 0, ()))
    with pytest.raises(AssertionError):
        leader().step(3, AppendRequest(1, 1, 1, 0, ()))


def test_a_candidate_follows_the_leader_of_its_term() -> None:
    raft = make()
    raft.campaign()
    raft.step(2, VoteResponse(1, True, True))
    raft.step(3, AppendRequest(1, 0, 0, 0, entries(1, 1)))
    assert (raft.role, raft.leader, raft.term, raft.vote) == (FOLLOWER, 3, 1, 1)


def test_whoever_asked_gets_the_vote_of_who_only_asked_whether() -> None:
    raft = restored((1,), term=2)
    raft.campaign()
    raft.step(3, VoteRequest(2, 1, 1, False, False))
    assert votes(turn(raft))[-1].is_granted
    assert (raft.role, raft.vote) == (FOLLOWER, 3)


def test_a_handover_is_begun_for_the_leader_of_the_term_only() -> None:
    raft = follower((1,), term=2)
    raft.step(3, TimeoutNow(2))
    raft.step(2, TimeoutNow(1))
    assert raft.role == FOLLOWER
    raft.step(2, TimeoutNow(2))
    ready = turn(raft)
    assert raft.role == CANDIDATE
    assert [(ask.term, ask.is_pre_vote, ask.is_transfer) for ask in requests(ready)] == [
        (3, False, True)
    ] * 2


def test_the_first_entry_of_a_leader_opens_its_term() -> None:
    raft = restored((1, 1), term=1)
    elect(raft, 2)
    assert raft.last_index == 3
    assert raft.commit_index == 0
    assert not raft.status().config.learners
    raft.step(2, AppendResponse(2, True, 3, 0))
    assert raft.commit_index == 3


def test_the_status_names_what_there_is() -> None:
    status = leader().status()
    assert (status.role, status.term, status.leader, status.vote) == ("leader", 1, 1, 1)
    assert (status.commit_index, status.applied_index, status.durable_index) == (1, 1, 1)
    assert [(one.member, one.match_index, one.state) for one in status.members] == [
        (2, 1, "stream"),
        (3, 1, "stream"),
    ]


def test_of_two_that_ask_at_once_one_waits_for_the_other() -> None:
    for other, is_waiting in ((3, True), (1, False)):
        raft = make(member=2)
        raft.campaign()
        raft.step(other, VoteRequest(1, 0, 0, True, False))
        assert votes(turn(raft))[0].is_granted
        assert (raft.role == FOLLOWER) == is_waiting
