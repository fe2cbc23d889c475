"""Mirrored queues with a member on each node, used from all nodes, while things break."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.suffering import check, plan, suffer
from warren.testing import ClusterOfNodes
from warren.testing.chaos.workload import CLASSIC

pytestmark = pytest.mark.timeout(240)
POLICY = {
    "pattern": "^mirrored-",
    "apply-to": "queues",
    "definition": {
        "ha-mode": "all",
        "ha-sync-mode": "automatic",
        "ha-promote-on-failure": "when-synced",
    },
}


@pytest.fixture(scope="module")
def cluster(proxied_cluster: ClusterOfNodes) -> Iterator[ClusterOfNodes]:
    proxied_cluster.node(1).api("PUT", "/api/policies/%2F/mirrored", POLICY)
    yield proxied_cluster


def test_clients_on_all_nodes_share_one_queue(cluster: ClusterOfNodes, tmp_path: Path) -> None:
    verdict, _ = suffer(cluster, plan("mirrored-calm", CLASSIC), tmp_path, ())
    check(verdict)
    assert verdict.published == verdict.confirmed == verdict.taken


def test_nodes_that_are_killed_and_paused_lose_nothing_that_was_confirmed(
    cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    faults = ("kill", "pause", "kill-all")
    verdict, _ = suffer(cluster, plan("mirrored-killed", CLASSIC), tmp_path, faults)
    check(verdict)
    assert verdict.faults == 3


def test_partitions_lose_nothing_that_was_confirmed(
    cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    faults = ("isolate", "swallow", "one-way")
    verdict, _ = suffer(cluster, plan("mirrored-parted", CLASSIC), tmp_path, faults)
    check(verdict)
    assert verdict.faults == 3


def test_a_wiped_node_comes_back_and_nothing_is_lost(
    cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    verdict, _ = suffer(cluster, plan("mirrored-wiped", CLASSIC), tmp_path, ("wipe", "restart"))
    check(verdict)
    assert verdict.faults == 2
