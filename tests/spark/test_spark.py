"""The data source `warren` with a real Spark session and a real node."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("java is not there", allow_module_level=True)


from warren.client import Message, connect
from warren.spark.options import read_options
from warren.spark.source import StreamReader
from warren.spark.stream_reads import ReadError
from warren.testing import Broker
from warren.testing.http_api import HttpApi

COUNT: Final = 2500
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run_with(url: str, work: Any) -> Any:
    async def test() -> Any:
        async with await connect(url) as connection:
            return await work(connection, await connection.management())

    return asyncio.run(test())


def declare(url: str, name: str, kind: str) -> None:
    async def work(connection: Any, management: Any) -> None:
        await management.declare_queue(name, arguments={"x-queue-type": kind})

    run_with(url, work)


def publish(url: str, stream: str, first: int, count: int) -> None:
    async def work(connection: Any, management: Any) -> None:
        publisher = await connection.publisher(f"/queues/{stream}")
        sent = [
            Message(b"%d" % n, message_id=f"m{n}", application_properties={"n": n})
            for n in range(first, first + count)
        ]
        assert all(each.is_accepted for each in await publisher.publish_many(sent))

    run_with(url, work)


def taken(url: str, queue: str, count: int) -> list[Message]:
    async def work(connection: Any, management: Any) -> list[Message]:
        consumer = await connection.consumer(f"/queues/{queue}", credit=0)
        found = await consumer.receive(count, timeout_s=20)
        return [each.message for each in found]

    messages: list[Message] = run_with(url, work)
    return messages


def load(spark: Any, url: str, **options: object) -> Any:
    return spark.read.format("warren").options(url=url, **options).load()


@pytest.mark.parametrize("parts", [1, 3])
def test_a_read_has_each_message_once(spark: Any, url: str, parts: int) -> None:
    declare(url, "log", "stream")
    publish(url, "log", 0, COUNT)
    rows = load(spark, url, stream="log", numPartitions=parts).collect()
    found = sorted((each.offset, bytes(each.body), each.headers["n"]) for each in rows)
    assert found == [(n, b"%d" % n, str(n)) for n in range(COUNT)]
    assert {each.queue for each in rows} == {"log"} and rows[0].message_id.startswith("m")
    late = load(spark, url, stream="log", startingOffset=COUNT - 10).collect()
    assert [each.offset for each in late] == list(range(COUNT - 10, COUNT))
    assert load(spark, url, stream="log", startingOffset="next").collect() == []


def test_a_read_has_the_columns_that_are_asked_for(spark: Any, url: str, tmp_path: Path) -> None:
    """Of a batch, and of micro-batches."""
    declare(url, "log", "stream")
    publish(url, "log", 0, 100)
    options = {"stream": "log", "columns": "body,offset", "bodyFormat": "text"}
    rows = load(spark, url, **options)
    assert rows.schema.simpleString() == "struct<body:string,offset:bigint>"
    assert [tuple(each) for each in rows.collect()] == [(str(n), n) for n in range(100)]
    source = spark.readStream.format("warren").options(url=url, **options).load()
    query = source.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination(100)
    kept = spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
    assert [tuple(each) for each in kept] == [(str(n), n) for n in range(100)]


def test_an_empty_stream_has_no_rows(spark: Any, url: str) -> None:
    declare(url, "none", "stream")
    assert load(spark, url, stream="none").collect() == []


@pytest.mark.parametrize(
    ("kind", "stream", "text"),
    [
        ("quorum", "q", "has the type 'quorum'"),
        ("stream", "absent", "absent"),
        ("stream", "q", "password"),
    ],
)
def test_what_cannot_be_read_is_named(
    spark: Any, url: str, kind: str, stream: str, text: str
) -> None:
    declare(url, "q", kind)
    given = url.replace("guest:guest", "guest:wrong") if text == "password" else url
    with pytest.raises(Exception, match=r"(?s).") as failed:
        load(spark, given, stream=stream).collect()
    shown = str(failed.value)
    assert text in shown or (text == "password" and "refused" in shown.lower())
    assert "guest:wrong" not in shown


def test_rights_that_are_missing_are_named(
    spark: Any, url: str, warren_broker: Broker, tmp_path: Path
) -> None:
    declare(url, "log", "stream")
    declare(url, "orders", "quorum")
    publish(url, "log", 0, 1)
    api = HttpApi(warren_broker.management_url)
    vhost = url.rpartition("/")[2]
    api.put("/users/reader", {"password": "secret", "tags": ""})
    try:
        api.put(f"/permissions/{vhost}/reader", {"configure": "", "write": "", "read": ""})
        given = url.replace("guest:guest", "reader:secret")
        row = spark.range(1).selectExpr("'x' AS body")
        with pytest.raises(Exception, match=r"access to queue 'log' .* refused for user 'reader'"):
            load(spark, given, stream="log").collect()
        with pytest.raises(Exception, match=r"access to .* refused for user 'reader'"):
            row.write.format("warren").options(url=given, queue="orders").mode("append").save()
        leased = spark.readStream.format("warren").options(url=given, queue="orders", lease="l")
        query = leased.load().writeStream.format("noop")
        query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        with pytest.raises(
            Exception, match=r"access to queue 'orders' .* refused for user 'reader'"
        ):
            query.start().awaitTermination(100)
    finally:
        api.delete("/users/reader")


def test_options_are_checked_when_the_frame_is_made(spark: Any, url: str) -> None:
    with pytest.raises(Exception, match="one of the options 'stream', 'superStream' and 'queue'"):
        load(spark, url).collect()
    with pytest.raises(Exception, match="unknown option 'startingofset'"):
        load(spark, url, stream="s", startingOfset="1").collect()


def test_rows_become_messages_that_are_confirmed(spark: Any, url: str) -> None:
    declare(url, "out", "quorum")
    rows = spark.range(500).selectExpr(
        "concat('order ', id) AS body",
        "concat('m', id) AS message_id",
        "'text/plain' AS content_type",
        "map('id', cast(id AS string)) AS headers",
    )
    rows.write.format("warren").options(url=url, queue="out").mode("append").save()
    found = taken(url, "out", 500)
    assert {each.body for each in found} == {b"order %d" % n for n in range(500)}
    (one,) = [each for each in found if each.message_id == "m7"]
    assert (one.body, one.content_type) == (b"order 7", "text/plain")
    assert one.application_properties == {"id": "7"} and one.durable


def test_rows_are_routed_by_their_keys(spark: Any, url: str) -> None:
    async def work(connection: Any, management: Any) -> None:
        for name in ("even", "odd"):
            await management.declare_queue(name)
            await management.bind("amq.topic", queue=name, key=f"orders.{name}")

    run_with(url, work)
    rows = spark.range(20).selectExpr(
        "cast(id AS string) AS body", "if(id % 2 = 0, 'orders.even', 'orders.odd') AS routing_key"
    )
    rows.write.format("warren").options(url=url, exchange="amq.topic").mode("append").save()
    assert {each.body for each in taken(url, "odd", 10)} == {b"%d" % n for n in range(1, 20, 2)}


@pytest.mark.parametrize(
    ("options", "columns", "text"),
    [
        ({"queue": "absent"}, "'x' AS body", "absent"),
        ({"exchange": "amq.direct"}, "'x' AS body", "no queue took it"),
        ({"queue": "q"}, "1 AS body", "column 'body' has the type 'integer'"),
        ({"queue": "q"}, "'x' AS text", "column 'body' is missing"),
        ({"queue": "q"}, "'x' AS body, 1 AS tries", "column 'tries' is unknown"),
        ({"queue": "q"}, "'x' AS body, 'k' AS routing_key", "needs the option 'exchange'"),
        ({}, "'x' AS body", "one of the options 'queue' and 'exchange'"),
    ],
)
def test_what_cannot_be_written_is_named(
    spark: Any, url: str, options: dict[str, str], columns: str, text: str
) -> None:
    rows = spark.range(1).selectExpr(*columns.split(", "))
    with pytest.raises(Exception, match=text):
        rows.write.format("warren").options(url=url, **options).mode("append").save()


class Query:
    """Copies the stream `log` into Parquet, one micro-batch after the other."""

    def __init__(self, spark: Any, url: str, folder: Path, **options: object) -> None:
        self._spark = spark
        self._folder = folder
        self._options = {"url": url, "stream": "log", "numPartitions": 2, **options}

    def run(self) -> list[int]:
        """Until nothing is left; rows of each micro-batch."""
        rows = self._spark.readStream.format("warren").options(**self._options).load()
        query = (
            rows.writeStream.format("parquet")
            .option("path", str(self._folder / "lake"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(100)
            assert query.exception() is None, query.exception()
            return [each["numInputRows"] for each in query.recentProgress]
        finally:
            query.stop()

    def offsets(self) -> list[int]:
        rows = self._spark.read.parquet(str(self._folder / "lake")).select("offset").collect()
        return sorted(each.offset for each in rows)


def test_a_query_that_is_restarted_has_each_message_once(
    spark: Any, url: str, tmp_path: Path
) -> None:
    declare(url, "log", "stream")
    query = Query(spark, url, tmp_path)
    for first in (0, 300, 600):
        publish(url, "log", first, 300)
        query.run()
        assert query.offsets() == list(range(first + 300))


DRIVER: Final = """
import sys
from pyspark.sql import SparkSession
import warren.spark
url, folder = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
warren.spark.register(spark)
rows = spark.readStream.format("warren").options(
    url=url, stream="log", numPartitions=2, maxMessagesPerTrigger=200
).load()
query = (
    rows.writeStream.format("parquet").option("path", folder + "/lake")
    .option("checkpointLocation", folder + "/checkpoint").start()
)
query.awaitTermination()
"""


@pytest.mark.skipif(
    os.environ.get("WARREN_LONG") != "1", reason="test_guide.py kills a driver in each run"
)
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    spark: Any, url: str, tmp_path: Path
) -> None:
    declare(url, "log", "stream")
    publish(url, "log", 0, 3500)
    query = Query(spark, url, tmp_path)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, url, str(tmp_path)],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    commits = tmp_path / "checkpoint" / "commits"
    try:
        until((commits / "1").exists, driver)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # Python and the JVM
        driver.wait(30)
    assert 400 <= len(query.offsets()) < 3500, "the driver was to be killed in the middle"
    query.run()
    assert query.offsets() == list(range(3500))


def until(reached: Callable[[], bool], driver: "subprocess.Popen[bytes] | None") -> None:
    """Wait while the driver runs, or only until it has happened."""
    deadline = time.monotonic() + 120
    while not reached():
        assert driver is None or driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_messages_that_retention_removed_stop_a_query_or_are_skipped(
    spark: Any, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(connection: Any, management: Any) -> None:
        arguments = {
            "x-queue-type": "stream",
            "x-max-length-bytes": 2_000_000,
            "x-stream-max-segment-size-bytes": 1_000_000,
        }
        await management.declare_queue("log", arguments=arguments)
        publisher = await connection.publisher("/queues/log")
        for _ in range(60):
            sent = [Message(bytes(10_000)) for _ in range(20)]
            assert all(each.is_accepted for each in await publisher.publish_many(sent))

    run_with(url, work)
    with pytest.raises(Exception, match="removed by retention"):
        load(spark, url, stream="log", startingOffset=0).collect()
    found = load(spark, url, stream="log", startingOffset=0, failOnDataLoss=False).collect()
    assert 0 < len(found) < 1200 and max(each.offset for each in found) == 1199
    first = min(each.offset for each in found)
    checkpoint, end = {"offset": 5}, {"offset": 1200}  # of a query that was away
    gone = f"offset 5 is wanted, but the oldest message has offset {first}: {first - 5} messages "
    with pytest.raises(ReadError, match=f"stream 'log': {gone}were removed by retention"):
        StreamReader(read_options({"url": url, "stream": "log"})).partitions(checkpoint, end)
    lenient = {"url": url, "stream": "log", "failOnDataLoss": "false"}
    (part,) = StreamReader(read_options(lenient)).partitions(checkpoint, end)
    assert (part.begin, part.end) == (first, 1200) and gone in caplog.text


def test_a_stream_is_copied_into_a_queue(
    spark: Any, url: str, tmp_path: Path, warren_broker: Broker
) -> None:
    declare(url, "log", "stream")
    declare(url, "copy", "classic")
    publish(url, "log", 0, 200)
    rows = spark.readStream.format("warren").options(url=url, stream="log").load()
    query = (
        rows.select("body", "message_id")
        .writeStream.format("warren")
        .options(url=url, queue="copy", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(100)
    assert {each.message_id for each in taken(url, "copy", 200)} == {f"m{n}" for n in range(200)}


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_micro_batch_that_is_repeated_leaves_each_row_once(
    spark: Any, url: str, tmp_path: Path, warren_broker: Broker, kind: str
) -> None:
    async def work(connection: Any, management: Any) -> None:
        arguments = {"x-queue-type": kind, "x-id-cache-size": 1000}
        await management.declare_queue("copy", arguments=arguments)

    declare(url, "log", "stream")
    publish(url, "log", 0, 200)
    run_with(url, work)
    rows = spark.readStream.format("warren").options(url=url, stream="log", numPartitions=2).load()
    for _ in range(2):
        query = (
            rows.select("body", "message_id")
            .writeStream.format("warren")
            .options(url=url, queue="copy", publisherId="copies")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(100)
        assert query.exception() is None
        for commit in (tmp_path / "commits").iterdir():
            commit.unlink()  # As if the driver was killed when all was published.

    async def count(connection: Any, management: Any) -> object:
        return (await management.queue("copy"))["message_count"]

    assert run_with(url, count) == 200
