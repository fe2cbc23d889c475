"""Classic queues of a cluster, used from all nodes, while nodes die and come back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.suffering import check, plan, suffer
from warren.testing import ClusterOfNodes
from warren.testing.chaos.workload import CLASSIC

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    with ClusterOfNodes(3) as made:
        yield made


def test_clients_on_all_nodes_share_one_queue(cluster: ClusterOfNodes, tmp_path: Path) -> None:
    verdict, _ = suffer(cluster, plan("calm", CLASSIC), tmp_path, ())
    check(verdict)
    assert verdict.published == verdict.confirmed == verdict.taken


def test_nodes_that_are_killed_and_paused_lose_nothing_that_was_confirmed(
    cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    verdict, _ = suffer(cluster, plan("shaken", CLASSIC), tmp_path, ("kill", "pause", "kill-all"))
    check(verdict)
    assert verdict.faults == 3
