"""Jobs on messages: a stream kept as Parquet, what was dead-lettered, and messages sent again."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from warren.client.url import parse_url
from warren.spark.jobs.report import Report

DEATH_QUEUE: Final = "x-first-death-queue"
DEATH_REASON: Final = "x-first-death-reason"
# Each death of a message, the oldest first.
LADDER: Final = """array_join(transform(reverse(deaths),
    each -> concat(each.queue, ' ', each.reason, ' x', each.count)), ', ')"""
SENT_COLUMNS: Final = ("body", "message_id", "correlation_id", "content_type", "headers")


class JobFailed(Exception):
    """What is asked for cannot be done; the text says why."""


def lake(spark: SparkSession, url: str, stream: str, folder: str, partitions: int) -> Report:
    """Append what the stream has since the last run to Parquet by vhost and day.

    The day is that of the message's timestamp, or else that of the run. A run that was interrupted
    goes on where it was: each message is in the files once.
    """
    vhost = parse_url(url).vhost or "/"
    rows = (
        spark.readStream.format("warren")
        .options(url=url, stream=stream, numPartitions=partitions)
        .load()
        .withColumn("vhost", F.lit(vhost))
        .withColumn("day", F.coalesce(F.to_date("timestamp"), F.current_date()))
    )
    query = (
        rows.writeStream.format("parquet")
        .option("path", f"{folder}/messages")
        .option("checkpointLocation", f"{folder}/checkpoint-{stream}")
        .partitionBy("vhost", "day")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    written = sum(each["numInputRows"] for each in query.recentProgress)
    days = messages_of(spark, folder).where(F.col("queue") == stream).groupBy("vhost", "day")
    counted = days.count().orderBy("vhost", "day").collect()
    return Report(
        f"stream '{stream}' in {folder}",
        ("vhost", "day", "messages"),
        [(each.vhost, str(each.day), each["count"]) for each in counted],
        "messages",
        ("vhost", "day"),
        [f"{written} messages were added"],
    )


def messages_of(spark: SparkSession, folder: str) -> DataFrame:
    """The messages that `lake` has kept."""
    return spark.read.parquet(f"{folder}/messages")


# Dead letters

Chain = tuple[str | None, ...]  # queue, reason, ladder, queue that keeps them


def dead_letters(spark: SparkSession, folder: str) -> Report:
    """How many messages each queue has dead-lettered first, why, and where they were after that."""
    kept = messages_of(spark, folder)
    # A lake of an older version has no deaths.
    ladder = LADDER if "deaths" in kept.columns else "''"
    found = kept.select(
        F.col("annotations")[DEATH_QUEUE].alias("from"),
        F.col("annotations")[DEATH_REASON].alias("reason"),
        F.coalesce(F.expr(ladder), F.lit("")).alias("ladder"),
        F.col("queue").alias("to"),
    )
    counted = found.where("`from` IS NOT NULL").groupBy("from", "reason", "ladder", "to").count()
    return dead_letter_table({tuple(row[:4]): row[4] for row in counted.collect()})


def dead_letter_table(counts: Mapping[Chain, int]) -> Report:
    found = sorted(counts.items(), key=lambda each: (-each[1], [text or "" for text in each[0]]))
    by_reason = Counter[str]()
    for (_, reason, *_), count in found:
        by_reason[reason or "?"] += count
    said = [f"{reason}: {count:,} messages" for reason, count in sorted(by_reason.items())]
    columns = ("dead-lettered by", "reason", "ladder", "kept in", "messages")
    rows = [(*key, count) for key, count in found]
    return Report("Dead letters", columns, rows, "messages", columns[:2], said)


def dead_letter_reference(messages: Iterable[Mapping[str, Any]]) -> Report:
    """The same of rows in memory, in plain Python: what the job must equal."""
    counts: Counter[Chain] = Counter()
    for each in messages:
        annotations = dict(each["annotations"] or {})
        if DEATH_QUEUE in annotations:
            deaths = reversed(each["deaths"] or ())
            steps = [f"{d['queue']} {d['reason']} x{d['count']}" for d in deaths]
            first = annotations[DEATH_QUEUE], annotations.get(DEATH_REASON)
            counts[*first, ", ".join(steps), each["queue"]] += 1
    return dead_letter_table(counts)


def replay(
    spark: SparkSession,
    folder: str,
    url: str,
    exchange: str,
    where: str,
    per_second: int,
    is_dry: bool,
) -> Report:
    """Publish kept messages again, by their routing keys, in the order of each stream.

    `where`: a condition of SQL on the columns. `per_second`: 0 is no limit. `is_dry`: only count.
    """
    if per_second < 0:
        raise JobFailed(f"--rate is {per_second}; allowed: 0 or more")
    chosen = messages_of(spark, folder).where(where)
    total = chosen.count()
    columns = ("queue", "messages")
    counted = chosen.groupBy("queue").count().orderBy("queue").collect()
    rows = [(each.queue, each["count"]) for each in counted]
    if is_dry:
        return Report(f"{total} messages would be published", columns, rows, "messages", ("queue",))
    sent = chosen.orderBy("queue", "offset").select(
        *SENT_COLUMNS, F.coalesce("routing_key", F.lit("")).alias("routing_key")
    )
    write = sent.coalesce(1).write.format("warren").options(url=url, exchange=exchange)
    if per_second:
        write = write.option("maxRowsPerSecond", per_second)
    write.mode("append").save()
    title = f"{total} messages were published to exchange '{exchange}'"
    return Report(title, columns, rows, "messages", ("queue",))
