"""Quorum queues with a member on each node, used from all nodes, while things break.

The short set runs on one cluster that the tests share; WARREN_LONG=1 (`make chaos`) runs every
fault by itself.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.suffering import check, plan, suffer
from warren.testing import ClusterOfNodes
from warren.testing.chaos.faults import MAKERS

LONG: Final = os.environ.get("WARREN_LONG") == "1"
long = pytest.mark.skipif(not LONG, reason="takes long: `make chaos` runs it")
pytestmark = pytest.mark.timeout(180)


def test_clients_on_all_nodes_share_one_queue(
    proxied_cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    verdict, _ = suffer(proxied_cluster, plan("calm"), tmp_path, ())
    check(verdict)
    assert verdict.published == verdict.confirmed == verdict.taken


def test_nodes_that_are_killed_and_paused_lose_nothing_that_was_confirmed(
    proxied_cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    verdict, _ = suffer(proxied_cluster, plan("killed"), tmp_path, ("kill", "pause", "kill-all"))
    check(verdict)
    assert verdict.faults == 3


def test_partitions_lose_nothing_that_was_confirmed(
    proxied_cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    verdict, _ = suffer(
        proxied_cluster, plan("parted"), tmp_path, ("isolate", "swallow", "one-way")
    )
    check(verdict)
    assert verdict.faults == 3


def test_a_wiped_node_comes_back_and_nothing_is_lost(
    proxied_cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    verdict, _ = suffer(proxied_cluster, plan("wiped"), tmp_path, ("wipe",))
    check(verdict)
    assert verdict.faults == 1


@long
@pytest.mark.parametrize("fault", MAKERS)
def test_each_fault_by_itself_loses_nothing_that_was_confirmed(
    proxied_cluster: ClusterOfNodes, tmp_path: Path, fault: str
) -> None:
    verdict, _ = suffer(
        proxied_cluster, plan(f"by-{fault}"), tmp_path, (fault,), seconds=25.0, lasts_s=4.0
    )
    check(verdict, 500)
    assert verdict.faults >= 3
