"""Rows per second of the PySpark data source: `python -m bench.spark [--rows N]`.

A stream of 1 KB messages into Parquet with `local[2]`, the same of a classic and of a quorum queue
under a lease, Spark's own source of such rows into Parquet, and rows of 1 KB into a quorum queue
with confirms. `--only queues` leaves out the rest. Needs the extra `spark` and Java.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from warren.client import Message, connect
from warren.testing import Node


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


def drain(spark: Any, url: str, name: str, folder: Path) -> None:
    """All messages of the queue into Parquet, in micro-batches."""
    source = spark.readStream.format("warren").options(
        url=url, queue=name, lease="bench", numPartitions=2, maxMessagesPerTrigger=250_000
    )
    query = (
        source.load()
        .writeStream.format("parquet")
        .option("path", str(folder / name))
        .option("checkpointLocation", str(folder / f"{name}.checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def timed(name: str, rows: int, work: Callable[[], Any]) -> None:
    began = time.perf_counter()
    work()
    took = time.perf_counter() - began
    print(f"| {name} | {rows / took:,.0f} | {took:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="a multiple of 1000")
    parser.add_argument("--only", choices=("all", "queues"), default="all")
    rows, only = parser.parse_args().rows, parser.parse_args().only
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession

    import warren.spark

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    warren.spark.register(spark)
    with Node() as node, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(
            declare(node.url, log="stream", out="quorum", classic="classic", quorum="quorum")
        )
        asyncio.run(fill(node.url, "log", 20_000 if only == "queues" else rows))
        source = spark.read.format("warren").options(url=node.url, stream="log", numPartitions=2)
        own = spark.range(0, rows, 1, 2).selectExpr("id", "repeat('x', 1024) AS body")
        warm = source.load().limit(20_000)  # Java compiles what it runs often.
        warm.write.parquet(str(folder / "warm"))
        print(f"{node.build} build, {rows} rows\n\n| | rows/s | s |\n|---|---|---|")
        for name in ("classic", "quorum"):
            asyncio.run(fill(node.url, name, rows))
            timed(f"{name} queue to Parquet", rows, partial(drain, spark, node.url, name, folder))
        if only == "queues":
            spark.stop()
            return
        timed("stream to Parquet", rows, lambda: source.load().write.parquet(str(folder / "a")))
        timed("Spark's range to Parquet", rows, lambda: own.write.parquet(str(folder / "b")))
        out = own.select("body").write.format("warren").options(url=node.url, queue="out")
        timed("rows to a quorum queue", rows, lambda: out.mode("append").save())
    spark.stop()


if __name__ == "__main__":
    main()
