"""Groups in situations that a random run meets too seldom. All that `Truth` knows is looked at.

Five of them are those that a simulation by lots alone did not see in its prototype: crashes around
votes, entries of old terms, a configuration that is taken back, the disk's word about an entry that
was replaced, and what a leader has committed beyond what a follower shares with it.
"""

import pytest

from raft.entries import Config, SnapshotPoint
from raft.membership import AddLearner, AddVoter, Refused, RemoveMember
from raft.messages import AppendRequest, AppendResponse, Message, SnapshotSlice
from raft.status import CANDIDATE, LEADER
from tests.sim.raft.script import (
    SOON,
    calm,
    campaign,
    core_of,
    is_leader,
    isolate,
    lead,
    propose,
    wait,
)
from tests.sim.raft.world import World


def new_leader(world: World, old: int) -> int:
    """Waits until another member leads in a higher term; return it."""
    term = core_of(world, old).term if world.members[old].core is not None else 0

    def is_there() -> bool:
        leader = world.leader()
        return (
            leader is not None
            and leader.number != old
            and core_of(world, leader.number).term > term
        )

    wait(world, is_there, "another leader")
    leader = world.leader()
    assert leader is not None
    return leader.number


# Votes


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_a_crash_around_a_vote_makes_nobody_vote_twice(seed: int, kept: int) -> None:
    world = calm(3, seed)
    lead(world, 1)
    term = core_of(world, 1).term
    world.crash(1)
    world.held.update((2, 3))
    wait(world, lambda: any(core_of(world, n).term > term for n in (2, 3)), "a candidate")
    world.run(100)  # Its request does not leave before the sync.
    for number in (2, 3):
        world.crash(number, kept=kept)
        world.start(number)
    world.held.clear()
    world.start(1)
    world.settle()


def test_a_vote_whose_answer_was_lost_is_not_given_to_another() -> None:
    world = calm(3)
    lead(world, 1)
    world.crash(1)
    second = new_leader(world, 1)
    term = core_of(world, second).term
    voter = 5 - second
    world.crash(voter, kept=0)
    world.crash(second, kept=0)
    world.start(voter)
    world.start(1)
    world.run(3 * SOON)
    world.start(second)
    world.settle()
    assert world.truth.leaders[term] == second


def test_a_member_that_was_cut_off_comes_back_without_an_election() -> None:
    world = calm(3)
    lead(world, 1)
    term = core_of(world, 1).term
    isolate(world, [3])
    world.run(3000)
    world.network.heal()
    world.settle()
    assert is_leader(world, 1)
    assert core_of(world, 1).term == term


# Commits


def old_and_new_entry_at_one_index(world: World) -> tuple[int, int]:
    """1 and 2 have an entry of the first leader; another one has its own there. Index, that one."""
    lead(world, 1)
    isolate(world, [1, 2])
    index = propose(world, 1)[0]
    wait(world, lambda: world.disks[2].last_index == index, "a copy")
    wait(world, lambda: world.disks[2].record(index).is_durable, "a durable copy")
    world.crash(1)
    world.crash(2)
    world.network.heal()
    world.passes = lambda _s, _t, message: (
        not (isinstance(message, AppendRequest) and message.entries)
    )
    other = new_leader(world, 1)
    wait(world, lambda: core_of(world, other).durable_index == index, "an entry of its own")
    world.crash(other)
    return index, other


def test_an_entry_of_an_old_term_is_not_committed_because_a_majority_has_it() -> None:
    world = calm(5, append_bytes_max=1)
    index, other = old_and_new_entry_at_one_index(world)
    world.start(1)
    world.start(2)
    first = new_leader(world, other)
    assert first in (1, 2)
    term = core_of(world, first).term
    world.passes = lambda _s, _t, message: (
        not (isinstance(message, AppendRequest) and any(e.term == term for e in message.entries))
    )
    rest = [number for number in (3, 4, 5) if number != other]
    wait(world, lambda: all(world.disks[n].term(index) > 0 for n in rest), "copies")
    world.run(50)
    assert world.truth.commit_index < index  # Five members, four have it.
    world.crash(1)
    world.crash(2)
    world.start(other)
    world.passes = None
    assert new_leader(world, first) == other
    world.start(1)
    world.start(2)
    world.settle()
    assert world.truth.committed[index][0] == world.disks[other].term(index)


def test_a_follower_commits_nothing_beyond_what_it_shares_with_the_leader() -> None:
    world = calm(3)
    lead(world, 1)
    isolate(world, [1])
    propose(world, 1, 6)
    other = new_leader(world, 1)
    propose(world, other, 3)
    wait(world, lambda: world.truth.commit_index == world.disks[other].last_index, "commits")
    world.passes = lambda _s, target, message: (
        not (target == 1 and isinstance(message, AppendRequest) and message.entries)
    )
    world.network.heal()
    world.run(SOON)
    world.passes = None
    world.settle()


@pytest.mark.parametrize("seed", range(3))
def test_who_has_more_entries_but_of_an_older_term_is_not_elected(seed: int) -> None:
    world = calm(3, seed)
    lead(world, 1)
    isolate(world, [1])
    propose(world, 1, 9)
    other = new_leader(world, 1)
    index = propose(world, other, 3)[-1]
    wait(world, lambda: world.truth.commit_index == index, "a commit by the others")
    wait(world, lambda: not is_leader(world, 1), "1 has heard no peer")
    assert world.disks[1].last_index > index
    world.crash(other)
    world.network.heal()
    campaign(world, 1)
    assert new_leader(world, other) == 5 - other
    world.start(other)
    world.settle()


def test_an_acknowledgement_of_an_old_term_is_not_believed() -> None:
    world = calm(5)
    lead(world, 1)
    kept: list[Message] = []

    def passes(source: int, target: int, message: Message) -> bool:
        if (source, target) != (2, 1) or not isinstance(message, AppendResponse):
            return True
        kept.append(message)
        return False

    isolate(world, [1, 2])
    world.passes = passes
    indexes = propose(world, 1, 9)
    wait(
        world,
        lambda: any(m.index == indexes[-1] for m in kept if isinstance(m, AppendResponse)),
        "ack",
    )
    other = new_leader(world, 1)
    world.passes = None
    world.network.heal()
    world.settle()
    assert other not in (1, 2)
    lead(world, 1)
    isolate(world, [1])
    last = propose(world, 1, 9)[-1]
    assert last >= indexes[-1] > world.truth.commit_index
    before = world.truth.commit_index
    for source in (2, 3):
        for message in kept:
            world.deliver(source, 1, message)
    assert world.truth.commit_index == before
    world.network.heal()
    world.settle()


def test_a_group_commits_while_the_disk_of_its_leader_hangs() -> None:
    world = calm(3)
    lead(world, 1)
    world.held.add(1)
    index = propose(world, 1, 3)[-1]
    wait(world, lambda: world.truth.commit_index == index, "a commit by the others")
    world.crash(1, kept=0)
    world.held.clear()
    world.start(1)
    world.settle()
    assert world.truth.commit_index >= index


def test_the_only_member_waits_for_its_disk() -> None:
    world = calm(1)
    world.settle()
    world.held.add(1)
    index = propose(world, 1, 3)[-1]
    world.run(SOON)
    assert world.truth.commit_index < index
    world.held.clear()
    world.settle()
    assert world.truth.commit_index == index


def test_the_disks_word_about_an_entry_that_was_replaced_says_nothing() -> None:
    world = calm(3)
    lead(world, 1)
    world.network.cut([1], [2, 3], False)  # It hears, and is not heard.
    world.held.add(1)
    index = propose(world, 1)[0]
    other = new_leader(world, 1)
    wait(
        world,
        lambda: (
            world.disks[1].last_index == world.disks[other].last_index
            and world.disks[1].term(index) == world.disks[other].term(index)
        ),
        "the entries of the new leader",
    )
    assert core_of(world, 1).durable_index < index
    world.held.clear()
    world.network.heal()
    world.settle()


# Members


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize(
    "change", [AddLearner(4), AddVoter(4), RemoveMember(2)], ids=["learner", "voter", "removal"]
)
def test_a_change_of_members_that_was_not_committed_is_taken_back(
    change: AddLearner | AddVoter | RemoveMember, crashes: bool
) -> None:
    world = calm(3)
    lead(world, 1)
    isolate(world, [1])
    core = core_of(world, 1)
    assert not isinstance(world.members[1].change(change), Refused)
    world.members[1].turn()
    assert core.config != world.birth.config
    new_leader(world, 1)
    if crashes:
        world.run(20)
        world.crash(1)
        world.start(1)
        assert core_of(world, 1).config != world.birth.config
    world.network.heal()
    world.settle()
    assert core_of(world, 1).config == world.birth.config


def test_two_changes_at_once_are_refused() -> None:
    world = calm(3)
    lead(world, 1)
    isolate(world, [1])
    assert not isinstance(world.members[1].change(RemoveMember(3)), Refused)
    world.members[1].turn()
    assert isinstance(world.members[1].change(RemoveMember(2)), Refused)
    world.members[1].turn()
    world.network.heal()
    world.settle()


def test_a_new_leader_changes_nobody_before_it_has_committed_something() -> None:
    world = calm(3)
    lead(world, 1)
    isolate(world, [1])
    other = new_leader(world, 1)
    isolate(world, [other])
    core = core_of(world, other)
    if core.commit_index < core.last_index:
        assert isinstance(world.members[other].change(RemoveMember(1)), Refused)
    world.network.heal()
    world.settle()


def test_a_leader_that_is_removed_leads_until_that_is_committed_and_disturbs_nobody() -> None:
    world = calm(3)
    lead(world, 1)
    taken = world.members[1].change(RemoveMember(1))
    assert not isinstance(taken, Refused)
    world.members[1].act()
    other = new_leader(world, 1)
    world.settle()
    term = core_of(world, other).term
    assert core_of(world, other).config == Config((2, 3))
    world.run(3000)
    assert core_of(world, other).term == term


def test_a_member_that_was_removed_and_does_not_know_disturbs_nobody() -> None:
    world = calm(3)
    lead(world, 1)
    isolate(world, [3])
    assert not isinstance(world.members[1].change(RemoveMember(3)), Refused)
    world.members[1].act()
    world.settle()
    term = core_of(world, 1).term
    world.network.heal()
    campaign(world, 3)
    world.run(3000)
    assert is_leader(world, 1)
    assert core_of(world, 1).term == term


def test_learners_decide_nothing() -> None:
    world = calm(3)
    lead(world, 1)
    for number in (4, 5):
        assert not isinstance(world.members[1].change(AddLearner(number)), Refused)
        world.members[1].act()
        world.add(number, SnapshotPoint(0, 0, 0, Config(())))
        world.settle()
    isolate(world, [1, 4, 5])
    before = core_of(world, 1).commit_index
    propose(world, 1, 3)
    world.run(SOON)
    assert core_of(world, 1).commit_index == before
    world.network.heal()
    world.settle()


def test_a_learner_that_has_lost_sight_of_a_leader_at_rest_finds_it_again() -> None:
    world = calm(1)
    world.settle()
    assert not isinstance(world.members[1].change(AddLearner(2)), Refused)
    world.members[1].act()
    world.add(2, SnapshotPoint(0, 0, 0, Config(())))
    world.settle()
    core_of(world, 2).leader_lost()  # Its detector erred, and that of the leader did not.
    assert core_of(world, 2).leader == 0
    world.run_until(lambda: core_of(world, 2).leader == 1, SOON, "word of the leader")
    world.settle()


def test_a_learner_that_has_caught_up_becomes_a_voter() -> None:
    world = calm(1)
    world.settle()
    propose(world, 1, 20)
    for number in (2, 3):
        assert not isinstance(world.members[1].change(AddVoter(number)), Refused)
        world.members[1].act()
        world.add(number, SnapshotPoint(0, 0, 0, Config(())))
        world.settle()
    assert core_of(world, 2).config == Config((1, 2, 3))
    world.crash(1)
    new_leader(world, 1)


# Reads, transfer, rest


def test_a_leader_that_is_cut_off_answers_no_reads() -> None:
    world = calm(3)
    lead(world, 1)
    isolate(world, [1])
    world.members[1].ask()
    other = new_leader(world, 1)
    propose(world, other, 2)
    world.run(SOON)
    world.network.heal()
    world.settle()


def test_a_leader_that_is_cut_off_while_it_rests_steps_down() -> None:
    world = calm(3)
    lead(world, 1)
    isolate(world, [1])
    world.run(3 * SOON)
    assert not is_leader(world, 1), "1 takes itself for the leader"
    world.network.heal()
    world.settle()


def test_the_leadership_is_handed_over_without_a_lost_entry() -> None:
    world = calm(3)
    for number in (2, 3, 1):
        lead(world, number)
        propose(world, number, 3)
    world.settle()


def test_a_wrong_suspicion_does_not_depose_a_leader_that_rests() -> None:
    world = calm(3)
    lead(world, 1)
    term = core_of(world, 1).term
    world.detector.force(3, 1, False, world.now + 1000)
    world.run(1500)
    world.settle()
    assert core_of(world, 1).term == term


def test_a_leader_that_rests_and_was_replaced_unseen_learns_of_it() -> None:
    world = calm(3)
    lead(world, 1)
    world.detector.force(1, 2, True, world.now + 2000)
    world.detector.force(1, 3, True, world.now + 2000)
    isolate(world, [1])
    other = new_leader(world, 1)
    propose(world, other, 3)
    assert core_of(world, 1).role == LEADER
    world.network.heal()
    world.settle()


# Snapshots


def far_behind(world: World) -> None:
    """3 has missed all that is in the snapshot of 1 now, and the log is gone."""
    lead(world, 1)
    isolate(world, [3])
    for _ in range(8):
        propose(world, 1, 3)
        world.run(30)
    world.settle_without(3)
    world.members[1].take_snapshot()
    wait(world, lambda: world.disks[1].point.index > 0, "a snapshot")
    world.run(50)


def test_a_snapshot_whose_link_breaks_goes_on_where_it_was() -> None:
    world = calm(3, slice_window=1, trailing_entries_max=0)
    far_behind(world)
    numbers: list[int] = []

    def passes(_source: int, _target: int, message: Message) -> bool:
        if isinstance(message, SnapshotSlice):
            numbers.append(message.slice_number)
        return True

    world.passes = passes
    world.network.heal()
    wait(world, lambda: world.members[3].staged_count == 3, "some slices")
    isolate(world, [3])
    world.run(300)
    world.network.heal()
    world.settle()
    assert numbers.count(0) == 1
    assert world.disks[3].snapshot is not None


@pytest.mark.parametrize("who", [1, 3])
def test_a_snapshot_that_a_crash_interrupts_is_sent_again(who: int) -> None:
    world = calm(3, slice_window=1, trailing_entries_max=0)
    far_behind(world)
    world.network.heal()
    wait(world, lambda: world.members[3].staged_count == 3, "some slices")
    world.crash(who)
    world.run(200)
    world.start(who)
    world.settle()
    assert world.disks[3].point.index > 0 or who == 1  # The other one has the log still.


def test_a_snapshot_of_another_leader_drops_what_came_of_the_first() -> None:
    world = calm(3, slice_window=1, trailing_entries_max=0)
    far_behind(world)
    world.members[2].take_snapshot()
    world.run(50)
    world.network.heal()
    wait(world, lambda: world.members[3].staged_count == 3, "some slices")
    world.crash(1)
    world.run_until(lambda: world.disks[3].point.index > 0, 3000, "the snapshot of 2")
    world.start(1)
    world.settle()


# What simulation by lots has found


def with_learner(world: World) -> None:
    """1 votes alone, 2 is a learner of its."""
    world.settle()
    assert not isinstance(world.members[1].change(AddLearner(2)), Refused)
    world.members[1].act()
    world.add(2, SnapshotPoint(0, 0, 0, Config(())))
    world.settle()


def test_who_elects_itself_says_nothing_before_its_term_is_durable() -> None:
    """A crash took the term back; a second leadership in it told the learner other entries."""
    world = calm(1)
    with_learner(world)
    world.crash(1)
    world.held.add(1)
    world.start(1)
    wait(world, lambda: core_of(world, 1).role == CANDIDATE, "a candidate")
    world.run(100)
    assert core_of(world, 1).role == CANDIDATE  # elected, but for its disk
    world.crash(1, kept=0)
    world.held.clear()
    world.start(1)
    wait(world, lambda: is_leader(world, 1), "a leader")
    propose(world, 1, 1)
    world.settle()


def test_a_member_whose_removal_nobody_else_has_is_elected_to_get_it_committed() -> None:
    """It does not vote any more by its own log, and the other one cannot be elected without it."""
    world = calm(2)
    lead(world, 2)
    isolate(world, [2])
    assert not isinstance(world.members[2].change(RemoveMember(2)), Refused)
    world.members[2].turn()
    wait(world, lambda: world.disks[2].record(world.disks[2].last_index).is_durable, "durable")
    world.crash(2)
    world.network.heal()
    world.start(2)
    world.run_until(lambda: is_leader(world, 1), 3000, "1 leads alone")
    assert core_of(world, 1).config == Config((1,))
    world.settle()


@pytest.mark.parametrize("who", [1, 2], ids=["leader", "follower"])
@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_of_what_a_hanging_disk_has_not_written_loses_no_bodies(
    seed: int, who: int
) -> None:
    """The others commit it, and the machine applies it; what lies beside its entries is lost."""
    world = calm(3, seed)
    lead(world, 1)
    world.held.add(who)
    index = propose(world, 1, 3)[-1]
    wait(world, lambda: world.members[who].machine.index >= index, "applied")
    assert core_of(world, who).durable_index < index
    world.members[who].take_snapshot()
    world.run(SOON)
    world.crash(who, kept=0)
    world.held.clear()
    world.start(who)
    world.settle()
    world.members[who].take_snapshot()
    wait(world, lambda: world.disks[who].point.index >= index, "a snapshot of it")


def test_a_snapshot_takes_the_place_of_a_tail_that_was_never_committed() -> None:
    world = calm(3, trailing_entries_max=0)
    lead(world, 1)
    isolate(world, [1])
    propose(world, 1, 30)
    other = new_leader(world, 1)
    for _ in range(4):
        propose(world, other, 3)
        world.run(30)
    world.settle_without(1)
    for number in (2, 3):
        world.members[number].take_snapshot()
    wait(world, lambda: all(world.disks[n].point.index > 0 for n in (2, 3)), "snapshots")
    assert world.disks[1].last_index > world.disks[other].point.index
    world.network.heal()
    world.settle()
    assert world.disks[1].point.index > 0


def test_a_leader_that_dies_while_all_rest_is_replaced() -> None:
    world = calm(3)
    lead(world, 1)
    world.run(1000)
    world.crash(1)
    new_leader(world, 1)
