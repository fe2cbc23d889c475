"""Who the members are: changes one at a time, learners, promotion, and leaving."""

import pytest

from raft.core import Raft
from raft.entries import CONFIG, Config, HardState, SnapshotPoint
from raft.membership import (
    AddLearner,
    AddVoter,
    Change,
    Configs,
    Refused,
    RemoveMember,
    agreed,
    decode_config,
    encode_config,
    is_majority,
)
from raft.messages import AppendRequest, AppendResponse, TimeoutNow, VoteResponse
from raft.recovery import Restored
from raft.status import FOLLOWER, LEADER
from tests.unit.raft.cores import (
    THREE,
    FixedLots,
    appends,
    elect,
    entries,
    follower,
    indexes,
    leader,
    restored,
    sent,
    settings,
    turn,
    turns,
)


def match(raft: Raft, member: int, index: int) -> None:
    raft.step(member, AppendResponse(raft.term, True, index, raft.commit_index))


def change(raft: Raft, asked: Change) -> tuple[int, int]:
    answer = raft.propose_change(asked)
    assert not isinstance(answer, Refused), answer
    return answer


def refusal(raft: Raft, asked: Change) -> str:
    answer = raft.propose_change(asked)
    assert isinstance(answer, Refused)
    return answer.reason


def test_a_change_counts_as_soon_as_it_is_in_the_log() -> None:
    raft = leader()
    assert change(raft, AddLearner(4)) == (2, 1)
    assert raft.config == Config((1, 2, 3), (4,))
    ready = turn(raft)
    assert ready.config == raft.config
    assert [entry.kind for entry in ready.entries] == [CONFIG]
    assert decode_config(ready.entries[0].parts[0]) == raft.config
    assert [(one.previous_index, len(one.entries)) for one in appends(ready, 4)] == [(1, 1)]


def test_one_change_at_a_time() -> None:
    raft = leader()
    change(raft, AddLearner(4))
    assert refusal(raft, AddLearner(5)) == "another change is under way"
    turn(raft)
    match(raft, 2, 2)
    assert change(raft, AddLearner(5)) == (3, 1)


def test_no_change_before_a_commit_in_the_own_term() -> None:
    raft = restored((1,), term=1)
    elect(raft, 2)
    assert refusal(raft, AddLearner(4)) == "nothing is committed in this term so far"
    match(raft, 2, 2)
    change(raft, AddLearner(4))


def test_no_change_by_a_follower_or_during_a_transfer() -> None:
    assert refusal(follower(), AddLearner(4)) == "is not the leader"
    raft = leader()
    assert raft.transfer(2)
    assert refusal(raft, AddLearner(4)) == "the leadership is being handed over"


def test_changes_that_mean_nothing_are_refused() -> None:
    raft = leader(Config((1, 2), (3, 4), (4,)))
    for asked in (
        AddLearner(1),
        AddLearner(3),
        AddVoter(2),
        AddVoter(4),
        AddVoter(0),
        AddLearner(-5),
        RemoveMember(9),
    ):
        refusal(raft, asked)
    alone = leader(Config((1,), (2,)))
    assert refusal(alone, RemoveMember(1)) == "is the last voter"
    assert raft.last_index == 1


def test_a_learner_does_not_count() -> None:
    raft = leader(Config((1, 2, 3), (4, 5)))
    assert raft.propose((b"x",)) is not None
    turn(raft)
    match(raft, 4, 2)
    match(raft, 5, 2)
    assert raft.commit_index == 1
    match(raft, 2, 2)
    assert raft.commit_index == 2


def test_a_new_voter_is_a_learner_until_it_has_caught_up() -> None:
    raft = leader(election_ticks=4)
    change(raft, AddVoter(4))
    turn(raft)
    assert raft.config == Config((1, 2, 3), (4,), (4,))
    match(raft, 2, 2)
    match(raft, 3, 2)
    raft.step(4, AppendResponse(1, False, 1, 0, 0, 0))
    turns(raft)
    raft.tick()
    raft.tick()
    turns(raft)
    match(raft, 2, 2)
    assert raft.config.voters == (1, 2, 3)
    assert not raft.is_idle
    match(raft, 4, 2)
    raft.tick()
    assert raft.config == Config((1, 2, 3, 4))
    turn(raft)
    match(raft, 2, 3)
    assert raft.commit_index == 2
    match(raft, 4, 3)
    assert raft.commit_index == 3


def test_a_learner_that_is_too_slow_begins_another_round() -> None:
    raft = leader(election_ticks=3)
    change(raft, AddVoter(4))
    turn(raft)
    match(raft, 2, 2)
    for _ in range(8):
        raft.tick()
        match(raft, 2, raft.last_index)
        match(raft, 3, raft.last_index)
        assert raft.propose((b"x",)) is not None
        turns(raft)
    match(raft, 4, 2)
    raft.tick()
    assert raft.config == Config((1, 2, 3), (4,), (4,))  # that took too long
    match(raft, 4, raft.last_index)
    raft.tick()
    assert raft.config == Config((1, 2, 3, 4))


def test_a_new_leader_goes_on_with_a_promotion() -> None:
    raft = restored((1,), term=1, config=Config((1, 2, 3), (4,), (4,)))
    elect(raft, 2)
    match(raft, 2, 2)
    match(raft, 4, 2)
    raft.tick()
    raft.tick()
    assert raft.config == Config((1, 2, 3, 4))


def test_a_learner_may_be_made_a_voter_later() -> None:
    raft = leader(Config((1, 2, 3), (4,)))
    for _ in range(5):
        match(raft, 4, 1)
        match(raft, 2, 1)
        raft.tick()
    assert raft.config.voters == (1, 2, 3)
    change(raft, AddVoter(4))
    assert raft.config == Config((1, 2, 3), (4,), (4,))


def test_a_smaller_majority_may_commit_at_once() -> None:
    raft = leader()
    assert raft.propose((b"x",)) is not None
    turn(raft)
    change(raft, RemoveMember(3))
    turn(raft)
    assert raft.commit_index == 1
    match(raft, 2, 3)
    assert raft.commit_index == 3
    assert [one.member for one in raft.status().members] == [2]


def test_one_that_was_removed_counts_no_more() -> None:
    raft = leader(Config((1, 2, 3, 4)))
    change(raft, RemoveMember(4))
    turn(raft)
    match(raft, 4, 2)
    assert raft.commit_index == 1
    match(raft, 3, 2)
    assert raft.commit_index == 2


def test_a_leader_that_is_removed_leads_until_that_is_committed_and_counts_not() -> None:
    raft = leader()
    change(raft, RemoveMember(1))
    turn(raft)
    assert raft.config == Config((2, 3))
    assert raft.propose((b"x",)) is not None
    turn(raft)
    match(raft, 2, 3)
    assert (raft.commit_index, raft.role) == (1, LEADER)
    match(raft, 3, 2)
    ready = turn(raft)
    assert (raft.commit_index, raft.role, raft.leader) == (2, FOLLOWER, 0)
    assert [one.commit_index for one in appends(ready, 3)][-1] == 2
    assert [isinstance(one, TimeoutNow) for one in sent(ready, 2)][-1]
    assert indexes(ready.committed) == [2]
    for _ in range(100):
        raft.tick()
    assert not sent(turn(raft))


def test_a_change_that_is_cut_off_does_not_count() -> None:
    raft = leader()
    change(raft, RemoveMember(3))
    turn(raft)
    raft.step(3, AppendRequest(2, 1, 1, 1, entries(2, 2)))
    ready = turn(raft)
    assert raft.config == THREE
    assert ready.config == THREE


def test_majorities_are_more_than_half_of_the_voters() -> None:
    assert [agreed(list(range(1, count + 1))) for count in range(6)] == [0, 1, 1, 2, 2, 3]
    assert is_majority({1, 2}, (1, 2, 3))
    assert not is_majority({1, 2}, (1, 2, 3, 4))
    assert not is_majority({1, 8, 9}, (1, 2, 3))
    assert not is_majority({1}, ())


def test_configurations_go_with_their_place_in_the_log() -> None:
    one, two, three = Config((1,)), Config((1, 2)), Config((1, 2, 3))
    configs = Configs(0, one)
    configs.add(4, two)
    configs.add(7, three)
    assert [configs.at(index) for index in (0, 3, 4, 6, 7, 99)] == [
        one,
        one,
        two,
        two,
        three,
        three,
    ]
    assert not configs.truncate(8)
    assert configs.truncate(7)
    assert configs.current == two
    configs.add(7, three)
    configs.release(5)
    assert [configs.at(index) for index in (5, 6, 7)] == [two, two, three]
    configs.release(9)
    assert configs.current == three


def test_a_configuration_has_the_bytes_that_the_format_says() -> None:
    config = Config((1, 300), (2, 7), (7,))
    encoded = encode_config(config)
    assert encoded.hex() == (
        "0102020101000000000000002c01000000000000020000000000000007000000000000000700000000000000"
    )
    assert decode_config(encoded) == config
    assert decode_config(encode_config(Config(()))) == Config(())


def test_bytes_that_are_no_configuration_are_refused() -> None:
    good = encode_config(Config((1, 3), (5,), (5,)))
    wrong = [
        b"",
        good[:3],
        good[:-1],
        good + b"\0",
        b"\2" + good[1:],
        encode_config(Config((1,)))[:4] + b"\0" * 8,
        good[:4] + (3).to_bytes(8, "little") + (1).to_bytes(8, "little") + good[20:],
        good[:4] + (5).to_bytes(8, "little") + (6).to_bytes(8, "little") + good[20:],
        good[:-8] + (1).to_bytes(8, "little"),
        good[:4] + b"\xff" * 8 + good[12:],
    ]
    for data in wrong:
        with pytest.raises(ValueError, match=r"configuration|member"):
            decode_config(data)


def test_one_whose_removal_nobody_else_has_may_still_be_elected() -> None:
    removal = (2, Config((2, 3)))
    found = Restored(HardState(1, 1), SnapshotPoint(0, 0, 0, THREE), 2, [(1, 1, 1)], [removal])
    raft = Raft(1, found, settings(), FixedLots())
    raft.campaign()
    raft.step(2, VoteResponse(2, True, True))
    raft.step(3, VoteResponse(2, True, True))
    raft.step(2, VoteResponse(2, False, True))
    assert raft.role != LEADER  # its own vote does not count
    raft.step(3, VoteResponse(2, False, True))
    assert raft.role == LEADER
    turn(raft)
    match(raft, 2, 3)
    match(raft, 3, 3)
    assert (raft.commit_index, raft.role) == (3, FOLLOWER)
    raft.campaign()
    assert raft.role == FOLLOWER  # now it is committed


def test_a_voter_alone_tells_its_learners_nothing_before_its_term_is_durable() -> None:
    raft = restored((), term=0, config=Config((1,), (2,)))
    raft.campaign()
    ready = raft.ready()
    assert ready.hard_state is not None
    assert indexes(ready.entries) == [1]
    assert not sent(ready)
    assert ready.lead is None or ready.lead.leader == 0
    assert raft.propose((b"x",)) is None
    raft.tick()
    assert not sent(raft.ready())
    raft.durable(1, 1)
    assert raft.role == LEADER
    assert [indexes(one.entries) for one in appends(raft.ready(), 2)] == [[1]]
