"""The data source `warren`, as PySpark 4 calls it: reads streams, writes to queues and exchanges.

Readers and writers are pickled and sent to tasks: they hold options alone. Each task opens its own
connection in an event loop of its own.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


class Range(InputPartition):
    """Offsets from `begin` to `end`, exclusively."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__((begin, end))
        self.begin, self.end = begin, end


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
        begin = begin_of(self._options, found)
        return ranges(begin, found.end, self._options) or [Range(begin, begin)]

    def read(self, partition: Range) -> Iterator[pyarrow.RecordBatch]:
        return read(self._options, partition.begin, partition.end)


class StreamReader(DataSourceStreamReader):
    """Micro-batches. Offsets are `{"offset": n}`: the next message to read.

    `maxMessagesPerTrigger` holds from the second batch on: Spark asks for the newest offset before
    it says where the query is.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._reached: int | None = None  # the query has been given offsets up to here

    def initialOffset(self) -> dict[str, int]:
        found = bounds(self._options)
        self._reached = begin_of(self._options, found)
        return {"offset": self._reached}

    def latestOffset(self) -> dict[str, int]:
        end = bounds(self._options).end
        limit = self._options.per_trigger_max
        if self._reached is not None:
            end = max(end, self._reached)
            if limit is not None:
                end = min(end, self._reached + limit)
        self._reached = end
        return {"offset": end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Range]:
        self._reached = max(self._reached or 0, end["offset"])
        begin = available(self._options, start["offset"], bounds(self._options))
        return ranges(begin, end["offset"], self._options)

    def read(self, partition: Range) -> Iterator[pyarrow.RecordBatch]:
        return read(self._options, partition.begin, partition.end)


def begin_of(options: ReadOptions, found: Bounds) -> int:
    """Where to begin. ReadError: that message is gone."""
    start = options.starting_offset
    if start == "first":
        return found.first
    if start == "next":
        return found.end
    return available(options, int(start), found)


def available(options: ReadOptions, start: int, found: Bounds) -> int:
    """`start`, or the oldest offset if messages may be missing. ReadError: they may not."""
    if start >= found.first:
        return start
    text = (
        f"stream '{options.stream}': offset {start} is wanted, but the oldest message has offset "
        f"{found.first}: {found.first - start} messages were removed by retention"
    )
    if options.fail_on_data_loss:
        raise ReadError(f"{text}; failOnDataLoss=false goes on with what there is")
    log.warning("%s", text)
    return found.first


def ranges(begin: int, end: int, options: ReadOptions) -> list[Range]:
    return [Range(*each) for each in split(begin, end, options.partitions)]


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
