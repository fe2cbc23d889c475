"""Queues as a source while executors and nodes are killed. With WARREN_LONG=1."""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("java is not there", allow_module_level=True)

from tests.cluster.leaders import leader_and_others, without_leader
from tests.spark.test_queues import Driver, lake
from tests.spark.test_spark import declare, publish
from tests.waiting import eventually
from warren.testing import ClusterOfNodes, Faults

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("WARREN_LONG") != "1", reason="takes minutes"),
]


def test_a_killed_executor_costs_nothing(spark: Any, url: str, tmp_path: Path) -> None:
    """`local-cluster` has executors of their own; Spark repeats their tasks."""
    declare(url, "orders", "classic")
    publish(url, "orders", 0, 2000)
    driver = Driver(url, tmp_path, 1000, "now", 3.0, "local-cluster[2,1,1024]")
    driver.until((tmp_path / "checkpoint" / "offsets" / "0").exists)
    executor = eventually(lambda: executors(driver.process.pid))[0]
    os.kill(executor, signal.SIGKILL)
    driver.finish()
    assert lake(spark, tmp_path) == Counter(range(2000))


def executors(driver: int) -> list[int]:
    """Processes of the driver's session that are executors."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                line = (each / "cmdline").read_bytes()
                session = os.getsid(int(each.name))
            except OSError:  # It has ended.
                continue
            if session == driver and b"CoarseGrainedExecutorBackend" in line:
                found.append(int(each.name))
    return found


def test_a_query_goes_on_when_the_node_of_its_lease_is_killed(
    spark: Any, tmp_path: Path, cluster: Callable[..., ClusterOfNodes]
) -> None:
    """The leader of a quorum queue, in the middle of a query: the next one has the lease."""
    nodes = cluster(3)
    declare(nodes.urls[0], "orders", "quorum")
    publish(nodes.urls[0], "orders", 0, 3000)
    leader, second, _ = leader_and_others(nodes, "orders")
    driver = Driver(nodes.urls[second - 1], tmp_path, slow_s=0.5)
    commits = tmp_path / "checkpoint" / "commits"
    driver.until((commits / "1").exists)
    with without_leader(nodes, "orders", leader):
        assert not (commits / "4").exists(), "in the middle of the query"
        driver.until((commits / "5").exists)
        driver.kill()
    Driver(nodes.urls[second - 1], tmp_path, 5000, "now").finish()
    assert lake(spark, tmp_path) == Counter(range(3000)), "nothing is lost or doubled"


def test_a_query_goes_on_after_its_link_was_cut(spark: Any, tmp_path: Path, faults: Faults) -> None:
    url = faults.url
    declare(url, "orders", "classic")
    publish(url, "orders", 0, 3000)
    driver = Driver(url, tmp_path, slow_s=0.5)
    driver.until((tmp_path / "checkpoint" / "commits" / "1").exists)
    faults.cut()
    driver.process.wait(120)
    assert driver.process.returncode != 0, "a query fails with its link"
    faults.heal()
    Driver(url, tmp_path, trigger="now").finish()
    assert lake(spark, tmp_path) == Counter(range(3000)), "the node has kept the lease"
