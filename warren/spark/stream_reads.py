"""Reads ranges of offsets of a stream as Arrow batches. Knows the client, not Spark."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from itertools import accumulate
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
    """Collect messages and build one Arrow batch of them, column by column."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._offsets: list[int] = []
        self._messages: list[Message] = []

    @property
    def count(self) -> int:
        return len(self._offsets)

    def add(self, offset: int, message: Message) -> None:
        self._offsets.append(offset)
        self._messages.append(message)

    def take(self) -> pyarrow.RecordBatch:
        """Return the rows added since the last call."""
        messages, offsets = self._messages, self._offsets
        self._messages, self._offsets = [], []
        notes = [each.annotations for each in messages]
        arrays = [
            pyarrow.repeat(self._stream, len(messages)),
            _texts([each.get("x-exchange") for each in notes]),
            _texts([each.get("x-routing-key") for each in notes]),
            pyarrow.array(offsets, pyarrow.int64()),
            _texts([each.message_id for each in messages]),
            _texts([each.correlation_id for each in messages]),
            _texts([each.content_type for each in messages]),
            _maps([each.application_properties for each in messages]),
            _maps(notes),
            pyarrow.array([_bytes(each.body) for each in messages], pyarrow.binary()),
        ]
        return pyarrow.RecordBatch.from_arrays(arrays, schema=COLUMNS)


def _texts(values: list[object]) -> pyarrow.Array:
    return pyarrow.array([_text(each) for each in values], TEXT)


def _maps(rows: list[dict[str, object]]) -> pyarrow.MapArray:
    # Flat keys and values: a list of pairs per row costs pyarrow more than twice the time.
    ends = accumulate(map(len, rows), initial=0)
    return pyarrow.MapArray.from_arrays(
        pyarrow.array(ends, pyarrow.int32()),
        _texts([name for row in rows for name in row]),
        _texts([each for row in rows for each in row.values()]),
    )


def _bytes(body: object) -> bytes:
    return body if isinstance(body, bytes) else str(body).encode()


def _address(options: ReadOptions) -> str:
    return "/queues/" + quote(options.stream, safe="")


def _from(offset: int) -> dict[object, object]:
    return {OFFSET_FILTER: Described(OFFSET_FILTER, ULong(offset))}


def _offset(message: Message) -> int:
    return int(str(message.annotations[OFFSET]))


def _text(value: object) -> str | None:
    return value if value is None or type(value) is str else str(value)
