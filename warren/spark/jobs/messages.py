"""Jobs on messages: a stream kept as Parquet, what was dead-lettered, and messages sent again."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import reduce
from typing import Any, Final
from urllib.parse import quote

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


STREAMS: Final = "streams"  # folders of a lake
OF_ALL_STREAMS: Final = "messages"


class JobFailed(Exception):
    """What is asked for cannot be done; the text says why."""


def lake(spark: SparkSession, url: str, stream: str, folder: str, partitions: int) -> Report:
    """Append what the stream has since the last run to Parquet by vhost and day.

    The day is that of the message's timestamp, or else that of the run. A run that was interrupted
    goes on where it was: each message is in the files once. Each stream has a folder of its own:
    Spark's log of a folder knows files by the numbers of the micro-batches of one query.
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
        .option("path", f"{folder}/{STREAMS}/{quote(stream, '')}")
        .option("checkpointLocation", f"{folder}/checkpoint-{stream}")
        .partitionBy("vhost", "day")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    written = sum(each["numInputRows"] for each in query.recentProgress)
    days = messages_of(spark, folder).where(F.col("queue") == stream).groupBy("vhost", "day")
    counts = {(each.vhost, str(each.day)): each["count"] for each in days.count().collect()}
    return lake_table(stream, folder, counts, written)


def lake_table(
    stream: str, folder: str, counts: Mapping[tuple[str, str], int], added_count: int
) -> Report:
    """`counts`: messages of the stream by vhost and day, of all runs."""
    return Report(
        f"stream '{stream}' in {folder}",
        ("vhost", "day", "messages"),
        [(*place, count) for place, count in sorted(counts.items())],
        "messages",
        ("vhost", "day"),
        [f"{added_count} messages were added"],
    )


Runs = Iterable[tuple[date, Iterable[Mapping[str, Any]]]]


def lake_reference(vhost: str, runs: Runs) -> list[dict[str, Any]]:
    """The rows that the files have after these runs, in plain Python: what the job must equal.

    Each run has its day, and the messages that were in the stream by then; times as Spark gives
    them. Messages that an earlier run has kept are known by their offsets.
    """
    kept: dict[tuple[str, int], dict[str, Any]] = {}
    for run_day, messages in runs:
        for each in messages:
            at = each["timestamp"]
            row = {**each, "vhost": vhost, "day": run_day if at is None else at.date()}
            kept.setdefault((each["queue"], each["offset"]), row)
    return [kept[place] for place in sorted(kept)]


def messages_of(spark: SparkSession, folder: str) -> DataFrame:
    """The messages that `lake` has kept, of all streams."""
    found = [spark.read.parquet(each) for each in _folders(spark, folder)]
    if not found:
        raise JobFailed(f"{folder}: the job 'lake' has kept nothing there")
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), found)


def _folders(spark: SparkSession, folder: str) -> list[str]:
    """Those with messages; one of all streams is of an older version."""
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path
    system = path(folder).getFileSystem(context._jsc.hadoopConfiguration())
    streams = path(f"{folder}/{STREAMS}")
    found = system.listStatus(streams) if system.exists(streams) else []
    old = f"{folder}/{OF_ALL_STREAMS}"
    return [str(each.getPath()) for each in found] + [old] * system.exists(path(old))


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
    counted = chosen.groupBy("queue").count().collect()
    report = replay_table(exchange, {each.queue: each["count"] for each in counted}, is_dry)
    if is_dry:
        return report
    sent = chosen.orderBy("queue", "offset").select(
        *SENT_COLUMNS, F.coalesce("routing_key", F.lit("")).alias("routing_key")
    )
    write = sent.coalesce(1).write.format("warren").options(url=url, exchange=exchange)
    if per_second:
        write = write.option("maxRowsPerSecond", per_second)
    write.mode("append").save()
    return report


def replay_table(exchange: str, counts: Mapping[str, int], is_dry: bool) -> Report:
    """`counts`: messages by the stream that they were kept from."""
    done = "would be published" if is_dry else f"were published to exchange '{exchange}'"
    title = f"{sum(counts.values())} messages {done}"
    rows = sorted(counts.items())
    return Report(title, ("queue", "messages"), rows, "messages", ("queue",))


def replay_reference(
    messages: Iterable[Mapping[str, Any]], is_chosen: Callable[[Mapping[str, Any]], bool]
) -> list[dict[str, Any]]:
    """The rows that are published, in their order, in plain Python: what the job must equal."""
    chosen = sorted(filter(is_chosen, messages), key=lambda row: (row["queue"], row["offset"]))
    return [
        {name: row[name] for name in SENT_COLUMNS} | {"routing_key": row["routing_key"] or ""}
        for row in chosen
    ]
