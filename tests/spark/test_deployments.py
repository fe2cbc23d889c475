"""Spark as a cluster of its own, one master and two workers, and over Spark Connect.

With WARREN_LONG=1 (`make test-spark-deployments`).
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("java is not there", allow_module_level=True)

import pyspark

from tests.spark.test_spark import declare, publish, taken

HOME: Final = Path(pyspark.__file__).parent
PATIENCE_S: Final = 300
COUNT: Final = 3000
BATCH: Final = 200
ENVIRONMENT: Final = os.environ | {
    "SPARK_HOME": str(HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_NO_DAEMONIZE": "1",
}
MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED: Final = re.compile("Successfully registered with master")
DRIVER: Final = f"""
import sys
from pyspark.sql import SparkSession
import warren.spark
url, folder, master = sys.argv[1:]
settings = {{
    "spark.driver.host": "127.0.0.1", "spark.driver.memory": "512m", "spark.ui.enabled": "false",
    "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}}
spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
warren.spark.register(spark)
query = (
    spark.readStream.format("warren")
    .options(url=url, stream="log", numPartitions=2, maxMessagesPerTrigger={BATCH}).load()
    .writeStream.format("parquet").option("path", folder + "/lake")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
"""
CONNECT: Final = f"""
import sys
from pyspark.sql import SparkSession
import warren.spark
url, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
warren.spark.register(spark)
source = dict(url=url, stream="log", bodyFormat="text", maxMessagesPerTrigger={BATCH})
query = (
    spark.readStream.format("warren").options(**source).load()
    .writeStream.format("parquet").option("path", folder + "/lake")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
rows = spark.read.format("warren").options(**source).load()
assert rows.count() == {COUNT}
sent = rows.where("offset < 100").select("body")
sent.write.format("warren").options(url=url, queue="copy").mode("append").save()
spark.stop()
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        os.environ.get("WARREN_LONG") != "1", reason="make test-spark-deployments runs it"
    ),
]


class Cluster:
    """The processes; each in a group of its own, with its log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begun: list[subprocess.Popen[bytes]] = []
        at = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        _, log = self._begin("master.Master", *at)
        self.url = self._said(log, MASTER)
        self.workers = [self._worker(*at) for _ in range(2)]

    def _worker(self, *at: str) -> psutil.Process:
        place = ("--cores", "1", "--memory", "512m", "--work-dir", str(self._folder / "work"))
        process, log = self._begin("worker.Worker", *at, *place, self.url)
        self._said(log, REGISTERED)
        return psutil.Process(process.pid)

    def _begin(self, name: str, *words: str) -> tuple["subprocess.Popen[bytes]", Path]:
        log = self._folder / f"{len(self._begun)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *words],
                env=ENVIRONMENT,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._begun.append(process)
        return process, log

    def _said(self, log: Path, pattern: re.Pattern[str]) -> str:
        until(lambda: pattern.search(log.read_text()) is not None, log.read_text)
        found = pattern.search(log.read_text())
        assert found is not None
        return found.group(found.re.groups)

    def executors(self) -> list[psutil.Process]:
        """Of all workers."""
        return [
            child
            for worker in self.workers
            for child in worker.children()
            if child.status() != psutil.STATUS_ZOMBIE
            and "CoarseGrainedExecutorBackend" in " ".join(child.cmdline())
        ]

    def end(self) -> None:
        for each in reversed(self._begun):
            for child in psutil.Process(each.pid).children(recursive=True):
                child.kill()
            os.killpg(each.pid, signal.SIGKILL)
            each.wait(30)


def until(reached: Callable[[], bool], state: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline, state()
        time.sleep(0.02)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.end()


def test_an_executor_that_is_killed_loses_and_doubles_nothing(
    spark: Any, url: str, cluster: Cluster, tmp_path: Path
) -> None:
    declare(url, "log", "stream")
    publish(url, "log", 0, COUNT)
    output = tmp_path / "driver.log"
    driver = begin(output, DRIVER, url, str(tmp_path), cluster.url)
    commits = tmp_path / "checkpoint" / "commits"
    try:
        until(lambda: (commits / "1").exists() or driver.poll() is not None, output.read_text)
        found = cluster.executors()
        assert len(found) == 2, output.read_text()
        found[0].kill()
        assert driver.wait(PATIENCE_S) == 0, output.read_text()
    finally:
        end(driver)
    assert offsets(spark, tmp_path) == list(range(COUNT))
    assert re.search("Lost executor", output.read_text()), output.read_text()
    assert len([each for each in commits.iterdir() if each.name.isdigit()]) == COUNT // BATCH


def test_a_client_of_spark_connect_reads_and_writes(spark: Any, url: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    declare(url, "log", "stream")
    declare(url, "copy", "quorum")
    publish(url, "log", 0, COUNT)
    output = tmp_path / "client.log"
    client = begin(output, CONNECT, url, str(tmp_path))
    try:
        assert client.wait(PATIENCE_S) == 0, output.read_text()
    finally:
        end(client)
    assert offsets(spark, tmp_path) == list(range(COUNT))
    assert {each.body for each in taken(url, "copy", 100)} == {b"%d" % n for n in range(100)}


def begin(output: Path, program: str, *words: str) -> "subprocess.Popen[bytes]":
    with output.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", program, *words],
            env=ENVIRONMENT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def end(process: "subprocess.Popen[bytes]") -> None:
    """Also the JVM."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def offsets(spark: Any, folder: Path) -> list[int]:
    rows = spark.read.parquet(str(folder / "lake")).select("offset").collect()
    return sorted(each.offset for each in rows)
