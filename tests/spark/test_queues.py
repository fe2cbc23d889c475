"""Queues as a source, under a lease: real nodes and a real Spark session."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("java is not there", allow_module_level=True)

from tests.spark.test_leaders import api
from tests.spark.test_spark import declare, publish, run_with, until
from tests.waiting import eventually
from warren.spark.leaders import Leaders
from warren.spark.options import OptionError, ReadOptions, read_options
from warren.spark.queue_reads import QueueLease, Settled
from warren.spark.queue_source import QueueReader
from warren.spark.stream_reads import ReadError
from warren.testing import Broker, Faults, Node

try:
    from pyspark.sql.streaming.datasource import ReadMaxRows

    LIMIT: Any = ReadMaxRows(1)
except ImportError:  # PySpark 4.0 and 4.1 have no read limits.
    LIMIT = None
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KINDS: Final = ("classic", "quorum")


def options_of(url: str, **options: object) -> ReadOptions:
    texts = {name: str(value) for name, value in options.items()}
    return read_options({"url": url, "queue": "orders", "lease": "spark", **texts})


def reader(url: str, **options: object) -> QueueReader:
    return QueueReader(options_of(url, **options))


def rows(one: QueueReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    return sorted(
        int(body)
        for part in one.partitions(start, end)
        for batch in one.read(part)
        for body in batch.column("body").to_pylist()
    )


def count(url: str, queue: str = "orders") -> int:
    """Messages that are ready."""

    async def work(connection: Any, management: Any) -> object:
        return (await management.queue(queue))["message_count"]

    found: int = run_with(url, work)
    return found


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "option 'lease' is ''; a query that reads a queue needs a name of its own"),
        ({"lease": "x" * 256}, "a name of its own of 1 to 255 bytes"),
        ({"lease": "a", "startingOffset": "first"}, "option 'startingOffset' is for streams"),
        ({"lease": "a", "minOffsetsPerTrigger": "5"}, "'minOffsetsPerTrigger' is for streams"),
        ({"lease": "a", "stream": "log"}, "one of the options 'stream', 'superStream' and 'queue'"),
        ({"lease": "a", "leaseTimeout": "5"}, "option 'leaseTimeout' is '5'; allowed: a number"),
        ({"lease": "a", "leaseTimeout": "8d"}, "option 'leaseTimeout': allowed: 1s to 7d"),
    ],
)
def test_bad_options_are_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        read_options({"url": "amqp://localhost", "queue": "orders", **options})
    with pytest.raises(OptionError, match="option 'lease' needs the option 'queue'"):
        read_options({"url": "amqp://localhost", "stream": "log", "lease": "a"})


@pytest.mark.parametrize(
    ("kind", "queue", "text"),
    [
        ("classic", "absent", "queue 'absent', lease 'spark': 404 queue 'absent'"),
        ("stream", "orders", "is a stream, which keeps its messages: read it by offsets"),
    ],
)
def test_what_cannot_be_leased_is_named(url: str, kind: str, queue: str, text: str) -> None:
    declare(url, "orders", kind)
    one = reader(url, queue=queue)
    with pytest.raises(ReadError, match=text):
        one.latestOffset({"batch": 0}, LIMIT)
    one.stop()


def test_a_wrong_password_is_refused_and_not_shown(url: str) -> None:
    one = reader(url.replace("guest:guest", "guest:wrong"))
    with pytest.raises(
        ReadError, match=r"(?is)queue 'orders', lease 'spark': .*(refused|unauthorized)"
    ) as failed:
        one.latestOffset({"batch": 0}, LIMIT)
    assert "wrong" not in str(failed.value)
    one.stop()


def test_a_batch_read_is_refused(spark: Any, url: str) -> None:
    declare(url, "orders", "classic")
    with pytest.raises(Exception, match=r"use readStream with trigger\(availableNow=True\)"):
        spark.read.format("warren").options(url=url, queue="orders", lease="a").load().collect()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_the_same_for_the_next_process(url: str, kind: str) -> None:
    """The reader of a driver that was killed, and that of the next one."""
    declare(url, "orders", kind)
    publish(url, "orders", 0, 1000)
    options = {"maxMessagesPerTrigger": 300, "numPartitions": 3}
    first, second = reader(url, **options), reader(url, **options)
    begin = first.initialOffset()
    end = first.latestOffset(begin, LIMIT)
    assert [each.count for each in first.partitions(begin, end)] == [100, 100, 100]
    assert second.partitions(end, end) == [], "PySpark 4.1 asks so before it repeats a batch"
    assert rows(first, begin, end) == rows(second, begin, end) == list(range(300))
    assert second.latestOffset(begin, LIMIT) == end, "it is not known to be processed"
    after = second.latestOffset(end, LIMIT)
    assert after["batch"] > end["batch"]
    with pytest.raises(Settled, match="the checkpoint is older than the lease"):
        second.partitions(begin, end)
    assert reader(url, failOnDataLoss=False).partitions(begin, end) == []
    assert rows(second, end, after) == list(range(300, 600))
    first.stop()
    second.stop()


def test_without_a_start_held_batches_are_read_first(url: str) -> None:
    """PySpark 4.0 and 4.1 ask for the newest offset before they say where the query is."""
    declare(url, "orders", "classic")
    publish(url, "orders", 0, 20)
    old, again = (reader(url, maxMessagesPerTrigger=5) for _ in range(2))
    begin = old.initialOffset()
    one = old.latestOffset()
    assert rows(old, begin, one) == list(range(5))
    two = again.latestOffset()
    assert two["batch"] > one["batch"]
    assert rows(again, begin, two) == list(range(10)), "it had not processed the first batch"
    three = again.latestOffset()
    again.commit(two)
    assert rows(again, two, three) == list(range(10, 15))
    old.stop()
    again.stop()


def test_a_lease_ends_with_a_query_that_has_processed_all(url: str, warren_broker: Broker) -> None:
    declare(url, "orders", "quorum")
    publish(url, "orders", 0, 10)
    vhost = url.rpartition("/")[2]
    one = reader(url)
    end = one.latestOffset({"batch": 0}, LIMIT)
    (row,) = api(warren_broker, "GET", f"/api/leases/{vhost}/orders")
    assert (row["name"], row["messages"]) == ("spark", 10)
    assert rows(one, {"batch": 0}, end) == list(range(10))
    one.stop()
    assert len(api(warren_broker, "GET", f"/api/leases/{vhost}/orders")) == 1, "not yet processed"
    again = reader(url)
    assert again.latestOffset(end, LIMIT) == end
    again.stop()
    assert api(warren_broker, "GET", f"/api/leases/{vhost}/orders") == []
    assert count(url) == 0


def test_a_lease_is_renewed_while_a_batch_is_processed(url: str) -> None:
    declare(url, "orders", "classic")
    publish(url, "orders", 0, 10)
    one = reader(url, leaseTimeout="2s")
    end = one.latestOffset({"batch": 0}, LIMIT)
    deadline = time.monotonic() + 4
    while time.monotonic() < deadline:  # Which the broker sees nothing of but the renewals.
        assert count(url) == 0
        time.sleep(0.5)
    assert rows(one, {"batch": 0}, end) == list(range(10))
    one.stop()
    eventually(lambda: count(url) == 10)


def test_a_lost_lease_gives_a_batch_again(url: str, warren_node: Node) -> None:
    """The node restarts between the plan of a micro-batch and its repetition."""
    own = warren_node.url
    declare(own, "orders", "quorum")
    publish(own, "orders", 0, 10)
    one = reader(own)
    end = one.latestOffset({"batch": 0}, LIMIT)
    one.stop()
    warren_node.kill9()
    warren_node.start()
    two = reader(own)
    assert rows(two, {"batch": 0}, end) == list(range(10))
    (batch,) = [each for part in two.partitions({"batch": 0}, end) for each in two.read(part)]
    assert batch.column("queue").to_pylist() == ["orders"] * 10
    assert batch.column("offset").null_count == 10
    assert batch.column("message_id").to_pylist() == [f"m{n}" for n in range(10)]
    two.stop()


def test_a_cut_link_costs_nothing(faults: Faults) -> None:
    url = faults.url
    declare(url, "orders", "quorum")
    publish(url, "orders", 0, 2000)
    one = reader(url, numPartitions=2, timeout=3)
    begin = {"batch": 0}
    end = one.latestOffset(begin, LIMIT)
    parts = one.partitions(begin, end)
    faults.toxic("limit_data", bytes=30_000)  # The link ends in the middle of a task.
    with pytest.raises(ReadError, match=f"batch {end['batch']}, 0 to 999: "):
        list(one.read(parts[0]))
    with pytest.raises(ReadError, match="queue 'orders', lease 'spark': "):
        faults.cut()
        one.latestOffset(end, LIMIT)
    faults.heal()
    assert rows(one, begin, end) == list(range(2000))
    assert one.latestOffset(end, LIMIT) == end
    one.stop()
    eventually(lambda: count(url) == 0)


# With Spark

DRIVER: Final = """
import sys, time
from pyspark.sql import SparkSession
import warren.spark
url, folder, most, trigger, slow_s, master = sys.argv[1:]
spark = (
    SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
warren.spark.register(spark)
rows = spark.readStream.format("warren").options(
    url=url, queue="orders", lease="spark", numPartitions=2, maxMessagesPerTrigger=most,
    timeout=20,
).load()
def slowly(batches):
    for batch in batches:
        time.sleep(float(slow_s))
        yield batch
query = (
    rows.selectExpr("cast(cast(body as string) as bigint) as n")
    .mapInPandas(slowly, "n bigint")
    .writeStream.format("parquet").option("path", folder + "/lake")
    .option("checkpointLocation", folder + "/checkpoint")
)
query = query.trigger(availableNow=True) if trigger == "now" else query
query.start().awaitTermination()
"""


class Driver:
    """A process that copies the queue `orders` into Parquet."""

    def __init__(
        self,
        url: str,
        folder: Path,
        most: int = 500,
        trigger: str = "on",
        slow_s: float = 0.0,
        master: str = "local[2]",
    ) -> None:
        self._folder = folder
        self._log = (folder / "driver.log").open("ab")
        texts = (url, str(folder), str(most), trigger, str(slow_s), master)
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *texts],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)  # Python and the JVM
        self.process.wait(30)
        self._log.close()

    def until(self, reached: Callable[[], bool]) -> None:
        try:
            until(reached, self.process)
        except BaseException:
            self.kill()
            raise

    def finish(self) -> None:
        """Wait until it has read all."""
        try:
            status = self.process.wait(150)
            text = (self._folder / "driver.log").read_text()
            assert status == 0, text[-3000:]
        finally:
            if self.process.poll() is None:
                self.kill()
            self._log.close()


def lake(spark: Any, folder: Path) -> Counter[int]:
    """How often each message is there."""
    if not (folder / "lake").exists():
        return Counter()
    return Counter(each.n for each in spark.read.parquet(str(folder / "lake")).collect())


def copy(spark: Any, url: str, folder: Path, most: int = 300) -> list[int]:
    """Read all that there is into Parquet; rows of each micro-batch."""
    rows = spark.readStream.format("warren").options(
        url=url, queue="orders", lease="spark", numPartitions=2, maxMessagesPerTrigger=most
    )
    query = (
        rows.load()
        .selectExpr("cast(cast(body as string) as bigint) as n")
        .writeStream.format("parquet")
        .option("path", str(folder / "lake"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(100)
    assert query.exception() is None, query.exception()
    return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_a_query_reads_all_and_settles_it(
    spark: Any, url: str, tmp_path: Path, warren_broker: Broker
) -> None:
    declare(url, "orders", "quorum")
    for first in (0, 700):
        publish(url, "orders", first, 700)
        assert copy(spark, url, tmp_path) == ([300, 300, 100] if LIMIT else [300])
        if LIMIT is None:  # Its trigger `availableNow` has one micro-batch.
            assert copy(spark, url, tmp_path) == [300]
            assert copy(spark, url, tmp_path) == [100]
    assert lake(spark, tmp_path) == Counter(range(1400))
    vhost = url.rpartition("/")[2]
    leases = api(warren_broker, "GET", f"/api/leases/{vhost}")
    left = 0 if LIMIT else 100  # PySpark 4.1 does not say that the last micro-batch is done.
    assert [each["messages"] for each in leases] in ([left], [])  # Spark may kill the reader.
    path = f"/api/queues/{vhost}/orders"
    eventually(lambda: api(warren_broker, "GET", path)["messages"] == left)


def test_a_killed_driver_gets_the_same_batch_again(spark: Any, url: str, tmp_path: Path) -> None:
    declare(url, "orders", "quorum")
    publish(url, "orders", 0, 3000)
    driver = Driver(url, tmp_path, slow_s=1.0)
    planned = tmp_path / "checkpoint" / "offsets" / "1"
    driver.until(planned.exists)  # The second micro-batch begins to be read.
    driver.kill()
    before = planned.read_text()
    assert not (tmp_path / "checkpoint" / "commits" / "1").exists(), "in the middle of a batch"
    held = QueueLease(Leaders(options_of(url))).open().batches
    for _ in range(1 if LIMIT else 2):  # Of PySpark 4.1 each run has one micro-batch.
        copy(spark, url, tmp_path, 5000)
    assert planned.read_text() == before and json.loads(last_line(before)) == {
        "batch": held[-1].number
    }
    assert lake(spark, tmp_path) == Counter(range(3000)), "nothing is lost or doubled"
    assert count(url) == 0
