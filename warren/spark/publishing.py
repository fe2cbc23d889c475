"""Publishes rows with confirms. Knows the client, not Spark.

Columns: `body` (binary or string) must be there; `routing_key`, `message_id`, `correlation_id`,
`content_type` (strings) and `headers` (a map) may be. Other columns are refused before anything
is sent.

With `publisherId` each message has an id (`_AMQ_DUPL_ID`) by which a queue or stream with
`id-cache-size` drops what Spark repeats. The id has the content of the row in it: a row that
differs is never taken for a repeated one, and the order of the rows of a task does not matter.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from time import monotonic
from typing import Any, Final
from urllib.parse import quote

from warren.client import ClientError, Connection, Message, Publisher, connect
from warren.spark.options import OptionError, WriteOptions

log = logging.getLogger("warren.spark")

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
REASON: Final = "x-rejected-reason"
REASON_MAX: Final = 200  # characters
BATCH: Final = 1000  # rows whose confirms are awaited together
TEXTS: Final = ("message_id", "correlation_id", "content_type")
TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "routing_key": ("string",),
    "headers": ("map",),
    **dict.fromkeys(TEXTS, ("string",)),
}


class WriteError(Exception):
    """A row was not accepted by the broker, or the broker cannot be reached."""


def check_columns(columns: Mapping[str, str], options: WriteOptions) -> None:
    """`columns`: type names by column. OptionError names the column that does not fit."""
    if "body" not in columns:
        raise OptionError(f"column 'body' is missing; there are: {', '.join(columns)}")
    for name, kind in columns.items():
        allowed = TYPES.get(name)
        if allowed is None:
            raise OptionError(f"column '{name}' is unknown; known: {', '.join(TYPES)}")
        if kind not in allowed:
            raise OptionError(
                f"column '{name}' has the type '{kind}'; allowed: {', '.join(allowed)}"
            )
    if "routing_key" in columns and options.exchange is None:
        raise OptionError("column 'routing_key' needs the option 'exchange'")


@dataclass(frozen=True)
class Counts:
    """What became of the rows of a task."""

    accepted: int
    rejected: int  # and published to `rejectedQueue`


class RowIds:
    """Ids for the rows of one task; the same when Spark repeats the task.

    Equal rows of a task differ by their number. Keeps 16 bytes and a number for each row.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._seen: Counter[bytes] = Counter()

    def id_of(self, message: Message) -> str:
        said = (
            *(message.body, message.to, message.message_id, message.correlation_id),
            *(message.content_type, sorted(message.application_properties.items())),
        )
        digest = blake2b(repr(said).encode("utf-8", "replace"), digest_size=16).digest()
        self._seen[digest] += 1
        return f"{self._prefix}/{digest.hex()}/{self._seen[digest]}"


def check_target(options: WriteOptions) -> None:
    """Warn if the queue does not drop repeated rows by itself. WriteError: no answer."""
    if not options.publisher_id or options.queue is None:
        return
    try:
        found = asyncio.run(_described(options, options.queue))
    except (ClientError, OSError, TimeoutError) as error:
        raise WriteError(f"{_target(options)}: {error or 'no answer in time'}") from error
    arguments = found["arguments"]
    if not isinstance(arguments, dict) or "x-id-cache-size" not in arguments:
        log.warning(
            "%s has no argument x-id-cache-size: unless a policy sets id-cache-size, rows that "
            "Spark repeats are there twice",
            _target(options),
        )


async def _described(options: WriteOptions, queue: str) -> dict[str, object]:
    async with await connect(options.url, timeout_s=options.timeout_s, follow=None) as connection:
        return await (await connection.management()).queue(queue)


def publish(options: WriteOptions, rows: Iterable[Any], job: str) -> Counts:
    """Publish all rows. WriteError: one of them was not accepted.

    `job`: the same when Spark repeats this task, and no other task of this publisher has it.
    """
    try:
        return asyncio.run(_Task(options, job).publish(rows))
    except (ClientError, OSError, TimeoutError) as error:
        raise WriteError(f"{_target(options)}: {error or 'no confirm in time'}") from error


class _Task:
    """The rows of one task on their way."""

    def __init__(self, options: WriteOptions, job: str) -> None:
        self._options = options
        self._ids = RowIds(f"{options.publisher_id}/{job}") if options.publisher_id else None
        self._rejected: list[Message] = []
        self._accepted_count = self._rejected_count = 0

    async def publish(self, rows: Iterable[Any]) -> Counts:
        options, left = self._options, iter(rows)
        async with await connect(options.url, timeout_s=options.timeout_s) as connection:
            # Without a routing key of their own all rows go to one address.
            publisher = await connection.publisher(
                None if options.queue is None else f"/queues/{quote(options.queue, '')}"
            )
            began_s, size = monotonic(), min(BATCH, options.per_second_max or BATCH)
            while batch := [self._message(row.asDict()) for row in islice(left, size)]:
                await self._send(publisher, batch)
                if options.per_second_max is not None:
                    sent = self._accepted_count + self._rejected_count
                    due_s = began_s + sent / options.per_second_max
                    await asyncio.sleep(max(0.0, due_s - monotonic()))
                if self._rejected:
                    await self._pass_on(connection)
        return Counts(self._accepted_count, self._rejected_count)

    def _message(self, row: Mapping[str, Any]) -> Message:
        message = message_of(self._options, row)
        if self._ids is not None:
            message.application_properties[DUPLICATE_ID] = self._ids.id_of(message)
        return message

    async def _send(self, publisher: Publisher, batch: list[Message]) -> None:
        options = self._options
        outcomes = await publisher.publish_many(batch, timeout_s=options.timeout_s)
        first = self._accepted_count + self._rejected_count
        for place, (message, outcome) in enumerate(zip(batch, outcomes, strict=True)):
            if outcome.is_accepted:
                self._accepted_count += 1
                continue
            why = outcome.error or "no queue took it"
            text = f"{_target(options)}: row {first + place} of this task was {outcome.kind}: {why}"
            if options.rejected_queue is None:
                raise WriteError(text)
            message.application_properties[REASON] = text[:REASON_MAX]
            message.to = None
            self._rejected.append(message)
            self._rejected_count += 1

    async def _pass_on(self, connection: Connection) -> None:
        """Publish what was refused to the queue for that."""
        options, messages = self._options, self._rejected
        self._rejected = []
        publisher = await connection.publisher(f"/queues/{quote(options.rejected_queue or '', '')}")
        outcomes = await publisher.publish_many(messages, timeout_s=options.timeout_s)
        await publisher.close()
        if not all(each.is_accepted for each in outcomes):
            raise WriteError(f"queue '{options.rejected_queue}' refused a row that was refused")


def message_of(options: WriteOptions, row: Mapping[str, Any]) -> Message:
    """One row as a durable message."""
    body = row["body"]
    if body is None:
        raise WriteError("column 'body' is null in a row")
    message = Message(
        body.encode() if isinstance(body, str) else bytes(body),
        application_properties=dict(row.get("headers") or {}),
        **{name: row[name] for name in TEXTS if row.get(name) is not None},
    )
    if options.exchange is not None:
        key = row.get("routing_key")
        message.to = _exchange(options.exchange, options.routing_key if key is None else key)
    return message


def _exchange(name: str, key: str) -> str:
    address = f"/exchanges/{quote(name, '')}"
    return f"{address}/{quote(key, '')}" if key else address


def _target(options: WriteOptions) -> str:
    kind = "queue" if options.exchange is None else "exchange"
    return f"{kind} '{options.queue if options.exchange is None else options.exchange}'"
