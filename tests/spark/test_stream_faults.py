"""Streams into Parquet while the leader's node is killed or the link is cut. With WARREN_LONG=1.

However the query goes on, by itself or started again, Parquet has each message once, under its
offset, and each task has written its range in order. Drivers and executors that are killed:
`test_spark.py`, `test_deployments.py`.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("java is not there", allow_module_level=True)

import pyarrow.parquet

from tests.spark.test_spark import declare, publish, until
from warren.testing import ClusterOfNodes, Faults

COUNT: Final = 4000
DRIVER: Final = """
import sys, time
from pyspark.sql import SparkSession
import warren.spark
url, folder, read_at, slow_s, trigger = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.sql.parquet.compression.codec", "none").getOrCreate()
)
warren.spark.register(spark)
rows = spark.readStream.format("warren").options(
    url=url, stream="log", readAt=read_at, numPartitions=2, maxMessagesPerTrigger=500, timeout=20
).load().selectExpr("offset", "cast(cast(body as string) as bigint) as n")
def slowly(batches):
    for batch in batches:
        time.sleep(float(slow_s))
        yield batch
query = (
    rows.mapInArrow(slowly, rows.schema).writeStream.format("parquet")
    .option("path", folder + "/lake").option("checkpointLocation", folder + "/checkpoint")
)
query = query.trigger(availableNow=True) if trigger == "now" else query
query.start().awaitTermination()
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("WARREN_LONG") != "1", reason="takes minutes"),
]


def start(
    url: str, folder: Path, read_at: str, slow_s: float = 0.0, trigger: str = "now"
) -> "subprocess.Popen[bytes]":
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, url, str(folder), read_at, str(slow_s), trigger],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def end(driver: "subprocess.Popen[bytes]") -> None:
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)  # Python and the JVM
        driver.wait(30)


def finish(url: str, folder: Path, read_at: str) -> None:
    """Run the query until nothing is left."""
    driver = start(url, folder, read_at)
    try:
        assert driver.wait(200) == 0, (folder / "driver.log").read_text()[-3000:]
    finally:
        end(driver)


def check(spark: Any, folder: Path) -> None:
    rows = spark.read.parquet(str(folder / "lake")).collect()  # Of files that Spark committed.
    assert sorted((each.offset, each.n) for each in rows) == [(n, n) for n in range(COUNT)]
    for path in (folder / "lake").glob("*.parquet"):
        offsets = pyarrow.parquet.read_table(path).column("offset").to_pylist()
        assert offsets == sorted(offsets), f"{path.name} is not in the order of the stream"


def test_each_message_is_there_once_when_the_node_of_the_leader_is_killed(
    spark: Any, tmp_path: Path, cluster: Callable[..., ClusterOfNodes]
) -> None:
    nodes = cluster(3)
    declare(nodes.urls[0], "log", "stream")
    publish(nodes.urls[0], "log", 0, COUNT)
    (found,) = nodes.node(2).api("GET", "/api/queues/%2F")
    leader = next(node for node in nodes.nodes if node.name == found["leader"])
    other = next(node for node in nodes.nodes if node is not leader)
    driver = start(other.url, tmp_path, "leader", 1.0, "on")
    commits = tmp_path / "checkpoint" / "commits"
    try:
        until((commits / "1").exists, driver)
        leader.kill9()
        assert not (commits / "6").exists(), "in the middle of the query"
        if driver.poll() is None:
            until(lambda: (commits / "4").exists() or driver.poll() is not None, None)
    finally:
        end(driver)
    finish(other.url, tmp_path, "leader")
    check(spark, tmp_path)


def test_each_message_is_there_once_after_the_link_was_cut(
    spark: Any, tmp_path: Path, faults: Faults
) -> None:
    declare(faults.url, "log", "stream")
    publish(faults.url, "log", 0, COUNT)
    driver = start(faults.url, tmp_path, "url", 1.0, "on")
    commits = tmp_path / "checkpoint" / "commits"
    try:
        until((commits / "1").exists, driver)
        faults.cut()
        assert driver.wait(120) != 0, "a query fails with its link"
        assert not (commits / "7").exists(), "in the middle of the query"
    finally:
        end(driver)
    faults.heal()
    finish(faults.url, tmp_path, "url")
    check(spark, tmp_path)
