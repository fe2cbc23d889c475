"""Micro-batches of a queue under a lease.

Offsets are `{"batch": n}`: the number of the last batch of the lease that belongs to the query. The
node keeps the messages of a batch until the query is past it, so Spark gets the same messages when
it repeats a task or a micro-batch, in this process or the next one. If the lease is lost with its
node, a repeated batch has what the queue gives then: messages come again, and none is lost.

Numbers are milliseconds since 1970 or the next number, whichever is higher, so they rise even if
the lease was lost. PySpark 4.0 and 4.1 ask for the newest batch before they say where the query is.
There a first question fetches another batch behind those that are held; a query that has not
processed the held ones yet then reads all of them.
"""

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from warren.spark.bodies import shown
from warren.spark.leaders import Leaders
from warren.spark.options import ReadOptions, split
from warren.spark.queue_reads import Full, Held, QueueLease, Settled, Standing, read_batch

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark 4.0 and 4.1 have no read limits.
    ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow = (), (), object

log = logging.getLogger("warren.spark")

Place = dict[str, int]


class Part(InputPartition):
    """`count` messages of a batch from place `first` on, to be read at `address`."""

    def __init__(self, number: int, first: int, count: int, address: str) -> None:
        super().__init__((number, first, count, address))
        self.number, self.first, self.count, self.address = number, first, count, address


class QueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._leaders = Leaders(options)
        self._lease = QueueLease(self._leaders)
        self._reached = 0  # the highest number that Spark has heard of
        self._left: int | None = None  # messages for the trigger `availableNow`

    def __reduce__(self) -> tuple[type["QueueReader"], tuple[ReadOptions]]:
        """Tasks get a copy without connections."""
        return QueueReader, (self._options,)

    def initialOffset(self) -> Place:
        return {"batch": 0}

    def getDefaultReadLimit(self) -> Any:
        """Not all; how much, `latestOffset` decides."""
        return ReadMaxRows(self._options.limits.messages_max or sys.maxsize)

    def prepareForTriggerAvailableNow(self) -> None:
        self._left = self._lease.open().ready

    def latestOffset(self, start: Place | None = None, limit: Any = None) -> Place:
        begin = self._reached if start is None else start["batch"]
        if start is not None:
            self._lease.commit(begin)  # Spark is past it.
        standing = self._lease.open()
        held = max([each.number for each in standing.batches if each.number > begin], default=0)
        if start is None or not held:
            held = self._fetched(standing, begin, limit) or held
        if start is None and not held and not self._reached:
            held = self._next(standing, begin)  # Higher than any number of an earlier process.
        self._reached = max(begin, held)
        return {"batch": self._reached}

    def _fetched(self, standing: Standing, begin: int, limit: Any) -> int:
        """The number of a new batch; 0: the queue has no messages, or the lease no room."""
        is_limited = not isinstance(limit, ReadAllAvailable)
        limits = self._options.limits
        most = limits.messages_max if is_limited else None
        if self._left is not None:
            most = self._left if most is None else min(most, self._left)
        if standing.ready == 0 or most == 0:
            return 0
        number = self._next(standing, begin)
        try:
            batch = self._lease.fetch(number, most, limits.bytes_max if is_limited else None)
        except Full as error:
            log.warning("%s", error)
            return 0
        if self._left is not None:
            self._left -= batch.count
        return number if batch.count else 0

    def _next(self, standing: Standing, begin: int) -> int:
        return max(standing.newest + 1, begin + 1, self._reached + 1, time.time_ns() // 1_000_000)

    def partitions(self, start: Place, end: Place) -> Sequence[Part]:
        begin, last = start["batch"], end["batch"]
        self._reached = max(self._reached, last)
        if begin >= last:  # So PySpark 4.1 begins with a batch that it is going to repeat.
            return []
        self._lease.commit(begin)
        standing = self._lease.open()
        held = [each for each in standing.batches if begin < each.number <= last]
        if not held:
            held = self._again(last)
        address = self._lease.address()
        return [
            Part(each.number, first, stop - first, address)
            for each in held
            for first, stop in split(0, each.count, self._options.partitions)
        ]

    def _again(self, number: int) -> list[Held]:
        """The batch of a lease that was lost: what the queue gives now. ReadError: its messages
        were settled."""
        limits = self._options.limits
        try:
            return [self._lease.fetch(number, limits.messages_max, limits.bytes_max)]
        except Settled as error:
            if self._options.fail_on_data_loss:
                text = (
                    f"{error}; the checkpoint is older than the lease: failOnDataLoss=false goes on"
                )
                raise Settled(text) from error
            log.warning("%s", error)
            return []

    def read(self, partition: Part) -> Iterator[pyarrow.RecordBatch]:
        part = partition
        batches = read_batch(self._options, part.number, part.first, part.count, part.address)
        return shown(self._options, batches)

    def commit(self, end: Place) -> None:
        self._lease.commit(end["batch"])

    def stop(self) -> None:
        self._lease.close()
        self._leaders.close()
