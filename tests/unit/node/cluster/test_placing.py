"""Where a declared queue is put: what stays as it is, and what locators, sizes and policies say."""

import logging
from random import Random
from typing import Any

import pytest

from node.cluster.queues.placing import Placing
from queues.definitions.arguments import encode_arguments
from queues.definitions.metadata.commands import (
    Batch,
    Command,
    DeclareQueue,
    DeclareVhost,
    DeleteQueue,
    PutMember,
    PutPolicy,
)
from tests.unit.node.cluster.operating_world import OperatingWorld, member

QUORUM: dict[str, object] = {"x-queue-type": "quorum"}


def declare(name: str = "q", owner: str = "", **arguments: Any) -> DeclareQueue:
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return DeclareQueue(
        "/", name, True, owner, arguments=encode_arguments(table) if table else b"", node="n9"
    )


def placed(world: OperatingWorld, command: Command, here: int = 1) -> Any:
    return Placing(world.nodes[here].cluster_snapshot, Random(1)).placed(command)


def test_other_commands_stay_as_they_are() -> None:
    world = OperatingWorld()
    for command in (DeclareVhost("v"), DeleteQueue("/", "q"), DeclareQueue("none", "q")):
        assert placed(world, command) is command


def test_a_queue_that_is_there_or_names_its_members_stays_as_it_is() -> None:
    world = OperatingWorld()
    world.queue("q", (2, 3))
    command = declare()
    assert placed(world, command) is command
    named = DeclareQueue("/", "new", arguments=encode_arguments(QUORUM), members=(2,))
    assert placed(world, named) is named


def test_a_classic_queue_lives_where_it_is_declared() -> None:
    world = OperatingWorld()
    found = placed(world, declare(), here=2)
    assert (found.node, found.members) == ("n2", ())


def test_a_quorum_queue_has_three_members_and_begins_where_it_is_declared() -> None:
    world = OperatingWorld(5)
    found = placed(world, declare(queue_type="quorum"), here=2)
    assert found.node == "n2"
    assert found.members[0] == 2
    assert len(set(found.members)) == 3


def test_the_size_that_is_asked_for_is_as_large_as_the_cluster_at_most() -> None:
    world = OperatingWorld(2)
    assert sorted(placed(world, declare(queue_type="quorum")).members) == [1, 2]
    wanted = declare(queue_type="quorum", quorum_initial_group_size=1)
    assert placed(world, wanted).members == (1,)


@pytest.mark.parametrize("locator", ["queue_leader_locator", "queue_master_locator"])
def test_a_balanced_queue_goes_where_the_fewest_are(locator: str) -> None:
    world = OperatingWorld()
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n3")):
        world.queue(name, (), node=node)
    found = placed(world, declare(**{locator: "balanced"}))
    assert found.node == "n2"
    led = placed(world, declare(queue_type="quorum", **{locator: "balanced"}))
    assert (led.node, led.members[0]) == ("n2", 2)


def test_leaders_count_where_they_are_and_not_where_they_began() -> None:
    world = OperatingWorld()
    world.queue("a", (1, 2, 3), leader=3, node="n1")
    world.queue("b", (1, 2, 3), leader=2, node="n1")
    assert placed(world, declare(queue_leader_locator="balanced"), here=2).node == "n1"


def test_a_policy_places_queues_that_say_nothing() -> None:
    world = OperatingWorld()
    world.queue("a", (), node="n1")
    world.queue("b", (), node="n2")
    definition = b'{"queue-leader-locator":"balanced"}'
    world.do(PutPolicy("/", "p", False, "^spread", "all", 0, definition))
    assert placed(world, declare("spread")).node == "n3"
    assert placed(world, declare("other")).node == "n1"
    local = declare("spread", queue_leader_locator="client-local")
    assert placed(world, local).node == "n1"


@pytest.mark.parametrize("is_ruled", [False, True])
def test_members_are_spread_over_the_tag_that_argument_or_policy_names(is_ruled: bool) -> None:
    world = OperatingWorld(5)
    for number, rack in enumerate(("r1", "r1", "r1", "r2", "r3"), 1):
        world.do(PutMember(member(number, tags=(("rack", rack),))))
    if is_ruled:
        policy = b'{"member-placement-tag":"rack"}'
        world.do(PutPolicy("/", "p", False, "", "quorum_queues", 0, policy))
    arguments = {} if is_ruled else {"member_placement_tag": "rack"}
    found = [placed(world, declare(f"q{n}", queue_type="quorum", **arguments)) for n in range(5)]
    assert {tuple(sorted(each.members)) for each in found} == {(1, 4, 5)}


def test_an_exclusive_queue_lives_with_its_connection_whatever_is_asked() -> None:
    world = OperatingWorld()
    world.queue("a", (), node="n1")
    found = placed(world, declare(owner="c1", queue_leader_locator="balanced"))
    assert found.node == "n1"


def test_a_drained_node_gets_nothing_new() -> None:
    world = OperatingWorld()
    world.do(PutMember(member(1, draining=True)))
    assert placed(world, declare()).node in ("n2", "n3")
    assert 1 not in placed(world, declare(queue_type="quorum")).members


def test_each_queue_of_a_batch_is_placed() -> None:
    world = OperatingWorld()
    vhost = DeclareVhost("v")
    batch = placed(world, Batch((declare("a"), vhost, declare("b", queue_type="quorum"))))
    first, second, third = batch.commands
    assert (first.node, second, len(third.members)) == ("n1", vhost, 3)


def test_the_queues_of_a_batch_count_for_each_other() -> None:
    world = OperatingWorld(4)
    many = [declare(f"q{number}", queue_leader_locator="balanced") for number in range(8)]
    many += [declare(f"r{number}", queue_type="quorum") for number in range(8)]
    found = placed(world, Batch(tuple(many))).commands
    homes = [each.node for each in found if not each.members]
    assert [homes.count(f"n{number}") for number in (1, 2, 3, 4)] == [2, 2, 2, 2]
    members = [member for each in found for member in each.members]
    assert [members.count(number) for number in (1, 2, 3, 4)] in [
        [8, *rest] for rest in ([5, 5, 6], [5, 6, 5], [6, 5, 5])
    ]


def test_members_that_share_a_zone_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    world = OperatingWorld(3, n1="x", n2="x", n3="y")
    placing = Placing(world.nodes[1].cluster_snapshot, Random(1))
    with caplog.at_level(logging.WARNING):
        placing.placed(declare("a", queue_type="quorum"))
        placing.placed(declare("b", queue_type="quorum"))
    assert [each.getMessage() for each in caplog.records] == [
        "a new quorum queue: 2 of 3 members share the zone 'x'"
    ]
