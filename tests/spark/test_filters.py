"""Filters of streams that the broker applies: the option `filter`, and conditions of a batch."""

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("java is not there", allow_module_level=True)
pytest.importorskip("warren.spark.filters", exc_type=ImportError)  # PySpark 4.0 has no conditions

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from queues.selectors.sql import parse_sql
from tests.spark.test_spark import Query, declare, load, run_with
from warren.client import Message
from warren.spark.filters import Pushed, push
from warren.spark.options import OptionError, read_options
from warren.spark.pushing import PushingReader
from warren.spark.source import Range, Reader
from warren.spark.stream_reads import ReadError, read
from warren.wire.amqp10.codec.values import ULong

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ENABLED = "spark.sql.python.filterPushdown.enabled"


@pytest.mark.parametrize(
    ("given", "sql"),
    [
        (EqualTo(("content_type",), "it's"), "p.content_type = 'it''s'"),
        (EqualTo(("message_id",), "m7"), "p.message_id = 'm7'"),
        (EqualTo(("message_id",), "7"), ""),  # The id may be a number.
        (EqualTo(("message_id",), "-7"), ""),
        (EqualTo(("message_id",), "00112233-4455-6677-8899-aabbccddeeff"), ""),
        (EqualTo(("message_id",), "b'x'"), ""),
        (In(("correlation_id",), ("a", "b")), "p.correlation_id IN ('a', 'b')"),
        (In(("correlation_id",), ("a", "7")), ""),
        (In(("correlation_id",), ("a", None)), ""),
        (
            StringStartsWith(("content_type",), "a%_\\"),
            "p.content_type LIKE 'a\\%\\_\\\\%' ESCAPE '\\'",
        ),
        (StringEndsWith(("reply_to",), "/q"), "p.reply_to LIKE '%/q' ESCAPE '\\'"),
        (StringContains(("reply_to",), "q"), "p.reply_to LIKE '%q%' ESCAPE '\\'"),
        (StringStartsWith(("message_id",), "m"), ""),
        (IsNotNull(("message_id",)), "p.message_id IS NOT NULL"),
        (IsNull(("message_id",)), ""),
        (Not(EqualTo(("content_type",), "a")), ""),
        (EqualTo(("durable",), True), "h.durable = TRUE"),
        (GreaterThan(("priority",), 3), "h.priority > 3"),
        (EqualTo(("priority",), True), ""),
        (EqualTo(("routing_key",), "k"), ""),
        (EqualTo(("body", "content_type"), "k"), ""),
    ],
)
def test_only_what_means_the_same_to_the_broker_is_pushed(given: Filter, sql: str) -> None:
    found = push([given])
    assert found == Pushed(sql)
    if sql:
        parse_sql(sql)


def test_conditions_of_offsets_are_bounds() -> None:
    many = [
        GreaterThanOrEqual(("offset",), 3),
        GreaterThan(("offset",), 4),
        LessThan(("offset",), 20),
        LessThanOrEqual(("offset",), 9),
        EqualTo(("content_type",), "a"),
        IsNotNull(("offset",)),
    ]
    assert push(many) == Pushed("p.content_type = 'a'", 5, 10)
    assert push([EqualTo(("offset",), 7)]) == Pushed("", 7, 8)
    long = [EqualTo(("content_type",), "x" * 1000 + str(n)) for n in range(5)]
    assert len(push(long).sql) < 3100


def send(url: str, first: int, count: int, size: int = 0) -> None:
    """Every tenth is of the region `eu`, and a PNG."""

    async def work(connection: Any, management: Any) -> None:
        publisher = await connection.publisher("/queues/log")
        sent = [
            Message(
                bytes(size),
                message_id=f"m{n}" if n % 2 else ULong(n),
                content_type="image/png" if n % 10 == 0 else "text/plain",
                application_properties={"region": "us" if n % 10 else "eu"},
            )
            for n in range(first, first + count)
        ]
        assert all(each.is_accepted for each in await publisher.publish_many(sent))

    run_with(url, work)


def offsets_of(options: Any, begin: int, end: int) -> list[int]:
    return [
        offset
        for batch in read(options, begin, end)
        for offset in batch.column("offset").to_pylist()
    ]


def test_a_task_ends_with_its_range_whatever_the_filter_leaves_out(url: str) -> None:
    declare(url, "log", "stream")
    send(url, 0, 1000)
    options = read_options({"url": url, "stream": "log", "filter": "region = 'eu'"})
    for begin, end in ((0, 1000), (0, 500), (5, 9), (10, 11), (991, 1000), (500, 1000)):
        assert offsets_of(options, begin, end) == [n for n in range(begin, end) if n % 10 == 0]
    none = read_options({"url": url, "stream": "log", "filter": "region = 'none'"})
    assert offsets_of(none, 0, 1000) == []
    every = read_options({"url": url, "stream": "log", "filter": "region <> 'none'"})
    assert offsets_of(every, 0, 1000) == list(range(1000))


def test_a_filter_that_is_wrong_is_named(url: str) -> None:
    declare(url, "log", "stream")
    send(url, 0, 1)
    options = read_options({"url": url, "stream": "log", "filter": "region = = 'eu'"})
    with pytest.raises(ReadError, match="invalid filter amqp:sql-filter"):
        offsets_of(options, 0, 1)
    for text in (" ", "x" * 4097):
        with pytest.raises(OptionError, match=r"option 'filter' has .* characters; allowed"):
            read_options({"url": url, "stream": "log", "filter": text})
    with pytest.raises(OptionError, match="option 'filter' is for streams"):
        read_options({"url": url, "queue": "q", "lease": "a", "filter": "a = 1"})


def test_retention_is_seen_behind_a_filter(url: str) -> None:
    async def work(connection: Any, management: Any) -> None:
        arguments = {
            "x-queue-type": "stream",
            "x-max-length-bytes": 2_000_000,
            "x-stream-max-segment-size-bytes": 1_000_000,
        }
        await management.declare_queue("log", arguments=arguments)

    run_with(url, work)
    for first in range(0, 1200, 20):
        send(url, first, 20, 10_000)
    given = {"url": url, "stream": "log", "filter": "region = 'eu'"}
    with pytest.raises(ReadError, match=r"stream 'log': offset 0 is wanted, .* by retention"):
        offsets_of(read_options(given), 0, 1200)
    found = offsets_of(read_options(given | {"failOnDataLoss": "false"}), 0, 1200)
    assert found and found[-1] == 1190


def test_a_query_with_a_filter_goes_on_where_it_was(spark: Any, url: str, tmp_path: Path) -> None:
    declare(url, "log", "stream")
    query = Query(spark, url, tmp_path, filter="region = 'eu'")
    for first in (0, 300):
        send(url, first, 300)
        query.run()
        assert query.offsets() == list(range(0, first + 300, 10))


def test_conditions_of_a_batch_go_to_the_broker(spark: Any, url: str) -> None:
    declare(url, "log", "stream")
    send(url, 0, 300)
    spark.conf.set(ENABLED, "false")
    with pytest.raises(Exception, match=ENABLED):
        load(spark, url, stream="log", pushFilters=True).where("offset < 5").collect()
    spark.conf.set(ENABLED, "true")
    try:
        frame = load(spark, url, stream="log", pushFilters=True, numPartitions=2)
        found = frame.where("content_type LIKE 'image/%' AND offset >= 95").collect()
        assert sorted(each.offset for each in found) == list(range(100, 300, 10))
        for name, wanted in (("m7", [7]), ("8", [8]), ("m8", [])):
            rows = frame.where(f"message_id = '{name}'").collect()
            assert [each.offset for each in rows] == wanted
        assert frame.where("offset < 0").collect() == []
    finally:
        spark.conf.unset(ENABLED)


def test_what_is_pushed_is_not_read(url: str) -> None:
    declare(url, "log", "stream")
    send(url, 0, 100)
    one = PushingReader(read_options({"url": url, "stream": "log", "filter": "region = 'eu'"}))
    conditions = [EqualTo(("content_type",), "image/png"), LessThan(("offset",), 35)]
    assert one.pushFilters(conditions) == conditions, "Spark looks at each row again"
    (part,) = one.partitions()
    assert (part.begin, part.end) == (0, 35)
    assert [row for batch in one.read(part) for row in batch.column("offset").to_pylist()] == (
        [0, 10, 20, 30]
    )
    plain = Reader(read_options({"url": url, "stream": "log"}))
    assert sum(len(each) for each in plain.read(Range("log", 0, 100))) == 100
