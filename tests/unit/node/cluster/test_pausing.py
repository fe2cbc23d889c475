"""A node pauses and resumes once each time that what it reaches crosses its rule."""

import logging

import pytest

from node.cluster.services.partition_rule import PartitionRule
from node.cluster.services.pausing import Pausing


class FakeCluster:
    """Keeps `Membership` and `Site` of node 1 of three."""

    member = 1

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.reasons: list[str] = []

    def members(self) -> list[int]:
        return [1, 2, 3]

    def set_paused(self, reason: str) -> int:
        self.reasons.append(reason)
        return 4


def pausing(cluster: FakeCluster, rule: PartitionRule) -> Pausing:
    return Pausing(rule, cluster, cluster, cluster.down.__contains__, lambda member: f"n{member}")


def test_a_node_pauses_once_and_resumes_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    part = pausing(cluster, PartitionRule("pause_minority"))
    caplog.set_level(logging.WARNING)
    for down in ({2}, {2, 3}, {2, 3}, {3}, set()):
        cluster.down.clear()
        cluster.down.update(down)
        part.tick()
    reason = "cluster.partition_handling is pause_minority and this node cannot reach n2, n3"
    assert cluster.reasons == [reason, ""]
    paused, resumed = (each.getMessage() for each in caplog.records)
    assert reason in paused and "4 connections" in paused
    assert "it reaches n1, n2" in resumed


def test_this_node_is_never_unreachable_to_itself() -> None:
    cluster = FakeCluster()
    cluster.down.update((1, 2))
    pausing(cluster, PartitionRule("pause_minority")).tick()
    assert cluster.reasons == []


def test_under_ignore_a_node_that_reaches_no_other_goes_on() -> None:
    cluster = FakeCluster()
    cluster.down.update((2, 3))
    pausing(cluster, PartitionRule("ignore")).tick()
    assert cluster.reasons == []
