"""The definitions of a cluster in situations that have a name."""

from typing import Final

import pytest

from queues.definitions.broker_objects import Queue
from queues.definitions.metadata import commands
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.outcomes import Created, Deleted, Exists, Outcome, Refused
from raft.entries import Config
from tests.sim.definitions.node import Node
from tests.sim.definitions.world import SETTLE_MS, Asked, Bounds, World, binding

BOUNDS: Final = Bounds()


def cluster(count: int = 3, seed: int = 1, bounds: Bounds = BOUNDS) -> World:
    world = World(seed, count, bounds)
    world.settle()
    return world


def leader(world: World) -> Node:
    return next(node for node in world.up() if node.definitions.is_leader)


def others(world: World, node: Node) -> list[Node]:
    return [each for each in world.up() if each is not node]


def answer(world: World, asked: Asked, limit_ms: int = SETTLE_MS) -> Outcome:
    world.run_until(lambda: asked.outcome is not None, limit_ms, "an answer")
    assert asked.outcome is not None
    return asked.outcome


def tell(world: World, node: Node, command: Command) -> Outcome:
    return answer(world, world.ask(node, command))


def exclusive(node: Node, name: str) -> commands.DeclareQueue:
    owner = f"{node.user.incarnation:016x}.1"
    return commands.DeclareQueue("/", name, False, owner, node=node.name)


def names(node: Node) -> set[str]:
    return set(node.machine.vhosts["/"].queues)


def config_of(world: World) -> Config:
    return leader(world).definitions.group.raft.config


# Answers


def test_what_is_declared_on_one_node_is_known_on_all_when_that_is_answered() -> None:
    world = cluster()
    for number, node in enumerate([*world.up()] * 3):
        asked = world.ask(node, commands.DeclareQueue("/", f"q{number}", True, node=node.name))
        bound = world.ask(node, binding(f"q{number}", ""))
        assert isinstance(answer(world, asked), Created)
        assert all(f"q{number}" in names(each) for each in world.up())
        assert isinstance(answer(world, bound), Created)
        for each in world.up():
            assert len(each.machine.vhosts["/"].bindings()) == number + 1


def test_commands_of_all_nodes_of_a_turn_share_an_entry() -> None:
    world = cluster()
    node = leader(world)
    index = node.machine.applied_index
    asked = [
        world.ask(each, commands.DeclareQueue("/", f"q{each.member}{number}", True))
        for each in others(world, node)
        for number in range(50)
    ]
    for each in asked:
        answer(world, each)
    assert node.machine.applied_index - index <= 10


def answered_after(world: World, node: Node) -> int:
    """How long an answer takes."""
    began = world.now_ms
    world.tokens += 1
    tell(world, node, commands.PutParameter("", "", f"k{world.tokens}", b"1"))
    return world.now_ms - began


def test_a_node_that_lags_is_waited_for_and_not_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    """The log says so once, and once more when it has caught up and lags again."""
    world = cluster()
    asking = leader(world)
    lagging = others(world, asking)[0].member
    for count in (1, 2):
        world.stalled.add(lagging)
        assert 5_000 <= answered_after(world, asking) <= 5_500
        assert answered_after(world, asking) >= 5_000
        told = [each for each in caplog.messages if "answered without it" in each]
        assert len(told) == count, caplog.messages
        assert asking.definitions.status().lags[lagging] == 2
        world.stalled.clear()
        assert answered_after(world, asking) <= 500


def test_a_node_that_does_not_serve_yet_is_not_waited_for() -> None:
    world = cluster()
    asking = leader(world)
    lagging = others(world, asking)[0]
    world.crash(lagging)
    world.start(lagging)
    world.run_until(lambda: lagging.definitions.leader != 0, SETTLE_MS, "a leader")
    world.run(500)
    world.stalled.add(lagging.member)
    assert answered_after(world, asking) <= 500


def test_a_link_that_is_new_says_how_far_the_other_is() -> None:
    world = cluster()
    asking = leader(world)
    other = others(world, asking)[0]
    asked = world.ask(asking, commands.PutParameter("", "", "lost", b"1"))
    way = (other.member, asking.member, False, 0)
    world.run_until(lambda: way in world.channels, SETTLE_MS, "word that it is applied")
    world.cut(asking, other)
    world.connect(asking, other)
    answer(world, asked, 500)
    world.stalled.add(other.member)
    world.cut(asking, other)
    world.connect(asking, other)
    for key in [key for key in world.channels if key[:2] == (other.member, asking.member)]:
        del world.channels[key]  # They are on their way.
    assert answered_after(world, asking) >= 5_000


def test_a_node_that_is_suspected_is_not_waited_for() -> None:
    world = cluster()
    asking = leader(world)
    silent = others(world, asking)[0]
    asking.mute[silent.member] = 1 << 60
    world.stalled.add(silent.member)
    world.run(2_000)
    assert answered_after(world, asking) <= 500


def test_without_a_majority_changes_time_out_and_what_clears_away_waits() -> None:
    world = cluster()
    node = others(world, leader(world))[0]
    tell(world, node, exclusive(node, "x"))
    for other in others(world, node):
        world.cut(node, other)
    began = world.now_ms
    declared = world.ask(node, commands.DeclareQueue("/", "q", True))
    cleared = world.ask(node, commands.DeleteByOwner(f"{node.user.incarnation:016x}.1"))
    outcome = answer(world, declared)
    assert isinstance(outcome, Refused)
    assert (
        outcome.text == "failed to declare queue 'q' in vhost '/' because the operation timed out"
    )
    assert 15_000 <= world.now_ms - began <= 15_300
    assert cleared.outcome is None and "x" in names(node), "read as it was"
    world.settle()
    assert isinstance(cleared.outcome, Deleted) and "x" not in names(node)
    assert "q" not in names(node), "who asked has heard that it failed"


def test_the_leader_is_lost_and_the_next_one_answers() -> None:
    world = cluster()
    old = leader(world)
    node = others(world, old)[0]
    asked = [world.ask(node, commands.PutParameter("", "", f"k{each}", b"1")) for each in range(9)]
    world.run(20)
    world.crash(old)
    for each in asked:
        assert isinstance(answer(world, each, 10_000), Created)


# Processes


def test_exclusive_queues_of_a_node_that_starts_again_go_at_once() -> None:
    world = cluster()
    node = others(world, leader(world))[0]
    tell(world, node, exclusive(node, "x"))
    tell(world, node, commands.DeclareQueue("/", "transient", node=node.name))
    tell(world, node, commands.DeclareQueue("/", "durable", True, node=node.name))
    world.crash(node)
    world.run(5_000)
    assert names(leader(world)) == {"x", "transient", "durable"}, "it may come back"
    world.settle()
    assert all(names(each) == {"durable"} for each in world.up())
    assert node.user.times_given_up == 0


def test_a_process_that_is_cut_off_for_too_long_is_given_up_and_begins_anew() -> None:
    world = cluster(bounds=Bounds(grace_ms=2_000))
    node = others(world, leader(world))[0]
    process = node.user.incarnation
    tell(world, node, exclusive(node, "x"))
    for other in others(world, node):
        world.cut(node, other)
    world.run(1_500)
    assert "x" in names(leader(world))
    lost = world.ask(node, commands.DeclareQueue("/", "q", True))
    world.run(3_000)
    assert names(leader(world)) == set()
    world.settle()
    assert node.user.times_given_up == 1 and node.user.incarnation != process
    assert process in world.ended
    assert isinstance(lost.outcome, Refused) and "cut off" in lost.outcome.text
    assert isinstance(tell(world, node, exclusive(node, "x")), Created)
    assert node.definitions.process_of(node.name) == node.user.incarnation


def test_many_queues_of_a_process_go_in_slices() -> None:
    world = cluster()
    node = others(world, leader(world))[0]
    for number in range(1200):
        world.ask(node, exclusive(node, f"x{number}"))
    world.settle()
    world.crash(node)
    index = leader(world).machine.applied_index
    world.settle()
    assert names(node) == set()
    assert leader(world).machine.applied_index - index >= 4


# Members


def test_a_node_that_joins_gets_the_state_and_becomes_a_voter() -> None:
    world = cluster()
    world.save_entries = 3
    for number in range(40):
        tell(world, world.up()[number % 3], commands.DeclareQueue("/", f"q{number}", True))
    told: list[tuple[object, object]] = []
    world.up()[0].definitions.on_changed.append(lambda *change: told.append(change))
    node = world.join("n4", 44)
    world.run_until(lambda: 4 in config_of(world).voters, SETTLE_MS, "a fourth voter")
    world.settle()
    assert node.member == 4 and len(names(node)) == 40
    assert told == [(None, node.machine.roster.members[4])]
    asked = world.ask(node, commands.DeclareQueue("/", "mine", True))
    assert isinstance(answer(world, asked), Created)
    assert all("mine" in names(each) for each in world.up())


def test_a_state_comes_in_slices_where_the_log_is_gone() -> None:
    world = cluster(seed=3, bounds=Bounds(save_entries=5, slice_bytes=300))
    world.settings.trailing_entries_max = 0
    lost = others(world, leader(world))[0]
    world.crash(lost)
    asking = others(world, lost)
    for number in range(30):
        tell(world, asking[number % 2], commands.DeclareQueue("/", f"q{number}", True))
    world.start(lost)
    lost.serve()
    asked = [world.ask(each, commands.PutParameter("", "", each.name, b"1")) for each in asking]
    for each in asked:
        answer(world, each, 4_000)
    world.settle()
    assert lost.host.counters.snapshots_received == 1
    assert len(names(lost)) == 30
    world.crash(lost)
    world.start(lost)
    assert len(names(lost)) >= 29, "what came in is on disk"
    world.settle()


def test_a_node_that_is_forgotten_leaves_the_group_and_its_queues_go() -> None:
    world = cluster()
    gone = others(world, leader(world))[0]
    for number in range(3):
        tell(world, gone, commands.DeclareQueue("/", f"q{number}", True, node=gone.name))
    tell(world, gone, commands.DeclareQueue("/", "kept", True, node=leader(world).name))
    world.forget(gone)
    world.run_until(
        lambda: gone.member not in config_of(world).members(), SETTLE_MS, "a smaller group"
    )
    world.settle()
    assert all(names(each) == {"kept"} for each in world.up())
    again = world.ask(world.up()[0], commands.AddMember(gone.name, gone.member, "h", 9))
    assert isinstance(answer(world, again), Refused)


def test_a_wiped_node_comes_back_as_another_member() -> None:
    world = cluster()
    gone = others(world, leader(world))[0]
    world.crash(gone)
    del world.nodes[gone.member]
    node = world.join(gone.name, 77)
    assert node.member == 4
    world.run_until(
        lambda: config_of(world).voters == tuple(sorted({1, 2, 3, 4} - {gone.member})),
        SETTLE_MS,
        "three voters again",
    )
    world.settle()
    assert node.machine.roster.named(gone.name) == node.machine.roster.members[4]


# Disk


def test_a_queue_that_no_save_holds_is_known_by_its_birth() -> None:
    world = cluster()
    node = others(world, leader(world))[0]
    declared = tell(world, node, commands.DeclareQueue("/", "q", True, node=node.name))
    assert isinstance(declared, Created) and isinstance(declared.subject, Queue)
    tell(world, node, commands.DeclareQueue("/", "elsewhere", True, node="n9"))
    tell(world, node, exclusive(node, "x"))
    world.run(500)
    world.crash(node)
    world.start(node)
    assert node.machine.queue(declared.subject.uid) is None, "what is committed is unknown"
    assert node.recovery.queue(declared.subject.uid) == declared.subject
    assert node.recovered == {"q"}
    world.settle()
    assert node.user.unborn_names == [] and "q" in names(node)


def test_a_birth_whose_queue_is_gone_is_told_when_the_log_is_applied() -> None:
    world = cluster()
    node = others(world, leader(world))[0]
    tell(world, node, commands.DeclareQueue("/", "q", True, node=node.name))
    tell(world, node, commands.DeclareQueue("/", "kept", True, node=node.name))
    world.run(500)
    world.crash(node)
    tell(world, leader(world), commands.DeleteQueue("/", "q"))
    world.settle()
    assert node.recovered == {"q", "kept"} and node.user.unborn_names == []
    assert names(node) == {"kept"}


def test_a_save_lets_the_log_and_the_births_go() -> None:
    world = cluster()
    world.settings.trailing_entries_max = 0
    node = others(world, leader(world))[0]
    for number in range(4):
        tell(world, node, commands.DeclareQueue("/", f"q{number}", True, node=node.name))
    world.run(500)
    node.definitions.save()
    world.run_until(lambda: not node.definitions.is_saving, SETTLE_MS, "a save")
    assert node.log.released == node.machine.applied_index
    assert node.log.released_births == 4
    world.crash(node)
    world.start(node)
    assert len(names(node)) == 4 and node.recovered <= set()
    world.settle()


def test_a_cluster_of_one_is_a_cluster() -> None:
    world = cluster(1)
    node = world.up()[0]
    assert isinstance(tell(world, node, commands.DeclareQueue("/", "q", True)), Created)
    assert isinstance(tell(world, node, commands.DeclareQueue("/", "q", True)), Exists)
    world.crash(node)
    world.settle()
    assert "q" in names(node)


# Saves


def test_what_a_part_has_waited_for_is_known_after_a_crash() -> None:
    world = cluster()
    node = leader(world)
    done: list[int] = []
    for number in range(3):
        tell(world, node, commands.DeclareQueue("/", f"q{number}", True))
        node.definitions.when_saved(lambda: done.append(node.machine.applied_index))
    world.run_until(lambda: len(done) == 3, SETTLE_MS, "saves")
    node.definitions.when_saved(lambda: done.append(0))
    assert done[-1] == 0, "nothing was applied since then, and it is not told at once"
    world.crash(node)
    world.start(node)
    assert {"q0", "q1", "q2"} <= set(node.recovery.machine.vhosts["/"].queues)


def test_nothing_is_told_to_be_saved_before_it_is() -> None:
    world = cluster()
    node = leader(world)
    tell(world, node, commands.DeclareQueue("/", "q", True))
    index = node.machine.applied_index
    done: list[bool] = []
    node.definitions.when_saved(lambda: done.append(True))
    assert node.definitions.group.raft.snapshot_index < index
    assert not done
    world.run_until(lambda: bool(done), SETTLE_MS, "a save")
    assert node.definitions.group.raft.snapshot_index >= index
