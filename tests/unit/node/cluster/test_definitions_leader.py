"""What brings the members of the definitions' group nearer to those of the cluster."""

import pytest

from node.cluster.definitions.definitions_leader import next_change
from raft.entries import Config
from raft.membership import AddVoter, RemoveMember

OWN = 1


def shown(config: Config, wanted: set[int]) -> tuple[str, int] | None:
    change = next_change(config, wanted, OWN)
    return None if change is None else (type(change).__name__, int(change.member))


ADD, REMOVE = AddVoter.__name__, RemoveMember.__name__


@pytest.mark.parametrize(
    ("config", "wanted", "expected"),
    [
        (Config((1, 2, 3)), {1, 2, 3}, None),
        (Config((1, 2, 3)), {1, 2, 3, 5, 4}, (ADD, 4)),
        (Config((1, 2), (3,), (3,)), {1, 2, 3}, None),
        (Config((1, 2), (3,), (3,)), {1, 2, 3, 4}, (ADD, 4)),
        (Config((1, 2), (3,)), {1, 2, 3}, (ADD, 3)),
        (Config((1, 2, 3)), {1, 2}, (REMOVE, 3)),
        (Config((1, 2), (3,), (3,)), {1, 2}, (REMOVE, 3)),
    ],
)
def test_the_group_follows_the_members(
    config: Config, wanted: set[int], expected: tuple[str, int] | None
) -> None:
    assert shown(config, wanted) == expected


def test_a_wiped_node_leaves_before_it_comes_again() -> None:
    assert shown(Config((1, 2, 3)), {1, 2, 4}) == (REMOVE, 3)
    assert shown(Config((1, 2)), {1, 2, 4}) == (ADD, 4)


def test_the_leader_goes_last() -> None:
    assert shown(Config((1, 2, 3)), {2}) == (REMOVE, 3)
    assert shown(Config((1, 2)), {2}) == (REMOVE, 1)
