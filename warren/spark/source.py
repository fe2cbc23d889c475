"""The data source `warren`, as PySpark 4 calls it: reads streams, writes to queues and exchanges.

Readers and writers are pickled and sent to tasks: they hold options alone. Each task opens its own
connection in an event loop of its own.
"""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final
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

from warren.spark.bodies import body_type, shown
from warren.spark.columns import schema_of
from warren.spark.leaders import Leaders
from warren.spark.options import (
    OptionError,
    ReadOptions,
    WriteOptions,
    read_options,
    split,
    write_options,
)
from warren.spark.publishing import check_columns, check_target, publish
from warren.spark.queue_source import QueueReader
from warren.spark.stream_reads import Bounds, ReadError, bounds, mean_bytes, offsets_at, read

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark 4.0 and 4.1 have no read limits.
    ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow = (), (), object

log = logging.getLogger("warren.spark")

BATCH_ID: Final = "streaming.sql.batchId"  # a property that Spark sets for tasks


Places = dict[str, int]  # an offset for each stream, by its name


class Range(InputPartition):
    """Offsets of a stream from `begin` to `end`, exclusively; `address`: of the node to read at,
    empty: that of the option `url`."""

    def __init__(self, stream: str, begin: int, end: int, address: str = "") -> None:
        super().__init__((stream, begin, end, address))
        self.stream, self.begin, self.end, self.address = stream, begin, end, address


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
        options = read_options(self.options)
        return schema_of(options, body_type(options))

    def reader(self, schema: StructType) -> "Reader":
        options = read_options(self.options)
        if options.queue:
            raise OptionError(
                "option 'queue' is for spark.readStream, which says when messages are done with; "
                "use readStream with trigger(availableNow=True)"
            )
        if not options.push_filters:
            return Reader(options)
        try:
            from warren.spark.pushing import PushingReader
        except ImportError as error:
            raise OptionError(f"option 'pushFilters' needs PySpark 4.1 or newer: {error}") from None
        return PushingReader(options)

    def streamReader(self, schema: StructType) -> "StreamReader | QueueReader":
        options = read_options(self.options)
        if options.queue:
            return QueueReader(options)
        if options.ending_offset is not None or options.ending_ms is not None:
            name = "endingTimestamp" if options.ending_offset is None else "endingOffset"
            raise OptionError(f"option '{name}' is for spark.read; a streaming query has no end")
        return StreamReader(options)

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
    """A batch: all messages from the start to the end, or the newest one when it is planned."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[Range]:
        with closing(Leaders(self._options)) as leaders:
            found = bounds(leaders)
            begin, end = self.cut(begins(leaders, found), ended(leaders, found))
            return ranges(begin, end, leaders) or [Range("", 0, 0)]

    def cut(self, begin: Places, end: Places) -> tuple[Places, Places]:
        """What of each stream is to be read."""
        return begin, end

    def read(self, partition: Range) -> Iterator[pyarrow.RecordBatch]:
        return read_range(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches. Offsets are `{"offset": n}`, the next message to read; of a super stream one
    for each partition, by its name.

    PySpark 4.0 and 4.1 ask for the newest offset before they say where the query is: there limits
    hold from the second micro-batch on.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._leaders = Leaders(options)
        self._reached: Places | None = None  # the query has been given offsets up to here
        self._target: Places | None = None  # of the trigger `availableNow`
        self._begun_s: float | None = None  # when the last micro-batch began

    def initialOffset(self) -> Places:
        self._reached = begins(self._leaders, bounds(self._leaders))
        return self._told(self._reached)

    def getDefaultReadLimit(self) -> Any:
        """Not all; how much, `latestOffset` decides."""
        return ReadMaxRows(self._options.limits.messages_max or sys.maxsize)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {name: each.end for name, each in bounds(self._leaders).items()}

    def latestOffset(self, start: Places | None = None, limit: Any = None) -> Places:
        found = bounds(self._leaders)
        ends = {name: each.end for name, each in found.items()}
        if self._target is not None:
            target = self._target
            ends = {name: min(end, target[name]) for name, end in ends.items() if name in target}
        reached = self._reached if start is None else self._by_stream(start)
        if reached is not None:
            begin = {name: max(reached.get(name, 0), found[name].first) for name in ends}
            is_limited = not isinstance(limit, ReadAllAvailable)
            if is_limited and self._waits(begin, ends):
                return self._told(reached)
            ends = advanced(begin, ends, self._most(begin, ends) if is_limited else None)
        self._reached = ends
        return self._told(ends)

    def _waits(self, begin: Places, ends: Places) -> bool:
        """Whether there are too few messages for a micro-batch yet."""
        limits, now_s = self._options.limits, monotonic()
        count = behind(begin, ends)
        if self._begun_s is not None and self._target is None:
            is_few = limits.messages_min is not None and count < limits.messages_min
            if is_few and now_s - self._begun_s < limits.delay_max_s:
                return True
        if count > 0:
            self._begun_s = now_s
        return False

    def _most(self, begin: Places, ends: Places) -> int | None:
        """How many messages the next micro-batch may have."""
        limits = self._options.limits
        if limits.bytes_max is None or behind(begin, ends) == 0:
            return limits.messages_max
        most = max(1, int(limits.bytes_max / mean_bytes(self._leaders, begin, ends)))
        return most if limits.messages_max is None else min(most, limits.messages_max)

    def partitions(self, start: Places, end: Places) -> Sequence[Range]:
        begin, ends = self._by_stream(start), self._by_stream(end)
        self._reached = {**(self._reached or {}), **ends}
        found = bounds(self._leaders)
        return ranges(resumed(self._options, begin, ends, found), ends, self._leaders)

    def read(self, partition: Range) -> Iterator[pyarrow.RecordBatch]:
        return read_range(self._options, partition)

    def stop(self) -> None:
        self._leaders.close()

    def _told(self, places: Places) -> Places:
        """As checkpoints have it."""
        return places if self._options.super_stream else {"offset": places[self._options.stream]}

    def _by_stream(self, told: Places) -> Places:
        return told if self._options.super_stream else {self._options.stream: told["offset"]}


def read_range(options: ReadOptions, part: Range) -> Iterator[pyarrow.RecordBatch]:
    own = replace(options, stream=part.stream)
    return shown(options, read(own, part.begin, part.end, part.address))


def begins(leaders: Leaders, found: Mapping[str, Bounds]) -> Places:
    """Where to begin. ReadError: that message is gone."""
    options = leaders.options
    if options.starting_ms is not None:
        return offsets_at(leaders, options.starting_ms, found)
    start = options.starting_offset
    if start == "first":
        return {name: each.first for name, each in found.items()}
    if start == "next":
        return {name: each.end for name, each in found.items()}
    return {name: available(options, name, int(start), each) for name, each in found.items()}


def ended(leaders: Leaders, found: Mapping[str, Bounds]) -> Places:
    """Where a batch ends, exclusively."""
    options = leaders.options
    ends = {name: each.end for name, each in found.items()}
    if options.ending_offset is not None:
        return {name: min(end, options.ending_offset) for name, end in ends.items()}
    return ends if options.ending_ms is None else offsets_at(leaders, options.ending_ms, found)


def behind(begin: Mapping[str, int], ends: Mapping[str, int]) -> int:
    """Messages from `begin` to `ends`."""
    return sum(max(0, end - begin[name]) for name, end in ends.items())


def advanced(reached: Mapping[str, int], ends: Mapping[str, int], limit: int | None) -> Places:
    """Where the next micro-batch ends: at the newest messages, or `limit` messages further. Streams
    that are less behind leave their share to the others."""
    counts = {name: max(0, end - reached[name]) for name, end in ends.items()}
    left = sum(counts.values()) if limit is None else limit
    found: Places = {}
    waiting = len(counts)
    for name, count in sorted(counts.items(), key=lambda each: each[1]):
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


def ranges(begin: Mapping[str, int], end: Mapping[str, int], leaders: Leaders) -> list[Range]:
    """Ranges for the tasks; `numPartitions` of all streams together, and at least one of each."""
    parts = max(1, leaders.options.partitions // max(1, len(begin)))
    cuts = {name: split(first, end.get(name, first), parts) for name, first in begin.items()}
    addresses = leaders.addresses([name for name, each in cuts.items() if each])
    return [
        Range(name, *each, addresses.get(name, "")) for name, made in cuts.items() for each in made
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
