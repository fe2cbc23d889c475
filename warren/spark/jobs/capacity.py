"""When a node reaches a limit, if it goes on as in the samples (`jobs.metrics`).

A straight line is laid through the samples of each resource by least squares. Spark adds up whole
numbers, the line is made of the sums; so plain Python gives the same table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from warren.spark.jobs.metrics import Row, table_of
from warren.spark.jobs.report import Report

MS_PER_HOUR: Final = 3_600_000
HOURS_MAX: Final = 24 * 365  # beyond that a line says nothing
RESOURCES: Final = {
    "memory": ("mem_used", "mem_limit"),
    "disk": ("disk_free", "disk_free_limit"),
    "descriptors": ("fd_used", "fd_total"),
}
FALLING: Final = ("disk",)  # to their limits


@dataclass(frozen=True)
class Sums:
    """Of the samples of one resource of one node; x: milliseconds since the first sample."""

    n: int
    x: int
    y: int
    xx: int
    xy: int
    last_ms: int
    last: int
    limit: int

    def per_hour(self) -> float:
        """The slope of the line."""
        spread = self.n * self.xx - self.x * self.x
        return MS_PER_HOUR * (self.n * self.xy - self.x * self.y) / spread if spread else 0.0

    def hours_left(self, falls: bool) -> float | None:
        """0: the limit is reached; None: it is not within a year."""
        sign = -1 if falls else 1
        left, rate = sign * (self.limit - self.last), sign * self.per_hour()
        if left <= 0:
            return 0.0
        hours = left / rate if rate > 0 else HOURS_MAX + 1.0
        return hours if hours <= HOURS_MAX else None


def capacity(spark: SparkSession, folder: str) -> Report:
    """Time until memory, disk and descriptors of each node are at their limits."""
    nodes = table_of(spark, folder, "nodes")
    first = nodes.agg(F.min("at_ms")).collect()[0][0] or 0
    x = (F.col("at_ms") - F.lit(first)).cast("decimal(12,0)")
    found: dict[tuple[str, str], Sums] = {}
    for name, (value, limit) in RESOURCES.items():
        y = F.col(value).cast("decimal(20,0)")
        sums = nodes.groupBy("node").agg(
            F.count("*"),
            *(F.sum(each) for each in (x, y, x * x, x * y)),
            F.max("at_ms"),
            F.max_by(value, "at_ms"),
            F.max_by(limit, "at_ms"),
        )
        for node, *numbers in sums.collect():
            found[node, name] = Sums(*map(int, numbers))
    return capacity_table(found)


def capacity_reference(nodes: Sequence[Row]) -> Report:
    """The same of rows in memory, in plain Python."""
    first = min((row["at_ms"] for row in nodes), default=0)
    found: dict[tuple[str, str], Sums] = {}
    for name, (value, limit) in RESOURCES.items():
        by_node: dict[str, list[Row]] = {}
        for row in nodes:
            by_node.setdefault(row["node"], []).append(row)
        for node, rows in by_node.items():
            points = [(row["at_ms"] - first, row[value]) for row in rows]
            last = max(rows, key=lambda row: row["at_ms"])
            found[node, name] = Sums(
                len(points),
                *(sum(x for x, _ in points), sum(y for _, y in points)),
                *(sum(x * x for x, _ in points), sum(x * y for x, y in points)),
                *(last["at_ms"], last[value], last[limit]),
            )
    return capacity_table(found)


def capacity_table(found: Mapping[tuple[str, str], Sums]) -> Report:
    """The nearest limit first."""
    rows: list[tuple[Any, ...]] = []
    for (node, name), sums in found.items():
        hours = sums.hours_left(name in FALLING)
        at = None if hours is None else _time(sums.last_ms + hours * MS_PER_HOUR)
        rows.append((node, name, sums.last, sums.limit, sums.per_hour(), hours, at))
    rows.sort(key=lambda row: (row[5] is None, row[5] or 0.0, row[:2]))
    columns = ("node", "resource", "now", "limit", "per hour", "hours left", "reached at")
    soon = [row for row in rows if row[5] is not None]
    said = f"{len(soon)} of {len(rows)} limits are reached within a year if nothing changes"
    return Report("Capacity", columns, rows, "hours left", columns[:2], [said])


def _time(ms: float) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
