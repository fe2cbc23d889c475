"""A stream that Spark writes: a task fails and is repeated, the driver is killed and started again.

The driver is a process of its own: Spark repeats no task of `local[2]`, but those of `local[2,4]`.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("java is not there", allow_module_level=True)

from warren.client import Message, connect

COUNT: Final = 6_000
BATCH: Final = 2_000
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        os.environ.get("WARREN_LONG") != "1", reason="starts Spark twice; see test_publishing.py"
    ),
]

# Each first attempt of a task fails when it has published some rows. Rows of a task that is
# repeated come in another order.
DRIVER: Final = """
import sys
from pyspark import TaskContext
from pyspark.sql import SparkSession
import warren.spark

url, folder, per_batch = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "250").getOrCreate()
)
warren.spark.register(spark)

def failing(batches):
    attempt = TaskContext.get().attemptNumber()
    for number, batch in enumerate(batches):
        if attempt == 0 and number == 3:
            raise RuntimeError("the first attempt of each task fails here")
        yield batch if attempt == 0 else batch.take(list(range(batch.num_rows))[::-1])

rows = spark.readStream.format("warren").options(
    url=url, stream="log", numPartitions=2, maxMessagesPerTrigger=per_batch
).load().select("body", "message_id")
query = (
    rows.mapInArrow(failing, rows.schema).writeStream.format("warren")
    .options(url=url, queue="copy", publisherId="copies", maxRowsPerSecond=500)
    .option("checkpointLocation", folder).trigger(availableNow=True).start()
)
query.awaitTermination()
"""


def with_management(url: str, work: Any) -> Any:
    async def run() -> Any:
        async with await connect(url) as connection:
            return await work(connection, await connection.management())

    return asyncio.run(run())


def prepare(url: str) -> None:
    async def work(connection: Any, management: Any) -> None:
        await management.declare_queue("log", arguments={"x-queue-type": "stream"})
        arguments = {"x-queue-type": "stream", "x-id-cache-size": 100_000}
        await management.declare_queue("copy", arguments=arguments)
        publisher = await connection.publisher("/queues/log")
        sent = [Message(b"%d" % n, message_id=f"m{n}") for n in range(COUNT)]
        assert all(each.is_accepted for each in await publisher.publish_many(sent))

    with_management(url, work)


def count_of(url: str, name: str) -> int:
    async def work(connection: Any, management: Any) -> int:
        return int((await management.queue(name))["message_count"])

    found: int = with_management(url, work)
    return found


def start(url: str, folder: Path, log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, url, str(folder), str(BATCH)],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def test_repeated_tasks_and_a_killed_driver_leave_each_row_once_in_a_stream(
    spark: Any, url: str, tmp_path: Path
) -> None:
    prepare(url)
    log = tmp_path / "driver.log"
    driver = start(url, tmp_path / "checkpoint", log)
    try:
        deadline = time.monotonic() + 120
        while count_of(url, "copy") < BATCH + 300:
            assert driver.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # Python and the JVM
        driver.wait(30)
    assert count_of(url, "copy") < COUNT, "the driver was to be killed in the middle"
    assert start(url, tmp_path / "checkpoint", log).wait(150) == 0, log.read_text()[-3000:]
    shown = log.read_text()
    assert "the first attempt of each task fails here" in shown and "TID" in shown
    rows = spark.read.format("warren").options(url=url, stream="copy").load().collect()
    assert Counter(bytes(each.body) for each in rows) == Counter(b"%d" % n for n in range(COUNT))
