"""Classic queues of a cluster, used from all nodes, while nodes die and come back."""

from pathlib import Path

import pytest

from tests.cluster.suffering import check, plan, suffer
from warren.testing import ClusterOfNodes
from warren.testing.chaos.workload import CLASSIC

pytestmark = pytest.mark.timeout(240)


def test_clients_on_all_nodes_share_one_queue(
    proxied_cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    verdict, _ = suffer(proxied_cluster, plan("calm-classic", CLASSIC), tmp_path, ())
    check(verdict)
    assert verdict.published == verdict.confirmed == verdict.taken


def test_nodes_that_are_killed_and_paused_lose_nothing_that_was_confirmed(
    proxied_cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    verdict, _ = suffer(proxied_cluster, plan("shaken", CLASSIC), tmp_path, ("kill", "pause"))
    check(verdict)
    assert verdict.faults == 2
