"""The data source `warren`, as PySpark 4 calls it: reads streams, writes to queues and exchanges.

Readers and writers are pickled and sent to tasks: they hold options alone. Each task opens its own
connection in an event loop of its own.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import pyarrow
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from warren.spark.columns import SCHEMA
from warren.spark.options import (
    OptionError,
    ReadOptions,
    WriteOptions,
    read_options,
    split,
    write_options,
)
from warren.spark.publishing import check_columns, check_target, publish
from warren.spark.stream_reads import Bounds, ReadError, bounds, read

log = logging.getLogger("warren.spark")

BATCH_ID: Final = "streaming.sql.batchId"  # a property that Spark sets for tasks


Places = dict[str, int]  # an offset for each stream, by its name


class Range(InputPartition):
    """Offsets of a stream from `begin` to `end`, exclusively."""

    def __init__(self, stream: str, begin: int, end: int) -> None:
        super().__init__((stream, begin, end))
        self.stream, self.begin, self.end = stream, begin, end


@dataclass
class Published(WriterCommitMessage):
    """What a task has published."""

    count: int
    rejected: int  # of them to the queue for refused rows


class WarrenSource(DataSource):
    """The format `warren`."""

    @classmethod
    def name(cls) -> str:
        return "warren"

    def schema(self) -> str:
        read_options(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> "Reader":
        return Reader(read_options(self.options))

    def streamReader(self, schema: StructType) -> "StreamReader":
        return StreamReader(read_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> "Writer":
        return Writer(self._checked(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        return StreamWriter(self._checked(schema, overwrite))

    def _checked(self, schema: StructType, overwrite: bool) -> WriteOptions:
        options = write_options(self.options)
        check_columns({field.name: field.dataType.typeName() for field in schema}, options)
        if overwrite:
            raise OptionError("mode 'overwrite' is not possible; allowed: append")
        check_target(options)
        return options


class Reader(DataSourceReader):
    """A batch: all messages from the starting offset to the newest one when it is planned."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[Range]:
        found = bounds(self._options)
        begin = begins(self._options, found)
        ends = {name: each.end for name, each in found.items()}
        return ranges(begin, ends, self._options) or [Range("", 0, 0)]

    def read(self, partition: Range) -> Iterator[pyarrow.RecordBatch]:
        return read_range(self._options, partition)


class StreamReader(DataSourceStreamReader):
    """Micro-batches. Offsets are `{"offset": n}`, the next message to read; of a super stream one
    for each partition, by its name.

    `maxMessagesPerTrigger` holds from the second batch on: Spark asks for the newest offset before
    it says where the query is.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._reached: Places | None = None  # the query has been given offsets up to here

    def initialOffset(self) -> Places:
        self._reached = begins(self._options, bounds(self._options))
        return self._told(self._reached)

    def latestOffset(self) -> Places:
        found = bounds(self._options)
        ends = {name: each.end for name, each in found.items()}
        if self._reached is not None:
            reached = {name: self._reached.get(name, each.first) for name, each in found.items()}
            ends = advanced(reached, ends, self._options.per_trigger_max)
        self._reached = ends
        return self._told(ends)

    def partitions(self, start: Places, end: Places) -> Sequence[Range]:
        begin, ends = self._by_stream(start), self._by_stream(end)
        self._reached = {**(self._reached or {}), **ends}
        found = bounds(self._options)
        return ranges(resumed(self._options, begin, ends, found), ends, self._options)

    def read(self, partition: Range) -> Iterator[pyarrow.RecordBatch]:
        return read_range(self._options, partition)

    def _told(self, places: Places) -> Places:
        """As checkpoints have it."""
        return places if self._options.super_stream else {"offset": places[self._options.stream]}

    def _by_stream(self, told: Places) -> Places:
        return told if self._options.super_stream else {self._options.stream: told["offset"]}


def read_range(options: ReadOptions, part: Range) -> Iterator[pyarrow.RecordBatch]:
    return read(replace(options, stream=part.stream), part.begin, part.end)


def begins(options: ReadOptions, found: Mapping[str, Bounds]) -> Places:
    """Where to begin. ReadError: that message is gone."""
    start = options.starting_offset
    if start == "first":
        return {name: each.first for name, each in found.items()}
    if start == "next":
        return {name: each.end for name, each in found.items()}
    return {name: available(options, name, int(start), each) for name, each in found.items()}


def advanced(reached: Mapping[str, int], ends: Mapping[str, int], limit: int | None) -> Places:
    """Where the next micro-batch ends: at the newest messages, or `limit` messages further. Streams
    that are less behind leave their share to the others."""
    behind = {name: max(0, end - reached[name]) for name, end in ends.items()}
    left = sum(behind.values()) if limit is None else limit
    found: Places = {}
    waiting = len(behind)
    for name, count in sorted(behind.items(), key=lambda each: each[1]):
        some = min(count, -(-left // waiting))
        found[name] = reached[name] + some
        left -= some
        waiting -= 1
    return {name: found[name] for name in ends}


def resumed(
    options: ReadOptions,
    start: Mapping[str, int],
    end: Mapping[str, int],
    found: Mapping[str, Bounds],
) -> Places:
    """Where a micro-batch begins in each stream: a partition that is new is read from its oldest
    message on. ReadError: messages, or a partition, are gone."""
    gone = sorted(name for name in end if name not in found and end[name] > start.get(name, 0))
    if gone and options.fail_on_data_loss:
        raise ReadError(
            f"super stream '{options.super_stream}': stream '{gone[0]}' is no partition any more; "
            "failOnDataLoss=false goes on without it"
        )
    return {
        name: available(options, name, start.get(name, found[name].first), found[name])
        for name in end
        if name in found
    }


def available(options: ReadOptions, stream: str, start: int, found: Bounds) -> int:
    """`start`, or the oldest offset if messages may be missing. ReadError: they may not."""
    if start >= found.first:
        return start
    text = (
        f"stream '{stream}': offset {start} is wanted, but the oldest message has offset "
        f"{found.first}: {found.first - start} messages were removed by retention"
    )
    if options.fail_on_data_loss:
        raise ReadError(f"{text}; failOnDataLoss=false goes on with what there is")
    log.warning("%s", text)
    return found.first


def ranges(begin: Mapping[str, int], end: Mapping[str, int], options: ReadOptions) -> list[Range]:
    """Ranges for the tasks; `numPartitions` of all streams together, and at least one of each."""
    parts = max(1, options.partitions // max(1, len(begin)))
    return [
        Range(name, *each)
        for name, first in begin.items()
        for each in split(first, end.get(name, first), parts)
    ]


class Writer(DataSourceWriter):
    """A batch: each task publishes its rows and waits for their confirms.

    Spark repeats a task that fails half-way: then rows are there twice, unless they have ids.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._job = uuid4().hex  # tasks get a copy

    def write(self, iterator: Iterator[Row]) -> Published:
        return published(self._options, iterator, self._job)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.info("published %s", counted(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.error("a write failed; finished tasks have published %s", counted(messages))


class StreamWriter(DataSourceStreamWriter):
    """Micro-batches, each written as `Writer` does."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> Published:
        task = TaskContext.get()
        assert task is not None
        return published(self._options, iterator, f"batch {task.getLocalProperty(BATCH_ID)}")

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        log.info("batch %d: published %s", batchId, counted(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        log.error("batch %d failed; finished tasks have published %s", batchId, counted(messages))


def published(options: WriteOptions, rows: Iterator[Row], job: str) -> Published:
    """Of one task; Spark repeats it with the same partition."""
    task = TaskContext.get()
    assert task is not None
    counts = publish(options, rows, f"{job}/{task.partitionId()}")
    return Published(counts.accepted + counts.rejected, counts.rejected)


def counted(messages: Sequence[WriterCommitMessage | None]) -> str:
    found = [each for each in messages if isinstance(each, Published)]
    rejected = sum(each.rejected for each in found)
    return f"{sum(each.count for each in found)} rows" + (f", {rejected} refused" * (rejected > 0))
