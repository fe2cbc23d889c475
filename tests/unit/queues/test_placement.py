"""Where new queues go: spread, locators, drained nodes, what is warned of."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.placement.queue_placement import (
    CLIENT_LOCAL,
    QUEUES_COUNTED_MAX,
    Candidate,
    add_member,
    choose_home,
    choose_members,
    host_of,
    tag_of,
)
from tests.unit.queues.placed_nodes import clusters, node

LOCATORS = (CLIENT_LOCAL, "balanced", "random", "least-leaders", "min-masters")


def members_of(
    nodes: list[Candidate], size: int, here: int = 1, locator: str = CLIENT_LOCAL, seed: int = 1
) -> tuple[tuple[int, ...], str]:
    choice = choose_members(nodes, size, here, locator, 0, Random(seed))
    return choice.members, choice.warning


def test_two_members_never_share_a_machine_while_another_is_free() -> None:
    nodes = [node(1, "a"), node(2, "a"), node(3, "b"), node(4, "b"), node(5, "c")]
    for seed in range(20):
        members, warning = members_of(nodes, 3, here=1, seed=seed)
        assert members[0] == 1
        assert 5 in members
        assert len({(number + 1) // 2 for number in members}) == 3
        assert warning == ""


def test_zones_are_looked_at_where_machines_make_no_difference() -> None:
    nodes = [node(1, "a", "x"), node(2, "b", "x"), node(3, "c", "x"), node(4, "d", "y")]
    for seed in range(20):
        assert set(members_of(nodes, 2, seed=seed)[0]) == {1, 4}


def test_the_nodes_with_the_fewest_members_get_the_next_ones() -> None:
    nodes = [node(1), node(2, members=4), node(3, members=1), node(4, members=2)]
    assert set(members_of(nodes, 3)[0]) == {1, 3, 4}


def test_members_that_must_share_a_machine_are_warned_of() -> None:
    nodes = [node(1, "a"), node(2, "a"), node(3, "b")]
    members, warning = members_of(nodes, 3)
    assert set(members) == {1, 2, 3}
    assert warning == "2 of 3 members share the host 'a'"


def test_a_zone_that_takes_the_majority_with_it_is_warned_of() -> None:
    nodes = [node(1, "a", "x"), node(2, "b", "x"), node(3, "c", "y")]
    assert members_of(nodes, 3)[1] == "2 of 3 members share the zone 'x'"
    three = [node(1, "a", "x"), node(2, "b", "y"), node(3, "c", "z")]
    assert members_of(three, 3)[1] == ""
    nowhere = [node(1, "a"), node(2, "b"), node(3, "c")]
    assert members_of(nowhere, 3)[1] == ""


def test_nodes_that_say_nothing_of_their_machine_have_one_of_their_own() -> None:
    assert members_of([node(1), node(2), node(3)], 3)[1] == ""
    assert host_of(node(1).member) != host_of(node(2).member)


def test_a_node_that_is_drained_gets_nothing_new() -> None:
    nodes = [node(1, draining=True), node(2), node(3), node(4)]
    for locator in LOCATORS:
        members, warning = members_of(nodes, 3, here=1, locator=locator)
        assert set(members) == {2, 3, 4}
        assert warning == ""
        assert choose_home(nodes, 1, locator, 0, Random(1)) != 1


def test_nodes_that_are_down_get_members_as_long_as_the_others_are_a_majority() -> None:
    nodes = [node(1), node(2), node(3, running=False), node(4, running=False)]
    members, warning = members_of(nodes, 3)
    assert (members[:2], len(members), warning) == ((1, 2), 3, "")
    members, warning = members_of([node(1), node(2, running=False), node(3, running=False)], 3)
    assert (members, warning) == ((1,), "1 of 3 members: no other node may take one")


def test_a_cluster_that_may_take_nothing_has_the_queue_where_it_was_declared() -> None:
    nodes = [node(1, draining=True), node(2, running=False)]
    assert members_of(nodes, 3)[0] == (1,)
    assert choose_home(nodes, 1, CLIENT_LOCAL, 0, Random(1)) == 1
    assert members_of([], 3) == ((1,), "1 of 3 members: no other node may take one")


def test_a_balanced_queue_is_led_where_the_fewest_are() -> None:
    nodes = [node(1, leaders=3), node(2, leaders=1), node(3, leaders=2)]
    for locator in LOCATORS[1:]:
        assert choose_home(nodes, 1, locator, 6, Random(1)) == 2
    assert choose_home(nodes, 1, CLIENT_LOCAL, 6, Random(1)) == 1
    equal = [node(1, leaders=1), node(2, leaders=1)]
    assert choose_home(equal, 2, "balanced", 2, Random(1)) == 2


def test_above_a_thousand_queues_leaders_are_placed_by_lot() -> None:
    nodes = [node(1, leaders=500), node(2, leaders=1), node(3, leaders=500)]
    many = QUEUES_COUNTED_MAX + 1
    chosen = {choose_home(nodes, 1, "balanced", many, Random(seed)) for seed in range(50)}
    assert chosen == {1, 2, 3}


def test_one_more_member_goes_to_the_machine_that_has_none() -> None:
    nodes = [node(1, "a"), node(2, "b"), node(3, "a"), node(4, "c", members=9)]
    assert add_member(nodes, (1, 2), Random(1)) == 4
    assert add_member(nodes, (1, 2, 4), Random(1)) == 3
    assert add_member(nodes, (1, 2, 3, 4), Random(1)) is None


def tagged(number: int, rack: str, host: str = "") -> Candidate:
    return node(number, host, tags=(("power", "one"), ("rack", rack)))


def test_members_are_spread_over_values_of_the_tag_that_the_queue_names_first() -> None:
    """Over other machines only then; nodes without the tag are one place."""
    nodes = [tagged(1, "r1", "a"), tagged(2, "r1", "b"), tagged(3, "r2", "a"), node(4, "c")]
    for seed in range(20):
        random = Random(seed)
        assert set(choose_members(nodes, 2, 1, CLIENT_LOCAL, 0, random).members) & {2, 4}
        of_racks = choose_members(nodes, 3, 1, CLIENT_LOCAL, 0, random, "rack")
        assert (set(of_racks.members), of_racks.warning) == (
            {1, 3, 4},
            "2 of 3 members share the host 'a'",
        )
        assert add_member(nodes, (1, 4), random, "rack") == 3
        assert add_member(nodes, (1, 4), random) == 2


def test_members_that_share_a_value_of_their_tag_are_warned_of() -> None:
    nodes = [tagged(1, "r1"), tagged(2, "r1"), tagged(3, "r2")]
    choice = choose_members(nodes, 3, 1, CLIENT_LOCAL, 0, Random(1), "rack")
    assert choice.warning == "2 of 3 members share the rack 'r1'"


def test_machine_and_zone_are_tags_that_every_node_has() -> None:
    member = node(1, "h", "z").member
    assert [tag_of(member, key) for key in ("host_id", "zone", "rack")] == ["h", "z", ""]
    other = node(2, "h", "z", tags=(("zone", "y"),)).member
    assert tag_of(other, "zone") == "y"


@pytest.mark.parametrize("locator", LOCATORS)
@given(nodes=clusters(), size=st.integers(1, 7), seed=st.integers(0, 1000), many=st.booleans())
def test_a_new_queue_has_a_majority_and_no_node_twice(
    locator: str, nodes: list[Candidate], size: int, seed: int, many: bool
) -> None:
    here = nodes[seed % len(nodes)].id
    queue_count = QUEUES_COUNTED_MAX + 1 if many else 0
    choice = choose_members(nodes, size, here, locator, queue_count, Random(seed))
    members = choice.members
    by_id = {each.id: each for each in nodes}
    assert len(set(members)) == len(members) <= size
    eligible = [each for each in nodes if each.is_eligible]
    if not eligible:
        assert members == (here,)
        return
    assert by_id[members[0]].is_eligible
    assert all(not by_id[each].member.draining for each in members)
    running = sum(by_id[each].is_running for each in members)
    assert 2 * running > len(members)
    assert len(members) == size or choice.warning
    hosts = {host_of(each.member) for each in eligible}
    used = {host_of(by_id[each].member) for each in members}
    assert len(used) >= min(size, len(hosts))
