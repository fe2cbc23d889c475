"""Which nodes of a cluster pause in a partition, under each strategy."""

import pytest

from node.cluster.services.partition_rule import PartitionRule, Strategy

FIVE = ("a", "b", "c", "d", "e")


@pytest.mark.parametrize(
    ("members", "reachable", "pauses"),
    [
        (("a",), ("a",), False),
        (("a", "b"), ("a", "b"), False),
        (("a", "b"), ("a",), True),
        (("a", "b", "c"), ("a", "b"), False),
        (("a", "b", "c"), ("c",), True),
        (("a", "b", "c", "d"), ("a", "b"), True),
        (("a", "b", "c", "d"), ("a", "b", "c"), False),
        (FIVE, ("a", "b", "c"), False),
        (FIVE, ("d", "e"), True),
    ],
)
def test_pause_minority_pauses_nodes_that_reach_half_of_the_members_or_fewer(
    members: tuple[str, ...], reachable: tuple[str, ...], pauses: bool
) -> None:
    assert PartitionRule("pause_minority").must_pause(members, reachable) is pauses


@pytest.mark.parametrize(
    ("reachable", "pauses"),
    [(("a",), False), (("d", "e"), True), (("e", "b"), False), (FIVE, False)],
)
def test_pause_if_all_down_pauses_nodes_that_reach_no_listed_node(
    reachable: tuple[str, ...], pauses: bool
) -> None:
    rule = PartitionRule("pause_if_all_down", ("a", "b"))
    assert rule.must_pause(FIVE, reachable) is pauses


def test_a_listed_node_that_was_removed_from_the_cluster_counts_as_down() -> None:
    assert PartitionRule("pause_if_all_down", ("gone",)).must_pause(("a", "b"), ("a", "b"))


@pytest.mark.parametrize("strategy", ["autoheal", "ignore"])
def test_autoheal_and_ignore_never_pause(strategy: Strategy) -> None:
    assert not PartitionRule(strategy).must_pause(FIVE, ("e",))
