"""Several hosts in one process: who leads, what is committed, who sleeps, what is sent and when."""

from collections.abc import Sequence

import pytest

from raft.codec import BadMessage, encode
from raft.detector import BEAT_MS, SILENCE_MS
from raft.entries import COMMAND, Config, Entry, HardState, SnapshotPoint
from raft.host import NEWS_MAX, RETRY_TICKS
from raft.links import BULK, CONTROL, put
from raft.log_group import COMMITTED, LOST, UNKNOWN
from raft.membership import AddVoter
from raft.messages import AppendRequest, Message
from raft.recovery import Restored
from raft.settings import Settings
from tests.unit.raft.host_world import GROUP, INCARNATION, Node, World

COMMANDS = [b"a", b"b", b"c"]


def formed(count: int = 3, settings: Settings | None = None) -> World:
    """A group of all nodes, led by the first."""
    world = World(count, settings)
    world.add_group()
    world.elect(1)
    return world


def commands(world: World, member: int) -> list[bytes]:
    return [command for _, command in world.nodes[member].owner().applied]


# What peers and strangers send


def test_a_message_that_is_none_is_told_to_whoever_reads_the_link() -> None:
    world = formed()
    lane: list[bytes] = []
    put(lane, GROUP, INCARNATION, 2, [b"no message"])
    with pytest.raises(BadMessage):
        world.nodes[1].host.receive(2, memoryview(b"".join(lane)))
    world.settle()
    assert world.leader().member == 1


def test_messages_for_other_groups_incarnations_and_senders_are_dropped_and_counted() -> None:
    world = formed()
    host = world.nodes[1].host
    lane: list[bytes] = []
    put(lane, GROUP + 1, INCARNATION, 2, [b"no message"])
    put(lane, GROUP, INCARNATION + 1, 2, [b"no message"])
    put(lane, GROUP, INCARNATION, 3, [b"no message"])
    host.receive(2, memoryview(b"".join(lane)))
    assert host.counters.strays == 3


def test_a_group_that_asserts_ends_the_turn_and_with_it_the_node() -> None:
    world = formed()
    send(world.nodes[1], 2, append(1, [entry(1, 1)]))  # A second leader of the same term.
    with pytest.raises(AssertionError):
        world.nodes[1].turn()


# Leading


def test_one_member_of_a_group_is_elected_and_all_know_it() -> None:
    world = formed()
    assert [node.group().raft.leader for node in world.living()] == [1, 1, 1]
    assert world.nodes[1].owner().leads[-1].is_ready
    assert not world.nodes[2].owner().leads[-1].is_ready
    assert world.nodes[1].host.counters.elections == 1
    assert [node.host.counters.leader_changes for node in world.living()] == [1, 1, 1]


def test_members_elect_a_leader_by_themselves_when_time_passes() -> None:
    world = World()
    world.add_group()
    world.tick(100)
    assert world.leader().group().raft.leader == world.leader().member


def test_a_proposal_is_committed_everywhere_and_its_proposer_is_told_once() -> None:
    world = formed()
    places = [world.nodes[1].group().propose([command]) for command in COMMANDS]
    world.settle()
    world.tick(20)
    assert [commands(world, member) for member in (1, 2, 3)] == [COMMANDS] * 3
    told = world.nodes[1].owner().outcomes
    assert told == [(*place, COMMITTED) for place in places if place is not None]
    assert len(told) == 3
    assert world.nodes[2].owner().outcomes == []
    assert world.nodes[1].host.counters.proposals == 3


def test_a_follower_takes_no_proposal() -> None:
    world = formed()
    assert world.nodes[2].group().propose([b"x"]) is None
    assert not world.nodes[2].wants_turn


def test_a_group_of_one_commits_with_its_own_sync_alone() -> None:
    world = World(1)
    world.add_group()
    node = world.elect(1)
    node.group().propose([b"x"])
    node.turn()
    assert node.owner().applied == []
    world.settle()
    assert commands(world, 1) == [b"x"]


def test_what_was_attached_is_stored_by_followers_before_the_entry_and_not_by_the_leader() -> None:
    world = formed()
    world.nodes[1].group().propose([b"x"], [b"body"])
    world.settle()
    assert world.nodes[1].owner().bodies == {}
    for follower in world.followers():
        assert list(follower.owner().bodies.values()) == [(b"body",)]
        kinds = [what for what, _, _ in follower.log.records]
        assert kinds[-2:] == ["body", "entry"]


def test_an_old_leader_stores_what_it_gets_back_after_it_was_cut_back() -> None:
    world = formed()
    world.cut(1, 2)
    world.cut(1, 3)
    world.nodes[1].group().propose([b"lost"], [b"body 1"])
    world.settle()
    world.tick(100)
    assert world.leader().member != 1
    world.leader().group().propose([b"kept"], [b"body 2"])
    world.settle()
    world.heal()
    world.tick(100)
    assert commands(world, 1) == [b"kept"]
    assert [body for body in world.nodes[1].owner().bodies.values() if body] == [(b"body 2",)]


# Promises and the disk


def test_entries_leave_before_the_sync_and_acknowledgements_after_it() -> None:
    world = formed()
    leader, follower = world.nodes[1], world.nodes[2]
    leader.group().propose([b"x"])
    leader.turn()
    assert (1, 2) in [each[:2] for each in world.wire]
    world.deliver()
    follower.turn()
    assert [each for each in world.wire if each[0] == 2] == []
    follower.sync()
    follower.turn()
    assert [each[:2] for each in world.wire if each[0] == 2] == [(2, 1)]


def test_an_acknowledgement_waits_for_the_sync_of_what_came_in_an_earlier_turn() -> None:
    world = World()
    node = world.nodes[3]
    node.add(GROUP, world.members)
    send(node, 1, append(1, [entry(1, 1)]))
    node.turn()
    send(node, 1, append(1, [entry(1, 1)]))
    node.turn()
    assert world.wire == []
    node.sync()
    node.turn()
    assert [each[:2] for each in world.wire] == [(3, 1)]
    send(node, 1, append(1, [entry(1, 1)]))
    node.turn()
    assert [each[:2] for each in world.wire] == [(3, 1), (3, 1)]


def test_more_than_goes_into_one_turn_is_applied_in_the_next_ones() -> None:
    world = formed(1, Settings(apply_bytes_max=1))
    node = world.nodes[1]
    for command in COMMANDS:
        node.group().propose([command])
    node.turn()
    node.sync()
    node.turn()
    assert commands(world, 1) == COMMANDS[:1]
    world.settle()
    assert commands(world, 1) == COMMANDS


def test_a_vote_is_given_after_the_sync_of_it() -> None:
    world = World()
    world.add_group()
    world.settle()
    candidate, voter = world.nodes[1], world.nodes[2]
    candidate.group().campaign()
    for _ in range(6):
        for node in (candidate, voter):
            while node.wants_turn:
                node.turn()
        candidate.sync()
        world.deliver()
    assert not candidate.group().is_leader
    assert voter.log.hard_states[GROUP] == (1, 1)
    world.nodes[3].turn()
    voter.sync()
    voter.turn()
    world.deliver()
    candidate.turn()
    assert candidate.group().is_leader


def test_a_sync_that_nobody_waited_for_changes_nothing() -> None:
    world = formed()
    node = world.nodes[1]
    turns = node.turns
    node.host.on_durable(node.log.appended_lsn)
    node.host.on_durable(10**9)
    assert not node.wants_turn
    node.turn()
    assert node.turns == turns + 1
    assert node.group().raft.commit_index == node.group().raft.last_index


def entry(index: int, term: int) -> Entry:
    return Entry(index, term, COMMAND, (b"x",))


def append(term: int, entries: list[Entry]) -> AppendRequest:
    """Behind the first entry of the log, which is of term 1, or at its beginning."""
    previous = entries[0].index - 1
    return AppendRequest(term, previous, min(previous, 1), 0, entries)


def send(node: Node, sender: int, message: Message) -> None:
    lane: list[bytes] = []
    put(lane, GROUP, INCARNATION, sender, encode(message))
    node.host.receive(sender, memoryview(b"".join(lane)))


@pytest.mark.parametrize("in_one_turn", [False, True])
def test_the_sync_of_an_entry_that_was_replaced_says_nothing_of_the_same_one_that_came_again(
    in_one_turn: bool,
) -> None:
    world = World()
    node = world.nodes[3]
    node.add(GROUP, world.members)
    send(node, 1, append(1, [entry(1, 1), entry(2, 1)]))
    node.turn()
    first_lsn = node.log.flushed_lsn
    send(node, 2, append(2, [entry(2, 2)]))
    if not in_one_turn:
        node.turn()
    send(node, 1, append(3, [entry(2, 1), entry(3, 3)]))
    if not in_one_turn:
        node.turn()
    node.host.on_durable(first_lsn)
    node.turn()
    assert node.group().raft.durable_index < 2
    node.sync()
    node.turn()
    assert node.group().raft.durable_index == 3


def test_one_turn_is_one_flush_and_one_send_for_each_peer_and_lane() -> None:
    world = World()
    for uid in range(10, 30):
        world.add_group(uid)
    for uid in range(10, 30):
        world.elect(1, uid)
    node = world.nodes[1]
    for uid in range(10, 30):
        node.group(uid).propose([b"x"])
        node.group(uid).propose([b"y"])
    node.links.sends.clear()
    flushes = node.log.flushes
    node.turn()
    assert node.links.sends == [(2, BULK), (3, BULK)]
    assert node.log.flushes == flushes + 1


def test_votes_and_answers_take_the_control_lane_and_entries_the_other() -> None:
    world = World()
    world.add_group()
    world.elect(1)
    assert {lane for _, lane in world.nodes[2].links.sends} == {CONTROL}
    assert {lane for _, lane in world.nodes[1].links.sends} == {CONTROL, BULK}


# Losing the leader


def test_another_member_takes_over_from_a_leader_whose_connections_are_lost() -> None:
    world = formed()
    world.nodes[1].group().propose([b"a"])
    world.settle()
    world.kill(1)
    world.tick(10)
    leader = world.leader()
    assert leader.member in (2, 3)
    leader.group().propose([b"b"])
    world.settle()
    world.tick(10)
    assert commands(world, 2) == commands(world, 3) == [b"a", b"b"]
    assert leader.host.counters.suspicions == 1


def test_proposals_of_a_leader_that_was_cut_off_stay_open_until_their_place_is_decided() -> None:
    world = formed()
    old = world.nodes[1]
    world.cut(1, 2)
    world.cut(1, 3)
    lost = [old.group().propose([command]) for command in COMMANDS]
    world.settle()
    world.tick(100)
    assert world.leader().member != 1
    assert not old.group().is_leader
    assert old.owner().outcomes == []
    world.leader().group().propose([b"z"])
    world.settle()
    world.heal()
    world.tick(100)
    assert old.owner().outcomes == [(*place, LOST) for place in lost if place is not None]
    assert len(old.owner().outcomes) == 3
    assert commands(world, 1) == [b"z"]


def test_a_proposal_that_the_next_leader_has_is_committed_for_its_proposer() -> None:
    world = formed()
    old = world.nodes[1]
    place = old.group().propose([b"a"])
    assert place is not None
    old.turn()
    world.deliver()
    for member in (2, 3):
        world.nodes[member].turn()
        world.nodes[member].sync()
        world.nodes[member].turn()
    world.cut(1, 2)
    world.cut(1, 3)
    world.tick(100)
    world.heal()
    world.tick(100)
    assert old.owner().outcomes == [(*place, COMMITTED)]


def test_leadership_is_handed_over_under_load_and_every_proposal_has_one_outcome() -> None:
    world = formed()
    old = world.nodes[1]
    places = [old.group().propose([str(number).encode()]) for number in range(50)]
    old.turn()
    assert old.group().transfer(2)
    assert old.group().propose([b"refused"]) is None
    world.settle()
    world.tick(5)
    assert world.leader().member == 2
    new = world.leader()
    new.group().propose([b"after"])
    world.settle()
    world.tick(50)
    assert [outcome[:2] for outcome in old.owner().outcomes] == places
    assert {outcome for _, _, outcome in old.owner().outcomes} == {COMMITTED}
    assert commands(world, 1) == commands(world, 2) == commands(world, 3)
    assert commands(world, 1)[-1] == b"after"


def test_a_node_that_is_to_stop_has_others_lead_what_it_leads() -> None:
    world = formed()
    old = world.nodes[1]
    assert old.host.hand_over() == 1
    world.settle()
    world.tick(5)
    assert world.leader().member != 1
    assert old.host.hand_over() == 0


def test_a_node_that_reaches_nobody_has_nobody_to_hand_over_to() -> None:
    world = formed()
    world.cut(1, 2)
    world.cut(1, 3)
    assert world.nodes[1].host.hand_over() == 0
    assert world.nodes[1].group().is_leader


def test_a_leader_that_hears_nobody_gives_up() -> None:
    world = formed()
    world.rest()
    world.cut(1, 2)
    world.cut(1, 3)
    world.tick(100)
    assert not world.nodes[1].group().is_leader


# Sleep


def test_a_group_at_rest_gets_no_ticks_and_sends_nothing_in_10000_ticks() -> None:
    world = formed()
    world.nodes[1].group().propose([b"x"])
    world.settle()
    world.rest()
    for node in world.living():
        node.links.sends.clear()
        node.turns = 0
    world.tick(10_000)
    for node in world.living():
        assert node.links.sends == []
        assert node.turns == 0
        assert node.host.hibernating_count == 1
    assert [node.host.counters.elections for node in world.living()] == [1, 0, 0]


def test_a_proposal_wakes_its_group_and_the_others_sleep_on() -> None:
    world = World()
    for uid in (10, 11):
        world.add_group(uid)
        world.elect(1, uid)
    world.rest()
    world.nodes[1].group(10).propose([b"x"])
    world.settle()
    assert [node.host.hibernating_count for node in world.living()] == [1, 1, 1]
    world.rest()
    assert commands_of(world, 10) == [[b"x"]] * 3


def commands_of(world: World, uid: int) -> list[list[bytes]]:
    return [[command for _, command in node.owner(uid).applied] for node in world.living()]


def test_a_sleeping_group_elects_when_the_node_of_its_leader_is_suspected() -> None:
    world = formed()
    world.rest()
    world.kill(1)
    assert world.nodes[2].wants_turn
    world.tick(10)
    assert world.leader().member in (2, 3)


def test_a_silent_node_is_suspected_without_a_lost_connection() -> None:
    world = formed()
    world.rest()
    world.nodes[1].is_alive = False
    world.tick(24)
    assert not any(node.group().is_leader for node in world.living())
    world.tick(16)
    assert world.leader().member in (2, 3)


def test_who_asked_is_told_of_a_node_that_is_trusted_again_before_anything_of_it_is_received() -> (
    None
):
    host = formed().nodes[1].host
    told: list[bool] = []
    host.when_trusted(lambda: told.append(host.detector.is_trusted(2)))
    host.lost(2)
    assert told == []
    host.connected(2)
    assert told == [True]
    for now_ms in range(0, 2 * SILENCE_MS, BEAT_MS):
        host.tick(now_ms)
    assert told == [True] and not host.detector.is_trusted(2)
    host.heard(2)
    host.heard(2)
    assert told == [True, True]


def test_a_member_that_was_away_catches_up_and_the_group_sleeps_again() -> None:
    world = formed()
    world.rest()
    world.cut(1, 3)
    world.cut(2, 3)
    for command in COMMANDS:
        world.nodes[1].group().propose([command])
    world.settle()
    world.tick(100)
    assert world.nodes[1].host.hibernating_count == 1
    assert commands(world, 3) == []
    world.heal()
    world.rest()
    assert commands(world, 3) == COMMANDS
    assert world.leader().member == 1


def test_1000_groups_lose_a_leader_and_all_have_another_one() -> None:
    world = World()
    uids = range(100, 1100)
    for uid in uids:
        world.add_group(uid)
        world.nodes[1].group(uid).campaign()
    world.settle()
    world.rest()
    assert world.nodes[1].host.hibernating_count == 1000
    world.kill(1)
    for node in world.living():
        node.turn()
        assert node.host.group_count - node.host.hibernating_count == NEWS_MAX
        assert node.wants_turn
    world.rest()
    for uid in uids:
        assert world.leader(uid).member in (2, 3)
    assert world.nodes[2].host.counters.suspicions == 1


# Groups that come and go


def test_a_group_that_is_created_anew_does_not_hear_what_was_said_to_the_old_one() -> None:
    world = formed()
    world.nodes[1].group().propose([b"old"])
    world.nodes[1].turn()
    node = world.nodes[2]
    node.host.remove(GROUP)
    node.add(GROUP, world.members, INCARNATION + 1)
    strays = node.host.counters.strays
    world.settle()
    assert node.host.counters.strays > strays
    assert node.group().raft.last_index == 0
    assert node.owner().applied == []
    for member in (1, 3):
        world.nodes[member].host.remove(GROUP)
        world.nodes[member].add(GROUP, world.members, INCARNATION + 1)
    world.elect(2)
    node.group().propose([b"new"])
    world.settle()
    world.tick(20)
    assert [commands(world, member) for member in (1, 2, 3)] == [[b"new"]] * 3


def test_what_the_log_has_of_a_group_beyond_what_is_restored_is_given_up() -> None:
    world = World()
    node = world.nodes[1]
    for index in range(1, 6):
        node.log.append_raft_entries(GROUP, INCARNATION, index, 1, 1, COMMAND, [[b"x"]])
    point = SnapshotPoint(2, 1, 1, Config(world.members))
    node.restore(GROUP, Restored(HardState(1, 0), point, 4, [(3, 1, 1)], []))
    assert list(node.log.entries[GROUP]) == [3, 4]


def test_a_group_that_goes_while_the_disk_works_for_it_is_not_heard_of_again() -> None:
    world = formed()
    node = world.nodes[1]
    owner = node.owner()
    refused: list[bool] = []
    node.group().barrier(refused.append)
    node.group().propose([b"x"])
    node.turn()
    group = node.group()
    node.host.remove(GROUP)
    assert refused == [False]
    world.settle()
    world.tick(5)
    assert owner.outcomes == []
    assert owner.applied == []
    assert group.propose([b"y"]) is None
    assert not group.transfer(2)
    assert node.log.released[GROUP] == group.raft.last_index
    assert node.host.group_count == node.host.hibernating_count == 0


def test_an_owner_may_close_its_group_while_it_is_handed_entries() -> None:
    world = formed()
    node = world.nodes[1]
    owner = node.owner()

    def close(entries: Sequence[Entry]) -> None:
        if owner.applied and node.host.group(GROUP) is not None:
            node.host.remove(GROUP)

    owner.on_apply = close
    node.group().propose([b"x"])
    node.group().propose([b"y"])
    world.settle()
    assert owner.outcomes == []
    assert node.host.group(GROUP) is None


def test_an_owner_that_closes_its_group_is_told_nothing_after_that() -> None:
    world = World(1)
    world.add_group()
    node = world.nodes[1]
    node.owner().on_apply = lambda entries: node.host.remove(GROUP)
    node.group().campaign()
    world.settle()
    assert node.owner().applied_index == 1
    assert not any(lead.is_ready for lead in node.owner().leads)


def test_an_owner_may_propose_whenever_it_is_told_an_outcome() -> None:
    world = formed()
    node = world.nodes[1]
    owner = node.owner()

    def go_on(index: int, term: int, outcome: int) -> None:
        if index < 20:
            node.group().propose([b"next"])

    owner.on_outcome = go_on
    node.group().propose([b"first"])
    world.settle()
    world.tick(20)
    assert len(commands(world, 3)) == len(commands(world, 1)) == 19


def test_a_new_member_gets_the_log_and_becomes_a_voter() -> None:
    world = World(4)
    for member in (1, 2, 3):
        world.nodes[member].add(GROUP, (1, 2, 3))
    world.elect(1)
    world.nodes[1].group().propose([b"a"])
    world.settle()
    world.nodes[4].add(GROUP, ())
    answer = world.nodes[1].group().change(AddVoter(4))
    assert isinstance(answer, tuple)
    world.settle()
    world.tick(100)
    assert world.nodes[1].owner().configs[-1] == Config((1, 2, 3, 4))
    assert commands(world, 4) == [b"a"]
    assert world.nodes[4].group().config == Config((1, 2, 3, 4))
    assert (*answer, COMMITTED) in world.nodes[1].owner().outcomes


# Full links, slow and failing disks, snapshots


def test_a_link_that_is_full_gets_no_more_entries_until_there_is_room() -> None:
    world = formed()
    node = world.nodes[1]
    node.links.full.add(3)
    for _ in range(200):
        node.group().propose([bytes(1000)])
        world.settle()
    sent_bytes = node.links.bulk_bytes
    assert len(commands(world, 2)) >= 199
    assert len(commands(world, 3)) < 10
    assert sent_bytes < 300_000
    assert 0 < node.host.counters.held_back < 10
    node.links.full.clear()
    node.host.drained(3)
    world.tick(20)
    assert len(commands(world, 3)) == 200


def test_a_link_that_was_full_when_it_was_lost_is_used_again_when_it_is_back() -> None:
    world = formed()
    node = world.nodes[1]
    node.links.full.add(3)
    node.group().propose([b"a"])
    world.settle()
    world.cut(1, 3)
    world.tick(5)
    node.links.full.clear()
    world.heal()
    world.tick(5)
    assert commands(world, 3) == [b"a"]


def test_entries_that_left_memory_are_read_for_a_member_that_is_behind() -> None:
    world = formed()
    world.cut(1, 3)
    world.cut(2, 3)
    leader = world.nodes[1]
    for number in range(100):
        leader.group().propose([number.to_bytes(2, "big")], [b"body"])
        world.settle()
    leader.group().raft.forget(leader.group().raft.applied_index)
    world.heal()
    world.tick(20)
    assert len(commands(world, 3)) == 100


def test_a_read_of_the_log_that_fails_is_tried_again() -> None:
    world = formed()
    world.cut(1, 3)
    world.cut(2, 3)
    leader = world.nodes[1]
    leader.group().propose([b"a"])
    world.settle()
    leader.group().raft.forget(leader.group().raft.applied_index)
    leader.log.failing_reads = 2
    world.heal()
    world.settle()
    assert leader.host.counters.read_failures == 1
    assert commands(world, 3) == []
    world.tick(3 * RETRY_TICKS)
    assert leader.host.counters.read_failures == 2
    assert commands(world, 3) == [b"a"]


def lagging() -> World:
    """The third member lacks what is only in the snapshot of the leader."""
    world = formed(3, Settings(trailing_entries_max=0))
    world.cut(1, 3)
    world.cut(2, 3)
    leader = world.nodes[1]
    for number in range(100):
        leader.group().propose([number.to_bytes(2, "big")])
    world.settle()
    leader.owner().take_snapshot()
    world.settle()
    return world


def test_a_member_that_is_far_behind_gets_a_snapshot_in_slices() -> None:
    world = lagging()
    leader = world.nodes[1]
    assert leader.log.released[GROUP] == leader.owner().applied_index
    world.heal()
    world.tick(50)
    assert len(commands(world, 3)) == 100
    assert leader.host.counters.snapshots_sent == 1
    assert world.nodes[3].host.counters.snapshots_received == 1
    leader.group().propose([b"after"])
    world.settle()
    world.tick(20)
    assert commands(world, 3)[-1] == b"after"
    world.rest()


def test_a_snapshot_that_passes_over_open_proposals_leaves_them_unknown() -> None:
    world = formed(3, Settings(trailing_entries_max=0))
    world.cut(1, 2)
    world.cut(1, 3)
    places = [world.nodes[1].group().propose([command]) for command in COMMANDS]
    world.settle()
    world.tick(100)
    leader = world.leader()
    for command in COMMANDS:
        leader.group().propose([command])
    world.settle()
    leader.owner().take_snapshot()
    world.settle()
    world.heal()
    world.tick(50)
    told = world.nodes[1].owner().outcomes
    assert told == [(*place, UNKNOWN) for place in places if place is not None]
    assert len(told) == 3
    assert commands(world, 1) == COMMANDS


def test_a_group_that_goes_while_a_slice_is_staged_is_not_heard_of_again() -> None:
    world = lagging()
    node = world.nodes[3]
    owner = node.owner()
    owner.staging = []
    world.heal()
    for _ in range(50):
        world.tick()
        if owner.staging:
            break
    assert owner.staging
    node.host.remove(GROUP)
    for done in owner.staging:
        done()
    world.tick(5)
    assert node.host.counters.snapshots_received == 0


def test_the_status_of_a_group_says_how_it_stands() -> None:
    world = formed()
    world.nodes[1].group().propose([b"x"])
    (status,) = world.nodes[1].host.status()
    assert (status.uid, status.incarnation, status.open_proposals) == (GROUP, INCARNATION, 1)
    assert not status.is_hibernating
    world.rest()
    (status,) = world.nodes[1].host.status()
    assert status.is_hibernating
    assert status.open_proposals == 0
    assert (status.raft.role, status.raft.leader, status.raft.member) == ("leader", 1, 1)
