"""The data source `warren` reads super streams: each partition at its own place."""

import shutil
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("java is not there", allow_module_level=True)

from tests.spark.test_spark import Query, declare, load, publish, run_with
from warren.spark.source import advanced

NAMES: Final = ("orders-0", "orders-1", "orders-2")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def add_partitions(url: str, first: int, end: int) -> None:
    async def work(connection: Any, management: Any) -> None:
        marked = {"x-super-stream": True}
        await management.declare_exchange("orders", arguments=marked)
        for place in range(first, end):
            order = {"x-stream-partition-order": place}
            await management.bind("orders", queue=NAMES[place], key=str(place), arguments=order)

    for name in NAMES[first:end]:
        declare(url, name, "stream")
    run_with(url, work)


def places(rows: Any) -> list[tuple[str, int]]:
    return sorted((each.queue, each.offset) for each in rows)


def expected(*counts: int) -> list[tuple[str, int]]:
    return [(name, n) for name, count in zip(NAMES, counts, strict=False) for n in range(count)]


def test_a_batch_has_the_messages_of_all_partitions(spark: Any, url: str) -> None:
    add_partitions(url, 0, 3)
    for name, count in zip(NAMES, (5, 0, 300), strict=True):
        publish(url, name, 0, count)
    frame = load(spark, url, superStream="orders", numPartitions=6)
    assert places(frame.collect()) == expected(5, 0, 300)
    assert load(spark, url, superStream="orders", startingOffset="next").collect() == []


def test_a_query_goes_on_in_each_partition_and_reads_new_ones(
    spark: Any, url: str, tmp_path: Path
) -> None:
    add_partitions(url, 0, 2)
    publish(url, NAMES[0], 0, 10)
    publish(url, NAMES[1], 0, 500)
    query = Query(spark, url, tmp_path, stream="", superStream="orders")
    query.run()
    publish(url, NAMES[0], 10, 90)
    add_partitions(url, 2, 3)
    publish(url, NAMES[2], 0, 50)
    query.run()
    found = spark.read.parquet(str(tmp_path / "lake")).collect()
    assert places(found) == expected(100, 500, 50)

    async def unbind(connection: Any, management: Any) -> None:
        order = {"x-stream-partition-order": 1}
        await management.unbind("orders", queue=NAMES[1], key="1", arguments=order)

    run_with(url, unbind)
    publish(url, NAMES[0], 100, 1)
    query.run()
    assert len(spark.read.parquet(str(tmp_path / "lake")).collect()) == 651


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"superStream": "none"}, "no super stream 'none'"),
        (
            {"superStream": "orders", "stream": "s"},
            "one of the options 'stream', 'superStream' and 'queue'",
        ),
        ({"superStream": "orders", "startingOffset": "5"}, "allowed: first, next"),
    ],
)
def test_what_cannot_be_read_is_named(
    spark: Any, url: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(Exception, match=text):
        load(spark, url, **options).collect()


@pytest.mark.parametrize(
    ("ends", "limit", "wanted"),
    [
        ({"a": 10, "b": 110, "c": 60}, None, {"a": 10, "b": 110, "c": 60}),
        ({"a": 10, "b": 110, "c": 60}, 90, {"a": 10, "b": 40, "c": 40}),
        ({"a": 0, "b": 10, "c": 0}, 4, {"a": 0, "b": 4, "c": 0}),
        ({"a": 1, "b": 1, "c": 1}, 2, {"a": 1, "b": 1, "c": 0}),
    ],
)
def test_a_limit_is_shared_by_the_partitions(
    ends: dict[str, int], limit: int | None, wanted: dict[str, int]
) -> None:
    assert advanced(dict.fromkeys(ends, 0), ends, limit) == wanted
