"""Who loads the cluster, and which leaders should be elsewhere: of samples (`jobs.metrics`).

Spark adds up whole numbers; rates and shares are made of the sums by the same lines that the plain
Python uses, so both give the same table.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from warren.spark.jobs.metrics import Row, series, table_of
from warren.spark.jobs.report import Report

MS: Final = 1000
QUEUE: Final = ("vhost", "queue")
TENANT: Final = ("vhost", "user")
CONNECTION: Final = (*TENANT, "connection")
CONSUMER: Final = (*QUEUE, "consumer", "node")
SHARE_PERCENT: Final = 60.0  # of deliveries, so that a leader is to move
MOVABLE: Final = "quorum"  # the type of queue whose leader can be handed over


def grown(key: Sequence[str], value: str, first_ms: Column) -> Column:
    """`metrics.series` for Spark."""
    before = F.lag(value).over(Window.partitionBy(*key).orderBy("at_ms"))
    at_first = F.when(F.col("at_ms") == first_ms, F.col(value)).otherwise(F.lit(0))
    known = F.coalesce(before, at_first)
    return F.when(F.col(value) >= known, F.col(value) - known).otherwise(F.col(value))


def growing(rows: DataFrame, key: Sequence[str], *values: str) -> DataFrame:
    """The rows with a column `VALUE_grown` for each counter."""
    first_ms = F.min("at_ms").over(Window.partitionBy(F.lit(0)))
    found = rows.withColumn("first_ms", first_ms)
    for value in values:
        found = found.withColumn(f"{value}_grown", grown(key, value, F.col("first_ms")))
    return found


def span_ms(rows: DataFrame) -> int:
    """From the first sample to the last."""
    found = rows.agg(F.max("at_ms") - F.min("at_ms")).collect()[0][0]
    return int(found or 0)


def span_of(rows: Sequence[Row]) -> int:
    times = [row["at_ms"] for row in rows]
    return max(times) - min(times) if times else 0


def _rate(count: int, span: int) -> float:
    return count * MS / span if span else 0.0


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


# Hot queues


@dataclass
class Load:
    """What one queue had to do."""

    leader: str
    published: int
    delivered: int
    backlog: int
    backlog_before: int


def hot_queues(spark: SparkSession, folder: str, top: int) -> Report:
    """The queues with the most messages that were published and delivered."""
    rows = growing(table_of(spark, folder, "queues"), QUEUE, "published", "delivered")
    found = rows.groupBy(*QUEUE).agg(
        F.max_by("leader", "at_ms"),
        F.sum("published_grown"),
        F.sum("delivered_grown"),
        F.max_by("messages", "at_ms"),
        F.min_by("messages", "at_ms"),
    )
    loads = {(row[0], row[1]): Load(*row[2:]) for row in found.collect()}
    return hot_table(loads, span_ms(table_of(spark, folder, "nodes")), top)


def hot_reference(queues: Sequence[Row], nodes: Sequence[Row], top: int) -> Report:
    """The same of rows in memory, in plain Python."""
    loads: dict[tuple[Any, ...], Load] = {}
    for row in sorted(queues, key=lambda each: each["at_ms"]):
        load = loads.setdefault((row["vhost"], row["queue"]), Load("", 0, 0, 0, row["messages"]))
        load.leader, load.backlog = row["leader"], row["messages"]
    for key, count in series(queues, QUEUE, "published"):
        loads[key].published += count
    for key, count in series(queues, QUEUE, "delivered"):
        loads[key].delivered += count
    return hot_table(loads, span_of(nodes), top)


def hot_table(loads: Mapping[tuple[Any, ...], Load], span: int, top: int) -> Report:
    total = sum(each.published + each.delivered for each in loads.values())
    rows = [
        (
            *(*key, load.leader, _rate(load.published, span), _rate(load.delivered, span)),
            _percent(load.published + load.delivered, total),
            *(load.backlog, load.backlog - load.backlog_before),
        )
        for key, load in loads.items()
    ]
    rows.sort(key=lambda row: (-row[5], row[:2]))
    shown = f"{len(loads)} queues in {span / MS:g} s"
    columns = (
        *("vhost", "queue", "leader", "published/s", "delivered/s", "share %"),
        *("backlog", "backlog change"),
    )
    return Report("Hot queues", columns, rows[:top], "share %", QUEUE, [shown])


# Noisy tenants


def tenants(spark: SparkSession, folder: str) -> Report:
    """Bytes that the connections of each vhost and user have sent and got."""
    rows = growing(table_of(spark, folder, "connections"), CONNECTION, "received", "sent")
    found = rows.groupBy(*TENANT).agg(
        F.count_distinct("connection"), F.sum("received_grown"), F.sum("sent_grown")
    )
    counts = {(row[0], row[1]): (row[2], row[3], row[4]) for row in found.collect()}
    return tenant_table(counts, span_ms(table_of(spark, folder, "nodes")))


def tenant_reference(connections: Sequence[Row], nodes: Sequence[Row]) -> Report:
    """The same of rows in memory, in plain Python."""
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in connections:
        names[row["vhost"], row["user"]].add(row["connection"])
    sums: dict[str, Counter[tuple[str, str]]] = {"received": Counter(), "sent": Counter()}
    for value, counter in sums.items():
        for (vhost, user, _), count in series(connections, CONNECTION, value):
            counter[vhost, user] += count
    counts = {key: (len(each), *(sums[v][key] for v in sums)) for key, each in names.items()}
    return tenant_table(counts, span_of(nodes))


def tenant_table(counts: Mapping[tuple[str, str], tuple[int, ...]], span: int) -> Report:
    total = sum(received + sent for _, received, sent in counts.values())
    rows = [
        (*key, n, _rate(received, span), _rate(sent, span), _percent(received + sent, total))
        for key, (n, received, sent) in counts.items()
    ]
    rows.sort(key=lambda row: (-row[5], row[:2]))
    columns = ("vhost", "user", "connections", "bytes in/s", "bytes out/s", "share %")
    return Report("Tenants", columns, rows, "share %", TENANT, [f"in {span / MS:g} s"])


# Placement


@dataclass
class Place:
    """Where a queue is, and where its messages are delivered to."""

    kind: str = ""
    leader: str = ""
    online: Sequence[str] = ()
    delivered: Counter[str] = field(default_factory=Counter)  # by node of the consumer


def placement(spark: SparkSession, folder: str, share: float) -> Report:
    """Which leaders of quorum queues should be where most of their messages are consumed."""
    queues = table_of(spark, folder, "queues").groupBy(*QUEUE)
    latest = queues.agg(
        F.max_by("type", "at_ms"), F.max_by("leader", "at_ms"), F.max_by("online", "at_ms")
    )
    places = {(row[0], row[1]): Place(row[2], row[3], row[4]) for row in latest.collect()}
    rows = growing(table_of(spark, folder, "consumers"), CONSUMER, "delivered")
    found = rows.groupBy(*QUEUE, "node").agg(F.sum("delivered_grown"))
    for vhost, queue, node, count in found.collect():
        places.setdefault((vhost, queue), Place()).delivered[node] += count
    return placement_table(places, share)


def placement_reference(queues: Sequence[Row], consumers: Sequence[Row], share: float) -> Report:
    """The same of rows in memory, in plain Python."""
    places: dict[tuple[Any, ...], Place] = {}
    for row in sorted(queues, key=lambda each: each["at_ms"]):
        key = row["vhost"], row["queue"]
        places[key] = Place(row["type"], row["leader"], row["online"])
    for (vhost, queue, _, node), count in series(consumers, CONSUMER, "delivered"):
        places.setdefault((vhost, queue), Place()).delivered[node] += count
    return placement_table(places, share)


def placement_table(places: Mapping[tuple[Any, ...], Place], share: float) -> Report:
    """One row for each leader that should move; `command` does it."""
    local = total = gained = 0
    rows = []
    for (vhost, queue), place in places.items():
        delivered = place.delivered.total()
        total += delivered
        local += place.delivered[place.leader]
        able = [each for each in place.online if each != place.leader]
        best = max(able, key=lambda each: (place.delivered[each], each), default="")
        percent = _percent(place.delivered[best], delivered)
        if place.kind != MOVABLE or not best or not delivered or percent < share:
            continue
        gained += place.delivered[best] - place.delivered[place.leader]
        before = _percent(place.delivered[place.leader], delivered)
        names = " ".join(map(quote, (vhost, queue, best)))
        command = f"warrenctl transfer_leadership --vhost {names}"
        rows.append((vhost, queue, place.leader, best, delivered, before, percent, command))
    rows.sort(key=lambda row: (-row[4], row[:2]))
    columns = (
        *("vhost", "queue", "leader", "move to", "delivered", "local %", "local % then"),
        "command",
    )
    now, then = _percent(local, total), _percent(local + gained, total)
    said = f"{now:.1f} % of {total:,} deliveries are local, {then:.1f} % after {len(rows)} moves"
    return Report("Placement of leaders", columns, rows, "delivered", QUEUE, [said])
