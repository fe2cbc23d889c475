"""Reads ranges of offsets of a stream as Arrow batches. Knows the client, not Spark."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import pyarrow

from warren.client import ClientError, Consumer, Message, connect
from warren.spark.options import ReadOptions
from warren.wire.amqp10.values import Described, Symbol, ULong

log = logging.getLogger("warren.spark")

OFFSET_FILTER: Final = Symbol("rabbitmq:stream-offset-spec")
OFFSET: Final = "x-stream-offset"
CREDIT: Final = 2000
ROWS_MAX: Final = 10_000  # of a batch
TEXT: Final = pyarrow.string()
COLUMNS: Final = pyarrow.schema(
    [
        ("queue", TEXT),
        ("exchange", TEXT),
        ("routing_key", TEXT),
        ("offset", pyarrow.int64()),
        ("message_id", TEXT),
        ("correlation_id", TEXT),
        ("content_type", TEXT),
        ("headers", pyarrow.map_(TEXT, TEXT)),
        ("annotations", pyarrow.map_(TEXT, TEXT)),
        ("body", pyarrow.binary()),
    ]
)
SCHEMA: Final = """queue string, exchange string, routing_key string, offset bigint,
    message_id string, correlation_id string, content_type string,
    headers map<string,string>, annotations map<string,string>, body binary"""


class ReadError(Exception):
    """The messages that were asked for cannot be read."""


@dataclass(frozen=True)
class Bounds:
    """Offsets of a stream: of the oldest message, and the one behind the newest."""

    first: int
    end: int


def bounds(options: ReadOptions) -> Bounds:
    """ReadError: there is no such stream, or the broker cannot be asked."""
    try:
        return asyncio.run(_bounds(options))
    except (ClientError, OSError, TimeoutError) as error:
        raise ReadError(f"stream '{options.stream}': {error or 'no answer'}") from error


async def _bounds(options: ReadOptions) -> Bounds:
    async with await connect(options.url, timeout_s=options.timeout_s, follow=None) as connection:
        management = await connection.management()
        info = await management.queue(options.stream)
        if info["type"] != "stream":
            raise ReadError(
                f"option 'stream': queue '{options.stream}' has the type '{info['type']}'"
            )
        count = int(str(info["message_count"]))
        if count == 0:
            return Bounds(0, 0)
        consumer = await connection.consumer(_address(options), credit=1, filters=_from(0))
        first = _offset(await _first(consumer, options))
        return Bounds(first, first + count)


async def _first(consumer: Consumer, options: ReadOptions) -> Message:
    return (await consumer.get(timeout_s=options.timeout_s)).message


def read(options: ReadOptions, begin: int, end: int) -> Iterator[pyarrow.RecordBatch]:
    """The rows from offset `begin` to `end`, exclusively. ReadError: a message is missing."""
    if begin >= end:
        return
    with asyncio.Runner() as runner:
        batches = _batches(options, begin, end)

        async def following() -> pyarrow.RecordBatch | None:
            return await anext(batches, None)

        try:
            while (batch := runner.run(following())) is not None:
                yield batch
        except (ClientError, OSError, TimeoutError) as error:
            where = f"stream '{options.stream}', offsets {begin} to {end - 1}"
            raise ReadError(f"{where}: {error or 'no answer in time'}") from error
        finally:
            runner.run(batches.aclose())


async def _batches(
    options: ReadOptions, begin: int, end: int
) -> AsyncGenerator[pyarrow.RecordBatch, None]:
    async with await connect(options.url, timeout_s=options.timeout_s, follow=None) as connection:
        consumer = await connection.consumer(
            _address(options), credit=CREDIT, filters=_from(begin), settled=True
        )
        wanted = begin
        rows = Rows(options.stream)
        while wanted < end:
            for delivery in await consumer.get_many(timeout_s=options.timeout_s):
                message = delivery.message
                found = _offset(message)
                if found != wanted:
                    _check_gap(options, wanted, found)
                if found >= end:
                    wanted = end
                    break
                rows.add(found, message)
                wanted = found + 1
            if rows.count and (rows.count >= ROWS_MAX or wanted >= end):
                yield rows.take()


def _check_gap(options: ReadOptions, wanted: int, found: int) -> None:
    """ReadError, unless messages may be missing."""
    text = (
        f"stream '{options.stream}': offset {wanted} is wanted, but the next message has offset "
        f"{found}: {found - wanted} messages were removed by retention"
    )
    if options.fail_on_data_loss or found < wanted:
        raise ReadError(f"{text}; failOnDataLoss=false goes on with what there is")
    log.warning("%s", text)


class Rows:
    """Columns that grow row by row, until they are taken as one batch."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._columns: list[list[object]] = []
        self.count = 0
        self._clear()

    def _clear(self) -> None:
        self._columns = [[] for _ in COLUMNS]
        self.count = 0

    def add(self, offset: int, message: Message) -> None:
        annotations = message.annotations
        body = message.body
        row = (
            self._stream,
            _text(annotations.get("x-exchange")),
            _text(annotations.get("x-routing-key")),
            offset,
            _text(message.message_id),
            _text(message.correlation_id),
            message.content_type,
            _pairs(message.application_properties),
            _pairs(annotations),
            body if isinstance(body, bytes) else str(body).encode(),
        )
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)
        self.count += 1

    def take(self) -> pyarrow.RecordBatch:
        arrays = [
            pyarrow.array(column, field.type)
            for column, field in zip(self._columns, COLUMNS, strict=True)
        ]
        self._clear()
        return pyarrow.RecordBatch.from_arrays(arrays, schema=COLUMNS)


def _address(options: ReadOptions) -> str:
    return "/queues/" + quote(options.stream, safe="")


def _from(offset: int) -> dict[object, object]:
    return {OFFSET_FILTER: Described(OFFSET_FILTER, ULong(offset))}


def _offset(message: Message) -> int:
    return int(str(message.annotations[OFFSET]))


def _pairs(values: dict[str, object]) -> list[tuple[str, str | None]]:
    return [(str(name), _text(each)) for name, each in values.items()]


def _text(value: object) -> str | None:
    return None if value is None else str(value)
