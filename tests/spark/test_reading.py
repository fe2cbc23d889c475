"""Options of the source `warren` with a real node: what is read, how much at once, and bodies."""

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("java is not there", allow_module_level=True)

from tests.spark.test_spark import Query, declare, load, publish, run_with
from tests.spark.test_super_streams import NAMES, add_partitions
from warren.client import Message
from warren.spark.options import read_options
from warren.spark.source import StreamReader

datasource = pytest.importorskip("pyspark.sql.streaming.datasource")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def send(url: str, stream: str, *bodies: bytes, **properties: Any) -> None:
    async def work(connection: Any, management: Any) -> None:
        publisher = await connection.publisher(f"/queues/{stream}")
        sent = [Message(each, **properties) for each in bodies]
        assert all(each.is_accepted for each in await publisher.publish_many(sent))

    run_with(url, work)


def reader(url: str, **options: object) -> StreamReader:
    texts = {name: str(value) for name, value in options.items()}
    return StreamReader(read_options({"url": url, **texts}))


def later() -> int:
    """A time in milliseconds that is over when this returns."""
    found = time.time_ns() // 1_000_000 + 1
    while time.time_ns() // 1_000_000 <= found:
        time.sleep(0.001)
    return found


def test_json_bodies_are_columns(spark: Any, url: str) -> None:
    declare(url, "log", "stream")
    send(url, "log", b'{"id": 1, "of": {"tags": ["a"]}}', b'{"id": 2, "more": 0}', b'{"id": "x"}')
    schema = "id bigint, of struct<tags array<string>>"
    options = {"stream": "log", "bodyFormat": "json", "schema": schema}
    frame = load(spark, url, **options, badBody="null").orderBy("offset")
    assert frame.select("body.*").schema.simpleString() == (
        "struct<id:bigint,of:struct<tags:array<string>>>"
    )
    found = [each.body for each in frame.collect()]
    assert [each and each.id for each in found] == [1, 2, None] and found[2] is None
    assert (found[0].of.tags, found[1].of) == (["a"], None)
    with pytest.raises(Exception, match="stream 'log', offset 2: field 'id' does not fit"):
        load(spark, url, **options).collect()
    texts = load(spark, url, stream="log", bodyFormat="text").where("body LIKE '%more%'")
    assert [each.offset for each in texts.collect()] == [1]
    pytest.importorskip("fastavro")
    send(url, "log", b"\x06abc")
    avro = {"bodyFormat": "avro", "avroSchema": '"string"', "startingOffset": 3}
    assert [each.body for each in load(spark, url, stream="log", **avro).collect()] == ["abc"]
    with pytest.raises(Exception, match="field 'id' has the type 'bigin'"):
        load(spark, url, **options | {"schema": "id bigin"})


def test_what_the_broker_notes_has_columns(spark: Any, url: str) -> None:
    """Messages that a queue has dead-lettered into a stream."""

    async def work(connection: Any, management: Any) -> None:
        short = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "log"}
        await management.declare_queue("short", arguments=short | {"x-max-length": 1})
        await management.declare_queue("log", arguments={"x-queue-type": "stream"})

    run_with(url, work)
    send(url, "short", b"first", b"second")
    rows: list[Any] = []
    deadline = time.monotonic() + 60
    while not rows:
        assert time.monotonic() < deadline
        rows = load(spark, url, stream="log").collect()
    (row,) = rows
    (death,) = row.deaths
    assert (death.queue, death.reason, death["count"]) == ("short", "maxlen", 1)
    assert death.routing_keys == ["short"] and death.first_time is not None
    assert (row.ingress_time, row.delivery_count) == (None, 0)


@pytest.mark.parametrize("names", [NAMES[:1], NAMES[:2]])
def test_a_batch_is_of_a_time(spark: Any, url: str, names: tuple[str, ...]) -> None:
    of = {"stream": names[0]} if len(names) == 1 else {"superStream": "orders"}
    add_partitions(url, 0, len(names))
    times = [0]
    for first in (0, 10, 20):
        for name in names:
            publish(url, name, first, 10)
        times.append(later())
    for begin, end in ((0, 3), (0, 1), (1, 2), (2, 2), (2, 3), (3, 1)):
        bounds = {"startingTimestamp": times[begin], "endingTimestamp": times[end]}
        rows = load(spark, url, **of, **bounds).collect()
        wanted = sorted((name, n) for name in names for n in range(10 * begin, 10 * end))
        assert sorted((each.queue, each.offset) for each in rows) == wanted
    text = datetime.fromtimestamp(times[2] / 1000, UTC).isoformat()
    rows = load(spark, url, **of, startingTimestamp=text).collect()
    assert {each.offset for each in rows} == set(range(20, 30))
    if len(names) == 1:
        rows = load(spark, url, **of, startingOffset=5, endingOffset=8).collect()
        assert [each.offset for each in rows] == [5, 6, 7]


def test_a_query_has_no_end(spark: Any, url: str) -> None:
    declare(url, "log", "stream")
    for name in ("endingOffset", "endingTimestamp"):
        rows = spark.readStream.format("warren").options(url=url, stream="log").option(name, 5)
        with pytest.raises(Exception, match=f"option '{name}' is for spark.read"):
            query = rows.load().writeStream.format("noop").trigger(availableNow=True).start()
            query.awaitTermination(100)


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"maxMessagesPerTrigger": 400}, [400, 400, 200]),
        ({"maxBytesPerTrigger": 50_000}, [500, 500]),
        ({"maxBytesPerTrigger": 1, "startingOffset": 998}, [1, 1]),
        ({"minOffsetsPerTrigger": 2000}, [1000]),
    ],
)
def test_a_run_has_micro_batches_of_limited_size(
    spark: Any, url: str, tmp_path: Path, options: dict[str, object], counts: list[int]
) -> None:
    """From the first one on."""
    declare(url, "log", "stream")
    send(url, "log", *[bytes(100)] * 1000)
    query = Query(spark, url, tmp_path, **options)
    assert [each for each in query.run() if each] == counts
    assert query.offsets() == list(range(1000 - sum(counts), 1000))
    assert query.run() in ([], [0])


def test_few_messages_wait_for_more(url: str) -> None:
    declare(url, "log", "stream")
    limit = datasource.ReadMaxRows(1)
    one = reader(url, stream="log", minOffsetsPerTrigger=50, maxTriggerDelay="1h")
    start = one.initialOffset()
    publish(url, "log", 0, 10)
    first = one.latestOffset(start, limit)
    assert first == {"offset": 10}, "the first micro-batch does not wait"
    publish(url, "log", 10, 49)
    assert one.latestOffset(first, limit) == first
    assert one.latestOffset(first, datasource.ReadAllAvailable()) == {"offset": 59}
    publish(url, "log", 59, 1)
    assert one.latestOffset(first, limit) == {"offset": 60}
    soon = reader(url, stream="log", minOffsetsPerTrigger=50, maxTriggerDelay="0s")
    assert soon.latestOffset(start, limit) == {"offset": 60}
    assert soon.latestOffset({"offset": 59}, limit) == {"offset": 60}


def test_a_version_of_spark_without_limits_is_served(url: str) -> None:
    """It asks for the newest offset without saying where the query is."""
    declare(url, "log", "stream")
    publish(url, "log", 0, 100)
    one = reader(url, stream="log", maxMessagesPerTrigger=10)
    assert one.latestOffset() == {"offset": 100}
    assert [(each.begin, each.end) for each in one.partitions({"offset": 0}, {"offset": 100})] == [
        (0, 100)
    ]
    publish(url, "log", 100, 100)
    assert one.latestOffset() == {"offset": 110}


def test_an_offset_never_goes_back(url: str) -> None:
    declare(url, "log", "stream")
    publish(url, "log", 0, 5)
    one = reader(url, stream="log")
    for limit in (datasource.ReadMaxRows(1), datasource.ReadAllAvailable()):
        assert one.latestOffset({"offset": 9}, limit) == {"offset": 9}
