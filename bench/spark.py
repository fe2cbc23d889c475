"""Rows per second of the PySpark data source: `python -m bench.spark [--rows N] [--only CASE ...]`.

Rows are messages of 1 KB, `local[2]`, and go into Parquet. Cases: `stream` (a batch of a stream),
`ready` (as many rows that each task has as Arrow batches from the beginning: the most that a source
in Python can reach), `micro` (the stream in micro-batches of 250,000), `rate` (Spark's own source
`rate-micro-batch`, with the columns of such a message, in micro-batches of the same size), `queues`
(a classic and a quorum queue under a lease), `out` (rows into a quorum queue with confirms),
`latency` (how long a message takes to a sink beyond a trigger of 1 s, from the end of the first
micro-batch on), `few` (a batch of the stream with the columns `offset` and `body` alone). Needs the
extra `spark` and Java.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil

from warren.client import Message, connect
from warren.spark.options import read_options
from warren.testing import Node

CASES: Final = ("stream", "ready", "few", "micro", "rate", "queues", "out", "latency")
BATCH: Final = 250_000
READY: Final = 2_000
TRIGGER_S: Final = 1.0
SENT: Final = 500  # messages of `latency`, one after the other
PAUSE_S: Final = 0.05
# The columns of such a message, of its number `value`.
AS_ROWS: Final = (
    *("'log' AS queue", "'' AS exchange", "'log' AS routing_key", "value AS offset"),
    *("CAST(NULL AS string) AS message_id", "CAST(NULL AS string) AS correlation_id"),
    *("CAST(NULL AS string) AS content_type", "CAST(NULL AS string) AS reply_to"),
    *("CAST(NULL AS string) AS user_id", "CAST(NULL AS timestamp) AS timestamp"),
    *(
        "CAST(NULL AS timestamp) AS ingress_time",
        "true AS durable",
        "CAST(NULL AS int) AS priority",
    ),
    *("CAST(NULL AS bigint) AS expiration_ms", "0L AS delivery_count"),
    "CAST(NULL AS array<struct<queue: string, reason: string>>) AS deaths",
    *("CAST(NULL AS map<string, string>) AS headers",),
    *(
        "CAST(NULL AS map<string, string>) AS annotations",
        "CAST(repeat('x', 1024) AS binary) AS body",
    ),
)


async def declare(url: str, **kinds: str) -> None:
    async with await connect(url) as connection:
        management = await connection.management()
        for name, kind in kinds.items():
            await management.declare_queue(name, arguments={"x-queue-type": kind})


async def fill(url: str, name: str, rows: int) -> None:
    async with await connect(url) as connection:
        publisher = await connection.publisher(f"/queues/{name}")
        batch = [Message(bytes(1024))] * 1000
        for _ in range(rows // 1000):
            await publisher.publish_many(batch)


def stored(source: Any, folder: Path, name: str) -> Any:
    """The query that writes it into Parquet."""
    writer = source.writeStream.format("parquet").option("path", str(folder / name))
    return writer.option("checkpointLocation", str(folder / f"{name}.checkpoint"))


def drain(source: Any, folder: Path, name: str) -> float:
    """All that the source has, in micro-batches: `steady` rows/s."""
    query = stored(source, folder, name).trigger(availableNow=True).start()
    query.awaitTermination()
    return steady(query)


def steady(query: Any) -> float:
    """Rows per second from the second micro-batch on, without the start of the query."""
    found = [each for each in query.recentProgress if each["numInputRows"]][1:]
    took_ms = sum(each["durationMs"]["triggerExecution"] for each in found)
    rows = sum(each["numInputRows"] for each in found)
    return 1000.0 * int(rows) / max(1, int(took_ms))


def rated(spark: Any, rows: int, folder: Path) -> float:
    """As many rows of Spark's own source, one micro-batch after the other: `steady` rows/s."""
    batches = max(1, rows // BATCH)
    source = spark.readStream.format("rate-micro-batch")
    source = source.options(rowsPerBatch=rows // batches, numPartitions=2).load()
    query = stored(source.selectExpr(*AS_ROWS), folder, "rate").start()
    while sum(each["numInputRows"] for each in query.recentProgress) < rows:
        assert query.exception() is None, query.exception()
        time.sleep(0.01)
    query.stop()
    return steady(query)


def latency(spark: Any, url: str, folder: Path) -> None:
    """From publish to the end of the micro-batch that has the message, beyond the trigger."""
    sent: list[float] = []
    done: dict[int, float] = {}

    def publish() -> None:
        async def one_by_one() -> None:
            async with await connect(url) as connection:
                publisher = await connection.publisher("/queues/late")
                for _ in range(SENT):
                    sent.append(time.monotonic())
                    await publisher.publish(Message(bytes(1024)))
                    await asyncio.sleep(PAUSE_S)

        asyncio.run(one_by_one())

    def took(rows: Any, number: int) -> None:
        rows.write.mode("append").parquet(str(folder / "late"))
        done[number] = time.monotonic()

    def counts() -> dict[int, int]:
        return {each["batchId"]: each["numInputRows"] for each in query.recentProgress}

    source = spark.readStream.format("warren").options(url=url, stream="late").load()
    query = (
        source.writeStream.foreachBatch(took)
        .option("checkpointLocation", str(folder / "late.checkpoint"))
        .trigger(processingTime=f"{TRIGGER_S:g} seconds")
        .start()
    )
    publisher = threading.Thread(target=publish)
    publisher.start()
    while sum(counts().values()) < SENT:
        assert query.exception() is None, query.exception()
        time.sleep(0.1)
    publisher.join()
    found, begin = counts(), 0
    query.stop()
    waits: list[float] = []
    started = min(done[number] for number in done if found.get(number))
    for number in sorted(done):
        end = begin + found.get(number, 0)
        late = [each for each in sent[begin:end] if each > started]
        waits += [max(0.0, done[number] - each - TRIGGER_S) for each in late]
        begin = end
    waits.sort()
    p50, p90, p99 = (waits[len(waits) * percent // 100] for percent in (50, 90, 99))
    print(f"{len(waits)} messages, beyond a trigger of {TRIGGER_S:g} s: ", end="")
    print(f"p50 {p50:.2f}, p90 {p90:.2f}, ", end="")
    print(f"p99 {p99:.2f}, max {waits[-1]:.2f} s", flush=True)


def ready_source() -> type:
    """The format `ready`: as `warren` in a batch, but each task reads READY messages, and gives
    them again until it has given as many rows as it was to read."""
    from warren.spark.source import Range, Reader, WarrenSource

    class ReadyReader(Reader):
        def read(self, partition: Range) -> Any:
            begin, end = partition.begin, partition.end
            batches = list(super().read(Range(partition.stream, begin, begin + READY)))
            for _ in range((end - begin) // READY):
                yield from batches

    class ReadySource(WarrenSource):
        @classmethod
        def name(cls) -> str:
            return "ready"

        def reader(self, schema: Any) -> ReadyReader:
            return ReadyReader(read_options(self.options))

    return ReadySource


def cpu_s(node: psutil.Process) -> dict[str, float]:
    """Of the node, of Java, and of Python's tasks, so far."""
    found = {"node": sum(node.cpu_times()[:2]), "java": 0.0, "tasks": 0.0}
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # It has ended meanwhile.
            if each.pid != node.pid:
                kind = "java" if each.name() == "java" else "tasks"
                found[kind] += sum(each.cpu_times()[: 2 if kind == "java" else 4])
    return found


def timed(name: str, rows: int, node: psutil.Process, work: Callable[[], Any]) -> None:
    before, began = cpu_s(node), time.perf_counter()
    found = work()
    took, after = time.perf_counter() - began, cpu_s(node)
    used = [f"{1e6 * (after[each] - before[each]) / rows:.1f}" for each in after]
    later = "" if found is None else f"{found:,.0f}"
    rates = f"{rows / took:,.0f} | {later} | {took:.1f}"
    print(f"| {name} | {rates} | {' | '.join(used)} |", flush=True)


class Cases:
    """What is measured, each with files of its own."""

    def __init__(self, spark: Any, node: Node, rows: int, folder: Path) -> None:
        self._spark, self._rows, self._folder = spark, rows, folder
        self._url = url = node.url
        self._node = psutil.Process(node.pid)
        asyncio.run(fill(url, "log", rows))
        options = {"url": url, "stream": "log", "numPartitions": 2}
        self._log = spark.read.format("warren").options(**options)
        self._ready = spark.read.format("ready").options(**options)
        self._few = spark.read.format("warren").options(columns="offset,body", **options)
        limited = options | {"maxMessagesPerTrigger": BATCH}
        self._queried = spark.readStream.format("warren").options(**limited)
        # Java compiles what it runs often.
        self._log.load().limit(100_000).write.parquet(str(folder / "warm"))

    def run(self, case: str, turn: int) -> None:
        folder, rows = self._folder / f"{turn}", self._rows
        if case == "stream":
            write = self._log.load().write.parquet
            timed("stream to Parquet", rows, self._node, lambda: write(str(folder / "log")))
        elif case == "ready":
            write = self._ready.load().write.parquet
            timed("ready batches", rows, self._node, lambda: write(str(folder / "ready")))
        elif case == "few":
            write = self._few.load().write.parquet
            timed("the same, two columns", rows, self._node, lambda: write(str(folder / "few")))
        elif case == "micro":
            source = self._queried.load()
            timed("stream, micro-batches", rows, self._node, lambda: drain(source, folder, "micro"))
        elif case == "rate":
            timed("rate-micro-batch", rows, self._node, lambda: rated(self._spark, rows, folder))
        elif case == "queues":
            for kind in ("classic", "quorum"):
                asyncio.run(fill(self._url, kind, rows))
                limits = {"numPartitions": 2, "maxMessagesPerTrigger": BATCH}
                options = {"url": self._url, "queue": kind, "lease": "bench", **limits}
                source = self._spark.readStream.format("warren").options(**options).load()
                timed(
                    f"{kind} queue, lease", rows, self._node, partial(drain, source, folder, kind)
                )
        elif case == "out":
            own = self._spark.range(0, rows, 1, 2).selectExpr("repeat('x', 1024) AS body")
            out = own.write.format("warren").options(url=self._url, queue="out").mode("append")
            timed("rows to a quorum queue", rows, self._node, out.save)
        else:
            latency(self._spark, self._url, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="a multiple of 250,000")
    parser.add_argument("--only", choices=CASES, nargs="+", default=CASES)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession

    import warren.spark

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    warren.spark.register(spark)
    spark.dataSource.register(ready_source())
    with Node() as node, tempfile.TemporaryDirectory() as name:
        kinds = {"log": "stream", "late": "stream", "out": "quorum"}
        asyncio.run(declare(node.url, **kinds, classic="classic", quorum="quorum"))
        cases = Cases(spark, node, arguments.rows, Path(name))
        print(f"{node.build} build, {arguments.rows} rows; CPU in us for each row\n")
        print("| | rows/s | from the second micro-batch on | s | node | Java | tasks |")
        print("|---|---|---|---|---|---|---|")
        for turn in range(arguments.rounds):
            for case in arguments.only:
                cases.run(case, turn)
    spark.stop()


if __name__ == "__main__":
    main()
