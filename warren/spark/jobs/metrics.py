"""Samples of the HTTP API, kept as Parquet: what `hot-queues`, `tenants`, `placement` and
`capacity` read. Counters are kept as the API gives them: since each object's start.
"""

import base64
import http.client
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from warren.spark.jobs.messages import JobFailed
from warren.spark.jobs.report import Report

TIMEOUT_S: Final = 30
NOT_OPEN: Final = "-"
Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """One kind of objects: where the API lists them, and what is kept of each."""

    path: str
    schema: str  # less `at_ms` and `day`
    row_of: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    partitions: tuple[str, ...] = ("day", "vhost")


def sample(spark: SparkSession, url: str, folder: str, count: int, every_s: float) -> Report:
    """Append samples to the tables in `folder`. JobFailed: the API does not answer."""
    if count < 1 or every_s < 0:
        raise JobFailed(f"--count is {count} and --every {every_s}; allowed: from 1 and from 0 on")
    api = Api(url)
    counts = dict.fromkeys(TABLES, 0)
    for number in range(count):
        if number:
            time.sleep(every_s)
        at_ms = time.time_ns() // 1_000_000
        for name in TABLES:
            rows = api.rows(name)
            counts[name] += len(rows)
            keep(spark, folder, name, at_ms, rows)
    title = f"{count} samples of {api.shown} in {folder}"
    return Report(title, ("table", "rows"), list(counts.items()), "rows", ("table",))


def keep(
    spark: SparkSession, folder: str, name: str, at_ms: int, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Append what the API listed at that time to a table."""
    table = TABLES[name]
    if not rows:
        return
    day = datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
    made = [(at_ms, day, *table.row_of(each)) for each in rows]
    frame = spark.createDataFrame(made, f"at_ms bigint, day string, {table.schema}").coalesce(1)
    frame.write.mode("append").partitionBy(*table.partitions).parquet(f"{folder}/{name}")


def table_of(spark: SparkSession, folder: str, name: str) -> DataFrame:
    """All samples of a table; empty if there are none. JobFailed: nothing was ever kept there."""
    schema = f"at_ms bigint, day string, {TABLES[name].schema}"
    try:
        return spark.read.schema(schema).parquet(f"{folder}/{name}")
    except AnalysisException:
        if name == "nodes":  # There is always one.
            raise JobFailed(f"{folder}: the job 'metrics' has kept nothing there") from None
        return spark.createDataFrame([], schema)


class Api:
    """The HTTP API of a node."""

    def __init__(self, url: str) -> None:
        """JobFailed: the URL is none."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise JobFailed("--api: expected http://USER:PASSWORD@HOST:PORT")
        host = parts.netloc.rpartition("@")[2]
        self.shown = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        login = f"{unquote(parts.username or 'guest')}:{unquote(parts.password or 'guest')}"
        self._login = base64.b64encode(login.encode()).decode()

    def rows(self, name: str) -> list[Row]:
        """What is listed for a table. JobFailed: no answer, or another one."""
        request = urllib.request.Request(self.shown + TABLES[name].path)
        request.add_header("Authorization", f"Basic {self._login}")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                found = json.load(answer)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise JobFailed(f"{request.full_url}: {error}") from error
        if not isinstance(found, list):
            raise JobFailed(f"{request.full_url}: the answer is no list")
        # A node that does not run, or a queue without a leader, has no numbers.
        return [each for each in found if isinstance(each, dict) and each.get("running", True)]


def _queue(row: Mapping[str, Any]) -> tuple[Any, ...]:
    stats = row.get("message_stats") or {}
    return (
        *(row["vhost"], row["name"], row.get("type") or "", row.get("node") or ""),
        [str(each) for each in row.get("online") or [row.get("node") or ""]],
        *(_number(row, "messages"), _number(row, "message_bytes")),
        *(_number(stats, "publish"), _number(stats, "deliver_get")),
    )


def _node(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["name"], *(_number(row, each) for each in NODE_NUMBERS))


def _connection(row: Mapping[str, Any]) -> tuple[Any, ...]:
    # One that is not open yet has neither vhost nor user.
    place = row.get("vhost") or NOT_OPEN, row.get("user") or NOT_OPEN
    return (
        *place,
        row["name"],
        row.get("node") or "",
        _number(row, "recv_oct"),
        _number(row, "send_oct"),
    )


def _consumer(row: Mapping[str, Any]) -> tuple[Any, ...]:
    queue, channel = row["queue"], row.get("channel_details") or {}
    consumer = f"{channel.get('name', '')} {row['consumer_tag']}"
    named = (queue["vhost"], queue["name"], consumer, channel.get("node") or "")
    return (*named, _number(row, "delivered"))


def _number(row: Mapping[str, Any], name: str) -> int:
    found = row.get(name)
    return found if isinstance(found, int) else 0


NODE_NUMBERS: Final = (
    *("mem_used", "mem_limit", "disk_free", "disk_free_limit", "fd_used", "fd_total"),
)
TABLES: Final[Mapping[str, Table]] = {
    "queues": Table(
        "/api/queues",
        """vhost string, queue string, type string, leader string, online array<string>,
        messages bigint, message_bytes bigint, published bigint, delivered bigint""",
        _queue,
    ),
    "nodes": Table(
        "/api/nodes",
        f"node string, {', '.join(f'{each} bigint' for each in NODE_NUMBERS)}",
        _node,
        ("day",),
    ),
    "connections": Table(
        "/api/connections",
        """vhost string, user string, connection string, node string, received bigint,
        sent bigint""",
        _connection,
    ),
    "consumers": Table(
        "/api/consumers",
        "vhost string, queue string, consumer string, node string, delivered bigint",
        _consumer,
    ),
}


def series(
    rows: Sequence[Row], key: Sequence[str], value: str
) -> Iterator[tuple[tuple[Any, ...], int]]:
    """How much each counter has grown from one sample to the next, in plain Python.

    An object that was not in the first sample has counted from 0 on, and so has one whose counter
    fell: its node was started again.
    """
    first_ms = min((row["at_ms"] for row in rows), default=0)
    last: dict[tuple[Any, ...], int] = {}
    for row in sorted(rows, key=lambda each: each["at_ms"]):
        name, count = tuple(row[each] for each in key), row[value]
        before = last.get(name, count if row["at_ms"] == first_ms else 0)
        yield name, count - before if count >= before else count
        last[name] = count
