"""The data source `warren`, as PySpark 4 calls it: reads streams, writes to queues and exchanges.

Readers and writers are pickled and sent to tasks: they hold options alone. Each task opens its own
connection in an event loop of its own.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow
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
from warren.spark.publishing import check_columns, publish
from warren.spark.stream_reads import Bounds, ReadError, bounds, read

log = logging.getLogger("warren.spark")


class Range(InputPartition):
    """Offsets from `begin` to `end`, exclusively."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__((begin, end))
        self.begin, self.end = begin, end


@dataclass
class Published(WriterCommitMessage):
    """What a task has published."""

    count: int


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

    A task that fails half-way is repeated by Spark, so that rows may be there twice.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> Published:
        return Published(publish(self._options, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.info("published %d rows", counted(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.error("a write failed; %d rows of finished tasks were published", counted(messages))


class StreamWriter(DataSourceStreamWriter):
    """Micro-batches, each written as `Writer` does."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> Published:
        return Published(publish(self._options, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        log.info("batch %d: published %d rows", batchId, counted(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        log.error(
            "batch %d failed; %d rows of finished tasks were published", batchId, counted(messages)
        )


def counted(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(each.count for each in messages if isinstance(each, Published))
