"""Histories of clients (`warren.testing.history`), judged, measured and kept by Spark.

Each history is read by one task, with the rules of plain Python; so thousands of them are judged
in parallel, and a result is the same as that of `warren.testing.history.judge`. Paths are those of
pyarrow: files of this machine, or addresses such as s3://BUCKET/FOLDER.
"""

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from warren.spark.jobs.report import Report
from warren.testing.history import BadHistory, judge, read_lines

PERCENTILES: Final = (0.5, 0.9, 0.99, 0.999)
NS_PER_MS: Final = 1e6
SUMMARY_MAX: Final = 20  # sentences
BATCH: Final = 100_000  # rows
READ_BYTES: Final = 1 << 20
JUDGED: Final = """file string, error string, summary string, kind string, count bigint,
    line bigint, meaning string"""
MEASURED: Final = "file string, error string, queue string, ns bigint"
KEPT: Final = """file string, error string, line bigint, at_ns bigint, event string, queue string,
    id string, details string"""
OWN: Final = ("at_ns", "event", "queue", "id")  # fields with columns of their own

Events = Iterator[dict[str, Any]]
Row = tuple[object, ...]


def files_in(path: str) -> list[str]:
    """The file, or all files of the folder. BadHistory: there is none."""
    system, place = _opened(path)
    about = system.get_file_info(place)
    if about.type == fs.FileType.File:
        return [path]
    names: list[str] = []
    if about.type == fs.FileType.Directory:
        found = system.get_file_info(fs.FileSelector(place))
        names = sorted(each.base_name for each in found if each.is_file)
    if not names:
        raise BadHistory(f"{path}: there are no histories")
    return [f"{path.rstrip('/')}/{name}" for name in names]


def _opened(path: str) -> tuple[Any, str]:
    if "://" in path:
        system, place = fs.FileSystem.from_uri(path)
        return system, place
    return fs.LocalFileSystem(), str(Path(path).absolute())


def each_history(
    spark: SparkSession, files: list[str], schema: str, work: Callable[[Events], Iterable[Row]]
) -> DataFrame:
    """Rows that `work` makes of each history, behind its file and why it is none (or null)."""
    names = [each.split()[0] for each in schema.split(",")]

    def rows(file: str) -> Iterator[Row]:
        system, place = _opened(file)
        try:
            with io.BufferedReader(system.open_input_stream(place), READ_BYTES) as opened:
                for row in work(read_lines(opened)):
                    yield (file, None, *row)
        except BadHistory as error:
            yield (file, str(error), *[None] * (len(names) - 2))

    def batches(tables: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for table in tables:
            for file in table.column(0).to_pylist():
                yield from _batches(names, rows(file))

    listed = spark.createDataFrame([(each,) for each in files], "file string")
    return listed.repartition(len(files), "file").mapInArrow(batches, schema)


def _batches(names: list[str], rows: Iterator[Row]) -> Iterator[pyarrow.RecordBatch]:
    kept: list[Row] = []
    for row in rows:
        kept.append(row)
        if len(kept) == BATCH:
            yield _batch(names, kept)
            kept = []
    if kept:
        yield _batch(names, kept)


def _batch(names: list[str], rows: list[Row]) -> pyarrow.RecordBatch:
    columns = [[row[place] for row in rows] for place in range(len(names))]
    types = dict.fromkeys(("count", "line", "ns", "at_ns"), pyarrow.int64())
    arrays = [
        pyarrow.array(values, types.get(name, pyarrow.string()))
        for name, values in zip(names, columns, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, names)


def checked(rows: Iterable[Any]) -> list[Any]:
    """BadHistory: one of them says that its file is none."""
    found = list(rows)
    for row in found:
        if row.error is not None:
            raise BadHistory(f"{row.file}: {row.error}")
    return found


# Judging


def judge_report(spark: SparkSession, path: str, ordered: bool = True) -> Report:
    """One row for each history and kind of fault."""

    def work(events: Events) -> Iterable[Row]:
        return judged(events, ordered)

    rows = checked(each_history(spark, files_in(path), JUDGED, work).collect())
    return judge_table([row[:1] + row[2:] for row in rows])


def judged(events: Events, ordered: bool) -> Iterator[Row]:
    """Summary first, then a row for each kind of fault: its name, count, first line and meaning."""
    verdict = judge(events, ordered)
    yield verdict.format().splitlines()[0], None, None, None, None
    for kind, count in verdict.counts.items():
        yield None, kind.name.lower(), count, min(verdict.lines[kind]), kind.value


def judge_table(rows: Sequence[Sequence[Any]]) -> Report:
    """Of rows with their file in front."""
    named = sorted((Path(row[0]).name, *row[1:]) for row in rows if row[1] is None)
    summary = sorted(f"{Path(row[0]).name}: {row[1]}" for row in rows if row[1] is not None)
    faults = [(name, kind, count, line, meaning) for name, _, kind, count, line, meaning in named]
    columns = ("history", "fault", "count", "first line", "meaning")
    bad = len({row[0] for row in faults})
    title = f"{len(summary)} histories judged, {bad} with faults"
    more = summary[:SUMMARY_MAX]
    if len(summary) > SUMMARY_MAX:
        more.append(f"and {len(summary) - SUMMARY_MAX} more")
    return Report(title, columns, faults, "count", columns[:2], more, bool(faults))


# Latency


def latency_report(spark: SparkSession, path: str) -> Report:
    """End-to-end latency by queue: from before a message is sent to its first delivery."""
    found = each_history(spark, files_in(path), MEASURED, latencies).cache()
    checked(found.where("error IS NOT NULL").take(1))
    measured = found.groupBy("queue").agg(
        F.count("*").alias("messages"), *_percentiles(), F.max("ns").alias("largest")
    )
    rows = [
        (row.queue, row.messages, *(float(each) / NS_PER_MS for each in row[2:]))
        for row in measured.orderBy("queue").collect()
    ]
    found.unpersist()
    return latency_table(rows)


def latencies(events: Events) -> Iterator[tuple[str, int]]:
    """Queue and nanoseconds of each message that was delivered, at its first delivery."""
    sent: dict[str, tuple[str, int]] = {}
    for event in events:
        if event["event"] == "published":
            sent[event["id"]] = event["queue"], event["at_ns"]
        elif event["event"] == "delivered":
            found = sent.pop(event["id"], None)
            if found is not None:
                yield found[0], event["at_ns"] - found[1]


def _percentiles() -> Iterable[Column]:
    return [
        F.expr(f"percentile_disc({each}) WITHIN GROUP (ORDER BY ns)").alias(f"p{place}")
        for place, each in enumerate(PERCENTILES)
    ]


def latency_table(rows: Sequence[tuple[Any, ...]]) -> Report:
    names = [f"p{100 * each:g} ms" for each in PERCENTILES]
    columns = ("queue", "messages", *names, "max ms")
    return Report("End-to-end latency", columns, rows, names[2], ("queue",))


def latency_reference(events: Events) -> Report:
    """The same of one history, in plain Python: what the job must equal."""
    found: dict[str, list[int]] = {}
    for queue, ns in latencies(events):
        found.setdefault(queue, []).append(ns)
    rows = []
    for queue, values in sorted(found.items()):
        values.sort()
        places = [max(0, -int(-each * len(values) // 1) - 1) for each in PERCENTILES]
        ms = [values[place] / NS_PER_MS for place in (*places, -1)]
        rows.append((queue, len(values), *ms))
    return latency_table(rows)


# Keeping


def keep_histories(spark: SparkSession, path: str, folder: str, vhost: str) -> Report:
    """Append the events of histories that are not kept yet to Parquet, by vhost and day."""
    target = f"{folder}/histories"
    files = files_in(path)
    system, place = _opened(target)
    if system.get_file_info(place).type == fs.FileType.Directory:
        known = {row.file for row in spark.read.parquet(target).select("file").distinct().collect()}
        files = [each for each in files if each not in known]
    if not files:
        return kept_table({})
    found = each_history(spark, files, KEPT, kept).cache()
    checked(found.where("error IS NOT NULL").take(1))
    rows = found.drop("error").withColumns({"vhost": F.lit(vhost), "day": F.current_date()})
    rows.write.mode("append").partitionBy("vhost", "day").parquet(target)
    counted = found.groupBy("file", "event").count().collect()
    found.unpersist()
    return kept_table({(row[0], row[1]): row[2] for row in counted})


def kept(events: Events) -> Iterator[Row]:
    """Number of the line, the fields that all histories have, and the others as JSON."""
    for line, event in enumerate(events, 1):
        others = {name: value for name, value in event.items() if name not in OWN}
        yield (line, *(event.get(name) for name in OWN), json.dumps(others))


def kept_table(counts: Mapping[tuple[str, str], int]) -> Report:
    rows = [(Path(file).name, event, count) for (file, event), count in sorted(counts.items())]
    columns = ("history", "event", "events")
    title = (
        f"{sum(counts.values()):,} events of {len({row[0] for row in rows})} histories were kept"
    )
    return Report(title, columns, rows, "events", columns[:2])


def kept_reference(histories: Mapping[str, Events]) -> Report:
    """The same of histories by file, in plain Python: what the job must equal."""
    counts: Counter[tuple[str, str]] = Counter()
    for file, events in histories.items():
        counts.update((file, event["event"]) for event in events)
    return kept_table(counts)
