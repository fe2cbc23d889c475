"""Reconciliation: what the firehose saw published, beside what it saw delivered.

The firehose copies a message when it is published, with the queues that it is routed to, and each
time that it is delivered. So each queue of a published copy must have a delivery, or a dead letter
with that queue as its first one. A message is known by its `message_id`, or else by its body; equal
ones are counted, not told apart. `redelivered` copies are no deliveries of their own.

What waits in a queue is missing too, as is what expired without a dead-letter exchange: run the job
when the queues are empty. The firehose sends copies at most once.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha1
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from warren.spark.jobs.messages import messages_of
from warren.spark.jobs.report import Report

TRACE: Final = "amq.rabbitmq.trace"
PUBLISHED: Final = "publish."
DELIVERED: Final = "deliver."
QUEUES: Final = "x-routed-queues"  # annotations of a copy
PROPERTIES: Final = "x-properties"
ID_PATH: Final = "$.message_id"
ORIGIN_PATH: Final = "$['headers']['x-first-death-queue']"
SHOWN: Final = 10  # missing messages that are named
COLUMNS: Final = (
    *("vhost", "queue", "published", "delivered", "redelivered", "dead-lettered"),
    *("missing", "surplus"),
)

Key = tuple[str, str, str]  # vhost, queue, id


@dataclass(slots=True)
class Seen:
    """How often a message was seen in a queue."""

    published: int = 0
    delivered: int = 0  # for the first time
    redelivered: int = 0
    dead: int = 0  # in another queue, as a dead letter of this one

    @property
    def missing(self) -> int:
        return max(0, self.published - self.delivered - self.dead)

    @property
    def surplus(self) -> int:
        return max(0, self.delivered - self.published)


def reconcile(spark: SparkSession, folder: str) -> Report:
    """One row for each queue that messages were published to or delivered from."""
    copies = messages_of(spark, folder).where(F.col("exchange") == TRACE)
    copies = copies.select(
        F.col("headers")["vhost"].alias("vhost"),
        "routing_key",
        F.coalesce(F.col("headers")["redelivered"], F.lit("0")).alias("again"),
        F.from_json(F.col("annotations")[QUEUES], "array<string>").alias("queues"),
        F.get_json_object(F.col("annotations")[PROPERTIES], ORIGIN_PATH).alias("origin"),
        F.coalesce(
            F.get_json_object(F.col("annotations")[PROPERTIES], ID_PATH), F.sha1("body")
        ).alias("id"),
    ).cache()
    published = copies.where(F.col("routing_key").startswith(PUBLISHED))
    unroutable = published.where(F.size("queues") == 0).count()
    seen = _seen(copies, published).cache()
    rows = seen.groupBy("vhost", "queue").agg(
        *(F.sum(each) for each in ("published", "delivered", "redelivered", "dead")),
        *(F.sum(each) for each in ("missing", "surplus")),
    )
    named = seen.where("missing > 0").orderBy("vhost", "queue", "id").limit(SHOWN)
    report = reconciliation_table(
        [tuple(row) for row in rows.collect()],
        [(row.vhost, row.queue, row.id) for row in named.collect()],
        unroutable,
    )
    seen.unpersist()
    copies.unpersist()
    return report


def _seen(copies: DataFrame, published: DataFrame) -> DataFrame:
    """Counts by vhost, queue and id."""
    routed = published.select(
        "vhost", F.explode("queues").alias("queue"), "id", *_ones("published")
    )
    deliveries = copies.where(F.col("routing_key").startswith(DELIVERED)).withColumn(
        "from", F.substring("routing_key", len(DELIVERED) + 1, 1 << 20)
    )
    first = (F.col("origin").isNull()) & (F.col("again") == "0")
    kinds = (
        routed,
        deliveries.where(first).select("vhost", F.col("from"), "id", *_ones("delivered")),
        deliveries.where("again <> '0'").select(
            "vhost", F.col("from"), "id", *_ones("redelivered")
        ),
        deliveries.where("origin IS NOT NULL AND again = '0'").select(
            "vhost", F.col("origin"), "id", *_ones("dead")
        ),
    )
    every = kinds[0]
    for each in kinds[1:]:
        every = every.unionAll(each)
    counted = every.groupBy("vhost", "queue", "id").agg(
        *(F.sum(each).alias(each) for each in ("published", "delivered", "redelivered", "dead"))
    )
    return counted.withColumns(
        {
            "missing": F.expr("greatest(0, published - delivered - dead)"),
            "surplus": F.expr("greatest(0, delivered - published)"),
        }
    )


def _ones(name: str) -> list[Any]:
    """A column for each kind of count: 1 in that of `name`."""
    kinds = ("published", "delivered", "redelivered", "dead")
    return [F.lit(int(each == name)).alias(each) for each in kinds]


def reconciliation_table(
    rows: Iterable[tuple[Any, ...]], missing: Iterable[Key], unroutable: int
) -> Report:
    """`rows` as COLUMNS; `missing`: some of the messages that are."""
    found = sorted(rows)
    total = {name: sum(row[place] for row in found) for place, name in enumerate(COLUMNS[2:], 2)}
    title = f"{total['published']:,} published, {total['missing']:,} missing"
    said = [f"missing: '{name}' in queue '{queue}' of '{vhost}'" for vhost, queue, name in missing]
    if unroutable:
        said.insert(0, f"{unroutable:,} messages were published and routed to no queue")
    is_bad = bool(total["missing"] or total["surplus"])
    return Report(title, COLUMNS, found, "missing", COLUMNS[:2], said, is_bad)


def reconciliation_reference(messages: Iterable[Mapping[str, Any]]) -> Report:
    """The same of rows in memory, in plain Python: what the job must equal."""
    seen: dict[Key, Seen] = {}
    unroutable = 0
    for each in messages:
        if each["exchange"] != TRACE:
            continue
        headers, annotations = dict(each["headers"] or {}), dict(each["annotations"] or {})
        properties = json.loads(annotations.get(PROPERTIES, "{}"))
        name = properties.get("message_id") or sha1(each["body"]).hexdigest()
        origin = properties.get("headers", {}).get("x-first-death-queue")
        what, _, queue = each["routing_key"].partition(".")
        if f"{what}." == PUBLISHED:
            queues = json.loads(annotations.get(QUEUES, "[]"))
            unroutable += not queues
            for routed in queues:
                seen.setdefault((headers["vhost"], routed, name), Seen()).published += 1
            continue
        is_again = headers.get("redelivered", "0") != "0"
        place = queue if origin is None or is_again else origin
        counts = seen.setdefault((headers["vhost"], place, name), Seen())
        if is_again:
            counts.redelivered += 1
        elif origin is None:
            counts.delivered += 1
        else:
            counts.dead += 1
    return _summed(seen, unroutable)


def _summed(seen: Mapping[Key, Seen], unroutable: int) -> Report:
    rows: dict[tuple[str, str], Counter[str]] = {}
    for (vhost, queue, _), counts in seen.items():
        row = rows.setdefault((vhost, queue), Counter())
        for name in ("published", "delivered", "redelivered", "dead", "missing", "surplus"):
            row[name] += getattr(counts, name)
    names = ("published", "delivered", "redelivered", "dead", "missing", "surplus")
    found = [(*key, *(row[name] for name in names)) for key, row in rows.items()]
    missing = sorted(key for key, counts in seen.items() if counts.missing)
    return reconciliation_table(found, missing[:SHOWN], unroutable)
