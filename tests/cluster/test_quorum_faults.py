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
pytestmark = pytest.mark.timeout(240)


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


def test_broken_links_of_clients_lose_nothing_that_was_confirmed(
    proxied_cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    faults = ("client-reset-peer", "client-timeout")
    verdict, _ = suffer(proxied_cluster, plan("cut-off"), tmp_path, faults, lasts_s=0.8)
    check(verdict)
    assert verdict.faults == 2


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


@long
def test_nothing_of_it_needs_the_jobs_of_coordination(tmp_path: Path) -> None:
    faults = ("kill", "pause", "restart", "kill-all", "isolate", "swallow", "one-way", "wipe")
    settings = {"cluster.coordination": "false"}
    with ClusterOfNodes(3, proxied=True, settings=settings) as cluster:
        verdict, _ = suffer(cluster, plan("alone"), tmp_path, faults, lasts_s=2.0, rests_s=2.0)
    check(verdict, 200)
    assert verdict.faults == len(faults)
