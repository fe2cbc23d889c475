"""How much a turn of a host takes: entries are bounded, whatever has arrived or is committed."""

from raft.codec import encode
from raft.entries import COMMAND, CONFIG, Config, Entry
from raft.host import TICK_MS, TURN_ENTRIES_MAX
from raft.links import put
from raft.membership import AddLearner, encode_config
from raft.messages import AppendRequest
from raft.settings import Settings
from tests.unit.raft.host_world import GROUP, INCARNATION, Node, World

PORTION = TURN_ENTRIES_MAX // 2


def formed(settings: Settings | None = None, groups: int = 1) -> World:
    """Groups of three nodes, all led by the first."""
    world = World(3, settings)
    for uid in range(GROUP, GROUP + groups):
        world.add_group(uid)
        world.elect(1, uid)
    return world


def send(node: Node, sender: int, message: AppendRequest) -> None:
    lane: list[bytes] = []
    put(lane, GROUP, INCARNATION, sender, encode(message))
    node.host.receive(sender, memoryview(b"".join(lane)))


def test_what_has_arrived_beyond_a_turns_share_is_taken_in_by_the_next_turns() -> None:
    world = World()
    node = world.nodes[3]
    node.add(GROUP, world.members)
    for first in range(1, 1 + 5 * PORTION, PORTION):
        entries = [Entry(first + place, 1, COMMAND, (b"x",)) for place in range(PORTION)]
        message = AppendRequest(1, first - 1, 1 if first > 1 else 0, 0, entries)
        send(node, 1, message)
    lengths: list[int] = []
    while node.wants_turn:
        node.turn()
        lengths.append(node.group().raft.last_index)
    assert lengths == [2 * PORTION, 4 * PORTION, 5 * PORTION]
    assert list(node.log.entries[GROUP]) == list(range(1, 5 * PORTION + 1))


def test_groups_beyond_a_turns_share_go_first_in_the_next_one() -> None:
    settings = Settings(apply_entries_max=TURN_ENTRIES_MAX)
    world = formed(settings, groups=4)
    leader = world.nodes[1]
    for uid in range(GROUP, GROUP + 4):
        for _ in range(PORTION):
            leader.group(uid).propose([b"x"])
    handed: list[list[int]] = []
    while leader.wants_turn:
        leader.turn()
        groups = range(GROUP, GROUP + 4)
        handed.append([uid - GROUP for uid in groups if len(leader.log.entries[uid]) > PORTION])
    assert handed[:2] == [[0, 1], [0, 1, 2, 3]]
    world.tick(2)
    for node in world.living():
        assert [len(node.owner(uid).applied) for uid in range(GROUP, GROUP + 4)] == [PORTION] * 4


def test_a_group_that_goes_while_it_waits_for_its_turn_is_passed_over() -> None:
    world = formed(groups=4)
    leader = world.nodes[1]
    for uid in range(GROUP, GROUP + 4):
        for _ in range(PORTION):
            leader.group(uid).propose([b"x"])
    leader.turn()
    leader.host.remove(GROUP + 3)
    leader.turn()
    assert len(leader.log.entries[GROUP + 2]) == PORTION + 1
    assert GROUP + 3 not in leader.log.entries or not leader.log.entries[GROUP + 3]


def test_entries_that_are_alike_go_to_the_log_at_once_and_others_apart() -> None:
    world = World()
    node = world.nodes[3]
    node.add(GROUP, world.members)
    config = encode_config(Config((1, 2, 3), (4,)))
    entries = [
        Entry(1, 1, COMMAND, (b"a",)),
        Entry(2, 1, COMMAND, (b"b", b"c")),
        Entry(3, 2, COMMAND, (b"d",)),
        Entry(4, 2, CONFIG, (config,)),
        Entry(5, 2, COMMAND, (b"e",), (b"body",)),
        Entry(6, 2, COMMAND, (b"f",)),
    ]
    message = AppendRequest(2, 0, 0, 0, entries)
    send(node, 1, message)
    node.turn()
    assert node.log.calls == [(1, 2), (3, 1), (4, 1), (5, 2)]  # first index, count
    assert [entry[:2] + entry[3:] for entry in node.log.entries[GROUP].values()] == [
        (1, 1, COMMAND, b"a"),
        (2, 1, COMMAND, b"bc"),
        (3, 2, COMMAND, b"d"),
        (4, 2, CONFIG, config),
        (5, 2, COMMAND, b"e"),
        (6, 2, COMMAND, b"f"),
    ]
    assert [what for what, _, _ in node.log.records[-3:]] == ["body", "entry", "entry"]
    assert {entry[2] for entry in node.log.entries[GROUP].values()} == {2}


def test_a_leader_hands_entries_of_a_change_of_members_apart() -> None:
    world = formed()
    group = world.nodes[1].group()
    world.nodes[1].log.calls.clear()
    group.propose([b"a"])
    group.change(AddLearner(4))
    group.propose([b"b"])
    group.propose([b"c"])
    world.nodes[1].turn()
    assert [count for _, count in world.nodes[1].log.calls] == [1, 1, 2]


def test_the_answer_of_the_slower_follower_costs_the_leader_no_turn() -> None:
    world = formed()
    world.tick()
    leader, fast, slow = (world.nodes[member] for member in (1, 2, 3))
    assert leader.group().propose([b"x"]) is not None
    leader.turn()
    leader.sync()
    leader.turn()
    for each in (fast, slow):
        sent, world.wire = world.wire, []
        world.wire = [other for other in sent if other[1] != each.member]
        for sender, to, batch in sent:
            if to == each.member:
                each.host.receive(sender, memoryview(batch))
    for each in (fast, slow):
        each.turn()
        each.sync()
        each.turn()
    answers, world.wire = world.wire, []
    first, second = [batch for _, to, batch in answers if to == leader.member]
    leader.host.receive(fast.member, memoryview(first))
    assert leader.wants_turn, "it is committed by that"
    leader.turn()
    assert len(leader.owner().applied) == 1
    leader.host.receive(slow.member, memoryview(second))
    assert not leader.wants_turn
    leader.host.tick(world.now_ms + TICK_MS)
    assert leader.wants_turn, "it is taken in at a tick at the latest"
    world.rest()
    assert [len(node.owner().applied) for node in world.living()] == [1, 1, 1]


def test_the_own_sync_of_a_leader_costs_a_turn_only_if_it_commits() -> None:
    world = formed()
    world.tick()
    leader, fast = world.nodes[1], world.nodes[2]
    assert leader.group().propose([b"x"]) is not None
    leader.turn()
    leader.sync()
    assert not leader.wants_turn, "no follower has answered"
    sent, world.wire = world.wire, []
    for sender, to, batch in sent:
        if to == fast.member:
            fast.host.receive(sender, memoryview(batch))
    fast.turn()
    fast.sync()
    assert fast.wants_turn, "the leader waits for this"
    fast.turn()
    answers, world.wire = world.wire, []
    leader.host.receive(fast.member, memoryview(answers[0][2]))
    leader.turn()
    assert len(leader.owner().applied) == 1, "the own sync was taken in with the answer"
    assert leader.group().propose([b"y"]) is not None
    leader.turn()
    sent, world.wire = world.wire, []
    for sender, to, batch in sent:
        if to == fast.member:
            fast.host.receive(sender, memoryview(batch))
    fast.turn()
    fast.sync()
    fast.turn()
    [(_, _, answer)], world.wire = [each for each in world.wire if each[1] == 1], []
    leader.host.receive(fast.member, memoryview(answer))
    leader.turn()
    assert len(leader.owner().applied) == 1, "only one disk has it"
    leader.sync()
    assert leader.wants_turn, "it is committed by that"
    world.rest()
    assert [len(node.owner().applied) for node in world.living()] == [2, 2, 2]


def test_a_sync_that_costs_no_turn_is_taken_in_at_a_tick() -> None:
    world = formed()
    world.tick()
    leader = world.nodes[1]
    assert leader.group().propose([b"x"]) is not None
    leader.turn()
    leader.sync()
    assert not leader.wants_turn
    leader.host.tick(world.now_ms + TICK_MS)
    assert leader.wants_turn
    leader.turn()
    assert leader.group().raft.durable_index == leader.group().raft.last_index
